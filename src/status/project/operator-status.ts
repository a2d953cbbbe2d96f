/** The AddonOperator: the sum of all modules (docs/STATUS.md, "States of the operator"). */

import { shownDigest, usual } from "../../lib/index.ts";
import { describeCause, describeProblem } from "../../model/index.ts";
import { explainBrake, heldBy } from "../../plan/index.ts";
import type { ReloadPhase, View } from "../../state/index.ts";
import { STALLED, defined, line, timestamp } from "../models/kinds.ts";
import type { ConvergeStatus, ModuleCounts, OperatorState, OperatorStatus } from "../models/kinds.ts";
import { type Transitions, UNDER_WAY, type Verdict, judge, progress, readyOf, timed } from "./verdict.ts";

/** An AddonOperator as it should be; its spec is not written by the operator. */
export interface OperatorProjection {
  readonly status: OperatorStatus;
}

interface OperatorVerdict extends Verdict {
  readonly state: OperatorState;
}

const MOST_LISTED = 20;
const MOST_RIGHTS = 100;

/**
 * The AddonOperator: pure. Ready only when every enabled module is; Stalled when the ConfigMap is invalid or
 * missing, and when nothing is under way any more but some module needs a person.
 */
export function projectOperator(view: View, facts: { now: number; before: Transitions }): OperatorProjection {
  const verdicts = judgeAll(view, facts.now);
  const judged = judgeOperator(view, verdicts);
  const { config } = view;
  return {
    status: defined({
      state: judged.state,
      modules: count(view, verdicts),
      converge: projectReload(view),
      observedConfig: defined({
        resourceVersion: config.resourceVersion,
        digest: shownDigest(config.digest),
        condition: config.condition,
        unknownKeys: listed(config.unknownKeys),
      }),
      holds: listed(view.holds.map(({ text }) => text)),
      missingRights: listed(view.missingRights, MOST_RIGHTS),
      lastHandledReconcileAt: view.handledToken,
      conditions: timed(progress(withTroubles(judged, view)), facts.before, facts.now),
    }),
  };
}

/**
 * Problems of global hooks, and unknown keys, are added to the message in any state and change none: no module is
 * in doubt.
 */
function withTroubles(judged: OperatorVerdict, { troubles, config }: View): OperatorVerdict {
  const keys = config.unknownKeys.slice(0, MOST_LISTED).join(", ");
  const unknown = keys === "" ? [] : [`keys of the ConfigMap that match no module: ${keys}`];
  return { ...judged, message: [judged.message, ...troubles, ...unknown].join("; ") };
}

type Verdicts = ReadonlyMap<string, Verdict>;

function judgeAll(view: View, now: number): Verdicts {
  return new Map(
    [...view.modules].map(([name, module]) => [name, judge(module, { now, wait: heldBy(module, view) })]),
  );
}

function judgeOperator(view: View, verdicts: Verdicts): OperatorVerdict {
  return judgeConfig(view) ?? underWay(view) ?? judgeModules(view, verdicts);
}

function judgeConfig({ config: { condition, problems } }: View): OperatorVerdict | undefined {
  if (condition === "ok") return undefined;
  const reason = condition === "missing" ? "ConfigMapMissing" : "ConfigMapInvalid";
  return { state: "Invalid", reason, message: problems.map(describeProblem).join("; ") };
}

const BOOT_MESSAGE: Readonly<Record<View["boot"], string>> = {
  loading: "Reading modules and configuration",
  waiting: "Reading modules and configuration",
  onStartup: "Running global onStartup hooks",
  synchronization: "Running the Synchronization of global hooks",
  converging: "First reload of all modules",
  running: "",
};

/** A reload under way. Retries inside it show on the modules, so that a failing start does not look like progress. */
function underWay(view: View): OperatorVerdict | undefined {
  if ([...view.modules.values()].some((module) => module.enabled && module.retry !== undefined))
    return undefined;
  if (view.boot !== "running") {
    const state = view.boot === "converging" ? "Running" : "Pending";
    return { state, reason: "Progressing", message: BOOT_MESSAGE[view.boot] };
  }
  if (view.reload.phase !== "idle") {
    return {
      state: "Running",
      reason: "Progressing",
      message: `Reloading all modules: ${causeOf(view.reload) ?? ""}`,
    };
  }
  if (view.requestedToken === view.handledToken) return undefined;
  return { state: "Pending", reason: "Progressing", message: "Waits for the reload that was asked for" };
}

