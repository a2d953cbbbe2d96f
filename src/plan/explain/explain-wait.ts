/** Explains in words why a module does not run now. */

import { changedByOthers } from "../../drift/index.ts";
import { formatUtc } from "../../lib/index.ts";
import { MAIN_QUEUE, describeProblem, moduleOf, queueOf, type Task } from "../../model/index.ts";
import type { QueueView, TaskView } from "../../queue/index.ts";
import {
  configIsMissing,
  missingObjects,
  warningsOf,
  type LastRun,
  type ModuleView,
  type View,
} from "../../state/index.ts";
import { HOW_TO_END, describeFailingHook, droppedTicks, failingHooks, failingOf } from "./failing-hooks.ts";
import { describeUsers } from "../removals.ts";
import { describeOrigin, originOf } from "./origin.ts";
import { describeReasons, describeHealth } from "./reasons.ts";
import { describeAwaitedTask, times } from "./task-words.ts";
import { blockedBy, lostRequirement, otherBlockers, reportedRequirements, runsBefore } from "../turns.ts";
import type { Requirement, Wait } from "../turns.ts";

/** The state and the queues, read at the same time. */
export interface StateSnapshot {
  readonly view: View;
  readonly queues: readonly QueueView<Task>[];
}

/** Everything that a module waits for at one moment. */
export interface Waits {
  /** Why it does not run now, in words; undefined where nothing blocks it. */
  readonly blocker: string | undefined;
  /** When the failed run is retried, in ms since the epoch. */
  readonly nextRetryAt: number | undefined;
  /** What it requires and waits for. */
  readonly wait: Wait | undefined;
  /** A requirement that was met when it ran and is not met any more. */
  readonly lost: Wait | undefined;
  readonly required: readonly Requirement[];
  /** Its failing hooks, in words. */
  readonly failing: string | undefined;
}

/** What the status of a module reports about its waits. */
export function waitsOf(module: ModuleView, at: StateSnapshot): Waits {
  return {
    blocker: explainBlockers(module, at),
    nextRetryAt: nextRetryAt(module, at),
    wait: blockedBy(module, at.view),
    lost: lostRequirement(module, at.view),
    required: reportedRequirements(module, at.view),
    failing: failingOf(module.name, at),
  };
}

/**
 * Why a module does not run now, in words; undefined when it need not run. E.g. *waits for cert-manager (failed 5
 * times)*: the error itself is reported with cert-manager, not with each module that waits for it.
 */
export function explainBlockers(module: ModuleView, at: StateSnapshot): string | undefined {
  if (module.problem !== undefined || module.activity !== "none") return undefined;
  const blocked = blockedBy(module, at.view);
  if (blocked !== undefined) return blocked.message;
  const users =
    module.enabled || module.release === undefined ? undefined : describeUsers(module.name, at.view);
  if (users !== undefined) return `off, but stays while ${users}`;
  const waiting = waitingFor(module, at);
  if (waiting !== undefined) return describeWait(module, waiting);
  return waitsForTurn(module, at.view) ?? waitsForStart(module, at.view) ?? waitsForConfig(at.view);
}

/** The task that has to end before the module runs: the head of its queue, which may be the module's own. */
function waitingFor(module: ModuleView, { queues, view }: StateSnapshot): TaskView<Task> | undefined {
  const queueTasks = [queueOf(view.moduleQueues, module.name), MAIN_QUEUE].map(
    (name) => queues.find((queue) => queue.name === name)?.tasks ?? [],
  );
  const queueWith = (match: (task: Task) => boolean): (typeof queueTasks)[number] | undefined =>
    queueTasks.find((tasks) => tasks.some(({ task }) => match(task)));
  const isTurnAhead = module.turn?.begun === false;
  const waitsForConverge = view.converge.phase === "idle" || module.phase !== "ready" || isTurnAhead;
  const tasks =
    queueWith((task) => isRunOrRemoval(module, task)) ??
    (waitsForConverge ? queueWith(isConverge) : undefined);
  const head = tasks?.[0];
  if (head === undefined) return undefined;
  return isRunOrRemoval(module, head.task) && head.running ? undefined : head;
}

function isConverge({ kind }: Task): boolean {
  return kind === "converge" || kind === "boot";
}

function isRunOrRemoval({ name }: ModuleView, task: Task): boolean {
  return task.kind !== "hook" && moduleOf(task) === name;
}

/** When the failed run or removal is retried, in ms since the epoch; undefined while it runs. */
export function nextRetryAt(module: ModuleView, { queues }: StateSnapshot): number | undefined {
  if (module.retry === undefined) return undefined;
  return queues.flatMap(({ tasks }) => tasks).find(({ task }) => isRunOrRemoval(module, task))?.nextAt;
}

