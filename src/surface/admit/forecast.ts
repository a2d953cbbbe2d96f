/**
 * What an edit of the ConfigMap would do: which modules discovery would switch on or off and which releases the operator would remove, and
 * the same in words for a dry run. The simulation is a copy of the state with the edited content.
 */

import { listNames, sameJson, type Clock, type Limit } from "../../base/index.ts";
import { describeProblem, type JsonObject, type Module } from "../../base/model/index.ts";
import {
  collectModuleFacts,
  collectRemovalInput,
  decideEnablement,
  decideRemovals,
} from "../../engine/plan/index.ts";
import { isRunnable, type ModuleFacts, type ReleaseFacts, type Removals } from "../../engine/plan/index.ts";
import { problemOf, type Enablement, type State, type Simulation } from "../../engine/state/index.ts";

export interface AdmissionSources {
  readonly state: State;
  readonly observed: ReleaseFacts;
  readonly clock: Clock;
  readonly deleteBrake: Limit;
}

/** A module that the content switches on or off. */
interface EnablementChange {
  readonly facts: ModuleFacts;
  readonly decision: Enablement;
}

export interface Forecast {
  readonly enablementChanges: readonly EnablementChange[];
  readonly removals: Removals;
}

/**
 * Decides about the modules that are off, or are switched on or off by the content of the simulation, and about removals.
 * `enabled` scripts are not run: a module that its script has switched off stays off, and others count as switched on.
 */
export function forecastEdit(
  simulation: Simulation,
  { state, observed, clock, deleteBrake }: AdmissionSources,
): Forecast {
  const decisions = simulation.tree.modules.flatMap((module) =>
    forecastEnablement(collectModuleFacts(simulation, observed, module)),
  );
  for (const { facts, decision } of decisions) simulation.decide(facts.module.name, decision);
  const enablementChanges = decisions.filter(
    ({ facts, decision }) => decision.enabled !== facts.record.enabled,
  );
  const { isFrozen = false } = simulation.values.config ?? {};
  // The operator purges the release of a missing module after a second check. Here, that check counts as done long ago.
  const orphans = new Map(observed.withoutModule(simulation.tree).map((name) => [name, -Infinity]));
  // Removals are decided as if the content of the simulation were in force.
  const config = { ...state.view.config, condition: "ok" as const, isFrozen };
  const view = { ...state.view, config, orphans };
  const circumstances = { view, limit: deleteBrake, at: clock.monotonic() };
  const input = collectRemovalInput(simulation, observed, circumstances);
  return { enablementChanges, removals: decideRemovals(input) };
}

/** The decision of discovery about one module, as a list; empty if the module is on and the content does not switch it off. */
function forecastEnablement(facts: ModuleFacts): EnablementChange[] {
  const { enabled, enabledBy } = facts.record;
  const staysOn = enabled && facts.flag.enabled;
  if (staysOn) return [];
  // In place of running the `enabled` script: its last answer where that is known, otherwise yes.
  const scriptAnswer = { enabled: enabled || enabledBy !== "script" };
  const decision = decideEnablement(facts, scriptAnswer);
  return decision === "run-script" ? [] : [{ facts, decision }];
}

/** The decisions without and with the edit; undefined if it causes no converge. */
interface Forecasts {
  readonly before: Forecast;
  readonly after: Forecast;
}

/** Describes which modules would be installed, deleted, purged or run, and what waits or is invalid then, in one sentence each. */
export function describeEffects(
  simulation: Simulation,
  { state, forecasts }: { readonly state: State; readonly forecasts: Forecasts | undefined },
): string[] {
  if (forecasts === undefined) return describeActions({ run: findEditedModules(simulation, state) });
  const { before, after } = forecasts;
  const { enablementChanges, removals } = after;
  const problems = enablementChanges.flatMap(({ decision }) => decision.problem ?? []);
  // A blocker explains why a removal that is due does not happen, such as a protection of the module.
  const blockersBefore = new Set(before.removals.blockers.map(({ text }) => text));
  const newBlockers = removals.blockers.filter(({ text }) => !blockersBefore.has(text));
  // The caller describes a removal that exceeds the deletion limit.
  const exceedsLimit = removals.deletionLimit?.confirmed === false;
  const installs = enablementChanges.filter(wouldInstall).map(({ facts }) => facts.module.name);
  return [
    ...describeActions({
      install: installs,
      delete: excludeNames(removals.modulesToDelete, before.removals.modulesToDelete),
      purge: excludeNames(removals.releasesToPurge, before.removals.releasesToPurge),
      run: excludeNames(findModulesToRun(simulation), installs),
    }),
    ...problems.map((problem) => `would be Invalid: ${describeProblem(problem)}`),
    ...enablementChanges.flatMap((change) => describeMissingValues(change, simulation)),
    ...(exceedsLimit ? [] : newBlockers.map(({ text }) => text)),
  ];
}

const MAX_NAMES = 20;
const VERBS = ["install", "delete", "purge", "run"] as const;

/** E.g. `would install a, b`; says so if nothing would happen. */
function describeActions(names: Partial<Record<(typeof VERBS)[number], readonly string[]>>): string[] {
  const found = VERBS.filter((verb) => (names[verb]?.length ?? 0) > 0);
  if (found.length === 0) return ["no module would run"];
  return found.map((verb) => `would ${verb} ${listNames(names[verb] ?? [], MAX_NAMES)}`);
}

function excludeNames(names: readonly string[], others: readonly string[]): string[] {
  return names.filter((name) => !others.includes(name));
}

/** The modules that a converge would run. */
function findModulesToRun(simulation: Simulation): string[] {
  return simulation.tree.modules.flatMap(({ name }) => {
    const record = simulation.module(name);
    return record !== undefined && isRunnable({ ...record, problem: problemOf(record) }) ? name : [];
  });
}

/** The modules whose section or settings the edit changes, as far as they run. */
function findEditedModules(simulation: Simulation, { values, view: { modules } }: State): string[] {
  const isEdited = (module: Module): boolean => {
    const { name, valuesKey } = module;
    const settings = { ...values.settings(module) } as JsonObject;
    const newSettings = { ...simulation.values.settings(module) } as JsonObject;
    // Cheap comparisons first: most modules are not edited, and a view is expensive.
    const hasSameValues = simulation.values.mergedSection(valuesKey) === values.mergedSection(valuesKey);
    if (hasSameValues && sameJson(newSettings, settings)) return false;
    const view = simulation.viewOf(name);
    return view !== undefined && isRunnable(view) && modules.get(name)?.sectionDigest !== view.sectionDigest;
  };
  return simulation.tree.modules.filter(isEdited).map(({ name }) => name);
}

/** Whether the change would install a release: the module is switched on, has a chart and no release yet. */
function wouldInstall({ facts: { module, owner, settings }, decision }: EnablementChange): boolean {
  const runsHelm = module.chart !== "none" && !settings.suspended && module.unconfirmedMissing === undefined;
  return decision.enabled && decision.problem === undefined && owner === "none" && runsHelm;
}

/** The Secrets and ConfigMaps with values for which a module would wait. */
function describeMissingValues(
  { facts: { module }, decision }: EnablementChange,
  simulation: Simulation,
): string[] {
  const missing = simulation.viewOf(module.name)?.missingValues ?? [];
  if (!decision.enabled || missing.length === 0) return [];
  return [`${module.name} would wait for ${listNames(missing, MAX_NAMES)}`];
}
