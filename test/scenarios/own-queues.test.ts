import { describe, expect, it } from "vitest";

import { EngineLab } from "../support/engine-lab.ts";
import type { HookAct, HookSpec, ModuleSpec } from "../support/engine-lab.ts";

/** A hook before helm that takes a second. */
const slow = (takes = 1000): HookSpec => ({
  name: "a",
  lifecycle: { beforeHelm: 1 },
  act: () => ({ takes }),
});

/** Modules that are on, `count` of them with one number. */
const many = (count: number, spec: Partial<ModuleSpec> = {}): ModuleSpec[] =>
  Array.from({ length: count }, (_, index) => ({ name: `m${index}`, enabled: true, order: 5, ...spec }));

const own = (
  modules: readonly ModuleSpec[],
  more: Partial<ConstructorParameters<typeof EngineLab>[0]> = {},
) => new EngineLab({ modules, moduleQueues: "own", ...more });

/** What the hook of a test does next. */
const failing: { now: HookAct } = { now: {} };

/** When each module's helm ran, in seconds since the start. */
function helmAt(lab: EngineLab): () => Record<string, number[]> {
  const at: Record<string, number[]> = {};
  const from = lab.clock.now();
  const before = lab.helmFails;
  lab.helmFails = (module) => {
    (at[module] ??= []).push((lab.clock.now() - from) / 1000);
    return before?.(module);
  };
  return () => at;
}

/** Most modules that were at work at once while `work` went on, looked at each tenth of a second. */
async function mostAtOnce(lab: EngineLab, seconds: number): Promise<number> {
  let most = 0;
  for (let tenth = 0; tenth < seconds * 10; tenth++) {
    await lab.run(100);
    most = Math.max(
      most,
      [...lab.state.view.modules.values()].filter((each) => each.activity !== "none").length,
    );
  }
  return most;
}

