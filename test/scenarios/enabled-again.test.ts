import { describe, expect, it } from "vitest";

import { EngineLab } from "../support/engine-lab.ts";
import type { HookAct } from "../support/engine-lab.ts";

describe("a module that is switched on again", () => {
  it("gets onStartup and Synchronization although its delete was not finished", async () => {
    let broken = false;
    const hook = {
      name: "h",
      lifecycle: { onStartup: 1, beforeDeleteHelm: 1 },
      kubernetes: [{ name: "pods" }],
      act: (triggers: readonly { type: string }[]) =>
        broken && triggers[0]?.type === "lifecycle" ? { fail: "not yet" } : {},
    };
    const lab = new EngineLab({ modules: [{ name: "one", enabled: true, hooks: [hook] }] });
    await lab.start();
    broken = true;
    lab.edit({ oneEnabled: "false" });
    await lab.run();
    lab.event("one/h", "meanwhile");
    broken = false;
    lab.log.length = 0;
    lab.edit({ oneEnabled: "true" });
    await lab.run();
    expect(lab.log).toEqual([
      "one on",
      "hook one/h: onStartup",
      "hook one/h: sync pods",
      "helm one",
      "converged",
    ]);
    expect(lab.unlocked).toEqual(["one/h/k0", "one/h/k0"]);
  });

  it.each([["success"], ["failure"]])(
    "while its former Synchronization still runs in a named queue, whose %s says nothing of the new one",
    async (end) => {
      const act = (_: unknown, run: number): HookAct => {
        if (run > 1) return { takes: 1000 };
        return end === "success" ? { takes: 60_000 } : { takes: 60_000, fail: "too late" };
      };
      const hook = { name: "h", kubernetes: [{ name: "pods", queue: "side" }], act };
      const lab = new EngineLab({ modules: [{ name: "one", enabled: true, hooks: [hook] }] });
      await lab.start();
      lab.edit({ oneEnabled: "false" });
      await lab.run(5000);
      expect([lab.state.module("one")?.enabled, lab.watches("one/h")]).toEqual([false, false]);
      lab.edit({ oneEnabled: "true" });
      await lab.run();
      lab.event("one/h");
      await lab.run(55_000);
      expect([lab.linesOf("hook"), lab.unlocked, lab.linesOf("helm")]).toEqual([
        ["hook one/h: sync pods", "hook one/h: sync pods"],
        [],
        [],
      ]);
      await lab.run(1000);
      expect([lab.linesOf("hook").at(-1), lab.unlocked]).toEqual(["hook one/h: pods", ["one/h/k0"]]);
      expect(lab.linesOf("helm")).toEqual(["helm one"]);
    },
  );

  it("and whose former Synchronization ends before its watch is open again", async () => {
    const act = (triggers: readonly { type: string }[], run: number): HookAct =>
      triggers[0]?.type === "lifecycle"
        ? { takes: run === 1 ? 0 : 100_000 }
        : { takes: run === 2 ? 60_000 : 0 };
    const hook = {
      name: "h",
      lifecycle: { onStartup: 1 },
      kubernetes: [{ name: "pods", queue: "side" }],
      act,
    };
    const lab = new EngineLab({ modules: [{ name: "one", enabled: true, hooks: [hook] }] });
    await lab.start();
    lab.edit({ oneEnabled: "false" });
    await lab.run(5000);
    lab.edit({ oneEnabled: "true" });
    await lab.run(60_000);
    expect(lab.unlocked).toEqual([]);
    await lab.run(60_000);
    expect([lab.linesOf("hook").slice(-2), lab.unlocked]).toEqual([
      ["hook one/h: onStartup", "hook one/h: sync pods"],
      ["one/h/k0"],
    ]);
  });
});
