/**
 * The TLS server that the API server calls with reviews (AdmissionReview, ConversionReview): HTTP/2 and HTTP/1.1, with limits
 * on connections, sizes and times.
 */

import { constants, createSecureServer, Http2ServerRequest, Http2ServerResponse } from "node:http2";
import type {
  Http2SecureServer,
  IncomingHttpHeaders,
  ServerHttp2Session,
  ServerHttp2Stream,
} from "node:http2";

import { FOLLOWER_HEADER } from "../kube/index.ts";
import {
  ClientWorkBudgets,
  listen,
  oneLine,
  orAborted,
  parseDuration,
  threadCpuMs,
  Timers,
} from "../base/index.ts";
import type { Clock } from "../base/index.ts";
import { Bodies } from "./body.ts";
import type { Certificate } from "./certificate/certificate.ts";
import {
  WebhookConnections,
  TEXT_TYPE,
  TOO_MANY,
  addressOf,
  closeConnection,
  onceResponseSent,
  sendResponse,
  type ResponseContent,
} from "./connections.ts";
import { AddressRateLimiter, WEBHOOK_LIMITS, Shares, type WebhookLimits } from "./limits.ts";
import { ReviewError, parseReview, type Review, type ReviewHandler } from "./review.ts";

/** Memory of one HTTP/2 connection, in MB: enough for its streams and one body of the largest size. */
const SESSION_MB = 96;
/** Turns off limits of Node that count over the life of a connection: `WebhookLimits.rates` limits each second instead. */
const NO_NODE_LIMIT = 2 ** 31;
/** The longest time that Kubernetes lets webhooks have. */
const MAX_TIMEOUT_MS = 30_000;
/** Time that the refusal of a request gets after its hook has used up the rest. */
const MAX_REFUSAL_MS = 250;

/** Reports what happened to webhooks. */
export interface WebhookReport {
  /** A request was answered with this HTTP status. */
  webhookRequested(request: { readonly status: number; readonly seconds: number }): void;
  /** Webhooks are not served or registered for these reasons. */
  webhookIssuesChanged(issues: readonly string[]): void;
}

export interface ServerOptions {
  readonly clock: Clock;
  readonly address: string;
  readonly port: number;
  /** CAs of clients, as PEM; without them, any client may connect. */
  readonly clientCa?: string | undefined;
  readonly limits?: Partial<WebhookLimits> | undefined;
  /** Finds the handler at a path; undefined = there is none. `isForwarded`: another replica has forwarded the request. */
  readonly findHandler: (path: string, isForwarded: boolean) => ReviewHandler | undefined;
  readonly report: Pick<WebhookReport, "webhookRequested">;
  /** Called with unexpected errors, of which the client gets only status 500; the server goes on. */
  readonly onError: (error: unknown) => void;
}

/**
 * Answers reviews until it is closed. A request that it cannot answer gets an HTTP error, so that the API server applies the
 * `failurePolicy` of the webhook: 404 at unknown paths, 413 and 429 above the limits, 503 without a leader, 500 if a handler fails.
 */
export class WebhookServer {
  readonly #options: ServerOptions;
  readonly #limits: WebhookLimits;
  readonly #server: Http2SecureServer;
  readonly #connections: WebhookConnections;
  readonly #requests: Shares;
  readonly #bodies: Bodies;
  readonly #rates: AddressRateLimiter;
  readonly #parsing: ClientWorkBudgets;

