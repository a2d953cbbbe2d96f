import { readFileSync } from "node:fs";
import { createServer, type AddressInfo } from "node:net";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";

import { RegistryClient, RegistryError, Repository } from "../../../../src/sources/registry/index.ts";
import type { ClientOptions } from "../../../../src/sources/registry/http/client.ts";
import { RegistryPauses } from "../../../../src/sources/registry/http/pauses.ts";
import { certificate } from "../../../support/release-server.ts";
import { fakeRegistry, PASSWORD, sha256, USER, type FakeRegistry } from "../../../support/registry.ts";
import { hurried, tempDir } from "../artifact/lab.ts";

const MANIFEST = "application/vnd.oci.image.manifest.v1+json";
const DIGEST = sha256("x");

function repositoryAt(host: string, options: Partial<ClientOptions> = {}): Repository {
  const client = new RegistryClient({ host, plainHttp: true, clock: hurried, ...options });
  onTestFinished(() => client.close());
  return new Repository(client, { name: "a/b" });
}

/** A registry with one manifest, `{}`, under the tag `t`. */
async function registryWith(switches: Partial<FakeRegistry> = {}): Promise<FakeRegistry> {
  const registry = await fakeRegistry(switches);
  registry.manifests.set("a/b@t", { bytes: Buffer.from("{}"), mediaType: MANIFEST });
  return registry;
}

const login = (password = PASSWORD) => ({ username: USER, password });

it("credentials that are wrong are an error with a remedy, and the password stays out of it", async () => {
  const { host } = await registryWith({ auth: "basic" });
  const read = repositoryAt(host, { readLogin: () => login("swordfish") }).readManifest("t");
  await expect(read).rejects.toThrow(/^(?!.*swordfish).*401.*log in with `helm registry login HOST`/s);
  const { host: other } = await registryWith({
    auth: "bearer",
    instead: (line) => (line.includes("token") ? { status: 403 } : undefined),
  });
  await expect(repositoryAt(other, { readLogin: () => login() }).readManifest("t")).rejects.toThrow(
    "answers 403 for repository:a/b:pull: check user, password and rights",
  );
  await expect(repositoryAt(other).readManifest("t")).rejects.toThrow("log in with `helm registry login`");
});

it("credentials that are rotated are in force at the next call", async () => {
  const { host } = await registryWith({ auth: "basic" });
  let password = "old";
  const repository = repositoryAt(host, { readLogin: () => login(password) });
  await expect(repository.readManifest("t")).rejects.toThrow("401");
  password = PASSWORD;
  expect(await repository.readManifest("t")).toMatchObject({ digest: sha256("{}") });
});

it("a token that is revoked is got again, once for each call", async () => {
  let isRevoked = false;
  const registry = await registryWith({
    auth: "bearer",
    instead: (line) => {
      if (!isRevoked || line.includes("token")) return undefined;
      isRevoked = false;
      return { status: 401, headers: { "www-authenticate": `Bearer realm="http://${registry.host}/token"` } };
    },
  });
  const repository = repositoryAt(registry.host, { readLogin: () => login() });
  await repository.readManifest("t");
  isRevoked = true;
  expect(await repository.readManifest("t")).toBeDefined();
  const always = {
    status: 401,
    headers: { "www-authenticate": `Bearer realm="http://${registry.host}/token"` },
  };
  registry.instead = (line) => (line.includes("token") ? undefined : always);
  const before = registry.calls.length;
  await expect(repository.readManifest("t")).rejects.toThrow("401");
  expect(registry.calls.length - before).toBe(3);
});

const REFRESH = { username: USER, password: PASSWORD, identityToken: "refresh" };

