import type { Json, JsonObject, Module } from "../model/index.ts";
import { GLOBAL } from "../state/index.ts";
import type { ValuesStore } from "../state/index.ts";

/** VALUES_PATH of a global hook: merged global values only (VALUES "Using values in the hook"). */
export function globalValuesFile(values: ValuesStore): string {
  return JSON.stringify({ [GLOBAL]: values.merged(GLOBAL).values });
}

/** CONFIG_VALUES_PATH of a global hook. */
export function globalConfigFile(values: ValuesStore): string {
  return JSON.stringify({ [GLOBAL]: values.configSection(GLOBAL) ?? {} });
}

/** VALUES_PATH of a module hook or enabled script: with `global.enabledModules`. */
export function moduleValuesFile(
  values: ValuesStore,
  module: Module,
  enabledModules: readonly string[],
): string {
  const global = { ...asObject(values.merged(GLOBAL).values), enabledModules: [...enabledModules] };
  return JSON.stringify({ [GLOBAL]: global, [module.valuesKey]: values.merged(module.valuesKey).values });
}

/** CONFIG_VALUES_PATH of a module hook or enabled script: ConfigMap content only. */
export function moduleConfigFile(values: ValuesStore, module: Module): string {
  const section: Json = values.configSection(module.valuesKey) ?? {};
  return JSON.stringify({ [GLOBAL]: values.configSection(GLOBAL) ?? {}, [module.valuesKey]: section });
}

/** Values for helm: no `enabledModules`, and `null` where the ConfigMap says null. */
export function helmValuesFile(values: ValuesStore, module: Module): string {
  return JSON.stringify({
    [GLOBAL]: values.merged(GLOBAL).helmValues,
    [module.valuesKey]: values.merged(module.valuesKey).helmValues,
  });
}

function asObject(value: Json): JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? value : {};
}
