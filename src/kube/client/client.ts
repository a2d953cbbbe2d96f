/** The client of the API server: raw JSON over shared connections. */

import type { Dispatcher } from "undici";

import type { Clock, Logger, RateLimit } from "../../base/index.ts";
import {
  attempt,
  cutDeepParts,
  Deadline,
  oneLine,
  orAborted,
  readAtMost,
  sleep,
  systemClock,
  TokenBucket,
} from "../../base/index.ts";
import { ProblemError, readJson } from "../../base/model/index.ts";
import { toApiError, ApiError, toConnectionError, ConnectionError, OversizeError } from "../api-errors.ts";
import { ApiConnections, type PoolName } from "./connections.ts";
import type { CredentialsOptions } from "./kubeconfig.ts";
import { toPathTemplate } from "../resources.ts";
import {
  serializeBody,
  buildHeaders,
  describeRequest,
  formatQuery,
  decideRetry,
  type ApiRequest,
  type Method,
} from "./request.ts";

/** A finished request; `code` is the HTTP status or the code of the connection error. */
export interface RequestReport {
  readonly verb: Method;
  readonly resourcePathTemplate: string;
  readonly code: string;
  readonly seconds: number;
}

/** Client, clock and namespace that most users of the API server share; `namespace` is the default namespace. */
export interface KubeAccess {
  readonly client: KubeClient;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly namespace: string;
}

export interface ConnectOptions extends RateLimit, Pick<CredentialsOptions, "kubeConfig" | "context"> {
  readonly userAgent: string;
  /** Trace every request at debug level (`--debug-kubernetes-api`). */
  readonly debug?: boolean | undefined;
  readonly logger: Logger;
  readonly clock?: Clock;
  /** Default time limit of a call, in milliseconds. */
  readonly timeoutMs?: number | undefined;
}

const DEFAULT_TIMEOUT_MS = 30_000;

/** Creates a client for the credentials that the options name; nothing is sent yet. Throws ProblemError if they cannot be read. */
export function connect(options: ConnectOptions): KubeClient {
  const clock = options.clock ?? systemClock;
  const connections = new ApiConnections(options, clock);
  return new KubeClient({ connections, clock, listeners: [], options, pool: "unary" });
}

/** What a client is made of; derived clients (see `impersonate`) share most of it. */
interface ClientParts {
  readonly connections: ApiConnections;
  readonly clock: Clock;
  readonly listeners: ((report: RequestReport) => void)[];
  readonly options: ConnectOptions;
  /** The pool for requests that are not streams. */
  readonly pool: PoolName;
  /** The user as whom the requests are sent; undefined = the user of the credentials. */
  readonly user?: string | undefined;
}

type Response = Dispatcher.ResponseData;

/** Sends every request to the API server: raw JSON over shared connections. */
export class KubeClient {
  readonly #parts: ClientParts;
  readonly #bucket: TokenBucket;

  constructor(parts: ClientParts, bucket = new TokenBucket(parts.options, parts.clock)) {
    this.#parts = parts;
    this.#bucket = bucket;
  }

  /** The namespace that the credentials name: that of the ServiceAccount or of the context. */
  get namespaceFromContext(): string | undefined {
    return this.#parts.connections.credentials.namespace;
  }

  /** File of the credentials, address of the server, and the proxy on the way to it, for messages. */
  get credentialsInfo(): { file: string; server: string; proxy: string | undefined } {
    const { file, server, proxy } = this.#parts.connections.credentials;
    return { file, server, proxy };
  }

  /** A kubeconfig of this server and its current credentials, for child processes. `namespace` replaces that of the context. */
  exportKubeconfig(namespace?: string): string {
    return this.#parts.connections.credentials.exportKubeconfig(namespace);
  }

