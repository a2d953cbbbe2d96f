/** The state of the operator with its reason, from the states of all modules (docs/reference/status.md, "States of the operator"). */

import { describeCause, describeProblem } from "../../model/index.ts";
import { blockedBy, deferredWork, explainDeletionLimit, type ConvergeBlocker } from "../../plan/index.ts";
import { explainInvalid } from "../../state/index.ts";
import type { ModuleView, View } from "../../state/index.ts";
import { STALLED, line, type OperatorState } from "../models/kinds.ts";
import { readyOf, UNDER_WAY, verdictOf, type Verdict } from "./verdict.ts";

export interface OperatorVerdict extends Verdict {
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
export function operatorVerdict(
  view: View,
  verdicts: Verdicts,
  { hold, failing }: OperatorBlockers,
): OperatorVerdict {
  const besidesHooks =
    configVerdict(view) ??
    sourcesVerdict(view) ??
    convergeVerdict(view, hold) ??
    busyVerdict(view, verdicts) ??
    idleVerdict(view, verdicts);
  return withHooks(besidesHooks, failing);
}

/** States that take precedence over failing hooks. */
const BEFORE_HOOKS: ReadonlySet<OperatorState> = new Set(["Invalid", "Retrying", "Unhealthy"]);

/** Reports failing hooks as Retrying: what waits in their queues makes no progress. */
function withHooks(judged: OperatorVerdict, failing: string | undefined): OperatorVerdict {
  if (failing === undefined) return judged;
  if (BEFORE_HOOKS.has(judged.state)) return { ...judged, message: `${judged.message}; ${failing}` };
  const rest = judged.state === "Ready" ? "" : `; ${judged.message}`;
  return { state: "Retrying", reason: "HooksFailing", message: failing + rest };
}

/** The verdicts on all modules, by name. */
export type Verdicts = ReadonlyMap<string, Verdict>;

/** The verdict on each module. */
export function allVerdicts(view: View, now: number): Verdicts {
  return new Map(
    [...view.modules].map(([name, module]) => [
      name,
      verdictOf(module, { now, wait: blockedBy(module, view) }),
    ]),
  );
}

/** The verdict if the ConfigMap is invalid or missing; undefined if it is valid. */
function configVerdict(view: View): OperatorVerdict | undefined {
  const { condition, problems } = view.config;
  if (condition === "ok") return undefined;
  const reported = problems.map(describeProblem);
  if (condition === "missing")
    return { state: "Invalid", reason: "ConfigMapMissing", message: reported.join("; ") };
  const message = [...reported, explainInvalid(view)].join("; ");
  return { state: "Invalid", reason: "ConfigMapInvalid", message };
}

/** The verdict if the ModuleSources cannot be read; undefined if they can, or if there are none. */
function sourcesVerdict({ sourcesFault }: View): OperatorVerdict | undefined {
  if (sourcesFault === undefined) return undefined;
  const message = `${sourcesFault}; modules of ModuleSources stay as they are, and none is removed`;
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
 * The verdict of a converge in progress. A failed step or module takes precedence, so that a failing start does not look
 * like progress.
 */
function convergeVerdict(view: View, hold: ConvergeBlocker | undefined): OperatorVerdict | undefined {
  const progress = convergeProgress(view);
  const message = [progress?.message ?? "Converging all modules", hold?.text];
  if (hold?.hasFailed === true)
    return { state: "Retrying", reason: "ReloadHeldUp", message: message.join(" is blocked: ") };
  const isFailing = ({ name, retry }: ModuleView): boolean =>
    retry !== undefined && switchStateOf(name, view) === "on";
  if ([...view.modules.values()].some(isFailing)) return undefined;
  if (progress !== undefined)
    return hold === undefined ? progress : { ...progress, message: message.join(": ") };
  if (view.requestedToken === view.handledToken) return undefined;
  return { state: "Pending", reason: "Progressing", message: "Waits for the requested converge" };
}

/** The progress of start-up or of a converge; undefined while neither is running. */
function convergeProgress({ boot, converge, missingGlobals }: View): OperatorVerdict | undefined {
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
 * `going`: an edit switched the module off, but it stays enabled until the next converge removes it. `unused`: its files
 * cannot be read, and nothing switches it on.
 */
function switchStateOf(name: string, { modules }: View): "on" | "off" | "going" | "unused" {
  const { enabled, flag, problem } = modules.get(name) ?? {};
  if (enabled !== true && problem !== undefined) return flag === true ? "on" : "unused";
  if (enabled !== true) return "off";
  return flag === true ? "on" : "going";
}

/** Modules that fail or run. */
function busyVerdict(view: View, verdicts: Verdicts): OperatorVerdict | undefined {
  const failing = Object.groupBy(inState(verdicts, "Retrying"), (name) => switchStateOf(name, view));
  if (failing.on !== undefined) return withDeferred(aggregateVerdict("Retrying", failing.on, verdicts), view);
  if (failing.off !== undefined) return aggregateVerdict("Removing", failing.off, verdicts);
  const busy = [...verdicts].filter(([, verdict]) => isBusy(verdict) && !isBlocked(verdict));
  const names = [...busy.map(([name]) => name), ...(failing.going ?? [])];
  return names.length === 0 ? undefined : aggregateVerdict("Running", names, verdicts);
}

/** Appends which work the failing module blocks. */
function withDeferred(judged: OperatorVerdict, view: View): OperatorVerdict {
  const held = deferredWork(view);
  return held === undefined ? judged : { ...judged, message: `${judged.message}; ${held}` };
}

/** The verdict when nothing is in progress. */
function idleVerdict(view: View, verdicts: Verdicts): OperatorVerdict {
  const broken = inState(verdicts, ...STALLED).filter((name) => isWanted(view.modules.get(name)));
  if (broken.length > 0) return aggregateVerdict("Invalid", broken, verdicts);
  if (view.deletionLimit?.confirmed === false)
    return {
      state: "Invalid",
      reason: "RemovalHeld",
      message: explainDeletionLimit(view.deletionLimit, view),
    };
  const unhealthy = inState(verdicts, "Unhealthy");
  if (unhealthy.length > 0) return aggregateVerdict("Unhealthy", unhealthy, verdicts);
  const blocked = [...verdicts].filter(([, verdict]) => isBlocked(verdict)).map(([name]) => name);
  if (blocked.length > 0) return aggregateVerdict("Pending", blocked, verdicts);
  const unready = view.enabledModules.filter((name) => !isReady(verdicts.get(name)));
  if (unready.length > 0)
    return { ...aggregateVerdict("Invalid", unready, verdicts), reason: "ModulesNotReady" };
  const message = `All enabled modules are ready (${view.enabledModules.length})`;
  return { state: "Ready", reason: "Ready", message };
}

/** Enabled, or switched on by flags: discovery never enables a module whose files cannot be read. */
export function isWanted(module: ModuleView | undefined): boolean {
  return module !== undefined && (module.enabled || (module.problem !== undefined && module.flag));
}

function inState(verdicts: Verdicts, ...states: readonly Verdict["state"][]): string[] {
  return [...verdicts].filter(([, verdict]) => states.includes(verdict.state)).map(([name]) => name);
}

/** Whether the module is in progress. Restoring objects does not change Ready. */
function isBusy(verdict: Verdict): boolean {
  return UNDER_WAY.has(verdict.state) && readyOf(verdict) !== "True";
}

/** Whether the module waits for what it requires. */
export function isBlocked({ state, reason }: Verdict): boolean {
  return state === "Pending" && reason.startsWith("Dependency");
}

export function isReady(verdict: Verdict | undefined): boolean {
  return verdict !== undefined && readyOf(verdict) === "True";
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

/** One verdict on several modules. Its message names the first and counts the others. */
function aggregateVerdict(
  what: keyof typeof AGGREGATES,
  names: readonly string[],
  verdicts: Verdicts,
): OperatorVerdict {
  const first = names[0] ?? "";
  const more = names.length > 1 ? ` (and ${names.length - 1} more)` : "";
  const { state, reason, text } = AGGREGATES[what];
  // What a busy module does right now changes too often to be repeated here.
  const detail = state === "Running" ? "" : `: ${verdicts.get(first)?.message ?? ""}`;
  return { state, reason, message: `Module ${first} ${text}${more}${detail}` };
}

/** Why the converge started. */
export function causeOf({ converge: { cause } }: Pick<View, "converge">): string | undefined {
  return cause === undefined ? undefined : line(describeCause(cause));
}
