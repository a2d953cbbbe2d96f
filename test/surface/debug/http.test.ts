import { afterEach, beforeEach, describe, expect, it } from "vitest";

import { servePublic } from "../../../src/surface/debug/index.ts";
import type { RunningServer } from "../../../src/surface/debug/index.ts";
import { KnownSecrets } from "../../../src/base/index.ts";
import { ProblemError } from "../../../src/base/model/index.ts";
import type { Task } from "../../../src/base/model/index.ts";
import type { QueueView } from "../../../src/engine/queue/index.ts";
import type { View } from "../../../src/engine/state/index.ts";
import { viewOf } from "../../report/views.ts";
import { ManualClock } from "../../support/clock.ts";
import { openPage } from "../../support/page-lab.ts";

const QUEUE: QueueView<Task> = {
  name: "main",
  length: 1,
  tasks: [
    {
      task: { kind: "run-module", module: "web", cause: { kind: "start-up" } },
      count: 1,
      dropped: 0,
      failures: 0,
      message: undefined,
      nextAt: undefined,
      running: true,
    },
  ],
};

let server: RunningServer;
let view: View;
let mirrored: { status: number; text: string } | undefined;
let clock: ManualClock;
let renderCount: number;

beforeEach(async () => {
  view = viewOf([]);
  mirrored = undefined;
  clock = new ManualClock();
  renderCount = 0;
  server = await servePublic(
    { address: "127.0.0.1", port: 0 },
    {
      clock,
      secrets: new KnownSecrets(),
      view: () => view,
      queues: () => [QUEUE],
      metrics: (exposition) => {
        renderCount += 1;
        return Promise.resolve(exposition === "open" ? "# EOF\n" : "own 1\n");
      },
      hookMetrics: () => Promise.resolve("hooks 1\n"),
      leaderReadiness: () => Promise.resolve(mirrored),
      onError: () => {},
    },
  );
});

afterEach(() => server.close());

async function get(
  path: string,
  headers = {},
): Promise<{ status: number; body: string; type: string | null }> {
  const answer = await fetch(`http://127.0.0.1:${server.port}${path}`, { headers });
  return { status: answer.status, body: await answer.text(), type: answer.headers.get("content-type") };
}

const during = (boot: View["boot"], phase: View["converge"]["phase"], remaining = 0): View =>
  viewOf([], {
    boot,
    converge: { ...viewOf([]).converge, phase, remaining: Array<string>(remaining).fill("web") },
  });

it("reports a port in use in one line with a remedy", async () => {
  const listen = { address: "127.0.0.1", port: server.port };
  const started = servePublic(listen, {} as Parameters<typeof servePublic>[1]);
  await expect(started).rejects.toEqual(
    new ProblemError({
      file: "the HTTP server",
      message: `port ${server.port} of 127.0.0.1 is in use by another program`,
      remedy: "stop that program, or set --listen-address and --listen-port",
    }),
  );
});

