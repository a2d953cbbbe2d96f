import { request } from "node:http";
import { afterEach, expect, test } from "vitest";

import { servePage, servePublic } from "../../../src/surface/debug/index.ts";
import type { RunningServer } from "../../../src/surface/debug/index.ts";
import { queryLeader } from "../../../src/kube/leader/leader-port.ts";
import { KnownSecrets, systemClock } from "../../../src/base/index.ts";
import { Page } from "../../../src/surface/ui/index.ts";
import { viewOf, projectAll } from "../../report/views.ts";

// docs/guides/running.md, "Two replicas"

const servers: RunningServer[] = [];
afterEach(async () => {
  for (const server of servers.splice(0)) await server.close();
});

type Sources = Parameters<typeof servePublic>[1];

const pageOf = (name: string): Page =>
  new Page({
    clock: systemClock,
    secrets: new KnownSecrets(),
    about: { version: "1.0.0", name, namespace: "ops" },
    project: () => projectAll({ view: viewOf([]), queues: [] }),
    statusValues: "redacted",
    originsOf: () => ({}),
    runs: { getRun: () => undefined, listRuns: () => ({ cursor: 0, runs: [] }) },
    diff: () => Promise.resolve(""),
  });

async function operator(queue: string, more: Partial<Sources> = {}): Promise<RunningServer> {
  const tasks = { name: queue, length: 0, tasks: [] };
  const server = await servePublic(
    { address: "127.0.0.1", port: 0 },
    {
      clock: systemClock,
      secrets: new KnownSecrets(),
      view: () => viewOf([]),
      queues: () => [tasks],
      metrics: () => Promise.resolve(`${queue} 1\n`),
      hookMetrics: () => Promise.resolve(""),
      page: pageOf(queue),
      onError: () => {},
      ...more,
    },
  );
  servers.push(server);
  return server;
}

const followerOf = (port: number): Promise<RunningServer> =>
  operator("follower", {
    leader: () => "op-a",
    queryLeader: (path) => queryLeader({ ip: "127.0.0.1", port }, path, systemClock),
  });

async function get(
  { port }: RunningServer,
  path: string,
  headers = {},
): Promise<{ status: number; text: string }> {
  const answer = await fetch(`http://127.0.0.1:${port}${path}`, { headers });
  return { status: answer.status, text: await answer.text() };
}

test("a follower proxies paths with data of the leader", async () => {
  const leader = await operator("leader");
  const follower = await followerOf(leader.port);
  expect((await get(follower, "/queue?output=json")).text).toContain('"leader"');
  expect((await get(follower, "/status/converge")).status).toBe(200);
  expect(await get(follower, "/ui/runs")).toEqual(await get(leader, "/ui/runs"));
  expect((await get(follower, "/metrics")).text).toBe("follower 1\n");
  expect((await get(follower, "/healthz")).status).toBe(200);
});

test("a follower proxies the stream of the page, and ends it when the client disconnects", async () => {
  const leader = await operator("leader");
  const follower = await followerOf(leader.port);
  const first = await new Promise<string>((resolve, reject) => {
    const requested = request({ host: "127.0.0.1", port: follower.port, path: "/ui/events" }, (answer) => {
      expect(answer.headers["content-type"]).toBe("text/event-stream");
      expect(answer.headers["content-security-policy"]).toContain("default-src 'none'");
      answer.setEncoding("utf8").once("data", (text: string) => {
        resolve(text);
        requested.destroy();
      });
    });
    requested.on("error", reject).end();
  });
  expect(first).toContain('"name":"leader"');
});

test("a separate port for the page serves only the page", async () => {
  const sources = { page: pageOf("alone"), onError: () => {} };
  const server = await servePage({ address: "127.0.0.1", port: 0 }, sources);
  servers.push(server);
  expect((await get(server, "/ui/graph")).status).toBe(200);
  expect((await get(server, "/ui/graph", { origin: "http://elsewhere.example" })).status).toBe(403);
  for (const path of ["/metrics", "/queue", "/"]) expect((await get(server, path)).status).toBe(404);
});

test("a follower that cannot reach the leader names it, and proxies no request of another site", async () => {
  const follower = await followerOf(1);
  expect(await get(follower, "/ui/graph")).toEqual({
    status: 503,
    text: "this operator is a follower. Query the leader: op-a. The request to it failed: connect ECONNREFUSED 127.0.0.1:1\n",
  });
  const other = { origin: "http://elsewhere.example" };
  expect((await get(follower, "/ui/graph", other)).status).toBe(403);
});

test("a follower does not proxy a request of another follower", async () => {
  const last = await followerOf(1);
  const first = await followerOf(last.port);
  expect(await get(first, "/queue")).toEqual({
    status: 503,
    text: "this operator is a follower. Query the leader: op-a.\n",
  });
});
