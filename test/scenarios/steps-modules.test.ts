import { describe, expect, it } from "vitest";

import { EngineLab } from "../support/engine-lab.ts";
import type { HookSpec } from "../support/engine-lab.ts";

describe("4: discovery", () => {
  it("4: three lists: modules to enable, to delete and to purge", async () => {
    const lab = new EngineLab({
      modules: [
        { name: "on", enabled: true },
        { name: "off" },
        { name: "never" },
        { name: "scripted", enabled: true, script: () => false },
      ],
    });
    for (const name of ["off", "scripted", "stranger"]) lab.addRelease(name);
    await lab.start();
    await lab.run(3000);
    expect(lab.log).toEqual([
      "uninstall scripted",
      "uninstall off",
      "helm on",
      "release on v1",
      "converged",
      "uninstall stranger",
      "helm on",
      "converged",
    ]);
    expect([...lab.releases.keys()]).toEqual(["on"]);
  });

  it.each([
    ["none", {}, false],
    ["module-values", { file: true }, true],
    ["hook", { file: true, hook: false }, false],
    ["hook", { hook: true }, true],
    ["configmap", { file: false, hook: false, text: "true" }, true],
    ["configmap", { file: true, hook: true, text: "false" }, false],
  ] as const)("4: the flag of %s has the last word: %j", async (by, said, enabled) => {
    const { file, hook, text } = { file: undefined, hook: undefined, text: undefined, ...said };
    const lab = new EngineLab({
      globalHooks: [
        {
          name: "g",
          lifecycle: { beforeAll: 1 },
          act: () => (hook === undefined ? {} : { values: { op: "add", path: "/oneEnabled", value: hook } }),
        },
      ],
      modules: [{ name: "one", ...(file === undefined ? {} : { enabled: file }) }],
      config: text === undefined ? {} : { oneEnabled: text },
    });
    await lab.start();
    expect(lab.state.view.modules.get("one")).toMatchObject({ enabled, enabledBy: by });
    expect(lab.releases.has("one")).toBe(enabled);
  });

  it("4: a module with broken files is neither run nor deleted, and the others go on", async () => {
    const lab = new EngineLab({
      modules: [
        { name: "bad", enabled: true, problem: "no YAML" },
        { name: "good", enabled: true },
      ],
    });
    lab.addRelease("bad");
    await lab.start();
    lab.edit({ badEnabled: "false" });
    await lab.run();
    expect(lab.linesOf("helm")).toEqual(["helm good", "helm good"]);
    expect([...lab.releases.keys()]).toEqual(["bad", "good"]);
    expect(lab.state.view.enabledModules).toEqual(["bad", "good"]);
  });
});

const ALL_BINDINGS: HookSpec = {
  name: "h",
  lifecycle: { onStartup: 1, beforeHelm: 1, afterHelm: 1, afterDeleteHelm: 1 },
  kubernetes: [{ name: "pods" }],
  schedules: [{}],
};

