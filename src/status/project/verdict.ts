/** Where Ready is computed: the state of a module by rules, and the conditions that follow from a state (docs/STATUS.md). */

import { changedByOthers } from "../../drift/index.ts";
import { describeCause, describeProblem } from "../../model/index.ts";
import { describeRunWait, enabledText, type Wait } from "../../plan/index.ts";
import { missingObjects, type ModuleView } from "../../state/index.ts";
import { STALLED, line, timestamp } from "../models/kinds.ts";
import type { Condition, ConditionStatus, ModuleState, StoredCondition } from "../models/kinds.ts";

/** A run younger than this is not announced as Running. */
export const ANNOUNCE_AFTER_MS = 1000;

/** What is known besides the view of the module. */
export interface JudgeContext {
  /** Milliseconds since the epoch. */
  readonly now: number;
  /** Why the module does not run now, in words; undefined when nothing holds it up. */
  readonly hold?: string | undefined;
  /** What it requires and waits for. */
  readonly wait?: Wait | undefined;
  /** What it required when it ran, and is not there any more. */
  readonly lost?: Wait | undefined;
  /** Hooks of it that fail, in words. */
  readonly failing?: string | undefined;
}

/** The state of a module with the reason for it, before it becomes conditions. */
export interface Verdict {
  readonly state: ModuleState;
  readonly reason: string;
  readonly message: string;
  /** Ready, where the state does not say it: a healing and a suspension leave it as it was. */
  readonly ready?: ConditionStatus;
}

type Rule = (view: ModuleView, facts: JudgeContext) => Verdict | undefined;

/** True while a run is under way that is too young to be announced. */
export function isHidden(view: ModuleView, now: number): boolean {
  const run = view.lastRun;
  if (view.activity !== "running" || run === undefined || run.finishedAt !== undefined) return false;
  // A clock that was set back meanwhile hides no run: its age is not known then.
  const ageMs = now - run.startedAt;
  return ageMs >= 0 && ageMs < ANNOUNCE_AFTER_MS;
}

/** The state of a module: the first rule that applies. */
export function judge(view: ModuleView, facts: JudgeContext): Verdict {
  for (const rule of RULES) {
    const verdict = rule(view, facts);
    if (verdict !== undefined) return verdict;
  }
  return ready(view, facts);
}

/** True when something is owed that this module's status does not show yet: a changed configuration or a request. */
function isOwed(view: ModuleView): boolean {
  return view.handled.config !== view.configDigest || view.requestedToken !== view.handled.token;
}

const invalid: Rule = ({ problem }) =>
  problem === undefined
    ? undefined
    : { state: "Invalid", reason: "Invalid", message: describeProblem(problem) };

const deleting: Rule = (view) => {
  if (view.activity !== "deleting" || view.retry !== undefined) return undefined;
  const message = withWait("The release is being removed", view);
  return { state: "Deleting", reason: "Deleting", message };
};

const rewriting: Rule = ({ crdWork }) =>
  crdWork === undefined ? undefined : { state: "Running", reason: "Progressing", message: crdWork };

/** A healing shows at once and takes nothing from Ready: it is False, or unknown, only for what was so without it. */
const healing: Rule = (view) => {
  if (view.activity !== "healing") return undefined;
  return {
    state: "Running",
    reason: "Healing",
    message: withWait(`Bringing back ${objectsText(view.absent)}`, view),
    ready:
      view.retry === undefined && view.refused === undefined
        ? ((view.ailing ?? view.unready)?.status ?? (view.deferred.length === 0 ? "True" : "Unknown"))
        : "False",
  };
};

const running: Rule = (view, { now }) => {
  if (view.activity !== "running" || isHidden(view, now)) return undefined;
  const run = view.lastRun;
  if (run === undefined) return { state: "Running", reason: "Progressing", message: "The module is running" };
  const step = run.hook === undefined ? run.step : `${run.step} hook ${run.hook}`;
  const message = describeRunWait(run) ?? `Running ${step}`;
  return { state: "Running", reason: "Progressing", message: `${message}: ${describeCause(run.trigger)}` };
};

const waiting: Rule = (_, { wait }) =>
  wait && { state: "Pending", reason: wait.reason, message: wait.message };

const retrying: Rule = ({ retry }) =>
  retry === undefined ? undefined : { state: "Retrying", reason: retry.reason, message: retry.message };

/** Off, but not gone: it is to be removed and has to wait, or its release stays. */
const leaving: Rule = (view, { hold }) => {
  if (view.enabled || !(view.leaves || hasRelease(view))) return undefined;
  if (view.suspended) return suspendedAs("True", "Off, but its release stays while it is suspended");
  return { state: "Pending", reason: "Pending", message: hold ?? "Waits to be removed" };
};

const owed: Rule = (view, facts) => {
  if (!isOwed(view) && (!view.enabled || view.phase === "ready")) return undefined;
  return { state: "Pending", reason: "Pending", message: facts.hold ?? "Waits for its turn" };
};

const disabled: Rule = (view) =>
  view.enabled ? undefined : { state: "Disabled", reason: "Disabled", message: enabledText(view) };

const suspended: Rule = (view) => {
  if (!view.suspended) return undefined;
  const failed = view.lastRun?.result === "Failed";
  return suspendedAs(
    failed ? "False" : "True",
    "Suspended in the ConfigMap: helm is left alone, hooks go on",
  );
};

const absent: Rule = (view) => {
  const missing = missingObjects(view);
  if (missing.length === 0) return undefined;
  const message = `Waits to bring back ${objectsText(missing)}`;
  const why =
    view.absent.length > 0 ? "" : ", less and less often because somebody deletes it again and again";
  return { state: "Pending", reason: "ObjectsMissing", message: `${message}${why}` };
};

