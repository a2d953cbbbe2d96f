import { describe, expect, it } from "vitest";

import type { Module, Problem } from "../../../src/base/model/index.ts";
import {
  decideEnablement,
  decideAllModules,
  mustLoadModule,
  classifyDisabledModules,
} from "../../../src/engine/plan/index.ts";
import type { ModuleFacts, ScriptAnswer } from "../../../src/engine/plan/index.ts";
import { newModuleRecord } from "../../../src/engine/state/index.ts";
import type { Enablement, ModuleRecord } from "../../../src/engine/state/index.ts";
import { NO_SETTINGS } from "../../../src/values/index.ts";

const PROBLEM: Problem = { file: "values.yaml", message: "no YAML" };
const BROKEN = { record: { loadProblem: PROBLEM } };

interface Change extends Partial<Omit<ModuleFacts, "module" | "record">> {
  readonly module?: Partial<Module>;
  readonly record?: Partial<ModuleRecord>;
}

/** A module that its flag switches on. */
function facts(change: Change = {}, name = "m"): ModuleFacts {
  const module = { name, valuesKey: name, dir: `/modules/${name}`, chart: "own", ...change.module } as Module;
  return {
    settings: NO_SETTINGS,
    flag: { enabled: true, by: "configmap" },
    owner: "none",
    isReserved: false,
    move: undefined,
    isRemovalBegun: false,
    lacksValues: false,
    findProblem: () => undefined,
    ...change,
    module,
    record: { ...newModuleRecord(module), ...change.record },
  };
}

const OFF = { flag: { enabled: false, by: "none" } } as const;
const SCRIPT = { module: { enabledScript: "/modules/m/enabled" } };
const KEPT = { settings: { ...NO_SETTINGS, protected: true } };
const WAS_ON = { isDiscovered: true, enabled: true, enabledBy: "script", enabledReason: "a GPU" } as const;

const UNREAD = "its files cannot be read";

describe("whether a module is on", () => {
  it.each<readonly [string, Change, ScriptAnswer | undefined, Enablement | "run-script"]>([
    ["its flag says so", {}, undefined, { enabled: true, by: "configmap" }],
    ["its flag denies it", OFF, undefined, { enabled: false, by: "none" }],
    ["its script has to run", SCRIPT, undefined, "run-script"],
    [
      "a script is not asked where the flag denies it",
      { ...SCRIPT, ...OFF },
      undefined,
      { enabled: false, by: "none" },
    ],
    [
      "its script agrees",
      SCRIPT,
      { enabled: true, reason: "a GPU" },
      { enabled: true, by: "configmap", reason: "a GPU" },
    ],
    ["its script denies it", SCRIPT, { enabled: false }, { enabled: false, by: "script" }],
    [
      "its values are broken",
      { findProblem: () => PROBLEM },
      undefined,
      { enabled: true, by: "configmap", problem: PROBLEM },
    ],
    [
      "its script denies it, and its values are broken: nobody has to mend them",
      { ...SCRIPT, findProblem: () => PROBLEM },
      { enabled: false },
      { enabled: false, by: "script" },
    ],
    [
      "its files cannot be read: as it was",
      { ...OFF, record: { ...WAS_ON, loadProblem: PROBLEM } },
      undefined,
      { enabled: true, by: "script", reason: "a GPU" },
    ],
    [
      "its files cannot be read, which alone keeps it off",
      { record: { isDiscovered: true, enabled: false, enabledBy: "module-values", loadProblem: PROBLEM } },
      undefined,
      { enabled: false, by: "none", reason: UNREAD },
    ],
    [
      "the same at a start, without a release",
      BROKEN,
      undefined,
      { enabled: false, by: "none", reason: UNREAD },
    ],
    [
      "the same at a start, with a release of ours",
      { ...BROKEN, ...OFF, owner: "ours" },
      undefined,
      { enabled: true, by: "none", reason: UNREAD },
    ],
    [
      "files of it are missing for the first time",
      { module: { unconfirmedMissing: { since: 1, what: ["."] } }, record: WAS_ON },
      undefined,
      { enabled: true, by: "script", reason: "a GPU" },
    ],
    ["protected, without a release", { ...OFF, ...KEPT }, undefined, { enabled: false, by: "none" }],
    [
      "a release of its name is never touched, but it has no chart",
      { module: { chart: "none" }, isReserved: true },
      undefined,
      { enabled: true, by: "configmap" },
    ],
  ])("%s", (...[_what, change, answer, expected]) => {
    expect(decideEnablement(facts(change), answer)).toEqual(expected);
  });

  it.each<readonly [string, Change, string]>([
    ["protected, and off", { ...OFF, ...KEPT, owner: "ours" }, "the module is protected but disabled"],
    [
      "its release would overwrite another",
      { isReserved: true },
      "the release of this name is the operator's own",
    ],
  ])("%s: a person has to say", (_what, change, message) => {
    expect(decideEnablement(facts(change))).toMatchObject({
      problem: { message: expect.stringContaining(message) },
    });
  });

  it("scripts see the modules before them that are on, those that need a person too", async () => {
    const requested: string[] = [];
    const worlds: Record<string, Change> = {
      a: { findProblem: () => PROBLEM },
      b: { ...OFF },
      c: SCRIPT,
      d: SCRIPT,
    };
    const modules = Object.keys(worlds).map((name) => facts(worlds[name], name).module);
    const decisions = await decideAllModules(modules, {
      collectFacts: ({ name }) => Promise.resolve(facts(worlds[name], name)),
      runScript: ({ name }, enabled) => {
        requested.push(`${name}: ${enabled.join()}`);
        return Promise.resolve({ enabled: name === "d" });
      },
    });
    expect(requested).toEqual(["c: a", "d: a"]);
    expect([...decisions.values()].map(({ enabled }) => enabled)).toEqual([true, false, false, true]);
  });

  it.each<readonly [string, Change, boolean]>([
    ["on", {}, true],
    ["off", OFF, false],
    ["off with a release of ours", { ...OFF, owner: "ours" }, true],
    ["off with somebody else's", { ...OFF, owner: "foreign" }, false],
    ["off, having run", { ...OFF, record: { hasRunInProcess: true } }, true],
  ])("hooks and schemas of a module that is %s matter: %j", (_what, change, expected) => {
    expect(mustLoadModule(facts(change))).toBe(expected);
  });
});

