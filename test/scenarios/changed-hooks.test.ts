import { describe, expect, it } from "vitest";

import { EngineLab } from "../support/engine-lab.ts";
import type { HookSpec } from "../support/engine-lab.ts";

const watching = (change: Partial<HookSpec> = {}): HookSpec => ({
  name: "h",
  kubernetes: [{ name: "pods" }],
  ...change,
});

describe("a hook that was changed on disk, at the next converge", () => {
  it("of a module: its watch starts anew with a Synchronization, and events go on", async () => {
    const lab = new EngineLab({ modules: [{ name: "one", enabled: true, hooks: [watching()] }] });
    await lab.start();
    lab.log.length = 0;
    lab.setModules([{ name: "one", enabled: true, hooks: [watching({ signature: "2" })] }]);
    lab.state.record("convergeRequested", "look");
    await lab.run();
    lab.event("one/h");
    await lab.run();
    expect(lab.log).toEqual(["hook one/h: sync pods", "helm one", "converged", "hook one/h: pods"]);
  });

  it("global: the same, and a failing Synchronization is repeated", async () => {
    const lab = new EngineLab({ globalHooks: [watching()] });
    await lab.start();
    lab.log.length = 0;
    const act = (_: unknown, run: number) => (run === 2 ? { fail: "not yet" } : {});
    lab.setGlobalHooks([watching({ signature: "2", act })]);
    lab.state.record("convergeRequested", "look");
    await lab.run(5000);
    lab.event("h");
    await lab.run();
    expect(lab.log).toEqual(["hook h: sync pods", "hook h: sync pods", "converged", "hook h: pods"]);
  });

  it("and gone while it runs: its run is not repeated", async () => {
    const act = () => ({ fail: "never", takes: 100 });
    const hook = { name: "h", schedules: [{ queue: "side" }], act };
    const lab = new EngineLab({ modules: [{ name: "one", enabled: true, hooks: [hook] }] });
    await lab.start();
    lab.tick("one/h");
    await lab.run(50);
    lab.setModules([{ name: "one", enabled: true }]);
    lab.state.record("convergeRequested", "look");
    await lab.run(100);
    expect(lab.describe()).toEqual([]);
  });

  it("while its Synchronization runs in a named queue: that says nothing of the new one, which gets its own", async () => {
    const change = {
      kubernetes: [{ name: "pods", queue: "side", waitForSynchronization: false }],
      act: (_: unknown, run: number) => (run === 1 ? { takes: 1000 } : {}),
    };
    for (const owner of ["module", "global"] as const) {
      const world = (signature: string) =>
        owner === "global"
          ? { globalHooks: [watching({ ...change, signature })], modules: [] }
          : {
              globalHooks: [],
              modules: [{ name: "one", enabled: true, hooks: [watching({ ...change, signature })] }],
            };
      const lab = new EngineLab(world("1"));
      await lab.start();
      lab.setGlobalHooks(world("2").globalHooks);
      lab.setModules(world("2").modules);
      lab.state.record("convergeRequested", "look");
      await lab.run();
      const id = owner === "global" ? "h" : "one/h";
      lab.event(id);
      await lab.run(1000);
      const sync = `hook ${id}: sync pods`;
      expect(lab.linesOf("hook")).toEqual([sync, sync, `hook ${id}: pods`]);
    }
  });

  it("during its module's first run: the watch as it was is closed, and the new one has its Synchronization", async () => {
    const hooks = (name: string, signature: string) => [
      watching({
        signature,
        kubernetes: [{ name, queue: "side" }],
        act: (_, run) => ({ takes: run * 5000 }),
      }),
    ];
    const lab = new EngineLab({ modules: [{ name: "one", enabled: true, hooks: hooks("pods", "1") }] });
    await lab.start();
    lab.setModules([{ name: "one", enabled: true, hooks: hooks("nodes", "2") }]);
    lab.edit({ global: "{ x: 1 }" });
    await lab.run(20_000);
    lab.event("one/h");
    await lab.run(15_000);
    expect(lab.linesOf("hook")).toEqual(
      ["sync pods", "sync nodes", "nodes"].map((run) => `hook one/h: ${run}`),
    );
  });

  it("global: a run for its schedule that began before its watches were open is repeated when it fails", async () => {
    const lab = new EngineLab({ modules: [{ name: "one", enabled: true }] });
    await lab.start();
    const late = watching({
      name: "late",
      schedules: [{ queue: "side" }],
      act: ([first]) => (first?.type === "schedule" ? { takes: 1000, fail: "not yet" } : {}),
    });
    lab.setGlobalHooks([watching({ act: () => ({ takes: 1000 }) }), late]);
    lab.state.record("convergeRequested", "look");
    await lab.run(500);
    lab.tick("late");
    await lab.run(1500);
    expect([lab.watches("late"), lab.describe()]).toEqual([true, ["side: hook late: schedule"]]);
  });

  it("global, in a named queue: the converge waits for its Synchronization, but not if that fails", async () => {
    const kubernetes = [{ name: "pods", queue: "side" }];
    const lab = new EngineLab({ modules: [{ name: "one", enabled: true }] });
    await lab.start();
    lab.log.length = 0;
    lab.setGlobalHooks([watching({ kubernetes, act: () => ({ takes: 1000 }) })]);
    lab.state.record("convergeRequested", "look");
    await lab.run(900);
    expect(lab.log).toEqual(["hook h: sync pods"]);
    await lab.run(200);
    expect(lab.log).toEqual(["hook h: sync pods", "helm one", "converged"]);
    lab.log.length = 0;
    lab.setGlobalHooks([watching({ kubernetes, signature: "2", act: () => ({ fail: "never" }) })]);
    lab.state.record("convergeRequested", "again");
    await lab.run();
    expect(lab.log).toEqual(["hook h: sync pods", "helm one", "converged"]);
    expect(lab.describe()).toEqual(["side: hook h: pods"]);
    lab.edit({ one: "{ x: 1 }" });
    await lab.run();
    expect(lab.log.at(-1)).toBe("release one v2");
  });
});
