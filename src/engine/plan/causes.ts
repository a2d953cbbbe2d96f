/**
 * Finds the causes of converges and module runs: compares the current state with what the last converge or run used. A *converge*
 * decides which modules are on (discovery), removes those that are off and runs the others; a *run* applies one module: its hooks and
 * its helm release. A user requests either by an annotation with a new token.
 */

import type { Cause } from "../../base/model/index.ts";
import {
  deriveFromModules,
  FILES_CAUSE,
  findChange,
  isRequested,
  REQUESTED_CAUSE,
  type ConvergeDigests,
  type ModuleView,
  type View,
} from "../state/index.ts";
import { isBlockedRemovalConfirmed } from "./deletion-limit.ts";
import { canStartRun, findDueRunBlocker, findRunBlocker } from "./run-readiness.ts";

const CONFIG_CAUSE: Cause = { kind: "config" };
/** Merged global values or flags, where the source of the change is unknown. */
export const GLOBALS_CAUSE: Cause = { kind: "globals" };

/** Whether what the ConfigMap sets for all modules together (`globalConfig`) changed since the last converge began: globals, flags, or what keeps releases. */
export function hasGlobalConfigChanged({ converge: { handled }, convergeDigests }: View): boolean {
  return handled !== undefined && handled.globalConfig !== convergeDigests.globalConfig;
}

/**
 * Why the current converge is stale; undefined if it may go on. It is stale if the global configuration
 * changed, or if files changed before all of its removals were done. A converge that is blocked, or only waits for modules, is also
 * stale if a user requests another one.
 */
export function findRestartCause(view: View): Cause | undefined {
  if (view.converge.phase === "idle") return undefined;
  if (hasGlobalConfigChanged(view)) return CONFIG_CAUSE;
  // In the phase `scheduledRuns` the converge only waits for runs in the modules' own queues.
  const isConvergeBlocked =
    view.converge.phase === "scheduledRuns" || activeModules(view).some((each) => each.retry !== undefined);
  // The changed files may keep a module that is still to be removed.
  if (!isConvergeBlocked) return view.pendingRemovals.length > 0 ? findFilesCause(view) : undefined;
  if (isRequested(view.requestedToken, view.handledToken)) return REQUESTED_CAUSE;
  return findConfirmationCause(view) ?? findFilesCause(view);
}

/** Why a converge is due while none runs; undefined if none is due. Of several causes it returns the first, in this order. */
export function findConvergeCause(view: View): Cause | undefined {
  const { handled } = view.converge;
  if (handled === undefined) return { kind: "start-up" };
  // An edit takes precedence over changes by hooks, since it goes to the front and must not wait behind a failing task.
  const config = hasGlobalConfigChanged(view) ? CONFIG_CAUSE : undefined;
  return (
    findRequestCause(view) ??
    findConfirmationCause(view) ??
    findInvalidModuleEditCause(view) ??
    config ??
    findFilesCause(view) ??
    findGlobalsCause(view, handled) ??
    findSecondCheckCause(view)
  );
}

/** The cause of a converge if a user requests one, or a run of a disabled or Invalid module, which cannot run before a discovery has enabled it. */
function findRequestCause(view: View): Cause | undefined {
  if (isRequested(view.requestedToken, view.handledToken)) return REQUESTED_CAUSE;
  const cannotRun = activeModules(view).filter((each) => !each.enabled || each.problem !== undefined);
  const isModuleRequested = cannotRun.some((each) => isRequested(each.requestedToken, each.handled.token));
  return isModuleRequested ? REQUESTED_CAUSE : undefined;
}

/** The cause of a converge if a user has confirmed the removal that the deletion limit blocks. */
function findConfirmationCause(view: View): Cause | undefined {
  return isBlockedRemovalConfirmed(view) ? { kind: "confirmed" } : undefined;
}

/** The cause of a converge if a user edited the ConfigMap section of an Invalid module: the next discovery checks the module again. */
function findInvalidModuleEditCause(view: View): Cause | undefined {
  const isEdited = activeModules(view).some(
    (each) => each.enabled && each.problem !== undefined && each.sectionDigest !== each.handled.section,
  );
  return isEdited ? CONFIG_CAUSE : undefined;
}

/**
 * Whether the plan needs a task that reads changed files of single modules, because no converge is about to read them: none is in
 * progress, or it has read the files already and only waits for runs (`scheduledRuns`).
 */
export function mustReadFilesWithoutConverge({ modulesWithChangedFiles, converge }: View): boolean {
  if (modulesWithChangedFiles === "all" || modulesWithChangedFiles.size === 0) return false;
  return converge.phase === "idle" || converge.phase === "scheduledRuns";
}

