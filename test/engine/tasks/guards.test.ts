import { describe, expect, it } from "vitest";

import { EngineLab } from "../../support/engine-lab.ts";
import type { HookAct, HookSpec, ModuleSpec } from "../../support/engine-lab.ts";

type World = ConstructorParameters<typeof EngineLab>[0];

const one = (change: Partial<ModuleSpec> = {}): ModuleSpec => ({ name: "one", enabled: true, ...change });
const OFF = { oneEnabled: "false" };
const MISSING = "the ConfigMap is missing";

async function started(world: World, before: (lab: EngineLab) => void = () => {}): Promise<EngineLab> {
  const lab = new EngineLab(world);
  before(lab);
  await lab.start();
  return lab;
}

const view = (lab: EngineLab) => lab.state.view.modules.get("one");

describe("what is not deleted although it was about to be", () => {
  it("a module that is on again", async () => {
    const lab = await started({ modules: [one()] });
    lab.queues.offer("main", { kind: "delete-module", module: "one" });
    lab.queues.offer("main", { kind: "delete-module", module: "nobody" });
    await lab.run();
    expect([lab.linesOf("uninstall"), lab.quiet, view(lab)?.activity]).toEqual([[], true, "none"]);
  });

  it("a module whose ConfigMap went while its delete was to be tried again", async () => {
    const lab = await started({ modules: [one()] });
    lab.uninstallFails = () => true;
    lab.edit(OFF);
    await lab.run();
    lab.uninstallFails = undefined;
    lab.loseConfig();
    await lab.run(60_000);
    expect(lab.linesOf("uninstall").length).toBe(1);
    expect(lab.state.view.removalBlockers).toEqual([
      { action: "delete", text: `not deleted: one: ${MISSING}` },
    ]);
    expect([lab.releases.get("one")?.status, view(lab)?.activity]).toEqual(["deployed", "none"]);
    expect(lab.broken).toEqual([]);
  });

  it("a module whose ConfigMap goes while its hooks run", async () => {
    const lab: EngineLab = new EngineLab({
      modules: [
        one({
          hooks: [{ name: "h", lifecycle: { beforeDeleteHelm: 1 }, act: () => (lab.loseConfig(), {}) }],
        }),
      ],
    });
    await lab.start();
    lab.edit(OFF);
    await lab.run();
    expect(lab.linesOf("uninstall")).toEqual([]);
    expect(view(lab)?.retry?.message).toBe(MISSING);
    expect(lab.broken).toEqual([]);
  });

  it("a module whose delete is interrupted: nothing is said of it, as it goes on at the next start", async () => {
    const act = (): HookAct => ({ takes: 60_000 });
    const hooks = [{ name: "h", lifecycle: { beforeDeleteHelm: 1 }, act }];
    const lab = await started({ modules: [one({ hooks })] });
    lab.edit(OFF);
    await lab.run(1000);
    lab.uninstallFails = () => true;
    const stopped = lab.queues.stop(0);
    await lab.run();
    await stopped;
    expect([lab.failures, lab.reported.filter((line) => line.startsWith("delete of"))]).toEqual([[], []]);
    expect(lab.releases.get("one")?.status).toBe("deployed");
  });

  it("several modules that go off with the ConfigMap: all are named", async () => {
    const lab = await started({ modules: [one(), { name: "two", order: 2, enabled: true }] });
    lab.edit({ ...OFF, twoEnabled: "false" });
    lab.loseConfig();
    await lab.run();
    expect(lab.state.view.removalBlockers).toEqual([
      { action: "delete", text: `not deleted: two, one: ${MISSING}` },
    ]);
    expect(lab.linesOf("uninstall")).toEqual([]);
  });

  it("a release without directory whose ConfigMap went, or says so meanwhile", async () => {
    for (const hold of ["lose", "guard"] as const) {
      const lab = await started({ modules: [one()] }, (fresh) => {
        fresh.addRelease("stranger");
        fresh.uninstallFails = () => true;
      });
      await lab.run(3000);
      expect(lab.linesOf("uninstall stranger").length).toBe(1);
      lab.uninstallFails = undefined;
      if (hold === "lose") lab.loseConfig();
      else lab.edit({ strangerProtected: "true" });
      await lab.run(60_000);
      expect(lab.linesOf("uninstall stranger").length).toBe(1);
      expect(lab.state.view.removalBlockers).toEqual([
        { action: "purge", text: expect.stringMatching(/^not purged: stranger: /) },
      ]);
      expect(lab.broken).toEqual([]);
    }
  });

  it("a module that is off by its script, while another cannot be read: the script may depend on it", async () => {
    const modules = (problem?: string): ModuleSpec[] => [
      one({ order: 2, script: (enabled) => enabled.includes("base") }),
      { name: "two", order: 3, enabled: true },
      { name: "base", order: 1, enabled: true, ...(problem === undefined ? {} : { problem }) },
    ];
    const lab = await started({ modules: modules() });
    lab.setModules(
      modules("no YAML").map((each) => (each.name === "one" ? { ...each, script: () => false } : each)),
    );
    lab.edit({ twoEnabled: "false" });
    await lab.run();
    expect(lab.linesOf("uninstall")).toEqual(["uninstall two"]);
  });
});

