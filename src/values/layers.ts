/** Merges the layers of values (docs/VALUES.md, "Layers"), and gives them to helm (docs/MODULES.md, "module.yaml"). */

import { GLOBAL, isJsonObject, member, objectOf, setMember } from "../model/index.ts";
import type { Json, JsonObject, Module, Problem, Section } from "../model/index.ts";
import { replay } from "./patch/apply-patch.ts";
import type { PatchOperation } from "./patch/apply-patch.ts";
import type { Schemas } from "./schema/schemas.ts";

/** The layers of one section, weakest first. Every layer may be missing. */
export interface SectionInput {
  readonly schemas: Schemas;
  /** From `modules/values.yaml`. */
  readonly common?: Section | undefined;
  /** From the module's own `values.yaml`. */
  readonly own?: Section | undefined;
  /** From the ConfigMap; may hold nulls. */
  readonly config?: Section | undefined;
  /** From the overlay ConfigMap; may hold nulls. */
  readonly overlay?: Section | undefined;
  /** Stored patches of hooks. */
  readonly patches?: readonly PatchOperation[] | undefined;
}

/** The results of merging the layers of one section. */
export interface Effective {
  /**
   * What the config schema validates: its defaults, files and ConfigMap, without nulls and without keys that
   * only files set and only the values schema knows.
   */
  readonly config: Section;
  /** What hooks see: everything merged, patches applied, without the ConfigMap's nulls. */
  readonly values: Section;
  /** What helm gets: as `values`, with those nulls, so that the chart's own defaults are removed too. */
  readonly helmValues: Section;
}

/**
 * Merges the layers of `global` or of a module: defaults of the config schema, files, ConfigMap, overlay, defaults
 * of the values schema, patches. Pure: nothing is changed in place, and parts that a layer does not touch are
 * shared.
 */
export function effective(input: SectionInput): Effective {
  const { schemas } = input;
  const written = merge(input.config, input.overlay) as Section | undefined;
  const given = (mergeLayers([input.common, input.own, input.config, input.overlay]) ?? {}) as Section;
  const withConfigDefaults = schemas.configDefaults(given);
  const full = schemas.valuesDefaults(withConfigDefaults);
  const bare = withoutNulls(full) as Section;
  const judged = full === withConfigDefaults ? bare : (withoutNulls(withConfigDefaults) as Section);
  const config = schemas.configPart(judged, written);
  const values = replay(bare, input.patches ?? []) ?? {};
  return { config, values, helmValues: withNullsOf(values, full) as Section };
}

/** A module's section as its chart finds it: under the module's key beside `global`, or as root values. */
export function helmValues(
  { chart, valuesKey }: Pick<Module, "chart" | "valuesKey">,
  global: Section,
  section: Section,
): JsonObject {
  return chart === "root" ? rootValues(global, section) : { [GLOBAL]: global, [valuesKey]: section };
}

/** What is wrong with a section that is a list, where the chart has it as root values. */
export function refuseList(
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

/** A section may have a `global` of its own, over the shared one; a chart that knows none is given none if it is empty. */
function rootValues(shared: Section, section: Section): JsonObject {
  const { global: own, ...values } = objectOf(section);
  const global = merge(shared, own) ?? {};
  const isEmpty = isJsonObject(global) && Object.keys(global).length === 0;
  return isEmpty ? values : { ...values, [GLOBAL]: global };
}

/**
 * `upper` over `lower`: maps merge, everything else is replaced, lists and null included.
 * Neither is changed; what did not change is shared.
 */
export function merge(lower: Json | undefined, upper: Json | undefined): Json | undefined {
  if (upper === undefined || lower === upper) return lower;
  if (lower === undefined || !isJsonObject(lower) || !isJsonObject(upper)) return upper;
  const merged: JsonObject = { ...lower };
  let changed = false;
  for (const [key, value] of Object.entries(upper)) {
    const before = member(lower, key);
    const after = merge(before, value);
    if (after === undefined || after === before) continue;
    setMember(merged, key, after);
    changed = true;
  }
  return changed ? merged : lower;
}

/** All layers merged, the last one strongest; undefined layers are skipped. */
export function mergeLayers(layers: readonly (Json | undefined)[]): Json | undefined {
  return layers.reduce<Json | undefined>((lower, upper) => merge(lower, upper), undefined);
}

/** `value` without the members of maps that are null; items of lists stay as they are. Shares what has none. */
function withoutNulls(value: Json): Json {
  if (!isJsonObject(value)) return value;
  const kept: JsonObject = {};
  let changed = false;
  for (const [key, before] of Object.entries(value)) {
    const after = before === undefined || before === null ? undefined : withoutNulls(before);
    changed ||= after !== before;
    if (after !== undefined) setMember(kept, key, after);
  }
  return changed ? kept : value;
}

/**
 * `value` with the nulls of `source` added where `value` has nothing, so that helm drops the chart's own defaults
 * too.
 */
function withNullsOf(value: Json, source: Json | undefined): Json {
  if (!isJsonObject(value) || !isJsonObject(source)) return value;
  let result = value;
  for (const [key, from] of Object.entries(source)) {
    const before = member(value, key);
    const after = nullOf(before, from);
    if (after === undefined || after === before) continue;
    if (result === value) result = { ...value };
    setMember(result, key, after);
  }
  return result;
}

function nullOf(before: Json | undefined, from: Json | undefined): Json | undefined {
  if (before === undefined) return from === null ? null : undefined;
  return withNullsOf(before, from);
}
