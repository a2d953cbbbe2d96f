/**
 * Explains in words why a module does not run now. Module runs, removals, hooks and steps of a converge (the run of all modules) are
 * tasks in queues. A queue executes its *head*, its first task, until it succeeds: a head that fails or takes long blocks the others.
 */

import { describeChangesByOthers } from "../../drift/index.ts";
import { formatUtc } from "../../lib/index.ts";
import { MAIN_QUEUE, describeProblem, moduleOf, type Task } from "../../model/index.ts";
import type { QueueView, TaskView } from "../../queue/index.ts";
import {
  configIsMissing,
  listMissingObjects,
  collectWarnings,
  type ModuleView,
  type View,
} from "../../state/index.ts";
import {
  HOW_TO_END_HANGING_HOOK,
  describeFailingHook,
  describeDroppedTicks,
  findFailingHooks,
  describeFailingHooks,
} from "./failing-hooks.ts";
import {
  describeDecision,
  describeEnablement,
  describeReasons,
  describeRunWait,
  describeHealth,
  describeAwaitedTask,
  formatTimes,
} from "./reasons.ts";
import { describeOrigin, toDisplayedOrigin } from "./origin.ts";
import {
  describeDependents,
  describeOtherBlockers,
  describeRunBlocker,
  findBlockingFirstRuns,
  findLostRequirement,
  listReportedRequirements,
  type Requirement,
  type RunBlocker,
} from "../../plan/index.ts";

/** The state and the queues, read at the same time. */
export interface StateSnapshot {
  readonly view: View;
  readonly queues: readonly QueueView<Task>[];
}

/** What the status of a module reports about its waits at one moment. */
export interface Waits {
  /** Why it does not run now, in words; undefined where nothing blocks it. */
  readonly blockerText: string | undefined;
  /** When the failed run is retried, in ms since the epoch. */
  readonly nextRetryAt: number | undefined;
  /** What it requires and waits for. */
  readonly runBlocker: RunBlocker | undefined;
  /** A requirement that was met when it ran and is not met any more. */
  readonly lostRequirement: RunBlocker | undefined;
  readonly requirements: readonly Requirement[];
  /** Its failing hooks, in words. */
  readonly failingHooks: string | undefined;
}

/** Collects everything that the module waits for now, as the status displays it. */
export function collectWaits(module: ModuleView, snapshot: StateSnapshot): Waits {
  return {
    blockerText: explainBlockers(module, snapshot),
    nextRetryAt: getNextRetryTime(module, snapshot),
    runBlocker: describeRunBlocker(module, snapshot.view),
    lostRequirement: findLostRequirement(module, snapshot.view),
    requirements: listReportedRequirements(module, snapshot.view),
    failingHooks: describeFailingHooks(module.name, snapshot),
  };
}

/**
 * Why a module does not run now, in words; undefined when it need not run. E.g. *waits for cert-manager (failed 5
 * times)*: the error itself is reported with cert-manager, not with each module that waits for it.
 */
export function explainBlockers(module: ModuleView, snapshot: StateSnapshot): string | undefined {
  // Others report a problem, and a run in progress waits for nothing here.
  if (module.problem !== undefined || module.activity !== "none") return undefined;
  const unmetRequirement = describeRunBlocker(module, snapshot.view);
  if (unmetRequirement !== undefined) return unmetRequirement.message;
  if (!module.enabled && module.release !== undefined) {
    const dependents = describeDependents(module.name, snapshot.view);
    if (dependents !== undefined) return `disabled, but stays while ${dependents}`;
  }
  const blockingTask = findHeadOfDelayingQueue(module, snapshot);
  if (blockingTask !== undefined) return describeBlockingTask(module, blockingTask, snapshot.view);
  return (
    explainWaitForFirstRuns(module, snapshot.view) ??
    explainWaitForStart(module, snapshot.view) ??
    explainWaitForConfig(snapshot.view)
  );
}

