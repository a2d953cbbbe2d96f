/** A registry in memory with a switch for each way in which a registry can misbehave. */

import { createHash } from "node:crypto";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { createServer as createSecureServer } from "node:https";
import type { AddressInfo } from "node:net";
import { onTestFinished } from "vitest";

interface Stored {
  readonly bytes: Buffer;
  readonly mediaType: string;
}

/** What a server does with a connection: ends it at once, or within the answer; never answers, or not to the end; answers late. */
export type WireFault = "cut" | "half" | "never" | "stalls" | "slow";

/** A scripted answer, or a fault of the connection. */
export type ScriptedAnswer =
  | { readonly status: number; readonly headers?: Record<string, string>; readonly body?: Buffer | string }
  | WireFault;

const SLOW_MS = 50;

/** Does to a connection what the fault says; true: the answer is to follow. */
export async function breakConnection(fault: WireFault, response: ServerResponse): Promise<boolean> {
  if (fault === "slow") {
    await new Promise((resolve) => setTimeout(resolve, SLOW_MS));
    return true;
  }
  if (fault === "cut") response.destroy();
  if (fault !== "half" && fault !== "stalls") return false;
  response.writeHead(200, { "content-length": "1000" });
  response.write('{"', () => fault === "half" && response.destroy());
  return false;
}

interface Call {
  readonly authorization: string | undefined;
  /** The query, with its question mark. */
  readonly search: string;
}

/** What the registry does; all off by default. */
export interface Switches {
  auth?: "basic" | "bearer";
  /** Realm of the challenge instead of the registry's own token server. */
  realm?: string;
  hasReferrers?: boolean;
  /** The digest that each answer with a manifest names, instead of its own. */
  digestHeader?: string;
  /** Answers this status to the first calls, so many. */
  failures?: { status: number; left: number; retryAfter?: string };
  /** Answers a call (`GET /v2/…`), if it returns something. */
  instead?: (line: string, call: Call) => ScriptedAnswer | undefined;
  /** Serves TLS. */
  tls?: { readonly key: string; readonly cert: string };
  /** Cuts blobs after so many bytes. */
  cutAfter?: number;
  /** Where blobs are redirected to. */
  redirectTo?: string;
}

export const USER = "reader";
export const PASSWORD = "pass:word";

export interface FakeRegistry extends Switches {
  readonly host: string;
  /** Method and path of each call, and whether it was authorized. */
  readonly calls: { readonly line: string; readonly authorization: string | undefined }[];
  readonly blobs: Map<string, Buffer>;
  /** By repository and tag or digest: `NAME@REFERENCE`. */
  readonly manifests: Map<string, Stored>;
  /** The manifest of a tag, changed by `change`, is stored again under the tag. Returns its digest. */
  replace(repository: string, tag: string, change: (manifest: Record<string, unknown>) => void): string;
}

export function sha256(bytes: Uint8Array | string): string {
  return `sha256:${createHash("sha256").update(bytes).digest("hex")}`;
}

/** Starts the registry on loopback until the test ends. */
export async function fakeRegistry(switches: Switches = {}): Promise<FakeRegistry> {
  const listener = (request: IncomingMessage, response: ServerResponse): void =>
    void answer(fake, request, response).catch(() => response.destroy());
  const server =
    switches.tls === undefined ? createServer(listener) : createSecureServer(switches.tls, listener);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(
    () =>
      new Promise<void>((resolve) => {
        server.closeAllConnections();
        server.close(() => resolve());
      }),
  );
  const { port } = server.address() as AddressInfo;
  const fake: FakeRegistry = {
    ...switches,
    host: `127.0.0.1:${port}`,
    calls: [],
    blobs: new Map(),
    manifests: new Map(),
    replace(repository, tag, change) {
      const stored = fake.manifests.get(`${repository}@${tag}`);
      const manifest = JSON.parse(stored?.bytes.toString() ?? "{}") as Record<string, unknown>;
      change(manifest);
      const bytes = Buffer.from(JSON.stringify(manifest));
      return putManifest(fake, `${repository}@${tag}`, { bytes, mediaType: stored?.mediaType ?? "" });
    },
  };
  return fake;
}

/** Stores a manifest under `NAME@REFERENCE` and under its digest, which it returns. */
export function putManifest(fake: FakeRegistry, key: string, stored: Stored): string {
  const digest = sha256(stored.bytes);
  const [repository = ""] = key.split("@");
  for (const each of [key, `${repository}@${digest}`]) fake.manifests.set(each, stored);
  return digest;
}

