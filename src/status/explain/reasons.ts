/** Sentences about one module: why it is on or off, why it is not Ready, and which task it waits for. */

import { formatUtc } from "../../lib/index.ts";
import { describeTask, type Task } from "../../model/index.ts";
import type { LastRun, ModuleView } from "../../state/index.ts";

/** What is known of a module, from its view (`module why`) or from its AddonModule (`kubectl addon why`). */
export interface Reasons {
  /** Errors, what it waits for, and failing hooks, the gravest first. */
  readonly blockers: readonly (string | undefined)[];
  readonly isSuspended: boolean;
  /** What its run does now. */
  readonly activity?: readonly (string | undefined)[];
  /** The failures in a row; `since` and `nextTry` are times in UTC. */
  readonly retry?: RetryReason | undefined;
  /** Why inputs are not tried again after a rollback. */
  readonly refused?: string | undefined;
  /** Objects of its release that do not exist. */
  readonly missing: readonly string[];
  readonly unhealthy: readonly (string | undefined)[];
  readonly drift: string | undefined;
  /** Why some of its hooks cannot run. */
  readonly warnings?: readonly string[];
}

interface RetryReason {
  readonly failures: number;
  readonly reason: string;
  readonly message?: string;
  readonly since?: string;
  readonly nextTry?: string | undefined;
}

/** Turns the known facts about a module into sentences, one for each reason why it is not Ready. */
export function describeReasons(reasons: Reasons): string[] {
  const { blockers, isSuspended, activity = [], retry, missing, unhealthy, warnings = [] } = reasons;
  const facts = [
    ...blockers,
    isSuspended ? "suspended: Helm does not run, hooks continue to run" : undefined,
    ...activity,
    retry && describeRetry(retry),
    // After a rollback: why its cause is not tried again.
    reasons.refused,
    missing.length === 0 ? undefined : `missing objects: ${missing.join(", ")}`,
    ...unhealthy,
    reasons.drift,
    ...warnings,
  ];
  return facts.filter((fact) => fact !== undefined);
}

/** E.g. *failed 3 times since 09:15 (HelmFailed): timed out; next try 09:20*. */
function describeRetry({ failures, since, reason, message, nextTry }: RetryReason): string {
  const sinceText = since === undefined ? "" : ` since ${since}`;
  const error = message === undefined ? "" : `: ${message}`;
  const next = nextTry === undefined ? "" : `; next try ${nextTry}`;
  return `failed ${formatTimes(failures)}${sinceText} (${reason})${error}${next}`;
}

/** Says what a run in progress waits for, e.g. *Helm has been waiting for the chart hook Job/migrate (pre-upgrade) since …* (UTC). */
export function describeRunWait(run: LastRun | undefined): string | undefined {
  if (run === undefined || run.finishedAt !== undefined) return undefined;
  if (run.waitsFor !== undefined) return `waits for ${run.waitsFor}`;
  if (run.hook === undefined || run.hookSince === undefined) return undefined;
  return `Helm has been waiting for the chart hook ${run.hook} since ${formatUtc(run.hookSince)}`;
}

/** The health of a module in words; undefined unless it is known to be unhealthy. */
export function describeHealth(
  health: { readonly status: string; readonly message: string } | undefined,
): string | undefined {
  return health?.status === "False" ? `not healthy: ${health.message}` : undefined;
}

/** A count as text, e.g. *3 times*. */
export function formatTimes(count: number): string {
  return `${count} time${count === 1 ? "" : "s"}`;
}

/** A task as *waits for …* names it, e.g. *schedule hook hooks/check.sh of web*. */
export function describeAwaitedTask(task: Task): string {
  if (task.kind === "run-module") return task.module;
  if (task.kind === "delete-module") return `the removal of ${task.module}`;
  if (task.kind === "purge-release") return `the removal of release ${task.release}`;
  if (task.kind === "ensure-crds") return "the CRDs of modules";
  if (task.kind !== "hook") return describeTask(task);
  const ofModule = task.hook.module === undefined ? "" : ` of ${task.hook.module}`;
  return `${task.trigger.binding.name} hook ${task.hook.name}${ofModule}`;
}

/** Says whether and why a module is on, and that its `enabled` script fails: then the previous decision remains in force. */
export function describeDecision(module: ModuleView): string {
  const text = `${describeEnablement(module)}${explainHowToSwitchOn(module)}`;
  const decision = module.isDiscovered ? text : undefined;
  if (module.retry?.reason !== "ScriptFailed")
    return decision ?? "Nothing has decided yet whether it is enabled";
  const before = decision === undefined ? "before that nothing was decided" : `before that: ${decision}`;
  return `Its enabled script fails, so it is unknown whether the module is enabled; ${before}`;
}

/** A hint how to switch on a module that is off because no setting switches it on; empty for any other module. */
function explainHowToSwitchOn({ enabledBy, enabledReason, module }: ModuleView): string {
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

/** Says in one line why the module is on or off. */
export function describeEnablement(
  module: Pick<ModuleView, "enabled" | "enabledBy" | "enabledReason">,
): string {
  const text =
    module.enabledBy === "none"
      ? describeUnswitched(module)
      : `${module.enabled ? "Enabled" : "Disabled"} by ${ENABLED_TEXT[module.enabledBy]}`;
  return module.enabledReason === undefined ? text : `${text}: ${module.enabledReason}`;
}

/** Says why a module is on or off that no setting decides: nothing switches it on, or its files could not be read at the start, but its release exists. */
function describeUnswitched(module: Pick<ModuleView, "enabled" | "enabledReason">): string {
  const { enabled, enabledReason } = module;
  if (enabled) return "Enabled because its release is in place";
  return enabledReason === undefined ? "Disabled because nothing enables it" : "Disabled";
}
