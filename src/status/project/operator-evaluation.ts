/** The state of the operator with its reason, from the states of all modules (docs/reference/status.md, "States of the operator"). */

import { describeCause, describeProblem } from "../../model/index.ts";
import {
  describeRunBlocker,
  explainBlockedConverge,
  explainDeletionLimit,
  type ConvergeBlocker,
} from "../../plan/index.ts";
import { explainInvalid } from "../../state/index.ts";
import type { ModuleView, View } from "../../state/index.ts";
import { STALLED, line, type OperatorState } from "../models/kinds.ts";
import { readyOf, UNDER_WAY, evaluateModule, type Evaluation } from "./evaluation.ts";

export interface OperatorEvaluation extends Evaluation {
  readonly state: OperatorState;
}

/** What blocks the converge, and the description of failing hooks. */
export interface OperatorBlockers {
  readonly hold?: ConvergeBlocker | undefined;
  readonly failing?: string | undefined;
}

/**
 * Ready only if every enabled module is Ready. Stalled if the ConfigMap is invalid or missing, if the ModuleSources cannot be
 * read, or if nothing is in progress and a module needs a user.
 */
export function evaluateOperator(
  view: View,
  evaluations: Evaluations,
  { hold, failing }: OperatorBlockers,
): OperatorEvaluation {
  const besidesHooks =
    evaluateConfig(view) ??
    evaluateSources(view) ??
    evaluateConverge(view, hold) ??
    evaluateWhileBusy(view, evaluations) ??
    evaluateWhenIdle(view, evaluations);
  return withHooks(besidesHooks, failing);
}

/** States that take precedence over failing hooks. */
const BEFORE_HOOKS: ReadonlySet<OperatorState> = new Set(["Invalid", "Retrying", "Unhealthy"]);

/** Reports failing hooks as Retrying: what waits in their queues makes no progress. */
function withHooks(evaluation: OperatorEvaluation, failing: string | undefined): OperatorEvaluation {
  if (failing === undefined) return evaluation;
  if (BEFORE_HOOKS.has(evaluation.state))
    return { ...evaluation, message: `${evaluation.message}; ${failing}` };
  const rest = evaluation.state === "Ready" ? "" : `; ${evaluation.message}`;
  return { state: "Retrying", reason: "HooksFailing", message: failing + rest };
}

/** The evaluations of all modules, by name. */
export type Evaluations = ReadonlyMap<string, Evaluation>;

/** Evaluates each module. */
export function evaluateModules(view: View, now: number): Evaluations {
  return new Map(
    [...view.modules].map(([name, module]) => [
      name,
      evaluateModule(module, { now, runBlocker: describeRunBlocker(module, view) }),
    ]),
  );
}

/** What an invalid or missing ConfigMap means for the operator; undefined if it is valid. */
function evaluateConfig(view: View): OperatorEvaluation | undefined {
  const { condition, problems } = view.config;
  if (condition === "ok") return undefined;
  const reported = problems.map(describeProblem);
  if (condition === "missing")
    return { state: "Invalid", reason: "ConfigMapMissing", message: reported.join("; ") };
  const message = [...reported, explainInvalid(view)].join("; ");
  return { state: "Invalid", reason: "ConfigMapInvalid", message };
}

/** The evaluation if the ModuleSources cannot be read; undefined if they can, or if there are none. */
function evaluateSources({ sourcesProblem }: View): OperatorEvaluation | undefined {
  if (sourcesProblem === undefined) return undefined;
  const message = `${sourcesProblem}; modules of ModuleSources stay as they are, and none is removed`;
  return { state: "Invalid", reason: "SourcesUnreadable", message };
}

const BOOT_MESSAGE: Readonly<Record<View["boot"], string>> = {
  loading: "Reading modules and configuration",
  waiting: "Reading modules and configuration",
  onStartup: "Running global onStartup hooks",
  synchronization: "Running the Synchronization of global hooks",
  converging: "First converge of all modules",
  running: "",
};

/**
 * The evaluation of a converge in progress. A failed step or module takes precedence, so that a failing start does not look
 * like progress.
 */
function evaluateConverge(view: View, hold: ConvergeBlocker | undefined): OperatorEvaluation | undefined {
  const progress = convergeProgress(view);
  const message = [progress?.message ?? "Converging all modules", hold?.text];
  if (hold?.hasFailed === true)
    return { state: "Retrying", reason: "ReloadHeldUp", message: message.join(" is blocked: ") };
  const isFailing = ({ name, retry }: ModuleView): boolean =>
    retry !== undefined && getSwitchState(name, view) === "on";
  if ([...view.modules.values()].some(isFailing)) return undefined;
  if (progress !== undefined)
    return hold === undefined ? progress : { ...progress, message: message.join(": ") };
  if (view.requestedToken === view.handledToken) return undefined;
  return { state: "Pending", reason: "Progressing", message: "Waits for the requested converge" };
}

/** The progress of start-up or of a converge; undefined while neither is running. */
function convergeProgress({ boot, converge, missingGlobals }: View): OperatorEvaluation | undefined {
  const [missing] = missingGlobals;
  if (boot === "waiting" && missing !== undefined)
    return { state: "Pending", reason: "ValuesMissing", message: `Global values are in ${missing}` };
  if (boot !== "running") {
    const state = boot === "converging" ? "Running" : "Pending";
    return { state, reason: "Progressing", message: BOOT_MESSAGE[boot] };
  }
  if (converge.phase === "idle") return undefined;
  return {
    state: "Running",
    reason: "Progressing",
    message: `Converging all modules: ${causeOf({ converge }) ?? ""}`,
  };
}

