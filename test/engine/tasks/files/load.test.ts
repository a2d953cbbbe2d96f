import { describe, expect, it } from "vitest";

import { EngineLab } from "../../../support/engine-lab.ts";
import type { HookAct, HookSpec, ModuleSpec } from "../../../support/engine-lab.ts";

const one = (change: Partial<ModuleSpec> = {}): ModuleSpec => ({ name: "one", enabled: true, ...change });
const two: ModuleSpec = { name: "two", order: 2, enabled: true };
const hook = (name: string, change: Partial<HookSpec> = {}): HookSpec => ({ name, ...change });

async function started(
  modules: readonly ModuleSpec[],
  world: { globalHooks?: readonly HookSpec[]; config?: Record<string, string> } = {},
): Promise<EngineLab> {
  const lab = new EngineLab({ modules, ...world });
  await lab.start();
  return lab;
}

let requests = 0;
/** The directories are as given now; a converge looks at them. */
async function converge(lab: EngineLab, modules: readonly ModuleSpec[]): Promise<void> {
  lab.setModules(modules);
  lab.log.length = 0;
  lab.requested.length = 0;
  lab.state.record("convergeRequested", `request ${(requests += 1)}`);
  await lab.run();
}

const view = (lab: EngineLab) => lab.state.view.modules.get("one");
const logged = (lab: EngineLab, message: string): unknown[] =>
  lab.logged.filter(([, text]) => text === message).map(([level, , fields]) => ({ level, ...fields }));

describe("a directory that is gone for good", () => {
  it("takes watches, schedules and waiting runs of its hooks along", async () => {
    const act = (): HookAct => ({ fail: "never" });
    const lab = await started([
      one({
        hooks: [hook("a", { kubernetes: [{}] }), hook("b", { schedules: [{ queue: "side" }], act })],
      }),
      two,
    ]);
    lab.tick("one/b");
    await lab.run();
    expect([lab.watches("one/a"), [...lab.schedules], lab.describe()]).toEqual([
      true,
      ["one/b"],
      ["side: hook one/b: schedule"],
    ]);
    await converge(lab, [two]);
    expect([lab.watches("one/a"), [...lab.schedules], lab.describe()]).toEqual([false, [], []]);
  });

  it("is looked for once more, no sooner than the directories say", async () => {
    const lab = await started([one(), two]);
    await converge(lab, [one({ missing: ["hooks"] }), two]);
    lab.setModules([two]);
    await lab.run(3999);
    expect(lab.converges).toBe(1);
    await lab.run(1);
    expect(lab.converges).toBe(2);
  });
});

describe("the ConfigMap is judged again when directories are read", () => {
  it("that hold a new module: its keys mean something now, in the same converge", async () => {
    const lab = await started([one()], { config: { two: "{ x: 1 }", twoEnabled: "true" } });
    await converge(lab, [one(), { name: "two" }]);
    expect(JSON.parse(lab.releases.get("two")?.values ?? "{}")).toMatchObject({ two: { x: 1 } });
    expect(logged(lab, "Converge started")).toHaveLength(2);
  });

  it.each([
    ["ok", "{ x: 1 }", 0],
    ["invalid", "{", 1],
  ])("while it is %s: %j", async (condition, section, times) => {
    const lab = await started([one()]);
    lab.edit({ one: section });
    await lab.run();
    expect(lab.state.view.config.condition).toBe(condition);
    const before = lab.version;
    await converge(lab, [one()]);
    expect(lab.version - before).toBe(times);
  });

  it("and an edit that arrives with them starts the converge anew: its beforeAll hooks have not seen it", async () => {
    let fails = true;
    const script = (): boolean => {
      if (fails) throw new Error("not yet");
      return true;
    };
    const lab = await started([one({ script })], {
      globalHooks: [hook("g", { lifecycle: { beforeAll: 1 } })],
    });
    fails = false;
    lab.onRead = () => {
      lab.onRead = undefined;
      queueMicrotask(() => lab.edit({ global: "{ x: 1 }" }));
    };
    await lab.run(5000);
    expect(lab.inputs("g").map(({ values }) => values)).toEqual([
      { global: {} },
      { global: { x: 1, enabledModules: ["one"] } },
    ]);
  });
});

describe("hooks are asked for their configuration", () => {
  const hooks = [hook("h", { lifecycle: { afterDeleteHelm: 1 } })];

  it.each<readonly [string, Partial<ModuleSpec>, boolean, readonly string[]]>([
    ["on", {}, false, ["one/h"]],
    ["off", { enabled: false }, false, []],
    ["off and has a release to be deleted", { enabled: false }, true, ["one/h"]],
  ])("once, of a module that is %s", async (...[, change, released, requested]) => {
    const lab = new EngineLab({ modules: [one({ hooks, ...change })] });
    if (released) lab.addRelease("one");
    await lab.start();
    expect(lab.requested).toEqual(requested);
  });

  it("of a module that goes off, had no chart, and owes the hooks of its delete", async () => {
    const lab = await started([one({ chart: "none", hooks })]);
    const changed = [hook("h2", { lifecycle: { afterDeleteHelm: 1 } })];
    await converge(lab, [one({ chart: "none", hooks: changed, enabled: false })]);
    expect(lab.linesOf("hook")).toEqual(["hook one/h2: afterDeleteHelm"]);
  });

  it("of a module that is off in its files, and was switched on by a global hook", async () => {
    const act = (): HookAct => ({ values: [{ op: "add", path: "/oneEnabled", value: true }] });
    const globalHooks = [hook("g", { lifecycle: { onStartup: 1 }, act })];
    const lab = await started([one({ enabled: false, hooks })], { globalHooks });
    expect(lab.requested).toEqual(["g", "one/h", "g"]);
  });
});

