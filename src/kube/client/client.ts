/** The client of the API server: raw JSON over shared connections. */

import type { Dispatcher } from "undici";

import type { Clock, Logger, RateLimit, Timer } from "../../lib/index.ts";
import { TokenBucket, cutDeepParts, orAborted, sleep, systemClock } from "../../lib/index.ts";
import { ProblemError } from "../../model/index.ts";
import { answerError, ApiError, connectionError, ConnectionError } from "../api-errors.ts";
import { Connections, type PoolName } from "./connections.ts";
import { pathTemplate } from "../resources.ts";
import { bodyOf, headersOf, objectName, queryOf, retryOf, type ApiRequest, type Method } from "./request.ts";

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

/** Settings of `connect`. */
export interface ConnectOptions extends RateLimit {
  readonly kubeConfig?: string | undefined;
  readonly context?: string | undefined;
  readonly userAgent: string;
  /** Trace every request at debug level (`--debug-kubernetes-api`). */
  readonly debug?: boolean | undefined;
  readonly logger: Logger;
  readonly clock?: Clock;
  /** Default time limit of a call, in milliseconds. */
  readonly timeoutMs?: number | undefined;
}

const TIMEOUT_MS = 30_000;

/** A client for the given credentials; nothing is sent yet. Throws ProblemError when they cannot be read. */
export function connect(options: ConnectOptions): KubeClient {
  const clock = options.clock ?? systemClock;
  const connections = new Connections(options, clock);
  return new KubeClient({ connections, clock, listeners: [], options, pool: "unary" });
}

interface Parts {
  readonly connections: Connections;
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
  readonly #parts: Parts;
  readonly #bucket: TokenBucket;

  constructor(parts: Parts, bucket = new TokenBucket(parts.options, parts.clock)) {
    this.#parts = parts;
    this.#bucket = bucket;
  }

  /** The namespace the credentials name: the service account's or the context's. */
  get namespaceFromContext(): string | undefined {
    return this.#parts.connections.credentials.namespace;
  }

  /** File of the credentials and address of the server, for messages. */
  get origin(): { file: string; server: string } {
    const { file, server } = this.#parts.connections.credentials;
    return { file, server };
  }

  /** A kubeconfig of this server and its current credentials, for child processes. */
  kubeconfig(): string {
    return this.#parts.connections.credentials.export();
  }