  /** Creates the server with its limits; `listen` opens its port. */
  private constructor(options: ServerOptions, certificate: Certificate) {
    this.#options = options;
    this.#limits = { ...WEBHOOK_LIMITS, ...options.limits };
    const { arriveMs, idleMs, connections: limit, requests, rates } = this.#limits;
    const { clock } = options;
    this.#connections = new WebhookConnections({ clock, limit, rate: rates.connections, arriveMs });
    this.#rates = new AddressRateLimiter(clock, rates.requests);
    const resets = Math.min(rates.requests, NO_NODE_LIMIT);
    this.#requests = new Shares(requests);
    this.#bodies = new Bodies(clock, this.#limits);
    this.#parsing = new ClientWorkBudgets(this.#limits.parsing);
    this.#server = createSecureServer({
      ...this.#tlsOptions(certificate),
      allowHTTP1: true,
      minVersion: "TLSv1.2",
      // Calls above the limit of requests must get their refusal. For Node, streams go on for some time after their end: those
      // above its limit are reset. Neither this nor what arrives for refused streams must end the connection.
      settings: { maxConcurrentStreams: 4 * requests.perAddress },
      maxSessionRejectedStreams: NO_NODE_LIMIT,
      maxSessionInvalidFrames: NO_NODE_LIMIT,
      // Resets that a refusal causes count, too: by default, 1000 refusals that come before the bodies end a connection.
      streamResetBurst: resets,
      streamResetRate: resets,
      maxSessionMemory: SESSION_MB,
      handshakeTimeout: arriveMs,
      ...(options.clientCa === undefined ? {} : { requestCert: true, rejectUnauthorized: true }),
    });
    this.#server.setTimeout(idleMs);
    // `close` of an idle HTTP/2 session announces the end, so that the client sends its next request over another connection.
    this.#server.on("timeout", (idle: Partial<ServerHttp2Session> & { destroy(): void }) =>
      idle.close === undefined ? idle.destroy() : idle.close(),
    );
    this.#server.on("connection", (socket) => this.#connections.add(socket));
    this.#server.on("session", (session) => session.on("error", () => session.destroy()));
    // Once something listens to `request`, Node builds a request and a response for each HTTP/2 stream, which costs more than
    // a refusal. Without this listener of its own, `request` reports those of HTTP/1.1 alone.
    this.#server.removeAllListeners("newListener");
    this.#server.on("request", (request, response) => this.#handleRequest(request, response));
    this.#server.on("stream", (...[stream, headers, , rawHeaders]: StreamArguments) => {
      const isRefused = this.#refuseExcessStream(stream);
      if (isRefused) return;
      const request = new Http2ServerRequest(stream, headers, {}, rawHeaders);
      this.#handleRequest(request, new Http2ServerResponse(stream));
    });
    // Ignores clients that do not speak TLS or a supported version: Node closes their connections.
    this.#server.on("tlsClientError", () => {});
  }

  /** Starts to listen. Throws if the address cannot be used or the certificate is invalid. */
  static async listen(options: ServerOptions, certificate: Certificate): Promise<WebhookServer> {
    const server = new WebhookServer(options, certificate);
    const httpServer = server.#server;
    await listen(httpServer, { host: options.address, port: options.port });
    httpServer.on("error", (error) => options.onError(error));
    return server;
  }

  /** The port of the server; 0 while it does not listen. */
  get port(): number {
    const bound = this.#server.address();
    return typeof bound === "object" && bound !== null ? bound.port : 0;
  }

  /** Presents another certificate to new connections. Requests on open ones go on. */
  useCertificate(certificate: Certificate): void {
    this.#server.setSecureContext(this.#tlsOptions(certificate));
  }

  /** Certificate and key for TLS, and the CAs of clients if the settings name some; replicas may then connect, too. */
  #tlsOptions({ cert, key, peerCa = "" }: Certificate): { cert: string; key: string; ca?: string } {
    const { clientCa } = this.#options;
    return { cert, key, ...(clientCa === undefined ? {} : { ca: `${clientCa}\n${peerCa}` }) };
  }

  /** Stops listening, and closes all connections with the requests that are under way. */
  async close(): Promise<void> {
    const closed = new Promise<void>((resolve) => {
      this.#server.close(() => resolve());
    });
    this.#connections.destroyAll();
    await closed;
  }

  /**
   * Refuses an HTTP/2 request if its address has too many. Returns whether it did. Uses the bare stream, because building
   * request and response objects would cost more than the refusal.
   */
  #refuseExcessStream(stream: ServerHttp2Stream): boolean {
    const { session } = stream;
    // The client has disconnected.
    if (session === undefined) return true;
    const address = addressOf(session.socket);
    if (!this.#requests.isUsedUp(address)) return false;
    // Refusals cost time, too: a client that sends too many requests loses its connection.
    if (!this.#rates.countEvent(address)) {
      session.destroy();
      return true;
    }
    stream.on("error", () => {});
    stream.respond({ ":status": TOO_MANY.status }, { endStream: true });
    // Frees the stream at once: a reset without an error, as RFC 9113 has it.
    stream.close(constants.NGHTTP2_NO_ERROR);
    this.#options.report.webhookRequested({ status: TOO_MANY.status, seconds: 0 });
    return true;
  }

  /** Answers one request within the limits of its address, and reports it. */
  #handleRequest(request: Http2ServerRequest, response: Http2ServerResponse): void {
    const { clock, report } = this.#options;
    const startedAt = clock.monotonic();
    const address = addressOf(request.socket);
    if (!this.#rates.countEvent(address)) return closeConnection(request);
    const requestShare = this.#requests.openShare(address);
    const finish = (content: ResponseContent): void => {
      requestShare.close();
      sendResponse(response, content);
      this.#discardRestOfRequest(request);
      report.webhookRequested({ status: content.status, seconds: (clock.monotonic() - startedAt) / 1000 });
    };
    // A client that disconnects is no error; without a listener it would end the process.
    for (const stream of [request, response]) stream.on("error", () => {});
    if (requestShare.add(1)) void this.#buildResponse(request, response).then(finish);
    else finish(TOO_MANY);
  }

  /** Returns the response to send: the answer to the review, or an error with its HTTP status. Never rejects. */
  async #buildResponse(request: Http2ServerRequest, response: Http2ServerResponse): Promise<ResponseContent> {
    const url = URL.parse(request.url, "https://operator");
    const ended = new AbortController();
    response.once("close", () => ended.abort(new Error("the client waits no longer")));
    for (const stream of [request, response]) stream.on("error", () => ended.abort());
    try {
      const body = await this.#answerReview(request, url, ended);
      return { status: 200, type: "application/json", body };
    } catch (error) {
      const status = httpStatusOf(error);
      if (status === 500 && !ended.signal.aborted) this.#options.onError(error);
      return { status, type: TEXT_TYPE, body: `${oneLine(error)}\n` };
    }
  }

  /**
   * Discards the rest of a request whose response is sent. If the client neither stops sending nor reads the response in time,
   * closes the connection (HTTP/1.1) or the stream (HTTP/2).
   */
  #discardRestOfRequest(request: Http2ServerRequest): void {
    const { clock } = this.#options;
    const stream = request.httpVersionMajor > 1 ? request.stream : undefined;
    const hasEnded = stream === undefined ? request.complete : stream.destroyed;
    if (hasEnded) return;
    if (stream === undefined) request.resume();
    // The client still sends: frees the stream at once by a reset without an error, as RFC 9113 has it.
    else if (!stream.readableEnded && !stream.endAfterHeaders)
      onceResponseSent(stream, () => stream.close(constants.NGHTTP2_NO_ERROR));
    const timers = new Timers<"arrive">(clock);
    timers.set("arrive", this.#limits.arriveMs, () => {
      if (stream === undefined) request.socket.destroy();
      else stream.close(constants.NGHTTP2_CANCEL);
    });
    request.once("close", () => timers.close());
  }

  /**
   * Answers a health check or a review; returns the response body. Throws ReviewError, or the error of the handler. `abortController` is
   * aborted when the client disconnects, and here when the time limit is over.
   */
  async #answerReview(
    request: Http2ServerRequest,
    url: URL | null,
    abortController: AbortController,
  ): Promise<string> {
    const path = url?.pathname ?? "/";
    if (path === "/healthz" && request.method === "GET") return '"ok"\n';
    if (request.method !== "POST") throw new ReviewError("use POST", 405);
    if (!/^application\/json *(?:;|$)/i.test(request.headers["content-type"] ?? ""))
      throw new ReviewError("the content type is not application/json", 415);
    const { socket } = request;
    const { signal } = abortController;
    const client = addressOf(socket);
    const body = this.#bodies.openBody(client);
    const timers = new Timers<"answer">(this.#options.clock);
    timers.set("answer", this.#timeLimitOf(url), () =>
      abortController.abort(new ReviewError("no answer in time", 504)),
    );
    try {
      const handler = this.#options.findHandler(path, request.headers[FOLLOWER_HEADER] !== undefined);
      if (handler === undefined) throw new ReviewError(`no webhook is served at ${path}`, 404);
      if (!this.#parsing.of(client).isLeft())
        throw new ReviewError("recent requests needed too much time", TOO_MANY.status);
      const review = this.#parseBody(await body.read(request, path, signal), client);
      this.#connections.cancelRequestTimeout(socket);
      const { apiVersion, kind } = review;
      const response = await orAborted(handler(review.request, signal, client), signal);
      return JSON.stringify({ apiVersion, kind, response });
    } finally {
      timers.close();
      body.close();
    }
  }

  /** Parses the body of a request, and counts the time that this takes: nothing else can happen meanwhile. Throws ReviewError. */
  #parseBody(text: string, client: string): Review {
    const startMs = threadCpuMs();
    try {
      return parseReview(text);
    } finally {
      this.#parsing.of(client).spend(threadCpuMs() - startMs);
    }
  }

  /**
   * The time limit of a request in ms. It is a little shorter than the `timeout` in the URL, by which the API server names
   * its limit: the refusal has to arrive within that.
   */
  #timeLimitOf(url: URL | null): number {
    const ms = parseDuration(url?.searchParams.get("timeout") ?? "") ?? 0;
    if (ms <= 0 || ms > MAX_TIMEOUT_MS) return this.#limits.answerMs;
    return ms - Math.min(ms / 20, MAX_REFUSAL_MS);
  }
}

/** Arguments of the event `stream`; the types of Node leave out `rawHeaders`. */
type StreamArguments = [
  stream: ServerHttp2Stream,
  headers: IncomingHttpHeaders,
  flags: number,
  rawHeaders: string[],
];

/** The HTTP status for an error: any error but ReviewError is an internal one. */
function httpStatusOf(error: unknown): number {
  return error instanceof ReviewError ? error.status : 500;
}
