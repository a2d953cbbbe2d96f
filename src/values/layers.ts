import { canonicalJson } from "../lib/index.ts";
import { isJsonObject } from "../model/index.ts";
import type { Json, Section } from "../model/index.ts";
import { replay } from "./apply-patch.ts";
import { member, merge, mergeLayers, withNullsOf, withoutNulls } from "./merge.ts";
import type { PatchOperation } from "./patch.ts";
import { isAtOrBelow, pointerOf, segmentsOf } from "./pointer.ts";
import type { Schemas } from "./schemas.ts";

/** The layers of one section, weakest first (README "Values"). Every layer may be missing. */
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

/** What the layers of one section come to. */
export interface Effective {
  /**
   * What the config schema validates: its defaults, files and ConfigMap, without nulls and without keys that
   * only files set and only the values schema knows.
   */
  readonly config: Section;
  /** What hooks see: everything merged, patches replayed, without the ConfigMap's nulls. */
  readonly values: Section;
  /** What helm gets: as `values`, with those nulls, so that the chart's own defaults go too. */
  readonly helmValues: Section;
}

/**
 * Merges the layers of `global` or of a module (README "Values"): defaults of the config schema, files, ConfigMap,
 * overlay, defaults of the values schema, patches. Pure; parts that a layer did not touch are shared, nothing is
 * changed in place.
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

/** Names of layers as people read them, strongest last. */
export type LayerName =
  | "config schema default"
  | "modules/values.yaml"
  | "module values.yaml"
  | "ConfigMap"
  | "overlay ConfigMap"
  | "values schema default"
  | "hook patch";

/** Which layer set each leaf of `values`, by JSON pointer; a list is one leaf. */
export function explain(input: SectionInput): ReadonlyMap<string, LayerName> {
  const before = effective({ ...input, patches: [] }).values;
  const { values } = effective(input);
  const origins = new Map<string, LayerName>();
  for (const [path, leaf] of leaves(values)) {
    const patched = isPatched(path, input.patches ?? []) || !same(at(before, path), leaf);
    origins.set(path, patched ? "hook patch" : layerOf(input, path));
  }
  return origins;
}

function layerOf(input: SectionInput, path: string): LayerName {
  const layers: readonly (readonly [LayerName, Section | undefined])[] = [
    ["overlay ConfigMap", input.overlay],
    ["ConfigMap", input.config],
    ["module values.yaml", input.own],
    ["modules/values.yaml", input.common],
  ];
  const found = layers.find(([, section]) => section !== undefined && at(section, path) !== undefined);
  if (found !== undefined) return found[0];
  const given = (mergeLayers([input.common, input.own, input.config, input.overlay]) ?? {}) as Section;
  const isConfigDefault = at(input.schemas.configDefaults(given), path) !== undefined;
  return isConfigDefault ? "config schema default" : "values schema default";
}

/** Patches carry the section's key in front; the part behind it is what `path` starts with. */
function isPatched(path: string, patches: readonly PatchOperation[]): boolean {
  return patches.some((each) => {
    const below = pointerOf(segmentsOf(each.path).slice(1));
    return each.op !== "remove" && each.op !== "test" && (below === "" || isAtOrBelow(path, below));
  });
}

function same(left: Json | undefined, right: Json | undefined): boolean {
  return left === right || canonicalJson(left) === canonicalJson(right);
}

function at(value: Json, path: string): Json | undefined {
  let found: Json | undefined = value;
  for (const segment of segmentsOf(path)) found = isJsonObject(found) ? member(found, segment) : undefined;
  return found;
}

function* leaves(value: Json, path = ""): Generator<readonly [string, Json]> {
  const members = isJsonObject(value) ? Object.entries(value) : [];
  if (members.length === 0) yield [path, value];
  for (const [key, child] of members) {
    if (child !== undefined) yield* leaves(child, `${path}${pointerOf([key])}`);
  }
}