it.each([400, 401, 404, 405])(
  "a refresh token that is answered with %i gives way to the password",
  async (status) => {
    const registry = await registryWith({
      auth: "bearer",
      instead: (line) => (line === "POST /token" ? { status } : undefined),
    });
    const read = repositoryAt(registry.host, { readLogin: () => REFRESH }).readManifest("t");
    expect(await read).toBeDefined();
    const calls = registry.calls.map(({ line }) => line);
    expect(calls.filter((line) => line.includes("token"))).toEqual(["POST /token", "GET /token"]);
    const alone = repositoryAt(registry.host, { readLogin: () => ({ identityToken: "refresh" }) });
    await expect(alone.readManifest("t")).rejects.toThrow(/401|check user, password and rights/);
  },
);

it.each([403, 429, 500])("a token server that answers %i is not asked for the password", async (status) => {
  const registry = await registryWith({
    auth: "bearer",
    instead: (line) => (line === "POST /token" ? { status } : undefined),
  });
  const read = repositoryAt(registry.host, { readLogin: () => REFRESH }).readManifest("t");
  await expect(read).rejects.toThrow(`answers ${status} for repository:a/b:pull`);
  expect(registry.calls.map(({ line }) => line)).not.toContain("GET /token");
});

it.each([0.001, 1, 4, 5, -1])("a token that is valid for %d seconds is used", async (seconds) => {
  const registry = await registryWith({
    auth: "bearer",
    instead: (line) =>
      line.includes("token")
        ? { status: 200, body: JSON.stringify({ token: "granted,pull", expires_in: seconds }) }
        : undefined,
  });
  const repository = repositoryAt(registry.host, { readLogin: () => login() });
  for (const _ of [1, 2]) expect(await repository.readManifest("t")).toBeDefined();
});

it("a registry that demands Basic and then Bearer is answered in one request", async () => {
  const registry = await registryWith({
    auth: "bearer",
    instead: (line, { authorization }) =>
      line.includes("token") || authorization !== undefined
        ? undefined
        : { status: 401, headers: { "www-authenticate": 'Basic realm="a"' } },
  });
  expect(await repositoryAt(registry.host, { readLogin: () => login() }).readManifest("t")).toBeDefined();
  expect(registry.calls.map(({ authorization }) => authorization?.split(" ")[0])).toEqual([
    undefined,
    "Basic",
    "Basic",
    "Bearer",
  ]);
});

it.each<[string, object, string]>([
  ["a page", { body: "<html>" }, "answers without a token"],
  ["no token", { body: "{}" }, "answers without a token"],
  ["a token with a line break", { body: '{"token":"a\\r\\nx: y"}' }, "answers without a token"],
  ["64 KiB", { body: `{"token":"${"a".repeat(65_536)}"}` }, "cannot be reached"],
  ["a redirect", { status: 302, headers: { location: "http://169.254.169.254/" } }, "answers 302"],
])("a token server that answers %s", async (_, answer, message) => {
  const { host } = await registryWith({
    auth: "bearer",
    instead: (line) => (line.includes("token") ? { status: 200, ...answer } : undefined),
  });
  await expect(repositoryAt(host).readManifest("t")).rejects.toThrow(message);
});

it("a registry that is away is called three times, and named", async () => {
  const registry = await registryWith({ failures: { status: 500, left: 99 } });
  await expect(repositoryAt(registry.host).readManifest("t")).rejects.toThrow("500");
  expect(registry.calls).toHaveLength(3);
  await expect(repositoryAt("127.0.0.1:1").readManifest("t")).rejects.toThrow(
    /registry 127\.0\.0\.1:1: GET \/v2\/a\/b\/manifests\/t: .*ECONNREFUSED/,
  );
});

it("a pause that the registry asks for by a date counts as one in seconds", async () => {
  const retryAfter = new Date(Date.now() + 3_600_000).toUTCString();
  const registry = await registryWith({ failures: { status: 429, left: 1, retryAfter } });
  await expect(repositoryAt(registry.host).readManifest("t")).rejects.toThrow("429");
  expect(registry.calls).toHaveLength(1);
  registry.failures = { status: 429, left: 1, retryAfter: "Thu, 01 Jan 1970 00:00:00 GMT" };
  expect(await repositoryAt(registry.host).readManifest("t")).toBeDefined();
});