describe("which modules are removed", () => {
  const off = (change: Change = {}): Change => ({ owner: "ours", ...change });
  it.each<readonly [string, Change, string]>([
    ["off with a release of ours", off(), "off"],
    ["off, having run without a release", off({ owner: "none", record: { hasRunInProcess: true } }), "off"],
    ["off without anything", off({ owner: "none" }), ""],
    ["on", off({ record: { enabled: true } }), ""],
    ["off with somebody else's release", off({ owner: "foreign" }), "foreign"],
    ["protected", off(KEPT), ""],
    ["suspended", off({ settings: { ...NO_SETTINGS, suspended: true } }), ""],
    ["in need of a person", off({ record: { decisionProblem: PROBLEM } }), ""],
    ["off by its script", off({ record: { enabledBy: "script" } }), "off"],
  ])("%s: %s", (_what, change, expected) => {
    const { modulesOff, foreignModules } = classifyDisabledModules([facts(change)]);
    expect(
      Object.entries({ off: modulesOff, foreign: foreignModules })
        .flatMap(([where, list]) => list.map(() => where))
        .join(),
    ).toBe(expected);
  });

  it("in reverse order; those that a script switched off only if every module is decided", () => {
    const all = ["a", "b", "c"].map((name) =>
      facts(off({ record: { enabledBy: name === "b" ? "script" : "none" } }), name),
    );
    const removed = (list: readonly ModuleFacts[]) => {
      const { modulesOff, scriptsUndecided } = classifyDisabledModules(list);
      return { names: modulesOff.map(({ module }) => module.name), why: scriptsUndecided };
    };
    const failedScript = { record: { decisionProblem: { ...PROBLEM, retriedAs: "ScriptFailed" } } } as const;
    expect(removed(all)).toEqual({ names: ["c", "b", "a"], why: undefined });
    expect(removed([...all, facts(BROKEN, "d")])).toEqual({
      names: ["c", "a"],
      why: "not all files of modules can be read",
    });
    expect(removed([...all, facts(failedScript, "d")])).toEqual({
      names: ["c", "a"],
      why: "the enabled script of d failed",
    });
  });
});
