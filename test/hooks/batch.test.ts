import { readFileSync } from "node:fs";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { afterEach, beforeEach, describe, expect, test } from "vitest";

import { renderContext } from "../../src/hooks/bindings/index.ts";
import { HookLoader, runHookFileOffline, lintHook, runHook } from "../../src/hooks/index.ts";
import { silentLogger } from "../../src/base/index.ts";
import type { Hook, HookFile, HookTrigger } from "../../src/base/model/index.ts";
import { Children, type RunRequest, type RunResult } from "../../src/base/process/index.ts";
import { batchConfig, writeBatchFile, type BatchFile } from "../support/batch-file.ts";
import { ManualClock } from "../support/clock.ts";
import { kubernetes, lifecycle, schedule, sync } from "./build.ts";

// docs/reference/hooks.md, "Batch hooks": executables with several hooks.

const env = { PATH: process.env.PATH ?? "" };
const options = { env, children: new Children(), workingDir: undefined };
const ON_STARTUP = batchConfig({ onStartup: 1 });

let root: string;
beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), "batch-"));
});
afterEach(async () => {
  await rm(root, { recursive: true });
});

function fileAt(name: string): HookFile {
  return { name: `hooks/${name}`, path: join(root, name), root, signature: "1" };
}

function batchFile(given: Partial<BatchFile>, name = "batch"): HookFile {
  writeBatchFile(join(root, name), { config: ON_STARTUP, ...given });
  return fileAt(name);
}

async function script(text: string, name = "hook"): Promise<HookFile> {
  await writeFile(join(root, name), `#!/bin/bash\n${text}\n`, { mode: 0o755 });
  return fileAt(name);
}

const calls = async ({ path }: HookFile): Promise<string[]> =>
  (await readFile(`${path}.calls`, "utf8")).trimEnd().split("\n");

async function hooksOf(file: HookFile, module: string | undefined = "m"): Promise<readonly Hook[]> {
  const answer = await new HookLoader(options).load(file, module);
  if ("problem" in answer) throw new Error(answer.problem.message);
  return answer.hooks;
}

const problemOf = (file: HookFile, more = {}) => new HookLoader({ ...options, ...more }).load(file, "m");

describe("what a batch file is", () => {
  test("without extension, no configuration for --config, a list for hook list: three questions, once", async () => {
    const file = batchFile({});
    const loader = new HookLoader(options);
    for (const _ of [1, 2])
      expect(await loader.load(file, "m")).toMatchObject({
        hooks: [{ id: "m:hooks/batch:main:0", name: "hooks/batch:main:0", item: 0, module: "m" }],
        warnings: [],
      });
    expect(await calls(file)).toEqual(["--config", "hook list", "hook config"]);
  });

  test("with an extension it is an ordinary hook", async () => {
    const file = batchFile({}, "batch.bin");
    expect(await problemOf(file)).toMatchObject({ problem: { message: "the hook failed: exit code 1" } });
    expect(await calls(file)).toEqual(["--config"]);
  });

  test.each([
    ["a right one", `echo 'onStartup: 1'`, { hooks: [{ name: "hooks/hook" }] }],
    ["a wrong one", `echo 'schedule: [{}]'`, { problem: { message: "schedule[0].crontab is required" } }],
    ["no YAML", `echo 'configVersion: {'`, { problem: { message: expect.stringContaining("neither YAML") } }],
  ])(
    "a hook that answers --config with a configuration, %s, is asked nothing else",
    async (_, text, answer) => {
      const file = await script(`echo "$*" >> "$0.calls"; ${text}`);
      expect(await problemOf(file)).toMatchObject(answer);
      expect(await calls(file)).toEqual(["--config"]);
    },
  );

  test("a hook that ignores its arguments stays one, whatever it prints", async () => {
    const same = await script(`echo '{"version":"v1","configVersion":"v1","onStartup":1}'`, "same");
    expect(await problemOf(same)).toMatchObject({
      problem: { key: "--config", message: "version is a forbidden property" },
    });
    const works = await script("echo did my work", "works");
    expect(await problemOf(works)).toMatchObject({ problem: { key: "--config" } });
  });

  test.each(["Found 1 items:", "Found 500 items:"])("%s: it is one", async (text) => {
    expect(await hooksOf(batchFile({ list: `echo '${text}'` }))).toHaveLength(1);
  });

  test.each(["Found 0 items:", "Found 10000 items", "some other text"])("%s: it is none", async (text) => {
    expect(await problemOf(batchFile({ list: `echo '${text}'` }))).toMatchObject({
      problem: {
        key: "--config",
        message: 'the hook failed: exit code 1 (as a batch file: hook list prints no "Found N items")',
      },
    });
  });

  test("a file that always fails for one reason names the reason once", async () => {
    expect(await problemOf(await script("echo broken >&2; exit 3", "broken"))).toMatchObject({
      problem: { key: "--config", message: "the hook failed: exit code 3: broken" },
    });
  });

  test("help in place of an answer to --config does not hide the list", async () => {
    const other = `printf 'Usage:\\n  batch [command]\\n\\nAvailable Commands:\\n  hook: run hooks\\n'`;
    expect(await hooksOf(batchFile({ other }))).toHaveLength(1);
  });
});

