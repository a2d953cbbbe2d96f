import { describe, expect, it } from "vitest";

import { EngineLab } from "../../support/engine-lab.ts";
import type { HookAct, HookSpec, ModuleSpec } from "../../support/engine-lab.ts";

/** A lab that has started. */
async function started(
  modules: readonly ModuleSpec[],
  world: { globalHooks?: readonly HookSpec[]; config?: Record<string, string> } = {},
  before: (lab: EngineLab) => void = () => {},
): Promise<EngineLab> {
  const lab = new EngineLab({ modules, ...world });
  before(lab);
  await lab.start();
  return lab;
}

const one = (change: Partial<ModuleSpec> = {}): ModuleSpec => ({ name: "one", enabled: true, ...change });
const hook = (name: string, change: Partial<HookSpec> = {}): HookSpec => ({ name, ...change });
const record = (lab: EngineLab, name = "one") => lab.state.view.modules.get(name);

/** Lines of the log with this message, fields in words. */
function logged(lab: EngineLab, message: string): unknown[] {
  return lab.logged.filter(([, text]) => text === message).map(([level, , fields]) => ({ level, ...fields }));
}

/** What the lab was told that begins so. */
const reported = (lab: EngineLab, start: string): string[] =>
  lab.reported.filter((line) => line.startsWith(start));