/**
 * `disabling`: an edit switched the module off, but it stays enabled until the next converge removes it. `unused`: its files
 * cannot be read, and nothing switches it on.
 */
function getSwitchState(name: string, { modules }: View): "on" | "off" | "disabling" | "unused" {
  const { enabled, flag, problem } = modules.get(name) ?? {};
  if (enabled !== true && problem !== undefined) return flag === true ? "on" : "unused";
  if (enabled !== true) return "off";
  return flag === true ? "on" : "disabling";
}

/** The evaluation while a module fails or runs; undefined if none does. */
function evaluateWhileBusy(view: View, evaluations: Evaluations): OperatorEvaluation | undefined {
  const failing = Object.groupBy(inState(evaluations, "Retrying"), (name) => getSwitchState(name, view));
  if (failing.on !== undefined)
    return withBlockedWork(aggregateEvaluation("Retrying", failing.on, evaluations), view);
  if (failing.off !== undefined) return aggregateEvaluation("Removing", failing.off, evaluations);
  const busy = [...evaluations].filter(([, evaluation]) => isBusy(evaluation) && !isBlocked(evaluation));
  const names = [...busy.map(([name]) => name), ...(failing.disabling ?? [])];
  return names.length === 0 ? undefined : aggregateEvaluation("Running", names, evaluations);
}

/** Appends which work the failing module blocks. */
function withBlockedWork(evaluation: OperatorEvaluation, view: View): OperatorEvaluation {
  const held = explainBlockedConverge(view);
  return held === undefined ? evaluation : { ...evaluation, message: `${evaluation.message}; ${held}` };
}

/** The evaluation when nothing is in progress. */
function evaluateWhenIdle(view: View, evaluations: Evaluations): OperatorEvaluation {
  const broken = inState(evaluations, ...STALLED).filter((name) => isWanted(view.modules.get(name)));
  if (broken.length > 0) return aggregateEvaluation("Invalid", broken, evaluations);
  if (view.deletionLimit?.confirmed === false)
    return {
      state: "Invalid",
      reason: "RemovalHeld",
      message: explainDeletionLimit(view.deletionLimit, view),
    };
  const unhealthy = inState(evaluations, "Unhealthy");
  if (unhealthy.length > 0) return aggregateEvaluation("Unhealthy", unhealthy, evaluations);
  const blocked = [...evaluations].filter(([, evaluation]) => isBlocked(evaluation)).map(([name]) => name);
  if (blocked.length > 0) return aggregateEvaluation("Pending", blocked, evaluations);
  const unready = view.enabledModules.filter((name) => !isReady(evaluations.get(name)));
  if (unready.length > 0)
    return { ...aggregateEvaluation("Invalid", unready, evaluations), reason: "ModulesNotReady" };
  const message = `All enabled modules are ready (${view.enabledModules.length})`;
  return { state: "Ready", reason: "Ready", message };
}

/** Enabled, or switched on by flags: discovery never enables a module whose files cannot be read. */
export function isWanted(module: ModuleView | undefined): boolean {
  return module !== undefined && (module.enabled || (module.problem !== undefined && module.flag));
}

function inState(evaluations: Evaluations, ...states: readonly Evaluation["state"][]): string[] {
  return [...evaluations].filter(([, evaluation]) => states.includes(evaluation.state)).map(([name]) => name);
}

/** Whether the module is in progress. Restoring objects does not change Ready. */
function isBusy(evaluation: Evaluation): boolean {
  return UNDER_WAY.has(evaluation.state) && readyOf(evaluation) !== "True";
}

/** Whether the module waits for what it requires. */
export function isBlocked({ state, reason }: Evaluation): boolean {
  return state === "Pending" && reason.startsWith("Dependency");
}

export function isReady(evaluation: Evaluation | undefined): boolean {
  return evaluation !== undefined && readyOf(evaluation) === "True";
}

const AGGREGATES = {
  Retrying: { state: "Retrying", reason: "ModulesFailing", text: "failed and is retried" },
  Removing: {
    state: "Retrying",
    reason: "ModulesFailing",
    text: "is off; its removal failed and is retried",
  },
  Running: { state: "Running", reason: "Progressing", text: "is being worked on" },
  Pending: { state: "Pending", reason: "ModulesBlocked", text: "waits for what it requires" },
  Invalid: { state: "Invalid", reason: "ModulesInvalid", text: "needs a person" },
  Unhealthy: { state: "Unhealthy", reason: "ModulesUnhealthy", text: "is not healthy" },
} as const;

/** One evaluation for several modules. Its message names the first and counts the others. */
function aggregateEvaluation(
  what: keyof typeof AGGREGATES,
  names: readonly string[],
  evaluations: Evaluations,
): OperatorEvaluation {
  const first = names[0] ?? "";
  const more = names.length > 1 ? ` (and ${names.length - 1} more)` : "";
  const { state, reason, text } = AGGREGATES[what];
  // What a busy module does right now changes too often to be repeated here.
  const detail = state === "Running" ? "" : `: ${evaluations.get(first)?.message ?? ""}`;
  return { state, reason, message: `Module ${first} ${text}${more}${detail}` };
}

/** Why the converge started. */
export function causeOf({ converge: { cause } }: Pick<View, "converge">): string | undefined {
  return cause === undefined ? undefined : line(describeCause(cause));
}