/**
 * The task at the head of the queue that delays the module: of the queue with its run or removal or, without one, of the queue with
 * the converge that starts its run. This head can be the module's own run, which has not started. Undefined if no queue delays
 * the module, and if its own run or removal is in progress.
 */
function findHeadOfDelayingQueue(module: ModuleView, snapshot: StateSnapshot): TaskView<Task> | undefined {
  const { queues, view } = snapshot;
  const queueNames = [view.moduleQueues.queueOf(module.name), MAIN_QUEUE];
  const queueTasks = queueNames.map((name) => queues.find((queue) => queue.name === name)?.tasks ?? []);
  const findQueueTasks = (match: (task: Task) => boolean): readonly TaskView<Task>[] | undefined =>
    queueTasks.find((tasks) => tasks.some(({ task }) => match(task)));
  // A converge starts first runs, and runs that it has scheduled. While none is in progress, one may wait in the queue.
  const startsInConverge = module.scheduledRun?.hasBegun === false || module.phase !== "ready";
  const waitsForConverge = startsInConverge || view.converge.phase === "idle";
  const tasks =
    findQueueTasks((task) => isRunOrRemovalOf(module, task)) ??
    (waitsForConverge ? findQueueTasks(isConvergeOrBoot) : undefined);
  const head = tasks?.[0];
  if (head === undefined) return undefined;
  const isInProgress = isRunOrRemovalOf(module, head.task) && head.running;
  return isInProgress ? undefined : head;
}

/** Whether the task is a converge, or the start that leads to the first one. */
function isConvergeOrBoot({ kind }: Task): boolean {
  return kind === "converge" || kind === "boot";
}

/** Whether the task runs or removes this module. */
function isRunOrRemovalOf({ name }: ModuleView, task: Task): boolean {
  return task.kind !== "hook" && moduleOf(task) === name;
}

/** When the failed run or removal is retried, in ms since the epoch; undefined while it runs. */
export function getNextRetryTime(module: ModuleView, { queues }: StateSnapshot): number | undefined {
  if (module.retry === undefined) return undefined;
  return queues.flatMap(({ tasks }) => tasks).find(({ task }) => isRunOrRemovalOf(module, task))?.nextAt;
}

/** Says what a module waits for, given the task that blocks it: a free slot for its own run, the next try of its run (at `nextAt`), or another task. */
function describeBlockingTask(
  module: ModuleView,
  { task, failures, nextAt }: TaskView<Task>,
  { modules }: View,
): string {
  const ownRunText = task.slot !== undefined && nextAt === undefined ? WAITS_FOR_SLOT : "will be retried";
  const scriptOf = failures > 0 && isConvergeOrBoot(task) ? findFailingScript(modules) : undefined;
  const awaited = scriptOf === undefined ? describeAwaitedTask(task) : `the enabled script of ${scriptOf}`;
  const text = isRunOrRemovalOf(module, task) ? ownRunText : `waits for ${awaited}`;
  return failures === 0 ? text : `${text} (failed ${formatTimes(failures)})`;
}

/** The module whose `enabled` script fails, so that the discovery of the converge is retried; undefined if no script fails. */
function findFailingScript(modules: View["modules"]): string | undefined {
  return modules.values().find(({ retry }) => retry?.reason === "ScriptFailed")?.name;
}

const WAITS_FOR_SLOT = "waits until fewer modules run";

/** The last error of the task that blocks the module, and the time of its next try (UTC); undefined if that task has not failed. */
function describeBlockingFailure(module: ModuleView, snapshot: StateSnapshot): string | undefined {
  // The module waits for a requirement and not for a task.
  if (describeRunBlocker(module, snapshot.view) !== undefined) return undefined;
  const needsNoRun = explainBlockers(module, snapshot) === undefined;
  const head = findHeadOfDelayingQueue(module, snapshot);
  if (needsNoRun || head === undefined || head.failures === 0) return undefined;
  const { nextAt, message = "" } = head;
  const nextTime = nextAt === undefined ? "now" : new Date(nextAt).toISOString().slice(11, 19);
  return `${describeAwaitedTask(head.task)} failed: ${message}; next try ${nextTime}`;
}

