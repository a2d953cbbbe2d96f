/**
 * Decides which tasks are due, a converge or runs of single modules (docs/reference/lifecycle.md, "What leads to what"), and adds them
 * to the queues. A *converge* decides which modules are on, removes the others and runs modules. Each module's run waits in the queue
 * `main` or, with `--module-queues=own`, in the module's own queue; the converge waits in `main`.
 */

import { MAIN_QUEUE, moduleOf, runModuleKey } from "../../base/model/index.ts";
import type { Cause, Span, Task } from "../../base/model/index.ts";
import { LONG_RUN_MS, type QueuePosition, type Queues } from "../queue/index.ts";
import { hasFailedScript, type ModuleView, type State, type View } from "../state/index.ts";
import {
  activeModules,
  findConvergeCause,
  findModulesToRestore,
  findRestartCause,
  findRunCause,
} from "./causes.ts";
import { GLOBALS_CAUSE, hasGlobalConfigChanged, mustReadFilesWithoutConverge } from "./causes.ts";
import { findModulesAwaitedByConverge, findStartableScheduledRuns } from "./scheduled-runs.ts";

/** Key of the converge task: there is at most one. */
const CONVERGE_KEY = "converge";

/** A task that is due, with the queue and the position at which the engine adds the task. */
interface DueTask {
  readonly queue: string;
  readonly task: Task;
  readonly position: QueuePosition;
}

/** The result of planning: tasks that are due, and whether the current converge or current runs are stale. */
interface Plan {
  readonly dueTasks: readonly DueTask[];
  /** Why the current converge is stale: the engine drops its waiting steps and adds a new converge at the front. Undefined if it may go on. */
  readonly restartCause: Cause | undefined;
  /** Modules whose configuration changed since their run or removal began. The engine ends the back-off of that task and interrupts it if it takes long. */
  readonly outdatedModules: readonly string[];
}

/** The first task of the start. */
const BOOT_TASK: DueTask = { queue: MAIN_QUEUE, task: { kind: "boot", key: "boot" }, position: "back" };

const READ_MODULES_TASK: DueTask = {
  queue: MAIN_QUEUE,
  task: { kind: "read-modules", key: "read-modules" },
  position: "first",
};

const EMPTY_PLAN: Plan = { dueTasks: [], restartCause: undefined, outdatedModules: [] };

/**
 * Decides from one view which tasks are due; pure. Tasks have keys, so planning twice adds nothing. Each rule compares the
 * current state with what the last run or converge used. `stalledQueues` are the queues whose head has failed or takes too long.
 * Runs with the position `front` start in the order in which they became due. A converge and the reading of files, which may make them
 * unnecessary, are `first`. The titles in `test/engine/plan` list the cases.
 */
export function planTasks(view: View, stalledQueues: ReadonlySet<string> = new Set()): Plan {
  // The start waits until the ConfigMap exists and Secrets with values are read. Content that was read stays in force even if the ConfigMap is deleted.
  if (view.boot === "waiting" && view.config.isInForce && view.areSourcesRead)
    return { ...EMPTY_PLAN, dueTasks: [BOOT_TASK] };
  // Before its first converge, the start executes its steps without the plan.
  if (view.boot !== "converging" && view.boot !== "running") return EMPTY_PLAN;
  const restartCause = findRestartCause(view);
  if (restartCause !== undefined) return { ...EMPTY_PLAN, restartCause };
  return planRunning(stalledQueues.has(MAIN_QUEUE) ? withBlockedConverge(view) : view, stalledQueues);
}

/** The view of a converge whose step takes so long that it delays runs no more, as one that has failed. */
function withBlockedConverge(view: View): View {
  return { ...view, converge: { ...view.converge, isBlocked: true } };
}

/** The tasks that are due while the operator runs, and the converge need not restart. */
function planRunning(view: View, stalledQueues: ReadonlySet<string>): Plan {
  // Restores bring back deleted objects of a release. Each module has a restore queue, so that a failed restore blocks no other module.
  const restores = findModulesToRestore(view, stalledQueues).map((module): DueTask => ({
    queue: `restore/${module}`,
    task: { kind: "restore-objects", key: `restore-objects/${module}`, module },
    position: "back",
  }));
  const dueTasks = [...findDueRunsAndConverge(view), ...restores, ...findDueScripts(view)];
  return { dueTasks, restartCause: undefined, outdatedModules: findOutdatedModules(view) };
}

/**
 * The `enabled` scripts to try again, which failed in the last discovery for their modules alone. Each has a queue, so that it
 * delays nothing. None is due if a converge is about to run them all.
 */
