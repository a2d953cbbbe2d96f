/**
 * Decides which modules may run now: their requirements are met (docs/reference/modules.md, "What a module requires"), and in a
 * *converge* (the run of all modules) it is the turn of their run. Where each module has a queue of its own, a converge only
 * *schedules* a run of each module, and waits for all of them (docs/reference/lifecycle.md, "A queue for each module").
 */

import { formatUtc } from "../lib/index.ts";
import { queueOf, type Cause } from "../model/index.ts";
import { deriveFromModules, type ModuleView, type View } from "../state/index.ts";
import { listUnmetRequirements, type UnmetReason } from "./requirements.ts";

/** Whether a module may run: it is on, valid, and its files are there. If files are missing, a second read decides whether it runs without them. */
export function isRunnable(view: Pick<ModuleView, "enabled" | "problem" | "module">): boolean {
  return view.enabled && view.problem === undefined && view.module.missing === undefined;
}

/** Whether a module's next run may begin: not before a converge has applied the CRDs of its files, and has run its `enabled` script with all values. */
export function canStartRun(module: ModuleView): boolean {
  if (!isRunnable(module) || module.awaitsCrds) return false;
  // While values are missing, the script cannot run, and the run itself reports what is missing.
  return !module.awaitsScript || module.missingValues.length > 0;
}

/**
 * Names of the modules whose missing (deleted) objects must be restored by a task of its own, because their run, which would restore
 * them, waits for requirements or behind a failing task. `stalledQueues`: names of queues whose first task fails or takes too long.
 */
export function findModulesToRestore(view: View, stalledQueues: ReadonlySet<string>): string[] {
  const isRunWaiting = (module: ModuleView): boolean =>
    stalledQueues.has(queueOf(view.moduleQueues, module.name)) ||
    describeRunBlocker(module, view) !== undefined;
  const modules = activeModules(view).filter((each) => canRestoreWithoutRun(each) && isRunWaiting(each));
  return modules.map(({ name }) => name);
}

/**
 * Whether missing objects of a module's release may be restored without a run: the module is installed, stays on, and nothing is
 * about to change its release. A retry restores them itself, unless a hook fails before helm.
 */
export function canRestoreWithoutRun(module: ModuleView): boolean {
  const { phase, flag, activity, suspended, missingObjects, retry, release } = module;
  if (phase !== "ready" || activity !== "none" || !flag || suspended || !canStartRun(module)) return false;
  const retryReachesHelm = retry !== undefined && retry.reason !== "HookFailed";
  return missingObjects.length > 0 && !retryReachesHelm && release?.status === "deployed";
}

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
 * blocks no other. The titles in `test/plan/run-readiness.test.ts` list the cases.
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

/** Whether runs in the modules' own queues must wait until the current converge has scheduled its runs. A converge with a failed step delays no run. */
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
  readonly reason: UnmetReason | "ValuesMissing" | "Pending";
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
    const count = more.length === 0 ? "" : ` and ${more.length} more`;
    const message = `${first.name}, which ${first.message}${count}`;
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

/** What a module waits for whose run was due but blocked (`blockedSince`), and since when; `message` is a sentence for users. Undefined for any other module. */
export function describeRunBlocker(module: ModuleView, view: View): RunBlocker | undefined {
  if (module.blockedSince === undefined || module.problem !== undefined) return undefined;
  const blocker = findRunBlocker(module, view);
  if (blocker === undefined) return undefined;
  return { ...blocker, message: `waits for ${blocker.message} (since ${formatUtc(module.blockedSince)})` };
}

/** The first requirement of a module that was met when the module ran and now needs a user's intervention, with a sentence for users; undefined if none is lost. */
export function findLostRequirement(module: ModuleView, view: View): RunBlocker | undefined {
  if (!module.enabled || module.phase !== "ready") return undefined;
  const [lost] = listUnmetRequirements(module, view).filter(({ needsIntervention }) => needsIntervention);
  if (lost === undefined) return undefined;
  const { name, reason } = lost;
  return { awaitedName: name, reason, message: `it requires ${name}, which ${lost.message}` };
}

export const REQUESTED_CAUSE: Cause = { kind: "requested" };
export const FILES_CAUSE: Cause = { kind: "files" };