/** Why a converge makes no progress. */
export interface ConvergeBlocker {
  /** True where a step failed and is retried; false where a removal takes long or a hook hangs. */
  readonly hasFailed: boolean;
  readonly text: string;
}

/** Why the converge makes no progress: the head of queue `main` is a failed step, a long removal, or a hanging hook. Undefined if it makes progress. */
export function findConvergeBlocker(snapshot: StateSnapshot): ConvergeBlocker | undefined {
  const head = snapshot.queues.find(({ name }) => name === MAIN_QUEUE)?.tasks[0];
  // A module that fails is reported by its own state.
  if (head === undefined || head.task.kind === "run-module" || !isPartOfConverge(head.task, snapshot.view))
    return undefined;
  const { task, failures, message = "" } = head;
  if (failures === 0) return describeLongTask(head, snapshot.view);
  const text = `${describeAwaitedTask(task)} failed ${formatTimes(failures)}: ${message}`;
  return { hasFailed: true, text };
}

/** Whether the task at the head of queue `main` delays a converge: one is in progress, or the task starts one. */
function isPartOfConverge(task: Task, { boot, converge }: View): boolean {
  return boot !== "running" || converge.phase !== "idle" || isConvergeOrBoot(task);
}

/** The blocker for a task that has not failed but takes long: a hanging hook, or a removal. Undefined for any other task. */
function describeLongTask(head: TaskView<Task>, { modules }: View): ConvergeBlocker | undefined {
  const { task, startedAt, isLong } = head;
  if (startedAt === undefined) return undefined;
  const text = `waits for ${describeAwaitedTask(task)} since ${formatUtc(startedAt)}`;
  const isConvergeStep = task.kind === "hook" && task.group !== undefined;
  if (isConvergeStep && isLong === true)
    return { hasFailed: false, text: `${text}; ${HOW_TO_END_HANGING_HOOK}` };
  const isRemoval = task.kind === "delete-module" || task.kind === "purge-release";
  if (!isRemoval) return undefined;
  const runWait = describeRunWait(modules.get(moduleOf(task) ?? "")?.lastRun);
  return { hasFailed: false, text: runWait === undefined ? text : `${text}: ${runWait}` };
}

/**
 * Says for which first runs of other modules a module waits, in a converge that runs modules in parallel; undefined if it waits for
 * none. First runs of modules with a smaller number in the name of their directory (`010-db`) come first.
 */
function explainWaitForFirstRuns(module: ModuleView, view: View): string | undefined {
  if (view.converge.phase !== "scheduledRuns" || module.scheduledRun?.hasBegun !== false) return undefined;
  const [first, ...more] = findBlockingFirstRuns(module, view);
  if (first === undefined) return undefined;
  return `waits for the first run of ${first}${more.length === 0 ? "" : ` and ${more.length} more`}`;
}

/** Says what the start of the operator, and so a module that has not run yet, waits for; undefined after the first converge. */
function explainWaitForStart(module: ModuleView, view: View): string | undefined {
  const { boot, areSourcesRead, missingGlobals } = view;
  if (boot === "running" || module.phase === "ready") return undefined;
  if (boot !== "waiting") return "waits for the first converge";
  const [missing] = missingGlobals;
  if (missing !== undefined) return `waits for ${missing}: global values are in it`;
  return areSourcesRead
    ? "waits for the ConfigMap: it is missing while releases of ours exist"
    : "waits until Secrets and ConfigMaps with values are read";
}

/** Says what a missing or invalid ConfigMap means for a module that waits for nothing else; undefined if the ConfigMap is valid. */
function explainWaitForConfig(view: View): string | undefined {
  if (view.config.condition === "ok") return undefined;
  if (configIsMissing(view)) return "nothing is deleted or purged while the ConfigMap is missing";
  return view.config.problems.map(describeProblem).join("; ");
}

