// A registry in memory, on loopback: what the demo pushes to. It knows no users, and keeps nothing when it ends.
import { createHash } from "node:crypto";
import { createServer } from "node:http";

const digestOf = (bytes) => `sha256:${createHash("sha256").update(bytes).digest("hex")}`;

/** Starts it; resolves to `{ host, close, open }`. After `close`, `open` serves the same content at the same address. */
export async function startRegistry() {
  const blobs = new Map();
  const manifests = new Map();
  const server = createServer((request, response) => {
    void answer({ blobs, manifests }, request, response).catch(() => response.destroy());
  });
  const listen = (port) =>
    new Promise((done, failed) => server.once("error", failed).listen(port, "127.0.0.1", done));
  await listen(0);
  const { port } = server.address();
  const close = () =>
    new Promise((done) => {
      server.close(done);
      server.closeAllConnections();
    });
  return { host: `127.0.0.1:${port}`, close, open: () => listen(port) };
}

async function answer(store, request, response) {
  const chunks = [];
  for await (const chunk of request) chunks.push(chunk);
  const { pathname, searchParams } = new URL(request.url, "http://registry");
  const [, name, kind, reference] =
    /^\/v2\/(.+)\/(manifests|blobs|referrers|tags)\/(.*)$/.exec(pathname) ?? [];
  const call = { name, reference, searchParams, pathname, request, body: Buffer.concat(chunks) };
  const { status, headers = {}, bytes = "" } = ANSWERS[kind]?.(store, call) ?? { status: 404 };
  response.writeHead(status, headers).end(request.method === "HEAD" ? "" : bytes);
}

const ANSWERS = {
  manifests({ manifests }, { name, reference, request, body }) {
    if (request.method === "PUT") {
      const stored = { bytes: body, type: request.headers["content-type"] ?? "" };
      for (const key of [reference, digestOf(body)]) manifests.set(`${name}@${key}`, stored);
      return { status: 201 };
    }
    const found = manifests.get(`${name}@${reference}`);
    if (found === undefined) return { status: 404, bytes: '{"errors":[{"code":"MANIFEST_UNKNOWN"}]}' };
    const headers = { "content-type": found.type, "docker-content-digest": digestOf(found.bytes) };
    return { status: 200, headers, bytes: found.bytes };
  },
  blobs({ blobs }, { reference, request, pathname, searchParams, body }) {
    if (request.method === "POST") return { status: 202, headers: { location: `${pathname}upload` } };
    if (request.method === "PUT") {
      blobs.set(searchParams.get("digest"), body);
      return { status: 201 };
    }
    const bytes = blobs.get(reference);
    return bytes === undefined ? { status: 404 } : { status: 200, bytes };
  },
  tags({ manifests }, { name }) {
    const keys = [...manifests.keys()].filter((key) => key.startsWith(`${name}@`));
    const tags = keys.map((key) => key.slice(name.length + 1)).filter((key) => !key.includes(":"));
    return { status: 200, bytes: JSON.stringify({ name, tags }) };
  },
  referrers({ manifests }, { name, reference }) {
    const found = [...manifests].flatMap(([key, { bytes, type }]) => {
      if (!key.startsWith(`${name}@sha256:`)) return [];
      const { subject } = JSON.parse(bytes);
      if (subject?.digest !== reference) return [];
      return [{ mediaType: type, digest: digestOf(bytes), size: bytes.length }];
    });
    const index = JSON.stringify({ schemaVersion: 2, manifests: found });
    const headers = { "content-type": "application/vnd.oci.image.index.v1+json" };
    return { status: 200, headers, bytes: index };
  },
};