describe("what is not run although it was about to be", () => {
  it.each<readonly [string, Partial<ModuleSpec>]>([
    ["off", { enabled: false }],
    ["incomplete", { missing: ["templates"] }],
    ["in need of a person", { problem: "no YAML" }],
  ])("a module that is %s by then", async (_, change) => {
    const lab = await started({ modules: [one()] });
    lab.setModules([one(change)]);
    lab.edit({ global: "{ x: 1 }" });
    await lab.run();
    lab.log.length = 0;
    for (const module of ["one", "nobody"])
      lab.queues.offer("main", { kind: "run-module", module, cause: { kind: "values" } });
    await lab.run();
    expect([lab.linesOf("helm"), lab.quiet, lab.broken]).toEqual([[], true, []]);
  });
});

describe("a module whose files are missing for the first time", () => {
  it("stays as it was: neither run, nor asked, nor deleted", async () => {
    let requested = 0;
    const script = (): boolean => (requested += 1) < 2;
    const lab = await started({ modules: [one({ script })] });
    lab.setModules([one({ script, missing: ["hooks"] })]);
    lab.log.length = 0;
    lab.edit({ global: "{ x: 1 }" });
    await lab.run();
    expect([requested, lab.log, view(lab)?.enabled]).toEqual([1, ["converged"], true]);
  });

  it("that is off stays off, for the same reason", async () => {
    const script = (): string => "no GPU here";
    const lab = await started({ modules: [one({ script })] });
    expect(view(lab)).toMatchObject({ enabled: false, enabledBy: "script", enabledReason: "no GPU here" });
    lab.setModules([one({ problem: "no YAML" })]);
    lab.edit({ global: "{ x: 1 }" });
    await lab.run();
    expect(view(lab)).toMatchObject({ enabled: false, enabledBy: "script", enabledReason: "no GPU here" });
  });
});

describe("a module that cannot be read at the first start", () => {
  it.each([
    ["ours", true],
    ["somebody else's", false],
    ["none", false],
  ])("counts as on where its release is ours: %s", async (whose, enabled) => {
    const lab = await started({ modules: [one({ problem: "no YAML" })] }, (fresh) => {
      if (whose !== "none") fresh.addRelease("one");
      if (whose === "somebody else's") fresh.foreign.add("one");
    });
    expect(view(lab)?.enabled).toBe(enabled);
    expect(lab.linesOf("uninstall")).toEqual([]);
  });
});

