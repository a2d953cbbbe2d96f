import { mkdtempSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";

import { querySocket, queryFirstOperator } from "../../../src/main/commands/operator/socket.ts";
import { socketPaths } from "../../../src/config/settings/config.ts";
import { serveSocket } from "../../../src/surface/debug/index.ts";
import type { RunningServer, DebugSources } from "../../../src/surface/debug/index.ts";
import type { LogLevel } from "../../../src/base/index.ts";
import { KnownSecrets, parseYaml } from "../../../src/base/index.ts";
import type { Module, Task } from "../../../src/base/model/index.ts";
import type { QueueView } from "../../../src/engine/queue/index.ts";
import { RunRing, Tracer, getTaskOrigin, span } from "../../../src/base/trace/index.ts";
import { State } from "../../../src/engine/state/index.ts";
import { parseConfigMap } from "../../../src/values/index.ts";
import { ManualClock } from "../../support/clock.ts";
import { pageOf } from "../../support/page-lab.ts";
import { callOf, run } from "../../support/command-line.ts";
import { projectAll } from "../../report/views.ts";

const module: Module = {
  name: "web-shop",
  valuesKey: "webShop",
  order: 10,
  dir: "/modules/010-web-shop",
  chart: "own",
  chartDir: "/modules/one",
  chartVersion: "1.0.0",
  enabledScript: undefined,
  hookFiles: [],
  crdFiles: [],
  common: { file: "values.yaml", section: undefined, enabled: undefined },
  own: { file: "own.yaml", section: { replicas: 2 }, enabled: true },
  schemas: {},
  problem: undefined,
  warnings: [],
};

const SECRET = "s3cr3t-of-the-shop";

const failing: QueueView<Task> = {
  name: "main",
  length: 1,
  tasks: [
    {
      task: {
        kind: "run-module",
        key: "run-module/web-shop",
        module: "web-shop",
        cause: { kind: "start-up" },
      },
      running: false,
      failures: 2,
      nextAt: 5000,
      message: `exit code 1: no ${SECRET}`,
      count: 1,
    },
  ],
} as unknown as QueueView<Task>;

let dir: string;
let path: string;
let server: Pick<RunningServer, "close">;
let clock: ManualClock;
let ring: RunRing;
let state: State;
const log: { level: LogLevel } = { level: "info" };

function sources(): DebugSources {
  state = new State({ clock });
  state.recordTree({
    modules: [module],
    globalValues: { cluster: "east" },
    globalSchemas: {},
    globalHookFiles: [],
    problems: [],
    warnings: [],
    purgeBlockers: [],
  });
  state.recordModule("web-shop", "enablementDecided", { enabled: true, by: "module-values" });
  state.inputs.recordPatches("webShop", [{ op: "add", path: "/webShop/host", value: "a.example" }]);
  const secrets = new KnownSecrets();
  secrets.register({ password: SECRET });
  return {
    version: "9.9.9",
    clock,
    state,
    secrets,
    queues: () => [failing],
    project: () => projectAll({ view: state.view, queues: [failing] }, clock.now()),
    snapshots: () => ({ pods: [] }),
    diff: ({ name }) =>
      Promise.resolve(name === "web" ? "# v1 ConfigMap ops web: drifted\n-a: 1\n+a: 2\n" : ""),
    render: (_module, diff) => Promise.resolve(diff ? "No diff found\n" : "kind: ConfigMap\n"),
    watchedObjects: () => ["ns/ConfigMap/b", "ns/ConfigMap/a"],
    runs: ring,
    rollbackTarget(_, revision = 3) {
      if (revision === 9) throw new Error("there is no revision 9");
      return revision;
    },
    plan: () => Promise.resolve({ install: { "web-shop": "there is no release" } }),
    page: pageOf({ runs: ring, secrets }).page,
    platformInfo: () => ({ settings: { namespace: "ops", token: SECRET } }),
    moduleSourceState: () => ({
      sources: [{ name: "platform", spec: { secret: "registry-login", note: SECRET } }],
    }),
    metrics: () => Promise.resolve("x 1\n"),
    log,
    onError: () => {},
  };
}

beforeEach(async () => {
  clock = new ManualClock();
  ring = new RunRing(clock);
  log.level = "info";
  dir = mkdtempSync(join(tmpdir(), "debug-"));
  path = join(dir, "sub", "debug.socket");
  server = await serveSocket(path, sources());
});

afterEach(async () => {
  await server.close();
  rmSync(dir, { recursive: true, force: true });
});

const ask = (line: string) => querySocket(path, callOf(line.split(" ")));
const json = async (line: string): Promise<unknown> => JSON.parse((await ask(`${line} -o json`)).body);

describe("debug socket", () => {
  it("only its owner may open it", () => {
    expect(statSync(path).mode & 0o777).toBe(0o600);
  });

  it("shows the last runs, those of a module, what has changed since, and one run with its lines", async () => {
    const tracer = new Tracer({ clock });
    tracer.addListener(ring);
    const attributes = { module: "web-shop" };
    const start = {
      name: "run",
      attributes,
      module: "web-shop",
      from: getTaskOrigin(),
      waitingSince: clock.now(),
    };
    const logLine = { level: "info", time: undefined, message: `it is ${SECRET}`, fields: {} } as const;
    await tracer.task(start, async () => ring.onEntry(logLine));
    const displayed = async (
      path: string,
    ): Promise<{ cursor: number; runs: { id: string; lines?: object[] }[] }> =>
      JSON.parse((await ask(`raw ${path}`)).body);
    const { cursor, runs } = await displayed("/runs.json?module=web-shop");
    expect(runs.map(({ lines }) => lines)).toEqual([undefined]);
    expect((await displayed("/runs.json?module=other")).runs).toEqual([]);
    expect((await displayed(`/runs.json?since=${cursor}`)).runs).toEqual([]);
    const [run] = (await displayed("/runs.json?lines=true")).runs;
    expect(run?.lines).toEqual([
      expect.objectContaining({ message: expect.stringMatching(/^it is (?!s3cr3t)/) }),
    ]);
    expect(JSON.parse((await ask(`raw /runs/${run?.id}.json`)).body)).toEqual(run);
    expect(await ask("raw /runs/none.json")).toMatchObject({ status: 404 });
    expect(await ask("raw /runs.json?since=-1")).toMatchObject({ status: 400 });
  });

  it("redacts secrets of spans in runs, logs, the bundle and the page", async () => {
    const tracer = new Tracer({ clock });
    tracer.addListener(ring);
    const attributes = { module: "web-shop", about: `about ${SECRET}` };
    const from = { ...getTaskOrigin(), name: `Modified ${SECRET}` };
    const start = { name: `run ${SECRET}`, attributes, module: "web-shop", from, waitingSince: clock.now() };
    const failing = tracer.task(start, async () => {
      await span({ kind: "hook", name: SECRET, attributes: { of: SECRET } }, async () => {
        throw new Error(`no ${SECRET}`);
      });
    });
    await expect(failing).rejects.toThrow(SECRET);
    const [kept] = ring.listRuns().runs;
    const paths = ["/runs.json?lines=true", `/runs/${kept?.id}.json`, "/bundle.json", "/ui/runs"];
    const logs = await run(["logs", "web-shop", `--debug-unix-socket=${path}`]);
    const displayed = await Promise.all(
      paths.map((each) => querySocket(path, { method: "GET", path: each })),
    );
    for (const text of [logs.text, ...displayed.map(({ body }) => body)]) {
      expect(text).toMatch(/run <redacted:/);
      expect(text).not.toContain(SECRET);
    }
  });

  it("serves the page read-only", async () => {
    expect(await querySocket(path, { method: "GET", path: "/ui/graph" })).toMatchObject({ status: 200 });
    expect(await querySocket(path, { method: "POST", path: "/ui/graph" })).toMatchObject({ status: 404 });
  });

  it("commands find the socket in the temporary directory if the operator could not create it at its path", async () => {
    const places = socketPaths({ debugSocket: join(dir, "nowhere", "socket"), tmpDir: join(dir, "sub") });
    const { status, body } = await queryFirstOperator(places, callOf(["module", "why", "web-shop"]));
    expect([status, body]).toEqual([200, expect.stringContaining("will be retried")]);
    const none = socketPaths({ debugSocket: "/none/socket", tmpDir: "/none/tmp" });
    await expect(queryFirstOperator(none, callOf(["plan"]))).rejects.toThrow(
      /^no operator listens on \/none\/socket or \/none\/tmp\/debug.socket\. .*set --debug-unix-socket/,
    );
  });

  it.each([
    ["module list", { enabledModules: ["web-shop"] }],
    ["module resource-monitor", { "web-shop": ["ns/ConfigMap/a", "ns/ConfigMap/b"] }],
    ["module values web-shop", { replicas: 2, host: "a.example" }],
    [
      "module values web-shop -g",
      { global: { cluster: "east" }, webShop: { replicas: 2, host: "a.example" } },
    ],
    [
      "module values web-shop --explain",
      { "/host": "hook patch", "/replicas": "module values.yaml: own.yaml" },
    ],
    ["module config web-shop", {}],
    ["module config web-shop -g", { global: {}, webShop: {} }],
    ["module patches web-shop", [{ Operations: [{ op: "add", path: "/webShop/host", value: "a.example" }] }]],
    ["module snapshots web-shop", {}],
    ["global list", { globalHooks: [] }],
    ["global values", { cluster: "east" }],
    ["global config", {}],
    ["global patches", []],
    ["global snapshots", {}],
    [
      "config list",
      [{ name: "log.level", value: "info", default: "info", description: "The level of the log" }],
    ],
    ["plan", { install: { "web-shop": "there is no release" } }],
  ])("%s", async (line, expected) => {
    expect(await json(line)).toEqual(expected);
    expect(parseYaml((await ask(`${line} -o yaml`)).body, line).value).toEqual(expected);
  });

  it("answers with JSON where data has no text, as the Go operator", async () => {
    expect((await ask("module list -o text")).body).toBe('{"enabledModules":["web-shop"]}\n');
    expect(JSON.parse((await ask("module values web-shop -g -o text")).body)).toHaveProperty("global");
  });

  it("shows queues as text, and as data", async () => {
    const { body } = await ask("queue list");
    expect(body).toContain("Queue 'main': length 1, status: 'sleep after fail");
    expect(body).toContain("- 'main' queue: 1 task.");
    expect(body).toContain("failed 2 times: exit code 1: no ");
    expect(body + (await ask("module why web-shop")).body).not.toContain(SECRET);
    expect((await ask("queue main")).body).toMatch(
      /^Queue 'main': length 1, status: 'sleep after fail[^]*\n 1\. /,
    );
    expect(await json("queue main")).toMatchObject({ name: "main", tasksCount: 1, tasks: [{ index: 1 }] });
  });

  it("returns text responses unchanged", async () => {
    expect((await ask("module diff web-shop")).body).toBe("");
    expect((await ask("module render web-shop")).body).toBe("kind: ConfigMap\n");
    expect((await ask("module render web-shop --diff")).body).toBe("No diff found\n");
    expect((await ask("module why web-shop")).body).toContain("will be retried (failed 2 times)\n");
    const data = JSON.parse((await ask("module why web-shop -o json")).body) as { reasons: string[] };
    expect(data).toMatchObject({ module: "web-shop" });
    expect(data.reasons.join("\n")).toContain("will be retried (failed 2 times)");
    expect((await ask("raw /version")).body).toBe("version: 9.9.9\n");
  });

  it("reports the same state of a module as its AddonModule", async () => {
    const summary = await json("module status web-shop");
    expect(summary).toMatchObject({ state: "Pending", ready: "Unknown", healthy: "Unknown" });
    expect(JSON.stringify(summary)).not.toContain(SECRET);
  });

  it("shows an overview without secrets", async () => {
    state.record("hookIssuesChanged", [`hook: no ${SECRET}`]);
    const { body } = await ask("raw /overview.json");
    expect(JSON.parse(body)).toMatchObject({
      state: "Pending",
      message: expect.stringContaining("; hook: no "),
      converge: { phase: "starting" },
      modules: [{ name: "web-shop", enabled: true, state: "Pending", chartVersion: "1.0.0", drifted: 0 }],
    });
    expect(body).not.toContain(SECRET);
  });

  it("a follower names the leader", async () => {
    const at = join(dir, "follower.socket");
    const follower = await serveSocket(at, { ...sources(), leader: () => "addon-operator-7" });
    for (const line of ["module list", "queue", "global values", "plan", "raw /overview.json"])
      expect([line, await querySocket(at, callOf(line.split(" ")))]).toEqual([
        line,
        { status: 503, body: "this operator is a follower. Query the leader: addon-operator-7.\n" },
      ]);
    expect((await querySocket(at, callOf(["config", "list"]))).status).toBe(200);
    await follower.close();
  });

  it("accepts a run by POST only", async () => {
    expect((await ask("module run web-shop")).status).toBe(200);
    expect((await ask("raw /module/web-shop/run")).status).toBe(405);
    expect(state.view.modules.get("web-shop")?.requestedToken).toBeDefined();
  });

  it("accepts a rollback by POST only, to an existing revision", async () => {
    const { status, body } = await ask("module rollback web-shop 2");
    expect([status, body]).toEqual([
      200,
      expect.stringContaining("rollback of web-shop to revision 2 requested"),
    ]);
    expect(state.module("web-shop")?.rollbackRequest).toMatchObject({ revision: 2, module });
    expect((await ask("module rollback web-shop")).body).toContain("to revision 3");
    expect((await ask("module rollback web-shop x")).status).toBe(400);
    expect(await ask("module rollback web-shop 9")).toEqual({
      status: 409,
      body: "web-shop: there is no revision 9\n",
    });
    expect((await ask("raw /module/web-shop/rollback")).status).toBe(405);
    state.recordModule("web-shop", "enablementDecided", { enabled: false, by: "configmap" });
    expect((await ask("module rollback web-shop 2")).body).toBe(
      "module web-shop is disabled. Enable it before you roll it back\n",
    );
  });

  it.each(["webShopMaintenance", "maintenance"])("refuses a rollback while %s is set", async (key) => {
    const data = { [key]: "NoResourceReconciliation" };
    const content = parseConfigMap("ConfigMap addon-operator", data, [module]);
    state.inputs.recordConfig(
      { condition: "ok", problems: [], resourceVersion: "1", content },
      { kind: "config" },
    );
    expect(await ask("module rollback web-shop 2")).toEqual({
      status: 409,
      body: `module web-shop is suspended. Remove ${key} from the ConfigMap before you roll it back\n`,
    });
    expect(state.module("web-shop")?.rollbackRequest).toBeUndefined();
  });

  it("sets the log level temporarily", async () => {
    expect((await ask("config set log.level debug 5m")).status).toBe(200);
    expect(log.level).toBe("debug");
    await clock.advance(300_000);
    expect(log.level).toBe("info");
  });

  it("reverts to the level before the first temporary change", async () => {
    await ask("config set log.level debug 5m");
    await clock.advance(60_000);
    await ask("config set log.level debug 5m");
    await clock.advance(240_000);
    expect(log.level).toBe("debug");
    await clock.advance(60_000);
    expect(log.level).toBe("info");
    await ask("config set log.level debug 5m");
    await ask("config set log.level warn");
    await clock.advance(3_600_000);
    expect(log.level).toBe("warn");
    await ask("config set log.level debug");
    expect((await ask("config list -o json")).body).toContain("debug");
    await clock.advance(1_800_000);
    expect(log.level).toBe("warn");
  });

  it.each([
    ["config set log.level loud", 400, /"loud" is not accepted; use debug/],
    ["config set log.level debug soon", 400, /"soon" is not accepted; use a duration/],
    ["config set nope x", 400, /unknown parameter "nope"; known: log.level/],
    ["module values nope", 500, /^module not found: nope$/m],
    ["module values webshop", 500, /^module not found: webshop \(did you mean web-shop\?\)$/m],
    ["raw /nope", 404, /no such path/],
  ])("%s → %i", async (line, status, message) => {
    const answer = await ask(line);
    expect(answer.status).toBe(status);
    expect(answer.body).toMatch(message);
  });
});
