/**
 * The one explanation of what the operator and its modules do, and why they are not Ready. Statuses, commands, the page and metrics
 * print it, and compute none of it again (docs/reference/status.md).
 */

import { describeChangesByOthers } from "../../kube/drift/index.ts";
import { formatUtc } from "../../base/index.ts";
import { describeProblem, type Task } from "../../base/model/index.ts";
import { explainRequirements, type Requirement, type RunBlocker } from "../../engine/plan/index.ts";
import type { TaskView } from "../../engine/queue/index.ts";
import { collectWarnings, listMissingObjects } from "../../engine/state/index.ts";
import type { ModuleView, View } from "../../engine/state/index.ts";
import { describeBlocker, describeBlockingFailure, findHeadOfDelayingQueue } from "./blockers.ts";
import { indexSnapshot, type SnapshotIndex, type StateSnapshot } from "./snapshot-index.ts";
import { describeFailingHook } from "./failing-hooks.ts";
import { ANNOUNCE_AFTER_MS, evaluateModule, isRunUnannounced, type Evaluation } from "./module-state.ts";
import { explainOperator, type OperatorExplanation } from "./operator-state.ts";
import { describeRunWait, formatTimes } from "./reasons.ts";

/** What a module does, and why it is not Ready. */
export interface ModuleExplanation extends Evaluation {
  readonly view: ModuleView;
  /** The run in progress is too young to be displayed. */
  readonly isRunUnannounced: boolean;
  /** What a due run waits for: a required module or object, a Secret or ConfigMap, or a module that runs before it. */
  readonly runBlocker: RunBlocker | undefined;
  /** A requirement that was met when the module ran, and is not met any more. */
  readonly lostRequirement: RunBlocker | undefined;
  readonly requirements: readonly Requirement[];
  /** Its failing hooks, in words. */
  readonly failingHooks: string | undefined;
  /** When the failed run or removal is retried, in ms since the epoch; undefined while it runs. */
  readonly nextRetryAt: number | undefined;
  /** What is wrong with the module, one sentence for each reason, the gravest first; empty if it is Ready and nothing is due. */
  readonly reasons: readonly string[];
  /** More sentences, which change too often for the AddonModule: the queue that delays it, the step of its run, dropped ticks. */
  readonly momentaryReasons: readonly string[];
  /** Facts that do not change its state, such as hooks that cannot run. */
  readonly warnings: readonly string[];
  /** Ticks of its schedules that were dropped. */
  readonly droppedTicks: readonly string[];
}

/** The explanation of one moment. Each part is computed when it is first read. */
export class Explanation {
  readonly view: View;
  readonly queues: StateSnapshot["queues"];
  readonly now: number;
  /** From this time on, the explanation is not true any more, because a run is old enough to be displayed; in ms since the epoch. */
  readonly expiresAt: number;
  readonly #modules = new Map<string, ModuleExplanation>();
  #all: ReadonlyMap<string, ModuleExplanation> | undefined;
  #index: SnapshotIndex | undefined;
  #operator: OperatorExplanation | undefined;

  constructor({ view, queues }: StateSnapshot, now: number) {
    this.view = view;
    this.queues = queues;
    this.now = now;
    const youngRuns = [...view.modules.values()].filter((module) => isRunUnannounced(module, now));
    const ends = youngRuns.map(({ lastRun }) => (lastRun?.startedAt ?? now) + ANNOUNCE_AFTER_MS);
    this.expiresAt = Math.min(Infinity, ...ends);
  }

  /** Explains the operator by the states of all modules. */
  get operator(): OperatorExplanation {
    this.#operator ??= explainOperator(this.#getIndex(), this.modules);
    return this.#operator;
  }

  /** Explains all modules, in their order. */
  get modules(): ReadonlyMap<string, ModuleExplanation> {
    const modules = this.view.modules.values();
    this.#all ??= new Map(modules.map((module) => [module.name, this.#explain(module)]));
    return this.#all;
  }

