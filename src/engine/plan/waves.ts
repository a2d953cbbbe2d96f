/**
 * Simulates in which order a start runs modules, in waves (docs/reference/commands.md, "plan"). It starts nothing: it applies the rules
 * about requirements to copies of the view in which runs count as started or succeeded, and those of `scheduled-runs.ts` if modules have
 * queues of their own.
 */

import { requiredKey } from "../../base/model/index.ts";
import type { ModuleView, View } from "../state/index.ts";
import { findRunCause } from "./causes.ts";
import { isRunnable, findRunBlocker } from "./run-readiness.ts";
import { findStartableScheduledRuns } from "./scheduled-runs.ts";

/** The order in which a start runs modules. */
interface StartOrder {
  /** The modules of a wave wait only for the waves before it. */
  readonly waves: readonly (readonly string[])[];
  /** Modules that cannot run, with what they wait for. */
  readonly blockedModules: ReadonlyMap<string, string>;
}

/** The waves of a simulation, and the view after the last one, which has the modules that are blocked. */
interface Simulation {
  readonly waves: readonly (readonly string[])[];
  readonly state: View;
}

/**
 * Simulates the first runs of all enabled modules and returns the waves in which they run. Assumes that no run fails, that all take equally
 * long, and that required objects exist. What is blocked then can never run.
 */
export function simulateStart(view: View): StartOrder {
  const names = [...view.modules.values()].filter(isRunnable).map(({ name }) => name);
  const before = toStateBeforeFirstRuns(view, names);
  const haveOwnQueues = names.some((name) => view.moduleQueues.hasOwnQueue(name));
  const { waves, state } = haveOwnQueues ? simulateOwnQueues(before) : simulateMain(before, names);
  const isBlocked = (each: ModuleView): boolean => isRunnable(each) && each.blockedSince !== undefined;
  const blocked = [...state.modules.values()].filter(isBlocked);
  const waits = blocked.map((each) => [each.name, findRunBlocker(each, state)?.message ?? ""] as const);
  return { waves, blockedModules: new Map(waits) };
}

/** Simulates queues of modules' own: smaller numbers run first, and modules with requirements as soon as the required modules have run. */
function simulateOwnQueues(before: View): Simulation {
  let state = before;
  const waves: (readonly string[])[] = [];
  for (;;) {
    const { startedModules, stateDuringWave } = simulateWave(state);
    state = withChanges(stateDuringWave, startedModules, markRunSucceeded);
    // The last wave starts nothing, but its state has the modules that are blocked.
    if (startedModules.length === 0) return { waves, state };
    waves.push(startedModules);
  }
}

/**
 * Simulates the queue `main`: each module is a wave, in the order of the tree (`names`). A blocked module leaves the queue, and comes to
 * its front when it is not blocked any more.
 */
function simulateMain(before: View, names: readonly string[]): Simulation {
  let state = before;
  const waves: (readonly string[])[] = [];
  const queue = [...names];
  for (let name = queue.shift(); name !== undefined; name = queue.shift()) {
    const module = state.modules.get(name);
    const canStart = module !== undefined && findRunBlocker(module, state) === undefined;
    if (canStart) waves.push([name]);
    state = withChanges(state, [name], canStart ? markRunSucceeded : () => RUN_BLOCKED);
    queue.unshift(...findUnblockedModules(state).filter((each) => !queue.includes(each)));
  }
  return { waves, state };
}

/** A copy of the view in which no module has run, and a converge has scheduled a run of each module that can run (`names`). */
function toStateBeforeFirstRuns(view: View, names: readonly string[]): View {
  const converge = { ...view.converge, phase: "scheduledRuns" as const };
  const modules = [...view.modules.values()];
  const required = modules.flatMap(({ module }) =>
    (module.requires?.objects ?? []).map((object) => requiredKey(object, module)),
  );
  // No message: the simulation assumes that the object is as required.
  const objects = new Map(required.map((key) => [key, { message: undefined }]));
  return withChanges({ ...view, converge, objects }, names, () => BEFORE_RUN);
}

const BEFORE_RUN: Partial<ModuleView> = {
  phase: "new",
  activity: "none",
  retry: undefined,
  rollbackReason: undefined,
  blockedSince: undefined,
  isStuck: false,
  awaitsCrds: false,
  awaitsScript: false,
  scheduledRun: { cause: { kind: "start-up" }, hasBegun: false },
};

/** The fields of a module whose simulated run waits for what the module requires. */
const RUN_BLOCKED: Partial<ModuleView> = { scheduledRun: undefined, blockedSince: 0 };

/** Marks all runs as started that may start before one of them ends. Returns the started modules and the view in which they run. */
function simulateWave(view: View) {
  const startedNames = new Set<string>();
  let state = view;
  // A started or blocked module may let others start: repeat until no more do.
  for (;;) {
    const names = findModulesToStart(state);
    if (names.length === 0) break;
    for (const name of names) {
      const module = state.modules.get(name);
      const canStart = module !== undefined && findRunBlocker(module, state) === undefined;
      if (canStart) startedNames.add(name);
      state = withChanges(state, [name], canStart ? markRunStarted : () => RUN_BLOCKED);
    }
  }
  const startedModules = [...state.modules.keys()].filter((name) => startedNames.has(name));
  return { startedModules, stateDuringWave: state };
}

/** Names of modules whose scheduled run may start, and of blocked modules whose requirements are met now. */
function findModulesToStart(view: View): string[] {
  return [...findStartableScheduledRuns(view).keys(), ...findUnblockedModules(view)];
}

/** Names of blocked modules whose requirements are met now. */
function findUnblockedModules(view: View): string[] {
  const unblocked = [...view.modules.values()].filter(
    (each) => each.blockedSince !== undefined && findRunCause(each, view),
  );
  return unblocked.map(({ name }) => name);
}

/** A copy of the view with changed modules. Views are immutable, because rules cache results by view. */
function withChanges(
  view: View,
  names: readonly string[],
  changeModule: (module: ModuleView) => Partial<ModuleView>,
): View {
  const modules = new Map(view.modules);
  for (const name of names) {
    const module = modules.get(name);
    if (module !== undefined) modules.set(name, { ...module, ...changeModule(module) });
  }
  return { ...view, modules };
}

/** The fields of a module whose simulated run has started. */
function markRunStarted({ scheduledRun }: ModuleView): Partial<ModuleView> {
  return {
    activity: "running",
    blockedSince: undefined,
    scheduledRun: scheduledRun && { ...scheduledRun, hasBegun: true },
  };
}

/** The fields of a module whose simulated run has succeeded, with a healthy release. */
function markRunSucceeded({ configDigest, requestedToken, module }: ModuleView): Partial<ModuleView> {
  return {
    phase: "ready",
    activity: "none",
    blockedSince: undefined,
    scheduledRun: undefined,
    handled: { config: configDigest, token: requestedToken, version: module.chartVersion },
    missingObjects: [],
    deferredObjects: [],
    releaseReadError: undefined,
    isReleaseChangedByHand: false,
    unhealthy: undefined,
    unready: undefined,
  };
}