  /**
   * Sends a request and returns the parsed answer, without parts that are nested too deep for recursive code. Throws ApiError or
   * ConnectionError, and the reason of an aborted signal.
   */
  async json<T>(request: ApiRequest): Promise<T> {
    const deadline = this.#startDeadline(request);
    const requestName = describeRequest(request, this.credentialsInfo.server);
    try {
      const text = await this.#sendWithRetries(request, deadline, async (send) => {
        const { body } = await send(this.#parts.pool);
        return readText(body, requestName);
      });
      return parseAnswer(text, requestName) as T;
    } finally {
      deadline.release();
    }
  }

  /**
   * Sends a request and returns the body as it arrives, over a connection of its own, because a watch occupies the connection for minutes.
   * The body ends when the signal is aborted or the reader stops. The time limit covers only the wait for the response headers.
   */
  async stream(request: ApiRequest): Promise<AsyncIterable<Uint8Array>> {
    const deadline = this.#startDeadline(request);
    try {
      const response = await this.#sendWithRetries(request, deadline, (send) => send("streams"));
      deadline.removeTimeLimit();
      return readBody(response, deadline, describeRequest(request, this.credentialsInfo.server));
    } catch (error) {
      deadline.release();
      throw error;
    }
  }

  /** Reports each finished request of this client, and of clients that `impersonate` derives, to the listener. */
  onRequest(listener: (report: RequestReport) => void): void {
    this.#parts.listeners.push(listener);
  }

  /** Creates a client over the same connections with its own rate limit and time limit, and without the listeners of this one (for object patches). */
  withLimits(limit: RateLimit & { timeoutMs?: number | undefined }): KubeClient {
    const { qps, burst, timeoutMs = this.#parts.options.timeoutMs } = limit;
    return new KubeClient({
      ...this.#parts,
      listeners: [],
      options: { ...this.#parts.options, qps, burst, timeoutMs },
    });
  }

  /**
   * Creates a client that acts as this user by impersonation, with the same connections, limits and request reports. The API server
   * adds the groups of a ServiceAccount by itself.
   */
  impersonate(user: string): KubeClient {
    return new KubeClient({ ...this.#parts, user }, this.#bucket);
  }

  /** Creates a client for the lease: with its own connections, without a rate limit, not subject to `writeOnlyWhile`. */
  forLease(): KubeClient {
    return new KubeClient({ ...this.#parts, options: { ...this.#parts.options, qps: 0 }, pool: "lease" });
  }

  /**
   * From now on sends a write only while `allowed` returns true, and fails it with ConnectionError (`ENOLEASE`) otherwise: a process that
   * resumes after a freeze may have pending writes although another operator holds the lease by now.
   */
  writeOnlyWhile(allowed: () => boolean): void {
    this.#parts.connections.mayWrite = allowed;
  }

  /** Ends all connections; running requests fail. */
  close(): Promise<void> {
    return this.#parts.connections.close();
  }

  /** Starts the time limit of a call. */
  #startDeadline(request: ApiRequest): Deadline {
    const ms = request.timeoutMs ?? this.#parts.options.timeoutMs ?? DEFAULT_TIMEOUT_MS;
    return new Deadline(this.#parts.clock, ms, request.signal);
  }

  /**
   * Repeats `attempt`, which sends the request into a pool by `send` and reads the answer as far as it needs, until it succeeds,
   * `decideRetry` refuses another try, or the deadline passes. Each try takes a token of the rate limit.
   */
  async #sendWithRetries<T>(
    request: ApiRequest,
    deadline: Deadline,
    attempt: (send: (pool: PoolName) => Promise<Response>) => Promise<T>,
  ): Promise<T> {
    for (let tries = 1; ; tries++) {
      try {
        await this.#bucket.takeToken(deadline.signal);
        const sent = attempt((pool) => this.#send(request, deadline.signal, pool));
        // undici handles an abort only once the request has a connection, so the wait for a connection is aborted here.
        return await orAborted(sent, deadline.signal);
      } catch (error) {
        const { server, proxy } = this.credentialsInfo;
        const way = proxy === undefined ? "" : ` through the proxy ${proxy}`;
        const failure = toThrownError(error, deadline, `${describeRequest(request, server)}${way}`);
        const retry = decideRetry(failure, request, tries);
        if (retry === undefined) throw failure;
        if (retry.renewCredentials) this.#parts.connections.credentials.renew();
        if (retry.waitMs > 0) await sleep(this.#parts.clock, retry.waitMs, deadline.signal);
      }
    }
  }

  /** Sends a request once. Throws ApiError for an error status, and the error of undici without an answer. */
  async #send(request: ApiRequest, signal: AbortSignal, pool: PoolName): Promise<Response> {
    const { user, clock, connections, options } = this.#parts;
    const { access, pools } = await connections.openPools();
    signal.throwIfAborted();
    const startedAt = clock.monotonic();
    const impersonation = user === undefined ? {} : { "Impersonate-User": user };
    try {
      const response = await pools[pool].request({
        origin: access.origin,
        path: `${access.prefix}${request.path}${formatQuery(request)}`,
        method: request.method ?? "GET",
        headers: buildHeaders(request, { ...access.headers, ...impersonation }, options.userAgent),
        body: serializeBody(request),
        signal,
      });
      this.#reportRequest(request, String(response.statusCode), startedAt);
      const requestName = describeRequest(request, this.credentialsInfo.server);
      if (response.statusCode >= 400) throw await readErrorAnswer(response, requestName, request.path);
      await refuseForeignAnswer(response, requestName);
      return response;
    } catch (error) {
      // An answer is reported above, also one with an error status.
      const hasAnswer = error instanceof ApiError || error instanceof ForeignAnswerError;
      if (!hasAnswer) this.#reportRequest(request, toConnectionError(error, "").code, startedAt);
      throw error;
    }
  }

  /** Reports a finished request to the listeners, and with `--debug-kubernetes-api` to the log. */
  #reportRequest(request: ApiRequest, code: string, startedAt: number): void {
    const { clock, options, listeners } = this.#parts;
    const seconds = (clock.monotonic() - startedAt) / 1000;
    const verb = request.method ?? "GET";
    if (options.debug) {
      const url = `${request.path}${formatQuery(request)}`;
      options.logger.debug("Kubernetes API request", { verb, url, code, seconds });
    }
    const report = { verb, resourcePathTemplate: toPathTemplate(request.path), code, seconds };
    for (const listener of listeners) listener(report);
  }
}

/** Returns the error to throw for a failed try: the caller's abort reason, a time-out, or the failure itself. */
function toThrownError(error: unknown, deadline: Deadline, requestName: string): unknown {
  // A time-out aborts the signal, too.
  if (deadline.isTimedOut)
    return new ConnectionError("ETIMEDOUT", `${requestName}: no answer in time`, { cause: error });
  if (deadline.signal.aborted) return deadline.signal.reason;
  if (error instanceof ApiError || error instanceof ConnectionError || error instanceof ProblemError)
    return error;
  return toConnectionError(error, requestName);
}

/** Another program, such as a proxy or a login page, answered in place of the API server: its answer says nothing about objects. */
class ForeignAnswerError extends ConnectionError {
  constructor(requestName: string, what: string) {
    super(
      "EFOREIGN",
      `${requestName}: the server answered with ${what} instead of JSON; a proxy may be in between`,
    );
    this.name = "ForeignAnswerError";
  }
}

/** Throws ForeignAnswerError for an answer of another content type than JSON. */
async function refuseForeignAnswer({ headers, body }: Response, requestName: string): Promise<void> {
  const type = headers["content-type"];
  if (typeof type !== "string" || /^application\/(?:[\w.+-]+\+)?json\b/i.test(type)) return;
  await body.dump();
  throw new ForeignAnswerError(requestName, oneLine(type, MAX_TYPE_LENGTH));
}

const MAX_TYPE_LENGTH = 60;

/**
 * The most bytes of an answer that is read as a whole, which is an object, discovery, or a list of few or small objects. Long lists are read by
 * `listObjects`.
 */
const MAX_ANSWER_BYTES = 128 * 1024 * 1024;
/** The most bytes of an answer with an error status. */
const MAX_ERROR_BYTES = 1024 * 1024;

/** Reads the body of an answer. Throws OversizeError for one that is too large or endless. */
async function readText(body: Response["body"], requestName: string): Promise<string> {
  const bytes = await readAtMost(body as AsyncIterable<Uint8Array>, MAX_ANSWER_BYTES);
  if (bytes === undefined) {
    const limit = `${MAX_ANSWER_BYTES / 1024 / 1024} MiB`;
    throw new OversizeError(`${requestName}: the answer is larger than ${limit}`);
  }
  return new TextDecoder().decode(bytes);
}

/** Parses the body of an answer. The error of the parser is not used: it quotes the body. */
function parseAnswer(text: string, requestName: string): unknown {
  if (text === "") throw new ForeignAnswerError(requestName, "nothing");
  const value = attempt(() => readJson(text));
  if (value === undefined) throw new ForeignAnswerError(requestName, "text");
  return cutDeepParts(value);
}

/** Passes on the chunks of a streamed body. Releases the deadline at its end, and converts its errors as `json` does. */
async function* readBody({ body }: Response, deadline: Deadline, requestName: string) {
  try {
    for await (const chunk of body) yield chunk as Uint8Array;
  } catch (error) {
    throw toThrownError(error, deadline, requestName);
  } finally {
    deadline.release();
  }
}

/** Path of Secrets, of one Secret or below it: errors of such requests may quote secret values. */
const SECRETS_PATH = /\/secrets(\/|$)/;

/** Reads the body of an answer with an error status, and builds the error from it, without values of Secrets. */
async function readErrorAnswer(response: Response, requestName: string, path: string): Promise<ApiError> {
  const retryAfter = response.headers["retry-after"];
  const body = response.body as AsyncIterable<Uint8Array>;
  const bytes = await readAtMost(body, MAX_ERROR_BYTES).catch(() => undefined);
  return toApiError({
    status: response.statusCode,
    retryAfter: typeof retryAfter === "string" ? retryAfter : undefined,
    text: new TextDecoder().decode(bytes),
    requestName,
    path,
    isSecret: SECRETS_PATH.test(path),
  });
}
