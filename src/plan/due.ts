/** Decides what is due, a converge or runs of single modules (docs/reference/lifecycle.md, "What leads to what"). */

import { MAIN_QUEUE, moduleOf, queueOf, runModuleKey, type Cause, type Task } from "../model/index.ts";
import type { ConvergeDigests, ModuleView, View } from "../state/index.ts";
import { activeModules, editDue, isRequested, repairDue } from "./active.ts";
import { isConfirmedNow } from "./deletion-limit.ts";
import { secondCheckCause } from "./missing-values.ts";
import { restoresDue } from "./restores.ts";
import { waitOf, mayBegin, turnsAreAhead, turnsDue, turnsLeft } from "./turns.ts";

/** Key of the converge task: there is at most one. */
export const CONVERGE_KEY = "reload";

/** A task to offer to a queue. */
export interface Offer {
  readonly queue: string;
  readonly task: Task;
  readonly place: "front" | "back";
}

/** What is due. */
export interface Plan {
  readonly offers: readonly Offer[];
  /** The current converge is stale: its waiting steps are dropped and a new converge is put in front. */
  readonly restart: Cause | undefined;
  /** Modules whose configuration changed since their run or removal began: its back-off ends, a long step is interrupted. */
  readonly outdated: readonly string[];
}

/** The first task of the start. */
const BOOT: Offer = { queue: MAIN_QUEUE, task: { kind: "boot", key: "boot" }, place: "back" };

const READ: Offer = {
  queue: MAIN_QUEUE,
  task: { kind: "read-modules", key: "read-modules" },
  place: "front",
};

const CONFIG: Cause = { kind: "config" };
/** Globals or flags, where the source of the change is unknown. */
const GLOBALS: Cause = { kind: "globals" };
const REQUESTED: Cause = { kind: "requested" };
const FILES: Cause = { kind: "files" };

const NO_QUEUES: ReadonlySet<string> = new Set();

const NOTHING: Plan = { offers: [], restart: undefined, outdated: [] };

/**
 * Decides from one view which tasks are due; pure. Tasks have keys, so planning twice adds nothing. Each rule compares the
 * current state with what the last run or converge used. `runDue` and `convergeDue` order the reasons: the first that
 * applies is reported. `stalled` are the queues whose head has failed or takes too long. "Front" means before everything
 * that waits in the queue, `main` or the module's own. The titles in `test/plan` list the cases.
 */
export function plan(view: View, stalled: ReadonlySet<string> = NO_QUEUES): Plan {
  // The start waits for a missing ConfigMap, and for Secrets with values to be read; once read, its content stays in force even if it is deleted.
  if (view.boot === "waiting" && view.config.isInForce && view.areSourcesRead)
    return { ...NOTHING, offers: [BOOT] };
  if (view.boot !== "converging" && view.boot !== "running") return NOTHING;
  const restart = restartDue(view);
  if (restart !== undefined) return { ...NOTHING, restart };
  return {
    offers: [...offersDue(view), ...offersOfRestores(view, stalled)],
    restart,
    outdated: outdatedRuns(view),
  };
}

/** Restores of missing objects. Each has a queue of its own, so that a failure blocks no other. */
function offersOfRestores(view: View, stalled: ReadonlySet<string>): Offer[] {
  return restoresDue(view, stalled).map((task) => ({
    queue: `restore/${task.module}`,
    task,
    place: "back",
  }));
}

/** The runs that are due, and the converge or the step of it that is due. */
function offersDue(view: View): readonly Offer[] {
  const { phase, cause = GLOBALS } = view.converge;
  const converge = phase === "idle" ? convergeDue(view) : undefined;
  if (converge !== undefined) return offersWithConverge(converge, view);
  return [...offersDuringConverge(cause, view), ...(mustReadModulesAlone(view) ? [READ] : [])];
}

/** Runs that may begin now and, when no run is left to wait for, the next step of the converge. */
function offersDuringConverge(cause: Cause, view: View): readonly Offer[] {
  const runs = turnsAreAhead(view)
    ? runsDue(view).filter((run) => mayPrecedeConverge(run, view))
    : runsDue(view);
  if (view.converge.phase !== "turns" || turnsLeft(view).length > 0 || hasMoreRuns(runs, view)) return runs;
  return [...runs, { ...convergeTask(cause), place: "back" }];
}

/** The runs that are due: those whose turn has come in the converge, and those with a cause of their own. */
function runsDue(view: View): Offer[] {
  const turns = turnsDue(view);
  return activeModules(view).flatMap((module) => {
    const cause = turns.get(module.name) ?? runDue(module, view);
    return cause === undefined ? [] : [runModule(module.name, cause, view)];
  });
}