describe("its configuration", () => {
  const binding = {
    name: "maps",
    apiVersion: "v1",
    kind: "ConfigMap",
    namespace: { nameSelector: { matchNames: ["default"] } },
    labelSelector: null,
    executeHookOnEvent: false,
    jqFilter: ".metadata.name",
    queue: "/m/q",
    strange: { x: 1 },
  };
  const full = batchConfig(
    {
      schedule: [{ name: "tick", crontab: "*/5 * * * * *", queue: "/m/q" }],
      kubernetes: [
        binding,
        { name: "all", kind: "Pod", executeHookOnEvent: true, keepFullObjectsInMemory: true },
      ],
      beforeHelm: 5,
      afterDeleteHelm: 8,
      settings: { executionMinInterval: 3_000_000_000, executionBurst: 2 },
      allowFailure: true,
      logLevel: "debug",
      unheard: [],
    },
    { has_settings_check: true },
  );

  test("is read as version 1: group main, nanoseconds, booleans for events, unknown keys ignored", async () => {
    const [hook] = await hooksOf(batchFile({ config: full }));
    if (hook === undefined) throw new Error("no hook");
    const { config } = hook;
    expect(kubernetes(hook, "maps")).toMatchObject({
      group: "main",
      queue: "/m/q",
      events: [],
      keepFullObjects: false,
      executeOnSynchronization: true,
      jqFilter: ".metadata.name",
      namespaces: ["default"],
      labelSelector: undefined,
      includeSnapshotsFrom: ["maps", "all"],
    });
    expect(kubernetes(hook, "all")).toMatchObject({
      events: ["Added", "Modified", "Deleted"],
      keepFullObjects: true,
      queue: "main",
    });
    expect(schedule(hook, "tick")).toMatchObject({ group: "main", crontab: "*/5 * * * * *", queue: "/m/q" });
    expect(config.bindings.lifecycle.map(({ name, order }) => [name, order])).toEqual([
      ["beforeHelm", 5],
      ["afterDeleteHelm", 8],
    ]);
    expect(config.settings).toEqual({ minIntervalMs: 3000, burst: 2 });
  });

  test("may be a bare list, and may have lines of a log before it", async () => {
    const old = [
      { metadata: { name: "a" }, onStartup: 1 },
      { metadata: { name: "b" }, onStartup: 2 },
    ];
    expect((await hooksOf(batchFile({ config: old }))).map(({ name }) => name)).toEqual([
      "hooks/batch:a:0",
      "hooks/batch:b:1",
    ]);
    const logged = `echo '{"level":"info","msg":"hi"}'; echo '${JSON.stringify(ON_STARTUP)}'`;
    expect(await hooksOf(batchFile({ config: logged }))).toHaveLength(1);
  });

  test("of 500 hooks gives 500 hooks", async () => {
    const hooks = Array.from({ length: 500 }, (_, at) => ({ metadata: { name: `h${at}` }, onStartup: at }));
    const loaded = await hooksOf(batchFile({ config: { version: "v1", hooks } }));
    expect(new Set(loaded.map(({ id }) => id)).size).toBe(500);
    expect(loaded.at(-1)).toMatchObject({ id: "m:hooks/batch:h499:499", item: 499 });
  });

  test("of global hooks is joined with dashes, and has no probe", async () => {
    const readiness = { metadata: { name: "readiness" }, schedule: [{ crontab: "* * * * *" }] };
    const config = batchConfig({ onStartup: 1, beforeHelm: 2 }, { readiness });
    expect(await new HookLoader(options).load(batchFile({ config }))).toMatchObject({
      hooks: [{ id: "global:hooks/batch-main-0", module: undefined }],
      warnings: [
        "hooks[0].beforeHelm is ignored: it is not for global hooks",
        "readiness is ignored: it is for modules only",
      ],
    });
  });

  test("of a probe becomes a hook that blocks nothing", async () => {
    const readiness = {
      metadata: { name: "readiness" },
      schedule: [{ name: "r", crontab: "*/12 * * * * *" }],
    };
    const hooks = await hooksOf(batchFile({ config: batchConfig({ onStartup: 1 }, { readiness }) }));
    expect(hooks).toHaveLength(2);
    expect(hooks[1]).toMatchObject({
      name: "hooks/batch:readiness:ready",
      item: "ready",
      config: { bindings: { schedule: [{ queue: "readiness/m", allowFailure: true }], kubernetes: [] } },
    });
  });

  test.each<readonly [string, Partial<BatchFile>, object]>([
    ["no JSON", { config: "echo hello" }, { key: "hook config", message: "the output is malformed JSON" }],
    ["another version", { config: { version: "v2", hooks: [{}] } }, { message: 'version must be "v1"' }],
    [
      "a failure",
      { config: "echo no hooks >&2; exit 1" },
      { key: "hook config", message: "the hook failed: exit code 1: no hooks" },
    ],
    [
      "wrong bindings",
      { config: batchConfig({ schedule: [{ crontab: "x" }], kubernetes: [{ name: "k" }] }) },
      { message: "hooks[0].kubernetes[0].kind is required" },
    ],
    [
      "a wrong crontab",
      { config: batchConfig({ schedule: [{ crontab: "x" }] }) },
      { message: expect.stringMatching(/^hooks\[0\]\.schedule\[0\]\.crontab is invalid: /) },
    ],
    ["no object", { config: { version: "v1", hooks: [1] } }, { message: "hooks[0] must be an object" }],
    [
      "a probe without schedule",
      { config: batchConfig({ onStartup: 1 }, { readiness: {} }) },
      { message: "readiness.schedule is required" },
    ],
  ])("that is wrong is a problem that names file and place: %s", async (_, given, problem) => {
    const file = batchFile(given);
    expect(await problemOf(file)).toMatchObject({
      problem: { file: file.path, key: "hook config", ...problem },
    });
    expect((await lintHook(file, "m", options)).problems).toMatchObject([{ file: file.path, ...problem }]);
  });

  /** Has little time for lists of hooks that hang, and all the time for other answers. */
  class Impatient extends Children {
    override run(request: RunRequest): Promise<RunResult> {
      const isHanging = request.args.includes("list") && readFileSync(request.file, "utf8").includes("sleep");
      return super.run(isHanging ? { ...request, timeoutMs: 200 } : request);
    }
  }

  test("hook list that hangs and ignores SIGTERM is ended, named, and not asked again for ten minutes", async () => {
    const file = batchFile({ list: `trap "" TERM; sleep 60 & wait; sleep 60` });
    const clock = new ManualClock();
    const loader = new HookLoader({ ...options, children: new Impatient(), clock });
    const problem = { key: "hook list", message: "the hook failed: timed out after 200ms" };
    expect(await loader.load(file, "m")).toMatchObject({ problem });
    batchFile({});
    await clock.advance(9 * 60_000);
    expect(await loader.load(file, "m")).toMatchObject({ problem });
    expect(await loader.load({ ...file, signature: "2" }, "m")).toMatchObject({ hooks: [{}] });
  });

  test("hook list that hung is asked again after ten minutes", async () => {
    const file = batchFile({ list: "sleep 60" });
    const clock = new ManualClock();
    const loader = new HookLoader({ ...options, children: new Impatient(), clock });
    expect(await loader.load(file, "m")).toMatchObject({ problem: {} });
    batchFile({});
    await clock.advance(10 * 60_000);
    expect(await loader.load(file, "m")).toMatchObject({ hooks: [{}] });
  });
});

