/** The values files that hooks, scripts and helm get. */

import type { HelmInput } from "../../helm/index.ts";
import { GLOBAL } from "../../model/index.ts";
import type { JsonObject, Module } from "../../model/index.ts";
import type { ValuesView } from "../../state/index.ts";
import { helmValues } from "../../values/index.ts";

/** A JSON text in UTF-8, in pieces that other texts share, so that a run of many hooks copies nothing. */
export type Pieces = readonly Uint8Array[];

/** VALUES_PATH of a global hook: merged global values only. */
export function globalValuesFile(values: ValuesView): Pieces {
  return fileOf([[GLOBAL, piecesOf(values.merged(GLOBAL).values)]]);
}

/** CONFIG_VALUES_PATH of a global hook. */
export function globalConfigFile(values: ValuesView): Pieces {
  return fileOf([[GLOBAL, piecesOf(values.configSection(GLOBAL) ?? {})]]);
}

/** VALUES_PATH of a module hook or enabled script: with `global.enabledModules`. */
export function moduleValuesFile(
  values: ValuesView,
  { valuesKey }: Module,
  enabledModules: readonly string[],
): Pieces {
  const global = withEnabled(values.merged(GLOBAL).values as JsonObject, enabledModules);
  const section = piecesOf(values.merged(valuesKey).values);
  return fileOf([
    [GLOBAL, global],
    [valuesKey, section],
  ]);
}

/** CONFIG_VALUES_PATH of a module hook or enabled script: ConfigMap content only. */
export function moduleConfigFile(values: ValuesView, { valuesKey }: Module): Pieces {
  const sections = [GLOBAL, valuesKey] as const;
  return fileOf(sections.map((key) => [key, piecesOf(values.configSection(key) ?? {})]));
}

/** What helm gets for a module: values without `enabledModules`, and with `null` where the ConfigMap says null. */
export function helmInput(values: ValuesView, module: Module): HelmInput {
  return { module, values: helmText(values, module) };
}

function helmText(values: ValuesView, module: Module): string {
  const sections = [GLOBAL, module.valuesKey] as const;
  if (module.chart === "root") {
    const [global, section] = sections.map((key) => values.merged(key).helmValues);
    return JSON.stringify(helmValues(module, global ?? {}, section ?? {}));
  }
  const pieces = fileOf(sections.map((key) => [key, piecesOf(values.merged(key).helmValues)]));
  return Buffer.concat(pieces).toString();
}

/** Serialized once for as long as the section exists. */
const written = new WeakMap<object, Pieces>();

function piecesOf(section: object): Pieces {
  let pieces = written.get(section);
  if (pieces === undefined) {
    pieces = [Buffer.from(JSON.stringify(section))];
    written.set(section, pieces);
  }
  return pieces;
}

function fileOf(sections: readonly (readonly [string, Pieces])[]): Pieces {
  const members = sections.flatMap(([key, pieces], index) => [
    Buffer.from(`${index === 0 ? "{" : ","}${JSON.stringify(key)}:`),
    ...pieces,
  ]);
  return [...members, CLOSE];
}

const CLOSE = Buffer.from("}");

function withEnabled(global: JsonObject, enabledModules: readonly string[]): Pieces {
  const { enabledModules: replaced, ...others } = global;
  const [text = CLOSE] = piecesOf(replaced === undefined ? global : others);
  const comma = Object.keys(others).length > 0 ? "," : "";
  const list = Buffer.from(`${comma}"enabledModules":${JSON.stringify(enabledModules)}}`);
  return [text.subarray(0, -1), list];
}