/** The cause of a converge if files changed that concern more than single modules, or that the converge in progress must read again. */
function findFilesCause(view: View): Cause | undefined {
  const { modulesWithChangedFiles } = view;
  const haveChanged = modulesWithChangedFiles === "all" || modulesWithChangedFiles.size > 0;
  const needsConverge = !mustReadFilesWithoutConverge(view);
  if (!haveChanged || !needsConverge) return undefined;
  // Hooks that change files at every converge must not end its back-off; the next try reads the files.
  return view.converge.isUnstable ? undefined : FILES_CAUSE;
}

/** The cause of a converge if the merged global values or flags differ from those (`globals`, a digest) that the last discovery used. */
function findGlobalsCause(view: View, { globals }: ConvergeDigests): Cause | undefined {
  const haveChanged = globals !== undefined && globals !== view.convergeDigests.globals;
  return haveChanged ? (view.globalCause ?? GLOBALS_CAUSE) : undefined;
}

/**
 * The cause of a converge after something was missing. Either Secrets or ConfigMaps with values, without which an `enabled` script
 * could not run, exist now. Or a file, a module or the ConfigMap was missing, and a second converge confirms that it still is.
 */
function findSecondCheckCause({ modules, secondCheck }: View): Cause | undefined {
  const canRunScript = (each: ModuleView): boolean => each.awaitsScript && each.missingValues.length === 0;
  if ([...modules.values()].some(canRunScript)) return { kind: "sources" };
  return secondCheck ? { kind: "second-check" } : undefined;
}

/** Why a run of the module is due outside of a converge; undefined if no run is due or the run may not start yet. */
export function findRunCause(module: ModuleView, view: View): Cause | undefined {
  if (!canStartRun(module)) return undefined;
  // The run was due before and waited for a requirement.
  if (module.blockedSince !== undefined)
    return findRunBlocker(module, view) === undefined ? { kind: "required" } : undefined;
  if (module.phase === "ready") return findEditCause(module) ?? findRepairCause(module);
  // A converge runs new modules itself.
  return view.converge.phase === "idle" ? { kind: "first-run" } : undefined;
}

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

/** Why a module that has run must run again: a user or a hook changed what its runs use. Undefined if its last run used the present inputs (`handled`). */
function findEditCause(module: ModuleView): Cause | undefined {
  const {
    requestedToken: token,
    handled,
    sectionDigest: section,
    valuesDigest: values,
    files,
    cause,
  } = module;
  return findChange(handled, { token, files, section, values }, cause);
}

/**
 * Why a module that has run must run again: its release is unhealthy or was changed, or objects of it are missing. Undefined
 * otherwise, and for a module without a chart, because its runs leave the release alone.
 */
function findRepairCause(view: ModuleView): Cause | undefined {
  if (view.suspended || view.module.chart === "none") return undefined;
  if (view.nextRunRollsBack) return { kind: "unhealthy" };
  const [object] = view.missingObjects;
  if (object !== undefined) return { kind: "missing", object };
  if (!view.isReleaseChangedByHand) return undefined;
  return { kind: "release", status: view.release?.status ?? "missing" };
}

/**
 * Names of the modules whose missing (deleted) objects must be restored by a task of its own, because their run, which would restore
 * them, waits for requirements or behind a failing task. `stalledQueues`: names of queues whose first task fails or takes too long.
 */
export function findModulesToRestore(view: View, stalledQueues: ReadonlySet<string>): string[] {
  const isRunWaiting = (module: ModuleView): boolean =>
    stalledQueues.has(view.moduleQueues.queueOf(module.name)) ||
    findDueRunBlocker(module, view) !== undefined;
  const modules = activeModules(view).filter((each) => canRestoreWithoutRun(each) && isRunWaiting(each));
  return modules.map(({ name }) => name);
}

/**
 * Whether missing objects of a module's release may be restored without a run: the module is installed, was enabled by the last converge
 * and still is, and nothing is about to change its release. A retry restores them itself, except after a failed hook, which may fail
 * before helm each time.
 */
export function canRestoreWithoutRun(module: ModuleView): boolean {
  const { phase, flag, activity, suspended, missingObjects, retry, release } = module;
  if (phase !== "ready" || activity !== "none" || !flag || suspended) return false;
  // Otherwise a converge must first decide about the module or apply its CRDs, or a user must act.
  if (!canStartRun(module)) return false;
  const retryReachesHelm = retry !== undefined && retry.reason !== "HookFailed";
  return missingObjects.length > 0 && !retryReachesHelm && release?.status === "deployed";
}