describe("modules with queues of their own", () => {
  it("one that fails for ever delays none of 49 others, and afterAll runs", async () => {
    const lab = own([{ name: "broken", enabled: true, order: 1 }, ...many(49)], {
      globalHooks: [{ name: "g", lifecycle: { afterAll: 1 } }],
    });
    lab.helmFails = (module) => (module === "broken" ? "no" : undefined);
    await lab.start();
    await lab.run(1000);
    expect([...lab.releases.keys()].length).toBe(49);
    expect(lab.linesOf("hook g: afterAll")).toHaveLength(1);
    expect(lab.state.view.boot).toBe("running");
    lab.helmFails = undefined;
    await lab.run(60_000);
    expect([...lab.releases.keys()].length).toBe(50);
    expect(lab.broken).toEqual([]);
  });

  it("of equal numbers run side by side, never more than the limit", async () => {
    const lab = own(many(20, { hooks: [slow()] }), { parallelModules: 3 });
    const at = helmAt(lab);
    await lab.start();
    expect(await mostAtOnce(lab, 10)).toBe(3);
    expect(
      Object.values(at())
        .flat()
        .toSorted((a, b) => a - b)
        .at(-1),
    ).toBe(7);
    expect(lab.releases.size).toBe(20);
  });

  it("first run when those of smaller numbers are done, or have failed once", async () => {
    const lab = own([
      { name: "first", enabled: true, order: 1, hooks: [slow()] },
      { name: "failing", enabled: true, order: 1, hooks: [slow(2000)] },
      { name: "second", enabled: true, order: 2, hooks: [slow()] },
      { name: "third", enabled: true, order: 3 },
    ]);
    lab.helmFails = (module) => (module === "failing" ? "no" : undefined);
    const at = helmAt(lab);
    await lab.start();
    await lab.run(6000);
    expect(at()).toEqual({ first: [1], failing: [2], second: [3], third: [3] });
  });

  it("that require something wait for that and for no number", async () => {
    const lab = own([
      { name: "slow", enabled: true, order: 1, hooks: [slow(5000)] },
      { name: "base", enabled: true, order: 9, requires: { modules: {}, objects: [] }, hooks: [slow(1000)] },
      { name: "user", enabled: true, order: 9, requires: { modules: { base: "*" }, objects: [] } },
      { name: "last", enabled: true, order: 10 },
    ]);
    const at = helmAt(lab);
    await lab.start();
    await lab.run(6000);
    expect(at()).toEqual({ slow: [5], base: [1], user: [1], last: [5] });
  });

  it("a delete waits for the module's own run and hooks, while others go on", async () => {
    const hook: HookSpec = { name: "h", schedules: [{}], act: () => ({ takes: 60_000 }) };
    const lab = own([
      { name: "other", enabled: true, hooks: [slow(10_000)] },
      { name: "gone", hooks: [hook] },
      { name: "helms", hooks: [slow(60_000)] },
    ]);
    lab.edit({ goneEnabled: "true" });
    await lab.start();
    await lab.run(1000);
    lab.tick("gone/h");
    lab.edit({ helmsEnabled: "true" });
    await lab.run(1000);
    expect(lab.describe()).toContain("module/gone: hook gone/h: schedule");
    lab.edit({ goneEnabled: "false", helmsEnabled: "false" });
    await lab.run(1000);
    // Three seconds are left to what is under way; nothing is removed before it has ended.
    expect(lab.linesOf("uninstall")).toEqual([]);
    await lab.run(6000);
    expect(lab.linesOf("uninstall")).toEqual(["uninstall gone"]);
    expect(lab.linesOf("helm helms")).toEqual([]);
    await lab.run(20_000);
    expect(lab.releases.has("other")).toBe(true);
    expect([lab.broken, lab.describe()]).toEqual([[], []]);
  });

  it("afterAll runs once for all, and again when a late success changed globals", async () => {
    const seesLate: HookSpec = {
      name: "sees",
      kubernetes: [{ queue: "events" }],
      act: ([first]) =>
        first?.type === "event" ? { values: { op: "add", path: "/global/late", value: true } } : {},
    };
    const lab = own([{ name: "late", enabled: true, order: 1 }, ...many(10)], {
      globalHooks: [{ name: "g", lifecycle: { afterAll: 1 } }, seesLate],
    });
    let fails = true;
    lab.helmFails = (module) => (module === "late" && fails ? "no" : undefined);
    await lab.start();
    await lab.run(100_000);
    expect([lab.linesOf("hook g: afterAll").length, lab.converges]).toEqual([1, 1]);
    fails = false;
    await lab.run(40_000);
    expect(lab.releases.has("late")).toBe(true);
    expect(lab.linesOf("hook g: afterAll")).toHaveLength(1);
    lab.event("sees");
    await lab.run(1000);
    expect([lab.linesOf("hook g: afterAll").length, lab.converges]).toEqual([2, 2]);
    expect(lab.inputs("g").at(-1)?.values["global"]).toMatchObject({ late: true });
  });

  it("ten runs under way end when the operator stops, and nothing begins any more", async () => {
    const lab = own(many(20, { hooks: [slow(600_000)] }));
    await lab.start();
    await lab.run(1000);
    expect(lab.queues.running).toBe(10);
    lab.engine.stop();
    const stopped = lab.queues.stop(30_000);
    await lab.run(30_000);
    await stopped;
    expect([lab.queues.running, lab.linesOf("hook m").length, lab.releases.size]).toEqual([0, 10, 0]);
  });

  it("an edit is applied while as many others run as may", async () => {
    const lab = own([{ name: "web", enabled: true }, ...many(12, { hooks: [slow(60_000)] })]);
    const at = helmAt(lab);
    await lab.start();
    await lab.run(10_000);
    expect(lab.queues.running).toBe(10);
    lab.edit({ web: "{ a: 1 }" });
    await lab.run(0);
    expect(at()["web"]).toEqual([0, 10]);
  });

  it("an edit ends the back-off of its module, and interrupts its long run", async () => {
    const lab = own([
      { name: "fails", enabled: true },
      { name: "long", enabled: true, hooks: [slow(600_000)] },
    ]);
    lab.helmFails = (module) => (module === "fails" ? "no" : undefined);
    await lab.start();
    await lab.run(60_000);
    const before = lab.linesOf("helm fails").length;
    lab.edit({ fails: "{ a: 1 }", long: "{ a: 1 }" });
    await lab.run(0);
    expect(lab.linesOf("helm fails")).toHaveLength(before + 1);
    expect(lab.linesOf("hook long/a: beforeHelm")).toHaveLength(2);
    expect(lab.broken).toEqual([]);
  });

  it("a removal that fails delays no run, but afterAll", async () => {
    const lab = own([{ name: "off" }, ...many(3)], {
      globalHooks: [{ name: "g", lifecycle: { afterAll: 1 } }],
    });
    lab.addRelease("off");
    lab.uninstallFails = () => true;
    await lab.start();
    await lab.run(1000);
    expect([lab.releases.size, lab.linesOf("hook g")]).toEqual([4, []]);
    lab.uninstallFails = undefined;
    await lab.run(10_000);
    expect([...lab.releases.keys()]).not.toContain("off");
    expect(lab.linesOf("hook g: afterAll")).toHaveLength(1);
  });

  it.each(["main", "own"] as const)("in %s no run begins before the CRDs of its files", async (queues) => {
    const old = { name: "old", enabled: true, order: 1, crds: ["old.yaml"] };
    const fresh = { name: "fresh", enabled: true, order: 2, crds: ["refused.yaml"] };
    const lab = own([old, { name: "web", enabled: true }], { moduleQueues: queues });
    await lab.start();
    lab.setModules([{ ...old, crds: ["refused.yaml"], version: "2" }, fresh, ...many(2)]);
    lab.state.record("convergeRequested", "look");
    await lab.run(1000);
    lab.edit({ old: "{ x: 1 }" });
    await lab.run(10_000);
    expect([lab.linesOf("helm old").length, lab.linesOf("helm fresh").length]).toEqual([1, 0]);
    expect(lab.releases.has("m0")).toBe(queues === "own");
    lab.setModules([
      { ...old, crds: ["broken.yaml"], version: "3" },
      { ...fresh, crds: ["new.yaml"] },
    ]);
    lab.edit({ global: "{ x: 1 }" });
    await lab.run(40_000);
    lab.edit({ old: "{ x: 2 }" });
    await lab.run(10_000);
    expect([lab.linesOf("helm old").length, lab.releases.has("fresh")]).toEqual([1, true]);
    expect([lab.state.view.modules.get("old")?.problem?.message, lab.describe()]).toEqual(["no CRD", []]);
  });

  it("a removal whose hook hangs delays first runs and edits of others for five minutes each", async () => {
    const hangs: HookSpec = {
      name: "h",
      lifecycle: { beforeDeleteHelm: 1 },
      act: () => ({ takes: 3_600_000 }),
    };
    const lab = own([{ name: "x", enabled: true, hooks: [hangs] }, { name: "soon" }, { name: "later" }]);
    await lab.start();
    lab.edit({ xEnabled: "false", soonEnabled: "true" });
    await lab.run(290_000);
    expect(lab.linesOf("helm soon")).toHaveLength(0);
    await lab.run(20_000);
    expect(lab.linesOf("helm soon")).toHaveLength(1);
    // The removal has taken five minutes, so the edit interrupts it; then it is tried again.
    lab.edit({ xEnabled: "false", soonEnabled: "true", laterEnabled: "true" });
    await lab.run(310_000);
    expect(lab.linesOf("helm later")).toHaveLength(1);
    expect(lab.linesOf("hook x/h: beforeDeleteHelm")).toHaveLength(2);
    expect(lab.linesOf("uninstall x")).toHaveLength(0);
  });

  it("a removal in which helm takes long is not interrupted by edits of others", async () => {
    const lab = own([{ name: "x", enabled: true }, { name: "later" }]);
    await lab.start();
    lab.uninstallTakes = 600_000;
    lab.edit({ xEnabled: "false" });
    await lab.run(310_000);
    lab.edit({ xEnabled: "false", laterEnabled: "true" });
    await lab.run(310_000);
    expect(lab.linesOf("uninstall x")).toHaveLength(1);
    expect([lab.releases.has("x"), lab.linesOf("helm later").length]).toEqual([false, 1]);
  });

  it("an edit is applied while a removal takes long, whatever reload comes next", async () => {
    const hangs: HookSpec = {
      name: "h",
      lifecycle: { beforeDeleteHelm: 1 },
      act: () => ({ takes: 600_000 }),
    };
    const lab = own([{ name: "x", enabled: true, hooks: [hangs] }, ...many(4)]);
    const at = helmAt(lab);
    const edited = async (change: Record<string, string>): Promise<string[]> => {
      const from = Object.entries(at()).map(([name, runs]) => `${name} ${runs.length}`);
      lab.edit(change);
      await lab.run(1000);
      const now = Object.entries(at()).map(([name, runs]) => `${name} ${runs.length}`);
      return now.filter((each) => !from.includes(each)).map((each) => each.split(" ")[0] ?? "");
    };
    const before = lab.helmFails;
    await lab.start();
    expect(await edited({ xEnabled: "false", m2: "{ x: 1 }" })).toEqual([]);
    expect(await edited({ m2: "{ x: 2 }" })).toEqual(["m2"]);
    expect(await edited({ m3Enabled: "false", m2: "{ x: 3 }" })).toEqual([]);
    expect(await edited({ m0: "{ x: 1 }", m3: "{ x: 1 }" })).toEqual(["m0"]);
    expect(await edited({ m3Enabled: "true" })).toEqual(["m3"]);
    lab.helmFails = (name) => (name === "m2" ? "no" : before?.(name));
    await edited({ m2: "{ x: 4 }" });
    // It keeps its back-off, although the converge waits.
    expect(lab.linesOf("helm m2 fails")).toHaveLength(1);
    lab.helmFails = before;
    await lab.run(10_000);
    expect(at()["m2"]).toEqual([0, 1, 10]);
    expect(lab.describe()).toContain("main: delete-module x");
    lab.edit({ xEnabled: "true" });
    await lab.run(700_000);
    expect([lab.releases.size, lab.broken, lab.describe()]).toEqual([5, [], []]);
  });

  it("hooks that name no queue run in their module's, one after the other with its runs", async () => {
    const hook: HookSpec = { name: "h", schedules: [{}], act: () => ({ takes: 5000 }) };
    const lab = own([
      { name: "a", enabled: true, hooks: [hook] },
      { name: "b", enabled: true },
    ]);
    await lab.start();
    lab.tick("a/h");
    await lab.run(0);
    lab.edit({ a: "{ x: 1 }", b: "{ x: 1 }" });
    await lab.run(1000);
    expect(lab.describe()).toEqual([
      "module/a: hook a/h: schedule",
      "module/a: run-module a: ConfigMap section changed",
    ]);
    await lab.run(5000);
    expect([lab.linesOf("helm a").length, lab.linesOf("helm b").length, lab.broken]).toEqual([2, 2, []]);
  });

  it("two global hooks that patch the same globals at the same time lose nothing", async () => {
    const patch = (name: string): HookSpec => ({
      name,
      schedules: [{ queue: name }],
      act: () => ({ takes: 1000, values: { op: "add", path: `/global/list/${name}`, value: name } }),
    });
    const lab = own(many(2), {
      globalHooks: [patch("x"), patch("y")],
      globalValues: { list: {} },
    });
    await lab.start();
    lab.tick("x");
    lab.tick("y");
    await lab.run(5000);
    expect(lab.state.values.mergedSection("global").values).toMatchObject({ list: { x: "x", y: "y" } });
    expect(lab.linesOf("helm m0")).toHaveLength(3);
  });

  it("a module whose directory goes while it runs is purged after its run has ended", async () => {
    const lab = own([
      { name: "a", enabled: true },
      { name: "b", enabled: true, hooks: [slow(600_000)] },
    ]);
    lab.addRelease("b");
    await lab.start();
    await lab.run(1000);
    lab.setModules([{ name: "a", enabled: true }]);
    lab.state.record("convergeRequested", "look");
    await lab.run(20_000);
    expect([[...lab.releases.keys()], lab.broken, lab.describe()]).toEqual([["a"], [], []]);
  });

  it("an edit of globals interrupts all long runs, one of another module's flag none", async () => {
    const lab = own([{ name: "other" }, ...many(3, { hooks: [slow(60_000)] })]);
    await lab.start();
    await lab.run(10_000);
    lab.edit({ otherEnabled: "true" });
    await lab.run(10_000);
    expect([lab.linesOf("hook m").length, lab.releases.size]).toEqual([3, 1]);
    lab.edit({ global: "{ x: 1 }" });
    await lab.run(0);
    expect(lab.linesOf("hook m")).toHaveLength(6);
    await lab.run(60_000);
    expect([lab.releases.size, lab.broken]).toEqual([4, []]);
  });

  it("a request for a converge waits for no run, and interrupts none", async () => {
    const lab = own([
      { name: "quick", enabled: true },
      { name: "long", enabled: true, hooks: [slow(60_000)] },
    ]);
    await lab.start();
    await lab.run(10_000);
    lab.state.record("convergeRequested", "now");
    await lab.run(0);
    expect([lab.linesOf("helm quick").length, lab.linesOf("hook long").length]).toEqual([2, 1]);
    await lab.run(120_000);
    expect([lab.linesOf("helm long").length, lab.describe()]).toEqual([2, []]);
  });

  it("one edit of section and flag runs a module once", async () => {
    const beforeAll: HookSpec = { name: "g", lifecycle: { beforeAll: 1 }, act: () => ({ takes: 1000 }) };
    const lab = own([{ name: "other" }, { name: "one", enabled: true }], { globalHooks: [beforeAll] });
    await lab.start();
    await lab.run(2000);
    lab.edit({ one: "{ x: 1 }", otherEnabled: "true" });
    await lab.run(5000);
    expect([lab.linesOf("helm one").length, lab.converges]).toEqual([2, 2]);
  });

  it.each<readonly [string, Partial<ModuleSpec>, HookSpec]>([
    ["reading", { requires: { modules: {}, objects: [], kubernetes: ">=1" } }, { name: "g" }],
    ["a beforeAll hook", {}, { name: "g", lifecycle: { beforeAll: 1 }, act: () => failing.now }],
  ])("an edit is applied while %s fails", async (_what, spec, hook) => {
    failing.now = {};
    const lab = own([{ name: "one", enabled: true }], { globalHooks: [hook] });
    await lab.start();
    failing.now = { fail: "no" };
    lab.serverVersion = undefined;
    lab.setModules([
      { name: "one", enabled: true },
      { name: "other", enabled: true, order: 2, ...spec },
    ]);
    lab.state.record("convergeRequested", "look");
    await lab.run(1000);
    lab.edit({ one: "{ x: 1 }" });
    await lab.run(0);
    expect([lab.linesOf("helm one").length, lab.converges]).toEqual([2, 1]);
  });
});

// docs/reference/lifecycle.md, "A queue for each module": its picture.
it.each([
  ["main", ["a 0", "b 0", "b 5", "c 5", "d 5"]],
  ["own", ["a 0", "b 0", "c 0", "b 5", "d 5"]],
] as const)(
  "a first reload with modules in %s, of which one fails once: %j",
  async (moduleQueues, expected) => {
    const modules = Object.entries({ a: 1, b: 1, c: 2, d: 2 }).map(([name, order]) => ({
      name,
      order,
      enabled: true,
    }));
    const requires = { modules: { b: "*" } };
    const lab = new EngineLab({
      modules: modules.map((each) => (each.name === "d" ? { ...each, requires } : each)),
      moduleQueues,
    });
    const from = lab.clock.now();
    const runs: string[] = [];
    lab.helmFails = (name) => {
      runs.push(`${name} ${Math.floor((lab.clock.now() - from) / 1000)}`);
      return runs.join() === "a 0,b 0" ? "no" : undefined;
    };
    await lab.start();
    await lab.run(10_000);
    expect(runs).toEqual(expected);
  },
);