describe("a run", () => {
  const SEEN = `{ echo "$*|$MODULE_NAME|\${APPLICATION_NAME-unset}|\${APPLICATION_NAMESPACE-unset}"; cat "$BINDING_CONTEXT_PATH"; } > "$0.seen"`;
  const config = batchConfig({
    onStartup: 1,
    kubernetes: [{ name: "cms", kind: "ConfigMap", jqFilter: ".metadata.name" }],
  });

  async function run(given: Partial<BatchFile>, trigger: HookTrigger = lifecycle("onStartup")) {
    const [hook] = await hooksOf(batchFile({ config, ...given }), "my-mod");
    if (hook === undefined) throw new Error("no hook");
    return runHook({
      hook,
      triggers: [trigger],
      context: renderContext({
        config: hook.config,
        triggers: [trigger],
        snapshots: { byBindingName: () => [{ filterResult: "a" }], byBindingId: () => [] },
      }),
      values: "{}",
      configValues: "{}",
      queue: "main",
      settings: { ...options, tmpDir: root, debugKeepTmpFiles: false, logProxyHookJson: false },
      logger: silentLogger,
    });
  }

  test("has the number, the variables and a context of the group", async () => {
    const [hook] = await hooksOf(batchFile({ config, run: SEEN }), "my-mod");
    await run({ run: SEEN }, sync(kubernetes(hook as Hook, "cms")));
    const seen = await readFile(join(root, "batch.seen"), "utf8");
    expect(seen.split("\n")).toEqual([
      "hook run 0|my-mod||",
      '[{"binding":"cms","groupName":"main","snapshots":{"cms":[{"filterResult":"a"}]},"type":"Group"}]',
      "",
    ]);
  });

  test("leaves lists of patches, metrics without labels, and patches of objects", async () => {
    const leaves = `
      echo '[{"op":"add","path":"/myMod/x","value":1}]' > "$VALUES_JSON_PATCH_PATH"
      echo '{"name":"m","action":"set","value":1.5,"labels":null}' > "$METRICS_PATH"
      echo '{"name":"","group":"g","action":"expire","labels":null}' >> "$METRICS_PATH"
      echo '{"apiVersion":"v1","kind":"ConfigMap","name":"d","namespace":"default","operation":"MergePatch","subresource":"/status","mergePatch":{"a":1}}' > "$KUBERNETES_PATCH_PATH"`;
    expect((await run({ run: leaves })).output).toMatchObject({
      valuesPatchText: '[{"op":"add","path":"/myMod/x","value":1}]\n',
      metrics: [
        { name: "m", value: 1.5, labels: {} },
        { action: "expire", group: "g", name: undefined },
      ],
      objects: [{ operation: "MergePatch", target: { subresource: "status" } }],
    });
  });

  test.each([
    [
      `echo '{"message":"execute: hook reconcile func: boom"}' >&2; exit 1`,
      "exit code 1: execute: hook reconcile func: boom",
    ],
    ["exit 1", "exit code 1"],
    ["echo '{' >&2; exit 1", "exit code 1: {"],
  ])("that fails reports why: %s", async (text, failure) => {
    expect(await run({ run: text })).toMatchObject({ failure });
  });

  test("that panics ends with 0 and leaves nothing", async () => {
    expect((await run({ run: "exit 0" })).output).toMatchObject({
      valuesPatchText: "",
      metrics: [],
      objects: [],
    });
  });

  test("without a cluster takes the number", async () => {
    const file = batchFile({ config, run: SEEN });
    const request = {
      path: file.path,
      item: 0,
      module: "my-mod",
      context: '[{"binding":"onStartup"}]',
      values: "{}",
      configValues: "{}",
      settings: { ...options, tmpDir: root, debugKeepTmpFiles: false, logProxyHookJson: false },
      logger: silentLogger,
    };
    expect(await runHookFileOffline(request)).toMatchObject({ output: {} });
    expect(await readFile(join(root, "batch.seen"), "utf8")).toMatch(/^hook run 0\|my-mod\|/);
  });
});
