/** Decides what is owed, a reload or runs of single modules (docs/LIFECYCLE.md, "What leads to what"). */

import { MAIN_QUEUE, moduleOf, queueOf, runModuleKey, type Cause, type Task } from "../model/index.ts";
import type { Coverage, ModuleView, View } from "../state/index.ts";
import { isConfirmedNow } from "./brake.ts";
import { restoresOwed } from "./restores.ts";
import { waitOf, mayBegin, turnsAreAhead, turnsDue, turnsLeft } from "./turns.ts";

/** Key of the reload task: there is at most one. */
export const RELOAD_KEY = "reload";

/** A task to offer to a queue. */
export interface Offer {
  readonly queue: string;
  readonly task: Task;
  readonly place: "front" | "back";
}

/** What follows from a view. */
export interface Plan {
  readonly offers: readonly Offer[];
  /** The reload under way is out of date: its waiting steps are dropped and a new reload is put in front. */
  readonly restart: Cause | undefined;
  /**
   * Modules whose configuration changed since their run or removal began: their back-off ends, and so does a long step
   * of it.
   */
  readonly outdated: readonly string[];
}

/** Start-up: its first tasks. */
const BOOT: Offer = { queue: MAIN_QUEUE, task: { kind: "boot", key: "boot" }, place: "back" };

const READ: Offer = {
  queue: MAIN_QUEUE,
  task: { kind: "read-modules", key: "read-modules" },
  place: "front",
};

const CONFIG: Cause = { kind: "config" };
/** Globals or flags, where nobody knows better. */
const GLOBALS: Cause = { kind: "globals" };
const REQUESTED: Cause = { kind: "requested" };
const FILES: Cause = { kind: "files" };

const NO_QUEUES: ReadonlySet<string> = new Set();

const NOTHING: Plan = { offers: [], restart: undefined, outdated: [] };

/**
 * View in, tasks out; pure. Tasks have keys, so planning twice does no harm: what waits or runs already is not taken
 * again. Each row compares what is there now with what was taken into account last; where several apply, their order
 * here says nothing: `runOwed` and `reloadOwed` say which is told as the reason. `stalled` are the queues whose head has failed. *Front* goes before what waits in the queue: `main`, or the module's own.
 *
 * | what differs                                                       | what follows                     | where |
 * | ------------------------------------------------------------------ | -------------------------------- | ----- |
 * | nothing was reloaded since the start                               | reload                           | front |
 * | request to the operator                                            | reload (a held up one anew)      | front |
 * | request to a module: off, or in need of a person                   | reload                           | front |
 * | request to a module: any other                                     | run of it                        | front |
 * | a removal is confirmed                                             | reload (a held up one anew)      | front |
 * | ConfigMap: `global`, a flag, what keeps the release of one that may be off | reload (one under way anew) | front |
 * | ConfigMap: section or any setting of a module                      | run of it                        | front |
 * | the same: in need of a person                                      | reload                           | front |
 * | the same: off                                                      | nothing                          |       |
 * | merged global values or flags, by a hook                           | reload, after the one under way  | back  |
 * | merged values of a module, by a hook                               | run of it                        | back, after its afterHelm front |
 * | objects of its release, or the release itself, by hand             | run of it, unless suspended      | back  |
 * | objects of its release, while its queue is stalled | they are put back, and a run of it as ever | a queue of its own |
 * | its release is not healthy in time, and is to be rolled back       | run of it, once, unless suspended | back |
 * | a first run was interrupted                                        | run of it, unless a reload does  | back  |
 * | a run was passed over, and what the module requires is there       | run of it                        | front |
 * | the same, and something is not there                               | nothing                          |       |
 * | something was missing in the directories                           | reload                           | back  |
 * | a file in the directories                                          | nothing: the next reload reads it, or the next run of its module |      |
 * | the same, noticed by `--watch-dirs`, of modules alone              | they are read, and run if that is all | front |
 * | the same, and other modules may have to do with it                 | reload (a held up one anew)      | front |
 * | the same, or files of one module, and removals of a reload are still ahead | the reload anew          | front |
 * | its turn in a reload (`turnsDue`), in a queue of its own           | run of it                        | back  |
 * | anything of this, and CRDs of the module are still to be applied   | nothing: the reload does that first |
 * | edit or request of one module alone, in a queue of its own, while it stays on | run of it, whatever reload is on its way | front |
 * | anything else of this, and all turns are still ahead               | nothing                          |       |
 * | all turns are over                                                 | the rest of the reload           | back  |
 */
