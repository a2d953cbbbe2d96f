import { readFileSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import type { IncomingMessage, Server, ServerResponse } from "node:http";
import { createServer } from "node:http";
import { request } from "node:https";
import type { Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";

import { freePorts } from "../../scripts/control-plane/ports.mjs";
import { parseYaml } from "../../src/base/index.ts";

/** A request as rules see it. */
export interface Seen {
  readonly method: string;
  readonly path: string;
  readonly query: URLSearchParams;
  readonly watch: boolean;
  /** `Helm/4.0.0` and the like. */
  readonly agent: string;
  /** The form of the answer: an object, its metadata alone … */
  readonly accept: string;
}

/** A request that is kept waiting: before the server hears of it, or after it has done its work. */
interface Blocker {
  readonly match: (seen: Seen) => boolean;
  readonly when: "before" | "after";
  readonly arrived: () => void;
}

/** An answer given instead of the API server's. */
export interface FalseAnswer {
  readonly status: number;
  readonly reason: string;
  readonly retryAfterSeconds?: number;
  /** Say it as an ERROR event within a watch that begins well. */
  readonly asFrame?: boolean;
  /** A page of a program in between, in place of a Status. */
  readonly html?: string;
  /** The connection ends in place of an answer: before the API server hears of the request, after it has done its work, or within the answer. */
  readonly wire?: "cut" | "lost" | "half";
  /** The API server's answer, which comes so late. */
  readonly lateMs?: number;
}

/** An answer to a read, as a whole. */
export interface WholeAnswer {
  readonly status: number;
  readonly body: string;
}

/** Changes what clients observe, request by request and event by event. */
export interface Distortion {
  /** Gets each line of a watch, and passes on what the client gets. */
  event(seen: Seen, line: string, pass: (line: string) => void): void;
  /** The answer in place of the API server's; undefined = the API server answers. */
  read(seen: Seen): WholeAnswer | undefined;
  /** Gets each answer to a read. */
  answered(seen: Seen, answer: WholeAnswer): void;
}

/** Changes the body of answers. */
interface Rewrite {
  readonly match: (seen: Seen) => boolean;
  readonly change: (body: string) => string;
}

interface Rule {
  readonly match: (seen: Seen) => boolean;
  readonly answer: FalseAnswer;
  left: number;
}

interface Open {
  readonly response: ServerResponse;
  readonly watch: boolean;
  /** The beginning of a line of a watch. */
  rest: Buffer;
  silent: boolean;
  /** Deliver half of the next chunk, then cut. */
  half: boolean;
}

interface Upstream {
  readonly server: URL;
  readonly ca: Buffer;
  readonly cert: Buffer;
  readonly key: Buffer;
}

/**
 * A proxy before the real API server that breaks things on the wire: connections cut or silent, half events, false
 * answers, refused connections. Clients reach it by `kubeconfig`, with the rights of the original one.
 */
export class FaultProxy {
  /** Requests that came through, newest last. */
  readonly seen: Seen[] = [];
  /** How often `halveNext` and the like have struck. */
  struck = 0;
  readonly #upstream: Upstream;
  readonly #dir = mkdtempSync(join(tmpdir(), "fault-proxy-"));
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  readonly #open = new Set<Open>();
  readonly #holds = new Set<Blocker>();
  #rules: Rule[] = [];
  readonly #rewrites = new Set<Rewrite>();
  /** Of watches that begin from now on. */
  distortion: Distortion | undefined;
  readonly #port: number;
  #delayMs = 0;

  private constructor(upstream: Upstream, port: number) {
    this.#upstream = upstream;
    this.#port = port;
    this.#server = createServer((incoming, response) => this.#handle(incoming, response));
    this.#server.on("connection", (socket) => {
      this.#sockets.add(socket);
      socket.on("close", () => this.#sockets.delete(socket)).on("error", () => {});
    });
  }

  static async open(kubeconfig: string): Promise<FaultProxy> {
    const [port = 0] = await freePorts(1);
    const proxy = new FaultProxy(upstreamOf(kubeconfig), port);
    await proxy.accept();
    const cluster = { server: proxy.url, "insecure-skip-tls-verify": true };
    const config = {
      apiVersion: "v1",
      kind: "Config",
      "current-context": "proxy",
      clusters: [{ name: "proxy", cluster }],
      users: [{ name: "proxy", user: {} }],
      contexts: [{ name: "proxy", context: { cluster: "proxy", user: "proxy" } }],
    };
    writeFileSync(proxy.kubeconfig, JSON.stringify(config));
    return proxy;
  }

  /** Path of a kubeconfig that leads here. */
  get kubeconfig(): string {
    return join(this.#dir, "kubeconfig");
  }

  /** For requests with the same rights, without a client. */
  get url(): string {
    return `http://127.0.0.1:${this.#port}`;
  }

  /** Number of watches that are open. */
  get watches(): number {
    return [...this.#open].filter(({ watch, silent }) => watch && !silent).length;
  }

  /** Answers the next `times` matching requests falsely. */
  answer(match: (seen: Seen) => boolean, answer: FalseAnswer, times: number): void {
    this.#rules.push({ match, answer, left: times });
  }

  /** Changes the bodies of all matching answers, until the returned function is called. */
  rewrite(match: (seen: Seen) => boolean, change: (body: string) => string): () => void {
    const rewrite = { match, change };
    this.#rewrites.add(rewrite);
    return () => this.#rewrites.delete(rewrite);
  }

  /** Keeps the next matching request waiting for ever; resolves when it has come that far. */
  hold(match: (seen: Seen) => boolean, when: "before" | "after"): Promise<void> {
    return new Promise((arrived) => {
      this.#holds.add({ match, when, arrived });
    });
  }

  /** Lets requests through that nobody has made yet. Those that are kept wait on. */
  forgetHolds(): void {
    this.#holds.clear();
  }

  /** How many false answers are still to be given. */
  get due(): number {
    return this.#rules.reduce((sum, { left }) => sum + left, 0);
  }

  /** Cuts all open watches. */
  cut(): void {
    for (const { response, watch } of this.#open) if (watch) response.socket?.destroy();
  }

  /** Delivers half of the next event of each open watch, then cuts it. */
  halveNext(): void {
    for (const open of this.#open) open.half = open.watch;
  }

  /** The watches open now stay open and say nothing any more. */
  silence(): void {
    for (const open of this.#open) open.silent = open.watch;
  }

  /** Each request waits so long. */
  delay(ms: number): void {
    this.#delayMs = ms;
  }

  /** Cuts everything and refuses connections, as while a server restarts. */
  async refuse(): Promise<void> {
    const closed = new Promise((resolve) => this.#server.close(resolve));
    for (const socket of this.#sockets) socket.destroy();
    await closed;
  }

  /** Accepts connections (again). */
  async accept(): Promise<void> {
    await new Promise<void>((resolve) => this.#server.listen(this.#port, "127.0.0.1", resolve));
  }

  async close(): Promise<void> {
    if (this.#server.listening) await this.refuse();
    rmSync(this.#dir, { recursive: true });
  }

  #handle(incoming: IncomingMessage, response: ServerResponse): void {
    const url = new URL(incoming.url ?? "/", "http://proxy");
    const { method = "GET", headers } = incoming;
    const [path, query] = [url.pathname, url.searchParams];
    const agent = headers["user-agent"] ?? "";
    const seen = { method, path, query, watch: query.has("watch"), agent, accept: headers.accept ?? "" };
    this.seen.push(seen);
    const hold = [...this.#holds].find(({ match }) => match(seen));
    if (hold !== undefined) return this.#keep(incoming, response, { hold, seen });
    const rule = this.#rules.find(({ match, left }) => left > 0 && match(seen));
    const older = this.distortion?.read(seen);
    if (rule === undefined && older !== undefined) {
      incoming.resume();
      response.writeHead(older.status, { "content-type": "application/json" }).end(older.body);
      return;
    }
    if (rule === undefined) {
      setTimeout(() => this.#forward(incoming, response, seen), this.#delayMs);
      return;
    }
    rule.left -= 1;
    const { wire, lateMs } = rule.answer;
    if (lateMs !== undefined) return void setTimeout(() => this.#forward(incoming, response, seen), lateMs);
    if (wire === "lost")
      return this.#forward(incoming, response, { ...seen, withheld: () => response.destroy() });
    incoming.resume();
    answerFalsely(response, rule.answer);
  }

  #keep(incoming: IncomingMessage, response: ServerResponse, kept: { hold: Blocker; seen: Seen }): void {
    const { hold, seen } = kept;
    this.#holds.delete(hold);
    if (hold.when === "after") return this.#forward(incoming, response, { ...seen, withheld: hold.arrived });
    incoming.resume();
    incoming.on("end", hold.arrived);
  }

  #forward(
    incoming: IncomingMessage,
    response: ServerResponse,
    seen: Seen & { withheld?: () => void },
  ): void {
    const { server, ca, cert, key } = this.#upstream;
    const { host: _, connection: __, ...headers } = incoming.headers;
    const options = { method: incoming.method ?? "GET", headers, ca, cert, key };
    const rewrite = [...this.#rewrites].find(({ match }) => match(seen));
    // The whole answer is needed, as text.
    if (rewrite !== undefined) {
      delete headers["accept-encoding"];
      delete headers["if-none-match"];
    }
    const open: Open = { response, watch: seen.watch, rest: Buffer.alloc(0), silent: false, half: false };
    const { distortion } = this;
    this.#open.add(open);
    const outgoing = request(new URL(incoming.url ?? "/", server), options, (answer) => {
      if (seen.withheld !== undefined) {
        answer.resume();
        answer.on("end", seen.withheld);
        return;
      }
      if (rewrite !== undefined) return void rewriteAnswer(answer, response, rewrite);
      response.writeHead(answer.statusCode ?? 500, answer.headers);
      response.flushHeaders();
      if (distortion !== undefined && !seen.watch) keepAnswer(answer, seen, distortion);
      answer.on("data", (chunk: Buffer) => {
        if (distortion === undefined || !seen.watch) this.#pass(open, chunk);
        else
          for (const line of splitLines(open, chunk))
            distortion.event(seen, line, (each) => this.#pass(open, Buffer.from(each)));
      });
      answer.on("end", () => {
        if (!open.silent) response.end();
      });
      answer.on("error", () => response.destroy());
    });
    outgoing.on("error", () => response.destroy());
    response.on("close", () => {
      this.#open.delete(open);
      outgoing.destroy();
    });
    incoming.pipe(outgoing);
  }

  #pass(open: Open, chunk: Buffer): void {
    if (open.silent || open.response.writableEnded) return;
    if (!open.half) return void open.response.write(chunk);
    this.struck += 1;
    open.half = false;
    open.silent = true;
    // The half has to be on the wire before the cut.
    open.response.write(chunk.subarray(0, Math.floor(chunk.length / 2)), () =>
      open.response.socket?.destroy(),
    );
  }
}

/** The lines that a chunk of a watch completes. */
function splitLines(open: Open, chunk: Buffer): string[] {
  const text = Buffer.concat([open.rest, chunk]);
  const end = text.lastIndexOf("\n") + 1;
  open.rest = text.subarray(end);
  return text
    .toString("utf8", 0, end)
    .split("\n")
    .slice(0, -1)
    .map((line) => `${line}\n`);
}

/** Gives the whole answer to a read to the distortion. */
function keepAnswer(answer: IncomingMessage, seen: Seen, distortion: Distortion): void {
  const chunks: Buffer[] = [];
  answer.on("data", (chunk: Buffer) => void chunks.push(chunk));
  answer.on("end", () => {
    const body = Buffer.concat(chunks).toString("utf8");
    distortion.answered(seen, { status: answer.statusCode ?? 500, body });
  });
}

async function rewriteAnswer(
  answer: IncomingMessage,
  response: ServerResponse,
  { change }: Rewrite,
): Promise<void> {
  const body = change(await text(answer));
  const { "content-length": _, "transfer-encoding": __, etag: ___, ...headers } = answer.headers;
  response.writeHead(answer.statusCode ?? 500, headers).end(body);
}

function answerFalsely(
  response: ServerResponse,
  { status, reason, asFrame, retryAfterSeconds, html, wire }: FalseAnswer,
): void {
  if (wire === "cut") return void response.destroy();
  if (wire === "half") {
    response.writeHead(200, { "content-type": "application/json", "content-length": "1000" });
    return void response.write('{"kind":"', () => response.destroy());
  }
  if (html !== undefined) return void response.writeHead(status, { "content-type": "text/html" }).end(html);
  const body = {
    kind: "Status",
    apiVersion: "v1",
    status: "Failure",
    message: `the proxy says ${reason}`,
    reason,
    code: status,
  };
  const retry = retryAfterSeconds === undefined ? {} : { "retry-after": String(retryAfterSeconds) };
  response.writeHead(asFrame === true ? 200 : status, { "content-type": "application/json", ...retry });
  response.end(`${JSON.stringify(asFrame === true ? { type: "ERROR", object: body } : body)}\n`);
}

interface KubeConfigText {
  clusters: { cluster: Record<string, string> }[];
  users: { user: Record<string, string> }[];
}

function upstreamOf(kubeconfig: string): Upstream {
  const text = readFileSync(kubeconfig, "utf8");
  const { clusters, users } = parseYaml(text, kubeconfig).value as unknown as KubeConfigText;
  const cluster = clusters[0]?.cluster ?? {};
  const user = users[0]?.user ?? {};
  const part = (from: Record<string, string>, name: string): Buffer => {
    const data = from[`${name}-data`];
    return data === undefined ? readFileSync(from[name] ?? name) : Buffer.from(data, "base64");
  };
  return {
    server: new URL(cluster["server"] ?? ""),
    ca: part(cluster, "certificate-authority"),
    cert: part(user, "client-certificate"),
    key: part(user, "client-key"),
  };
}