/** Applied, but Ready takes more here. */
const ailing: Rule = ({ ailing: why }) => {
  if (why === undefined) return undefined;
  if (why.status === "False") return { state: "Unhealthy", reason: "Unhealthy", message: why.message };
  return { state: "Progressing", reason: "Progressing", message: `Not healthy yet: ${why.message}` };
};

/** Applied, and healthy where that counts, but its own probe says no, or nothing yet. */
const unready: Rule = ({ unready: why }) => {
  if (why === undefined) return undefined;
  const { status, message } = why;
  if (status === "False") return { state: "Unhealthy", reason: "ReadinessProbeFailed", message };
  return { state: "Progressing", reason: "Progressing", message };
};

/** Going back does not always mend what was broken. */
const rolledBack: Rule = ({ refused, ailing: why }) => {
  if (refused === undefined) return undefined;
  const message = why === undefined ? refused : `${refused}; not healthy: ${why.message}`;
  return { state: "RolledBack", reason: "RolledBack", message };
};

/** Only a person can repair a record that cannot be read, or delete it: then the release is installed anew. */
const unread: Rule = ({ unread: why, release }) =>
  why === undefined || release === undefined
    ? undefined
    : { state: "Invalid", reason: "Invalid", message: why };

/** The first that applies counts: what is invalid, what is under way, what failed, what is owed, what is idle, what ails. */
// oxfmt-ignore
const RULES: readonly Rule[] = [
  invalid, deleting, rewriting, healing, running, waiting, retrying, leaving, owed, disabled, suspended,
  rolledBack, unread, absent, ailing, unready,
];

function ready(view: ModuleView, { failing }: JudgeContext): Verdict {
  const release = view.release;
  const message =
    release === undefined ? "Everything ran" : `Release ${release.name}.v${release.revision} is in place`;
  const facts = [message, failing, changedByOthers(view.drift), ...warningsOf(view)];
  return { state: "Ready", reason: "Ready", message: facts.filter((fact) => fact !== undefined).join("; ") };
}

/** What keeps hooks of it from running, in words: bindings that cannot work, scripts that are not executable. */
export function warningsOf({ troubles, module }: ModuleView): readonly string[] {
  return [...troubles, ...(module.idleFiles ?? [])];
}

function withWait(message: string, view: ModuleView): string {
  const wait = describeRunWait(view.lastRun);
  return wait === undefined ? message : `${message}: ${wait}`;
}

function suspendedAs(ready: ConditionStatus, message: string): Verdict {
  return { state: "Suspended", reason: "Suspended", message, ready };
}

function hasRelease(view: ModuleView): boolean {
  return view.release !== undefined && view.release.status !== "uninstalled";
}

function objectsText(objects: readonly string[]): string {
  const [first] = objects;
  if (first === undefined) return "missing objects";
  return objects.length === 1 ? first : `${first} and ${objects.length - 1} more`;
}

/** A condition without its time. */
export type Aspect = Omit<Condition, "lastTransitionTime">;

const READY: Readonly<Record<ModuleState, ConditionStatus>> = {
  Pending: "Unknown",
  Running: "Unknown",
  Ready: "True",
  Progressing: "Unknown",
  Unhealthy: "False",
  Retrying: "False",
  Invalid: "False",
  RolledBack: "False",
  Disabled: "True",
  Deleting: "Unknown",
  Suspended: "True",
};

/** The one function that computes Ready: of a module as it is judged here, of the operator as `operator-status.ts` does. */
export function readyOf(judged: Verdict): ConditionStatus {
  return judged.ready ?? READY[judged.state];
}

/** States in which something is at work, or waits for its turn. */
export const UNDER_WAY: ReadonlySet<ModuleState> = new Set(["Pending", "Running", "Progressing", "Deleting"]);

/** Tells of hooks that fail, whatever the state. */
export function failingHooksAspects(failing: string | undefined): Aspect[] {
  if (failing === undefined) return [];
  return [{ type: "HooksFailing", status: "True", reason: "HookFailed", message: line(failing) }];
}

/** Ready, and Reconciling or Stalled while they are True: never both, never False (kstatus). */
export function progress(judged: Verdict): Aspect[] {
  const { state, reason } = judged;
  const message = line(judged.message);
  const aspects: Aspect[] = [{ type: "Ready", status: readyOf(judged), reason, message }];
  if (STALLED.has(state)) {
    aspects.push({ type: "Stalled", status: "True", reason, message });
  } else if (state === "Retrying") {
    aspects.push({ type: "Reconciling", status: "True", reason: "ProgressingWithRetry", message });
  } else if (UNDER_WAY.has(state)) {
    aspects.push({ type: "Reconciling", status: "True", reason: "Progressing", message });
  }
  return aspects;
}

/** Times by condition type, of the last status. */
export type Transitions = ReadonlyMap<string, Pick<Condition, "status" | "lastTransitionTime">>;

/** The transition times that a list of conditions carries. */
export function transitionsOf(conditions: readonly StoredCondition[]): Transitions {
  return new Map(conditions.map((condition) => [condition.type, condition]));
}

/** Adds the times: kept where the status of a condition did not change. */
export function timed(aspects: readonly Aspect[], before: Transitions, now: number): Condition[] {
  return aspects.map((aspect) => {
    const old = before.get(aspect.type);
    const since = old?.status === aspect.status ? old.lastTransitionTime : timestamp(now);
    return { ...aspect, lastTransitionTime: since };
  });
}