  /** Explains one module; undefined if there is none of this name. */
  module(name: string): ModuleExplanation | undefined {
    const module = this.view.modules.get(name);
    return module && this.#explain(module);
  }

  /** Ticks of schedules of global hooks that were dropped, one sentence for each hook. */
  get droppedTicks(): readonly string[] {
    return this.#getIndex().droppedTicks.get(undefined) ?? [];
  }

  #getIndex(): SnapshotIndex {
    this.#index ??= indexSnapshot(this);
    return this.#index;
  }

  #explain(module: ModuleView): ModuleExplanation {
    const known = this.#modules.get(module.name);
    if (known !== undefined) return known;
    const explanation = explainModule(module, this.#getIndex(), this.now);
    this.#modules.set(module.name, explanation);
    return explanation;
  }
}

const explanations = new WeakMap<View, Explanation>();

/** Explains the state and the queues at the time `now` (ms since the epoch). Several readers of one moment get the same explanation. */
export function explain(snapshot: StateSnapshot, now: number): Explanation {
  // The queues may be read anew each time.
  const { view, queues } = snapshot;
  const known = explanations.get(view);
  if (known?.queues === queues && now >= known.now && now < known.expiresAt) return known;
  const explanation = new Explanation({ view, queues }, now);
  explanations.set(view, explanation);
  return explanation;
}

/** What the due run or removal of a module waits for, and its next try. */
interface Wait {
  /** The head of the queue that delays it. */
  readonly head: TaskView<Task> | undefined;
  readonly blocker: string | undefined;
  /** The same head, if it is a task of another that delays the module. */
  readonly otherHead: TaskView<Task> | undefined;
  /** The head is the module's own run, which has failed. */
  readonly isOwnRetry: boolean;
  readonly nextRetryAt: number | undefined;
  /** What the next try waits for, if it has no time: a converge that is next has dropped the failed run from the module's own queue. */
  readonly retryBlocker: string | undefined;
}

function explainWait(view: ModuleView, index: SnapshotIndex, runBlocker: RunBlocker | undefined): Wait {
  const head = findHeadOfDelayingQueue(view, index);
  const blocker = describeBlocker(view, index.view, { runBlocker, head });
  const ownRun = index.runs.get(view.name)?.run;
  const nextRetryAt = view.retry && ownRun?.nextAt;
  const isDelayedByOther = blocker !== undefined && runBlocker === undefined && head !== ownRun;
  const otherHead = isDelayedByOther ? head : undefined;
  const mustWait = view.retry !== undefined && nextRetryAt === undefined && otherHead !== undefined;
  const isOwnRetry = view.retry !== undefined && head !== undefined && head === ownRun;
  return { head, blocker, otherHead, isOwnRetry, nextRetryAt, retryBlocker: mustWait ? blocker : undefined };
}

function explainModule(view: ModuleView, index: SnapshotIndex, now: number): ModuleExplanation {
  const { requirements, runBlocker, otherBlockers, lostRequirement } = explainRequirements(view, index.view);
  const { head, blocker, nextRetryAt, otherHead, isOwnRetry, retryBlocker } = explainWait(
    view,
    index,
    runBlocker,
  );
  const ownHooks = index.failingHooks.filter(({ task }) => task.hook.module === view.name);
  const failingHooks = ownHooks.map(describeFailingHook);
  const facts = {
    now,
    blocker,
    runBlocker,
    failingHooks: failingHooks.length === 0 ? undefined : failingHooks.join("; "),
  };
  const evaluation = evaluateModule(view, facts);
  // A module that is not Pending does not wait for what delays its next run.
  const isWaiting = evaluation.state === "Pending";
  const known = {
    blockers: isWaiting && blocker !== undefined ? [blocker, ...otherBlockers] : otherBlockers,
    lostRequirement,
    failingHooks,
    nextRetryAt,
    retryBlocker,
  };
  const warnings = view.enabled ? collectWarnings(view) : [];
  const droppedTicks = index.droppedTicks.get(view.name) ?? [];
  const headHook = index.failingHooks.find(({ task }) => task === head?.task);
  // The reasons describe hooks of the module itself.
  const isOwnHook = headHook !== undefined && ownHooks.includes(headHook);
  // What requires another module waits for that, and not for a task.
  const failingHead = headHook === undefined ? otherHead : head;
  // Other sentences say so.
  const isBlockerListed = isWaiting || isOwnRetry || retryBlocker !== undefined || isOwnHook;
  const momentaryReasons = [
    isBlockerListed ? undefined : blocker,
    failingHead && describeBlockingFailure(failingHead, headHook, isOwnHook),
    ...droppedTicks,
    ...describeActivity(view),
  ];
  return {
    ...evaluation,
    view,
    isRunUnannounced: isRunUnannounced(view, now),
    runBlocker,
    lostRequirement,
    requirements,
    failingHooks: facts.failingHooks,
    nextRetryAt,
    reasons: [...listReasons(view, known), ...warnings],
    momentaryReasons: momentaryReasons.filter((sentence) => sentence !== undefined),
    warnings,
    droppedTicks,
  };
}

