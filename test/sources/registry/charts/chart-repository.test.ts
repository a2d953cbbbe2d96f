import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";

import { ChartRepository, fetchIndex, type KnownIndex } from "../../../../src/sources/registry/index.ts";
import { sha256 } from "../../../support/registry.ts";
import { tempDir } from "../artifact/lab.ts";
import { chartOf, chartServer, clientOf, type Server } from "./lab.ts";

function repositoryAt(server: Server, options: Parameters<typeof clientOf>[1] = {}): ChartRepository {
  const client = clientOf(server, options);
  const base = new URL(`${server.url}/`);
  let known: KnownIndex | undefined;
  return new ChartRepository(client, "web", {
    base,
    readVersions: async () => (known = await fetchIndex(client, { base, charts: ["web"] }, known)).versions,
  });
}

/** Fetches a version; returns its bytes. */
async function save(repository: ChartRepository, digest: string, version = "1.0.0"): Promise<Buffer> {
  const file = join(tempDir(), "chart.tgz");
  await repository.saveArchive({ version, digest }, file);
  return readFileSync(file);
}

test.each([
  ["relative", {}],
  ["packed", { isGzipped: true }],
  ["without digests", { hasNoDigests: true }],
  ["with URLs from the root", { archivesAt: "/charts/" }],
])("versions, digest and archive: %s", async (_, switches) => {
  const server = await chartServer(switches);
  const digest = server.publish(chartOf("web", "1.0.0+a"));
  server.publish(chartOf("web", "1.1.0"));
  const repository = repositoryAt(server);
  expect(await repository.listTags()).toEqual({ tags: ["1.1.0", "1.0.0_a"], isAll: true });
  expect(await repository.resolveTag("1.0.0_a")).toBe(digest);
  expect(sha256(await save(repository, digest, "1.0.0+a"))).toBe(digest);
  expect(await repository.resolveTag("3.0.0")).toBeUndefined();
});

test("absolute URLs of the same host", async () => {
  const server = await chartServer();
  server.archivesAt = `http://${server.host}/charts/`;
  const digest = server.publish(chartOf("web", "1.0.0"));
  expect(sha256(await save(repositoryAt(server), digest))).toBe(digest);
});

test.each([
  ["YAML", "entries:\n  web:\n  - version: 1.0.0\n    urls: [web-1.0.0.tgz]\n"],
  ["JSON", '{"entries": {"web": [{"version": "1.0.0", "urls": ["web-1.0.0.tgz"]}]}}'],
])("a byte order mark before the index is ignored: %s", async (_, index) => {
  const server = await chartServer();
  server.index = `\uFEFF${index}`;
  expect((await repositoryAt(server).listTags())?.tags).toEqual(["1.0.0"]);
});

test("an index and an archive can take longer than other answers, as long as bytes arrive", async () => {
  const server = await chartServer({ pieceMs: 150 });
  const digest = server.publish(chartOf("web", "1.0.0"));
  const repository = repositoryAt(server, { timeoutMs: 500 });
  expect(sha256(await save(repository, digest))).toBe(digest);
});

test("an index that has not changed is not sent again", async () => {
  const server = await chartServer();
  server.publish(chartOf("web", "1.0.0"));
  const repository = repositoryAt(server);
  const first = await repository.listTags();
  expect(await repository.listTags()).toEqual(first);
  server.publish(chartOf("web", "1.1.0"));
  expect((await repository.listTags())?.tags).toEqual(["1.1.0", "1.0.0"]);
  expect(server.calls.map(({ status }) => status)).toEqual([200, 304, 200]);
});

test("user and password are sent with the first request", async () => {
  const server = await chartServer({ isHidden: true });
  const digest = server.publish(chartOf("web", "1.0.0"));
  expect(sha256(await save(repositoryAt(server, { login: true }), digest))).toBe(digest);
  expect(server.calls.map(({ status }) => status)).toEqual([200, 200]);
  await expect(repositoryAt(server).listTags()).rejects.toThrow("404");
});

