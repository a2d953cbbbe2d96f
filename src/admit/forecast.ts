/** What discovery and removals would decide with content that is tried. */

import type { Clock, Limit } from "../lib/index.ts";
import {
  decideEnablement,
  collectModuleFacts,
  collectRemovalInput,
  decideRemovals,
  type ModuleFacts,
  type ReleaseFacts,
  type Removals,
} from "../plan/index.ts";
import type { Enablement, State, Simulation } from "../state/index.ts";

/** What the decisions about edits depend on. */
export interface AdmissionSources {
  readonly state: State;
  readonly observed: ReleaseFacts;
  readonly clock: Clock;
  readonly deleteBrake: Limit;
}

/** A module that the content switches on or off. */
export interface EnablementChange {
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
  const decided = simulation.tree.modules.flatMap((module) =>
    forecastEnablement(collectModuleFacts(simulation, observed, module)),
  );
  for (const { facts, decision } of decided) simulation.decide(facts.module.name, decision);
  const enablementChanges = decided.filter(
    ({ facts, decision }) => decision.enabled !== facts.record.enabled,
  );
  const { isFrozen = false } = simulation.values.config ?? {};
  // A second check will confirm which modules are missing: here it is taken for granted.
  const orphans = new Map(observed.withoutModule(simulation.tree).map((name) => [name, -Infinity]));
  const config = { ...state.view.config, condition: "ok" as const, isFrozen };
  const view = { ...state.view, config, orphans };
  const circumstances = { view, limit: deleteBrake, at: clock.monotonic() };
  const input = collectRemovalInput(simulation, observed, circumstances);
  return { enablementChanges, removals: decideRemovals(input) };
}

/** The decision of discovery about one module, as a list; empty if the module is on and stays on. */
function forecastEnablement(facts: ModuleFacts): EnablementChange[] {
  const { enabled, enabledBy } = facts.record;
  if (enabled && facts.flag.enabled) return [];
  const decision = decideEnablement(facts, { enabled: enabled || enabledBy !== "script" });
  return decision === "run-script" ? [] : [{ facts, decision }];
}
