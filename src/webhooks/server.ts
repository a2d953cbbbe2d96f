/** The TLS server that the API server calls: HTTP/2 and HTTP/1.1, with limits on connections, sizes and times. */

import { constants, createSecureServer, Http2ServerRequest, Http2ServerResponse } from "node:http2";
import type {
  Http2SecureServer,
  IncomingHttpHeaders,
  ServerHttp2Session,
  ServerHttp2Stream,
} from "node:http2";

import { oneLine, orAborted, parseDuration, type Clock } from "../lib/index.ts";
import { Bodies } from "./body.ts";
import type { Certificate } from "./certificate/certificate.ts";
import { Connections, addressOf } from "./connections.ts";
import { FOLLOWER_HEADER } from "./follower.ts";
import { LIMITS, type WebhookLimits } from "./limits.ts";
import { Rates } from "./rates.ts";
import { ReviewError, reviewIn, type ReviewHandler } from "./review.ts";
import { Shares } from "./shares.ts";

/** Memory of one HTTP/2 connection, in MB: enough for its streams and one body of the largest size. */
const SESSION_MB = 96;
/** Counts of Node over the life of a connection; what one client may begin in a second has its own limit. */
const UNLIMITED = 2 ** 31;
/** The longest time that Kubernetes lets webhooks have. */
const LONGEST_MS = 30_000;

/** One finished request; `status` is the HTTP status. */
export interface WebhookReport {
  readonly status: number;
  readonly seconds: number;
}

interface ServerOptions {
  readonly clock: Clock;
  readonly address: string;
  readonly port: number;
  /** CAs of clients, as PEM; without them, any client may connect. */
  readonly clientCa?: string | undefined;
  readonly limits?: Partial<WebhookLimits> | undefined;
  /** The handler at a path; undefined = there is none. `isForwarded`: another replica sends the request. */
  readonly find: (path: string, isForwarded: boolean) => ReviewHandler | undefined;
  readonly onRequest: (report: WebhookReport) => void;
  /** Called with errors that no client learns of; the server goes on. */
  readonly failed: (error: unknown) => void;
}

/**
 * Answers reviews until it is closed. What it cannot answer gets an HTTP error, so that the `failurePolicy` of the webhook
 * decides: 404 at unknown paths, 413 and 429 above its limits, 503 while `find` throws, 500 if a handler fails.
 */
export class WebhookServer {
  readonly #options: ServerOptions;
  readonly #limits: WebhookLimits;
  readonly #server: Http2SecureServer;
  readonly #connections: Connections;
  readonly #requests: Shares;
  readonly #bodies: Bodies;
  readonly #rates: Rates;