it("a long pause that the registry asks for is kept by all clients, until a user ends it", async () => {
  const pauses = new RegistryPauses();
  let now = Date.UTC(2026, 0, 1);
  const clock = { ...hurried, now: () => now };
  const registry = await registryWith({ failures: { status: 429, left: 1, retryAfter: "3600" } });
  const read = (): Promise<unknown> => repositoryAt(registry.host, { pauses, clock }).readManifest("t");
  const until = "asks for a pause until 2026-01-01T01:00:00Z";
  const error: unknown = await read().catch((each: unknown) => each);
  expect(error).toMatchObject({ status: 429, retryAt: Date.UTC(2026, 0, 1, 1) });
  expect(String(error)).toContain(until);
  now += 3_599_000;
  await expect(read()).rejects.toThrow(`GET /v2/a/b/manifests/t: not sent; the registry ${until}`);
  expect(registry.calls).toHaveLength(1);
  pauses.end(registry.host);
  expect(await read()).toBeDefined();
  registry.failures = { status: 503, left: 1, retryAfter: "3600" };
  await expect(read()).rejects.toThrow("503");
  now += 3_600_000;
  expect(await read()).toBeDefined();
});

it("a pause is at most a day, also after a change of the clock", () => {
  const pauses = new RegistryPauses();
  const day = 86_400_000;
  pauses.begin("a", 5 * day, 999_999_999_000);
  expect(pauses.find("a", 5 * day + 1)).toBe(6 * day);
  expect(pauses.find("b", 5 * day)).toBeUndefined();
  expect(pauses.find("a", 4 * day)).toBeUndefined();
  for (let index = 0; index < 250; index += 1) pauses.begin(String(index), 0, 1000);
  expect(pauses.find("1", 1)).toBeUndefined();
});

it("redirects in a circle end", async () => {
  const registry = await registryWith({
    instead: (line) => ({ status: 307, headers: { location: line.slice(4) } }),
  });
  await expect(repositoryAt(registry.host).readManifest("t")).rejects.toThrow("redirects that lead nowhere");
  expect(registry.calls).toHaveLength(6);
});

it("a manifest of more than 4 MiB is not read", async () => {
  const registry = await registryWith({
    instead: () => ({ status: 200, body: Buffer.alloc(4 * 1024 * 1024 + 1) }),
  });
  await expect(repositoryAt(registry.host).readManifest("t")).rejects.toThrow("longer than 4194304 bytes");
});

it("words of a registry are one short line", async () => {
  const body = JSON.stringify({ errors: [{ code: "DENIED", message: `no\u001b[31m\n${"x".repeat(5000)}` }] });
  const registry = await registryWith({ instead: () => ({ status: 403, body }) });
  const error: unknown = await repositoryAt(registry.host)
    .readManifest("t")
    .catch((each: unknown) => each);
  expect(String(error)).toMatch(/403 DENIED: no/);
  expect(String(error).length).toBeLessThan(400);
  // eslint-disable-next-line no-control-regex
  expect(String(error)).not.toMatch(/[\u0000-\u001f]/);
});

const page = (count: number, link?: string): object => ({
  status: 200,
  headers: {
    "content-type": "application/vnd.oci.image.index.v1+json",
    ...(link === undefined ? {} : { link: `<${link}>; rel="next"` }),
  },
  body: JSON.stringify({
    manifests: Array.from({ length: count }, () => ({ mediaType: MANIFEST, digest: DIGEST, size: 1 })),
  }),
});

