import { describe, expect, it } from "vitest";

import type { HookTrigger } from "../../src/base/model/index.ts";
import { EngineLab, type HookAct, type HookSpec } from "../support/engine-lab.ts";
import { projectOperatorView } from "../report/views.ts";

describe("start-up and reload", () => {
  it("1–8: runs everything in the documented order", async () => {
    const lab = new EngineLab({
      globalHooks: [
        { name: "b", lifecycle: { onStartup: 1, beforeAll: 2, afterAll: 1 } },
        { name: "a", lifecycle: { onStartup: 2, beforeAll: 1 }, kubernetes: [{ name: "pods" }] },
      ],
      modules: [
        { name: "two", order: 2, enabled: true },
        {
          name: "one",
          order: 1,
          enabled: true,
          hooks: [
            {
              name: "h",
              lifecycle: { onStartup: 1, beforeHelm: 1, afterHelm: 1 },
              kubernetes: [{ name: "nodes" }],
            },
          ],
        },
      ],
    });
    await lab.start();
    expect(lab.log).toEqual([
      "hook b: onStartup",
      "hook a: onStartup",
      "hook a: sync pods",
      "hook a: beforeAll",
      "hook b: beforeAll",
      "hook one/h: onStartup",
      "hook one/h: sync nodes",
      "hook one/h: beforeHelm",
      "helm one",
      "release one v1",
      "hook one/h: afterHelm",
      "helm two",
      "release two v1",
      "hook b: afterAll",
      "converged",
    ]);
    expect(lab.state.view.boot).toBe("running");
    expect(lab.unlocked).toEqual(["a/k0", "one/h/k0"]);
    expect(lab.quiet).toBe(true);
  });

  it("1: each phase of the start is reported while it goes on", async () => {
    const phases: string[] = [];
    const act = ([trigger]: readonly HookTrigger[]): HookAct => {
      phases.push(`${trigger?.type}: ${lab.state.view.boot}`);
      return {};
    };
    const lifecycle = { onStartup: 1, beforeAll: 1 };
    const lab: EngineLab = new EngineLab({
      globalHooks: [{ name: "a", lifecycle, kubernetes: [{ name: "pods" }], act }],
    });
    await lab.start();
    expect(phases).toEqual([
      "lifecycle: onStartup",
      "synchronization: synchronization",
      "lifecycle: converging",
    ]);
  });

  it("4: the enabled script sees the modules enabled before it and may only disable", async () => {
    const seen: string[][] = [];
    const lab = new EngineLab({
      modules: [
        { name: "one", order: 1, enabled: true },
        { name: "off", order: 2, script: () => true },
        {
          name: "three",
          order: 3,
          enabled: true,
          script: (enabled) => {
            seen.push([...enabled]);
            return false;
          },
        },
      ],
    });
    await lab.start();
    expect(seen).toEqual([["one"]]);
    expect(lab.state.view.enabledModules).toEqual(["one"]);
    expect(lab.state.view.modules.get("three")?.enabledBy).toBe("script");
  });

  it("4: a failing script is retried every 5 s at the head of main; named queues go on", async () => {
    let broken = true;
    const requested: number[] = [];
    const lab: EngineLab = new EngineLab({
      globalHooks: [{ name: "g", kubernetes: [{ queue: "side", executeOnSynchronization: false }] }],
      modules: [
        {
          name: "one",
          enabled: true,
          script: () => {
            requested.push(lab.clock.now());
            if (broken) throw new Error("no");
            return true;
          },
        },
      ],
    });
    const startedAt = lab.clock.now();
    await lab.start();
    lab.event("g");
    await lab.run();
    expect(lab.log).toEqual(["hook g: kubernetes"]);
    for (let round = 0; round < 3; round++) await lab.run(5000);
    expect(lab.log).toEqual(["hook g: kubernetes"]);
    expect(requested.map((at) => at - startedAt)).toEqual([0, 5000, 10_000, 15_000]);
    broken = false;
    await lab.run(5000);
    expect(lab.log.at(-1)).toBe("converged");
  });

  it("6: deletes disabled modules in reverse order, hooks after the release", async () => {
    const hooks = [{ name: "h", lifecycle: { afterDeleteHelm: 1, beforeDeleteHelm: 1 } }];
    const lab = new EngineLab({
      modules: [
        { name: "one", order: 1, enabled: true, hooks },
        { name: "two", order: 2, enabled: true, hooks },
        { name: "three", order: 3, enabled: true },
      ],
    });
    await lab.start();
    lab.log.length = 0;
    lab.edit({ oneEnabled: "false", twoEnabled: "false" });
    await lab.run(20);
    expect(lab.log).toEqual([
      "one off",
      "two off",
      "hook two/h: beforeDeleteHelm",
      "uninstall two",
      "hook two/h: afterDeleteHelm",
      "hook one/h: beforeDeleteHelm",
      "uninstall one",
      "hook one/h: afterDeleteHelm",
      "helm three",
      "converged",
    ]);
    expect([...lab.releases.keys()]).toEqual(["three"]);
  });

  it("6: hooks of a module without a chart run before and after its delete", async () => {
    const hooks = [{ name: "h", lifecycle: { afterDeleteHelm: 1, beforeDeleteHelm: 1 } }];
    const lab = new EngineLab({ modules: [{ name: "one", chart: "none", enabled: true, hooks }] });
    await lab.start();
    lab.log.length = 0;
    lab.edit({ oneEnabled: "false" });
    await lab.run(20);
    expect(lab.log).toEqual([
      "one off",
      "hook one/h: beforeDeleteHelm",
      "hook one/h: afterDeleteHelm",
      "converged",
    ]);
  });

  it("6: a module disabled while the operator was down is deleted with its hooks", async () => {
    const lab = new EngineLab({
      modules: [{ name: "one", hooks: [{ name: "h", lifecycle: { afterDeleteHelm: 1 } }] }],
    });
    lab.addRelease("one");
    await lab.start();
    expect(lab.log).toEqual(["uninstall one", "hook one/h: afterDeleteHelm", "converged"]);
  });

  it("7: purges only what is missing in two looks some seconds apart", async () => {
    const lab = new EngineLab({ modules: [{ name: "one", enabled: true }] });
    lab.addRelease("old");
    await lab.start();
    expect([...lab.releases.keys()]).toContain("old");
    expect(lab.reported).not.toContain("purged old");
    await lab.run(4000);
    expect([...lab.releases.keys()]).toEqual(["one"]);
    expect(lab.reported).toContain("purged old");
  });

  it("7: a release counts as missed from the first look that missed it in a row", async () => {
    const one = { name: "one", enabled: true };
    const lab = new EngineLab({ modules: [one] });
    lab.addRelease("old");
    const check = (token: string, after: number): Promise<void> => {
      lab.state.record("convergeRequested", token);
      return lab.run(after);
    };
    await lab.start();
    lab.setModules([one, { name: "old", enabled: true }]);
    await check("t1", 2000);
    lab.setModules([one]);
    await check("t2", 2999);
    expect([...lab.releases.keys()]).toContain("old");
    await lab.run(1);
    expect([...lab.releases.keys()]).toEqual(["one"]);
  });

  it("8: afterAll hooks that change globals start another converge", async () => {
    const lab = new EngineLab({
      globalHooks: [
        {
          name: "g",
          lifecycle: { afterAll: 1 },
          act: (_triggers, run) => ({ values: { op: "add", path: "/global/x", value: Math.min(run, 2) } }),
        },
      ],
      modules: [{ name: "one", enabled: true }],
    });
    await lab.start();
    expect(lab.converges).toBe(3);
    expect(lab.quiet).toBe(true);
  });

  it("8: afterAll hooks that change globals every time are backed off after five rounds", async () => {
    const lab = new EngineLab({
      globalHooks: [
        {
          name: "g",
          lifecycle: { afterAll: 1 },
          act: (_triggers, run) => ({ values: { op: "add", path: "/global/x", value: run } }),
        },
      ],
    });
    await lab.start();
    expect(lab.converges).toBe(5);
    await lab.run(4000);
    expect(lab.converges).toBe(5);
    await lab.run(1500);
    expect(lab.converges).toBeGreaterThan(5);
  });
});

