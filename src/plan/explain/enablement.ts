/** Explains in words why a module is on or off. */

import type { ModuleView } from "../../state/index.ts";

/** Says whether and why a module is on. While its `enabled` script fails, the previous decision remains in force. */
export function describeDecision(module: ModuleView): string {
  const text = `${describeEnablement(module)}${explainHowToSwitchOn(module)}`;
  const decision = module.isDiscovered ? text : undefined;
  if (module.retry?.reason !== "ScriptFailed") return decision ?? "Nothing has decided yet whether it is on";
  const before = decision === undefined ? "before that nothing was decided" : `before that: ${decision}`;
  return `Its enabled script fails, so it is unknown whether the module should be on; ${before}`;
}

/** A hint how to switch on a module that no setting switches on; empty for any other module. */
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

/** Says why a module is on or off that no setting switches: its files could not be read at the start, or nothing switches it on. */
function describeUnswitched(module: Pick<ModuleView, "enabled" | "enabledReason">): string {
  const { enabled, enabledReason } = module;
  if (enabled) return "Enabled because its release is in place";
  return enabledReason === undefined ? "Disabled because nothing enables it" : "Disabled";
}