describe("what is reported of a module run", () => {
  it("that succeeds: how long it took, why, and what became of the release", async () => {
    const lab = await started([
      one({ hooks: [hook("h", { lifecycle: { beforeHelm: 1 }, act: () => ({ takes: 1500 }) })] }),
    ]);
    await lab.run(1500);
    expect(reported(lab, "run ")).toEqual(["run one: 1.5 s"]);
    expect(reported(lab, "released ")).toEqual(["released one: installed"]);
    expect(logged(lab, "Module run succeeded")).toEqual([
      { level: "info", module: "one", trigger: "start-up", ms: 1500 },
    ]);
    expect(record(lab)).toMatchObject({
      activity: "none",
      retry: undefined,
      lastRun: {
        cause: { kind: "start-up" },
        result: "Succeeded",
        step: "afterHelm",
        hook: undefined,
        attempts: 1,
      },
    });
    expect(record(lab)?.lastRun?.finishedAt).toBe(lab.clock.now());
    expect(record(lab)?.lastRun?.startedAt).toBe(lab.clock.now() - 1500);
  });

  it("while it runs: the step and the hook that runs", async () => {
    const seen: string[] = [];
    const see = (lab: () => EngineLab) => (): HookAct => {
      const view = record(lab());
      seen.push(`${view?.activity} ${view?.phase}: ${view?.lastRun?.step} ${view?.lastRun?.hook}`);
      return {};
    };
    const lab: EngineLab = new EngineLab({
      modules: [
        one({
          hooks: [
            hook("h", {
              lifecycle: { onStartup: 1, beforeHelm: 1, afterHelm: 1 },
              kubernetes: [{}],
              act: see(() => lab),
            }),
          ],
        }),
      ],
    });
    lab.helmFails = () => void see(() => lab)();
    await lab.start();
    expect(seen).toEqual([
      "running onStartup: onStartup h",
      "running synchronization: synchronization h",
      "running synchronization: beforeHelm h",
      "running synchronization: helm undefined",
      "running synchronization: afterHelm h",
    ]);
  });

  it("whose helm waits for a hook of the chart: which, until the step is over, and after a failure", async () => {
    const seen: unknown[] = [];
    const lab = await started(
      [one({ hooks: [hook("h", { lifecycle: { afterHelm: 1 }, act: () => (see(), {}) })] })],
      {},
      (fresh) => {
        fresh.helmWaits = { name: "Job/migrate (pre-install)", since: 1000 };
        fresh.helmTakes = 5000;
        fresh.helmFails = () => "timed out";
      },
    );
    const see = (): void => {
      const { hook: name, hookSince, step } = record(lab)?.lastRun ?? {};
      seen.push([step, name, hookSince]);
    };
    see();
    await lab.run(5000);
    see();
    lab.helmFails = undefined;
    await lab.run(5000);
    expect(record(lab)?.retry).toMatchObject({ message: "timed out" });
    await lab.run(10_000);
    expect(seen).toEqual([
      ["helm", "Job/migrate (pre-install)", 1000],
      ["helm", "Job/migrate (pre-install)", 1000],
      ["afterHelm", "h", undefined],
    ]);
  });

  it("that fails at a hook, and again", async () => {
    const lab = await started([
      one({ hooks: [hook("h", { lifecycle: { beforeHelm: 1 }, act: () => ({ fail: "exit code 1" }) })] }),
    ]);
    await lab.run(5000);
    const retry = { reason: "HookFailed", message: "hook h: exit code 1" };
    expect(record(lab)).toMatchObject({
      activity: "none",
      retry: { ...retry, failures: 2 },
      lastRun: { result: "Failed", message: "exit code 1", step: "beforeHelm", hook: "h", attempts: 2 },
    });
    expect(reported(lab, "run ")).toEqual(["run one failed: 0 s", "run one failed: 0 s"]);
    expect(reported(lab, "failed ")[0]).toBe("failed one: HookFailed: hook h: exit code 1");
    expect(logged(lab, "Module run failed")[0]).toEqual({
      level: "error",
      module: "one",
      step: "beforeHelm",
      error: "hook h: exit code 1",
    });
  });

  it("that takes its time until it fails", async () => {
    const act = (): HookAct => ({ fail: "no", takes: 1500 });
    const lab = await started([one({ hooks: [hook("h", { lifecycle: { beforeHelm: 1 }, act })] })]);
    await lab.run(1500);
    expect(reported(lab, "run ")).toEqual(["run one failed: 1.5 s"]);
  });

  it("that is ended from outside: interrupted, which is no failure", async () => {
    const lab = await started([one()]);
    lab.helmTakes = 60_000;
    lab.edit({ one: "{ x: 1 }" });
    await lab.run(1000);
    const stopped = lab.queues.stop(0);
    await lab.run();
    await stopped;
    expect(record(lab)).toMatchObject({
      activity: "none",
      retry: undefined,
      lastRun: { result: "Failed", message: "interrupted: the operator stops", finishedAt: lab.clock.now() },
    });
    expect(lab.failures).toEqual([]);
  });

  it("that fails at helm, and then succeeds", async () => {
    const lab = await started([one()], {}, (fresh) => {
      fresh.helmFails = () => "timed out\nwaiting";
    });
    expect(record(lab)?.retry).toMatchObject({
      reason: "HelmFailed",
      message: "timed out waiting",
      failures: 1,
    });
    lab.helmFails = undefined;
    await lab.run(5000);
    expect(record(lab)?.retry).toBeUndefined();
    expect(record(lab)?.lastRun).toMatchObject({ result: "Succeeded", attempts: 2 });
  });

  it("whose afterHelm hook changes values every time: five runs, then it waits", async () => {
    let count = 0;
    const lab = await started([
      one({
        hooks: [
          hook("h", {
            lifecycle: { afterHelm: 1 },
            act: () => ({ values: { op: "add", path: "/one/x", value: (count += 1) } }),
          }),
        ],
      }),
    ]);
    expect(lab.linesOf("helm").length).toBe(5);
    expect(record(lab)).toMatchObject({
      retry: { reason: "Unstable", message: "afterHelm hooks change values at every run" },
      rounds: 0,
    });
    await lab.run(5000);
    expect(lab.linesOf("helm").length).toBe(10);
  });

  it("whose afterHelm hook changes values every time: a failure between does not count, nor end the counting", async () => {
    let count = 0;
    const act = (): HookAct => ({ values: { op: "add", path: "/one/x", value: (count += 1) } });
    const lab = await started(
      [one({ hooks: [hook("h", { lifecycle: { afterHelm: 1 }, act })] })],
      {},
      (fresh) => {
        fresh.helmFails = () => (fresh.linesOf("helm").length === 3 ? "not now" : undefined);
      },
    );
    await lab.run(5000);
    expect(reported(lab, "failed ").map((line) => line.split(":")[1])).toEqual([" HelmFailed", " Unstable"]);
    expect(reported(lab, "released ")).toHaveLength(5);
  });

  it("whose afterHelm hooks take back what they changed: none follows", async () => {
    const change = (name: string, op: object): HookSpec =>
      hook(name, { lifecycle: { afterHelm: 1 }, act: () => ({ values: op }) });
    const lab = await started([
      one({
        hooks: [
          change("a", { op: "add", path: "/one/x", value: 1 }),
          change("b", { op: "remove", path: "/one/x" }),
        ],
      }),
    ]);
    expect([lab.linesOf("helm"), record(lab)?.rounds]).toEqual([["helm one"], 0]);
  });

  it("during which its section is edited: it succeeds, and the edit is why it runs again", async () => {
    const lab = await started([one()], {}, (fresh) => {
      fresh.helmTakes = 1000;
    });
    await lab.run(500);
    lab.edit({ one: "{ x: 1 }" });
    await lab.run(2000);
    expect(reported(lab, "run ")).toEqual(["run one: 1 s", "run one: 1 s"]);
    expect(record(lab)?.lastRun?.cause).toEqual({ kind: "section" });
  });

  it("that finds somebody else's release: it requires action and is not tried again", async () => {
    const lab = await started([one()], {}, (fresh) => {
      fresh.helmFails = () => "foreign";
    });
    expect(record(lab)?.problem).toMatchObject({
      file: "/modules/one",
      remedy: "rename the module or remove that release",
    });
    expect(record(lab)).toMatchObject({ activity: "none", retry: undefined });
    expect(reported(lab, "failed ")).toEqual([
      expect.stringMatching(/^failed one: ForeignRelease: .*somebody else/),
    ]);
    await lab.run(60_000);
    expect(lab.linesOf("helm").length).toBe(1);
  });

  it("with objects that are gone is a healing", async () => {
    const lab = await started([one()]);
    const activities: unknown[] = [];
    lab.helmFails = () => void activities.push(record(lab)?.activity);
    lab.state.recordModule("one", "objectsFoundMissing", ["n/Secret/x"]);
    await lab.run();
    lab.edit({ one: "{ x: 1 }" });
    await lab.run();
    expect(activities).toEqual(["healing", "running"]);
    expect(record(lab)).toMatchObject({ missingObjects: [], activity: "none" });
  });

  it("without a chart: helm is left out", async () => {
    const lab = await started([one({ chart: "none" })]);
    expect([lab.linesOf("helm"), reported(lab, "released ")]).toEqual([[], ["released one: nothing"]]);
  });

  it.each<readonly [string, Partial<HookSpec>, (lab: EngineLab) => void, string]>([
    ["a schedule", { schedules: [{}] }, (lab) => lab.tick("one/h"), "schedule"],
    ["an event", { kubernetes: [{}] }, (lab) => lab.event("one/h"), "kubernetes"],
  ])("says that %s is why", async (...[, binding, fire, by]) => {
    const act = (): HookAct => ({ values: { op: "add", path: "/one/x", value: 1 } });
    let on = false;
    const lab = await started([one({ hooks: [hook("h", { ...binding, act: () => (on ? act() : {}) })] })]);
    on = true;
    fire(lab);
    await lab.run();
    expect(record(lab)?.lastRun?.cause).toEqual({ kind: "hook", by });
  });

  it("says that its own afterHelm hooks are why, and does it before what waits", async () => {
    const lab = await started([
      one({
        order: 1,
        hooks: [
          hook("h", {
            lifecycle: { afterHelm: 1 },
            act: () => ({ values: { op: "add", path: "/one/x", value: 1 } }),
          }),
        ],
      }),
      { name: "two", order: 2, enabled: true },
    ]);
    expect(record(lab)?.lastRun?.cause).toEqual({ kind: "hook", by: "afterHelm" });
    expect(lab.linesOf("helm")).toEqual(["helm one", "helm one", "helm two"]);
  });
});