test("a challenge of a chart repository to a token server is not followed", async () => {
  const tokenServer = await chartServer({ instead: () => ({ status: 200, body: '{"token": "t"}' }) });
  const challenge = { "www-authenticate": `Bearer realm="${tokenServer.url}/token",service="s"` };
  const server = await chartServer({ instead: () => ({ status: 401, headers: challenge }) });
  await expect(repositoryAt(server, { login: true }).listTags()).rejects.toThrow("401");
  expect(tokenServer.calls).toEqual([]);
  expect(server.calls).toHaveLength(1);
});

test("another host gets no credentials", async () => {
  const server = await chartServer({ archivesAt: "http://files.example/charts/" });
  const digest = server.publish(chartOf("web", "1.0.0"));
  const [archive = Buffer.alloc(0)] = server.archives.values();
  server.archives.set("http://files.example/charts/web-1.0.0.tgz", archive);
  const named = { ...server, host: "charts.example", url: "http://charts.example/charts" };
  const repository = repositoryAt(named, { login: true, proxies: { HTTP_PROXY: `http://${server.host}` } });
  expect(sha256(await save(repository, digest))).toBe(digest);
  expect(server.calls).toEqual([
    { path: "/charts/index.yaml", status: 200, authorization: expect.stringMatching(/^Basic /) as string },
    { path: "http://files.example/charts/web-1.0.0.tgz", status: 200, authorization: undefined },
  ]);
});

test.each([
  ["http://169.254.169.254/", "the address is private"],
  ["http://10.0.0.1/", "the address is private"],
  ["http://user:word@files.example/", "the address contains credentials"],
  ["oci://registry.example.com/charts/web:", "name that place as charts"],
  ["file:///etc/", "name that place as charts"],
])("an archive at %s is refused", async (archivesAt, message) => {
  const server = await chartServer({ archivesAt });
  const digest = server.publish(chartOf("web", "1.0.0"));
  await expect(save(repositoryAt(server), digest)).rejects.toThrow(message);
});

test.each<[string, (server: Server) => void, string]>([
  ["other bytes", ({ archives }) => archives.set("/charts/web-1.0.0.tgz", Buffer.from("x")), "other content"],
  [
    "too many bytes",
    ({ archives }) => archives.set("/charts/web-1.0.0.tgz", Buffer.alloc((32 << 20) + 1)),
    "larger than 32 MiB",
  ],
  ["no archive", ({ archives }) => archives.clear(), "404"],
  [
    "redirects without end",
    (server) => {
      server.instead = (path) =>
        path.endsWith(".tgz") ? { status: 302, headers: { location: path } } : undefined;
    },
    "redirects that lead nowhere",
  ],
  [
    "a redirect to an address of the cloud",
    (server) => {
      server.instead = (path) =>
        path.endsWith(".tgz") ? { status: 302, headers: { location: "http://169.254.169.254/" } } : undefined;
    },
    "the address is private",
  ],
])("an archive with %s is refused", async (_, spoil, message) => {
  const server = await chartServer();
  const digest = server.publish(chartOf("web", "1.0.0"));
  spoil(server);
  await expect(save(repositoryAt(server), digest)).rejects.toThrow(message);
});

test("a version that was published again with other bytes does not have the digest that is asked for", async () => {
  const server = await chartServer();
  const digest = server.publish(chartOf("web", "1.0.0"));
  server.publish(chartOf("web", "1.0.0", { "values.yaml": "a: 1\n" }));
  await expect(save(repositoryAt(server), digest)).rejects.toThrow(`than ${digest}`);
});

test.each([
  [{ status: 200, body: "<html>" }, "the index.yaml of 127.0.0.1:\\d+ cannot be read: it has no entries"],
  [{ status: 200, body: "no", headers: { "content-encoding": "gzip" } }, "cannot be read"],
  [{ status: 304 }, "304"],
  [{ status: 500 }, "500"],
  [{ status: 401 }, "401"],
])("an index that is answered with %j", async (answer, message) => {
  const server = await chartServer({ instead: () => answer });
  await expect(repositoryAt(server).listTags()).rejects.toThrow(new RegExp(message));
});
