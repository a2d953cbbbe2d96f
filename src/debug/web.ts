/** A small HTTP server with limits on connections, sizes and times. */

import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { ListenOptions } from "node:net";

import { FOLLOWER_HEADER } from "../kube/index.ts";

/** A listening server. */
export interface Listening {
  readonly port: number;
  close(): Promise<void>;
}

/** A request, already parsed. */
export interface WebRequest {
  readonly method: string;
  /** As it was sent, with percent signs. */
  readonly path: string;
  readonly query: URLSearchParams;
  readonly body: string;
  /** The headers of these names. */
  readonly host: string | undefined;
  readonly origin: string | undefined;
  readonly accept?: string | undefined;
  /** `Sec-Fetch-Site`. */
  readonly site: string | undefined;
  /** Set where a follower asks. */
  readonly follower?: string | undefined;
}

export interface WebAnswer {
  readonly status: number;
  readonly body: string | Buffer;
  readonly type?: string;
  readonly headers?: Readonly<Record<string, string>>;
}

/** An answer that goes on until either side ends it. */
export interface StreamAnswer {
  /** 200 where there is none. */
  readonly status?: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly stream: (response: ServerResponse) => void;
}

/** What a server answers, and its limits. */
export interface Service {
  readonly methods: readonly string[];
  answer(request: WebRequest): Promise<WebAnswer | StreamAnswer>;
  /** Called with errors that nobody else learns of; the server goes on. */
  failed(error: unknown): void;
  readonly limits?: Partial<Limits>;
}

export interface Limits {
  /** With one more, the oldest connection is closed, so nobody can keep others out. */
  readonly connections: number;
  readonly headerBytes: number;
  readonly bodyBytes: number;
  /** Time for the headers of a request, and for all of it. */
  readonly headMs: number;
  readonly requestMs: number;
  /** Time without a byte in either direction. */
  readonly idleMs: number;
}

/** What is granted where nothing else is asked for. */
export const LIMITS: Limits = {
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

/**
 * Starts a server. Each request gets an answer or its connection is closed. Throws when the address cannot be used.
 */
export async function serve(listen: ListenOptions, service: Service): Promise<Listening> {
  const limits = { ...LIMITS, ...service.limits };
  const server = createServer({
    maxHeaderSize: limits.headerBytes,
    headersTimeout: limits.headMs,
    requestTimeout: limits.requestMs,
    connectionsCheckingInterval: limits.headMs / 2,
  });
  server.timeout = limits.idleMs;
  server.maxRequestsPerSocket = REQUESTS_PER_CONNECTION;
  boundConnections(server, limits.connections);
  answerInTurn(server, (request, response) => respond(request, response, { ...service, limits }));
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(listen, resolve);
  });
  // For example, there is no room for another connection.
  server.on("error", (error) => service.failed(error));
  const bound = server.address();
  return {
    port: typeof bound === "object" && bound !== null ? bound.port : 0,
    close: () => closeServer(server),
  };
}

function boundConnections(server: Server, most: number): void {
  const open = new Set<{ destroy(): void }>();
  server.on("connection", (socket) => {
    open.add(socket);
    socket.once("close", () => open.delete(socket));
    const [oldest] = open;
    if (open.size > most) oldest?.destroy();
  });
}

/**
 * Several requests on one connection are answered one after the other, so that their answers are not in memory
 * together.
 */
function answerInTurn(
  server: Server,
  answer: (request: IncomingMessage, response: ServerResponse) => Promise<void>,
): void {
  const last = new WeakMap<object, Promise<unknown>>();
  server.on("request", (request, response) => {
    const before = last.get(request.socket);
    const { promise: over, resolve } = Promise.withResolvers<void>();
    response.once("close", resolve);
    for (const stream of [request, response]) stream.on("error", () => response.destroy());
    last.set(request.socket, over);
    void Promise.resolve(before).then(() => answer(request, response));
  });
}

async function respond(
  request: IncomingMessage,
  response: ServerResponse,
  service: Service & { readonly limits: Limits },
): Promise<void> {
  try {
    const parsed = parse(request, service.methods);
    const answer =
      "status" in parsed ? parsed : await service.answer({ ...parsed, body: await bodyOf(request, service) });
    send(request, response, answer);
  } catch (error) {
    // The client is gone: there is nobody to answer.
    if (response.destroyed || request.errored !== null) return void response.destroy();
    if (error instanceof TooLargeError)
      return send(request, response, { status: 413, body: `${error.message}\n` });
    service.failed(error);
    if (response.headersSent) response.destroy();
    else send(request, response, { status: 500, body: "internal error\n" });
  }
}

type Parsed = Omit<WebRequest, "body">;

function parse(
  { method = "GET", url = "/", headers }: IncomingMessage,
  methods: readonly string[],
): Parsed | WebAnswer {
  if (!methods.includes(method)) return { status: 405, body: `use ${methods.join(" or ")}\n` };
  // A request through a proxy has a host in its path.
  const parsed = URL.parse(url.startsWith("/") ? `http://operator${url}` : url);
  if (parsed === null) return { status: 400, body: "that is no path\n" };
  const { host, origin, accept, "sec-fetch-site": site, [FOLLOWER_HEADER]: follower } = headers;
  const whence = { host, origin, accept, site: single(site), follower: single(follower) };
  return { method, path: parsed.pathname, query: parsed.searchParams, ...whence };
}

function single(header: string | string[] | undefined): string | undefined {
  return Array.isArray(header) ? header.join() : header;
}

class TooLargeError extends Error {}

async function bodyOf(
  request: IncomingMessage,
  { methods, limits }: Service & { limits: Limits },
): Promise<string> {
  if (!methods.includes("POST")) return "";
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    size += chunk.length;
    if (size > limits.bodyBytes)
      throw new TooLargeError(`the request is larger than ${limits.bodyBytes} bytes`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString("utf8");
}

function send(request: IncomingMessage, response: ServerResponse, answer: WebAnswer | StreamAnswer): void {
  if ("stream" in answer) {
    response.writeHead(answer.status ?? 200, answer.headers);
    return request.method === "HEAD" ? void response.end() : answer.stream(response);
  }
  const { status, body, type = TEXT, headers } = answer;
  // The rest of the body would have to be read before the next request.
  const unread = !request.complete && (request.headers["content-length"] ?? "0") !== "0";
  const rest = unread || request.headers["transfer-encoding"] !== undefined ? { connection: "close" } : {};
  response.writeHead(status, { "content-type": type, ...headers, ...rest });
  response.end(body);
}

/** Stops a server and closes its idle connections. */
function closeServer(server: Server): Promise<void> {
  return new Promise((resolve) => {
    server.close(() => resolve());
    server.closeAllConnections();
  });
}