const changing = (binding: string, path: string) => (triggers: readonly { type: string }[], run: number) =>
  triggers[0]?.type === binding ? { values: { op: "add", path, value: run } } : {};

describe("reactions", () => {
  it.each([
    ["9: kubernetes event, global hook", "event", true],
    ["11: schedule, global hook", "schedule", true],
  ])("%s: changed globals start a converge, unchanged ones nothing", async (_name, type, converge) => {
    const lab = new EngineLab({
      globalHooks: [
        { name: "change", kubernetes: [{}], schedules: [{}], act: changing(type, "/global/x") },
        { name: "same", kubernetes: [{}], schedules: [{}] },
      ],
      modules: [{ name: "one", enabled: true }],
    });
    await lab.start();
    lab.log.length = 0;
    const fire = (hook: string): void => (type === "event" ? lab.event(hook) : lab.tick(hook));
    fire("same");
    await lab.run();
    expect(lab.log).not.toContain("converged");
    fire("change");
    await lab.run();
    expect(lab.log.includes("converged")).toBe(converge);
    expect(lab.log).toContain("release one v2");
  });

  it("9: a flag patched by a global hook starts a converge", async () => {
    const lab = new EngineLab({
      globalHooks: [
        {
          name: "g",
          kubernetes: [{}],
          act: (triggers) =>
            triggers[0]?.type === "event" ? { values: { op: "add", path: "/oneEnabled", value: true } } : {},
        },
      ],
      modules: [{ name: "one" }],
    });
    await lab.start();
    expect(lab.releases.has("one")).toBe(false);
    lab.event("g");
    await lab.run();
    expect(lab.releases.has("one")).toBe(true);
  });

  it.each([
    ["10: kubernetes event", "event"],
    ["12: schedule", "schedule"],
  ])("%s of a module hook: changed values run that module only, without onStartup", async (_name, type) => {
    const hooks = [
      {
        name: "h",
        lifecycle: { onStartup: 1, beforeHelm: 1 },
        kubernetes: [{}],
        schedules: [{}],
        act: changing(type, "/one/x"),
      },
    ];
    const lab = new EngineLab({
      modules: [
        { name: "one", enabled: true, hooks },
        { name: "two", enabled: true },
      ],
    });
    await lab.start();
    lab.log.length = 0;
    if (type === "event") lab.event("one/h");
    else lab.tick("one/h");
    await lab.run();
    expect(lab.log).toEqual([
      `hook one/h: ${type === "event" ? "kubernetes" : "schedule"}`,
      "hook one/h: beforeHelm",
      "helm one",
      "release one v2",
    ]);
  });

  it("5: onStartup, Synchronization and beforeHelm changes start nothing; afterHelm changes run the module again", async () => {
    const hooks = [
      {
        name: "h",
        lifecycle: { onStartup: 1, beforeHelm: 1, afterHelm: 1 },
        kubernetes: [{}],
        act: (triggers: readonly HookTrigger[], run: number) => {
          const binding = triggers[0]?.binding.name;
          const value = binding === "afterHelm" ? 1 : run < 4 ? run : 3;
          return { values: { op: "add", path: binding === "afterHelm" ? "/one/after" : "/one/x", value } };
        },
      },
    ];
    const lab = new EngineLab({ modules: [{ name: "one", enabled: true, hooks }] });
    await lab.start();
    expect(lab.linesOf("helm")).toEqual(["helm one", "helm one"]);
    expect(lab.quiet).toBe(true);
  });

  it("5: afterHelm hooks that change values every time are Unstable after five rounds", async () => {
    const hooks = [
      {
        name: "h",
        lifecycle: { afterHelm: 1 },
        act: (_: unknown, run: number) => ({ values: { op: "add", path: "/one/x", value: run } }),
      },
    ];
    const lab = new EngineLab({ modules: [{ name: "one", enabled: true, hooks }] });
    await lab.start();
    expect(lab.log.filter((line) => line === "helm one").length).toBe(5);
    expect(lab.failures).toEqual(["one: Unstable"]);
    expect(lab.state.view.modules.get("one")?.retry?.reason).toBe("Unstable");
  });

  it("16: a changed section runs that module, a changed global section or flag reloads all", async () => {
    const lab = new EngineLab({
      modules: [
        { name: "one", enabled: true },
        { name: "two", enabled: true },
      ],
    });
    await lab.start();
    lab.log.length = 0;
    lab.edit({ one: "x: 1" });
    await lab.run();
    expect(lab.log).toEqual(["helm one", "release one v2"]);
    lab.log.length = 0;
    lab.edit({ global: "y: 1" });
    await lab.run();
    expect(lab.log).toEqual(["helm one", "release one v3", "helm two", "release two v2", "converged"]);
    lab.log.length = 0;
    lab.edit({ twoEnabled: "false" });
    await lab.run();
    expect(lab.log).toEqual(["two off", "uninstall two", "helm one", "converged"]);
  });

  it("16: an edit that changes nothing starts nothing", async () => {
    const lab = new EngineLab({ modules: [{ name: "one", enabled: true }], config: { one: "{a: 1, b: 2}" } });
    await lab.start();
    lab.log.length = 0;
    lab.edit({ one: "b: 2\na: 1\n", stranger: "x" });
    await lab.run();
    expect(lab.log).toEqual([]);
  });

  it("a hook's own config patch starts nothing by its echo", async () => {
    const hooks = [
      {
        name: "h",
        lifecycle: { beforeHelm: 1 },
        act: () => ({ config: { op: "add", path: "/one/secret", value: "x" } }),
      },
    ];
    const lab = new EngineLab({
      modules: [{ name: "one", enabled: true, hooks }],
      globalHooks: [
        {
          name: "g",
          lifecycle: { beforeAll: 1 },
          act: () => ({ config: { op: "add", path: "/global/id", value: "y" } }),
        },
      ],
    });
    await lab.start();
    lab.edit({});
    await lab.run();
    expect(lab.converges).toBe(1);
    expect(lab.log.filter((line) => line === "helm one").length).toBe(1);
    expect(lab.data).toEqual({ one: '{"secret":"x"}', global: '{"id":"y"}' });
  });

  it.each(["beforeHelm", "afterHelm"] as const)(
    "a config patch of its %s hook that says what holds anyway starts nothing",
    async (binding) => {
      const act = () => ({ config: { op: "add", path: "/one/x", value: 1 } });
      const hooks = [{ name: "h", lifecycle: { [binding]: 1 }, act }];
      const lab = new EngineLab({ modules: [{ name: "one", enabled: true, section: { x: 1 }, hooks }] });
      await lab.start();
      expect(lab.data).toEqual({ one: '{"x":1}' });
      expect(lab.linesOf("helm")).toEqual(["helm one"]);
      expect(lab.state.view.modules.get("one")?.lastRun?.cause).toEqual({ kind: "start-up" });
    },
  );
});

