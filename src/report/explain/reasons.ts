/** Parts of sentences about a module: why it is on or off, what its run waits for, and which task it waits for. */

import { formatUtc } from "../../base/index.ts";
import { describeCause, describeTask, type Task } from "../../base/model/index.ts";
import type { LastRun, ModuleView } from "../../engine/state/index.ts";

/** Says what a run in progress waits for, e.g. *Helm has been waiting for the chart hook Job/migrate (pre-upgrade) since …* (UTC). */
export function describeRunWait(run: LastRun | undefined): string | undefined {
  if (run === undefined || run.finishedAt !== undefined) return undefined;
  if (run.waitsFor !== undefined) return `waits for ${run.waitsFor}`;
  if (run.hook === undefined || run.hookSince === undefined) return undefined;
  return `Helm has been waiting for the chart hook ${run.hook} since ${formatUtc(run.hookSince)}`;
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
  if (task.kind === "converge") return `the converge (${describeCause(task.cause)})`;
  if (task.kind !== "hook") return describeTask(task);
  const ofModule = task.hook.module === undefined ? "" : ` of ${task.hook.module}`;
  return `${task.trigger.binding.name} hook ${task.hook.name}${ofModule}`;
}

/** Says whether and why a module is on, and that its `enabled` script fails: until it answers, the previous decision remains in force, if there is one. */
export function describeDecision(module: ModuleView): string {
  const text = `${describeEnablement(module)}${describeNewerSetting(module)}`;
  const decision = module.isDiscovered ? text : undefined;
  if (module.retry?.reason !== "ScriptFailed")
    return decision ?? "Nothing has decided yet whether it is enabled";
  const inForce = decision === undefined ? "nothing was decided before" : `until it answers: ${decision}`;
  return `Its enabled script fails, so it is unknown whether the module is enabled; ${inForce}`;
}

/** Whether an edit has switched the module on or off since a converge has decided that: the next one decides again. */
export function awaitsDecision(module: ModuleView): boolean {
  const { enabled, enabledBy, enabledReason, flag, isFlagUnknown, problem } = module;
  // What else decides does not follow the flag.
  const followsFlag = enabledReason === undefined && enabledBy !== "script" && enabledBy !== "source";
  return followsFlag && problem === undefined && !isFlagUnknown && enabled !== flag;
}

/** Says that a newer setting is not in force yet, or how to switch on a module that no setting switches on; empty for any other module. */
function describeNewerSetting(module: ModuleView): string {
  if (!awaitsDecision(module)) return explainHowToSwitchOn(module);
  return `; a newer setting ${module.flag ? "enables" : "disables"} it in the next converge`;
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