/** What a waiting module waits for: a slot, its own next try, or another task. */
function describeWait(module: ModuleView, { task, failures, nextAt }: TaskView<Task>): string {
  const own = task.slot !== undefined && nextAt === undefined ? NO_SLOT : "will be tried again";
  const what = isRunOrRemoval(module, task) ? own : `waits for ${describeAwaitedTask(task)}`;
  return failures === 0 ? what : `${what} (failed ${times(failures)})`;
}

const NO_SLOT = "waits until fewer modules run";

/** The last error of the task for which a module waits, and the time of its next try (UTC). */
function describeFailure(module: ModuleView, at: StateSnapshot): string | undefined {
  if (blockedBy(module, at.view) !== undefined || explainBlockers(module, at) === undefined) return undefined;
  const head = waitingFor(module, at);
  if (head === undefined || head.failures === 0) return undefined;
  const { nextAt, message = "" } = head;
  const when = nextAt === undefined ? "now" : new Date(nextAt).toISOString().slice(11, 19);
  return `${describeAwaitedTask(head.task)} failed: ${message}; next try ${when}`;
}

/** What blocks a converge. */
export interface ConvergeBlocker {
  /** True where a step failed and is retried; false where a removal takes long or a hook hangs. */
  readonly hasFailed: boolean;
  readonly text: string;
}

/** The head of `main`, if the rest of a converge waits for it: a failed step, a removal, or a hanging hook. */
export function convergeBlocker(at: StateSnapshot): ConvergeBlocker | undefined {
  const head = at.queues.find(({ name }) => name === MAIN_QUEUE)?.tasks[0];
  // A module that fails is reported by its own state.
  if (head === undefined || head.task.kind === "run-module" || !isOfConverge(head.task, at.view))
    return undefined;
  const { task, failures, message = "" } = head;
  if (failures === 0) return longTask(head, at.view);
  return { hasFailed: true, text: `${describeAwaitedTask(task)} failed ${times(failures)}: ${message}` };
}

function isOfConverge(task: Task, { boot, converge }: View): boolean {
  return boot !== "running" || converge.phase !== "idle" || isConverge(task);
}

/** The head of `main` that has not failed, but takes so long that it blocks the converge: a hanging hook, or a removal. */
function longTask(
  { task, startedAt, isLong }: TaskView<Task>,
  { modules }: View,
): ConvergeBlocker | undefined {
  if (startedAt === undefined) return undefined;
  const text = `waits for ${describeAwaitedTask(task)} since ${formatUtc(startedAt)}`;
  const isOfStep = task.kind === "hook" && task.group !== undefined;
  if (isOfStep && isLong === true) return { hasFailed: false, text: `${text}; ${HOW_TO_END}` };
  if (task.kind !== "delete-module" && task.kind !== "purge-release") return undefined;
  const helm = describeRunWait(modules.get(moduleOf(task) ?? "")?.lastRun);
  return { hasFailed: false, text: helm === undefined ? text : `${text}: ${helm}` };
}

/** In a converge that runs modules in parallel, a first run waits for first runs of smaller numbers; undefined if it need not wait. */
function waitsForTurn(module: ModuleView, view: View): string | undefined {
  if (view.converge.phase !== "turns" || module.turn?.begun !== false) return undefined;
  const [first, ...more] = runsBefore(module, view);
  if (first === undefined) return undefined;
  return `waits for the first run of ${first}${more.length === 0 ? "" : ` and ${more.length} more`}`;
}

/** What the start waits for before it runs anything. */
function waitsForInputs({ areSourcesRead, missingGlobals: [missing] }: View): string {
  if (missing !== undefined) return `waits for ${missing}: global values are in it`;
  return areSourcesRead
    ? "waits for the ConfigMap: it is missing while releases of ours exist"
    : "waits until Secrets and ConfigMaps with values are read";
}

/** Why a module that has not run yet waits: for the start, or for the first converge. */
function waitsForStart(module: ModuleView, view: View): string | undefined {
  if (view.boot === "running" || module.phase === "ready") return undefined;
  if (view.boot === "waiting") return waitsForInputs(view);
  return "waits for the first converge";
}

/** What a missing or invalid ConfigMap means for a module that waits for nothing else; undefined if it is valid. */
function waitsForConfig(view: View): string | undefined {
  if (view.config.condition === "ok") return undefined;
  if (configIsMissing(view)) return "nothing is deleted or purged while the ConfigMap is missing";
  return view.config.problems.map(describeProblem).join("; ");
}

/** What a run waits for now, e.g. *helm waits for its hook Job/migrate (pre-upgrade) since …* (UTC). */
export function describeRunWait(run: LastRun | undefined): string | undefined {
  if (run === undefined || run.finishedAt !== undefined) return undefined;
  if (run.waitsFor !== undefined) return `waits for ${run.waitsFor}`;
  if (run.hook === undefined || run.hookSince === undefined) return undefined;
  return `helm waits for its hook ${run.hook} since ${formatUtc(run.hookSince)}`;
}