export function plan(view: View, stalled: ReadonlySet<string> = NO_QUEUES): Plan {
  // A start waits for a ConfigMap that is missing; once read, its content stays in force whatever becomes of it.
  if (view.boot === "waiting" && view.config.isInForce) return { ...NOTHING, offers: [BOOT] };
  if (view.boot !== "converging" && view.boot !== "running") return NOTHING;
  const restart = restartOwed(view);
  if (restart !== undefined) return { ...NOTHING, restart };
  return { offers: [...allOwed(view), ...restores(view, stalled)], restart, outdated: outdatedRuns(view) };
}

/** Each in a queue of its own: one that fails holds up no other. */
function restores(view: View, stalled: ReadonlySet<string>): Offer[] {
  return restoresOwed(view, stalled).map((task) => ({
    queue: `restore/${task.module}`,
    task,
    place: "back",
  }));
}

/** The runs that are owed, and what is owed of a reload. */
function allOwed(view: View): readonly Offer[] {
  const { phase, cause = GLOBALS } = view.reload;
  const reload = phase === "idle" ? reloadOwed(view) : undefined;
  if (reload !== undefined) return besides(reload, view);
  return [...runsBesides(cause, view), ...(readsAlone(view) ? [READ] : [])];
}

function runsBesides(cause: Cause, view: View): readonly Offer[] {
  const runs = turnsAreAhead(view) ? runsOwed(view).filter((run) => goesBefore(run, view)) : runsOwed(view);
  if (view.reload.phase !== "turns" || turnsLeft(view).length > 0 || isFollowed(runs, view)) return runs;
  return [...runs, { ...reloadTask(cause), place: "back" }];
}

function runsOwed(view: View): Offer[] {
  const turns = turnsDue(view);
  return [...view.modules.values()].flatMap((module) => {
    const cause = turns.get(module.name) ?? runOwed(module, view);
    return cause === undefined ? [] : [runModule(module.name, cause, view)];
  });
}

/**
 * Leaves module runs to the coming reload: when it is at the front, all that may not go before it (the same edit may
 * disable modules), otherwise those that can wait.
 */
function besides(reload: Cause, view: View): Offer[] {
  const runs = runsOwed(view);
  if (placeOf(reload) === "front")
    return [reloadTask(reload), ...runs.filter((run) => goesBefore(run, view))];
  return [...runs.filter((run) => run.place === "front"), reloadTask(reload)];
}

/**
 * Whether a run waits for no reload that is on its way: it is in a queue of its own, and what a person asks of that
 * module alone, which is on, has run and stays on. Removals of that reload, or of one before, may take long.
 */
function goesBefore({ task }: Offer, { modules }: View): boolean {
  const module = modules.get(moduleOf(task) ?? "");
  if (task.slot !== "urgent" || module === undefined) return false;
  return module.phase === "ready" && module.flag && module.sectionDigest !== module.withReload;
}

/** Whether more runs belong to a reload before its end, those at the front: of modules that neither failed nor are stuck. */
function isFollowed(runs: readonly Offer[], { modules }: View): boolean {
  const inFront = new Set(runs.filter(({ place }) => place === "front").map(({ task }) => moduleOf(task)));
  return [...modules.values()].some(({ name, activity, retry, isStuck, lastRun }) => {
    if (retry !== undefined || isStuck) return false;
    const isUnderWay = activity !== "none" && lastRun !== undefined && placeOf(lastRun.trigger) === "front";
    return isUnderWay || inFront.has(name);
  });
}

