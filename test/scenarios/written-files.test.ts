import { describe, expect, it } from "vitest";

import type { QueueMode } from "../../src/base/model/index.ts";
import { EngineLab } from "../support/engine-lab.ts";
import type { HookAct, HookSpec, ModuleSpec } from "../support/engine-lab.ts";

// docs/reference/lifecycle.md, "Files that hooks write".

const other: ModuleSpec = { name: "other", order: 9, enabled: true };
const bare: ModuleSpec = { name: "one", order: 1, enabled: true, chart: "none" };
const full: ModuleSpec = {
  ...bare,
  chart: "own",
  section: { x: 1 },
  hooks: [{ name: "h", lifecycle: { onStartup: 1, beforeHelm: 1 }, kubernetes: [{}] }],
};

/** A hook that writes files at each run. */
function writer(
  name: string,
  binding: "beforeAll" | "beforeHelm" | "onStartup",
  write: (run: number) => void,
): HookSpec {
  const act = (_: unknown, run: number): HookAct => ({ objects: () => write(run) });
  return { name, lifecycle: { [binding]: 1 }, act };
}

/** A lab with a global hook that makes `modules` of what is there, before all modules. */
function labWith(queues: QueueMode, before: readonly ModuleSpec[], after: readonly ModuleSpec[]): EngineLab {
  const lab: EngineLab = new EngineLab({
    moduleQueues: queues,
    modules: before,
    globalHooks: [writer("g", "beforeAll", () => lab.setModules(after))],
  });
  return lab;
}

async function converge(lab: EngineLab, token = "again"): Promise<string[]> {
  lab.log.length = 0;
  lab.state.record("convergeRequested", token);
  await lab.run();
  return lab.log;
}

const values = (lab: EngineLab, name = "one"): unknown =>
  (JSON.parse(lab.releases.get(name)?.values ?? "{}") as Record<string, unknown>)[name];
const problem = (lab: EngineLab): string | undefined => lab.state.view.modules.get("one")?.problem?.message;