describe("failures", () => {
  it("a first run that fails starts again from onStartup; Synchronization is not repeated", async () => {
    const hooks = [
      {
        name: "h",
        lifecycle: { onStartup: 1, beforeHelm: 1, afterHelm: 1 },
        kubernetes: [{ name: "pods" }],
        act: (triggers: readonly HookTrigger[], run: number) =>
          triggers[0]?.binding.name === "afterHelm" && run < 5 ? { fail: "no" } : {},
      },
    ];
    const lab = new EngineLab({ modules: [{ name: "one", enabled: true, hooks }] });
    await lab.start();
    const first = lab.log.length;
    expect(lab.state.view.modules.get("one")?.retry?.reason).toBe("HookFailed");
    await lab.run(5000);
    expect(lab.log.slice(first)).toEqual([
      "hook one/h: onStartup",
      "hook one/h: beforeHelm",
      "helm one",
      "hook one/h: afterHelm",
      "converged",
    ]);
  });

  it("a broken module can be switched off at once, and another one configured at once", async () => {
    const lab = new EngineLab({
      modules: [
        { name: "bad", order: 1, enabled: true },
        { name: "good", order: 2, enabled: true },
      ],
    });
    await lab.start();
    lab.helmFails = (module) => (module === "bad" ? "no" : undefined);
    lab.edit({ bad: "x: 1" });
    await lab.run();
    lab.log.length = 0;
    lab.edit({ good: "x: 1" });
    await lab.run();
    expect(lab.log).toEqual(["helm good", "release good v2"]);
    lab.edit({ badEnabled: "false" });
    await lab.run();
    expect(lab.releases.has("bad")).toBe(false);
    expect(lab.quiet).toBe(true);
  });

  it("a changed section ends that module's back-off", async () => {
    const lab = new EngineLab({ modules: [{ name: "one", enabled: true }] });
    lab.helmFails = () => "no";
    await lab.start();
    await lab.run(60_000);
    lab.helmFails = undefined;
    lab.log.length = 0;
    lab.edit({ one: "x: 1" });
    await lab.run();
    expect(lab.log[0]).toBe("helm one");
    expect(lab.quiet).toBe(true);
  });

  it("a flag changed during a converge replaces what waits", async () => {
    const lab = new EngineLab({
      modules: [
        { name: "slow", order: 1, enabled: true },
        { name: "later", order: 2, enabled: true },
      ],
    });
    lab.helmTakes = 1000;
    const started = lab.start();
    await started;
    lab.edit({ laterEnabled: "false" });
    await lab.run(10_000);
    expect(lab.log.filter((line) => line === "helm later")).toEqual([]);
    expect([...lab.releases.keys()]).toEqual(["slow"]);
    expect(lab.quiet).toBe(true);
  });

  it("a foreign release makes the module Invalid and blocks nothing", async () => {
    const lab = new EngineLab({
      modules: [
        { name: "one", order: 1, enabled: true },
        { name: "two", order: 2, enabled: true },
      ],
    });
    lab.helmFails = (module) => (module === "one" ? "foreign" : undefined);
    await lab.start();
    expect(lab.state.view.modules.get("one")?.problem).toBeDefined();
    expect(lab.releases.has("two")).toBe(true);
  });

  it("objects that are gone and releases that were moved by hand run the module", async () => {
    const lab = new EngineLab({ modules: [{ name: "one", enabled: true }] });
    await lab.start();
    lab.log.length = 0;
    lab.state.recordModule("one", "objectsFoundMissing", ["ns/Service/x"]);
    await lab.run();
    expect(lab.log).toEqual(["helm one"]);
    lab.log.length = 0;
    lab.state.recordModule("one", "releaseObserved", undefined);
    await lab.run();
    expect(lab.log).toEqual(["helm one"]);
  });

  it("requests by token are handled once", async () => {
    const lab = new EngineLab({ modules: [{ name: "one", enabled: true }] });
    await lab.start();
    lab.log.length = 0;
    lab.state.recordModule("one", "runRequested", "t1");
    await lab.run();
    expect(lab.log).toEqual(["helm one"]);
    expect(lab.state.view.modules.get("one")?.handled.token).toBe("t1");
    lab.state.record("convergeRequested", "t2");
    await lab.run();
    expect(lab.log.at(-1)).toBe("converged");
    expect(lab.state.view.handledToken).toBe("t2");
    expect(lab.quiet).toBe(true);
  });

  it.each(["main", "own"] as const)(
    "the token of a converge is reported after the hooks of all modules, with queues %s",
    async (moduleQueues) => {
      const reported: [hook: string, token: string | undefined][] = [];
      const reportedToken = (): string | undefined =>
        projectOperatorView(lab.state.view).lastHandledReconcileAt;
      const hook = (module: string | undefined, lifecycle: NonNullable<HookSpec["lifecycle"]>): HookSpec => ({
        name: "h",
        lifecycle,
        act: () => {
          reported.push([module ?? "global", reportedToken()]);
          return { takes: 1000 };
        },
      });
      const names = ["one", "two"];
      const lab = new EngineLab({
        moduleQueues,
        globalHooks: [hook(undefined, { afterAll: 1 })],
        modules: names.map((name) => ({ name, enabled: true, hooks: [hook(name, { beforeHelm: 1 })] })),
      });
      await lab.start();
      await lab.run(10_000);
      reported.length = 0;
      lab.state.record("convergeRequested", "t1");
      await lab.run(10_000);
      expect(new Map(reported)).toEqual(new Map([...names, "global"].map((name) => [name, undefined])));
      expect(reportedToken()).toBe("t1");
    },
  );
});
