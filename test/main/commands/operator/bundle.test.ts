import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createServer } from "node:http";
import { afterEach, beforeEach, describe, expect, it, onTestFinished } from "vitest";

import { saveBundle } from "../../../../src/main/commands/operator/bundle.ts";
import { serveSocket } from "../../../../src/surface/debug/index.ts";
import type { RunningServer, DebugSources } from "../../../../src/surface/debug/index.ts";
import { KnownSecrets } from "../../../../src/base/index.ts";
import type { Module } from "../../../../src/base/model/index.ts";
import { RunRing, Tracer, getTaskOrigin } from "../../../../src/base/trace/index.ts";
import { State } from "../../../../src/engine/state/index.ts";
import { ManualClock } from "../../../support/clock.ts";
import { lineOf } from "../../../support/command-line.ts";
import { projectAll } from "../../../report/views.ts";

/** Each in a place of its own: known to the operator, by its key, by the schema, by its form, in a line of a log. */
const SECRETS = {
  header: "abcdef123456",
  known: "s3cr3t-of-the-shop",
  byKey: "correct-horse-battery",
  bySchema: "marked-by-the-schema",
  byForm: "AKIAIOSFODNN7EXAMPLE",
  inPath: "s3cr3t-of-the-shop",
};
const NOW = Date.UTC(2026, 4, 6, 7, 8, 9);
const NAME = "addon-operator-bundle-20260506T070809Z";

const module = {
  name: "web",
  valuesKey: "web",
  order: 10,
  dir: "/modules/010-web",
  chart: "own",
  chartDir: "/modules/010-web",
  chartVersion: "1.0.0",
  enabledScript: undefined,
  hookFiles: [],
  crdFiles: [],
  common: { file: "values.yaml", section: undefined, enabled: undefined },
  own: {
    file: "own.yaml",
    section: {
      replicas: 2,
      password: SECRETS.byKey,
      note: SECRETS.bySchema,
      url: `https://u:${SECRETS.known}@h/`,
    },
    enabled: true,
  },
  schemas: {
    values: {
      file: "values.yaml",
      text: "type: object\nproperties: {note: {type: string, x-secret: true}}\n",
    },
  },
  problem: { file: "values.yaml", message: `no ${SECRETS.known}` },
  warnings: [],
} as unknown as Module;

let dir: string;
let server: Pick<RunningServer, "close">;
let sources: DebugSources;

beforeEach(async () => {
  dir = mkdtempSync(join(tmpdir(), "bundle-"));
  const clock = new ManualClock(NOW);
  const secrets = new KnownSecrets();
  secrets.register({ password: SECRETS.known });
  const state = new State({ clock, secrets });
  state.recordTree({
    modules: [module],
    globalValues: { cluster: "east", token: SECRETS.byKey, key: SECRETS.byForm },
    globalSchemas: {},
    globalHookFiles: [],
    problems: [{ file: "x", message: `is ${SECRETS.known}` }],
    warnings: [],
    purgeBlockers: [],
  });
  state.recordModule("web", "enablementDecided", { enabled: true, by: "module-values" });
  state.record("permissionsChecked", ["list pods"]);
  state.record("serverVersionRead", "v1.36.0");
  const runs = new RunRing(clock);
  const tracer = new Tracer({ clock });
  tracer.addListener(runs);
  const start = { name: "run", attributes: {}, module: "web", from: getTaskOrigin(), waitingSince: NOW };
  const line = { level: "info", time: undefined, message: `it is ${SECRETS.known}`, fields: {} } as const;
  await tracer.task(start, async () => runs.onEntry(line));
  sources = {
    version: "9.9.9",
    clock,
    state,
    secrets,
    queues: () => [],
    project: () => projectAll({ view: state.view, queues: [] }, clock.now()),
    snapshots: () => ({}),
    render: () => Promise.resolve(""),
    diff: () => Promise.resolve(""),
    watchedObjects: () => [],
    runs,
    rollbackTarget: (_, revision) => revision ?? 3,
    plan: () => Promise.resolve({}),
    platformInfo: () => ({
      settings: { namespace: "ops", password: SECRETS.byKey, otlpHeaders: `x-team=${SECRETS.header}` },
    }),
    moduleSourceState: () => ({
      sources: [{ name: "platform", status: { message: `no ${SECRETS.known}` } }],
    }),
    metrics: () => Promise.resolve("live_ticks 1\n"),
    log: { level: "info" },
    onError: () => {},
  };
});
afterEach(async () => {
  await server.close();
  rmSync(dir, { recursive: true, force: true });
});

