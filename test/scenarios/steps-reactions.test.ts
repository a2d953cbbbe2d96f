import { describe, expect, it } from "vitest";

import { RestoreError } from "../../src/helm/index.ts";
import { EngineLab } from "../support/engine-lab.ts";
import type { HookSpec } from "../support/engine-lab.ts";

const GLOBAL: HookSpec = {
  name: "g",
  lifecycle: { onStartup: 1, beforeAll: 1, afterAll: 1 },
  kubernetes: [{ name: "pods" }],
  schedules: [{ name: "tick" }],
};
const OWN: HookSpec = {
  name: "h",
  lifecycle: { onStartup: 1, beforeHelm: 1, afterHelm: 1 },
  kubernetes: [{ name: "nodes" }],
  schedules: [{ name: "tock" }],
};

/** Adds an act that changes a value when an event or a tick comes. */
function changing(spec: HookSpec, path: string): HookSpec {
  const act: HookSpec["act"] = (triggers, run) =>
    triggers[0]?.type === "event" || triggers[0]?.type === "schedule"
      ? { values: { op: "add", path, value: run } }
      : {};
  return { ...spec, act };
}

async function started(hooks: { global?: HookSpec; own?: HookSpec } = {}): Promise<EngineLab> {
  const lab = new EngineLab({
    globalHooks: [hooks.global ?? GLOBAL],
    modules: [{ name: "one", enabled: true, hooks: [hooks.own ?? OWN] }],
  });
  await lab.start();
  lab.log.length = 0;
  return lab;
}

const RUN = ["hook one/h: beforeHelm", "helm one", "release one v2", "hook one/h: afterHelm"];
const RELOAD = ["hook g: beforeAll", ...RUN, "hook g: afterAll", "converged"];

describe("9 to 12: a hook is run for an event", () => {
  it.each([
    ["9: kubernetes event, global hook", "g", "pods"],
    ["10: kubernetes event, module hook", "one/h", "nodes"],
    ["11: schedule, global hook", "g", "tick"],
    ["12: schedule, module hook", "one/h", "tock"],
  ])("%s: it runs alone, in main, where nothing changes", async (_name, hook, binding) => {
    const lab = await started();
    if (binding.startsWith("t")) lab.tick(hook);
    else lab.event(hook);
    await lab.run();
    expect(lab.log).toEqual([`hook ${hook}: ${binding}`]);
    expect(lab.quiet).toBe(true);
  });

  it.each([
    ["9 and 11", "g"],
    ["10 and 12", "one/h"],
  ])("%s: a named queue goes on while main is busy", async (_name, hook) => {
    const side = { kubernetes: [{ queue: "side" }], schedules: [{ queue: "side" }] };
    const lab = await started({ global: { ...GLOBAL, ...side }, own: { ...OWN, ...side } });
    lab.helmTakes = 1000;
    lab.edit({ one: "{ x: 1 }" });
    await lab.run();
    expect(lab.log.at(-1)).toBe("helm one");
    lab.event(hook);
    await lab.run();
    lab.tick(hook);
    await lab.run();
    expect(lab.log.slice(-2)).toEqual([`hook ${hook}: kubernetes`, `hook ${hook}: schedule`]);
    await lab.run(1000);
    expect(lab.quiet).toBe(true);
  });

  it("10: events of a hook that waits are handed over together, in order", async () => {
    const seen: string[][] = [];
    const lab = await started({
      own: {
        ...OWN,
        act: (triggers) => {
          const names = triggers.flatMap((each) => (each.type === "event" ? [each.event.name] : []));
          if (names.length > 0) seen.push(names);
          return seen.length === 1 ? { fail: "no" } : {};
        },
      },
    });
    for (const name of ["a", "b", "c"]) lab.event("one/h", name);
    await lab.run(5000);
    expect(seen).toEqual([
      ["a", "b", "c"],
      ["a", "b", "c"],
    ]);
  });

  it("12: allowFailure: a failing run is counted and the queue goes on", async () => {
    const lab = await started({
      own: {
        ...OWN,
        schedules: [{ allowFailure: true }],
        act: (triggers) => (triggers[0]?.type === "schedule" ? { fail: "no" } : {}),
      },
    });
    lab.reported.length = 0;
    lab.tick("one/h");
    await lab.run();
    expect(lab.log).toEqual(["hook one/h: schedule"]);
    expect(lab.reported).toEqual(["hook one/h: schedule Schedule in main: allowed, 0 s"]);
    expect(lab.quiet).toBe(true);
  });
});