describe("what is reported of a delete", () => {
  const missing = { name: "one", enabled: true, hooks: [] as HookSpec[] };
  const owes = (act: HookSpec["act"]): ModuleSpec => ({
    ...missing,
    hooks: [hook("h", { lifecycle: { beforeDeleteHelm: 1, afterDeleteHelm: 1 }, ...(act && { act }) })],
  });

  it("that succeeds", async () => {
    const seen: string[] = [];
    const lab: EngineLab = new EngineLab({
      modules: [
        owes(() => {
          const view = record(lab);
          seen.push(`${view?.activity}: ${view?.lastRun?.step} ${view?.lastRun?.hook}`);
          return {};
        }),
      ],
    });
    await lab.start();
    lab.uninstallFails = () => {
      seen.push(`${record(lab)?.activity}: ${record(lab)?.lastRun?.step} ${record(lab)?.lastRun?.hook}`);
      return false;
    };
    lab.edit({ oneEnabled: "false" });
    await lab.run();
    expect(seen).toEqual([
      "deleting: beforeDeleteHelm h",
      "deleting: uninstall undefined",
      "deleting: afterDeleteHelm h",
    ]);
    expect(reported(lab, "removed ")).toEqual(["removed one"]);
    expect(logged(lab, "Module deleted")).toEqual([{ level: "info", module: "one" }]);
    expect(record(lab)).toMatchObject({
      activity: "none",
      phase: "new",
      release: undefined,
      lastRun: { cause: { kind: "disabled" }, result: "Succeeded", hook: undefined, attempts: 1 },
    });
    expect(record(lab)?.lastRun?.finishedAt).toBe(lab.clock.now());
  });

  it.each<readonly [string, HookSpec["act"], boolean, string, string]>([
    ["at a hook", () => ({ fail: "exit code 2" }), false, "HookFailed", "hook h: exit code 2"],
    ["at helm", undefined, true, "HelmFailed", "no uninstall"],
  ])("that fails %s, and then succeeds", async (...[, act, uninstallFails, reason, message]) => {
    let fails = true;
    const lab = await started([owes((...run) => (fails && act !== undefined ? act(...run) : {}))]);
    lab.uninstallFails = () => fails && uninstallFails;
    lab.edit({ oneEnabled: "false" });
    await lab.run();
    expect(record(lab)).toMatchObject({
      retry: { reason, message, failures: 1 },
      lastRun: { result: "Failed", message: message.replace("hook h: ", ""), attempts: 1 },
    });
    expect(reported(lab, "failed ")).toEqual([`failed one: ${reason}: ${message}`]);
    expect(reported(lab, "delete of ")).toEqual(["delete of one failed"]);
    expect(logged(lab, "Module delete failed")).toEqual([{ level: "error", module: "one", error: message }]);
    fails = false;
    await lab.run(5000);
    expect(record(lab)).toMatchObject({ retry: undefined, lastRun: { result: "Succeeded", attempts: 2 } });
  });

  it.each<readonly [string, ModuleSpec[], number]>([
    ["before its hooks", [missing], 1],
    ["after its hooks", [owes(() => ({}))], 2],
  ])("that cannot read the ConfigMap %s", async (...[, hooks, failsAt]) => {
    const lab = await started(hooks);
    let reads = 0;
    lab.onRefresh = () => {
      reads += 1;
      if (reads === failsAt) throw new Error("etcd is down");
    };
    lab.edit({ oneEnabled: "false" });
    await lab.run();
    expect(record(lab)?.retry).toMatchObject({ reason: "ApiFailed", message: "etcd is down" });
  });

  it("that waits for the ConfigMap", async () => {
    const lab = await started([missing], {}, (fresh) => fresh.addRelease("two"));
    lab.edit({ oneEnabled: "false" });
    lab.loseConfig();
    await lab.run();
    expect(lab.releases.has("one")).toBe(true);
    expect(lab.state.view.removalBlockers).toContainEqual({
      action: "delete",
      text: "not deleted: one: the ConfigMap is missing",
    });
    expect(record(lab)?.activity).toBe("none");
  });
});

