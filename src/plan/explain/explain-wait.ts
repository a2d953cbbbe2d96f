/** Explains in words why a module does not run now. */

import { changedByOthers } from "../../drift/index.ts";
import { MAIN_QUEUE, describeProblem, moduleOf, queueOf, type Task } from "../../model/index.ts";
import type { QueueView, TaskView } from "../../queue/index.ts";
import {
  configIsMissing,
  missingObjects,
  type LastRun,
  type ModuleView,
  type View,
} from "../../state/index.ts";
import { describeFailingHook, failingHooks, failingOf } from "./failing-hooks.ts";
import { keptFor } from "../removals.ts";
import { inWords, times, utc } from "./task-words.ts";
import { heldBy, lostBy, otherHolds, toldRequirements, turnsBefore } from "../turns.ts";
import type { Requirement, Wait } from "../turns.ts";

/** What explanations are made from: the state and the queues at one moment. */
export interface Moment {
  readonly view: View;
  readonly queues: readonly QueueView<Task>[];
}

/** All that a module waits for at one moment. */
export interface Waits {
  /** Why it does not run now, in words; undefined when nothing holds it up. */
  readonly hold: string | undefined;
  /** When a failure is tried again, in ms since the epoch. */
  readonly nextTryAt: number | undefined;
  /** What it requires and waits for. */
  readonly wait: Wait | undefined;
  /** What it required when it ran, and is not there any more. */
  readonly lost: Wait | undefined;
  readonly required: readonly Requirement[];
  /** Hooks of it that fail, in words. */
  readonly failing: string | undefined;
}

/** What is told of it in its status. */
export function waitsOf(module: ModuleView, at: Moment): Waits {
  return {
    hold: explainHold(module, at),
    nextTryAt: nextTryAt(module, at),
    wait: heldBy(module, at.view),
    lost: lostBy(module, at.view),
    required: toldRequirements(module, at.view),
    failing: failingOf(module.name, at),
  };
}

/**
 * Why a module does not run now, in words; undefined when it need not run. E.g. *waits for cert-manager (failed 5
 * times)*: the error itself is told with cert-manager, not with each module that waits for it.
 */
export function explainHold(module: ModuleView, at: Moment): string | undefined {
  if (module.problem !== undefined || module.activity !== "none") return undefined;
  const held = heldBy(module, at.view);
  if (held !== undefined) return held.message;
  const kept = module.enabled || module.release === undefined ? undefined : keptFor(module.name, at.view);
  if (kept !== undefined) return `off, but stays while ${kept}`;
  const waiting = waitingFor(module, at);
  if (waiting !== undefined) return describeWait(module, waiting);
  return waitsForTurn(module, at.view) ?? waitsForStart(module, at.view) ?? waitsForConfig(at.view);
}

/** The task that has to end before the module runs: the head of its queue, which may be the module's own. */
function waitingFor(module: ModuleView, { queues, view }: Moment): TaskView<Task> | undefined {
  const lines = [queueOf(view.moduleQueues, module.name), MAIN_QUEUE].map(
    (name) => queues.find((queue) => queue.name === name)?.tasks ?? [],
  );
  const lineWith = (match: (task: Task) => boolean): (typeof lines)[number] | undefined =>
    lines.find((tasks) => tasks.some(({ task }) => match(task)));
  const isAhead = module.turn?.begun === false;
  const covered = view.reload.phase === "idle" || module.phase !== "ready" || isAhead;
  const line = lineWith((task) => isOf(module, task)) ?? (covered ? lineWith(isReload) : undefined);
  const head = line?.[0];
  if (head === undefined) return undefined;
  return isOf(module, head.task) && head.running ? undefined : head;
}

function isReload({ kind }: Task): boolean {
  return kind === "converge" || kind === "boot";
}

/** Whether a task is the module's run or removal. */
function isOf({ name }: ModuleView, task: Task): boolean {
  return task.kind !== "hook" && moduleOf(task) === name;
}