async function run(change: Partial<DebugSources> = {}, file = join(dir, "b.tgz")): Promise<[number, string]> {
  const socket = join(dir, "socket");
  server = await serveSocket(socket, { ...sources, ...change });
  return asking(socket, file);
}

async function asking(socket: string, file: string): Promise<[number, string]> {
  const printed: string[] = [];
  const print = (text: string): void => void printed.push(text);
  const terminal = {
    env: {},
    print,
    printError: print,
    confirm: () => Promise.resolve(false),
    isTerminal: false,
    columns: 80,
  };
  const line = lineOf(["bundle", file, `--debug-unix-socket=${socket}`]);
  return [await saveBundle(line, terminal, NOW), printed.join("")];
}

const unpacked = (name: string): string => {
  execFileSync("tar", ["-xzf", join(dir, "b.tgz"), "-C", dir]);
  return readFileSync(join(dir, NAME, name), "utf8");
};
const json = (name: string): unknown => JSON.parse(unpacked(name));

describe("bundle", () => {
  it("writes an archive that tar reads and its owner alone", async () => {
    const [code, said] = await run();
    expect([code, said]).toEqual([0, expect.stringMatching(/b\.tgz: \d+ KiB\. Review the archive/)]);
    expect(statSync(join(dir, "b.tgz")).mode & 0o777).toBe(0o600);
    const list = execFileSync("tar", ["-tzf", join(dir, "b.tgz")], { encoding: "utf8" })
      .trim()
      .split("\n");
    const files = ["about", "overview", "queues", "global", "modules", "directories", "sources", "runs"];
    expect(list).toEqual([...files.map((name) => `${NAME}/${name}.json`), `${NAME}/metrics.txt`]);
    expect(unpacked("metrics.txt")).toBe("live_ticks 1\n");
    expect(json("about.json")).toMatchObject({
      version: "9.9.9",
      kubernetes: "v1.36.0",
      missingRights: ["list pods"],
      settings: { namespace: "ops" },
    });
    expect(json("global.json")).toMatchObject({ values: { global: { cluster: "east" } } });
    expect(json("modules.json")).toMatchObject([
      { name: "web", state: "Invalid", dir: "/modules/010-web", values: { web: { replicas: 2 } } },
    ]);
    expect(json("overview.json")).toMatchObject({ modules: [{ name: "web" }] });
    expect(json("runs.json")).toMatchObject({ runs: [{ lines: [{ level: "info" }] }] });
    expect(json("directories.json")).toMatchObject({ problems: [{ file: "x" }] });
    expect(json("sources.json")).toMatchObject({ sources: [{ name: "platform" }] });
  });

  it("no secret is in it, wherever it stands", async () => {
    await run();
    const text = ["about", "overview", "queues", "global", "modules", "directories", "sources", "runs"]
      .map((name) => unpacked(`${name}.json`))
      .join("");
    for (const secret of Object.values(SECRETS)) expect(text).not.toContain(secret);
    expect(text).toContain("replicas");
  });

  it("a part that cannot be made says why, and the others are there", async () => {
    const [code] = await run({ metrics: () => Promise.reject(new Error("no series today")) });
    expect([code, json("metrics.txt")]).toEqual([0, { error: "no series today" }]);
    expect(json("queues.json")).toBeDefined();
  });

  it("a file that is there is not overwritten", async () => {
    writeFileSync(join(dir, "b.tgz"), "mine");
    await expect(run()).rejects.toThrow(/already exists/);
    expect(readFileSync(join(dir, "b.tgz"), "utf8")).toBe("mine");
  });

  it("reports an operator that is too old, and a missing one", async () => {
    server = await serveSocket(join(dir, "unused"), sources);
    const socket = join(dir, "old");
    const old = createServer((_, response) => void response.writeHead(404).end("no such path\n"));
    await new Promise<void>((done) => void old.listen(socket, done));
    onTestFinished(() => void old.close());
    expect(await asking(socket, join(dir, "c.tgz"))).toEqual([1, expect.stringContaining("may be older")]);
    await expect(asking(join(dir, "none"), join(dir, "c.tgz"))).rejects.toThrow(/no operator listens/);
  });
});