/**
 * Offers a converge, and leaves module runs to it. A converge at the front takes all runs that may not precede it, because
 * the same edit may disable modules. A converge at the back takes only the runs that can wait.
 */
function offersWithConverge(converge: Cause, view: View): Offer[] {
  const runs = runsDue(view);
  if (placeOf(converge) === "front")
    return [convergeTask(converge), ...runs.filter((run) => mayPrecedeConverge(run, view))];
  return [...runs.filter((run) => run.place === "front"), convergeTask(converge)];
}

/**
 * Whether a run need not wait for a coming converge, whose removals may take long. A user must have requested the run for
 * this module alone, in the module's own queue. The module must be on and must have run before, and its section must not be
 * part of the edit that causes the converge.
 */
function mayPrecedeConverge({ task }: Offer, { modules }: View): boolean {
  const module = modules.get(moduleOf(task) ?? "");
  if (task.slot !== "urgent" || module === undefined) return false;
  return module.phase === "ready" && module.flag && module.sectionDigest !== module.withConverge;
}

/** Whether the end of a converge waits for more runs at the front, of modules that neither failed nor are stuck. */
function hasMoreRuns(runs: readonly Offer[], view: View): boolean {
  const inFront = new Set(runs.filter(({ place }) => place === "front").map(({ task }) => moduleOf(task)));
  return activeModules(view).some(({ name, activity, retry, isStuck, lastRun }) => {
    if (retry !== undefined || isStuck) return false;
    const isUnderWay = activity !== "none" && lastRun !== undefined && placeOf(lastRun.trigger) === "front";
    return isUnderWay || inFront.has(name);
  });
}

/** Whether globals or flags of the ConfigMap changed since the last converge. */
export function configSuperseded({ converge: { handled }, convergeDigests }: View): boolean {
  return handled !== undefined && handled.globalConfig !== convergeDigests.globalConfig;
}

/**
 * Why the current converge is stale; undefined if it may go on. It is stale if globals or flags of the ConfigMap changed, or
 * if files changed before all of its removals were done. A converge that is blocked, or only waits for modules, is also
 * stale if a user requests another one.
 */
export function restartDue(view: View): Cause | undefined {
  if (view.converge.phase === "idle") return undefined;
  if (configSuperseded(view)) return CONFIG;
  const isConvergeBlocked =
    view.converge.phase === "turns" || activeModules(view).some((each) => each.retry !== undefined);
  // The changed files may keep a module that is still to be removed.
  if (!isConvergeBlocked) return view.removing.length > 0 ? filesCause(view) : undefined;
  return (
    (isRequested(view.requestedToken, view.handledToken) ? REQUESTED : confirmedCause(view)) ??
    filesCause(view)
  );
}

/** Why a converge is due while none runs; undefined if none is due. The first reason that applies is reported. */
export function convergeDue(view: View): Cause | undefined {
  const { handled } = view.converge;
  if (handled === undefined) return { kind: "start-up" };
  // An edit takes precedence over changes by hooks, since it goes to the front and must not wait behind a failing task.
  const config = configSuperseded(view) ? CONFIG : undefined;
  return (
    requestedCause(view) ??
    confirmedCause(view) ??
    fixedCause(view) ??
    config ??
    filesCause(view) ??
    globalsCause(view, handled) ??
    secondCheckCause(view)
  );
}

/** A converge if a user requests one, or requests a run of a module that is disabled or Invalid: only discovery can answer that. */
function requestedCause(view: View): Cause | undefined {
  const resting = activeModules(view).filter((each) => !each.enabled || each.problem !== undefined);
  const isModuleRequested = resting.some((each) => isRequested(each.requestedToken, each.handled.token));
  return isModuleRequested || isRequested(view.requestedToken, view.handledToken) ? REQUESTED : undefined;
}

/** A converge if a user has confirmed the blocked removal. */
function confirmedCause(view: View): Cause | undefined {
  return isConfirmedNow(view) ? { kind: "confirmed" } : undefined;
}

/** A converge if the section of an Invalid module was edited: it may be valid now. */
function fixedCause(view: View): Cause | undefined {
  const moved = activeModules(view).some(
    (each) => each.enabled && each.problem !== undefined && each.sectionDigest !== each.handled.section,
  );
  return moved ? CONFIG : undefined;
}

/** Whether changed files of single modules must be read without a converge, because no converge is coming that reads them. */
function mustReadModulesAlone({ movedFiles, converge: { phase } }: View): boolean {
  return movedFiles !== "all" && movedFiles.size > 0 && (phase === "idle" || phase === "turns");
}