describe("what is reported of a purge", () => {
  it("that succeeds, and one that fails first", async () => {
    let fails = true;
    const lab = await started([one()], {}, (fresh) => {
      fresh.addRelease("stranger");
      fresh.uninstallFails = () => fails;
    });
    await lab.run(3000);
    expect(logged(lab, "Purge failed")).toEqual([
      { level: "error", release: "stranger", error: "no uninstall" },
    ]);
    fails = false;
    await lab.run(5000);
    expect(logged(lab, "Release purged")).toEqual([{ level: "info", release: "stranger" }]);
    expect([...lab.releases.keys()]).toEqual(["one"]);
  });

  it.each(["strangerProtected", "strangerMaintenance"])("that %s holds", async (key) => {
    const value = key.endsWith("Protected") ? "true" : "NoResourceReconciliation";
    const lab = await started([one()], { config: { [key]: value } }, (fresh) => fresh.addRelease("stranger"));
    await lab.run(10_000);
    expect([...lab.releases.keys()]).toContain("stranger");
    expect(lab.state.view.removalBlockers).toEqual([
      { action: "purge", text: `not purged: stranger: ${key} is set in the ConfigMap` },
    ]);
  });

  it("that waits because nothing can be said of the directories", async () => {
    const lab = await started([], {}, (fresh) => fresh.addRelease("stranger"));
    await lab.run(10_000);
    expect(lab.state.view.removalBlockers).toEqual([
      { action: "purge", text: "not purged: stranger: no module" },
    ]);
  });
});