/** Whether globals or flags of the ConfigMap differ from those that the last reload used. */
export function configOvertaken({ reload: { covered }, coverage }: View): boolean {
  return covered !== undefined && covered.globalConfig !== coverage.globalConfig;
}

/**
 * Whether the reload under way is out of date: the ConfigMap that it used is not in force any more; files changed before all
 * of its removals were carried out; or it makes no progress, or is left to modules alone, and somebody asks for another one,
 * having mended something.
 */
export function restartOwed(view: View): Cause | undefined {
  if (view.reload.phase === "idle") return undefined;
  if (configOvertaken(view)) return CONFIG;
  const isHeldUp =
    view.reload.phase === "turns" || [...view.modules.values()].some((each) => each.retry !== undefined);
  // Files may say by now that what is still to be removed stays.
  if (!isHeldUp) return view.removing.length > 0 ? filesMoved(view) : undefined;
  return (isAsked(view.requestedToken, view.handledToken) ? REQUESTED : confirmed(view)) ?? filesMoved(view);
}

/** Whether a reload is owed while none runs. */
export function reloadOwed(view: View): Cause | undefined {
  const { covered } = view.reload;
  if (covered === undefined) return { kind: "start-up" };
  // An edit is at the front, whatever hooks changed since: it must not wait behind a failing task.
  const config = configOvertaken(view) ? CONFIG : undefined;
  return (
    requested(view) ??
    confirmed(view) ??
    mended(view) ??
    config ??
    filesMoved(view) ??
    globalsMoved(view, covered) ??
    (view.secondLook ? { kind: "second-look" } : undefined)
  );
}

/** Modules that are disabled or Invalid have nothing to run: discovery answers their requests. */
function requested(view: View): Cause | undefined {
  const resting = [...view.modules.values()].filter((each) => !each.enabled || each.problem !== undefined);
  const asked = resting.some((each) => isAsked(each.requestedToken, each.handled.token));
  return asked || isAsked(view.requestedToken, view.handledToken) ? REQUESTED : undefined;
}

/** A token that was not answered yet. */
function isAsked(token: string | undefined, handled: string | undefined): boolean {
  return token !== undefined && token !== handled;
}

/** The reload that carries out the confirmed removal. */
function confirmed(view: View): Cause | undefined {
  return isConfirmedNow(view) ? { kind: "confirmed" } : undefined;
}

/** The section of an Invalid module was edited: it may be valid now. */
function mended({ modules }: View): Cause | undefined {
  const moved = [...modules.values()].some(
    (each) => each.enabled && each.problem !== undefined && each.sectionDigest !== each.handled.section,
  );
  return moved ? CONFIG : undefined;
}

/** Files of single modules are read by themselves where no reload does it, or has done it a moment ago. */
function readsAlone({ movedFiles, reload: { phase } }: View): boolean {
  return movedFiles !== "all" && movedFiles.size > 0 && (phase === "idle" || phase === "turns");
}

function filesMoved(view: View): Cause | undefined {
  const { movedFiles } = view;
  const hasMoved = movedFiles === "all" || movedFiles.size > 0;
  // Hooks that change files at every converge must not end its back-off. The next try reads the files.
  return hasMoved && !readsAlone(view) && !view.reload.isUnstable ? FILES : undefined;
}

function globalsMoved(view: View, { globals }: Coverage): Cause | undefined {
  const moved = globals !== undefined && globals !== view.coverage.globals;
  return moved ? (view.globalCause ?? GLOBALS) : undefined;
}

/** Why a module run is owed now; undefined when none is. */
export function runOwed(module: ModuleView, view: View): Cause | undefined {
  if (!mayBegin(module)) return undefined;
  if (module.heldSince !== undefined)
    return waitOf(module, view) === undefined ? { kind: "required" } : undefined;
  if (module.phase === "ready") return editOwed(module) ?? repairOwed(module);
  // During a reload, the reload sees to it.
  return view.reload.phase === "idle" ? { kind: "first-run" } : undefined;
}