describe("13 to 16: what the changes start", () => {
  it("13: global values changed: steps 3 to 8 in main, modules without onStartup and Synchronization", async () => {
    const lab = await started({ global: changing(GLOBAL, "/global/x") });
    lab.event("g");
    await lab.run();
    expect(lab.log).toEqual(["hook g: pods", ...RELOAD]);
    expect(lab.state.view.converge.cause).toEqual({ kind: "hook", by: "kubernetes" });
  });

  it("14: module values changed: step 5 of that module without onStartup and Synchronization", async () => {
    const lab = await started({ own: changing(OWN, "/one/x") });
    lab.tick("one/h");
    await lab.run();
    expect(lab.log).toEqual(["hook one/h: tock", ...RUN]);
    expect(lab.state.view.modules.get("one")?.lastRun?.cause).toEqual({ kind: "hook", by: "schedule" });
  });

  it("15: helm resources absent: step 5 of that module without onStartup and Synchronization", async () => {
    const lab = await started();
    lab.state.recordModule("one", "objectsFoundMissing", ["ns/Service/x"]);
    await lab.run();
    expect(lab.log).toEqual(RUN.filter((line) => !line.startsWith("release")));
    expect(lab.state.view.modules.get("one")?.lastRun?.cause).toEqual({
      kind: "missing",
      object: "ns/Service/x",
    });
    expect(lab.state.view.modules.get("one")?.missingObjects).toEqual([]);
  });

  it("15: what was put back is not put back again when the run is tried once more", async () => {
    const lab = await started();
    const requested: (readonly string[])[] = [];
    lab.restores = (absent) => {
      requested.push(absent);
      if (requested.length === 1) throw new RestoreError(["ns/Service/y: no"], ["ns/Service/y"]);
    };
    lab.state.recordModule("one", "objectsFoundMissing", ["ns/Service/x", "ns/Service/y"]);
    await lab.run();
    expect(lab.state.view.modules.get("one")?.retry?.message).toContain("cannot bring back ns/Service/y: no");
    await lab.run(5000);
    expect(requested).toEqual([["ns/Service/x", "ns/Service/y"], ["ns/Service/y"]]);
    expect(lab.state.view.modules.get("one")?.missingObjects).toEqual([]);
  });

  it("15: a suspended module is not healed", async () => {
    const lab = await started();
    lab.edit({ oneMaintenance: "NoResourceReconciliation" });
    await lab.run();
    lab.log.length = 0;
    lab.state.recordModule("one", "objectsFoundMissing", ["ns/Service/x"]);
    await lab.run();
    expect(lab.log).toEqual([]);
  });

  it("15: a suspended module's helm is left alone, its hooks go on", async () => {
    const lab = await started({ own: changing(OWN, "/one/x") });
    lab.edit({ oneMaintenance: "NoResourceReconciliation" });
    await lab.run();
    lab.log.length = 0;
    lab.event("one/h");
    await lab.run();
    const hooks = ["hook one/h: beforeHelm", "hook one/h: afterHelm"];
    expect(lab.log).toEqual(["hook one/h: nodes", ...hooks]);
    lab.edit({ one: "{ y: 1 }" });
    lab.moveRelease("one", "rollback");
    await lab.run();
    expect(lab.log.slice(3)).toEqual(hooks);
    lab.edit({ oneMaintenance: undefined });
    await lab.run();
    expect(lab.log).toContain("helm one");
  });

  it.each([
    ["global section", { global: "{ x: 1 }" }, RELOAD],
    ["flag", { oneEnabled: "true" }, RELOAD.filter((line) => !line.startsWith("release"))],
    ["module section", { one: "{ x: 1 }" }, RUN],
  ])("16: the ConfigMap's %s is changed", async (_what, edit, log) => {
    const lab = await started();
    lab.edit(edit);
    await lab.run();
    expect(lab.log).toEqual(log);
    expect(lab.quiet).toBe(true);
  });

  it("13: a converge asked for during a converge starts once, after it", async () => {
    const lab = await started({
      global: changing({ ...GLOBAL, kubernetes: [{ queue: "side" }] }, "/global/x"),
    });
    lab.helmTakes = 1000;
    lab.edit({ global: "{ z: 1 }" });
    await lab.run();
    expect(lab.log.at(-1)).toBe("helm one");
    for (let round = 0; round < 3; round++) {
      lab.event("g");
      await lab.run();
    }
    await lab.run(1000);
    await lab.run(1000);
    expect(lab.converges).toBe(2);
    expect(lab.quiet).toBe(true);
  });

  it("14: a module whose values change while it runs runs once more", async () => {
    const lab = await started({ own: changing({ ...OWN, kubernetes: [{ queue: "side" }] }, "/one/x") });
    lab.helmTakes = 1000;
    lab.edit({ one: "{ z: 1 }" });
    await lab.run();
    for (let round = 0; round < 3; round++) {
      lab.event("one/h");
      await lab.run();
    }
    await lab.run(1000);
    await lab.run(1000);
    expect(lab.log.filter((line) => line === "helm one").length).toBe(2);
    expect(lab.quiet).toBe(true);
  });
});