describe("what is reported of a discovery", () => {
  it("whose script fails: every five seconds anew, whatever the number of failures", async () => {
    let fails = true;
    const script = (): boolean => {
      if (fails) throw new Error("no such cluster");
      return true;
    };
    const lab = await started([one({ script }), { name: "two", enabled: true }]);
    for (let n = 0; n < 3; n++) await lab.run(5000);
    expect(reported(lab, "discovery ").length).toBe(4);
    expect(record(lab)?.retry).toMatchObject({
      reason: "ScriptFailed",
      message: "Error: no such cluster",
      failures: 4,
    });
    expect(logged(lab, "Modules discovery failed")[0]).toEqual({
      level: "error",
      error: "enabled script of one failed: Error: no such cluster",
    });
    fails = false;
    await lab.run(5000);
    expect(record(lab)?.retry).toBeUndefined();
    expect(lab.linesOf("helm")).toEqual(["helm one", "helm two"]);
  });

  it("that switches modules: by whom", async () => {
    const lab = await started([one(), { name: "two", enabled: true, script: () => lab2.on }]);
    lab.edit({ oneEnabled: "false" });
    await lab.run();
    lab2.on = false;
    lab.edit({ oneEnabled: "true" });
    await lab.run();
    expect(reported(lab, "switched ")).toEqual([
      "switched one off: configmap",
      "switched one on: configmap",
      "switched two off: script",
    ]);
    lab2.on = true;
  });

  it("that finds a protected module switched off: once", async () => {
    const lab = await started([one()], { config: { oneProtected: "true" } });
    lab.edit({ oneEnabled: "false" });
    await lab.run();
    lab.edit({ global: "{ x: 1 }" });
    await lab.run();
    expect(logged(lab, "Module is invalid")).toEqual([
      {
        level: "error",
        module: "one",
        file: "/modules/one",
        message: "the module is protected but disabled",
        remedy: "remove oneProtected from the ConfigMap, or enable the module",
      },
    ]);
    expect(reported(lab, "failed ")).toEqual([]);
  });

  it("that meets a release of somebody else's under a module that is off", async () => {
    const lab = await started([one({ enabled: false })], {}, (fresh) => {
      fresh.addRelease("one");
      fresh.foreign.add("one");
    });
    expect(reported(lab, "failed ")).toEqual([
      "failed one: ForeignRelease: a release of this name belongs to another owner and is left alone",
    ]);
    expect(lab.releases.has("one")).toBe(true);
  });

  it("that is followed by CRDs which cannot be applied: tried again before any module runs", async () => {
    const lab = await started([one({ crds: ["refused.yaml"] }), { name: "two", enabled: true }]);
    expect(logged(lab, "CRDs of modules could not be applied")).toEqual([
      { level: "error", error: "try later" },
    ]);
    expect(lab.linesOf("helm")).toEqual([]);
  });
});

