/** Calls of a registry's HTTP API (OCI distribution specification): authentication, retries, redirects, limits. */

import { rootCertificates } from "node:tls";
import { Agent, EnvHttpProxyAgent, type Dispatcher } from "undici";

import {
  exponentialDelay,
  oneLine,
  plainLine,
  readAtMost,
  sleep,
  systemClock,
  type Clock,
} from "../../lib/index.ts";
import { isJsonObject, objectsIn } from "../../model/index.ts";
import { jsonObject } from "../manifest.ts";
import { findChallenge } from "./challenge.ts";
import type { Login } from "./docker-config.ts";
import { RegistryError, isTransient, toRegistryError } from "./errors.ts";
import { Tokens } from "./tokens.ts";
import { refusedAddress } from "./trust.ts";

export interface ClientOptions {
  /** Host and port. */
  readonly host: string;
  /** The registry serves no TLS. */
  readonly plainHttp?: boolean | undefined;
  /** PEM certificates that are trusted besides those of Node. */
  readonly ca?: string | undefined;
  /** `HTTPS_PROXY`, `HTTP_PROXY`, `NO_PROXY`, also in lower case. */
  readonly proxies?: Readonly<Record<string, string | undefined>>;
  readonly login?: () => Login | undefined;
  /** Sends user and password without a challenge: some chart repositories send no challenge and hide what they have. */
  readonly isBasic?: boolean;
  readonly clock?: Clock;
  /** Called with the status of each answer, `error` without one. */
  readonly onAnswer?: ((code: string) => void) | undefined;
  /** Longest time of a request with a short body, the answer included. */
  readonly timeoutMs?: number;
}

/** One request to a registry. It is sent again after a transient failure. */
export interface RegistryRequest {
  readonly method: "GET" | "HEAD" | "POST" | "PUT";
  /** Path and query below the registry, or the whole URL that the registry named. */
  readonly path: string | URL;
  /** `repository:NAME:pull` or `repository:NAME:pull,push`. */
  readonly scope: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: Buffer;
  /** Bytes of the answer where they are many: it may take longer in proportion. */
  readonly size?: number;
}

/** An answer whose body is not read yet. */
export interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly body: Dispatcher.ResponseData["body"];
  /** Where the answer came from, after redirects. */
  readonly url: URL;
}

const TRIES = 3;
const DELAY = { firstMs: 250, maxMs: 3000 };
/** A registry may ask for a longer pause; a longer pause than this is an error, and the caller retries. */
const LONGEST_PAUSE_MS = 10_000;
const TRANSIENT: ReadonlySet<number> = new Set([408, 429, 500, 502, 503, 504, 522]);
const REDIRECTS: ReadonlySet<number> = new Set([301, 302, 303, 307, 308]);
const MOST_REDIRECTS = 5;
const TIMEOUT_MS = 30_000;
/** Bytes in a millisecond of a long body; a registry that is slower than this could block a check for days. */
const SLOWEST = 64;
const CONNECTIONS = 4;
const LARGEST_ERROR = 64 * 1024;
const DISCARD_MS = 1000;

/** The client of one registry. */
export class RegistryClient {
  readonly registry: URL;
  readonly #dispatcher: Dispatcher;
  readonly #tokens: Tokens;
  readonly #clock: Clock;
  readonly #onAnswer: (code: string) => void;
  readonly #timeoutMs: number;

