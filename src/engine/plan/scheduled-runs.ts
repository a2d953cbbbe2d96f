/**
 * Decides which runs may start now where each module has a queue of its own: a *converge* (the run of all modules) then only *schedules* a run of
 * each module, and waits for all of them (docs/reference/lifecycle.md, "A queue for each module").
 */

import type { Cause } from "../../base/model/index.ts";
import type { ModuleView, View } from "../state/index.ts";
import { activeModules } from "./causes.ts";
import { canStartRun, findRunBlocker, isRunnable } from "./run-readiness.ts";

/** A module with a run that the current converge has scheduled and that has not ended. */
type ModuleWithScheduledRun = ModuleView & { readonly scheduledRun: NonNullable<ModuleView["scheduledRun"]> };

function hasScheduledRun(module: ModuleView): module is ModuleWithScheduledRun {
  return module.scheduledRun !== undefined && isRunnable(module);
}

/** Whether first runs of modules with larger numbers wait for this module: until its first try has ended or takes too long, if it can start. */
function blocksLaterFirstRuns(module: ModuleView, view: View): boolean {
  const hasTried = module.phase === "ready" || module.retry !== undefined || module.isStuck;
  if (hasTried || !hasScheduledRun(module) || !canStartRun(module)) return false;
  return findRunBlocker(module, view) === undefined;
}

/**
 * The modules whose scheduled run may start now in the current converge, each with its cause; pure. Discovery schedules a
 * run of each enabled module. Modules that have run before, or that require something, start at once. First runs start in
 * the order of the modules' numbers: runs of equal numbers together, when those of smaller numbers have ended, failed, or
 * wait for something themselves. A run that takes longer than `LONG_RUN_MS`, or waits behind a failing hook in its queue,
 * blocks no other. The titles in `test/engine/plan/scheduled-runs.test.ts` list the cases.
 */
export function findStartableScheduledRuns(view: View): ReadonlyMap<string, Cause> {
  const { phase, isBlocked } = view.converge;
  // A failed step of the converge must not delay the modules' own queues.
  const mayQueuesStart = phase === "scheduledRuns" || (phase === "modules" && isBlocked);
  if (!mayQueuesStart) return new Map();
  const candidates = activeModules(view).filter(hasScheduledRun);
  const blocking = candidates.filter((each) => blocksLaterFirstRuns(each, view));
  // Infinity if none blocks others.
  const lowestBlockingOrder = Math.min(...blocking.map(orderOf));
  const due = candidates.filter((each) => {
    if (each.scheduledRun.hasBegun || !canStartRun(each)) return false;
    return ignoresOrder(each) || orderOf(each) <= lowestBlockingOrder;
  });
  return new Map(due.map(({ name, scheduledRun }) => [name, scheduledRun.cause]));
}

/** Whether a module starts regardless of its number: numbers order only first runs, and only of modules without `requires`. */
function ignoresOrder({ phase, module }: ModuleView): boolean {
  return phase === "ready" || module.requires !== undefined;
}

function orderOf({ module }: ModuleView): number {
  return module.order;
}

/** Names of the modules with smaller numbers for whose first run this module waits. */
export function findBlockingFirstRuns({ module }: ModuleView, view: View): string[] {
  const blockers = activeModules(view).filter(
    (each) => orderOf(each) < module.order && blocksLaterFirstRuns(each, view),
  );
  return blockers.map(({ name }) => name);
}

/** Names of the modules for which the current converge still waits: their scheduled run has neither ended nor failed, and is not stuck. */
export function findModulesAwaitedByConverge(view: View): string[] {
  const awaited = activeModules(view).filter((each) => hasScheduledRun(each) && !each.isStuck);
  return awaited.map(({ name }) => name);
}