function findDueScripts(view: View): DueTask[] {
  const { phase } = view.converge;
  if (view.secondCheck || phase === "beforeAll" || phase === "discovery") return [];
  return activeModules(view)
    .filter(hasFailedScript)
    .map(({ name: module }) => ({
      queue: `enabled/${module}`,
      task: { kind: "enabled-script", key: `enabled-script/${module}`, module },
      position: "back",
    }));
}

/** The module runs that are due, together with a new converge or the last step of the converge in progress if that is due. */
function findDueRunsAndConverge(view: View): readonly DueTask[] {
  const { phase, cause = GLOBALS_CAUSE } = view.converge;
  const newConvergeCause = phase === "idle" ? findConvergeCause(view) : undefined;
  if (newConvergeCause !== undefined) return planNewConverge(newConvergeCause, view);
  const tasks = findDueRunsAndLastStep(cause, view);
  return mustReadFilesWithoutConverge(view) ? [READ_MODULES_TASK, ...tasks] : tasks;
}

/** The module runs that may start while no new converge is due. After all runs that the converge has scheduled, also its task again, for the afterAll hooks. */
function findDueRunsAndLastStep(cause: Cause, view: View): readonly DueTask[] {
  const runs = findDueRuns(view).filter((run) => !mustWaitForConverge(run, view));
  const haveScheduledRunsEnded =
    view.converge.phase === "scheduledRuns" && findModulesAwaitedByConverge(view).length === 0;
  // Runs that are due at the front come before the last step.
  if (!haveScheduledRunsEnded || isFrontRunPending(runs, view)) return runs;
  return [...runs, { ...buildConvergeTask(cause), position: "back" }];
}

/**
 * Whether a run in its module's own queue must wait until the current converge has scheduled its runs. In `main`, the queue orders both.
 * A converge with a failed step delays no run.
 */
function mustWaitForConverge(run: DueTask, view: View): boolean {
  const { phase, isBlocked } = view.converge;
  const isBeforeRuns = phase === "beforeAll" || phase === "discovery" || phase === "modules";
  if (run.queue === MAIN_QUEUE || !isBeforeRuns || isBlocked) return false;
  return !mayPrecedeConverge(run, view);
}

/** The module runs that are due: runs that the converge has scheduled and that may start now, and runs with a cause of their own. */
function findDueRuns(view: View): DueTask[] {
  const scheduledCauses = findStartableScheduledRuns(view);
  return activeModules(view).flatMap((module) => {
    const cause = scheduledCauses.get(module.name) ?? findRunCause(module, view);
    return cause === undefined ? [] : [buildRunTask(module.name, cause, view)];
  });
}

/**
 * Plans a new converge and the module runs that need not wait for it. The converge itself runs all other modules. An edit causes a
 * converge at the front and may disable modules: only runs that `mayPrecedeConverge` start before it. Before a converge at the back,
 * all runs start that are due at the front.
 */
function planNewConverge(converge: Cause, view: View): DueTask[] {
  const runs = findDueRuns(view);
  if (choosePosition(converge) === "front")
    return [buildConvergeTask(converge), ...runs.filter((run) => mayPrecedeConverge(run, view))];
  return [...runs.filter((run) => run.position === "front"), buildConvergeTask(converge)];
}

/**
 * Whether a run need not wait for a coming converge, whose removals may take long. The run must be urgent (a user has requested it)
 * and in the module's own queue. The module must be on and must have run before, and its ConfigMap section must not be part of the
 * edit that causes the converge: `withConverge` has the digest of such a section.
 */
function mayPrecedeConverge({ task }: DueTask, { modules }: View): boolean {
  const module = modules.get(moduleOf(task) ?? "");
  if (task.slot !== "urgent" || module === undefined) return false;
  return module.phase === "ready" && module.flag && module.sectionDigest !== module.withConverge;
}

/** Whether runs are due at the front or were started there, so that the converge ends after them. Failed and stuck modules do not count: they may take long. */
function isFrontRunPending(runs: readonly DueTask[], view: View): boolean {
  const frontRuns = runs.filter(({ position }) => position === "front");
  const frontModules = new Set(frontRuns.map(({ task }) => moduleOf(task)));
  return activeModules(view).some(({ name, activity, retry, isStuck, lastRun }) => {
    if (retry !== undefined || isStuck) return false;
    if (frontModules.has(name)) return true;
    return activity !== "none" && lastRun !== undefined && choosePosition(lastRun.cause) === "front";
  });
}

