/** Serves archives as the release sites do: below a mirror's address, or under their own names behind a proxy. */
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { IncomingMessage, RequestListener, ServerResponse } from "node:http";
import { createServer as createSecureServer } from "node:https";
import { connect } from "node:net";
import type { AddressInfo, Server, Socket } from "node:net";
import { dirname, join } from "node:path";

/** Answers a request itself and returns true, or leaves it to the server. */
type Fault = (request: IncomingMessage, response: ServerResponse, content?: Buffer) => boolean;

export interface ReleaseServer {
  /** Of the server with and without TLS, to be a mirror. */
  readonly url: string;
  readonly plainUrl: string;
  /** A proxy that wants `user:p@ss` when `password` is true; it leads every name to this server. */
  readonly proxy: (password?: boolean) => Promise<string>;
  /** NODE_EXTRA_CA_CERTS for its clients. */
  readonly ca: string;
  /** `HOST/PATH` and the range of each request. */
  readonly requests: string[];
  /** Content by address without scheme; GitHub's is handed out by way of a redirect. */
  readonly files: Map<string, Buffer>;
  fault?: Fault;
  readonly stop: () => void;
}

const names =
  "IP:127.0.0.1,DNS:github.com,DNS:objects.githubusercontent.com,DNS:dl.k8s.io,DNS:get.helm.sh,DNS:localhost";

export async function startReleaseServer(dir: string): Promise<ReleaseServer> {
  const pki = certificate(dir);
  const sockets = new Set<Socket>();
  const servers: Server[] = [];
  const start = async (server: Server): Promise<number> => {
    servers.push(server);
    server.on("connection", (socket: Socket) => sockets.add(socket));
    await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
    return (server.address() as AddressInfo).port;
  };
  const answer: RequestListener = (request, response) => serve(own, request, response);
  const secure = await start(
    createSecureServer({ key: readFileSync(pki.key), cert: readFileSync(pki.cert) }, answer),
  );
  const plain = await start(createServer(answer));
  const own: ReleaseServer = {
    url: `https://127.0.0.1:${secure}`,
    plainUrl: `http://127.0.0.1:${plain}`,
    proxy: async (password = false) => {
      const server = createServer();
      server.on("connect", (request, socket: Socket) => lead(request, socket, { password, to: secure }));
      return `127.0.0.1:${await start(server)}`;
    },
    ca: pki.cert,
    requests: [],
    files: new Map(),
    stop: () => {
      for (const server of servers) server.close();
      for (const socket of sockets) socket.destroy();
    },
  };
  return own;
}

/** Of a server on loopback, signed by itself; `cert` is what its clients are to trust. */
export function certificate(dir: string): { key: string; cert: string } {
  const pki = { key: join(dir, "server.key"), cert: join(dir, "server.crt") };
  const curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"];
  const what = ["-subj", "/CN=releases", "-addext", `subjectAltName=${names}`, "-days", "2"];
  const out = ["-keyout", pki.key, "-out", pki.cert];
  execFileSync("openssl", ["req", "-x509", ...curve, ...what, ...out], { stdio: "pipe" });
  return pki;
}

function serve(own: ReleaseServer, request: IncomingMessage, response: ServerResponse): void {
  const { host = "", range } = request.headers;
  const mirror = host.startsWith("127.0.0.1");
  const path = mirror ? request.url!.slice(1) : `${host}${request.url}`;
  own.requests.push(range ? `${path} ${range}` : path);
  const content = own.files.get(path.replace("objects.githubusercontent.com/", "github.com/"));
  if (own.fault?.(request, response, content)) return;
  const redirect = /^github\.com\/(.*\/releases\/.*)$/.exec(path)?.[1];
  if (redirect) {
    const location = `objects.githubusercontent.com/${redirect}`;
    response.writeHead(302, { location: mirror ? `/${location}` : `https://${location}` }).end();
  } else if (content) send(response, content, range);
  else response.writeHead(404).end("not found");
}

/** The content, or what of it a range asks for. */
export function send(response: ServerResponse, content: Buffer, range?: string): void {
  const from = Number(/^bytes=(\d+)-$/.exec(range ?? "")?.[1] ?? 0);
  const length = content.length;
  if (from >= length) response.writeHead(416, { "content-range": `bytes */${length}` }).end();
  else if (from > 0)
    response
      .writeHead(206, {
        "content-range": `bytes ${from}-${length - 1}/${length}`,
        "content-length": length - from,
      })
      .end(content.subarray(from));
  else response.writeHead(200, { "content-length": length }).end(content);
}

function lead(request: IncomingMessage, socket: Socket, how: { password: boolean; to: number }): void {
  socket.on("error", () => {});
  const given = `Basic ${Buffer.from("user:p@ss").toString("base64")}`;
  if (how.password && request.headers["proxy-authorization"] !== given) {
    socket.end("HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic\r\n\r\n");
    return;
  }
  const server = connect(how.to, "127.0.0.1", () => socket.write("HTTP/1.1 200 Connected\r\n\r\n"));
  server.on("error", () => {});
  server.pipe(socket).pipe(server);
}

/** A tar.gz with these files, each a script of that text. */
export function archive(dir: string, members: Readonly<Record<string, string>>): Buffer {
  const from = join(dir, "archive");
  for (const [name, text] of Object.entries(members)) {
    mkdirSync(dirname(join(from, name)), { recursive: true });
    writeFileSync(join(from, name), text);
  }
  const content = execFileSync("tar", ["-czf", "-", "-C", from, ...Object.keys(members)]);
  rmSync(from, { recursive: true });
  return content;
}

export const digest = (content: Buffer, algorithm: "sha256" | "sha512" = "sha512"): string =>
  createHash(algorithm).update(content).digest("hex");