/** What is known of a module besides its view. */
interface KnownReasons {
  /** What its due run or removal waits for. */
  readonly blockers: readonly string[];
  readonly lostRequirement: RunBlocker | undefined;
  readonly failingHooks: readonly string[];
  readonly nextRetryAt: number | undefined;
  /** What the next try waits for, if it has no time. */
  readonly retryBlocker: string | undefined;
}

/** Sentences about what is wrong with a module, one for each reason why it is not Ready, the gravest first, without its warnings. */
function listReasons(module: ModuleView, known: KnownReasons): string[] {
  const { retry, health, unhealthy, unready } = module;
  const { blockers, lostRequirement, failingHooks } = known;
  const missing = listMissingObjects(module);
  const facts = [
    describeUnsolvedProblem(module),
    module.crdWork,
    ...blockers,
    ...failingHooks,
    // What the next run waits for is among the blockers.
    module.blockedSince === undefined ? lostRequirement?.message : undefined,
    module.suspended ? "suspended: Helm does not run, hooks continue to run" : undefined,
    retry && describeRetry(retry, known),
    // After a rollback: why its cause is not tried again.
    module.rollbackReason,
    missing.length === 0 ? undefined : `missing objects: ${missing.join(", ")}`,
    // The health of a module counts here also where Ready ignores it.
    unhealthy?.message ?? (health?.status === "False" ? `not healthy: ${health.message}` : undefined),
    unready?.message,
    describeChangesByOthers(module.drift),
  ];
  return facts.filter((fact) => fact !== undefined);
}

/** The problem of a module, and whether a user must solve it; undefined if there is none, or if the sentence about its retry describes it. */
function describeUnsolvedProblem({ problem, retry }: ModuleView): string | undefined {
  if (problem === undefined || (retry !== undefined && retry.reason === problem.retriedAs)) return undefined;
  const remedy = problem.retriedAs === undefined ? "requires action" : "is tried again";
  return `${remedy}: ${describeProblem(problem)}`;
}

/** E.g. *failed 3 times since 2026-01-01T09:15:00Z (HelmFailed): timed out; next try 2026-01-01T09:20:00Z*. */
function describeRetry(
  { failures, since, reason, message }: NonNullable<ModuleView["retry"]>,
  { nextRetryAt, retryBlocker }: Pick<KnownReasons, "nextRetryAt" | "retryBlocker">,
): string {
  const awaited = retryBlocker === undefined ? "" : `; the next try ${retryBlocker}`;
  const next = nextRetryAt === undefined ? awaited : `; next try ${formatUtc(nextRetryAt)}`;
  return `failed ${formatTimes(failures)} since ${formatUtc(since)} (${reason}): ${message}${next}`;
}

/** Says which step the module's run has reached and what that step waits for; empty if the module is idle. */
function describeActivity({ activity, lastRun }: ModuleView): string[] {
  if (activity === "none") return [];
  const wait = describeRunWait(lastRun);
  return [`${activity}: step ${lastRun?.step ?? ""}`, ...(wait === undefined ? [] : [wait])];
}
