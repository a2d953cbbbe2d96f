import { describe, expect, it } from "vitest";

import { describeCause } from "../../src/model/index.ts";
import { plan, turnsLeft } from "../../src/plan/index.ts";
import type { ModuleView, View } from "../../src/state/index.ts";
import { moduleView, viewOf } from "../status/views.ts";

type Change = Partial<ModuleView> & { readonly order?: number; readonly requires?: Record<string, string> };

/** A module that the reload under way is to run for the first time. */
function first(name: string, { order = 5, requires, ...change }: Change = {}): ModuleView {
  const module = { ...moduleView(name).module, order };
  const turn = { cause: { kind: "start-up" }, begun: false } as const;
  const wanted =
    requires === undefined ? module : { ...module, requires: { modules: requires, objects: [] } };
  return moduleView(name, { phase: "new", turn, module: wanted, ...change });
}

const BEGUN = { turn: { cause: { kind: "start-up" }, begun: true }, activity: "running" } as const;
const OVER = { turn: undefined, phase: "ready" } as const;
const FAILED = { turn: undefined, retry: { reason: "HelmFailed", message: "no", failures: 1 } } as const;
const PERSON = { problem: { file: "values.yaml", message: "no YAML" } } as const;

const COVERED = { globalConfig: "c1", globals: "g1" };

function during(modules: readonly ModuleView[], phase: View["reload"]["phase"] = "turns"): View {
  const view = viewOf(modules, { moduleQueues: "own", coverage: COVERED, secondLook: false });
  return { ...view, reload: { ...view.reload, phase, covered: COVERED } };
}

/** Modules whose run begins, and the reload where its rest does. */
function told(view: View): string[] {
  return plan(view).offers.map(({ queue, task }) => {
    const name = task.kind === "run-module" ? task.module : task.kind;
    const cause = "cause" in task ? `: ${describeCause(task.cause)}` : "";
    return `${queue}: ${name}${cause}`;
  });
}

const runOf = (name: string): string => `module/${name}: ${name}: start-up`;

describe("whose turn it is, where each module has a queue of its own", () => {
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
      "a smaller one that ran before holds up nobody",
      [first("a", { order: 1, phase: "ready", ...BEGUN }), first("b")],
      ["b"],
    ],
    [
      "nor does one whose first run failed before, or takes too long",
      [
        first("a", { order: 1, retry: { reason: "HookFailed", message: "no", failures: 1 }, ...BEGUN }),
        first("b", { order: 1, isStuck: true, ...BEGUN }),
        first("c"),
      ],
      ["c"],
    ],
    [
      "it requires something: no number holds it up",
      [
        first("a", { order: 1, ...BEGUN }),
        first("b", { requires: { c: "*" } }),
        first("c", { ...OVER, order: 9 }),
      ],
      ["b"],
    ],
    [
      "a smaller one waits for what it requires: it holds up nobody",
      [first("a", { order: 1, requires: { z: "*" }, turn: undefined, heldSince: 1 }), first("b")],
      ["b"],
    ],
    [
      "the same, before its turn came",
      [first("a", { order: 1, requires: { z: "*" } }), first("b")],
      ["a", "b"],
    ],
  ])("%s", (_what, modules, expected) => {
    expect(told(during(modules)).filter((line) => !line.startsWith("main"))).toEqual(expected.map(runOf));
  });

  it.each<readonly [string, readonly ModuleView[], boolean]>([
    ["none ran", [first("a")], false],
    ["one runs", [first("a", BEGUN), first("b", OVER)], false],
    ["all are done, or failed once", [first("a", OVER), first("b", FAILED)], true],
    ["one is tried again", [first("a", { ...FAILED, activity: "running" })], true],
    ["one needs a person", [first("a", PERSON)], true],
    [
      "one waits for what it requires",
      [first("a", { turn: undefined, requires: { z: "*" }, heldSince: 1 })],
      true,
    ],
    ["one was edited meanwhile", [first("a", { ...OVER, sectionDigest: "s2" })], false],
    [
      "a failing one was edited meanwhile",
      [first("a", { ...FAILED, phase: "ready", sectionDigest: "s2" })],
      true,
    ],
  ])("%s: the rest of the reload follows: %#", (_what, modules, follows) => {
    expect(told(during(modules)).some((line) => line.startsWith("main: converge"))).toBe(follows);
  });

  it.each(["beforeAll", "discovery", "modules"] as const)(
    "nobody's before the reload has left %s",
    (phase) => {
      expect(told(during([first("a")], phase))).toEqual([]);
      expect(turnsLeft(during([first("a")], phase))).toEqual(["a"]);
    },
  );

  it.each(["beforeAll", "discovery", "modules"] as const)(
    "an edit that came with a flag waits for its turn while a reload is in %s, unless that is held up",
    (phase) => {
      const view = during([moduleView("a", { sectionDigest: "s2", withReload: "s2" })], phase);
      const heldUp = { ...view, reload: { ...view.reload, heldUp: true } };
      expect([told(view), told(heldUp)]).toEqual([[], ["module/a: a: ConfigMap section changed"]]);
    },
  );

  it.each<readonly [string, Partial<ModuleView>, boolean]>([
    ["edited by itself", {}, true],
    ["requested", { sectionDigest: "v1-s1", requestedToken: "now" }, true],
    ["edited with a flag", { withReload: "s2" }, false],
    ["edited since", { withReload: "s1" }, true],
    ["about to be switched off", { flag: false }, false],
    ["not run yet", { phase: "new" }, false],
    ["whose CRDs are to be applied", { awaitsCrds: true }, false],
    ["whose values a hook changed", { sectionDigest: "v1-s1", valuesDigest: "v2" }, false],
  ])("a module %s, while a reload is on its way, in a queue of its own: %#", (_what, change, runs) => {
    const view = during([moduleView("a", { sectionDigest: "s2", ...change })], "discovery");
    const waiting = { ...view, coverage: { ...COVERED, globalConfig: "c2" } };
    const idle = { ...waiting, reload: { ...view.reload, phase: "idle" as const } };
    const ran = (each: View): boolean => told(each).some((line) => line.startsWith("module/a"));
    expect([ran(view), ran(idle)]).toEqual([runs, runs]);
    expect(ran({ ...idle, moduleQueues: "main" })).toBe(false);
  });

  it("removals that fail let all turns begin", () => {
    const view = during([first("a"), first("b")], "modules");
    expect(told({ ...view, reload: { ...view.reload, heldUp: true } })).toEqual([runOf("a"), runOf("b")]);
  });

  it("a run by hand may take a place of its own, others share theirs", () => {
    const edited = moduleView("a", { sectionDigest: "s2" });
    const moved = moduleView("b", { valuesDigest: "v2" });
    const slots = plan(during([edited, moved, first("c")])).offers.map(({ task }) => task.slot);
    expect(slots).toEqual(["urgent", "usual", "usual"]);
  });

  it("in main there are no turns", () => {
    const modules = [moduleView("a", { phase: "new" })];
    const view = { ...during(modules, "modules"), moduleQueues: "main" as const };
    expect([told(view), turnsLeft(view)]).toEqual([[], []]);
  });
});