it("referrers are read page by page, at most as many as asked for and at most 20 pages", async () => {
  const path = `/v2/a/b/referrers/${DIGEST}`;
  let count = 30;
  const registry = await registryWith({ instead: () => page(count, `${path}?last=1`) as { status: number } });
  const repository = repositoryAt(registry.host);
  expect(await repository.listReferrers(DIGEST, 50)).toHaveLength(50);
  expect(registry.calls).toHaveLength(2);
  count = 1;
  expect(await repository.listReferrers(DIGEST, 50)).toHaveLength(20);
  count = 0;
  expect(await repository.listReferrers(DIGEST, 50)).toEqual([]);
  expect(registry.calls).toHaveLength(2 + 20 + 20);
});

it.each<[string, { status: number; headers?: Record<string, string> }]>([
  ["no such call", { status: 404 }],
  ["a call that is not allowed", { status: 405 }],
  ["a page", { status: 200, headers: { "content-type": "text/html" } }],
])("a registry that answers %s has no referrers API", async (_, answer) => {
  const registry = await registryWith({ instead: () => answer });
  expect(await repositoryAt(registry.host).listReferrers(DIGEST, 50)).toBeUndefined();
});

it("the next page cannot be at a private address", async () => {
  const registry = await registryWith({
    instead: () => page(1, "http://169.254.169.254/") as { status: number },
  });
  await expect(repositoryAt(registry.host).listReferrers(DIGEST, 50)).rejects.toThrow(
    "the address is private",
  );
});

it("certificates are checked, and remedies named", async () => {
  const { key, cert } = certificate(tempDir());
  const tls = { key: readFileSync(key, "utf8"), cert: readFileSync(cert, "utf8") };
  const { host } = await registryWith({ tls });
  const secure = { plainHttp: false };
  await expect(repositoryAt(host, secure).readManifest("t")).rejects.toThrow(
    "name the registry's CA with --ca-file",
  );
  expect(await repositoryAt(host, { ...secure, ca: tls.cert }).readManifest("t")).toBeDefined();
  const other = certificate(tempDir());
  await expect(
    repositoryAt(host, { ...secure, ca: readFileSync(other.cert, "utf8") }).readManifest("t"),
  ).rejects.toThrow("--ca-file");
  const plain = await registryWith();
  await expect(repositoryAt(plain.host, secure).readManifest("t")).rejects.toThrow(
    "it answers without TLS; set --plain-http",
  );
});

const list = (
  tags: unknown,
  link?: string,
): { status: number; headers: Record<string, string>; body: string } => ({
  status: 200,
  headers: link === undefined ? {} : { link: `<${link}>; rel="next"` },
  body: JSON.stringify({ name: "a/b", tags }),
});

it("tags are read page by page, and what cannot be a tag is left out", async () => {
  const registry = await registryWith({
    instead: (line) => (line.includes("page2") ? list(["b", "a"]) : list(["a", "a b", 7, ""], "/v2/page2")),
  });
  expect(await repositoryAt(registry.host).listTags()).toEqual({ tags: ["a", "b"], isAll: true });
  registry.instead = () => list(null);
  expect(await repositoryAt(registry.host).listTags()).toEqual({ tags: [], isAll: true });
  registry.instead = () => ({ status: 404 });
  expect(await repositoryAt(registry.host).listTags()).toBeUndefined();
});

it.each([
  '<URL>; rel="next"',
  "<URL>; rel=next",
  "<URL>;rel=NEXT",
  '<URL>; title="a,b"; rel="next"',
  '<URL>; title="a \\"b>, <c"; rel="next"',
  '</first>; rel="first", <URL>; rel="next"',
  '</first>; rel=first,<URL>; REL="last next"; title=x',
  '<URL>; rel = "next", </prev>; rel="prev"',
])("the next page is found in %s", async (link) => {
  const headers = { link: link.replace("URL", "/v2/page2") };
  const registry = await registryWith({
    instead: (line) => (line.includes("page2") ? list(["b"]) : { ...list(["a"]), headers }),
  });
  expect(await repositoryAt(registry.host).listTags()).toEqual({ tags: ["a", "b"], isAll: true });
});