  private constructor(options: ServerOptions, certificate: Certificate) {
    this.#options = options;
    this.#limits = { ...LIMITS, ...options.limits };
    const { arriveMs, idleMs, connections: limit, requests, rates } = this.#limits;
    const { clock } = options;
    this.#connections = new Connections({ clock, limit, rate: rates.connections, arriveMs });
    this.#rates = new Rates(clock, rates.requests);
    const resets = Math.min(rates.requests, UNLIMITED);
    this.#requests = new Shares(requests);
    this.#bodies = new Bodies(clock, this.#limits);
    this.#server = createSecureServer({
      ...this.#contextOf(certificate),
      allowHTTP1: true,
      minVersion: "TLSv1.2",
      // Calls above the limit of requests must get their refusal. For Node, streams go on for some time after their end: those
      // above its limit are reset. Neither this nor what arrives for refused streams must end the connection.
      settings: { maxConcurrentStreams: 4 * requests.each },
      maxSessionRejectedStreams: UNLIMITED,
      maxSessionInvalidFrames: UNLIMITED,
      // Resets that a refusal causes count, too: by default, 1000 refusals that come before the bodies end a connection.
      streamResetBurst: resets,
      streamResetRate: resets,
      maxSessionMemory: SESSION_MB,
      handshakeTimeout: arriveMs,
      ...(options.clientCa === undefined ? {} : { requestCert: true, rejectUnauthorized: true }),
    });
    this.#server.setTimeout(idleMs);
    // A session says that it ends, so that the client sends its next request elsewhere.
    this.#server.on("timeout", (idle: Partial<ServerHttp2Session> & { destroy(): void }) =>
      idle.close === undefined ? idle.destroy() : idle.close(),
    );
    this.#server.on("connection", (socket) => this.#connections.add(socket));
    this.#server.on("session", (session) => session.on("error", () => session.destroy()));
    // Once something listens to `request`, Node builds a request and a response for each HTTP/2 stream, which costs more than
    // a refusal. Without this listener of its own, `request` reports those of HTTP/1.1 alone.
    this.#server.removeAllListeners("newListener");
    this.#server.on("request", (request, response) => this.#take(request, response));
    this.#server.on("stream", (...[stream, headers, , rawHeaders]: StreamArguments) => {
      if (!this.#refuse(stream))
        this.#take(new Http2ServerRequest(stream, headers, {}, rawHeaders), new Http2ServerResponse(stream));
    });
    // Clients that do not speak TLS, or not our versions.
    this.#server.on("tlsClientError", () => {});
  }

  /** Starts to listen. Throws if the address cannot be used or the certificate is invalid. */
  static async listen(options: ServerOptions, certificate: Certificate): Promise<WebhookServer> {
    const server = new WebhookServer(options, certificate);
    const own = server.#server;
    await new Promise<void>((resolve, reject) => {
      own.once("error", reject);
      own.listen({ host: options.address, port: options.port }, resolve);
    });
    own.on("error", (error) => options.failed(error));
    return server;
  }

  get port(): number {
    const bound = this.#server.address();
    return typeof bound === "object" && bound !== null ? bound.port : 0;
  }

  /** Presents another certificate to new connections. Requests on open ones go on. */
  use(certificate: Certificate): void {
    this.#server.setSecureContext(this.#contextOf(certificate));
  }

  #contextOf({ cert, key, peerCa = "" }: Certificate): { cert: string; key: string; ca?: string } {
    const { clientCa } = this.#options;
    return { cert, key, ...(clientCa === undefined ? {} : { ca: `${clientCa}\n${peerCa}` }) };
  }

  /** Accepts nothing more and ends what is under way. */
  async close(): Promise<void> {
    const closed = new Promise<void>((resolve) => {
      this.#server.close(() => resolve());
    });
    this.#connections.destroy();
    await closed;
  }

  /** Refuses an HTTP/2 request above the limit before anything else is done for it: that must cost little. */
  #refuse(stream: ServerHttp2Stream): boolean {
    const { session } = stream;
    if (session === undefined) return true;
    const address = addressOf(session.socket);
    if (!this.#requests.isUsedUp(address)) return false;
    if (!this.#rates.add(address)) {
      session.destroy();
      return true;
    }
    stream.on("error", () => {});
    stream.respond({ ":status": TOO_MANY.status }, { endStream: true });
    // Frees the stream at once: a reset without an error, as RFC 9113 has it.
    stream.close(constants.NGHTTP2_NO_ERROR);
    this.#options.onRequest({ status: TOO_MANY.status, seconds: 0 });
    return true;
  }

  #take(request: Http2ServerRequest, response: Http2ServerResponse): void {
    const { clock, onRequest } = this.#options;
    const startedAt = clock.monotonic();
    const address = addressOf(request.socket);
    if (!this.#rates.add(address)) return end(request);
    const place = this.#requests.open(address);
    const finish = (content: Content): void => {
      place.close();
      send(response, content);
      this.#discard(request);
      onRequest({ status: content.status, seconds: (clock.monotonic() - startedAt) / 1000 });
    };
    for (const stream of [request, response]) stream.on("error", () => {});
    if (place.add(1)) void this.#answer(request, response).then(finish);
    else finish(TOO_MANY);
  }

  /** Never rejects. */
  async #answer(request: Http2ServerRequest, response: Http2ServerResponse): Promise<Content> {
    const url = URL.parse(request.url, "https://operator");
    const path = url?.pathname ?? "/";
    const ended = new AbortController();
    response.once("close", () => ended.abort(new Error("the client waits no longer")));
    for (const stream of [request, response]) stream.on("error", () => ended.abort());
    try {
      const body = await this.#response(request, { url, path, ended });
      return { status: 200, type: "application/json", body };
    } catch (error) {
      const status = statusOf(error);
      if (status === 500 && !ended.signal.aborted) this.#options.failed(error);
      return { status, type: TEXT, body: `${oneLine(error)}\n` };
    }
  }

  /**
   * After the answer: what the client goes on to send is discarded, and if it neither stops sending nor reads the answer in
   * time, its connection ends (HTTP/1.1) or its stream.
   */
  #discard(request: Http2ServerRequest): void {
    const { clock } = this.#options;
    const stream = request.httpVersionMajor > 1 ? request.stream : undefined;
    if (stream === undefined ? request.complete : stream.destroyed) return;
    if (stream === undefined) request.resume();
    // Frees the stream at once: a reset without an error, as RFC 9113 has it.
    else if (!stream.readableEnded && !stream.endAfterHeaders)
      afterAnswer(stream, () => stream.close(constants.NGHTTP2_NO_ERROR));
    const late = clock.setTimer(this.#limits.arriveMs, () =>
      stream === undefined ? void request.socket.destroy() : stream.close(constants.NGHTTP2_CANCEL),
    );
    request.once("close", () => late.cancel());
  }

  /** The body of the answer. Throws ReviewError, or what the handler throws. */
  async #response(request: Http2ServerRequest, { url, path, ended }: Call): Promise<string> {
    if (path === "/healthz" && request.method === "GET") return '"ok"\n';
    if (request.method !== "POST") throw new ReviewError("use POST", 405);
    if (!/^application\/json *(?:;|$)/i.test(request.headers["content-type"] ?? ""))
      throw new ReviewError("the content type is not application/json", 415);
    const { socket } = request;
    const body = this.#bodies.open(addressOf(socket));
    const limit = this.#options.clock.setTimer(this.#timeOf(url), () =>
      ended.abort(new ReviewError("no answer in time", 504)),
    );
    try {
      const handler = this.#options.find(path, request.headers[FOLLOWER_HEADER] !== undefined);
      if (handler === undefined) throw new ReviewError(`no webhook is served at ${path}`, 404);
      const review = reviewIn(await body.read(request, path, ended.signal));
      this.#connections.arrived(socket);
      const { apiVersion, kind } = review;
      const response = await orAborted(handler(review.request, ended.signal), ended.signal);
      return JSON.stringify({ apiVersion, kind, response });
    } finally {
      limit.cancel();
      body.close();
    }
  }

  /** The API server names its time limit; the answer needs some of it. */
  #timeOf(url: URL | null): number {
    const ms = parseDuration(url?.searchParams.get("timeout") ?? "") ?? 0;
    return ms > 0 && ms <= LONGEST_MS ? ms : this.#limits.answerMs;
  }
}