function judgeModules(view: View, verdicts: Verdicts): OperatorVerdict {
  const by = (...states: readonly Verdict["state"][]): string[] =>
    [...verdicts].filter(([, verdict]) => states.includes(verdict.state)).map(([name]) => name);
  const failing = by("Retrying");
  if (failing.length > 0) return about("Retrying", failing, verdicts);
  const busy = [...verdicts]
    .filter(([, verdict]) => isBusy(verdict) && !isBlocked(verdict))
    .map(([name]) => name);
  if (busy.length > 0) return about("Running", busy, verdicts);
  const broken = by(...STALLED).filter((name) => view.modules.get(name)?.enabled === true);
  if (broken.length > 0) return about("Invalid", broken, verdicts);
  if (view.brake?.confirmed === false)
    return { state: "Invalid", reason: "RemovalHeld", message: explainBrake(view.brake) };
  const ailing = by("Unhealthy");
  if (ailing.length > 0) return about("Unhealthy", ailing, verdicts);
  const blocked = [...verdicts].filter(([, verdict]) => isBlocked(verdict)).map(([name]) => name);
  if (blocked.length > 0) return about("Pending", blocked, verdicts);
  const unready = view.enabledModules.filter((name) => !isReady(verdicts.get(name)));
  if (unready.length > 0) return { ...about("Invalid", unready, verdicts), reason: "ModulesNotReady" };
  return {
    state: "Ready",
    reason: "Ready",
    message: `All enabled modules are ready (${view.enabledModules.length})`,
  };
}

/** A healing does not change Ready of its module, nor of the AddonOperator. */
function isBusy(verdict: Verdict): boolean {
  return UNDER_WAY.has(verdict.state) && readyOf(verdict) !== "True";
}

/** It waits for what it requires: nobody works on it. */
function isBlocked({ state, reason }: Verdict): boolean {
  return state === "Pending" && reason.startsWith("Dependency");
}

function isReady(verdict: Verdict | undefined): boolean {
  return verdict !== undefined && readyOf(verdict) === "True";
}

const ABOUT = {
  Retrying: { reason: "ModulesFailing", text: "failed and is retried" },
  Running: { reason: "Progressing", text: "is being worked on" },
  Pending: { reason: "ModulesBlocked", text: "waits for what it requires" },
  Invalid: { reason: "ModulesInvalid", text: "needs a person" },
  Unhealthy: { reason: "ModulesUnhealthy", text: "is not healthy" },
} as const;

function about(state: keyof typeof ABOUT, names: readonly string[], verdicts: Verdicts): OperatorVerdict {
  const first = names[0] ?? "";
  const more = names.length > 1 ? ` (and ${names.length - 1} more)` : "";
  const { reason, text } = ABOUT[state];
  // What a busy module does right now changes too often to be repeated here.
  const detail = state === "Running" ? "" : `: ${verdicts.get(first)?.message ?? ""}`;
  return { state, reason, message: `Module ${first} ${text}${more}${detail}` };
}

function count(view: View, verdicts: Verdicts): ModuleCounts {
  const all = [...verdicts.values()];
  const of = (...states: readonly Verdict["state"][]): number =>
    all.filter((verdict) => states.includes(verdict.state)).length;
  const enabled = view.enabledModules.length;
  const ready = view.enabledModules.filter((name) => isReady(verdicts.get(name))).length;
  return {
    summary: `${ready}/${enabled}`,
    total: view.modules.size,
    enabled,
    ready,
    progressing: of(...UNDER_WAY),
    retrying: of("Retrying"),
    unhealthy: of("Unhealthy"),
    invalid: of(...STALLED),
    disabled: of("Disabled"),
    blocked: all.filter(isBlocked).length,
    suspended: [...view.modules.values()].filter((module) => module.suspended).length,
  };
}

function projectReload(view: View): ConvergeStatus {
  const { boot, reload, enabledModules } = view;
  const { startedAt, finishedAt, phase } = reload;
  const total = enabledModules.length;
  const left = reload.remaining.length;
  const isUnderWay = phase !== "idle";
  return defined({
    phase: boot === "running" || boot === "converging" ? shown(phase) : "starting",
    cause: causeOf(reload),
    startedAt: startedAt === undefined ? undefined : timestamp(startedAt),
    finishedAt: finishedAt === undefined || isUnderWay ? undefined : timestamp(finishedAt),
    progress: isUnderWay ? `${Math.max(0, total - left)}/${total}` : undefined,
    remaining: isUnderWay ? left : undefined,
    waitingSeconds: left > 0 ? waitingSeconds(view) : undefined,
  });
}

/** How long the runs that have not begun usually take; undefined where that is not known of each module. */
function waitingSeconds({ reload, modules }: View): number | undefined {
  let sum = 0;
  for (const name of reload.remaining) {
    const module = modules.get(name);
    if (module === undefined || module.activity === "running") continue;
    const is = usual(module.runSeconds);
    if (is === undefined) return undefined;
    sum += is;
  }
  return Math.round(sum * 10) / 10;
}

/** Modules are at work, wherever they run. */
function shown(phase: ReloadPhase): Exclude<ReloadPhase, "turns"> {
  return phase === "turns" ? "modules" : phase;
}

function causeOf({ cause }: View["reload"]): string | undefined {
  return cause === undefined ? undefined : line(describeCause(cause));
}

function listed(items: readonly string[], most = MOST_LISTED): readonly string[] | undefined {
  return items.length === 0 ? undefined : items.slice(0, most).map(line);
}