it.each(['<URL>; rel="prev"', '<URL>; title="rel=next"', "rel=next", '<URL>; rel="nextone"', "<URL>"])(
  "%s names no next page",
  async (link) => {
    const headers = { link: link.replace("URL", "/v2/page2") };
    const registry = await registryWith({ instead: () => ({ ...list(["a"]), headers }) });
    expect(await repositoryAt(registry.host).listTags()).toEqual({ tags: ["a"], isAll: true });
  },
);

it.each([
  [100, [400, 422, 413]],
  [0, [400]],
])("a registry whose pages have at most %i tags is asked for pages of that size", async (limit, statuses) => {
  for (const status of statuses) {
    const registry = await registryWith({
      instead: (_, { search }) =>
        Number(new URLSearchParams(search).get("n")) > limit ? { status } : list(["a"]),
    });
    expect(await repositoryAt(registry.host).listTags()).toEqual({ tags: ["a"], isAll: true });
    registry.instead = () => ({ status });
    await expect(repositoryAt(registry.host).listTags()).rejects.toThrow(String(status));
  }
});

it("a proxy's page in place of a manifest has no digest", async () => {
  const headers = { "content-type": "text/html; charset=utf-8" };
  const registry = await registryWith({ instead: () => ({ status: 200, headers, body: "<html>" }) });
  await expect(repositoryAt(registry.host).resolveTag("t")).rejects.toThrow(
    "t is answered with text/html, not with a manifest",
  );
});

it("a proxy that is away is named by its variable, and NO_PROXY is obeyed", async () => {
  const proxies = { HTTPS_PROXY: "http://user:swordfish@127.0.0.1:1", http_proxy: "127.0.0.1:1" };
  const at = (plainHttp: boolean, more = {}) =>
    repositoryAt("registry.example", { plainHttp, proxies: { ...proxies, ...more } }).readManifest("t");
  await expect(at(false)).rejects.toThrow(/^(?!.*swordfish).*through the proxy of HTTPS_PROXY/s);
  await expect(at(true)).rejects.toThrow(/through the proxy of HTTP_PROXY/);
  await expect(at(false, { HTTPS_PROXY: "http://user:swordfish@/" })).rejects.toThrow(
    /^(?!.*swordfish).*HTTPS_PROXY is no address of a proxy: write http:\/\/HOST:PORT/s,
  );
  const { host } = await registryWith();
  expect(await repositoryAt(host, { proxies }).readManifest("t")).toBeDefined();
  await expect(at(false, { NO_PROXY: "127.0.0.0/8, .example" })).rejects.toThrow(/^(?!.*proxy)/s);
});

it("at most 20 pages and 10,000 tags are read, and it is known that there are more", async () => {
  let [number, perPage] = [0, 1];
  const registry = await registryWith({
    instead: () =>
      list(
        Array.from({ length: perPage }, () => `t${(number += 1)}`),
        "/v2/a/b/tags/list?last=x",
      ),
  });
  const repository = repositoryAt(registry.host);
  expect(await repository.listTags()).toMatchObject({ isAll: false, tags: { length: 20 } });
  expect(registry.calls).toHaveLength(20);
  perPage = 6000;
  expect(await repository.listTags()).toMatchObject({ isAll: false, tags: { length: 10_000 } });
  expect(registry.calls).toHaveLength(22);
});

it.each(["<html>", "[]", '{"tags":{}}', '{"login":true}'])(
  "a list of tags that is %s is an error",
  async (body) => {
    const registry = await registryWith({ instead: () => ({ status: 200, body }) });
    await expect(repositoryAt(registry.host).listTags()).rejects.toThrow(
      "the list of tags of a/b cannot be read",
    );
  },
);