describe("what requires action", () => {
  it("is no protected module that is off and has no release", async () => {
    const lab = await started({ modules: [one()], config: { ...OFF, oneProtected: "true" } });
    expect(view(lab)?.problem).toBeUndefined();
  });

  it("is one whose release must not be touched", async () => {
    const lab = await started({ modules: [one()] }, (fresh) => fresh.reserved.add("one"));
    expect(view(lab)?.problem).toMatchObject({
      file: "/modules/one",
      remedy: "give the directory another name",
    });
    expect(lab.linesOf("helm")).toEqual([]);
  });

  it("is none whose values a hook may still fill in: every one that is missing is named", async () => {
    const valuesSchema =
      "type: object\nx-required-for-helm: [a, b]\nproperties: {a: {type: integer}, b: {type: integer}}\n";
    const lab = await started({ modules: [one({ valuesSchema })] });
    expect(view(lab)?.problem).toBeUndefined();
    expect(view(lab)?.retry).toMatchObject({ reason: "ValuesIncomplete" });
    expect(view(lab)?.retry?.message).toMatch(
      /set one\.a in ConfigMap .*; .*set one\.b in ConfigMap .*; a hook may set it, too$/,
    );
    lab.edit({ one: "{ a: 1, b: 2 }" });
    await lab.run();
    expect([lab.linesOf("helm"), view(lab)?.retry]).toEqual([["helm one"], undefined]);
  });
});

describe("hooks' watches at a delete", () => {
  it("are opened for the snapshots of a module that was switched off while nothing ran here", async () => {
    const watched: boolean[] = [];
    const hook = (name: string, change: Partial<HookSpec>): HookSpec => ({
      name,
      lifecycle: { afterDeleteHelm: 1 },
      act: () => (watched.push(lab.watches(`one/${name}`)), {}),
      ...change,
    });
    const lab: EngineLab = new EngineLab({
      modules: [one({ enabled: false, hooks: [hook("a", { kubernetes: [{}] }), hook("b", {})] })],
    });
    lab.addRelease("one");
    await lab.start();
    expect(watched).toEqual([true, false]);
    expect(lab.watches("one/a")).toBe(false);
  });
});

describe("a converge that meets changes", () => {
  it("goes on with a module whose section moved during its long run, in its place", async () => {
    const lab = await started(
      { modules: [one({ order: 1 }), { name: "two", order: 2, enabled: true }] },
      (fresh) => {
        fresh.helmTakes = 60_000;
      },
    );
    await lab.run(5000);
    lab.edit({ one: "{ x: 1 }" });
    lab.helmTakes = 0;
    await lab.run(3000);
    expect(lab.linesOf("helm")).toEqual(["helm one", "helm one", "helm two"]);
    expect([lab.converges, lab.failures]).toEqual([1, []]);
    expect(JSON.parse(lab.releases.get("one")?.values ?? "")).toMatchObject({ one: { x: 1 } });
  });

  it("drops the steps that wait when a flag moves, and begins anew", async () => {
    const hooks = ["a", "b"].map((name, index) => ({
      name,
      lifecycle: { beforeAll: index },
      act: (_: unknown, run: number): HookAct => (name === "a" && run === 1 ? { takes: 5000 } : {}),
    }));
    const lab = await started({ modules: [one()], globalHooks: hooks });
    lab.edit(OFF);
    await lab.run(5000);
    expect(lab.linesOf("hook").map((line) => line.slice(0, 6))).toEqual(["hook a", "hook a", "hook b"]);
    expect(lab.linesOf("helm")).toEqual([]);
  });

  it("counts the modules that are still to run, and nothing else", async () => {
    const left: number[] = [];
    const lab: EngineLab = new EngineLab({
      modules: [one(), { name: "off" }, { name: "two", enabled: true }],
    });
    lab.addRelease("off");
    lab.helmFails = () => void left.push(lab.state.view.converge.remaining.length);
    await lab.start();
    expect(left).toEqual([2, 1]);
  });

  it("starts the schedules of new global hooks", async () => {
    const lab = await started({ modules: [one()] });
    lab.setGlobalHooks([{ name: "g", schedules: [{}] }]);
    lab.edit({ global: "{ x: 1 }" });
    await lab.run();
    expect(lab.schedules.has("g")).toBe(true);
  });
});