  constructor(options: ClientOptions) {
    const { host, plainHttp = false, ca, proxies = {}, login = () => undefined, clock } = options;
    this.#timeoutMs = options.timeoutMs ?? TIMEOUT_MS;
    this.#onAnswer = options.onAnswer ?? (() => {});
    this.registry = new URL(`${plainHttp ? "http" : "https"}://${host}/`);
    this.#clock = clock ?? systemClock;
    this.#dispatcher = openDispatcher(ca, proxies);
    this.#tokens = new Tokens({
      registry: this.registry,
      dispatcher: this.#dispatcher,
      login,
      isBasic: options.isBasic ?? false,
      clock: this.#clock,
      timeoutMs: this.#timeoutMs,
    });
  }

  /**
   * Sends a request, answers challenges, follows redirects of reads, and tries again after transient failures. Returns any
   * answer but a transient one. The caller reads or dumps the body. Throws RegistryError.
   */
  async send(request: RegistryRequest): Promise<Answer> {
    for (let attempt = 1; ; attempt += 1) {
      const answer = await this.#try(request);
      const pause = pauseBefore(answer, this.#clock);
      if (pause === undefined) return answerOrThrow(answer);
      if (attempt === TRIES || pause > LONGEST_PAUSE_MS)
        throw answer instanceof RegistryError ? answer : await this.failure(request, answer);
      if (!(answer instanceof RegistryError)) await discard(answer.body);
      await sleep(this.#clock, Math.max(pause, exponentialDelay(attempt, DELAY)));
    }
  }

  /** Sends a request whose answer must have one of these statuses, and reads its body. Throws RegistryError. */
  async read(
    request: RegistryRequest,
    statuses: readonly number[],
    limit: number,
  ): Promise<Answer & { readonly bytes: Buffer }> {
    const answer = await this.send(request);
    if (!statuses.includes(answer.status)) throw await this.failure(request, answer);
    try {
      const bytes = await readAtMost(answer.body, limit);
      if (bytes === undefined) throw new Error(`the answer is longer than ${limit} bytes`);
      return { ...answer, bytes };
    } catch (error) {
      throw this.bodyError(request, error);
    }
  }

  /** The error for an answer whose body ended too early. */
  bodyError(request: RegistryRequest, error: unknown): RegistryError {
    return new RegistryError(`${this.#name(request)}: ${oneLine(error)}`, undefined, { cause: error });
  }

  /** The error for an answer that the caller cannot use; reads its body. */
  async failure(request: RegistryRequest, { status, body }: Answer): Promise<RegistryError> {
    const bytes = (await readAtMost(body, LARGEST_ERROR).catch(() => undefined)) ?? Buffer.alloc(0);
    const remedy = REMEDIES[status];
    const text = `${this.#name(request)}: ${status}${reasonIn(bytes)}${remedy === undefined ? "" : `; ${remedy}`}`;
    return new RegistryError(text, status);
  }

  async close(): Promise<void> {
    await this.#dispatcher.destroy();
  }

  #name({ method, path }: RegistryRequest): string {
    const { host, pathname } = new URL(path, this.registry);
    return `registry ${host}: ${method} ${pathname}`;
  }

  /** Sends a request. If the registry demands authorization, gets it and sends the request once more. */
  async #authorized(request: RegistryRequest): Promise<Answer> {
    const first = await this.#follow(request);
    if (first.status !== 401 || first.url.host !== this.registry.host) return first;
    const challenge = findChallenge([first.headers["www-authenticate"] ?? []].flat());
    if (challenge === undefined) return first;
    await discard(first.body);
    await this.#tokens.answer(challenge, request.scope);
    return this.#follow(request);
  }

  /** The answer of one try, or the error that ended it. */
  async #try(request: RegistryRequest): Promise<Answer | RegistryError> {
    try {
      const answer = await this.#authorized(request);
      this.#onAnswer(String(answer.status));
      return answer;
    } catch (error) {
      this.#onAnswer("error");
      return toRegistryError(error, this.#name(request));
    }
  }

  /** Follows redirects of reads. */
  async #follow(request: RegistryRequest): Promise<Answer> {
    let answer = await this.#request(request, new URL(request.path, this.registry));
    for (let redirects = 0; ; redirects += 1) {
      const location = headerOf(answer.headers, "location");
      const isRead = request.method === "GET" || request.method === "HEAD";
      if (!isRead || !REDIRECTS.has(answer.status) || location === undefined) return answer;
      await discard(answer.body);
      const next = URL.parse(location, answer.url.href);
      if (next === null || redirects === MOST_REDIRECTS)
        throw new RegistryError(`${this.#name(request)}: redirects that lead nowhere`);
      answer = await this.#request(request, next);
    }
  }

  /** Sends one request. Only the registry itself gets credentials. Throws RegistryError for a refused address. */
  async #request({ method, headers, scope, body, size = 0 }: RegistryRequest, url: URL): Promise<Answer> {
    const refused = refusedAddress(url, this.registry);
    if (refused !== undefined)
      throw new RegistryError(`registry ${this.registry.host} leads to ${url.host}: ${refused}`);
    const authorization = url.host === this.registry.host ? this.#tokens.header(scope) : undefined;
    const response = await this.#dispatcher.request({
      origin: url.origin,
      path: url.pathname + url.search,
      method,
      headers: { ...headers, ...(authorization === undefined ? {} : { authorization }) },
      body: body ?? null,
      signal: AbortSignal.timeout(this.#timeoutMs + Math.ceil((size + (body?.length ?? 0)) / SLOWEST)),
    });
    return { status: response.statusCode, headers: response.headers, body: response.body, url };
  }
}

