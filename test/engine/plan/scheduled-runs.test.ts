import { describe, expect, it } from "vitest";

import { describeCause, ModuleQueues } from "../../../src/base/model/index.ts";
import { planTasks, findModulesAwaitedByConverge } from "../../../src/engine/plan/index.ts";
import type { ModuleView, View } from "../../../src/engine/state/index.ts";
import { moduleView, viewOf } from "../../report/views.ts";

type Change = Partial<ModuleView> & { readonly order?: number; readonly requires?: Record<string, string> };

/** A module that the converge under way is to run for the first time. */
function first(name: string, { order = 5, requires, ...change }: Change = {}): ModuleView {
  const module = { ...moduleView(name).module, order };
  const turn = { cause: { kind: "start-up" }, hasBegun: false } as const;
  const wanted =
    requires === undefined ? module : { ...module, requires: { modules: requires, objects: [] } };
  return moduleView(name, { phase: "new", scheduledRun: turn, module: wanted, ...change });
}

const BEGUN = { scheduledRun: { cause: { kind: "start-up" }, hasBegun: true }, activity: "running" } as const;
const OVER = { scheduledRun: undefined, phase: "ready" } as const;
const FAILED = {
  scheduledRun: undefined,
  retry: { reason: "HelmFailed", message: "no", failures: 1, since: 0 },
} as const;
const PERSON = { problem: { file: "values.yaml", message: "no YAML" } } as const;

const HANDLED = { globalConfig: "c1", globals: "g1" };

function during(modules: readonly ModuleView[], phase: View["converge"]["phase"] = "scheduledRuns"): View {
  const view = viewOf(modules, {
    moduleQueues: new ModuleQueues("own"),
    convergeDigests: HANDLED,
    secondCheck: false,
  });
  return { ...view, converge: { ...view.converge, phase, handled: HANDLED } };
}

/** Modules whose run begins, and the converge where its rest does. */
function reported(view: View): string[] {
  return planTasks(view).dueTasks.map(({ queue, task }) => {
    const name = task.kind === "run-module" ? task.module : task.kind;
    const cause = "cause" in task ? `: ${describeCause(task.cause)}` : "";
    return `${queue}: ${name}${cause}`;
  });
}

const runOf = (name: string): string => `module/${name}: ${name}: start-up`;

