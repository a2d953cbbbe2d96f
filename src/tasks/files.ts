import type { Json, JsonObject, Module } from "../model/index.ts";
import { GLOBAL } from "../state/index.ts";
import type { ValuesStore } from "../state/index.ts";

/** VALUES_PATH of a global hook: merged global values only (VALUES "Using values in the hook"). */
export function globalValuesFile(values: ValuesStore): string {
  return jsonOf({ [GLOBAL]: values.merged(GLOBAL).values });
}

/** CONFIG_VALUES_PATH of a global hook. */
export function globalConfigFile(values: ValuesStore): string {
  return jsonOf({ [GLOBAL]: values.configSection(GLOBAL) ?? {} });
}

/** VALUES_PATH of a module hook or enabled script: with `global.enabledModules`. */
export function moduleValuesFile(
  values: ValuesStore,
  module: Module,
  enabledModules: readonly string[],
): string {
  const { valuesKey } = module;
  const global = withEnabled(asObject(values.merged(GLOBAL).values), enabledModules);
  const section = textOf(values.merged(valuesKey).values);
  return `{"${GLOBAL}":${global},${JSON.stringify(valuesKey)}:${section}}`;
}

/** CONFIG_VALUES_PATH of a module hook or enabled script: ConfigMap content only. */
export function moduleConfigFile(values: ValuesStore, module: Module): string {
  const section = values.configSection(module.valuesKey) ?? {};
  return jsonOf({ [GLOBAL]: values.configSection(GLOBAL) ?? {}, [module.valuesKey]: section });
}

/** Values for helm: no `enabledModules`, and `null` where the ConfigMap says null. */
export function helmValuesFile(values: ValuesStore, module: Module): string {
  return jsonOf({
    [GLOBAL]: values.merged(GLOBAL).helmValues,
    [module.valuesKey]: values.merged(module.valuesKey).helmValues,
  });
}

/** Written out once for as long as the section lives: runs of many hooks share it. */
const texts = new WeakMap<object, string>();

function textOf(section: object): string {
  let text = texts.get(section);
  if (text === undefined) {
    text = JSON.stringify(section);
    texts.set(section, text);
  }
  return text;
}

function jsonOf(sections: Readonly<Record<string, object>>): string {
  const members = Object.entries(sections).map(
    ([key, section]) => `${JSON.stringify(key)}:${textOf(section)}`,
  );
  return `{${members.join(",")}}`;
}

function withEnabled(global: JsonObject, enabledModules: readonly string[]): string {
  if (global["enabledModules"] !== undefined) return JSON.stringify({ ...global, enabledModules });
  const list = `"enabledModules":${JSON.stringify(enabledModules)}}`;
  const text = textOf(global);
  return text === "{}" ? `{${list}` : `${text.slice(0, -1)},${list}`;
}

function asObject(value: Json): JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? value : {};
}