function describeActivity({ activity, lastRun }: ModuleView): readonly (string | undefined)[] {
  return activity === "none" ? [] : [`${activity}: step ${lastRun?.step ?? ""}`, describeRunWait(lastRun)];
}

/** Everything that can be said about the module's state, one sentence each (`module why`). */
export function explainModule(module: ModuleView, at: StateSnapshot): string[] {
  const reported = [...reasonsOf(module, at), ...describeChain(module, at)];
  const isIdle = reported.length === 0 && module.enabled;
  const rest = isIdle ? ["nothing is due: the last run used the current state"] : reported;
  return [decisionOf(module), ...rest, ...describeOrigin(originOf(module))];
}

/** Whether and why a module is on. While its `enabled` script fails, the previous decision remains in force. */
function decisionOf(module: ModuleView): string {
  const decided = module.decided ? enabledText(module) + howToSwitchOn(module) : undefined;
  if (module.retry?.reason !== "ScriptFailed") return decided ?? "Nothing has decided yet whether it is on";
  const before = decided === undefined ? "before that nothing was decided" : `before that: ${decided}`;
  return `Its enabled script fails, so it is unknown whether the module should be on; ${before}`;
}

/** Why the modules for which a module waits are not ready, one after the other down to the root cause. */
function describeChain(module: ModuleView, at: StateSnapshot): string[] {
  const chain = new Map<string, string>();
  for (let next = module; ;) {
    const name = (blockedBy(next, at.view) ?? lostRequirement(next, at.view))?.on;
    const found = name === undefined ? undefined : at.view.modules.get(name);
    if (found === undefined || found === module || chain.has(found.name)) return [...chain.values()];
    const facts = found.enabled ? reasonsOf(found, at) : [enabledText(found)];
    // Nothing is wrong with it, e.g. only its version does not match: the message before says that.
    if (facts.length === 0) return [...chain.values()];
    chain.set(found.name, `${found.name}: ${facts.join("; ")}`);
    next = found;
  }
}

/** Everything that is wrong with the module or in progress, one sentence each. */
function reasonsOf(module: ModuleView, at: StateSnapshot): string[] {
  const { problem, retry } = module;
  return describeReasons({
    blockers: [
      problem &&
        `${problem.retriedAs === undefined ? "needs a person" : "is tried again"}: ${describeProblem(problem)}`,
      module.crdWork,
      explainBlockers(module, at),
      ...otherBlockers(module, at.view),
      describeFailure(module, at),
      ...stuckBy(module, at),
      ...droppedTicks(module.name, at),
      lostRequirement(module, at.view)?.message,
    ],
    isSuspended: module.suspended,
    activity: describeActivity(module),
    retry: retry && { ...retry, since: formatUtc(retry.since) },
    refused: module.refused,
    missing: missingObjects(module),
    // The health of a module counts here also where Ready ignores it.
    unhealthy: [module.unhealthy?.message ?? describeHealth(module.health), module.unready?.message],
    drift: changedByOthers(module.drift),
    warnings: warningsOf(module),
  });
}

/** Hooks that fail or hang and belong to the module or block its next run. */
function stuckBy(module: ModuleView, at: StateSnapshot): string[] {
  const head = waitingFor(module, at)?.task;
  const own = failingHooks(at).filter(({ task }) => task.hook.module === module.name || task === head);
  return own.map(describeFailingHook);
}

/** A hint for a module that nothing has switched on; else empty. */
function howToSwitchOn({ enabledBy, enabledReason, module }: ModuleView): string {
  if (enabledBy !== "none" || enabledReason !== undefined) return "";
  return ` (${module.valuesKey}Enabled: true in the ConfigMap does, or in a values.yaml)`;
}

const ENABLED_TEXT = {
  values: "values.yaml of the modules directory",
  "module-values": "the module's own values.yaml",
  hook: "a global hook",
  configmap: "the ConfigMap",
  script: "the module's enabled script",
  source: "its removal from its ModuleSource",
} as const;

/** Why the module is on or off, in one line. */
export function enabledText(view: Pick<ModuleView, "enabled" | "enabledBy" | "enabledReason">): string {
  const by =
    view.enabledBy === "none"
      ? undecidedText(view)
      : `Switched ${view.enabled ? "on" : "off"} by ${ENABLED_TEXT[view.enabledBy]}`;
  return view.enabledReason === undefined ? by : `${by}: ${view.enabledReason}`;
}

/** Of a module that nobody has switched, or whose files cannot be read at the start. */
function undecidedText({ enabled, enabledReason }: Pick<ModuleView, "enabled" | "enabledReason">): string {
  if (enabled) return "On because its release is in place";
  return enabledReason === undefined ? "Off because nothing switches it on" : "Off";
}
