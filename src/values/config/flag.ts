/** Merges the flags of a module. */

import type { EnabledBy, Module } from "../../model/index.ts";
import type { ParsedConfig } from "./config-map.ts";

/** The merged flag of a module, and the layer that decided it. `byHook`: what a global hook has set. */
export function mergeFlag(
  { valuesKey, own, common }: Module,
  config: ParsedConfig | undefined,
  byHook: boolean | undefined,
): { enabled: boolean; by: EnabledBy } {
  const flags: readonly (readonly [EnabledBy, boolean | undefined])[] = [
    ["configmap", config?.flags.get(valuesKey)],
    ["hook", byHook],
    ["module-values", own.enabled],
    ["values", common.enabled],
  ];
  const [by, enabled = false] = flags.find(([, flag]) => flag !== undefined) ?? ["none"];
  return { enabled, by };
}
