import { describe, expect, it } from "vitest";

import type { QueueMode } from "../../src/base/model/index.ts";
import { EngineLab } from "../support/engine-lab.ts";
import type { ModuleSpec } from "../support/engine-lab.ts";

const one: ModuleSpec = { name: "one", order: 1, enabled: true, section: { x: 1 } };
const two: ModuleSpec = {
  name: "two",
  order: 2,
  enabled: true,
  hooks: [{ name: "h", lifecycle: { beforeHelm: 1 } }],
};

/** A lab in which `one` and `two` have run. */
async function running(moduleQueues: QueueMode): Promise<EngineLab> {
  const lab = new EngineLab({ moduleQueues, modules: [one, two] });
  await lab.start();
  lab.log.length = 0;
  return lab;
}

/** What becomes of it when files of `moved` have changed. */
async function edited(lab: EngineLab, modules: readonly ModuleSpec[], moved = ["one"]): Promise<string[]> {
  lab.setModules(modules);
  lab.state.record("filesChanged", new Set(moved));
  await lab.run();
  return lab.log;
}

describe.each<QueueMode>(["main", "own"])("files that changed on disk, modules in %s", (queues) => {
  it("of one module: it alone is read and runs", async () => {
    const lab = await running(queues);
    expect(await edited(lab, [{ ...one, section: { x: 2 } }, two])).toEqual(["helm one", "release one v2"]);
    expect(lab.state.view.modules.get("one")?.lastRun?.cause).toEqual({ kind: "files" });
  });

  it("of several modules: each runs once, with its new hooks", async () => {
    const lab = await running(queues);
    const hooks = [{ name: "new", lifecycle: { beforeHelm: 1 } }];
    const log = await edited(lab, [one, { ...two, hooks }], ["one", "two"]);
    expect(log.toSorted()).toEqual(["helm one", "helm two", "hook two/new: beforeHelm"]);
  });

  it.each<readonly [string, Partial<ModuleSpec>]>([
    ["its flag", { enabled: false }],
    ["its CRDs", { crds: ["crds/c.yaml"] }],
    ["a file of it that is missing", { missing: ["values.yaml"] }],
  ])("%s concerns others: a converge reads all", async (_what, change) => {
    const lab = await running(queues);
    await edited(lab, [{ ...one, ...change }, two]);
    expect(lab.converges).toBe(1);
  });

  it("more than files of single modules: a converge", async () => {
    const lab = await running(queues);
    lab.setModules([one]);
    lab.state.record("filesChanged", "all");
    await lab.run();
    expect([lab.converges, lab.state.view.modulesWithChangedFiles]).toEqual([1, new Set()]);
  });

  it("broken ones leave the release as it is; mended, the module runs", async () => {
    const lab = await running(queues);
    expect(await edited(lab, [{ ...one, problem: "no YAML" }, two])).toEqual([]);
    expect(lab.state.view.modules.get("one")?.problem?.message).toBe("no YAML");
    expect(await edited(lab, [one, two])).toEqual(["helm one"]);
  });

  it("of a module that is off: nothing runs, and it runs once when it is switched on", async () => {
    const lab = await running(queues);
    lab.edit({ oneEnabled: "false" });
    await lab.run();
    lab.log.length = 0;
    expect(await edited(lab, [{ ...one, section: { x: 3 } }, two])).toEqual([]);
    lab.edit({ oneEnabled: "true" });
    await lab.run();
    expect(lab.linesOf("helm one")).toHaveLength(1);
  });

  it("of a module that fails: it does not wait for its next try", async () => {
    const lab = await running(queues);
    lab.helmFails = () => "no such kind";
    await edited(lab, [{ ...one, section: { x: 2 } }, two]);
    lab.log.length = 0;
    lab.helmFails = undefined;
    expect(await edited(lab, [{ ...one, section: { x: 3 } }, two])).toEqual(["helm one", "release one v2"]);
  });

  it("while a converge is delayed by a failing module: it starts anew or the module is tried at once", async () => {
    const lab = new EngineLab({ moduleQueues: queues, modules: [one, two] });
    lab.helmFails = (name) => (name === "one" ? "no such kind" : undefined);
    await lab.start();
    lab.helmFails = undefined;
    await edited(lab, [{ ...one, section: { x: 3 } }, two]);
    expect([lab.converges, lab.state.view.modules.get("one")?.retry]).toEqual([1, undefined]);
  });
});

it("is read before the next run in the queue, although main is delayed by a task that fails", async () => {
  const act = () => ({ fail: "never" });
  const lab = new EngineLab({
    globalHooks: [{ name: "g", schedules: [{}], act }],
    modules: [one, two],
  });
  await lab.start();
  lab.tick("g");
  await lab.run();
  lab.log.length = 0;
  expect(await edited(lab, [{ ...one, section: { x: 2 } }, two])).toEqual(["helm one", "release one v2"]);
});