/** When the run or removal that failed is tried again, in ms since the epoch; undefined while it is under way. */
export function nextTryAt(module: ModuleView, { queues }: Moment): number | undefined {
  if (module.retry === undefined) return undefined;
  return queues.flatMap(({ tasks }) => tasks).find(({ task }) => isOf(module, task))?.nextAt;
}

function describeWait(module: ModuleView, { task, failures, nextAt }: TaskView<Task>): string {
  const own = task.slot !== undefined && nextAt === undefined ? NO_SLOT : "will be tried again";
  const what = isOf(module, task) ? own : `waits for ${inWords(task)}`;
  return failures === 0 ? what : `${what} (failed ${times(failures)})`;
}

/** As many modules run as may. */
const NO_SLOT = "waits until fewer modules run";

/** The last error of the task that is waited for, and when it is tried next (UTC). */
function describeFailure(module: ModuleView, at: Moment): string | undefined {
  if (heldBy(module, at.view) !== undefined || explainHold(module, at) === undefined) return undefined;
  const head = waitingFor(module, at);
  if (head === undefined || head.failures === 0) return undefined;
  const { nextAt, message = "" } = head;
  const when = nextAt === undefined ? "now" : new Date(nextAt).toISOString().slice(11, 19);
  return `${inWords(head.task)} failed: ${message}; next try ${when}`;
}

/** What keeps a reload from going on. */
export interface ReloadHold {
  /** A step of it failed and is tried again; else a removal takes its time. */
  readonly hasFailed: boolean;
  readonly text: string;
}

/** What `main` works on, where all that a reload still has to do waits for it: a step that failed, or a removal. */
export function reloadHold(at: Moment): ReloadHold | undefined {
  const head = at.queues.find(({ name }) => name === MAIN_QUEUE)?.tasks[0];
  // A module that fails is told by its own state.
  if (head === undefined || head.task.kind === "run-module" || !isOfReload(head.task, at.view))
    return undefined;
  const { task, failures, message = "" } = head;
  if (failures === 0) return removalHold(head, at.view);
  return { hasFailed: true, text: `${inWords(task)} failed ${times(failures)}: ${message}` };
}

function isOfReload(task: Task, { boot, reload }: View): boolean {
  return boot !== "running" || reload.phase !== "idle" || isReload(task);
}

function removalHold({ task, startedAt }: TaskView<Task>, { modules }: View): ReloadHold | undefined {
  const removes = task.kind === "delete-module" || task.kind === "purge-release";
  if (!removes || startedAt === undefined) return undefined;
  const helm = describeRunWait(modules.get(moduleOf(task) ?? "")?.lastRun);
  const text = `waits for ${inWords(task)} since ${utc(startedAt)}`;
  return { hasFailed: false, text: helm === undefined ? text : `${text}: ${helm}` };
}

/** In a reload that runs modules side by side, first runs wait for those of smaller numbers. */
function waitsForTurn(module: ModuleView, view: View): string | undefined {
  if (view.reload.phase !== "turns" || module.turn?.begun !== false) return undefined;
  const [first, ...more] = turnsBefore(module, view);
  if (first === undefined) return undefined;
  return `waits for the first run of ${first}${more.length === 0 ? "" : ` and ${more.length} more`}`;
}

function waitsForStart(module: ModuleView, view: View): string | undefined {
  if (view.boot === "running" || module.phase === "ready") return undefined;
  if (view.boot === "waiting") return "waits for the ConfigMap: it is missing while releases of ours exist";
  return "waits for the first reload";
}

function waitsForConfig(view: View): string | undefined {
  if (view.config.condition === "ok") return undefined;
  if (configIsMissing(view)) return "nothing is deleted or purged while the ConfigMap is missing";
  return view.config.problems.map(describeProblem).join("; ");
}

/** What a run waits for at the moment, e.g. *helm waits for its hook Job/migrate (pre-upgrade) since …* (UTC). */
export function describeRunWait(run: LastRun | undefined): string | undefined {
  if (run === undefined || run.finishedAt !== undefined) return undefined;
  if (run.waitsFor !== undefined) return `waits for ${run.waitsFor}`;
  if (run.hook === undefined || run.hookSince === undefined) return undefined;
  return `helm waits for its hook ${run.hook} since ${utc(run.hookSince)}`;
}