it("the digest of a tag costs one HEAD, or a GET where the registry does not answer that", async () => {
  const registry = await registryWith();
  const repository = repositoryAt(registry.host);
  const lines = (): string[] => registry.calls.splice(0).map(({ line }) => line.split(" ")[0] ?? "");
  expect([await repository.resolveTag("t"), lines()]).toEqual([sha256("{}"), ["HEAD"]]);
  for (const answer of [
    { status: 405 },
    { status: 404 },
    { status: 200 },
    { status: 200, headers: { "docker-content-digest": "md5:1" } },
  ]) {
    registry.instead = (line) => (line.startsWith("HEAD") ? answer : undefined);
    expect([await repository.resolveTag("t"), lines()]).toEqual([sha256("{}"), ["HEAD", "GET"]]);
  }
  expect(await repository.resolveTag("none")).toBeUndefined();
  registry.instead = () => ({ status: 503 });
  await expect(repository.resolveTag("t")).rejects.toThrow("503");
});

/** A server that begins an answer and then sends a byte now and then. */
async function drippingServer(head: (host: string) => string): Promise<string> {
  const server = createServer((socket) => {
    socket.on("error", () => {});
    socket.once("data", () => socket.write(head(host)));
    const timer = setInterval(() => socket.write(" "), 20);
    socket.on("close", () => clearInterval(timer));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => void server.close());
  const host = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  return host;
}

const ENDLESS = "content-length: 1000000\r\n\r\n";

it.each<[string, (host: string) => string, (repository: Repository) => Promise<unknown>]>([
  ["a manifest", () => `HTTP/1.1 200 OK\r\n${ENDLESS}`, (repository) => repository.readManifest("t")],
  [
    "a blob",
    () => `HTTP/1.1 200 OK\r\n${ENDLESS}`,
    (repository) =>
      repository.saveBlob({ digest: DIGEST, size: 1000, mediaType: "" }, join(tempDir(), "blob")),
  ],
  ["headers", () => "HTTP/1.1 200 OK\r\nx: ", (repository) => repository.readManifest("t")],
  ["an error", () => `HTTP/1.1 403 Forbidden\r\n${ENDLESS}`, (repository) => repository.readManifest("t")],
  [
    "a redirect",
    (host) => `HTTP/1.1 307 Elsewhere\r\nlocation: http://${host}/x\r\ncontent-length: 1000\r\n\r\n`,
    (repository) => repository.readManifest("t"),
  ],
  [
    "a challenge",
    (host) =>
      `HTTP/1.1 401 Unauthorized\r\nwww-authenticate: Bearer realm="http://${host}/token"\r\ncontent-length: 1000\r\n\r\n`,
    (repository) => repository.readManifest("t"),
  ],
])("%s that never ends is not waited for", async (_, head, call) => {
  const repository = repositoryAt(await drippingServer(head), { timeoutMs: 200 });
  await expect(call(repository)).rejects.toThrow(RegistryError);
});

it("a blob that ends too early is an error of the registry", async () => {
  const registry = await registryWith({ cutAfter: 1 });
  registry.blobs.set(DIGEST, Buffer.from("x".repeat(1000)));
  const save = repositoryAt(registry.host).saveBlob(
    { digest: DIGEST, size: 1000, mediaType: "" },
    join(tempDir(), "blob"),
  );
  await expect(save).rejects.toThrow(RegistryError);
  await expect(save).rejects.toThrow(
    `registry ${registry.host}: GET /v2/a/b/blobs/${DIGEST}: other side closed`,
  );
});

it("a descriptor that cannot be used hides no others", async () => {
  const good = { mediaType: MANIFEST, digest: DIGEST, size: 1 };
  const manifests = [
    { ...good, digest: `sha512:${"0".repeat(128)}` },
    "x",
    null,
    { ...good, size: -1 },
    good,
  ];
  const registry = await registryWith({
    instead: () => ({
      status: 200,
      headers: { "content-type": "application/vnd.oci.image.index.v1+json" },
      body: JSON.stringify({ manifests }),
    }),
  });
  expect(await repositoryAt(registry.host).listReferrers(DIGEST, 50)).toMatchObject([good]);
});
