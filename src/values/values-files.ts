/** The values of a module for its hooks, scripts and helm, and whether it may run with them. */

import { digest, digestJson } from "../lib/index.ts";
import { GLOBAL, isJsonObject, objectOf } from "../model/index.ts";
import type { JsonObject, Module, Problem, Section } from "../model/index.ts";
import { merge } from "./layers.ts";
import type { ValuesView } from "./values-store.ts";

/** Why an enabled module cannot run: its values break its config schema. Undefined when they are valid. */
export function invalidValues(values: ValuesView, module: Module): Problem | undefined {
  const { valuesKey, own } = module;
  const list = refuseList(module, values.merged(valuesKey).values);
  if (list !== undefined) return list;
  const violations = values.schemas(valuesKey).validateConfig(values.merged(valuesKey).config);
  if (violations.length === 0) return undefined;
  const remedy = "mend the values in the file or in the ConfigMap";
  return { file: own.file, message: values.describe(valuesKey, violations), remedy };
}

/** What is wrong with a section that is a list, where the chart has it as root values. */
function refuseList(
  { chart, valuesKey, own }: Pick<Module, "chart" | "valuesKey" | "own">,
  section: Section,
): Problem | undefined {
  if (chart !== "root" || !Array.isArray(section)) return undefined;
  return {
    file: own.file,
    key: valuesKey,
    message: "is a list",
    remedy: "the values of its chart are a map",
  };
}

/** Why a run of the module leaves helm alone; undefined when it goes by what helm's `decide` says. */
export function withoutHelm(values: ValuesView, module: Module): "suspended" | "noChart" | undefined {
  if (values.settings(module).suspended) return "suspended";
  return module.chart === "none" ? "noChart" : undefined;
}

/** What helm requires of the values in force and they lack, in words; undefined when nothing. */
export function incompleteValues(values: ValuesView, { valuesKey }: Module): string | undefined {
  for (const key of [GLOBAL, valuesKey]) {
    const violations = values.schemas(key).validateHelm(values.merged(key).values);
    if (violations.length > 0) return values.describe(key, violations);
  }
  return undefined;
}

/** A JSON text in UTF-8, in pieces that other texts share, so that a run of many hooks copies nothing. */
type Pieces = readonly Uint8Array[];

/** The values files of a hook or of an `enabled` script. */
export interface ValuesFiles {
  /** VALUES_PATH: merged values; with `global.enabledModules` once they are known. */
  readonly values: Pieces;
  /** CONFIG_VALUES_PATH: ConfigMap content only. */
  readonly configValues: Pieces;
}

/**
 * The files with the global values, and the section of a module unless the hook is a global one. `enabledModules` is
 * undefined before the first discovery.
 */
export function valuesFiles(
  values: ValuesView,
  module: Module | undefined,
  enabledModules: readonly string[] | undefined,
): ValuesFiles {
  const keys = module === undefined ? [GLOBAL] : [GLOBAL, module.valuesKey];
  const configValues = fileOf(keys.map((key) => [key, piecesOf(values.configSection(key) ?? {})]));
  const pieces = keys.map((key): [string, Pieces] => [key, piecesOf(values.merged(key).values)]);
  if (enabledModules !== undefined)
    pieces[0] = [GLOBAL, withEnabled(values.merged(GLOBAL).values as JsonObject, enabledModules)];
  return { values: fileOf(pieces), configValues };
}

/**
 * What helm gets for a module: values with `null` where the ConfigMap says null. `global.enabledModules` is in it only for
 * a chart of the module's own, and where the settings say so.
 */
export function helmInput(
  values: ValuesView,
  module: Module,
): { module: Module; values: string; given: () => string } {
  return { module, values: helmText(values, module), given: () => givenTo(values, module) };
}

/** Digest of what ConfigMap and files say: of the merged values without what hooks change. */
function givenTo(values: ValuesView, module: Module): string {
  const { common, own } = module;
  return digest(values.givenValues(module), digestJson([common.section ?? null, own.section ?? null]));
}

function helmText(values: ValuesView, module: Module): string {
  const sections = [GLOBAL, module.valuesKey] as const;
  if (module.chart === "root") {
    const [global, section] = sections.map((key) => values.merged(key).helmValues);
    return JSON.stringify(helmValues(module, global ?? {}, section ?? {}));
  }
  const pieces = sections.map((key): [string, Pieces] => [key, piecesOf(values.merged(key).helmValues)]);
  if (values.modulesForCharts !== undefined)
    pieces[0] = [
      GLOBAL,
      withEnabled(values.merged(GLOBAL).helmValues as JsonObject, values.modulesForCharts()),
    ];
  return Buffer.concat(fileOf(pieces)).toString();
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

/** A module's section as its chart finds it: under the module's key beside `global`, or as root values. */
export function helmValues(
  { chart, valuesKey }: Pick<Module, "chart" | "valuesKey">,
  global: Section,
  section: Section,
): JsonObject {
  return chart === "root" ? rootValues(global, section) : { [GLOBAL]: global, [valuesKey]: section };
}

/** A section may have a `global` of its own, over the shared one; a chart that knows none is given none if it is empty. */
function rootValues(shared: Section, section: Section): JsonObject {
  const { global: own, ...values } = objectOf(section);
  const global = merge(shared, own) ?? {};
  const isEmpty = isJsonObject(global) && Object.keys(global).length === 0;
  return isEmpty ? values : { ...values, [GLOBAL]: global };
}
