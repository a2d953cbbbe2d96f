/**
 * Decides which modules may run now: their requirements are met (docs/reference/modules.md, "What a module requires"), and in
 * a converge the scheduled run of a module may start (docs/reference/lifecycle.md, "A queue for each module").
 */

import { formatUtc } from "../lib/index.ts";
import type { Cause } from "../model/index.ts";
import type { ModuleView, View } from "../state/index.ts";
import { activeModules } from "./active.ts";
import type { MissingValues } from "./requirements/missing-values.ts";
import { listUnmetRequirements, type UnmetReason } from "./requirements/requirements.ts";

/**
 * Whether a module may run: it is on, valid, and its files are there. While some are missing, a second read decides
 * whether it runs without them or is deleted.
 */
export function isRunnable(view: Pick<ModuleView, "enabled" | "problem" | "module">): boolean {
  return view.enabled && view.problem === undefined && view.module.missing === undefined;
}

/**
 * Whether a module's next run may begin: not before a converge has applied the CRDs of its files, and has run its
 * `enabled` script with all values.
 */
export function canStartRun(module: ModuleView): boolean {
  if (!isRunnable(module) || module.awaitsCrds) return false;
  // While values are missing, the script cannot run, and the run itself reports what is missing.
  return !module.awaitsScript || module.missingValues.length > 0;
}

/** A module with a run that the current converge has scheduled and that has not ended. */
type ModuleWithScheduledRun = ModuleView & { readonly scheduledRun: NonNullable<ModuleView["scheduledRun"]> };

function hasScheduledRun(module: ModuleView): module is ModuleWithScheduledRun {
  return module.scheduledRun !== undefined && isRunnable(module);
}

/**
 * Whether first runs of modules with larger numbers must wait for this module: until its first try has ended or takes too
 * long, but not while the module itself waits for requirements or CRDs.
 */
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
 * blocks no other. The titles in `test/plan/run-readiness.test.ts` list the cases.
 */
export function findStartableScheduledRuns(view: View): ReadonlyMap<string, Cause> {
  if (!canStartScheduledRuns(view)) return new Map();
  const candidates = activeModules(view).filter(hasScheduledRun);
  const blocking = candidates.filter((each) => blocksLaterFirstRuns(each, view));
  const lowestBlockingOrder = Math.min(...blocking.map(orderOf));
  const due = candidates.filter((each) => {
    if (each.scheduledRun.hasBegun || !canStartRun(each)) return false;
    return ignoresOrder(each) || orderOf(each) <= lowestBlockingOrder;
  });
  return new Map(due.map(({ name, scheduledRun }) => [name, scheduledRun.cause]));
}

/** Whether the current converge lets module queues start scheduled runs. */
function canStartScheduledRuns({ converge: { phase, isBlocked } }: View): boolean {
  return phase === "scheduledRuns" || (phase === "modules" && isBlocked);
}

/** Whether runs must wait until the current converge has decided which modules run. A blocked converge blocks no run. */
export function mustRunsWaitForConverge({ moduleQueues, converge: { phase, isBlocked } }: View): boolean {
  if (moduleQueues === "main" || isBlocked) return false;
  return phase === "beforeAll" || phase === "discovery" || phase === "modules";
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

/** What keeps a module's run from starting. */
export interface RunBlocker {
  /** A module, an object as `namespace/Kind/name`, or Kubernetes. */
  readonly awaitedName: string;
  readonly reason: UnmetReason | MissingValues["reason"] | "Pending";
  readonly message: string;
}

/** The first module named in `after` in `addon.yaml` that is on and was not tried yet; undefined if the module waits for none of them. */
function findPendingPredecessor({ module }: ModuleView, { modules }: View): string | undefined {
  return module.after?.find((name) => {
    const other = modules.get(name);
    if (other === undefined || !other.enabled || other.problem !== undefined) return false;
    const { phase, retry, blockedSince, isStuck } = other;
    return phase !== "ready" && retry === undefined && blockedSince === undefined && !isStuck;
  });
}

/** What keeps the module's run from starting: a missing Secret or ConfigMap, an unmet requirement, or a module named in `after`. Undefined if nothing does. */
export function findRunBlocker(module: ModuleView, view: View): RunBlocker | undefined {
  const [first, ...more] = listUnmetRequirements(module, view);
  if (first !== undefined) {
    const rest = more.length === 0 ? "" : ` and ${more.length} more`;
    const message = `${first.name}, which ${first.message}${rest}`;
    return { awaitedName: first.name, reason: first.reason, message };
  }
  const name = findPendingPredecessor(module, view);
  if (name === undefined) return undefined;
  return { awaitedName: name, reason: "Pending", message: `${name}, which runs before it` };
}

/** Sentences about all unmet requirements of a blocked module except the first, which `describeRunBlocker` reports. */
export function describeOtherBlockers(module: ModuleView, view: View): string[] {
  if (describeRunBlocker(module, view) === undefined) return [];
  const [, ...others] = listUnmetRequirements(module, view);
  return others.map(({ name, message }) => `and for ${name}, which ${message}`);
}

/** What a module whose run is blocked waits for, and since when; `message` is a sentence for users. Undefined for any other module. */
export function describeRunBlocker(module: ModuleView, view: View): RunBlocker | undefined {
  if (module.blockedSince === undefined || module.problem !== undefined) return undefined;
  const blocker = findRunBlocker(module, view);
  if (blocker === undefined) return undefined;
  return { ...blocker, message: `waits for ${blocker.message} (since ${formatUtc(module.blockedSince)})` };
}

/** The first requirement of an installed module that was met when the module ran and is not met any more, with a sentence for users. */
export function findLostRequirement(module: ModuleView, view: View): RunBlocker | undefined {
  if (!module.enabled || module.phase !== "ready") return undefined;
  const [lost] = listUnmetRequirements(module, view).filter(({ needsIntervention }) => needsIntervention);
  if (lost === undefined) return undefined;
  const { name, reason } = lost;
  return { awaitedName: name, reason, message: `it requires ${name}, which ${lost.message}` };
}