type StreamArguments = [
  stream: ServerHttp2Stream,
  headers: IncomingHttpHeaders,
  flags: number,
  rawHeaders: string[],
];

interface Call {
  readonly url: URL | null;
  readonly path: string;
  /** Aborted at the end of the time, or when the client has disconnected. */
  readonly ended: AbortController;
}

function statusOf(error: unknown): number {
  return error instanceof ReviewError ? error.status : 500;
}

/** Ends the connection of a request. */
function end(request: Http2ServerRequest): void {
  if (request.httpVersionMajor === 1) request.socket.destroy();
  else request.stream.session?.destroy();
}

/** Calls `fn` when all of the answer is sent. */
function afterAnswer(stream: ServerHttp2Stream, fn: () => void): void {
  if (stream.writableFinished) fn();
  else stream.once("finish", fn);
}

interface Content {
  readonly status: number;
  readonly type: string;
  readonly body: string;
}

const TEXT = "text/plain; charset=utf-8";
const TOO_MANY: Content = { status: 429, type: TEXT, body: "too many requests at one time\n" };

function send(response: Http2ServerResponse, { status, type, body }: Content): void {
  if (response.destroyed || response.writableEnded) return;
  const headers = { "content-type": type };
  if (response.req.httpVersionMajor === 1) return void response.writeHead(status, headers).end(body);
  const { stream } = response;
  if (stream.closed || stream.headersSent) return;
  // Without trailers, which would come after the end of a stream that is reset.
  stream.respond({ ":status": status, ...headers });
  // Node has ended the answer to HEAD.
  if (!stream.writableEnded) stream.end(body);
}
