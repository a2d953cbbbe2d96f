import { describe, expect, it } from "vitest";

import type { HookTrigger } from "../../src/base/model/index.ts";
import { EngineLab } from "../support/engine-lab.ts";
import type { HookSpec, ModuleSpec } from "../support/engine-lab.ts";

/** What followed: how many reloads, and runs of module `one` (helm steps). A reload runs the module once, too. */
interface Reaction {
  readonly converges: number;
  readonly runs: number;
}

const NOTHING: Reaction = { converges: 0, runs: 0 };
const RELOAD: Reaction = { converges: 1, runs: 1 };
const MODULE_RUN: Reaction = { converges: 0, runs: 1 };
/** What every start does. */
const START: Reaction = RELOAD;

const boundTo = (trigger: HookTrigger | undefined): string =>
  trigger?.type === "lifecycle" ? trigger.binding.name : (trigger?.type ?? "");

/** A hook that has every binding, and leaves a patch when it runs for one of them. */
function hookOf(binding: string, patch: Patch): HookSpec {
  return {
    name: "h",
    lifecycle: {
      onStartup: 1,
      beforeAll: 1,
      afterAll: 1,
      beforeHelm: 1,
      afterHelm: 1,
      beforeDeleteHelm: 1,
      afterDeleteHelm: 1,
    },
    kubernetes: [{}],
    schedules: [{}],
    act: (triggers) => (boundTo(triggers[0]) === binding ? { [patch.file]: patch.operation } : {}),
  };
}

interface Patch {
  readonly file: "values" | "config";
  readonly operation: { op: "add"; path: string; value: unknown };
}

const values = (path: string, value: unknown = 1): Patch => ({
  file: "values",
  operation: { op: "add", path, value },
});
const config = (path: string): Patch => ({ file: "config", operation: { op: "add", path, value: 1 } });

function reactionIn(log: readonly string[]): Reaction {
  const count = (line: string): number => log.filter((each) => each === line).length;
  return { converges: count("converged"), runs: count("helm one") };
}

async function startWith(world: { globalHook?: HookSpec; hook?: HookSpec }): Promise<EngineLab> {
  const one: ModuleSpec = {
    name: "one",
    enabled: true,
    ...(world.hook === undefined ? {} : { hooks: [world.hook] }),
  };
  const lab = new EngineLab({
    modules: [one, { name: "other" }],
    globalHooks: world.globalHook === undefined ? [] : [world.globalHook],
    config: { one: "{ same: 1 }", other: "{ x: 1 }" },
  });
  await lab.start();
  return lab;
}

/** What follows a step after a quiet start. */
async function after(lab: EngineLab, act: () => void): Promise<Reaction> {
  expect(lab.quiet).toBe(true);
  lab.log.length = 0;
  act();
  await lab.run();
  expect(lab.quiet).toBe(true);
  expect(lab.log).not.toContain("hook one/h: onStartup");
  return reactionIn(lab.log);
}

function fire(lab: EngineLab, hook: string, type: string): void {
  if (type === "event") lab.event(hook);
  else lab.tick(hook);
}