/** How much the plan has to check of a module. `new`: only its first run is due, which a converge starts; without a converge, the plan starts it. */
type Activity = "idle" | "new" | "active";

/** Caches by the map of views, which is immutable. */
const cachedActiveModules = new WeakMap<
  View["modules"],
  Record<"idle" | "converging", readonly ModuleView[]>
>();

/**
 * The modules that run, wait, or have a task due, in the order of the tree. While a converge is under way, new modules are left out:
 * the converge itself begins their first run. The plan checks only these modules, because it runs after each change of the state.
 */
export function activeModules(view: Pick<View, "modules" | "converge">): readonly ModuleView[] {
  const { modules, converge } = view;
  const lists = cachedActiveModules.get(modules) ?? findActiveModules(modules);
  cachedActiveModules.set(modules, lists);
  return converge.phase === "idle" ? lists.idle : lists.converging;
}

/** Computes both lists of `activeModules`: for the time without a converge, and for a converge, which starts new modules itself. */
function findActiveModules(modules: View["modules"]): Record<"idle" | "converging", readonly ModuleView[]> {
  const notIdle: ActiveModule[] = [];
  // Runs after each change of any module: a loop takes a tenth of the time of `filter`.
  for (const each of deriveFromModules(modules, toActiveModule)) if (each !== undefined) notIdle.push(each);
  return {
    idle: notIdle.map(({ view }) => view),
    converging: notIdle.filter(({ activity }) => activity === "active").map(({ view }) => view),
  };
}

/** A module that is not idle. */
interface ActiveModule {
  readonly view: ModuleView;
  readonly activity: Activity;
}

/** The module with its activity, which `deriveFromModules` caches; undefined if it is idle. */
function toActiveModule(view: ModuleView): ActiveModule | undefined {
  const activity = getActivity(view);
  return activity === "idle" ? undefined : { view, activity };
}

/** Classifies a module: `active` if it runs, waits, or has a task due; `new` if only its first run is due, which a converge starts; else `idle`. */
function getActivity(module: ModuleView): Activity {
  const { enabled, requestedToken, handled, phase } = module;
  if (!isAtRest(module)) return "active";
  if (!enabled) return isRequested(requestedToken, handled.token) ? "active" : "idle";
  if (phase !== "ready") return "new";
  return findEditCause(module) === undefined && findRepairCause(module) === undefined ? "idle" : "active";
}

/** Whether nothing runs for the module, and nothing is scheduled, blocked, broken or missing. Its inputs are not compared here. */
function isAtRest(module: ModuleView): boolean {
  const { activity, retry, blockedSince, scheduledRun, isStuck, problem, missingObjects } = module;
  if (activity !== "none" || retry !== undefined || scheduledRun !== undefined || isStuck) return false;
  return blockedSince === undefined && problem === undefined && missingObjects.length === 0;
}

/** Whether a request token is not handled yet. */
export function isRequested(token: string | undefined, handled: string | undefined): boolean {
  return token !== undefined && token !== handled;
}

/** Why a module that has run must run again: a user or a hook changed what its runs use. Undefined if its last run used the present inputs (`handled`). */
export function findEditCause(module: ModuleView): Cause | undefined {
  const { requestedToken, handled, sectionDigest, valuesDigest, files, cause } = module;
  if (isRequested(requestedToken, handled.token)) return REQUESTED_CAUSE;
  if (files !== undefined && files !== handled.files) return FILES_CAUSE;
  // The section of the ConfigMap has changed, or content of a Secret or ConfigMap that it refers to (`sources`).
  if (sectionDigest !== handled.section) return cause?.kind === "sources" ? cause : { kind: "section" };
  return valuesDigest === handled.values ? undefined : (cause ?? { kind: "values" });
}

/**
 * Why a module that has run must run again: its release is unhealthy or was changed, or objects of it are missing. Undefined
 * otherwise, and for a module without a chart, because its runs leave the release alone.
 */
export function findRepairCause(view: ModuleView): Cause | undefined {
  if (view.suspended || view.module.chart === "none") return undefined;
  if (view.nextRunRollsBack) return { kind: "unhealthy" };
  const [object] = view.missingObjects;
  if (object !== undefined) return { kind: "absent", object };
  if (!view.isReleaseChangedByHand) return undefined;
  return { kind: "release", status: view.release?.status ?? "missing" };
}
