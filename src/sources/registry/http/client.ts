/** Sends requests to a registry's HTTP API (OCI distribution specification): authentication, retries, redirects, limits. */

import { createHash } from "node:crypto";
import { open } from "node:fs/promises";
import type { Dispatcher } from "undici";

import {
  exponentialDelay,
  formatUtc,
  oneLine,
  readAtMost,
  sleep,
  systemClock,
  type Clock,
} from "../../../base/index.ts";
import type { Login } from "./docker-config.ts";
import {
  describeStatus,
  isTransientError,
  NoAnswerError,
  RegistryError,
  toRegistryError,
} from "../errors.ts";
import { Connections, REGISTRY_TIMEOUT_MS, type ConnectionOptions } from "./connections.ts";
import { RegistryPauses, TRANSIENT_STATUSES, readRetryAfter } from "./pauses.ts";
import { CHART_REPOSITORY_SCHEMES, findChallenge, REGISTRY_SCHEMES, RegistryAuth } from "./tokens.ts";
import { AddressGuard } from "./trust.ts";

export interface ClientOptions extends ConnectionOptions {
  /** Host and port. */
  readonly host: string;
  /** Whether to use HTTP, for a registry without TLS. */
  readonly plainHttp?: boolean | undefined;
  /** Reads the credentials for each use, so that rotated ones take effect at once. */
  readonly readLogin?: () => Login | undefined;
  /**
   * For a chart repository: sends user and password at once, because some send no challenge and hide their content, and
   * follows no challenge to a token server.
   */
  readonly usesBasicAuth?: boolean;
  readonly clock?: Clock;
  /** Pauses that registries have asked for; shared by the clients of all checks. */
  readonly pauses?: RegistryPauses | undefined;
  /** Called with the HTTP status of each answer, or with `error` if there is no answer; for metrics. */
  readonly onAnswer?: ((code: string) => void) | undefined;
}

/** One request to a registry. It is sent again after a transient failure. */
export interface RegistryRequest {
  readonly method: "GET" | "HEAD" | "POST" | "PUT";
  /** Path and query below the registry, or the whole URL that the registry named. */
  readonly path: string | URL;
  /** What the token must allow: `repository:NAME:pull` or `repository:NAME:pull,push`. */
  readonly scope: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: Buffer;
  /** Expected bytes of a long answer: the time limit grows with them. */
  readonly size?: number;
}

/** An answer whose body is not read yet. */
export interface RegistryAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly body: Dispatcher.ResponseData["body"];
  /** The URL that answered, after redirects. */
  readonly url: URL;
}

const MAX_ATTEMPTS = 3;
const RETRY_DELAY = { firstMs: 250, maxMs: 3000 };
/** A longer `Retry-After` is an error: the caller retries later instead of waiting. */
const MAX_RETRY_AFTER_MS = 10_000;
const REDIRECT_STATUSES: ReadonlySet<number> = new Set([301, 302, 303, 307, 308]);
const MAX_REDIRECTS = 5;
/** The slowest accepted transfer of a long body; a slower registry could block a check for days. */
const MIN_BYTES_PER_MS = 64;
/** Challenges of one request that are answered: a registry may demand Basic first, and then Bearer. */
const MAX_CHALLENGES = 2;
const MAX_ERROR_BYTES = 64 * 1024;
const DISCARD_TIMEOUT_MS = 1000;

/** Sends requests to one registry or chart repository. */
export class RegistryClient {
  readonly registryUrl: URL;
  readonly #connections: Connections;
  readonly #guard: AddressGuard;
  readonly #auth: RegistryAuth;
  readonly #schemes: readonly string[];
  readonly #pauses: RegistryPauses;
  readonly #clock: Clock;
  readonly #onAnswer: (code: string) => void;
  readonly #timeoutMs: number;