describe("the HTTP port", () => {
  it("renders /metrics once for a burst of requests, and again for the next scrape", async () => {
    for (let request = 0; request < 20; request++) await get("/metrics");
    expect(renderCount).toBe(1);
    await get("/metrics", { accept: "application/openmetrics-text" });
    expect(renderCount).toBe(2);
    await clock.advance(100);
    expect((await get("/metrics")).body).toBe("own 1\n");
    expect(renderCount).toBe(3);
  });

  it.each([
    [
      "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2",
      "open",
    ],
    ["application/openmetrics-text", "open"],
    ["text/plain;version=0.0.4;q=0.5, application/openmetrics-text;version=1.0.0;q=0.4", "plain"],
    ["text/plain,application/openmetrics-text;q=0", "plain"],
    ["application/openmetrics-text;q=x", "plain"],
    ["*/*", "plain"],
    [",;=,", "plain"],
  ])("answers /metrics to %s in the form that is wanted", async (accept, form) => {
    const { body, type } = await get("/metrics", { accept });
    expect([body, type]).toEqual(
      form === "open"
        ? ["# EOF\n", "application/openmetrics-text; version=1.0.0; charset=utf-8"]
        : ["own 1\n", "text/plain; version=0.0.4; charset=utf-8"],
    );
    const hooks = await get("/metrics/hooks", { accept });
    expect(hooks.type).toBe("text/plain; version=0.0.4; charset=utf-8");
  });

  it.each([
    ["/healthz", 200, ""],
    ["/metrics", 200, "own 1\n"],
    ["/metrics/hooks", 200, "hooks 1\n"],
    ["/nope", 404, "not found\n"],
    ["/module/web/values.json", 404, "not found\n"],
  ])("%s → %i", async (path, status, body) => {
    expect(await get(path)).toMatchObject({ status, body });
  });

  it("has an index of all paths", async () => {
    const { body, type } = await get("/");
    expect(type).toMatch(/^text\/html/);
    const links = [...body.matchAll(/href="([^"]+)"/g)].map(([, path]) => path);
    expect(links).toEqual([
      "/",
      "/healthz",
      "/readyz",
      "/status/converge",
      "/metrics",
      "/metrics/hooks",
      "/queue",
    ]);
    for (const path of links) expect((await get(path ?? "")).status).toBe(200);
  });

  it.each<readonly [View["boot"], number]>([
    ["loading", 500],
    ["waiting", 500],
    ["onStartup", 500],
    ["synchronization", 500],
    ["converging", 500],
    ["running", 200],
  ])("/readyz while start-up is at %s → %i", async (boot, status) => {
    view = viewOf([], { boot });
    expect((await get("/readyz")).status).toBe(status);
  });

  it("/readyz of a follower repeats its leader's answer", async () => {
    mirrored = { status: 500, text: "no leader\n" };
    expect(await get("/readyz")).toMatchObject({ status: 500, body: "no leader\n" });
  });

  it.each([
    [during("onStartup", "idle"), "STARTUP_CONVERGE_NOT_STARTED\n", { STARTUP_CONVERGE_NOT_STARTED: true }],
    [
      during("converging", "modules", 2),
      "STARTUP_CONVERGE_IN_PROGRESS: 3 tasks\n",
      { STARTUP_CONVERGE_IN_PROGRESS: 3 },
    ],
    [during("running", "idle"), "STARTUP_CONVERGE_DONE\nCONVERGE_WAIT_TASK\n", { CONVERGE_WAIT_TASK: true }],
    [
      during("running", "discovery"),
      "STARTUP_CONVERGE_DONE\nCONVERGE_IN_PROGRESS: 1 tasks\n",
      { STARTUP_CONVERGE_DONE: true, CONVERGE_IN_PROGRESS: 1, CONVERGE_WAIT_TASK: false },
    ],
  ])("/status/converge (%#)", async (now, text, data) => {
    view = now;
    expect((await get("/status/converge")).body).toBe(text);
    const json = JSON.parse((await get("/status/converge?output=json")).body) as unknown;
    expect(json).toMatchObject(data);
    expect(Object.keys(json as object).toSorted()).toEqual([
      "CONVERGE_IN_PROGRESS",
      "CONVERGE_WAIT_TASK",
      "STARTUP_CONVERGE_DONE",
      "STARTUP_CONVERGE_IN_PROGRESS",
      "STARTUP_CONVERGE_NOT_STARTED",
    ]);
  });

  it("serves the page only if it is enabled", async () => {
    expect((await get("/ui/graph")).status).toBe(404);
    const lab = await openPage();
    expect((await fetch(`${lab.url}/ui/graph`)).status).toBe(200);
    await lab.close();
  });

  it("/queue shows the queues as text and JSON", async () => {
    expect((await get("/queue")).body).toContain("Queue 'main': length 1, status: 'run first task'");
    expect(JSON.parse((await get("/queue?output=json")).body)).toMatchObject({
      active: [{ name: "main", tasks: [{ description: "run-module web: start-up" }] }],
      empty: [],
    });
  });
});