/** A converge if files changed that can affect more than single modules. */
function filesCause(view: View): Cause | undefined {
  const { movedFiles } = view;
  const hasMoved = movedFiles === "all" || movedFiles.size > 0;
  // Hooks that change files at every converge must not end its back-off; the next try reads the files.
  return hasMoved && !mustReadModulesAlone(view) && !view.converge.isUnstable ? FILES : undefined;
}

/** A converge if global values or flags changed since discovery. */
function globalsCause(view: View, { globals }: ConvergeDigests): Cause | undefined {
  const moved = globals !== undefined && globals !== view.convergeDigests.globals;
  return moved ? (view.globalCause ?? GLOBALS) : undefined;
}

/** Why a module run is due now; undefined when none is. */
export function runDue(module: ModuleView, view: View): Cause | undefined {
  if (!mayBegin(module)) return undefined;
  if (module.blockedSince !== undefined)
    return waitOf(module, view) === undefined ? { kind: "required" } : undefined;
  if (module.phase === "ready") return editDue(module) ?? repairDue(module);
  // A converge runs new modules itself.
  return view.converge.phase === "idle" ? { kind: "first-run" } : undefined;
}

/**
 * The modules whose run or removal began with configuration that is not in force any more.
 * In `main`, an edit of globals or flags makes every run outdated, because the run blocks the converge that may disable its
 * module. A run in its own queue blocks no converge: only an edit of globals makes it outdated. The removal of a disabled
 * module is outdated when an edit enables the module again.
 */
function outdatedRuns(view: View): string[] {
  const isRunOutdated = view.moduleQueues === "own" ? isOutdatedInOwnQueue : isOutdated;
  const areAll = view.moduleQueues === "main" && configSuperseded(view);
  const modules = areAll ? [...view.modules.values()] : activeModules(view);
  return modules
    .filter((module) => (module.enabled ? areAll || isRunOutdated(module) : isRemovalOutdated(module)))
    .map(({ name }) => name);
}

/** Whether an edit switches a module on again whose removal is in progress or failed. Only discovery runs `enabled` scripts. */
function isRemovalOutdated({ enabled, activity, flag, enabledBy }: ModuleView): boolean {
  return !enabled && activity === "deleting" && flag && enabledBy !== "script";
}

/** As `isOutdated`, and also if the run in progress began with other global values. */
function isOutdatedInOwnQueue(module: ModuleView): boolean {
  const { enabled, activity, attempted, givenDigest } = module;
  return isOutdated(module) || (enabled && activity !== "none" && attempted?.given !== givenDigest);
}

/** Whether a run in progress, or one to be retried, began with configuration or files that are not in force any more. */
function isOutdated({ enabled, activity, retry, attempted, sectionDigest, files }: ModuleView): boolean {
  const isAtWork = activity !== "none" || retry !== undefined;
  if (!enabled || !isAtWork || attempted === undefined) return false;
  // Hooks that change files at every run must not end their own back-off.
  const haveFilesChanged = attempted.files !== files && retry?.reason !== "Unstable";
  return attempted.section !== sectionDigest || haveFilesChanged;
}

export function convergeTask(cause: Cause): Offer {
  return { queue: MAIN_QUEUE, task: { kind: "converge", key: CONVERGE_KEY, cause }, place: placeOf(cause) };
}

/** The task of a module run; dropped where one waits. */
function runModule(module: string, cause: Cause, { moduleQueues }: View): Offer {
  const task: Task = { kind: "run-module", key: runModuleKey(module), module, cause };
  const offer = { queue: queueOf(moduleQueues, module), task, place: placeOf(cause) };
  if (moduleQueues === "main") return offer;
  const slot = USER_CAUSES.has(cause.kind) ? "urgent" : "usual";
  return { ...offer, task: { ...task, slot } };
}

/** Causes by which a user requests a run: it does not wait for a slot behind runs of other modules. */
const USER_CAUSES: ReadonlySet<Cause["kind"]> = new Set(["requested", "section", "sources"]);

const FRONT_CAUSES: ReadonlySet<Cause["kind"]> = new Set([
  "start-up",
  "requested",
  "confirmed",
  "config",
  "section",
  "sources",
  "files",
  "required",
]);

/** The place in the queue: edits, requests and changes by the module's own afterHelm hooks go to the front. */
export function placeOf(cause: Cause): "front" | "back" {
  const isOwn = cause.kind === "hook" && cause.by === "afterHelm";
  return isOwn || FRONT_CAUSES.has(cause.kind) ? "front" : "back";
}