function editOwed(module: ModuleView): Cause | undefined {
  const { requestedToken, handled, sectionDigest, valuesDigest, files, cause } = module;
  if (isAsked(requestedToken, handled.token)) return REQUESTED;
  if (files !== undefined && files !== handled.files) return FILES;
  if (sectionDigest !== handled.section) return { kind: "section" };
  return valuesDigest === handled.values ? undefined : (cause ?? { kind: "values" });
}

function repairOwed({ suspended, goesBack, absent, releaseMoved, release }: ModuleView): Cause | undefined {
  if (suspended) return undefined;
  if (goesBack) return { kind: "unhealthy" };
  const [object] = absent;
  if (object !== undefined) return { kind: "absent", object };
  return releaseMoved ? { kind: "release", status: release?.status ?? "gone" } : undefined;
}

/**
 * An edit of globals or flags concerns every run in `main`, where it keeps the reload waiting that may disable its
 * module. A queue of its own keeps nobody waiting: there, globals alone concern it.
 */
function outdatedRuns(view: View): string[] {
  const modules = [...view.modules.values()];
  const isMoved = view.moduleQueues === "own" ? isOvertaken : isOutdated;
  const areAll = view.moduleQueues === "main" && configOvertaken(view);
  return modules
    .filter((module) => (module.enabled ? areAll || isMoved(module) : isWantedAgain(module)))
    .map(({ name }) => name);
}

/** Its removal is under way, or failed, and an edit has switched it on again. What a script says, only discovery knows. */
function isWantedAgain({ enabled, activity, flag, enabledBy }: ModuleView): boolean {
  return !enabled && activity === "deleting" && flag && enabledBy !== "script";
}

function isOvertaken(module: ModuleView): boolean {
  const { enabled, activity, attempted, givenDigest } = module;
  return isOutdated(module) || (enabled && activity !== "none" && attempted?.given !== givenDigest);
}

/** A run that goes on or is to be tried again began with configuration or files that are not in force any more. */
function isOutdated({ enabled, activity, retry, attempted, sectionDigest, files }: ModuleView): boolean {
  const isAtWork = activity !== "none" || retry !== undefined;
  if (!enabled || !isAtWork || attempted === undefined) return false;
  // Hooks that change files at every run must not end their own back-off.
  const hasMoved = attempted.files !== files && retry?.reason !== "Unstable";
  return attempted.section !== sectionDigest || hasMoved;
}

/** The reload task. */
export function reloadTask(cause: Cause): Offer {
  return { queue: MAIN_QUEUE, task: { kind: "converge", key: RELOAD_KEY, cause }, place: placeOf(cause) };
}

/** The task of a module run; folds into one that waits. */
function runModule(module: string, cause: Cause, { moduleQueues }: View): Offer {
  const task: Task = { kind: "run-module", key: runModuleKey(module), module, cause };
  const offer = { queue: queueOf(moduleQueues, module), task, place: placeOf(cause) };
  if (moduleQueues === "main") return offer;
  const slot = BY_HAND.has(cause.kind) ? "urgent" : "usual";
  return { ...offer, task: { ...task, slot } };
}

/** What a person asked for does not wait for other modules' runs. */
const BY_HAND: ReadonlySet<Cause["kind"]> = new Set(["requested", "section"]);

const IN_FRONT: ReadonlySet<Cause["kind"]> = new Set([
  "start-up",
  "requested",
  "confirmed",
  "config",
  "section",
  "files",
  "required",
]);

/** Where in its queue it goes: edits and requests to the front, and what a module's own afterHelm hooks changed. */
export function placeOf(cause: Cause): "front" | "back" {
  const isOwn = cause.kind === "hook" && cause.by === "afterHelm";
  return isOwn || IN_FRONT.has(cause.kind) ? "front" : "back";
}
