import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { IncomingMessage, Server, ServerResponse } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text as readText } from "node:stream/consumers";

/** A request as the fake server received it. */
export interface SeenRequest {
  readonly method: string;
  /** Path without the query. */
  readonly path: string;
  readonly query: Readonly<Record<string, string>>;
  readonly headers: IncomingMessage["headers"];
  readonly body: string;
}

/** What the fake server does with one request. */
export type Answer =
  | { readonly status?: number; readonly json?: unknown; readonly headers?: Readonly<Record<string, string>> }
  /** Ends the connection without an answer, or after that many characters of the body. */
  | { readonly cut: true; readonly after?: string }
  /** Never answers. */
  | { readonly hang: true }
  /** The answer in the hands of the test (watches). */
  | { readonly take: (response: ServerResponse) => void };

export type Handler = (request: SeenRequest) => Answer | Promise<Answer>;

/** A Status object as the API server sends it. */
export function status(code: number, reason: string, more: Readonly<Record<string, unknown>> = {}): Answer {
  const { headers, ...rest } = more as { headers?: Record<string, string> };
  const json = {
    kind: "Status",
    apiVersion: "v1",
    status: "Failure",
    code,
    reason,
    message: reason,
    ...rest,
  };
  return { status: code, json, ...(headers === undefined ? {} : { headers }) };
}

/**
 * A real HTTP server in place of the API server. Answers are scripted per `METHOD /path`: each one is used once, the
 * last one stays. What is not scripted is a 404.
 */
export class FakeApi {
  readonly requests: SeenRequest[] = [];
  /** Connections accepted so far. */
  connections = 0;
  readonly #scripts = new Map<string, (Answer | Handler)[]>();
  readonly #sockets = new Set<Socket>();
  readonly #folder = mkdtempSync(join(tmpdir(), "fake-api-"));
  readonly #server: Server;

  private constructor(server: Server) {
    this.#server = server;
    server.on("request", (request, response) => void this.#handle(request, response));
    server.on("connection", (socket) => {
      this.connections++;
      this.#sockets.add(socket);
      socket.once("close", () => this.#sockets.delete(socket));
    });
  }

  static async start(): Promise<FakeApi> {
    const api = new FakeApi(createServer({ keepAliveTimeout: 0 }));
    await new Promise<void>((resolve) => {
      api.#server.listen(0, "127.0.0.1", resolve);
    });
    return api;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** Path of a kubeconfig that leads here; `user` is its only user. */
  kubeconfig(user: Readonly<Record<string, unknown>> = {}): string {
    const file = join(this.#folder, "config");
    const config = {
      apiVersion: "v1",
      kind: "Config",
      "current-context": "fake",
      clusters: [{ name: "fake", cluster: { server: this.url } }],
      users: [{ name: "fake", user }],
      contexts: [{ name: "fake", context: { cluster: "fake", user: "fake", namespace: "ops" } }],
    };
    writeFileSync(file, JSON.stringify(config));
    return file;
  }

  /** Scripts the answers to `METHOD /path`. */
  on(route: string, ...answers: readonly (Answer | Handler)[]): this {
    this.#scripts.set(route, [...answers]);
    return this;
  }

  /** How often `METHOD /path` was asked. */
  count(route: string): number {
    return this.requests.filter(({ method, path }) => `${method} ${path}` === route).length;
  }

  /** Cuts every connection. */
  cutAll(): void {
    for (const socket of this.#sockets) socket.destroy();
  }

  async close(): Promise<void> {
    this.cutAll();
    await new Promise((resolve) => {
      this.#server.close(resolve);
    });
    rmSync(this.#folder, { recursive: true, force: true });
  }

  async #handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = new URL(request.url ?? "/", "http://fake");
    const body = await readText(request).catch(() => "");
    const method = request.method ?? "GET";
    const query = Object.fromEntries(url.searchParams);
    const seen: SeenRequest = { method, path: url.pathname, query, headers: request.headers, body };
    this.requests.push(seen);
    const script = this.#scripts.get(`${method} ${url.pathname}`) ?? [status(404, "NotFound")];
    const next = script.length > 1 ? script.shift() : script[0];
    give(typeof next === "function" ? await next(seen) : (next ?? status(404, "NotFound")), response);
  }
}

/** Does with a request what `answer` says. */
export function give(answer: Answer, response: ServerResponse): void {
  if ("hang" in answer) return;
  if ("take" in answer) return answer.take(response);
  if ("cut" in answer) {
    if (answer.after === undefined) return void response.destroy();
    response.writeHead(200, {
      "content-type": "application/json",
      "content-length": String(answer.after.length + 1),
    });
    return void response.write(answer.after, () => response.destroy());
  }
  response.writeHead(answer.status ?? 200, { "content-type": "application/json", ...answer.headers });
  response.end(answer.json === undefined ? "" : JSON.stringify(answer.json));
}