  /** The parsed answer. Throws ApiError or ConnectionError; the signal's reason when that is aborted. */
  async json<T>(request: ApiRequest): Promise<T> {
    const deadline = this.#deadline(request);
    try {
      const text = await this.#retry(request, deadline, async (pools) =>
        (await pools(this.#parts.pool)).body.text(),
      );
      return (text === "" ? undefined : cutDeepParts(JSON.parse(text))) as T;
    } finally {
      deadline.end();
    }
  }

  /** The body as it arrives, over a connection of its own. Ends when the signal is aborted or the reader stops. */
  async stream(request: ApiRequest): Promise<AsyncIterable<Uint8Array>> {
    const deadline = this.#deadline(request);
    try {
      const response = await this.#retry(request, deadline, (send) => send("streams"));
      deadline.lift();
      return readAll(response, deadline, objectName(request, this.origin.server));
    } catch (error) {
      deadline.end();
      throw error;
    }
  }

  onRequest(listener: (report: RequestReport) => void): void {
    this.#parts.listeners.push(listener);
  }

  /** A client over the same connections with its own rate limit, time limit and request reports (for object patches). */
  limited(limit: RateLimit & { timeoutMs?: number | undefined }): KubeClient {
    const { qps, burst, timeoutMs = this.#parts.options.timeoutMs } = limit;
    return new KubeClient({
      ...this.#parts,
      listeners: [],
      options: { ...this.#parts.options, qps, burst, timeoutMs },
    });
  }

  /**
   * A client that acts as this user by impersonation, with the same connections, limits and request reports. The API server
   * adds the groups of a ServiceAccount by itself.
   */
  as(user: string): KubeClient {
    return new KubeClient({ ...this.#parts, user }, this.#bucket);
  }

  /** A client for the lease: with its own connections, without a rate limit, not subject to `writeOnlyWhile`. */
  forLease(): KubeClient {
    return new KubeClient({ ...this.#parts, options: { ...this.#parts.options, qps: 0 }, pool: "lease" });
  }

  /**
   * From now on a write is sent only while `allowed` returns true, and fails with ConnectionError (`ENOLEASE`)
   * otherwise. A process that resumes after a freeze may have pending writes although another operator holds the lease
   * by now.
   */
  writeOnlyWhile(allowed: () => boolean): void {
    this.#parts.connections.mayWrite = allowed;
  }

  /** Ends all connections; running requests fail. */
  close(): Promise<void> {
    return this.#parts.connections.close();
  }

  #deadline(request: ApiRequest): Deadline {
    const ms = request.timeoutMs ?? this.#parts.options.timeoutMs ?? TIMEOUT_MS;
    return new Deadline(this.#parts.clock, ms, request.signal);
  }

  /** Retries `attempt` until it succeeds, `retryOf` refuses another try, or the deadline passes. */
  async #retry<T>(
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
        const failure = explain(error, deadline, objectName(request, this.origin.server));
        const retry = retryOf(failure, request, tries);
        if (retry === undefined) throw failure;
        if (retry.renew) this.#parts.connections.credentials.renew();
        if (retry.waitMs > 0) await sleep(this.#parts.clock, retry.waitMs, deadline.signal);
      }
    }
  }

  async #send(request: ApiRequest, signal: AbortSignal, pool: PoolName): Promise<Response> {
    const { access, pools } = await this.#parts.connections.open();
    signal.throwIfAborted();
    const started = this.#parts.clock.monotonic();
    try {
      const response = await pools[pool].request({
        origin: access.origin,
        path: `${access.prefix}${request.path}${queryOf(request)}`,
        method: request.method ?? "GET",
        headers: headersOf(request, this.#ownHeaders(access.headers), this.#parts.options.userAgent),
        body: bodyOf(request),
        signal,
      });
      this.#report(request, String(response.statusCode), started);
      if (response.statusCode >= 400)
        throw await failureOf(response, objectName(request, this.origin.server), request.path);
      return response;
    } catch (error) {
      if (!(error instanceof ApiError)) this.#report(request, connectionError(error, "").code, started);
      throw error;
    }
  }

  #ownHeaders(credentials: Readonly<Record<string, string>>): Readonly<Record<string, string>> {
    const { user } = this.#parts;
    return user === undefined ? credentials : { ...credentials, "Impersonate-User": user };
  }

  #report(request: ApiRequest, code: string, started: number): void {
    const seconds = (this.#parts.clock.monotonic() - started) / 1000;
    const verb = request.method ?? "GET";
    if (this.#parts.options.debug) {
      const url = `${request.path}${queryOf(request)}`;
      this.#parts.options.logger.debug("Kubernetes API request", { verb, url, code, seconds });
    }
    const report = { verb, resourcePathTemplate: pathTemplate(request.path), code, seconds };
    for (const listener of this.#parts.listeners) listener(report);
  }
}

/** The error to throw for a failed try: the caller's abort reason, a time-out, or the failure itself. */
function explain(error: unknown, deadline: Deadline, what: string): unknown {
  if (deadline.late) return new ConnectionError("ETIMEDOUT", `${what}: no answer in time`, { cause: error });
  if (deadline.signal.aborted) return deadline.signal.reason;
  if (error instanceof ApiError || error instanceof ConnectionError || error instanceof ProblemError)
    return error;
  return connectionError(error, what);
}

async function* readAll(response: Response, deadline: Deadline, what: string): AsyncGenerator<Uint8Array> {
  try {
    for await (const chunk of response.body) yield chunk as Uint8Array;
  } catch (error) {
    throw explain(error, deadline, what);
  } finally {
    deadline.end();
  }
}

async function failureOf(response: Response, what: string, path: string): Promise<ApiError> {
  const retryAfter = response.headers["retry-after"];
  const text = await response.body.text().catch(() => "");
  return answerError({
    status: response.statusCode,
    retryAfter: typeof retryAfter === "string" ? retryAfter : undefined,
    text,
    what,
    secret: /\/secrets(\/|$)/.test(path),
  });
}

/** A signal that is aborted by a time limit or by the caller's signal, whichever comes first. */
class Deadline {
  readonly #controller = new AbortController();
  readonly #outer: AbortSignal | undefined;
  readonly #timer: Timer;
  readonly #abort = (): void => this.#controller.abort(this.#outer?.reason);
  #late = false;

  constructor(clock: Clock, ms: number, outer?: AbortSignal) {
    this.#outer = outer;
    this.#timer = clock.setTimer(ms, () => {
      this.#late = true;
      this.#controller.abort();
    });
    if (outer?.aborted) this.#abort();
    else outer?.addEventListener("abort", this.#abort, { once: true });
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** The time limit, not the caller, aborted the signal. */
  get late(): boolean {
    return this.#late;
  }

  /** Removes the time limit; the caller's signal still counts. */
  lift(): void {
    this.#timer.cancel();
  }

  /** Releases the timer and the caller's signal. */
  end(): void {
    this.#timer.cancel();
    this.#outer?.removeEventListener("abort", this.#abort);
  }
}