/**
 * Names of the modules whose run or removal began with configuration that is not in force any more, or whose failed run a user has requested
 * since. The removal of a disabled module is outdated when an edit enables the module again.
 */
function findOutdatedModules(view: View): string[] {
  const isOutdated = (module: ModuleView): boolean => {
    if (module.enabled)
      return isRunOutdated(module) || isOutdatedByGlobals(module, view) || isRetryRequested(module);
    // Only discovery runs `enabled` scripts, so an edit does not switch on what a script has switched off.
    return module.activity === "deleting" && module.flag && module.enabledBy !== "script";
  };
  return activeModules(view)
    .filter(isOutdated)
    .map(({ name }) => name);
}

/**
 * Whether an edit of the global section of the ConfigMap makes the module's run in progress outdated (`given` is a digest of both
 * sections). In `main`, the run also delays the converge that may disable its module: an edit of flags ends it, too, and its back-off.
 */
function isOutdatedByGlobals(module: ModuleView, view: View): boolean {
  const { name, activity, retry, attempted, givenDigest } = module;
  if (activity !== "none" && attempted?.given !== givenDigest) return true;
  const delaysConverge = (activity !== "none" || retry !== undefined) && !view.moduleQueues.hasOwnQueue(name);
  return delaysConverge && hasGlobalConfigChanged(view);
}

/** Whether a user has requested a run since the last try failed: its back-off ends, once for each request. */
function isRetryRequested({ activity, retry, attempted, requestedToken }: ModuleView): boolean {
  if (activity !== "none" || retry === undefined || attempted === undefined) return false;
  return requestedToken !== undefined && attempted.token !== requestedToken;
}

/** Whether a run in progress, or one to be retried, began with configuration or files that are not in force any more. */
export function isRunOutdated({
  enabled,
  activity,
  retry,
  attempted,
  sectionDigest,
  files,
}: ModuleView): boolean {
  const isRunningOrRetried = activity !== "none" || retry !== undefined;
  if (!enabled || !isRunningOrRetried || attempted === undefined) return false;
  // Hooks that change files at every run must not end their own back-off.
  const haveFilesChanged = attempted.files !== files && retry?.reason !== "Unstable";
  return attempted.section !== sectionDigest || haveFilesChanged;
}

/** The converge task in queue `main`. */
function buildConvergeTask(cause: Cause): DueTask {
  const task: Task = { kind: "converge", key: CONVERGE_KEY, cause };
  return { queue: MAIN_QUEUE, task, position: choosePosition(cause) === "front" ? "first" : "back" };
}

/** The task of a module run. In the module's own queue it needs a slot, because the number of parallel runs is limited; an urgent one if a user causes the run. */
function buildRunTask(module: string, cause: Cause, { moduleQueues }: View): DueTask {
  const task: Task = { kind: "run-module", key: runModuleKey(module), module, cause };
  const dueTask = { queue: moduleQueues.queueOf(module), task, position: choosePosition(cause) };
  if (!moduleQueues.hasOwnQueue(module)) return dueTask;
  const slot = USER_CAUSES.has(cause.kind) ? "urgent" : "usual";
  return { ...dueTask, task: { ...task, slot } };
}

/** Causes by which a user requests a run: it does not wait for a slot behind runs of other modules. */
const USER_CAUSES: ReadonlySet<Cause["kind"]> = new Set(["requested", "section", "sources"]);

/** Causes whose task must not wait behind a failing one: the start, edits and requests of a user, and requirements that are met now. */
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

/** Where a queue puts a task with this cause: `FRONT_CAUSES` and changes by the module's own afterHelm hooks go to the front. */
export function choosePosition(cause: Cause): "front" | "back" {
  const isByOwnHook = cause.kind === "hook" && cause.by === "afterHelm";
  return isByOwnHook || FRONT_CAUSES.has(cause.kind) ? "front" : "back";
}

/**
 * Plans after every change of the state and adds the tasks that are due to the queues. The plan depends on the view alone,
 * so an extra check does no harm and the next check makes up for a missed one.
 */
export class Engine {
  readonly #state: State;
  readonly #queues: Queues<Task>;
  #isStopped = false;

  /** Begins to plan after every change of the state. */
  constructor(state: State, queues: Queues<Task>) {
    this.#state = state;
    this.#queues = queues;
    state.onChange((view, origin) => this.check(view, origin));
  }