/** Answer of an enabled script that a test changes. */
const lab2 = { on: true };

describe("what is reported of runs of hooks", () => {
  it.each<readonly [string, Partial<HookSpec>, readonly string[]]>([
    [
      "lifecycle",
      { lifecycle: { beforeHelm: 1 } },
      ["hook one/h: beforeHelm beforeHelm in main: success, 0 s"],
    ],
    [
      "kubernetes",
      { kubernetes: [{ name: "pods", queue: "side" }] },
      [
        "hook one/h: pods Kubernetes in side: success, 0 s",
        "hook one/h: pods Kubernetes in side: success, 0 s",
      ],
    ],
    ["schedule", { schedules: [{ name: "often" }] }, ["hook one/h: often Schedule in main: success, 0 s"]],
    [
      "a failure that is allowed",
      { schedules: [{ name: "often", allowFailure: true }], act: () => ({ fail: "no", takes: 2500 }) },
      ["hook one/h: often Schedule in main: allowed, 2.5 s"],
    ],
    [
      "a failure",
      { schedules: [{ name: "often" }], act: () => ({ fail: "no" }) },
      ["hook one/h: often Schedule in main: failed, 0 s"],
    ],
  ])("%s", async (_, spec, expected) => {
    const lab = await started([one({ hooks: [hook("h", spec)] })]);
    lab.event("one/h");
    lab.tick("one/h");
    await lab.run(2500);
    expect(reported(lab, "hook ")).toEqual(expected);
  });

  it("fail with the name of the module and the queue", async () => {
    const lab = await started([
      one({ hooks: [hook("h", { schedules: [{ queue: "side" }], act: () => ({ fail: "exit code 3" }) })] }),
    ]);
    lab.tick("one/h");
    await lab.run();
    expect(logged(lab, "Hook failed")).toEqual([
      { level: "error", hook: "h", module: "one", queue: "side", error: "exit code 3" },
    ]);
    expect(lab.describe()).toEqual(["side: hook one/h: schedule"]);
  });

  it("says once that a hook stores very many operations", async () => {
    let count = 0;
    const lab = await started([
      one({
        hooks: [
          hook("h", {
            schedules: [{}],
            // The second run passes the limit of a thousand.
            act: () => ({
              values: Array.from({ length: count < 1000 ? 600 : 1 }, () => ({
                op: "add",
                path: `/one/k${(count += 1)}`,
                value: 1,
              })),
            }),
          }),
        ],
      }),
    ]);
    for (let n = 0; n < 3; n++) {
      lab.tick("one/h");
      await lab.run();
    }
    const message = "Very many operations of values patches are stored; each run of a hook replays them";
    expect(logged(lab, message)).toEqual([{ level: "warn", hook: "h", module: "one", operations: 1200 }]);
  });
});