describe("a hook that was changed or is gone", () => {
  const ticks = (name: string, signature = "1"): HookSpec =>
    hook(name, { signature, schedules: [{ queue: name }], act: () => ({ fail: "never" }) });

  it("loses its schedule and its waiting runs as soon as that is seen; the others keep theirs", async () => {
    const world = (...hooks: HookSpec[]): ModuleSpec[] => [one({ hooks })];
    const lab = await started(world(ticks("a"), ticks("b"), ticks("c")));
    for (const name of ["a", "b", "c"]) lab.tick(`one/${name}`);
    await lab.run();
    // Discovery is not reached.
    lab.setGlobalHooks([hook("g", { lifecycle: { beforeAll: 1 }, act: () => ({ fail: "never" }) })]);
    await converge(lab, world(ticks("a"), ticks("b", "2")));
    expect([...lab.schedules]).toEqual(["one/a"]);
    expect(lab.describe().filter((line) => !line.startsWith("main"))).toEqual(["a: hook one/a: schedule"]);
  });

  it("global: the same, and the new one has its own schedule", async () => {
    const lab = await started([one()], { globalHooks: [ticks("a"), ticks("b"), ticks("c")] });
    for (const name of ["a", "b", "c"]) lab.tick(name);
    await lab.run();
    lab.setGlobalHooks([ticks("a"), ticks("b", "2"), ticks("d")]);
    await converge(lab, [one()]);
    expect([...lab.schedules].toSorted()).toEqual(["a", "b", "d"]);
    expect(lab.describe()).toEqual(["a: hook a: schedule"]);
  });
});

describe("what is broken", () => {
  const refused = "no such kind";

  it("a hook: its module requires action, and goes on with it once it is mended", async () => {
    const lab = await started([one({ hooks: [hook("h", { schedules: [{}] })] })]);
    await converge(lab, [one({ hooks: [hook("h", { schedules: [{}], refused })] })]);
    const problem = { file: "/hooks/one/h", message: refused };
    expect(view(lab)?.problem).toEqual(problem);
    expect(logged(lab, "Module is invalid")).toEqual([{ level: "error", module: "one", ...problem }]);
    lab.tick("one/h");
    await lab.run();
    expect([lab.linesOf("hook"), lab.linesOf("helm")]).toEqual([["hook one/h: schedule"], []]);
    await converge(lab, [one({ hooks: [hook("h", { schedules: [{}] })] })]);
    expect([view(lab)?.problem, lab.linesOf("helm")]).toEqual([undefined, ["helm one"]]);
  });

  it("a hook of a module that never ran: of no concern while it is off, but when it is switched on", async () => {
    const hooks = [hook("h", { refused })];
    const lab = await started([one({ hooks })]);
    expect(view(lab)?.problem?.message).toBe(refused);
    await converge(lab, [one({ enabled: false, hooks })]);
    expect([view(lab)?.problem, lab.requested]).toEqual([undefined, []]);
    await converge(lab, [one({ hooks })]);
    expect(view(lab)?.problem?.message).toBe(refused);
    await converge(lab, [one({ enabled: false, hooks: [hook("h")] })]);
    expect(view(lab)).toMatchObject({ enabled: false, problem: undefined });
  });

  it("a schema: its module requires action", async () => {
    const lab = await started([one({ schema: "type: [", hooks: [hook("h")] })]);
    expect(view(lab)?.problem).toMatchObject({ file: "config-values.yaml" });
    expect(lab.linesOf("helm")).toEqual([]);
  });

  it("global files: reported once; the last good ones stay", async () => {
    const lab = await started([one()], { config: { global: "{ x: text }" } });
    const lines = () => logged(lab, "Global files are broken; the last good values and schemas stay");
    lab.globalSchema = "type: object\nproperties: { x: { type: integer } }\n";
    await converge(lab, [one()]);
    const reported = { level: "error", error: expect.stringContaining("x") as string };
    expect(lines()).toEqual([reported]);
    await converge(lab, [one()]);
    expect([lines(), lab.linesOf("converged")]).toEqual([[reported], ["converged"]]);
  });

  it("a global hook: the last good one stays, in its place; one that was never good is left out", async () => {
    const runs = (change: Partial<HookSpec> = {}): HookSpec =>
      hook("a", { lifecycle: { beforeAll: 2 }, kubernetes: [{}], schedules: [{}], ...change });
    const lab = await started([one()], { globalHooks: [runs(), hook("b", { schedules: [{}] })] });
    lab.setGlobalHooks([runs({ refused }), hook("b", { schedules: [{}] }), hook("c", { refused })]);
    await converge(lab, [one()]);
    expect(lab.state.globalHooks.map(({ name }) => name)).toEqual(["a", "b"]);
    expect([lab.linesOf("hook"), [...lab.schedules], lab.watches("a")]).toEqual([
      ["hook a: beforeAll"],
      ["a", "b"],
      true,
    ]);
    expect(logged(lab, "Global hook is invalid; the last good one stays")).toEqual(
      ["a", "c"].map((name) => ({ level: "error", file: `/hooks/${name}`, message: refused })),
    );
  });
});
