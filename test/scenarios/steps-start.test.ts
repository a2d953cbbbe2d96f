import { describe, expect, it } from "vitest";

import { EngineLab } from "../support/engine-lab.ts";
import type { HookSpec } from "../support/engine-lab.ts";

/** Leaves a values patch and a config patch when the hook runs for this binding. */
function patching(binding: string): NonNullable<HookSpec["act"]> {
  return (triggers) => {
    const bound = triggers[0]?.type === "synchronization" ? "Synchronization" : triggers[0]?.binding.name;
    if (bound !== binding) return {};
    return {
      values: { op: "add", path: "/global/found", value: binding },
      config: { op: "add", path: "/global/saved", value: binding },
    };
  };
}

const FILES = { fromFile: 1, both: "file" };
const CONFIG = { global: "{ fromConfig: 2, both: config }" };

describe("1 to 3: global hooks before the modules", () => {
  it("1: global onStartup hooks run first, by ORDER and then by name", async () => {
    const lab = new EngineLab({
      globalHooks: [
        { name: "late", lifecycle: { onStartup: 10 } },
        { name: "b", lifecycle: { onStartup: 5 } },
        { name: "a", lifecycle: { onStartup: 5 }, kubernetes: [{ name: "pods" }] },
        { name: "half", lifecycle: { onStartup: 5.5 } },
      ],
    });
    await lab.start();
    expect(lab.linesOf("hook ")).toEqual([
      "hook a: onStartup",
      "hook b: onStartup",
      "hook half: onStartup",
      "hook late: onStartup",
      "hook a: sync pods",
    ]);
  });

  it.each<readonly [string, HookSpec]>([
    ["1: onStartup", { name: "first", lifecycle: { onStartup: 1 }, act: patching("onStartup") }],
    ["2: Synchronization", { name: "first", kubernetes: [{}], act: patching("Synchronization") }],
    ["3: beforeAll", { name: "first", lifecycle: { beforeAll: 1 }, act: patching("beforeAll") }],
  ])(
    "%s: the hook sees files, ConfigMap and earlier patches; what it leaves counts at once and starts nothing",
    async (_name, first) => {
      const { act: _act, ...same } = first;
      const lab = new EngineLab({
        globalHooks: [first, { ...same, name: "second" }],
        modules: [{ name: "one", enabled: true }],
        globalValues: FILES,
        config: CONFIG,
      });
      await lab.start();
      const merged = { fromFile: 1, fromConfig: 2, both: "config" };
      const saved = { fromConfig: 2, both: "config" };
      const by =
        lab.inputs("second")[0]?.binding === "kubernetes"
          ? "Synchronization"
          : lab.inputs("second")[0]?.binding;
      expect(lab.inputs("first")).toMatchObject([{ values: { global: merged }, config: { global: saved } }]);
      expect(lab.inputs("second").map(({ values, config }) => ({ values, config }))).toEqual([
        {
          values: { global: { ...merged, found: by, saved: by } },
          config: { global: { ...saved, saved: by } },
        },
      ]);
      expect(JSON.parse(lab.data["global"] ?? "")).toEqual({ ...saved, saved: by });
      expect(lab.linesOf("helm")).toEqual(["helm one"]);
      expect(lab.converges).toBe(1);
      expect(lab.quiet).toBe(true);
    },
  );

  it("1: a failing onStartup hook holds everything back and is tried again", async () => {
    const lab = new EngineLab({
      globalHooks: [
        { name: "a", lifecycle: { onStartup: 1 }, act: (_, run) => (run < 3 ? { fail: "no" } : {}) },
        { name: "b", lifecycle: { onStartup: 2 } },
      ],
      modules: [{ name: "one", enabled: true }],
    });
    await lab.start();
    expect(lab.log).toEqual(["hook a: onStartup"]);
    await lab.run(5000);
    await lab.run(6000);
    expect(lab.log).toEqual([
      ...Array.from({ length: 3 }, () => "hook a: onStartup"),
      "hook b: onStartup",
      "helm one",
      "release one v1",
      "converged",
    ]);
  });

  it("2: global kubernetes hooks are synchronized by name, in one run each", async () => {
    const lab = new EngineLab({
      globalHooks: [
        { name: "b", kubernetes: [{ name: "nodes" }] },
        { name: "a", kubernetes: [{ name: "pods" }, { name: "maps" }] },
        { name: "quiet", kubernetes: [{ executeOnSynchronization: false }] },
      ],
    });
    await lab.start();
    expect(lab.linesOf("hook ")).toEqual(["hook a: sync pods sync maps", "hook b: sync nodes"]);
    expect(lab.unlocked).toEqual(["a/k0", "a/k1", "b/k0", "quiet/k0"]);
  });

  it.each([
    ["waits for", true, ["hook g: sync pods"]],
    ["does not wait for", false, ["hook g: beforeAll", "hook g: sync pods"]],
  ])(
    "2: main %s the Synchronization of a named queue (waitForSynchronization: %s)",
    async (_verb, wait, before) => {
      const lab = new EngineLab({
        globalHooks: [
          {
            name: "g",
            lifecycle: { beforeAll: 1 },
            kubernetes: [{ name: "pods", queue: "side", waitForSynchronization: wait }],
            act: (triggers) => (triggers[0]?.type === "synchronization" ? { takes: 1000 } : {}),
          },
        ],
      });
      await lab.start();
      expect(lab.linesOf("hook ").toSorted()).toEqual(before);
      await lab.run(1000);
      expect(lab.linesOf("hook ").toSorted()).toEqual(["hook g: beforeAll", "hook g: sync pods"]);
      expect(lab.converges).toBe(1);
    },
  );

  it("3: beforeAll hooks run by ORDER at each converge; what they change is in force for the modules of that reload", async () => {
    const lab = new EngineLab({
      globalHooks: [
        {
          name: "g",
          lifecycle: { beforeAll: 2 },
          act: (_, run) => ({ values: { op: "add", path: "/global/round", value: run } }),
        },
        { name: "z", lifecycle: { beforeAll: 1 } },
      ],
      modules: [{ name: "one", enabled: true, hooks: [{ name: "h", lifecycle: { beforeHelm: 1 } }] }],
    });
    await lab.start();
    lab.edit({ global: "x: 1" });
    await lab.run();
    expect(lab.linesOf("hook ")).toEqual([
      "hook z: beforeAll",
      "hook g: beforeAll",
      "hook one/h: beforeHelm",
      "hook z: beforeAll",
      "hook g: beforeAll",
      "hook one/h: beforeHelm",
    ]);
    const rounds = lab.inputs("one/h").map(({ values }) => values["global"]);
    expect(rounds).toEqual([
      { round: 1, enabledModules: ["one"] },
      { x: 1, round: 2, enabledModules: ["one"] },
    ]);
    expect(lab.converges).toBe(2);
  });

  it("global hooks get the enabled modules once they are known", async () => {
    const lab = new EngineLab({
      globalHooks: [{ name: "g", lifecycle: { onStartup: 1, beforeAll: 1, afterAll: 1 } }],
      modules: [{ name: "off" }, { name: "one", enabled: true }],
    });
    await lab.start();
    lab.edit({ offEnabled: "true" });
    await lab.run();
    expect(lab.inputs("g").map(({ binding, values }) => [binding, values["global"]])).toEqual([
      ["onStartup", {}],
      ["beforeAll", {}],
      ["afterAll", { enabledModules: ["one"] }],
      ["beforeAll", { enabledModules: ["one"] }],
      ["afterAll", { enabledModules: ["off", "one"] }],
    ]);
  });
});
