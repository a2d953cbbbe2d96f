/**
 * Says what keeps a run, a removal or a converge (the run of all modules) from going on: a requirement, the head of a queue that fails
 * or takes long, the start of the operator, or the ConfigMap.
 */

import { formatUtc } from "../../base/index.ts";
import { describeProblem, moduleOf, type Task } from "../../base/model/index.ts";
import { describeDependents, findBlockingFirstRuns, type RunBlocker } from "../../engine/plan/index.ts";
import type { TaskView } from "../../engine/queue/index.ts";
import { configIsMissing, type ModuleView, type View } from "../../engine/state/index.ts";
import type { SnapshotIndex } from "./snapshot-index.ts";
import { describeFailingHook, HOW_TO_END_HANGING_HOOK, type FailingHook } from "./failing-hooks.ts";
import { awaitsDecision, describeAwaitedTask, describeRunWait, formatTimes } from "./reasons.ts";

/**
 * What a module waits for, in words; undefined if it waits for nothing. E.g. *waits for cert-manager (failed 5 times)*: the error
 * itself is reported with cert-manager, not with each module that waits for it. `head`: see `findHeadOfDelayingQueue`.
 */
export function describeBlocker(
  module: ModuleView,
  view: View,
  {
    runBlocker,
    head,
  }: { readonly runBlocker: RunBlocker | undefined; readonly head: TaskView<Task> | undefined },
): string | undefined {
  // Others report a problem, and a run in progress waits for nothing here.
  if (module.problem !== undefined || module.activity !== "none") return undefined;
  if (runBlocker !== undefined) return runBlocker.message;
  if (!module.enabled && module.release !== undefined) {
    const dependents = describeDependents(module.name, view);
    if (dependents !== undefined) return `disabled, but stays while ${dependents}`;
  }
  if (head !== undefined) return describeBlockingTask(module, head, view);
  return (
    explainWaitForFirstRuns(module, view) ?? explainWaitForStart(module, view) ?? explainWaitForConfig(view)
  );
}

/**
 * The task at the head of the queue that delays the module: of the queue with its run or removal or, without one, of the queue with
 * the converge that starts its run. This head can be the module's own run, which has not started. Undefined if no queue delays
 * the module, and if its own run or removal is in progress.
 */
export function findHeadOfDelayingQueue(
  module: ModuleView,
  { runs, main, view }: SnapshotIndex,
): TaskView<Task> | undefined {
  // A converge starts first runs, and runs that it has scheduled, and decides which modules are enabled. While none is in progress, one may wait in the queue.
  const startsInConverge = module.scheduledRun?.hasBegun === false || module.phase !== "ready";
  const waitsForConverge = startsInConverge || awaitsDecision(module) || view.converge.phase === "idle";
  const hasConverge = waitsForConverge && main.some(({ task }) => isConvergeOrBoot(task));
  const head = runs.get(module.name)?.head ?? (hasConverge ? main[0] : undefined);
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

/**
 * What is wrong with the task that blocks a module, and the time of its next try (UTC); undefined if nothing is. `hook`: the task, if it is
 * a failing hook. `isDescribed`: another sentence describes the hook already.
 */
export function describeBlockingFailure(
  { task, failures, message = "", nextAt }: TaskView<Task>,
  hook: FailingHook | undefined,
  isDescribed: boolean,
): string | undefined {
  const description =
    hook === undefined ? `${describeAwaitedTask(task)} failed: ${message}` : describeFailingHook(hook);
  if (failures === 0) return hook === undefined || isDescribed ? undefined : description;
  const nextTime = nextAt === undefined ? "now" : new Date(nextAt).toISOString().slice(11, 19);
  return isDescribed ? `next try of the hook ${nextTime}` : `${description}; next try ${nextTime}`;
}

/** Why a converge makes no progress. */
export interface ConvergeBlocker {
  /** True where a step failed and is retried; false where a removal takes long or a hook hangs. */
  readonly hasFailed: boolean;
  readonly text: string;
}

/** Why the converge makes no progress: the head of queue `main` is a failed step, a long removal, or a hanging hook. Undefined if it makes progress. */
export function findConvergeBlocker({ main: [head], view }: SnapshotIndex): ConvergeBlocker | undefined {
  // A module that fails is reported by its own state.
  if (head === undefined || head.task.kind === "run-module" || !isPartOfConverge(head.task, view))
    return undefined;
  const { task, failures, message = "" } = head;
  if (failures === 0) return describeLongTask(head, view);
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
