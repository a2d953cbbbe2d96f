/** A small HTTP server with limits on connections, sizes and times. */

import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { ListenOptions } from "node:net";

import { FOLLOWER_HEADER } from "../../kube/index.ts";
import { listen, readAtMost } from "../../base/index.ts";

export interface RunningServer {
  readonly port: number;
  close(): Promise<void>;
}

/** A request, already parsed. */
export interface WebRequest {
  readonly method: string;
  /** As it was sent, with percent-encoding. */
  readonly path: string;
  readonly query: URLSearchParams;
  readonly body: string;
  readonly host: string | undefined;
  readonly origin: string | undefined;
  readonly accept?: string | undefined;
  /** `Sec-Fetch-Site`. */
  readonly site: string | undefined;
  /** Set if a follower sends the request. */
  readonly follower?: string | undefined;
}

export interface WebResponse {
  readonly status: number;
  readonly body: string | Buffer;
  readonly type?: string;
  readonly headers?: Readonly<Record<string, string>>;
}

/** A response that lasts until either side ends it. */
export interface StreamResponse {
  /** Default: 200. */
  readonly status?: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly stream: (response: ServerResponse) => void;
}

/** The handler of a server's requests, and its limits. */
export interface Service {
  readonly methods: readonly string[];
  handle(request: WebRequest): Promise<WebResponse | StreamResponse>;
  /** Called with errors that no client learns of; the server goes on. */
  onError(error: unknown): void;
  readonly limits?: Partial<WebLimits>;
}

export interface WebLimits {
  /** One more connection closes the oldest one, so that no client can block others. */
  readonly connections: number;
  readonly headerBytes: number;
  readonly bodyBytes: number;
  /** Time for the headers of a request, and for the whole request. */
  readonly headMs: number;
  readonly requestMs: number;
  /** Time without a byte in either direction. */
  readonly idleMs: number;
}

/** The default limits. */
export const DEFAULT_LIMITS: WebLimits = {
  connections: 128,
  headerBytes: 16_384,
  bodyBytes: 65_536,
  headMs: 10_000,
  requestMs: 30_000,
  idleMs: 60_000,
};

/** A connection is closed after this many requests. */
export const REQUESTS_PER_CONNECTION = 100;
const TEXT = "text/plain; charset=utf-8";

/** Starts a server. Each request gets a response or its connection is closed. Throws if the address cannot be used. */
export async function serve(address: ListenOptions, service: Service): Promise<RunningServer> {
  const limits = { ...DEFAULT_LIMITS, ...service.limits };
  const server = createServer({
    maxHeaderSize: limits.headerBytes,
    headersTimeout: limits.headMs,
    requestTimeout: limits.requestMs,
    connectionsCheckingInterval: limits.headMs / 2,
  });
  server.timeout = limits.idleMs;
  server.maxRequestsPerSocket = REQUESTS_PER_CONNECTION;
  limitConnections(server, limits.connections);
  serializeResponses(server, (request, response) => answerRequest(request, response, { ...service, limits }));
  await listen(server, address);
  // An error while it listens: for example, the process has no file descriptor for another connection.
  server.on("error", (error) => service.onError(error));
  const bound = server.address(); // A text for a unix socket.
  return {
    port: typeof bound === "object" && bound !== null ? bound.port : 0,
    close: () => closeServer(server),
  };
}

/** Closes the oldest connection when there are more than `max`, so that no client can keep all others out. */
function limitConnections(server: Server, max: number): void {
  const openSockets = new Set<{ destroy(): void }>();
  server.on("connection", (socket) => {
    openSockets.add(socket);
    socket.once("close", () => openSockets.delete(socket));
    const [oldest] = openSockets;
    if (openSockets.size > max) oldest?.destroy();
  });
}