async function answer(fake: FakeRegistry, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const url = new URL(request.url ?? "/", `http://${fake.host}`);
  const { authorization } = request.headers;
  fake.calls.push({ line: `${request.method} ${url.pathname}`, authorization });
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  const body = Buffer.concat(chunks);
  const send = (status: number, headers: Record<string, string> = {}, bytes: Buffer | string = ""): void =>
    void response.writeHead(status, headers).end(request.method === "HEAD" ? "" : bytes);
  const other = fake.instead?.(`${request.method} ${url.pathname}`, { authorization, search: url.search });
  if (typeof other === "string" && !(await breakConnection(other, response))) return;
  if (typeof other === "object") return send(other.status, other.headers, other.body);
  if (url.pathname === "/token") return send(200, {}, tokenAnswer(url, authorization));
  if (fake.failures !== undefined && fake.failures.left > 0) {
    fake.failures.left -= 1;
    const { status, retryAfter } = fake.failures;
    return send(status, retryAfter === undefined ? {} : { "retry-after": retryAfter });
  }
  if (!isAuthorized(fake, authorization)) return send(401, { "www-authenticate": challengeOf(fake) });
  const [, name = "", kind = "", reference = ""] =
    /^\/v2\/(.+)\/(manifests|blobs|referrers|tags)\/(.*)$/.exec(url.pathname) ?? [];
  if (kind === "manifests") return manifests(fake, { name, reference, body, request, send });
  if (kind === "blobs") return blobs(fake, { reference, url, body, request, send, response });
  if (kind === "tags") return send(200, {}, JSON.stringify({ name, tags: tagsOf(fake, name) }));
  return kind === "referrers" ? referrers(fake, { name, reference, send }) : send(404);
}

type Send = (status: number, headers?: Record<string, string>, bytes?: Buffer | string) => void;

function manifests(
  fake: FakeRegistry,
  {
    name,
    reference,
    body,
    request,
    send,
  }: { name: string; reference: string; body: Buffer; request: IncomingMessage; send: Send },
): void {
  if (request.method === "PUT") {
    putManifest(fake, `${name}@${reference}`, {
      bytes: body,
      mediaType: request.headers["content-type"] ?? "",
    });
    return send(201);
  }
  const stored = fake.manifests.get(`${name}@${reference}`);
  if (stored === undefined)
    return send(404, {}, '{"errors":[{"code":"MANIFEST_UNKNOWN","message":"manifest unknown"}]}');
  send(
    200,
    { "content-type": stored.mediaType, "docker-content-digest": fake.digestHeader ?? sha256(stored.bytes) },
    stored.bytes,
  );
}

function blobs(
  fake: FakeRegistry,
  call: {
    reference: string;
    url: URL;
    body: Buffer;
    request: IncomingMessage;
    send: Send;
    response: ServerResponse;
  },
): void {
  const { reference, url, body, request, send, response } = call;
  if (request.method === "POST") return send(202, { location: `${url.pathname}some-upload?state=1` });
  if (request.method === "PUT") {
    fake.blobs.set(url.searchParams.get("digest") ?? "", body);
    return send(201);
  }
  const bytes = fake.blobs.get(reference);
  if (bytes === undefined) return send(404);
  if (fake.redirectTo !== undefined && request.method === "GET")
    return send(307, { location: fake.redirectTo });
  if (fake.cutAfter === undefined || request.method === "HEAD") return send(200, {}, bytes);
  response.writeHead(200, { "content-length": String(bytes.length) });
  response.write(bytes.subarray(0, fake.cutAfter), () => response.destroy());
}

function referrers(
  fake: FakeRegistry,
  { name, reference, send }: { name: string; reference: string; send: Send },
): void {
  if (fake.hasReferrers !== true) return send(404);
  const digests = new Set(
    [...fake.manifests].filter(([key]) => key.startsWith(`${name}@sha256:`)).map(([, each]) => each),
  );
  const manifests = [...digests].flatMap(({ bytes, mediaType }) =>
    subjectOf(bytes) === reference ? [{ mediaType, digest: sha256(bytes), size: bytes.length }] : [],
  );
  send(
    200,
    { "content-type": "application/vnd.oci.image.index.v1+json" },
    JSON.stringify({ schemaVersion: 2, manifests }),
  );
}

function tagsOf({ manifests: all }: FakeRegistry, name: string): string[] {
  const references = [...all.keys()].filter((key) => key.startsWith(`${name}@`));
  return references.map((key) => key.slice(name.length + 1)).filter((each) => !each.includes(":"));
}

function subjectOf(bytes: Buffer): string | undefined {
  try {
    return (JSON.parse(bytes.toString()) as { readonly subject?: { readonly digest: string } }).subject
      ?.digest;
  } catch {
    return undefined;
  }
}

const BASIC = `Basic ${Buffer.from(`${USER}:${PASSWORD}`).toString("base64")}`;

function isAuthorized({ auth }: FakeRegistry, authorization: string | undefined): boolean {
  if (auth === undefined) return true;
  return authorization === (auth === "basic" ? BASIC : "Bearer granted,pull");
}

function challengeOf({ auth, realm, host }: FakeRegistry): string {
  if (auth === "basic") return 'Negotiate, Basic realm="a, b"';
  return `Bearer realm="${realm ?? `http://${host}/token`}",service="fake",scope="repository:a/b:pull,push"`;
}

function tokenAnswer(url: URL, authorization: string | undefined): string {
  const scope = url.searchParams.get("scope") ?? "";
  const isKnown = authorization === BASIC && scope.startsWith("repository:");
  return JSON.stringify({ token: isKnown ? "granted,pull" : "other", expires_in: 300 });
}