describe("5: module run", () => {
  it("5: every binding sees files, ConfigMap, earlier patches and the enabled modules; helm all but the last", async () => {
    let count = 0;
    const lab = new EngineLab({
      globalValues: { fromFile: 1 },
      modules: [
        {
          name: "one",
          enabled: true,
          section: { fromFile: 1, both: "file" },
          hooks: [
            {
              ...ALL_BINDINGS,
              act: () =>
                count < 3 ? { values: { op: "add", path: "/one/count", value: (count += 1) } } : {},
            },
          ],
        },
        { name: "two", order: 2, enabled: true },
      ],
      config: { global: "{ fromConfig: 2 }", one: "{ fromConfig: 2, both: config }" },
    });
    await lab.start();
    const section = { fromFile: 1, fromConfig: 2, both: "config" };
    const global = { fromFile: 1, fromConfig: 2 };
    const enabledModules = ["one", "two"];
    const inputs = lab.inputs("one/h");
    expect(inputs.map(({ binding }) => binding)).toEqual(["onStartup", "pods", "beforeHelm", "afterHelm"]);
    expect(inputs.map(({ values }) => values)).toEqual([
      { global: { ...global, enabledModules }, one: section },
      { global: { ...global, enabledModules }, one: { ...section, count: 1 } },
      { global: { ...global, enabledModules }, one: { ...section, count: 2 } },
      { global: { ...global, enabledModules }, one: { ...section, count: 3 } },
    ]);
    for (const { config } of inputs) {
      expect(config).toEqual({ global: { fromConfig: 2 }, one: { fromConfig: 2, both: "config" } });
    }
    expect(JSON.parse(lab.releases.get("one")?.values ?? "")).toEqual({
      global,
      one: { ...section, count: 3 },
    });
  });

  it("charts get the list of enabled modules where the settings say so, and again when it changes", async () => {
    const globalValues = { zone: "eu", enabledModules: ["old"] };
    const lab = new EngineLab({
      globalValues,
      modules: [
        { name: "one", enabled: true, section: { x: 1 } },
        { name: "public", order: 2, chart: "root", enabled: true, section: { x: 1 } },
        { name: "two", order: 3, enabled: true },
      ],
      chartEnabledModules: true,
    });
    const valuesOf = (name: string): unknown => JSON.parse(lab.releases.get(name)?.values ?? "");
    await lab.start();
    const [one, two] = [{ x: 1 }, {}];
    const all = { zone: "eu", enabledModules: ["one", "public", "two"] };
    expect(valuesOf("one")).toEqual({ global: all, one });
    expect(valuesOf("two")).toEqual({ global: all, two });
    // A public chart knows no such list.
    const root = { x: 1, global: globalValues };
    expect(valuesOf("public")).toEqual(root);
    lab.edit({ twoEnabled: "false" });
    await lab.run();
    expect(valuesOf("one")).toEqual({ global: { zone: "eu", enabledModules: ["one", "public"] }, one });
    expect(valuesOf("public")).toEqual(root);
  });

  it("5: onStartup and Synchronization run when the module becomes enabled, and in no other reload", async () => {
    const lab = new EngineLab({ modules: [{ name: "one", enabled: true, hooks: [ALL_BINDINGS] }] });
    await lab.start();
    const first = ["hook one/h: onStartup", "hook one/h: sync pods", "hook one/h: beforeHelm"];
    expect(lab.linesOf("hook").slice(0, 3)).toEqual(first);
    lab.log.length = 0;
    lab.edit({ global: "{ x: 1 }" });
    await lab.run();
    expect(lab.linesOf("hook")).toEqual(["hook one/h: beforeHelm", "hook one/h: afterHelm"]);
    lab.edit({ oneEnabled: "false" });
    await lab.run();
    lab.log.length = 0;
    lab.edit({ oneEnabled: "true" });
    await lab.run();
    expect(lab.linesOf("hook").slice(0, 3)).toEqual(first);
  });

  it("5: events that come before the Synchronization wait for it, ticks before the first run are dropped", async () => {
    const lab = new EngineLab({
      modules: [
        {
          name: "one",
          enabled: true,
          hooks: [
            {
              ...ALL_BINDINGS,
              act: (triggers) => (triggers[0]?.type === "synchronization" ? { takes: 1000 } : {}),
            },
          ],
        },
      ],
    });
    await lab.start();
    expect(lab.log.at(-1)).toBe("hook one/h: sync pods");
    lab.tick("one/h");
    lab.event("one/h");
    await lab.run();
    expect(lab.log.at(-1)).toBe("hook one/h: sync pods");
    await lab.run(1000);
    expect(lab.linesOf("hook")).toEqual([
      "hook one/h: onStartup",
      "hook one/h: sync pods",
      "hook one/h: beforeHelm",
      "hook one/h: afterHelm",
      "hook one/h: pods",
    ]);
  });

  it("5: a module without a chart runs its hooks and never helm", async () => {
    const lab = new EngineLab({
      modules: [{ name: "one", enabled: true, chart: "none", hooks: [ALL_BINDINGS] }],
    });
    await lab.start();
    lab.edit({ one: "{ x: 1 }" });
    await lab.run();
    expect(lab.linesOf("helm")).toEqual([]);
    expect(lab.linesOf("hook").slice(-2)).toEqual(["hook one/h: beforeHelm", "hook one/h: afterHelm"]);
    expect(lab.quiet).toBe(true);
    lab.edit({ oneEnabled: "false" });
    await lab.run();
    expect(lab.log).toContain("hook one/h: afterDeleteHelm");
    expect(lab.linesOf("uninstall")).toEqual([]);
  });

  it("5: CRDs of all modules are applied before the first of them runs; a broken file stops its module only", async () => {
    const lab = new EngineLab({
      modules: [
        { name: "one", order: 1, enabled: true },
        { name: "two", order: 2, enabled: true, crds: ["a.yaml", "b.yaml"] },
        { name: "bad", order: 3, enabled: true, crds: ["broken.yaml"] },
        { name: "off", order: 4, crds: ["c.yaml"] },
      ],
    });
    await lab.start();
    expect(lab.log).toEqual([
      "crds a.yaml b.yaml",
      "helm one",
      "release one v1",
      "helm two",
      "release two v1",
      "converged",
    ]);
    expect(lab.state.view.modules.get("bad")?.problem).toMatchObject({ file: "broken.yaml" });
    expect(lab.failures).toEqual(["bad: CrdRefused"]);
    expect(lab.quiet).toBe(true);
  });

  it("5: how far the work on objects of CRDs is, is known while it lasts", async () => {
    const lab = new EngineLab({
      modules: [{ name: "one", order: 1, enabled: true, crds: ["rewritten.yaml"] }],
    });
    await lab.start();
    expect(lab.log.slice(0, 2)).toEqual(["one: Rewrites 4 of 9 objects", "crds rewritten.yaml"]);
    expect(lab.state.view.modules.get("one")?.crdWork).toBeUndefined();
  });

  it("5: confirmations end with the converge and the run that find no open question", async () => {
    const lab = new EngineLab({ modules: [{ name: "one", order: 1, enabled: true, crds: ["a.yaml"] }] });
    await lab.start();
    const given = { "addon-operator.io/confirm-crds": "c", "addon-operator.io/confirm-takeover": "t" };
    lab.state.recordModule("one", "annotationsObserved", given);
    lab.state.record("convergeRequested", "now");
    lab.state.recordModule("one", "runRequested", "now");
    await lab.run(3000);
    expect(lab.state.module("one")).toMatchObject({
      confirmedCrds: undefined,
      confirmedTakeover: undefined,
      endedConfirmations: given,
    });
  });

  it("5: a refused change of CRDs keeps its confirmation", async () => {
    const lab = new EngineLab({ modules: [{ name: "bad", order: 1, enabled: true, crds: ["broken.yaml"] }] });
    await lab.start();
    lab.state.recordModule("bad", "annotationsObserved", { "addon-operator.io/confirm-crds": "c" });
    lab.state.record("convergeRequested", "now");
    await lab.run(3000);
    expect(lab.state.module("bad")).toMatchObject({ confirmedCrds: "c", endedConfirmations: {} });
  });

  it("5: a converge announces to helm what it runs, and what no hook will change any more", async () => {
    const lab = new EngineLab({
      modules: [
        { name: "one", order: 1, enabled: true },
        { name: "hooked", order: 2, enabled: true, hooks: [{ name: "h", lifecycle: { beforeHelm: 1 } }] },
        { name: "bare", order: 3, enabled: true, chart: "none" },
        { name: "resting", order: 4, enabled: true },
        { name: "two", order: 5, enabled: true },
        { name: "late", order: 6 },
      ],
      config: { restingMaintenance: "NoResourceReconciliation" },
    });
    await lab.start();
    lab.edit({ global: "{ x: 1 }", lateEnabled: "true" });
    await lab.run();
    expect(lab.announced).toEqual([
      ["one", "hooked?", "two"],
      ["one", "hooked?", "two", "late"],
    ]);
  });
});