function describeActivity({ activity, lastRun }: ModuleView): readonly (string | undefined)[] {
  return activity === "none" ? [] : [`${activity}: step ${lastRun?.step ?? ""}`, describeRunWait(lastRun)];
}

/** Everything that can be said about the module's state, one sentence each (`module why`). */
export function explainModule(module: ModuleView, at: Moment): string[] {
  const told = [...factsOf(module, at), ...describeChain(module, at)];
  const isIdle = told.length === 0 && module.enabled;
  const rest = isIdle ? ["nothing is owed: the last run took everything into account"] : told;
  return [decisionOf(module), ...rest];
}

/** On, off, or neither: an enabled script that fails has decided nothing, or what it said before is in force. */
function decisionOf(module: ModuleView): string {
  const decided = enabledText(module) + howToSwitchOn(module);
  if (module.retry?.reason !== "ScriptFailed") return decided;
  const before = module.decided ? `before that: ${decided}` : "before that nothing was decided";
  return `Its enabled script fails, so nobody knows whether it is to be on or off; ${before}`;
}

/** Why the modules that are waited for are not there, one after the other down to the root. */
function describeChain(module: ModuleView, at: Moment): string[] {
  const chain = new Map<string, string>();
  for (let next = module; ;) {
    const name = (heldBy(next, at.view) ?? lostBy(next, at.view))?.on;
    const found = name === undefined ? undefined : at.view.modules.get(name);
    if (found === undefined || found === module || chain.has(found.name)) return [...chain.values()];
    const facts = found.enabled ? factsOf(found, at) : [enabledText(found)];
    // All is well with it, e.g. it is of another version than is required: that was said already.
    if (facts.length === 0) return [...chain.values()];
    chain.set(found.name, `${found.name}: ${facts.join("; ")}`);
    next = found;
  }
}

function factsOf(module: ModuleView, at: Moment): string[] {
  const { problem, retry, drift } = module;
  const missing = missingObjects(module);
  const facts: readonly (string | undefined | false)[] = [
    problem !== undefined && `needs a person: ${describeProblem(problem)}`,
    module.crdWork,
    explainHold(module, at),
    ...otherHolds(module, at.view),
    describeFailure(module, at),
    ...stuckBy(module, at),
    lostBy(module, at.view)?.message,
    module.suspended && "suspended: helm is left alone, hooks go on",
    ...describeActivity(module),
    retry !== undefined && `failed ${times(retry.failures)} (${retry.reason}): ${retry.message}`,
    module.refused,
    missing.length > 0 && `objects that are gone: ${missing.join(", ")}`,
    module.ailing?.message,
    module.unready?.message,
    changedByOthers(drift),
    ...module.troubles,
    ...(module.module.idleFiles ?? []),
  ];
  return facts.filter((fact): fact is string => typeof fact === "string");
}

/** Hooks that fail and are the module's, or keep its next run waiting. */
function stuckBy({ name }: ModuleView, at: Moment): string[] {
  const runsIn = queueOf(at.view.moduleQueues, name);
  const own = failingHooks(at).filter(({ module, queue }) => module === name || queue === runsIn);
  return own.map(describeFailingHook);
}

function howToSwitchOn({ enabledBy, module }: ModuleView): string {
  if (enabledBy !== "none") return "";
  return ` (${module.valuesKey}Enabled: true in the ConfigMap does, or in a values.yaml)`;
}

const ENABLED_TEXT = {
  values: "values.yaml of the modules directory",
  "module-values": "the module's own values.yaml",
  hook: "a global hook",
  configmap: "the ConfigMap",
  script: "the module's enabled script",
} as const;

/** Why the module is on or off, in one line. */
export function enabledText(view: Pick<ModuleView, "enabled" | "enabledBy" | "enabledReason">): string {
  const word = view.enabled ? "on" : "off";
  const by =
    view.enabledBy === "none"
      ? "Off because nothing switches it on"
      : `Switched ${word} by ${ENABLED_TEXT[view.enabledBy]}`;
  return view.enabledReason === undefined ? by : `${by}: ${view.enabledReason}`;
}