/** Says which step the module's run has reached and what that step waits for; empty if the module is idle. */
function describeActivity({ activity, lastRun }: ModuleView): readonly (string | undefined)[] {
  return activity === "none" ? [] : [`${activity}: step ${lastRun?.step ?? ""}`, describeRunWait(lastRun)];
}

/** The answer of `module why`: sentences about whether the module is on, why it does not run or is not Ready, and where it comes from. */
export function explainModule(module: ModuleView, snapshot: StateSnapshot): string[] {
  const reasons = [...listReasons(module, snapshot), ...describeBlockingModules(module, snapshot)];
  const isIdle = reasons.length === 0 && module.enabled;
  const sentences = isIdle ? ["nothing is due: the last run used the current state"] : reasons;
  return [describeDecision(module), ...sentences, ...describeOrigin(toDisplayedOrigin(module))];
}

/** Says why the modules for which a module waits are not ready: follows the chain of blockers, one sentence each, down to the root cause. */
function describeBlockingModules(module: ModuleView, snapshot: StateSnapshot): string[] {
  const sentences = new Map<string, string>();
  let awaited = findAwaitedModule(module, snapshot.view);
  // Modules may wait for each other in a circle.
  while (awaited !== undefined && awaited !== module && !sentences.has(awaited.name)) {
    const reasons = awaited.enabled ? listReasons(awaited, snapshot) : [describeEnablement(awaited)];
    // Nothing is wrong with the awaited module itself. E.g. its version does not match the required range, which the waiting module reports.
    if (reasons.length === 0) break;
    sentences.set(awaited.name, `${awaited.name}: ${reasons.join("; ")}`);
    awaited = findAwaitedModule(awaited, snapshot.view);
  }
  return [...sentences.values()];
}

/** The required module for which a module waits, or that it has lost after its run. Undefined if it waits for none: for nothing, or for an object. */
function findAwaitedModule(module: ModuleView, view: View): ModuleView | undefined {
  const blocker = describeRunBlocker(module, view) ?? findLostRequirement(module, view);
  return blocker && view.modules.get(blocker.awaitedName);
}

/** Sentences about everything that is wrong with the module or in progress; an empty list if it is Ready and nothing is due. */
function listReasons(module: ModuleView, snapshot: StateSnapshot): string[] {
  const { problem, retry } = module;
  const remedy = problem?.retriedAs === undefined ? "requires action" : "is tried again";
  return describeReasons({
    blockers: [
      problem && `${remedy}: ${describeProblem(problem)}`,
      module.crdWork,
      explainBlockers(module, snapshot),
      ...describeOtherBlockers(module, snapshot.view),
      describeBlockingFailure(module, snapshot),
      ...describeRelevantFailingHooks(module, snapshot),
      ...describeDroppedTicks(module.name, snapshot),
      findLostRequirement(module, snapshot.view)?.message,
    ],
    isSuspended: module.suspended,
    activity: describeActivity(module),
    retry: retry && { ...retry, since: formatUtc(retry.since) },
    refused: module.rollbackReason,
    missing: listMissingObjects(module),
    // The health of a module counts here also where Ready ignores it.
    unhealthy: [module.unhealthy?.message ?? describeHealth(module.health), module.unready?.message],
    drift: describeChangesByOthers(module.drift),
    warnings: collectWarnings(module),
  });
}

/** Sentences about hooks that fail or hang: those of the module, and the one that blocks its next run. */
function describeRelevantFailingHooks(module: ModuleView, snapshot: StateSnapshot): string[] {
  const head = findHeadOfDelayingQueue(module, snapshot)?.task;
  const hooks = findFailingHooks(snapshot);
  const relevant = hooks.filter(({ task }) => task.hook.module === module.name || task === head);
  return relevant.map(describeFailingHook);
}