  /** Plans from the view and adds the tasks that are due to the queues. `origin`: the event that led to the view, for traces. */
  check(view: View = this.#state.view, origin?: Span): void {
    if (this.#isStopped) return;
    const planned = planTasks(view, this.#queues.stalled);
    if (planned.restartCause !== undefined) return this.#restart(planned.restartCause, origin);
    const { dueTasks } = planned;
    // The first task of an idle queue starts at once.
    const inOrder = dueTasks.toSorted(
      (a, b) => Number(a.position === "back") - Number(b.position === "back"),
    );
    for (const due of inOrder) this.#enqueue({ ...due, task: withOrigin(due.task, origin) }, dueTasks);
    if (planned.outdatedModules.length > 0) this.#restartOutdated();
  }

  stop(): void {
    this.#isStopped = true;
  }

  /**
   * Adds a task to its queue. If a run is due at the front, it replaces one with its key that waits at the back. A converge that
   * is due first also replaces the waiting runs in modules' own queues, except those in `dueTasks`. Otherwise, a waiting task with
   * the same key makes the new one unnecessary.
   */
  #enqueue({ queue, task, position }: DueTask, dueTasks: readonly DueTask[]): void {
    if (position === "front" && this.#isWaitingAtBack(queue, task))
      return this.#queues.replace(({ key }) => key === task.key, queue, task, position);
    if (position !== "first" || task.key !== CONVERGE_KEY)
      return void this.#queues.offer(queue, task, position);
    // A converge that is next stays there: if it were removed and added again, the next task could start before it.
    const isNext = this.#queues.isNext(queue, CONVERGE_KEY);
    // A run that may precede the converge keeps its position and its back-off.
    const keptKeys = new Set(dueTasks.map((each) => each.task.key));
    const isReplaced = (each: Task): boolean => {
      if (each.key === CONVERGE_KEY) return !isNext;
      return isRunInOwnQueue(each) && !keptKeys.has(each.key);
    };
    this.#queues.replace(isReplaced, queue, task);
  }

  /** Whether a run of the same module waits at the back of the queue, because it was added for a less urgent cause. */
  #isWaitingAtBack(queue: string, { kind, key = "" }: Task): boolean {
    const waiting = kind === "run-module" ? this.#queues.findWaiting(queue, key) : undefined;
    return waiting?.kind === "run-module" && choosePosition(waiting.cause) === "back";
  }

  /** Replaces the converge in progress with a new one: drops its waiting steps, interrupts its module runs, and records that none is in progress. */
  #restart(cause: Cause, origin: Span | undefined): void {
    const { queue, task } = buildConvergeTask(cause);
    // The new converge schedules runs in the modules' own queues again.
    const isReplaced = (each: Task): boolean =>
      each.group === "converge" || each.kind === "converge" || isRunInOwnQueue(each);
    const isInterrupted = (each: Task): boolean => each.group === "converge" && each.kind === "run-module";
    this.#queues.replace(isReplaced, queue, withOrigin(task, origin));
    this.#queues.interrupt(isInterrupted, "the converge restarts");
    this.#queues.interrupt((each) => this.#isRemovalInHook(each), "the converge restarts", LONG_RUN_MS);
    this.#state.record("convergeReset");
  }

  /**
   * Whether a hook of a removal runs, which may hang. Only if the module has its own queue: otherwise an edit waits for the hook in `main`,
   * and only `--hook-timeout` ends it.
   */
  #isRemovalInHook(task: Task): boolean {
    const { moduleQueues, modules } = this.#state.view;
    if (task.kind !== "delete-module" || !moduleQueues.hasOwnQueue(task.module)) return false;
    // In the step `uninstall`, helm is at work, which is not interrupted.
    const step = modules.get(task.module)?.lastRun?.step;
    return step === "beforeDeleteHelm" || step === "afterDeleteHelm";
  }

  /** Retries failed runs and removals of outdated modules now instead of after their back-off, and interrupts those in progress if they take long. */
  #restartOutdated(): void {
    // The queues call it again before they interrupt a task: by then another run may have begun, with the current configuration.
    const isOutdated = (task: Task): boolean =>
      (task.kind === "run-module" || task.kind === "delete-module") &&
      planTasks(this.#state.view).outdatedModules.includes(task.module);
    this.#queues.retryNow(isOutdated);
    this.#queues.interrupt(isOutdated, "an edit supersedes it");
  }
}

/** Whether a task is a run in its module's own queue. A new converge replaces it while it waits, since the converge may disable the module. */
function isRunInOwnQueue({ kind, slot }: Task): boolean {
  return kind === "run-module" && slot !== undefined;
}

const withOrigin = (task: Task, origin: Span | undefined): Task => (origin ? { ...task, origin } : task);
