/**
 * Finds the causes of converges and module runs: compares the current state with what the last converge or run used. A *converge*
 * decides which modules are on (discovery), removes those that are off and runs the others; a *run* applies one module: its hooks and
 * its helm release. A user requests either by an annotation with a new token.
 */

import type { Cause } from "../model/index.ts";
import type { ConvergeDigests, ModuleView, View } from "../state/index.ts";
import {
  activeModules,
  FILES_CAUSE,
  findEditCause,
  findRepairCause,
  isRequested,
  REQUESTED_CAUSE,
  canStartRun,
  findRunBlocker,
} from "./run-readiness.ts";
import { isBlockedRemovalConfirmed } from "./deletion-limit.ts";
const CONFIG_CAUSE: Cause = { kind: "config" };
/** Globals or flags, where the source of the change is unknown. */
export const GLOBALS_CAUSE: Cause = { kind: "globals" };

/** Whether the ConfigMap's global section or its flags changed since the last converge began. */
export function hasGlobalConfigChanged({ converge: { handled }, convergeDigests }: View): boolean {
  return handled !== undefined && handled.globalConfig !== convergeDigests.globalConfig;
}

/**
 * Why the current converge is stale; undefined if it may go on. It is stale if globals or flags of the ConfigMap changed, or
 * if files changed before all of its removals were done. A converge that is blocked, or only waits for modules, is also
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
  return secondCheck ? { kind: "second-look" } : undefined;
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