/** Answers the requests of one connection one after the other: a client that pipelines them would fill the memory with responses. */
function serializeResponses(
  server: Server,
  answer: (request: IncomingMessage, response: ServerResponse) => Promise<void>,
): void {
  const lastResponseBySocket = new WeakMap<object, Promise<unknown>>();
  server.on("request", (request, response) => {
    const previousResponse = lastResponseBySocket.get(request.socket);
    const { promise: done, resolve } = Promise.withResolvers<void>();
    response.once("close", resolve);
    for (const stream of [request, response]) stream.on("error", () => response.destroy());
    lastResponseBySocket.set(request.socket, done);
    void Promise.resolve(previousResponse).then(() => answer(request, response));
  });
}

/** Answers one request. An internal error is reported to the service, and the client learns only that it happened. */
async function answerRequest(
  request: IncomingMessage,
  response: ServerResponse,
  service: Service & { readonly limits: WebLimits },
): Promise<void> {
  try {
    const parsed = parseHead(request, service.methods);
    if ("status" in parsed) return sendAnswer(request, response, parsed);
    const body = await readBody(request, service);
    const tooLarge = { status: 413, body: `the request is larger than ${service.limits.bodyBytes} bytes\n` };
    sendAnswer(request, response, body === undefined ? tooLarge : await service.handle({ ...parsed, body }));
  } catch (error) {
    // The client closed the connection, so nobody reads a response.
    if (response.destroyed || request.errored !== null) return void response.destroy();
    service.onError(error);
    if (response.headersSent) response.destroy();
    else sendAnswer(request, response, { status: 500, body: "internal error\n" });
  }
}

type RequestHead = Omit<WebRequest, "body">;

/** Parses method, URL and headers; returns an error response for an invalid request. */
function parseHead(
  { method = "GET", url = "/", headers }: IncomingMessage,
  methods: readonly string[],
): RequestHead | WebResponse {
  if (!methods.includes(method)) return { status: 405, body: `use ${methods.join(" or ")}\n` };
  // The URL of a request through a proxy is absolute.
  const parsed = URL.parse(url.startsWith("/") ? `http://operator${url}` : url);
  if (parsed === null) return { status: 400, body: "invalid path\n" };
  const { host, origin, accept, "sec-fetch-site": site, [FOLLOWER_HEADER]: follower } = headers;
  const headerFields = { host, origin, accept, site: joinHeader(site), follower: joinHeader(follower) };
  return { method, path: parsed.pathname, query: parsed.searchParams, ...headerFields };
}

/** A header that occurs several times as one text. */
function joinHeader(header: string | string[] | undefined): string | undefined {
  return Array.isArray(header) ? header.join() : header;
}

/** Reads the body as text; "" if the service accepts no POST. Undefined for a body above the limit. */
async function readBody(
  request: IncomingMessage,
  { methods, limits }: Service & { limits: WebLimits },
): Promise<string | undefined> {
  if (!methods.includes("POST")) return "";
  const body = await readAtMost(request as AsyncIterable<Buffer>, limits.bodyBytes);
  return body?.toString("utf8");
}

/** Sends a response. Closes the connection if the client may still send a body that nobody reads: the next request would begin within it. */
function sendAnswer(
  request: IncomingMessage,
  response: ServerResponse,
  answer: WebResponse | StreamResponse,
): void {
  if ("stream" in answer) {
    response.writeHead(answer.status ?? 200, answer.headers);
    return request.method === "HEAD" ? void response.end() : answer.stream(response);
  }
  const { status, body, type = TEXT, headers } = answer;
  const isBodyUnread = !request.complete && (request.headers["content-length"] ?? "0") !== "0";
  const mayHaveMore = isBodyUnread || request.headers["transfer-encoding"] !== undefined;
  const closeHeader = mayHaveMore ? { connection: "close" } : {};
  response.writeHead(status, { "content-type": type, ...headers, ...closeHeader });
  response.end(body);
}

/** Stops a server and closes all its connections. */
function closeServer(server: Server): Promise<void> {
  return new Promise((resolve) => {
    server.close(() => resolve());
    server.closeAllConnections();
  });
}