describe.each<QueueMode>(["main", "own"])("files that hooks write, modules in %s", (queues) => {
  it("before all modules, as hooks, values and chart, count in the same converge", async () => {
    const lab = labWith(queues, [bare, other], [full, other]);
    await lab.start();
    expect(lab.log.filter((line) => !line.startsWith("release"))).toEqual([
      "hook g: beforeAll",
      "hook one/h: onStartup",
      "hook one/h: sync kubernetes",
      "hook one/h: beforeHelm",
      "helm one",
      "helm other",
      "converged",
    ]);
    expect(values(lab)).toEqual({ x: 1 });
    expect(lab.quiet).toBe(true);
  });

  it("that make a chart unusable stop its module alone, until they change", async () => {
    const lab = new EngineLab({ moduleQueues: queues, modules: [{ ...full, hooks: [] }, other] });
    lab.helmFails = (name) => (name === "one" ? "unusable chart" : undefined);
    await lab.start();
    await lab.run(60_000);
    expect([lab.linesOf("helm"), problem(lab), lab.quiet]).toEqual([
      ["helm one fails", "helm other"],
      "contains more than 100 MiB",
      true,
    ]);
    lab.helmFails = undefined;
    expect(await converge(lab)).toContain("helm one");
    expect(problem(lab)).toBeUndefined();
  });

  it("as a new module count in the same converge", async () => {
    const lab = labWith(queues, [other], [full, other]);
    await lab.start();
    expect([lab.linesOf("helm"), lab.converges]).toEqual([["helm one", "helm other"], 1]);
  });

  it("again without a change: no hook is asked, no other converge follows", async () => {
    const lab = labWith(queues, [full, other], [full, other]);
    await lab.start();
    const requested = [...lab.requested];
    expect(requested).toEqual(["g", "one/h", "g"]);
    await lab.run(60_000);
    expect([lab.requested, lab.converges, lab.linesOf("helm")]).toEqual([
      requested,
      1,
      ["helm one", "helm other"],
    ]);
  });

  it("of another module before its first run: its new hooks run", async () => {
    const lab: EngineLab = new EngineLab({
      moduleQueues: queues,
      modules: [
        { ...other, order: 0, hooks: [writer("w", "beforeHelm", () => lab.setModules([full, other]))] },
        bare,
      ],
    });
    await lab.start();
    expect(lab.linesOf("hook one")).toEqual([
      "hook one/h: onStartup",
      "hook one/h: sync kubernetes",
      "hook one/h: beforeHelm",
    ]);
    expect(values(lab)).toEqual({ x: 1 });
  });

  it("into their own module before helm: helm has chart and values", async () => {
    const hooks = [writer("w", "beforeHelm", () => lab.setModules([written, other]))];
    const written = { ...bare, hooks, chart: "synthetic", section: { x: 2 }, crds: ["c.yaml"] } as const;
    const lab: EngineLab = new EngineLab({ moduleQueues: queues, modules: [{ ...bare, hooks }, other] });
    await lab.start();
    expect([lab.linesOf("helm"), values(lab), lab.converges]).toEqual([
      ["helm one", "helm other"],
      { x: 2 },
      1,
    ]);
    expect(lab.quiet).toBe(true);
    expect(await converge(lab)).toContain("crds c.yaml");
  });

  it("half: the module is Invalid, its release stays, others run; whole again, it runs", async () => {
    const lab = labWith(queues, [full, other], [{ ...full, problem: "no YAML" }, other]);
    lab.addRelease("one");
    await lab.start();
    expect([problem(lab), lab.linesOf("helm"), lab.linesOf("uninstall")]).toEqual([
      "no YAML",
      ["helm other"],
      [],
    ]);
    lab.setGlobalHooks([writer("g", "beforeAll", () => lab.setModules([full, other]))]);
    expect(await converge(lab)).toContain("helm one");
    expect(problem(lab)).toBeUndefined();
  });

  it.each<readonly [string, Partial<ModuleSpec>, string]>([
    ["broken values", { problem: "no YAML" }, "no YAML"],
    ["values that the schema refuses", { schema: "{properties: {x: {type: string}}}" }, "/x"],
  ])(
    "into their own module as %s: it is Invalid, helm does not run, others do",
    async (_, change, message) => {
      const hooks = [writer("w", "beforeHelm", () => lab.setModules([{ ...full, hooks, ...change }, other]))];
      const lab: EngineLab = new EngineLab({ moduleQueues: queues, modules: [{ ...full, hooks }, other] });
      lab.addRelease("one");
      await lab.start();
      expect(problem(lab)).toContain(message);
      expect([lab.linesOf("helm"), lab.linesOf("uninstall"), lab.converges]).toEqual([["helm other"], [], 1]);
      await lab.run(60_000);
      expect(lab.converges).toBe(1);
    },
  );

  it("as the chart of a module whose release is never touched: it is Invalid", async () => {
    const hooks = [writer("w", "onStartup", () => lab.setModules([{ ...full, hooks }, other]))];
    const lab: EngineLab = new EngineLab({ moduleQueues: queues, modules: [{ ...bare, hooks }, other] });
    lab.reserved.add("one");
    await lab.start();
    expect([problem(lab), lab.linesOf("helm")]).toEqual([
      expect.stringContaining("HELM_IGNORE_RELEASE"),
      ["helm other"],
    ]);
  });

  it.each<readonly [string, "beforeAll" | "beforeHelm"]>([
    ["all modules", "beforeAll"],
    ["helm", "beforeHelm"],
  ])("and remove before %s: a second check decides, nothing is removed", async (_, binding) => {
    const missing = { ...full, missing: ["."] };
    const hook = writer("w", binding, (run) => lab.setModules([run === 1 ? missing : full, other]));
    const isGlobal = binding === "beforeAll";
    const lab: EngineLab = new EngineLab({
      moduleQueues: queues,
      modules: [isGlobal ? full : { ...full, hooks: [hook] }, other],
      globalHooks: isGlobal ? [hook] : [],
    });
    lab.addRelease("one");
    await lab.start();
    expect([lab.linesOf("helm"), lab.converges]).toEqual([["helm other"], 1]);
    lab.setModules([full, other]);
    await lab.run(4000);
    expect([lab.linesOf("helm one"), lab.linesOf("uninstall"), lab.converges]).toEqual([["helm one"], [], 2]);
    await lab.run(60_000);
    expect(lab.converges).toBe(2);
  });

  it("with other content at every run while files are watched: five runs, then it backs off", async () => {
    const lab: EngineLab = new EngineLab({ moduleQueues: queues, modules: [other] });
    const write = (run: number): void => {
      lab.setModules([{ ...full, hooks, section: { run } }, other]);
      queueMicrotask(() => lab.state.record("filesChanged", new Set(["one"])));
    };
    const hooks = [writer("w", "beforeHelm", write)];
    lab.setModules([{ ...full, hooks }, other]);
    await lab.start();
    for (let turn = 0; turn < 20; turn += 1) await lab.run();
    const runs = lab.linesOf("helm one").length;
    expect(runs).toBeLessThanOrEqual(7);
    expect(lab.state.view.modules.get("one")?.retry).toMatchObject({
      reason: "Unstable",
      message: "hooks change files of the module at every run",
    });
    await lab.run(4000);
    expect(lab.linesOf("helm one")).toHaveLength(runs);
    await lab.run(2000);
    expect(lab.linesOf("helm one").length).toBeGreaterThan(runs);
  });

  it.each([
    ["", false],
    [", although a module fails", true],
  ])(
    "with other content at every converge while files are watched: five, then it backs off%s",
    async (_, fails) => {
      const write = (run: number): void => {
        lab.setModules([{ ...bare, chart: "own", section: { run } }, other]);
        queueMicrotask(() => lab.state.record("filesChanged", "all"));
      };
      const lab: EngineLab = new EngineLab({
        moduleQueues: queues,
        modules: [bare, other],
        globalHooks: [writer("g", "beforeAll", write)],
      });
      const converges = (): number => lab.linesOf("hook g").length;
      if (fails) lab.helmFails = (name) => (name === "one" ? "no such kind" : undefined);
      await lab.start();
      for (let turn = 0; turn < 20; turn += 1) await lab.run();
      const before = converges();
      expect(before).toBeGreaterThanOrEqual(fails && queues === "main" ? 1 : 5);
      expect(before).toBeLessThanOrEqual(7);
      await lab.run(4000);
      expect(converges()).toBe(before);
      await lab.run(10_000);
      expect(converges()).toBeGreaterThan(before);
    },
  );
});