describe("which change leads to what", () => {
  it.each<readonly [string, Patch, Reaction]>([
    ["onStartup", values("/global/x"), START],
    ["onStartup", values("/otherEnabled", false), START],
    ["onStartup", config("/global/x"), START],
    ["synchronization", values("/global/x"), START],
    ["synchronization", config("/global/x"), START],
    ["beforeAll", values("/global/x"), START],
    ["beforeAll", config("/global/x"), START],
    ["afterAll", values("/global/x"), { converges: 2, runs: 2 }],
    ["afterAll", values("/otherEnabled", true), { converges: 2, runs: 2 }],
    ["afterAll", config("/global/x"), { converges: 2, runs: 2 }],
    ["afterAll", values("/otherEnabled", false), START],
  ])("a global %s hook leaves %j at the start", async (binding, patch, reaction) => {
    const lab = await startWith({ globalHook: hookOf(binding, patch) });
    expect(reactionIn(lab.log)).toEqual(reaction);
    expect(lab.quiet).toBe(true);
  });

  it.each<readonly [string, Patch, Reaction]>([
    ["onStartup", values("/one/x"), START],
    ["onStartup", config("/one/x"), START],
    ["synchronization", values("/one/x"), START],
    ["synchronization", config("/one/x"), START],
    ["beforeHelm", values("/one/x"), START],
    ["beforeHelm", config("/one/x"), START],
    ["afterHelm", values("/one/x"), { converges: 1, runs: 2 }],
    ["afterHelm", config("/one/x"), { converges: 1, runs: 2 }],
    ["afterHelm", values("/one/same"), START],
  ])("a module's %s hook leaves %j at the start", async (binding, patch, reaction) => {
    const lab = await startWith({ hook: hookOf(binding, patch) });
    expect(reactionIn(lab.log)).toEqual(reaction);
    expect(lab.quiet).toBe(true);
  });

  it.each<readonly [string, Patch, Reaction]>([
    ["event", values("/global/x"), RELOAD],
    ["event", config("/global/x"), RELOAD],
    ["event", values("/otherEnabled", true), RELOAD],
    ["event", values("/oneEnabled", true), NOTHING],
    ["schedule", values("/global/x"), RELOAD],
    ["schedule", config("/global/x"), RELOAD],
    ["schedule", values("/otherEnabled", true), RELOAD],
    ["schedule", values("/oneEnabled", true), NOTHING],
  ])(
    "a global %s hook leaves %j: once it changes something, the second time nothing",
    async (type, patch, reaction) => {
      const lab = await startWith({ globalHook: hookOf(type, patch) });
      expect(await after(lab, () => fire(lab, "h", type))).toEqual(reaction);
      expect(await after(lab, () => fire(lab, "h", type))).toEqual(NOTHING);
    },
  );

  it.each<readonly [string, Patch, Reaction]>([
    ["event", values("/one/x"), MODULE_RUN],
    ["event", config("/one/x"), MODULE_RUN],
    ["event", values("/one/same"), NOTHING],
    ["schedule", values("/one/x"), MODULE_RUN],
    ["schedule", config("/one/x"), MODULE_RUN],
    ["schedule", values("/one/same"), NOTHING],
  ])(
    "a module's %s hook leaves %j: once it changes something, the second time nothing",
    async (type, patch, reaction) => {
      const lab = await startWith({ hook: hookOf(type, patch) });
      expect(await after(lab, () => fire(lab, "one/h", type))).toEqual(reaction);
      expect(await after(lab, () => fire(lab, "one/h", type))).toEqual(NOTHING);
    },
  );

  it.each([["beforeDeleteHelm"], ["afterDeleteHelm"]])(
    "a module's %s hook leaves values: nothing but the converge that deletes it",
    async (binding) => {
      const lab = await startWith({ hook: hookOf(binding, values("/one/x")) });
      expect(await after(lab, () => lab.edit({ oneEnabled: "false" }))).toEqual({ converges: 1, runs: 0 });
      expect(lab.log).toContain(`hook one/h: ${binding}`);
    },
  );

  it.each<readonly [string, Record<string, string | undefined>, Reaction]>([
    ["the global section", { global: "{ x: 1 }" }, RELOAD],
    ["a flag", { otherEnabled: "true" }, RELOAD],
    // The script and the deletes follow from the flag, whatever its merged value is.
    ["a flag that says what files say", { oneEnabled: "true" }, RELOAD],
    ["the section of a module that is on", { one: "{ x: 1 }" }, MODULE_RUN],
    ["the section of a module that is off", { other: "{ x: 2 }" }, NOTHING],
    ["a section that goes", { one: undefined }, MODULE_RUN],
    ["the same section in other words", { one: "same:   1\n" }, NOTHING],
    ["an empty global section", { global: "" }, NOTHING],
    ["a key of no module", { stranger: "x" }, NOTHING],
    ["maintenance", { oneMaintenance: "NoResourceReconciliation" }, NOTHING],
    ["content that is invalid", { global: "{ x: 2", one: "{ x: 2 }", otherEnabled: "true" }, NOTHING],
    ["two sections, one of them off", { one: "{ x: 3 }", other: "{ x: 3 }" }, MODULE_RUN],
    ["section and flag", { one: "{ x: 3 }", otherEnabled: "true" }, RELOAD],
  ])("the ConfigMap changes: %s", async (_what, change, reaction) => {
    const lab = await startWith({ hook: hookOf("", values("/one/x")) });
    expect(await after(lab, () => lab.edit(change))).toEqual(reaction);
  });

  it("an absent object of a release: a module run", async () => {
    const lab = await startWith({ hook: hookOf("", values("/one/x")) });
    const absent = ["ns/Service/x"];
    expect(await after(lab, () => lab.state.recordModule("one", "objectsFoundMissing", absent))).toEqual(
      MODULE_RUN,
    );
  });
});