  constructor(options: ClientOptions) {
    const { host, plainHttp = false, readLogin = () => undefined } = options;
    const { clock = systemClock, usesBasicAuth = false, pauses = new RegistryPauses() } = options;
    this.#timeoutMs = options.timeoutMs ?? REGISTRY_TIMEOUT_MS;
    this.#onAnswer = options.onAnswer ?? (() => {});
    this.registryUrl = new URL(`${plainHttp ? "http" : "https"}://${host}/`);
    this.#clock = clock;
    this.#pauses = pauses;
    this.#connections = new Connections(options);
    this.#guard = new AddressGuard(this.registryUrl);
    this.#schemes = usesBasicAuth ? CHART_REPOSITORY_SCHEMES : REGISTRY_SCHEMES;
    this.#auth = new RegistryAuth({
      registryUrl: this.registryUrl,
      connections: this.#connections,
      guard: this.#guard,
      readLogin,
      usesBasicAuth,
      clock,
      timeoutMs: this.#timeoutMs,
    });
  }

  /**
   * Sends a request with authentication, follows redirects of reads, and retries after transient failures. Returns the
   * answer, whatever its status is; the caller must read or discard its body. Throws RegistryError if the last attempt
   * fails or has a transient status, and while a pause that the registry has asked for is not over.
   */
  async send(request: RegistryRequest): Promise<RegistryAnswer> {
    this.#requireNoPause(request);
    for (let attempts = 1; ; attempts += 1) {
      const answer = await this.#attempt(request);
      const pause = getRetryPauseMs(answer, this.#clock);
      const isTooLong = pause !== undefined && pause > MAX_RETRY_AFTER_MS;
      if (isTooLong) this.#pauses.begin(this.registryUrl.host, this.#clock.now(), pause);
      const isLast = pause === undefined || attempts === MAX_ATTEMPTS || isTooLong;
      if (answer instanceof RegistryError) {
        if (isLast) throw this.#withPause(answer);
      } else {
        if (pause === undefined) return answer;
        if (isLast) throw this.#withPause(await this.toStatusError(request, answer));
        await discardBody(answer.body);
      }
      await sleep(this.#clock, Math.max(pause, exponentialDelay(attempts, RETRY_DELAY)));
    }
  }

  /** Throws RegistryError while a pause that the registry has asked for is not over: then it gets no request. */
  #requireNoPause(request: RegistryRequest): void {
    const pausedUntil = this.#pauses.find(this.registryUrl.host, this.#clock.now());
    if (pausedUntil === undefined) return;
    const text = `${this.#describeRequest(request)}: not sent`;
    throw this.#withPause(new RegistryError(text, TOO_MANY_REQUESTS));
  }

  /** Adds to an error until when the registry gets no more requests. */
  #withPause(error: RegistryError): RegistryError {
    const retryAt = this.#pauses.find(this.registryUrl.host, this.#clock.now());
    if (retryAt === undefined || error instanceof NoAnswerError) return error;
    const text = `${error.message}; the registry asks for a pause until ${formatUtc(retryAt)}`;
    return new RegistryError(text, error.status, { cause: error.cause, retryAt });
  }

  /** Sends a request and reads the body. Throws RegistryError for another status and for a body over `limit` bytes. */
  async sendAndRead(
    request: RegistryRequest,
    statuses: readonly number[],
    limit: number,
  ): Promise<RegistryAnswer & { readonly bytes: Buffer }> {
    const answer = await this.send(request);
    if (!statuses.includes(answer.status)) throw await this.toStatusError(request, answer);
    try {
      const bytes = await readAtMost(answer.body, limit);
      if (bytes === undefined) throw new Error(`the answer is longer than ${limit} bytes`);
      return { ...answer, bytes };
    } catch (error) {
      throw this.#toBodyError(request, error);
    }
  }

  /**
   * Sends a request, and reads the body while it arrives: computes its digest and size, and writes it to a new file, unless
   * `file` is undefined. Returns undefined if the body is longer than `limit`; the file is then incomplete. Throws
   * RegistryError, and errors of the file.
   */
  async sendAndSave(
    request: RegistryRequest,
    file: string | undefined,
    limit: number,
  ): Promise<{ readonly digest: string; readonly size: number } | undefined> {
    const answer = await this.send(request);
    if (answer.status !== 200) throw await this.toStatusError(request, answer);
    const hash = createHash("sha256");
    let size = 0;
    await using handle = file === undefined ? undefined : await open(file, "wx", 0o600);
    for await (const chunk of this.#readChunks(request, answer)) {
      size += chunk.length;
      if (size > limit) return undefined;
      hash.update(chunk);
      // A single write may be a short one, which a full disk makes without an error.
      await handle?.writeFile(chunk);
    }
    await handle?.sync();
    return { digest: `sha256:${hash.digest("hex")}`, size };
  }

  /** Yields the body of an answer in chunks. Turns a connection error into a RegistryError that names the request. */
  async *#readChunks(request: RegistryRequest, { body }: RegistryAnswer): AsyncGenerator<Buffer> {
    try {
      for await (const chunk of body) yield chunk as Buffer;
    } catch (error) {
      throw this.#toBodyError(request, error);
    }
  }

  /** The error for an answer whose body could not be read completely. */
  #toBodyError(request: RegistryRequest, error: unknown): RegistryError {
    return new RegistryError(`${this.#describeRequest(request)}: ${oneLine(error)}`, undefined, {
      cause: error,
    });
  }

  /** The error for a status that the caller does not accept, with the registry's message and a remedy. */
  async toStatusError(request: RegistryRequest, { status, body }: RegistryAnswer): Promise<RegistryError> {
    const bytes = (await readAtMost(body, MAX_ERROR_BYTES).catch(() => undefined)) ?? Buffer.alloc(0);
    return new RegistryError(`${this.#describeRequest(request)}: ${describeStatus(status, bytes)}`, status);
  }

  /** Closes all connections, also those that are in use. */
  close(): Promise<void> {
    return this.#connections.close();
  }

  /** Names a request in messages by host, method and path. */
  #describeRequest({ method, path }: RegistryRequest): string {
    const { host, pathname } = new URL(path, this.registryUrl);
    return `registry ${host}: ${method} ${pathname}`;
  }

  /**
   * Sends a request. If the registry answers 401 with a challenge, obtains credentials and sends the request again, once for
   * each scheme. A 401 from another host, after a redirect, is returned as it is: that host must not get credentials.
   */
  async #sendAuthorized(request: RegistryRequest): Promise<RegistryAnswer> {
    let answer = await this.#sendFollowingRedirects(request, this.#auth.getHeader(request.scope));
    const schemes = new Set<string>();
    while (schemes.size < MAX_CHALLENGES) {
      if (answer.status !== 401 || answer.url.host !== this.registryUrl.host) break;
      const challenge = findChallenge([answer.headers["www-authenticate"] ?? []].flat(), this.#schemes);
      if (challenge === undefined || schemes.has(challenge.scheme)) break;
      schemes.add(challenge.scheme);
      await discardBody(answer.body);
      const authorization = await this.#auth.answerChallenge(challenge, request.scope);
      answer = await this.#sendFollowingRedirects(request, authorization);
    }
    return answer;
  }

  /** Sends a request once and reports its status. Returns errors, so that `send` can decide on a retry. */
  async #attempt(request: RegistryRequest): Promise<RegistryAnswer | RegistryError> {
    try {
      const answer = await this.#sendAuthorized(request);
      this.#onAnswer(String(answer.status));
      return answer;
    } catch (error) {
      const failure = toRegistryError(error, this.#describeRequest(request));
      this.#onAnswer(String(failure.status ?? "error"));
      return failure;
    }
  }

  /** Sends a request and follows redirects of GET and HEAD only. Only the registry's host gets `authorization`. */
  async #sendFollowingRedirects(
    request: RegistryRequest,
    authorization: string | undefined,
  ): Promise<RegistryAnswer> {
    let answer = await this.#sendOnce(request, new URL(request.path, this.registryUrl), authorization);
    for (let redirects = 0; ; redirects += 1) {
      const location = getFirstHeader(answer.headers, "location");
      const isRead = request.method === "GET" || request.method === "HEAD";
      if (!isRead || !REDIRECT_STATUSES.has(answer.status) || location === undefined) return answer;
      await discardBody(answer.body);
      const next = URL.parse(location, answer.url.href);
      if (next === null || redirects === MAX_REDIRECTS)
        throw new RegistryError(`${this.#describeRequest(request)}: redirects that lead nowhere`);
      answer = await this.#sendOnce(request, next, authorization);
    }
  }

  /** Sends one HTTP request; with `authorization` only to the registry's host. Refused URLs throw RegistryError. */
  async #sendOnce(
    { method, headers, body, size = 0 }: RegistryRequest,
    url: URL,
    authorization: string | undefined,
  ): Promise<RegistryAnswer> {
    const refused = await this.#guard.explainRefusal(url);
    if (refused !== undefined)
      throw new RegistryError(`registry ${this.registryUrl.host} leads to ${url.host}: ${refused}`);
    const isAuthorized = authorization !== undefined && url.host === this.registryUrl.host;
    // The time limit grows with what is sent (`body`) and received (`size`).
    const transferMs = Math.ceil((size + (body?.length ?? 0)) / MIN_BYTES_PER_MS);
    const response = await this.#connections.request(url, {
      method,
      headers: { ...headers, ...(isAuthorized ? { authorization } : {}) },
      body: body ?? null,
      signal: AbortSignal.timeout(this.#timeoutMs + transferMs),
    });
    return { status: response.statusCode, headers: response.headers, body: response.body, url };
  }
}