describe("the modules whose turn it is, with a queue for each module", () => {
  it.each<readonly [string, readonly ModuleView[], readonly string[]]>([
    ["equal numbers", [first("a"), first("b")], ["a", "b"]],
    ["a smaller number first", [first("a", { order: 1 }), first("b")], ["a"]],
    ["a smaller one runs", [first("a", { order: 1, ...BEGUN }), first("b")], []],
    [
      "one of two smaller ones runs",
      [first("a", { order: 1, ...BEGUN }), first("b", { order: 1, ...OVER }), first("c")],
      [],
    ],
    ["a smaller one is done", [first("a", { order: 1, ...OVER }), first("b")], ["b"]],
    ["a smaller one has failed once", [first("a", { order: 1, ...FAILED }), first("b")], ["b"]],
    ["a smaller one needs a person", [first("a", { order: 1, ...PERSON }), first("b")], ["b"]],
    ["a smaller one is off", [first("a", { order: 1, enabled: false }), first("b")], ["b"]],
    ["a larger one runs", [first("a", { order: 1 }), first("b", BEGUN)], ["a"]],
    ["its run is under way", [first("a", BEGUN)], []],
    [
      "it ran before, a smaller number runs",
      [first("a", { order: 1, ...BEGUN }), first("b", { phase: "ready" })],
      ["b"],
    ],
    [
      "a smaller one that ran before blocks no other",
      [first("a", { order: 1, phase: "ready", ...BEGUN }), first("b")],
      ["b"],
    ],
    [
      "nor does one whose first run failed before, or takes too long",
      [
        first("a", {
          order: 1,
          retry: { reason: "HookFailed", message: "no", failures: 1, since: 0 },
          ...BEGUN,
        }),
        first("b", { order: 1, isStuck: true, ...BEGUN }),
        first("c"),
      ],
      ["c"],
    ],
    [
      "it requires something: no number blocks it",
      [
        first("a", { order: 1, ...BEGUN }),
        first("b", { requires: { c: "*" } }),
        first("c", { ...OVER, order: 9 }),
      ],
      ["b"],
    ],
    [
      "a smaller one waits for what it requires: it blocks no other",
      [first("a", { order: 1, requires: { z: "*" }, scheduledRun: undefined, blockedSince: 1 }), first("b")],
      ["b"],
    ],
    [
      "the same, before its turn came",
      [first("a", { order: 1, requires: { z: "*" } }), first("b")],
      ["a", "b"],
    ],
  ])("%s", (_what, modules, expected) => {
    expect(reported(during(modules)).filter((line) => !line.startsWith("main"))).toEqual(expected.map(runOf));
  });

  it.each<readonly [string, readonly ModuleView[], boolean]>([
    ["none ran", [first("a")], false],
    ["one runs", [first("a", BEGUN), first("b", OVER)], false],
    ["all are done, or failed once", [first("a", OVER), first("b", FAILED)], true],
    ["one is tried again", [first("a", { ...FAILED, activity: "running" })], true],
    ["one needs a person", [first("a", PERSON)], true],
    [
      "one waits for what it requires",
      [first("a", { scheduledRun: undefined, requires: { z: "*" }, blockedSince: 1 })],
      true,
    ],
    ["one was edited meanwhile", [first("a", { ...OVER, sectionDigest: "s2" })], false],
    [
      "a failing one was edited meanwhile",
      [first("a", { ...FAILED, phase: "ready", sectionDigest: "s2" })],
      true,
    ],
  ])("%s: the rest of the converge follows: %#", (_what, modules, follows) => {
    expect(reported(during(modules)).some((line) => line.startsWith("main: converge"))).toBe(follows);
  });

  it.each(["beforeAll", "discovery", "modules"] as const)(
    "no turn begins before the converge has left %s",
    (phase) => {
      expect(reported(during([first("a")], phase))).toEqual([]);
      expect(findModulesAwaitedByConverge(during([first("a")], phase))).toEqual(["a"]);
    },
  );

  it.each(["beforeAll", "discovery", "modules"] as const)(
    "an edit that came with a flag waits for its turn while a converge is in %s, unless that is blocked",
    (phase) => {
      const view = during([moduleView("a", { sectionDigest: "s2", withConverge: "s2" })], phase);
      const isBlocked = { ...view, converge: { ...view.converge, isBlocked: true } };
      expect([reported(view), reported(isBlocked)]).toEqual([[], ["module/a: a: ConfigMap section changed"]]);
    },
  );

  it.each<readonly [string, Partial<ModuleView>, boolean]>([
    ["edited by itself", {}, true],
    ["requested", { sectionDigest: "v1-s1", requestedToken: "now" }, true],
    ["edited with a flag", { withConverge: "s2" }, false],
    ["edited since", { withConverge: "s1" }, true],
    ["about to be switched off", { flag: false }, false],
    ["not run yet", { phase: "new" }, false],
    ["whose CRDs are to be applied", { awaitsCrds: true }, false],
    ["whose values a hook changed", { sectionDigest: "v1-s1", valuesDigest: "v2" }, false],
  ])("a module %s, while a converge is on its way, in a queue of its own: %#", (_what, change, runs) => {
    const view = during([moduleView("a", { sectionDigest: "s2", ...change })], "discovery");
    const waiting = { ...view, convergeDigests: { ...HANDLED, globalConfig: "c2" } };
    const idle = { ...waiting, converge: { ...view.converge, phase: "idle" as const } };
    const ran = (each: View): boolean => reported(each).some((line) => line.startsWith("module/a"));
    expect([ran(view), ran(idle)]).toEqual([runs, runs]);
    expect(ran({ ...idle, moduleQueues: new ModuleQueues("main") })).toBe(false);
  });

  it("removals that fail let all turns begin", () => {
    const view = during([first("a"), first("b")], "modules");
    expect(reported({ ...view, converge: { ...view.converge, isBlocked: true } })).toEqual([
      runOf("a"),
      runOf("b"),
    ]);
  });

  it("a run by a user may use an extra slot, others share theirs", () => {
    const edited = moduleView("a", { sectionDigest: "s2" });
    const moved = moduleView("b", { valuesDigest: "v2" });
    const slots = planTasks(during([edited, moved, first("c")])).dueTasks.map(({ task }) => task.slot);
    expect(slots).toEqual(["urgent", "usual", "usual"]);
  });

  it("in main there are no turns", () => {
    const modules = [moduleView("a", { phase: "new" })];
    const view = { ...during(modules, "modules"), moduleQueues: new ModuleQueues("main") };
    expect([reported(view), findModulesAwaitedByConverge(view)]).toEqual([[], []]);
  });
});
