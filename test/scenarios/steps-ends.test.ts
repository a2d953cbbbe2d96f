import { describe, expect, it } from "vitest";

import { EngineLab } from "../support/engine-lab.ts";
import type { HookSpec } from "../support/engine-lab.ts";

const ALL_BINDINGS: HookSpec = {
  name: "h",
  lifecycle: { onStartup: 1, beforeHelm: 1, afterHelm: 1, afterDeleteHelm: 1 },
  kubernetes: [{ name: "pods" }],
  schedules: [{}],
};

describe("6 to 8: deletes, purges and the end of a converge", () => {
  it("6: schedules and queued runs of a module go at once, its watches after its afterDeleteHelm hooks", async () => {
    const watched: boolean[] = [];
    const lab: EngineLab = new EngineLab({
      modules: [
        {
          name: "one",
          enabled: true,
          hooks: [
            {
              ...ALL_BINDINGS,
              kubernetes: [{ queue: "side" }],
              act: (triggers) => {
                const trigger = triggers[0];
                if (trigger?.binding.name === "afterDeleteHelm") watched.push(lab.watches("one/h"));
                return trigger?.type === "event" ? { fail: "no" } : {};
              },
            },
          ],
        },
      ],
    });
    await lab.start();
    lab.event("one/h");
    await lab.run();
    expect(lab.describe()).toEqual(["side: hook one/h: kubernetes"]);
    lab.uninstallFails = () => true;
    lab.edit({ oneEnabled: "false" });
    await lab.run();
    expect(lab.describe().filter((line) => line.startsWith("side"))).toEqual([]);
    expect(lab.schedules.has("one/h")).toBe(false);
    expect(lab.watches("one/h")).toBe(true);
    lab.uninstallFails = undefined;
    await lab.run(5000);
    expect(watched).toEqual([true]);
    expect(lab.watches("one/h")).toBe(false);
    expect(lab.quiet).toBe(true);
  });

  it("6: afterDeleteHelm hooks see the merged values; what they change starts nothing", async () => {
    const lab = new EngineLab({
      modules: [
        {
          name: "one",
          enabled: true,
          section: { x: 1 },
          hooks: [
            {
              name: "h",
              lifecycle: { afterDeleteHelm: 1 },
              act: () => ({
                values: { op: "add", path: "/one/y", value: 1 },
                config: { op: "add", path: "/one/z", value: 1 },
              }),
            },
          ],
        },
        { name: "two", enabled: true },
      ],
    });
    await lab.start();
    lab.edit({ oneEnabled: "false" });
    await lab.run();
    expect(lab.inputs("one/h")).toMatchObject([
      { binding: "afterDeleteHelm", values: { global: { enabledModules: ["two"] }, one: { x: 1 } } },
    ]);
    expect(lab.data["one"]).toBe('{"z":1}');
    expect(lab.converges).toBe(2);
    expect(lab.quiet).toBe(true);
  });

  it("6: a protected module is not deleted and requires action; a suspended one stays", async () => {
    const lab = new EngineLab({
      modules: [
        { name: "one", enabled: true },
        { name: "two", enabled: true },
      ],
      config: { oneProtected: "true", twoMaintenance: "NoResourceReconciliation" },
    });
    lab.addRelease("one");
    lab.addRelease("two");
    await lab.start();
    lab.edit({ oneEnabled: "false", twoEnabled: "false" });
    await lab.run();
    expect(lab.linesOf("uninstall")).toEqual([]);
    expect(lab.state.view.modules.get("one")?.problem?.message).toBe("the module is protected but disabled");
  });

  it("suspends all modules by one key: helm, CRDs and removals rest until the key is gone", async () => {
    const lab = new EngineLab({
      modules: [
        { name: "one", enabled: true, crds: ["one.yaml"] },
        { name: "two", enabled: true },
      ],
    });
    await lab.start();
    lab.addRelease("late");
    lab.log.length = 0;
    lab.edit({ maintenance: "NoResourceReconciliation", one: "a: 2", twoEnabled: "false" });
    await lab.run(60_000);
    expect(lab.log.filter((line) => /^(helm|crds|uninstall)/.test(line))).toEqual([]);
    expect([...lab.state.view.modules.values()].map(({ suspended }) => suspended)).toEqual([true, true]);
    expect(lab.state.view.removalBlockers.map(({ text }) => text)).toEqual([
      "not purged: late: maintenance is set in the ConfigMap",
    ]);
    lab.edit({ maintenance: undefined });
    await lab.run(60_000);
    expect(lab.log).toEqual(expect.arrayContaining(["helm one", "crds one.yaml", "uninstall two"]));
    expect(lab.quiet).toBe(true);
  });

  it("6: somebody else's release under the name of a module that is off is reported and left alone", async () => {
    const lab = new EngineLab({ modules: [{ name: "one", enabled: true }, { name: "two" }] });
    lab.addRelease("two");
    lab.foreign.add("two");
    await lab.start();
    expect(lab.failures).toEqual(["two: ForeignRelease"]);
    expect(lab.linesOf("uninstall")).toEqual([]);
    expect([...lab.releases.keys()]).toEqual(["two", "one"]);
  });

  it("7: purges come after the deletes and before the runs, in every converge, and never while no module is read", async () => {
    const lab = new EngineLab({
      modules: [
        { name: "one", enabled: true },
        { name: "two", enabled: true },
      ],
    });
    await lab.start();
    lab.setModules([]);
    lab.edit({ global: "{ x: 1 }" });
    await lab.run();
    await lab.run(10_000);
    expect(lab.linesOf("uninstall")).toEqual([]);
    expect(lab.state.view.removalBlockers).toEqual([
      { action: "purge", text: "not purged: one, two: no module" },
    ]);
    lab.setModules([{ name: "two", enabled: true }]);
    lab.log.length = 0;
    lab.edit({ global: "{ x: 2 }" });
    await lab.run();
    expect(lab.log).toEqual(["uninstall one", "helm two", "release two v2", "converged"]);
  });

  it("8: afterAll hooks run by ORDER after all modules, and see what those left", async () => {
    const lab = new EngineLab({
      globalHooks: [
        { name: "a", lifecycle: { afterAll: 2 } },
        {
          name: "b",
          lifecycle: { afterAll: 1 },
          act: (_, run) => (run === 1 ? { values: { op: "add", path: "/global/x", value: 1 } } : {}),
        },
      ],
      modules: [{ name: "one", enabled: true }],
      config: { global: "{ z: 1 }" },
    });
    await lab.start();
    expect(lab.log.slice(0, 5)).toEqual([
      "helm one",
      "release one v1",
      "hook b: afterAll",
      "hook a: afterAll",
      "converged",
    ]);
    expect(lab.inputs("a")[0]).toMatchObject({
      values: { global: { z: 1, x: 1 } },
      config: { global: { z: 1 } },
    });
    expect(lab.converges).toBe(2);
    expect(lab.state.view.converge.cause).toEqual({ kind: "hook", by: "afterAll" });
  });

  it("6: a module named like a release that is never touched is Invalid, one without a chart is not", async () => {
    const lab = new EngineLab({
      modules: [
        { name: "operator", enabled: true },
        { name: "hooks", enabled: true, chart: "none" },
      ],
    });
    lab.reserved.add("operator").add("hooks");
    await lab.start();
    expect(lab.linesOf("helm")).toEqual([]);
    expect(lab.state.view.modules.get("operator")?.problem?.message).toContain("the operator's own");
    expect(lab.state.view.modules.get("hooks")?.problem).toBeUndefined();
  });
});
