/** The order of first runs, in waves (docs/reference/commands.md, "plan"): a simulation with the rules of `turns.ts`. */

import { requiredKey } from "../model/index.ts";
import type { ModuleView, View } from "../state/index.ts";
import { runDue } from "./due.ts";
import { mayRun, turnsDue, waitOf } from "./turns.ts";

/** The order in which a start runs modules. */
interface Order {
  /** The modules of a wave wait only for the waves before it. */
  readonly waves: readonly (readonly string[])[];
  /** Modules that cannot run, with what they wait for. */
  readonly waits: ReadonlyMap<string, string>;
}

/**
 * The waves in which enabled modules run for the first time: smaller numbers first, and modules with requirements as soon
 * as these have run. Assumes that no run fails, that all take equally long, and that required objects exist.
 */
export function wavesOf(view: View): Order {
  let state = startOf(view);
  const waves: (readonly string[])[] = [];
  for (;;) {
    const { wave, during } = beginRuns(state);
    state = withChanges(during, wave, endOfRun);
    if (wave.length === 0) break;
    waves.push(wave);
  }
  const blocked = [...state.modules.values()].filter(
    (each) => mayRun(each) && each.blockedSince !== undefined,
  );
  const waits = blocked.map((each) => [each.name, waitOf(each, state)?.message ?? ""] as const);
  return { waves, waits: new Map(waits) };
}

/** The state in which all modules that may run have their turn ahead. */
function startOf(view: View): View {
  const converge = { ...view.converge, phase: "turns" as const };
  const modules = [...view.modules.values()];
  const required = modules.flatMap(({ module }) => module.requires?.objects ?? []);
  const objects = new Map(required.map((object) => [requiredKey(object), { message: undefined }]));
  const names = modules.filter(mayRun).map(({ name }) => name);
  return withChanges({ ...view, converge, objects }, names, () => BEFORE_RUN);
}

const BEFORE_RUN: Partial<ModuleView> = {
  phase: "new",
  activity: "none",
  retry: undefined,
  refused: undefined,
  blockedSince: undefined,
  isStuck: false,
  awaitsCrds: false,
  awaitsScript: false,
  turn: { cause: { kind: "start-up" }, begun: false },
};

/** Begins all runs that may begin before one of them ends. */
function beginRuns(view: View): { readonly wave: readonly string[]; readonly during: View } {
  const begun = new Set<string>();
  let state = view;
  for (;;) {
    const due = modulesToStart(state);
    if (due.length === 0) break;
    for (const name of due) {
      const module = state.modules.get(name);
      const mayStart = module !== undefined && waitOf(module, state) === undefined;
      if (mayStart) begun.add(name);
      state = withChanges(state, [name], mayStart ? beginOfRun : waitForRequirements);
    }
  }
  return { wave: [...state.modules.keys()].filter((name) => begun.has(name)), during: state };
}

/** Modules whose turn has come, and modules that waited for requirements which are met now. */
function modulesToStart(view: View): string[] {
  const unblocked = [...view.modules.values()].filter(
    (each) => each.blockedSince !== undefined && runDue(each, view),
  );
  return [...turnsDue(view).keys(), ...unblocked.map(({ name }) => name)];
}

/** A copy of the view with changed modules. Views are immutable, because rules cache results by view. */
function withChanges(
  view: View,
  names: readonly string[],
  by: (module: ModuleView) => Partial<ModuleView>,
): View {
  const modules = new Map(view.modules);
  for (const name of names) {
    const module = modules.get(name);
    if (module !== undefined) modules.set(name, { ...module, ...by(module) });
  }
  return { ...view, modules };
}

function beginOfRun({ turn }: ModuleView): Partial<ModuleView> {
  return { activity: "running", blockedSince: undefined, turn: turn && { ...turn, begun: true } };
}

/** The run waits for what the module requires. */
function waitForRequirements(): Partial<ModuleView> {
  return { turn: undefined, blockedSince: 0 };
}

/** The run has succeeded, and its release is healthy. */
function endOfRun({ configDigest: config, requestedToken: token, module }: ModuleView): Partial<ModuleView> {
  const handled = { config, token, version: module.chartVersion };
  const isFine = { absent: [], deferred: [], unread: undefined, releaseMoved: false };
  const isReady = { unhealthy: undefined, unready: undefined };
  return { phase: "ready", activity: "none", turn: undefined, handled, ...isFine, ...isReady };
}