/** Drops a short body, so that its connection can be used again; closes the connection for a long one. */
export async function discardBody(body: RegistryAnswer["body"]): Promise<void> {
  await body
    .dump({ limit: MAX_ERROR_BYTES, signal: AbortSignal.timeout(DISCARD_TIMEOUT_MS) })
    .catch(() => undefined);
}

/** The first value of a header. `name` is in lower case. */
export function getFirstHeader(headers: RegistryAnswer["headers"], name: string): string | undefined {
  return [headers[name] ?? []].flat()[0];
}

const TOO_MANY_REQUESTS = 429;

/**
 * The least pause before a retry, in milliseconds: what `Retry-After` demands, else 0. Undefined if a retry does not help or is
 * not needed.
 */
function getRetryPauseMs(answer: RegistryAnswer | RegistryError, clock: Clock): number | undefined {
  if (answer instanceof RegistryError) {
    const isTransient = isTransientError(answer) || TRANSIENT_STATUSES.has(answer.status ?? 0);
    return isTransient ? Math.max((answer.retryAt ?? 0) - clock.now(), 0) : undefined;
  }
  if (!TRANSIENT_STATUSES.has(answer.status)) return undefined;
  return readRetryAfter(getFirstHeader(answer.headers, "retry-after"), clock.now()) ?? 0;
}
