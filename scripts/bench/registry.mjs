// A registry in memory that counts its calls: as much of the protocol as pushing and fetching modules needs.
import { createHash } from "node:crypto";
import { createServer } from "node:http";

const MANIFEST = "application/vnd.oci.image.manifest.v1+json";

/** Listens on loopback until `close`. `calls` are method and path of each request; `tag` makes a tag name another one's content. */
export async function startRegistry() {
  const [calls, blobs, manifests] = [[], new Map(), new Map()];
  const server = createServer((request, response) => {
    void answer({ calls, blobs, manifests }, request, response).catch(() => response.destroy());
  });
  const listen = (port) => new Promise((done) => server.listen(port, "127.0.0.1", done));
  await listen(0);
  const { port } = server.address();
  return {
    host: `127.0.0.1:${port}`,
    calls,
    tag: (repository, from, to) =>
      manifests.set(`${repository}@${to}`, manifests.get(`${repository}@${from}`)),
    /** Refuses connections until `open`. */
    close: () =>
      new Promise((done) => {
        server.close(done);
        server.closeAllConnections();
      }),
    open: () => listen(port),
  };
}

async function answer({ calls, blobs, manifests }, request, response) {
  const url = new URL(request.url, "http://registry");
  calls.push(`${request.method} ${url.pathname}`);
  const chunks = [];
  for await (const chunk of request) chunks.push(chunk);
  const body = Buffer.concat(chunks);
  const send = (status, headers = {}, bytes = "") =>
    response.writeHead(status, headers).end(request.method === "HEAD" ? "" : bytes);
  const [, name, kind, reference] = /^\/v2\/(.+)\/(manifests|blobs)\/(.*)$/.exec(url.pathname) ?? [];
  if (kind === "blobs" && request.method === "POST")
    return send(202, { location: `${url.pathname}upload?x=1` });
  if (kind === "blobs" && request.method === "PUT") {
    blobs.set(url.searchParams.get("digest"), body);
    return send(201);
  }
  if (kind === "blobs") return blobs.has(reference) ? send(200, {}, blobs.get(reference)) : send(404);
  if (kind !== "manifests") return send(404);
  if (request.method === "PUT") {
    for (const each of [reference, digestOf(body)]) manifests.set(`${name}@${each}`, body);
    return send(201);
  }
  const stored = manifests.get(`${name}@${reference}`);
  if (stored === undefined) return send(404);
  return send(200, { "content-type": MANIFEST, "docker-content-digest": digestOf(stored) }, stored);
}

const digestOf = (bytes) => `sha256:${createHash("sha256").update(bytes).digest("hex")}`;