describe("what runs of hooks leave", () => {
  const schema = "type: object\nproperties: {n: {type: integer}}\n";
  const patch = (path: string, value: unknown) => ({ op: "add", path, value });
  const refuse = (): void => {
    throw new Error("no such action");
  };
  const ticking = (act: HookAct): HookSpec => hook("h", { schedules: [{}], act: () => act });

  it.each<readonly [string, HookAct, string]>([
    [
      "a config patch that the schema refuses",
      { config: patch("/one/n", "many"), values: patch("/one/n", 1) },
      "config values patch makes one invalid: /n: ",
    ],
    [
      "a values patch that the schema refuses",
      { config: patch("/one/n", 2), values: patch("/one/n", "many") },
      "values patch makes one invalid: /n: ",
    ],
    ["metrics that are refused", { metrics: refuse, values: patch("/one/n", 1) }, "no such action"],
  ])("%s: the run fails, and nothing of it takes effect", async (_, act, message) => {
    const lab = await started([one({ schema, hooks: [ticking(act)] })]);
    const { version } = lab;
    lab.tick("one/h");
    await lab.run();
    expect(logged(lab, "Hook failed")).toMatchObject([{ error: expect.stringContaining(message) }]);
    expect([lab.version, lab.state.values.mergedSection("one").values]).toEqual([version, {}]);
  });

  it("a values patch is judged together with those that are stored", async () => {
    const valuesSchema = "type: object\nmaxProperties: 2\nadditionalProperties: true\n";
    const act = (_: unknown, run: number): HookAct => ({ values: patch(`/one/v${run}`, 1) });
    const lab = await started([one({ valuesSchema, hooks: [hook("h", { schedules: [{}], act })] })]);
    for (let n = 0; n < 3; n++) {
      lab.tick("one/h");
      await lab.run();
    }
    expect(lab.state.values.mergedSection("one").values).toEqual({ v1: 1, v2: 1 });
    const error: unknown = expect.stringMatching(/^values patch makes one invalid/);
    expect(logged(lab, "Hook failed")).toMatchObject([{ error }]);
  });

  it("nothing: no reason for a run or a converge is noted", async () => {
    const lab = await started([one({ hooks: [ticking({ values: [] })] })], {
      globalHooks: [hook("g", { schedules: [{}] })],
    });
    for (const id of ["one/h", "g"]) lab.tick(id);
    await lab.run();
    expect([record(lab)?.cause, lab.state.view.globalCause, lab.converges]).toEqual([
      undefined,
      undefined,
      1,
    ]);
  });

  it("an old way of writing a path is warned of", async () => {
    const lab = await started([
      one({ hooks: [ticking({ values: patch("one.a", 1), config: patch("one.b", 1) })] }),
    ]);
    lab.tick("one/h");
    await lab.run();
    const warnings = lab.logged.filter(([level]) => level === "warn");
    const fields = { hook: "h", module: "one" };
    expect(warnings.map((line) => line[2])).toEqual([fields, fields]);
    expect(lab.state.values.mergedSection("one").values).toEqual({ a: 1, b: 1 });
  });
});