/** Discards a body, so that its connection can be used again; ends the connection if that takes long. */
export async function discard(body: Answer["body"]): Promise<void> {
  await body.dump({ limit: LARGEST_ERROR, signal: AbortSignal.timeout(DISCARD_MS) }).catch(() => undefined);
}

/** The first header of this name, which is in lower case. */
export function headerOf(headers: Answer["headers"], name: string): string | undefined {
  return [headers[name] ?? []].flat()[0];
}

const REMEDIES: Readonly<Record<number, string>> = {
  401: "log in with `helm registry login HOST`, or check the credentials",
  403: "the credentials do not allow it",
  404: "not found, or not allowed to be seen",
  413: "the registry accepts no content of this size",
  429: "the registry limits requests: try again later",
};

/** The connections to the registry, through a proxy if the environment names one. */
function openDispatcher(ca: string | undefined, proxies: NonNullable<ClientOptions["proxies"]>): Dispatcher {
  const tls = ca === undefined ? {} : { ca: [...rootCertificates, ca] };
  const options = { connections: CONNECTIONS, headersTimeout: TIMEOUT_MS, bodyTimeout: TIMEOUT_MS };
  const pick = (name: string): string | undefined => proxies[name] ?? proxies[name.toLowerCase()];
  const [httpProxy, httpsProxy, noProxy] = [pick("HTTP_PROXY"), pick("HTTPS_PROXY"), pick("NO_PROXY")];
  if (httpProxy === undefined && httpsProxy === undefined)
    return new Agent({ ...options, connect: { ...tls, timeout: TIMEOUT_MS } });
  return new EnvHttpProxyAgent({
    ...options,
    ...(httpProxy === undefined ? {} : { httpProxy }),
    ...(httpsProxy === undefined ? {} : { httpsProxy }),
    ...(noProxy === undefined ? {} : { noProxy }),
    connect: { ...tls, timeout: TIMEOUT_MS },
    requestTls: tls,
  });
}

/** The least pause in milliseconds before a request is sent again; undefined if it is not. */
function pauseBefore(answer: Answer | RegistryError, clock: Clock): number | undefined {
  if (answer instanceof RegistryError) return isTransient(answer) ? 0 : undefined;
  return TRANSIENT.has(answer.status) ? pauseOf(answer, clock) : undefined;
}

/** The pause that the registry requires, in milliseconds: seconds or a date. */
function pauseOf({ headers }: Answer, clock: Clock): number {
  const text = headerOf(headers, "retry-after") ?? "";
  const ms = /^\d{1,9}$/.test(text) ? Number(text) * 1000 : Date.parse(text) - clock.now();
  return Number.isFinite(ms) ? Math.max(ms, 0) : 0;
}

/** Returns an answer, or throws the error. */
function answerOrThrow(answer: Answer | RegistryError): Answer {
  if (answer instanceof RegistryError) throw answer;
  return answer;
}

/** The registry's own message for a failure. */
function reasonIn(bytes: Buffer): string {
  try {
    const [first] = objectsIn(jsonObject(bytes)["errors"]);
    if (!isJsonObject(first)) return "";
    const words = [first["code"], first["message"]].filter((each) => typeof each === "string");
    return words.length === 0 ? "" : ` ${plainLine(words.join(": "), 200)}`;
  } catch {
    return "";
  }
}
