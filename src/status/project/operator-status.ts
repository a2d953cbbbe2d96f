/** The AddonOperator: the sum of all modules (docs/STATUS.md, "States of the operator"). */

import { shownDigest, usual } from "../../lib/index.ts";
import { describeCause, describeProblem } from "../../model/index.ts";
import { explainBrake, heldBack, heldBy, type ReloadHold } from "../../plan/index.ts";
import { annotationToken, explainInvalid } from "../../state/index.ts";
import { MAINTENANCE } from "../../values/index.ts";
import type { ModuleView, ReloadPhase, View } from "../../state/index.ts";
import { STALLED, defined, line, timestamp } from "../models/kinds.ts";
import type { ConvergeStatus, ModuleCounts, OperatorState, OperatorStatus } from "../models/kinds.ts";
import { type Aspect, failingHooksAspects, judge, progress, readyOf, timed } from "./verdict.ts";
import { type Transitions, UNDER_WAY, type Verdict } from "./verdict.ts";

/** An AddonOperator as it should be; its spec is not written by the operator. */
export interface OperatorProjection {
  readonly status: OperatorStatus;
}

/** What is known besides the view. */
interface OperatorFacts {
  /** Milliseconds since the epoch. */
  readonly now: number;
  /** Transition times of the status before. */
  readonly before: Transitions;
  /** What keeps a reload from going on. */
  readonly hold?: ReloadHold | undefined;
  /** Hooks that fail, in words. */
  readonly failing?: string | undefined;
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
export function projectOperator(view: View, facts: OperatorFacts): OperatorProjection {
  const verdicts = judgeAll(view, facts.now);
  const besidesHooks =
    judgeConfig(view) ?? underWay(view, facts.hold) ?? atWork(view, verdicts) ?? atRest(view, verdicts);
  const judged = withHooks(besidesHooks, facts.failing);
  const { config } = view;
  return {
    status: defined({
      state: judged.state,
      modules: count(view, verdicts),
      converge: projectReload(view, facts.hold),
      observedConfig: defined({
        resourceVersion: config.resourceVersion,
        digest: shownDigest(config.digest),
        condition: config.condition,
        unknownKeys: listed(config.unknownKeys),
      }),
      holds: listed(view.holds.map(({ text }) => text)),
      missingRights: listed(view.missingRights, MOST_RIGHTS),
      lastHandledReconcileAt: annotationToken(view.handledToken),
      conditions: timed(
        [
          ...progress(withTroubles(judged, view)),
          ...suspendedAspects(view),
          ...failingHooksAspects(facts.failing),
        ],
        facts.before,
        facts.now,
      ),
    }),
  };
}

/** States that are told before hooks that fail. */
const GRAVE: ReadonlySet<OperatorState> = new Set(["Invalid", "Retrying", "Unhealthy"]);

/** While a hook fails, what waits behind it stands still: that is no progress, nor are all modules at rest. */
function withHooks(judged: OperatorVerdict, failing: string | undefined): OperatorVerdict {
  if (failing === undefined) return judged;
  if (GRAVE.has(judged.state)) return { ...judged, message: `${judged.message}; ${failing}` };
  const rest = judged.state === "Ready" ? "" : `; ${judged.message}`;
  return { state: "Retrying", reason: "HooksFailing", message: failing + rest };
}

function suspendedAspects({ config }: View): Aspect[] {
  const reason = "NoResourceReconciliation";
  return config.isFrozen ? [{ type: "Suspended", status: "True", reason, message: FROZEN }] : [];
}

/** What `maintenance` means, where it is set. */
const FROZEN = `All modules are suspended: ${MAINTENANCE} is set in the ConfigMap. Helm changes and removes nothing, hooks go on; remove the key to go on`;

/**
 * A suspension of all modules, problems of global hooks, those that are not executable, and unknown keys are added to the message in any state and
 * change none: no module is in doubt.
 */
function withTroubles(judged: OperatorVerdict, { troubles, tree, config }: View): OperatorVerdict {
  const frozen = config.isFrozen ? [FROZEN] : [];
  const keys = config.unknownKeys.slice(0, MOST_LISTED).join(", ");
  const unknown = keys === "" ? [] : [`keys of the ConfigMap that match no module: ${keys}`];
  const { idleFiles = [] } = tree;
  return {
    ...judged,
    message: [...frozen, judged.message, ...troubles, ...idleFiles, ...unknown].join("; "),
  };
}

type Verdicts = ReadonlyMap<string, Verdict>;

function judgeAll(view: View, now: number): Verdicts {
  return new Map(
    [...view.modules].map(([name, module]) => [name, judge(module, { now, wait: heldBy(module, view) })]),
  );
}

function judgeConfig(view: View): OperatorVerdict | undefined {
  const { condition, problems } = view.config;
  if (condition === "ok") return undefined;
  const told = problems.map(describeProblem);
  if (condition === "missing")
    return { state: "Invalid", reason: "ConfigMapMissing", message: told.join("; ") };
  const message = [...told, explainInvalid(view)].join("; ");
  return { state: "Invalid", reason: "ConfigMapInvalid", message };
}

const BOOT_MESSAGE: Readonly<Record<View["boot"], string>> = {
  loading: "Reading modules and configuration",
  waiting: "Reading modules and configuration",
  onStartup: "Running global onStartup hooks",
  synchronization: "Running the Synchronization of global hooks",
  converging: "First reload of all modules",
  running: "",
};

/**
 * A reload under way. A step of it that fails and modules that do are told in its place, so that a failing start does not
 * look like progress.
 */
function underWay(view: View, hold: ReloadHold | undefined): OperatorVerdict | undefined {
  const what = reloading(view);
  const message = [what?.message ?? "Reloading all modules", hold?.text];
  if (hold?.hasFailed === true)
    return { state: "Retrying", reason: "ReloadHeldUp", message: message.join(" is held up: ") };
  const isFailing = ({ name, retry }: ModuleView): boolean =>
    retry !== undefined && sideOf(name, view) === "on";
  if ([...view.modules.values()].some(isFailing)) return undefined;
  if (what !== undefined) return hold === undefined ? what : { ...what, message: message.join(": ") };
  if (view.requestedToken === view.handledToken) return undefined;
  return { state: "Pending", reason: "Progressing", message: "Waits for the reload that was asked for" };
}

function reloading({ boot, reload }: View): OperatorVerdict | undefined {
  if (boot !== "running") {
    const state = boot === "converging" ? "Running" : "Pending";
    return { state, reason: "Progressing", message: BOOT_MESSAGE[boot] };
  }
  if (reload.phase === "idle") return undefined;
  return {
    state: "Running",
    reason: "Progressing",
    message: `Reloading all modules: ${causeOf({ reload }) ?? ""}`,
  };
}

/** Whether a module is on, off, or going: an edit has switched it off, which the next reload carries out. */
function sideOf(name: string, { modules }: View): "on" | "off" | "going" {
  const { enabled, flag } = modules.get(name) ?? {};
  if (enabled !== true) return "off";
  return flag === true ? "on" : "going";
}

/** Modules that fail or are worked on. */
function atWork(view: View, verdicts: Verdicts): OperatorVerdict | undefined {
  const failing = Object.groupBy(inState(verdicts, "Retrying"), (name) => sideOf(name, view));
  if (failing.on !== undefined) return withHeldBack(about("Retrying", failing.on, verdicts), view);
  if (failing.off !== undefined) return about("Removing", failing.off, verdicts);
  const busy = [...verdicts].filter(([, verdict]) => isBusy(verdict) && !isBlocked(verdict));
  const names = [...busy.map(([name]) => name), ...(failing.going ?? [])];
  return names.length === 0 ? undefined : about("Running", names, verdicts);
}

function withHeldBack(judged: OperatorVerdict, view: View): OperatorVerdict {
  const held = heldBack(view);
  return held === undefined ? judged : { ...judged, message: `${judged.message}; ${held}` };
}

/** Nothing is under way. */
function atRest(view: View, verdicts: Verdicts): OperatorVerdict {
  const broken = inState(verdicts, ...STALLED).filter((name) => view.modules.get(name)?.enabled === true);
  if (broken.length > 0) return about("Invalid", broken, verdicts);
  if (view.brake?.confirmed === false)
    return { state: "Invalid", reason: "RemovalHeld", message: explainBrake(view.brake, view) };
  const ailing = inState(verdicts, "Unhealthy");
  if (ailing.length > 0) return about("Unhealthy", ailing, verdicts);
  const blocked = [...verdicts].filter(([, verdict]) => isBlocked(verdict)).map(([name]) => name);
  if (blocked.length > 0) return about("Pending", blocked, verdicts);
  const unready = view.enabledModules.filter((name) => !isReady(verdicts.get(name)));
  if (unready.length > 0) return { ...about("Invalid", unready, verdicts), reason: "ModulesNotReady" };
  const message = `All enabled modules are ready (${view.enabledModules.length})`;
  return { state: "Ready", reason: "Ready", message };
}

function inState(verdicts: Verdicts, ...states: readonly Verdict["state"][]): string[] {
  return [...verdicts].filter(([, verdict]) => states.includes(verdict.state)).map(([name]) => name);
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

function about(what: keyof typeof ABOUT, names: readonly string[], verdicts: Verdicts): OperatorVerdict {
  const first = names[0] ?? "";
  const more = names.length > 1 ? ` (and ${names.length - 1} more)` : "";
  const { state, reason, text } = ABOUT[what];
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

function projectReload(view: View, hold: ReloadHold | undefined): ConvergeStatus {
  const { boot, reload, enabledModules } = view;
  const { startedAt, finishedAt, phase } = reload;
  const total = enabledModules.length;
  const left = reload.remaining.length;
  const isUnderWay = phase !== "idle";
  return defined({
    phase: boot === "running" || boot === "converging" ? shown(phase) : "starting",
    cause: causeOf(view),
    startedAt: startedAt === undefined ? undefined : timestamp(startedAt),
    finishedAt: finishedAt === undefined || isUnderWay ? undefined : timestamp(finishedAt),
    progress: isUnderWay ? `${Math.max(0, total - left)}/${total}` : undefined,
    remaining: isUnderWay ? left : undefined,
    // How long what holds it up still takes, nobody knows.
    waitingSeconds: left > 0 && hold === undefined ? waitingSeconds(view) : undefined,
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

function causeOf({ reload: { cause } }: Pick<View, "reload">): string | undefined {
  return cause === undefined ? undefined : line(describeCause(cause));
}

function listed(items: readonly string[], most = MOST_LISTED): readonly string[] | undefined {
  return items.length === 0 ? undefined : items.slice(0, most).map(line);
}