describe("what is reported of a converge", () => {
  it("when it begins and ends, and how long it took", async () => {
    const lab = await started([one()], {}, (fresh) => {
      fresh.helmTakes = 4000;
    });
    await lab.run(4000);
    expect(logged(lab, "Converge started")).toEqual([{ level: "info", cause: "start-up" }]);
    expect(logged(lab, "Converge ended")).toEqual([{ level: "info", cause: "start-up", ms: 4000 }]);
    expect(reported(lab, "converged")).toEqual(["converged: 4 s"]);
  });

  it("how many modules are still to run", async () => {
    const left: number[] = [];
    const lab: EngineLab = new EngineLab({
      modules: ["one", "two", "three"].map((name) => ({ name, enabled: true })),
    });
    lab.helmFails = () => void left.push(lab.state.view.converge.remaining.length);
    await lab.start();
    expect([left, lab.state.view.converge.remaining.length]).toEqual([[3, 2, 1], 0]);
  });

  it("how many are still to run: not those that fail, nor those that an edit asks for meanwhile", async () => {
    const left: [string, number][] = [];
    let fails = true;
    const lab: EngineLab = new EngineLab({
      modules: ["one", "two", "three"].map((name, order) => ({ name, order, enabled: true })),
    });
    lab.helmFails = (name) => {
      left.push([name, lab.state.view.converge.remaining.length]);
      if (name !== "two" || !fails) return undefined;
      fails = false;
      lab.edit({ one: "{ x: 1 }" });
      return "not now";
    };
    await lab.start();
    await lab.run(5000);
    expect(left).toEqual([
      ["one", 3],
      ["two", 2],
      ["one", 2],
      ["two", 2],
      ["three", 1],
    ]);
  });

  it("when afterAll hooks ask for one after the other: five, then it waits", async () => {
    let count = 0;
    const lab = await started([one()], {
      globalHooks: [
        hook("g", {
          lifecycle: { afterAll: 1 },
          act: () => ({ values: { op: "add", path: "/global/x", value: (count += 1) } }),
        }),
      ],
    });
    expect(lab.converges).toBe(5);
    expect(lab.queues.views()[0]?.tasks[0]?.message).toBe(
      "Unstable: afterAll hooks change global values at every converge",
    );
  });

  it("when global hooks cannot be synchronized at start", async () => {
    const lab = await started([one()], {
      globalHooks: [
        hook("g", { kubernetes: [{}], act: (_, run) => (run < 2 ? { fail: "exit code 1" } : {}) }),
      ],
    });
    expect(logged(lab, "Synchronization of global hooks failed")).toEqual([
      { level: "error", error: "hook g: exit code 1" },
    ]);
    expect(lab.state.view.boot).toBe("synchronization");
    await lab.run(5000);
    expect(lab.state.view.boot).toBe("running");
  });

  it("when the directories cannot be read: that, as a discovery that failed", async () => {
    const lab = await started([one()]);
    lab.onRead = () => {
      throw new Error("EIO: i/o error");
    };
    lab.edit({ global: "{ x: 1 }" });
    await lab.run();
    expect(logged(lab, "Reading modules and hooks failed")).toEqual([
      { level: "error", error: "EIO: i/o error" },
    ]);
    expect(reported(lab, "discovery ")).toEqual(["discovery failed"]);
    lab.onRead = undefined;
    await lab.run(5000);
    expect(lab.converges).toBe(2);
  });

  it("when global hooks cannot be synchronized in a converge: that, and no failed discovery", async () => {
    const watching = (change: Partial<HookSpec>): HookSpec => hook("g", { kubernetes: [{}], ...change });
    const lab = await started([one()], { globalHooks: [watching({})] });
    const act = (_: unknown, run: number): HookAct => (run < 3 ? { fail: "exit code 1" } : {});
    lab.setGlobalHooks([watching({ signature: "2", act })]);
    lab.edit({ global: "{ x: 1 }" });
    await lab.run();
    expect(logged(lab, "Synchronization of global hooks failed")).toEqual([
      { level: "error", error: "hook g: exit code 1" },
    ]);
    expect([logged(lab, "Modules discovery failed"), reported(lab, "discovery ")]).toEqual([[], []]);
    await lab.run(5000);
    expect(lab.converges).toBe(2);
  });
});

describe("what helm may do ahead of a module's turn", () => {
  it("is all but what the module's own hooks may still change", async () => {
    const before = { lifecycle: { beforeHelm: 1 } };
    const after = { lifecycle: { onStartup: 1, afterHelm: 1 } };
    const lab = await started([
      { name: "a", order: 1, enabled: true },
      { name: "b", order: 2, enabled: true },
      { name: "c", order: 3, enabled: true, hooks: [hook("h", before)] },
      { name: "d", order: 4, enabled: true, chart: "none" },
      { name: "e", order: 5, enabled: true, chart: "synthetic" },
      { name: "f", order: 6, enabled: true, hooks: [hook("h", after)] },
    ]);
    expect(lab.announced).toEqual([["a", "b", "c?", "e", "f?"]]);
    lab.edit({ global: "{ x: 1 }", eMaintenance: "NoResourceReconciliation" });
    await lab.run();
    expect(lab.announced.at(-1)).toEqual(["a", "b", "c?", "f"]);
  });
});
