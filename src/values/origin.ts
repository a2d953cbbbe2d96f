/** Tells which layer set a value (`module values --explain`). */

import { isAtOrBelow, pointerOf, sameJson, segmentsOf } from "../lib/index.ts";
import { isJsonObject, member, valueAt, type Json, type Section } from "../model/index.ts";
import { effective, type SectionInput } from "./layers.ts";
import { mergeLayers } from "./merge.ts";
import type { PatchOperation } from "./patch/parse-patch.ts";

/** Names of layers as people read them, strongest last. */
export type LayerName =
  | "config schema default"
  | "modules/values.yaml"
  | "module values.yaml"
  | "ConfigMap"
  | "overlay"
  | "values schema default"
  | "hook patch";

/** Where a layer is written: a file, a key of a ConfigMap, a hook. Hooks depend on the leaf that they patched. */
export type Places = Readonly<Partial<Record<Exclude<LayerName, "hook patch">, string>>> & {
  readonly hookOf?: (path: string) => string | undefined;
};

/** Which layer set each leaf of `values`, and where, by JSON pointer; a list is one leaf. `layer` or `layer: place`. */
export function explain(input: SectionInput, places: Places = {}): ReadonlyMap<string, string> {
  const before = effective({ ...input, patches: [] }).values;
  const { values } = effective(input);
  const origins = new Map<string, string>();
  for (const [path, leaf] of leaves(values)) {
    const patched = isPatched(path, input.patches ?? []) || !sameJson(at(before, path), leaf);
    const layer = patched ? "hook patch" : layerOf(input, path);
    const place = layer === "hook patch" ? places.hookOf?.(path) : places[layer];
    origins.set(path, place === undefined ? layer : `${layer}: ${place}`);
  }
  return origins;
}

/** Who set a leaf: a layer, and the path at which it did. */
export interface Origin {
  readonly layer: LayerName;
  readonly path: string;
}

/**
 * Which layer set what stands at `path`, or the list that contains it; for a missing value, the ConfigMap that
 * removed it. Undefined = nobody set it.
 */
export function originOf(input: SectionInput, path: string): Origin | undefined {
  const before = effective({ ...input, patches: [] }).values;
  const { values } = effective(input);
  const leaf = leafAt(values, path);
  if (leaf === undefined) {
    const sections = [["overlay", input.overlay] as const, ["ConfigMap", input.config] as const];
    const taken = sections.find(([, section]) => section !== undefined && at(section, path) === null);
    return taken && { layer: taken[0], path };
  }
  // A map that several layers fill has no single author.
  if (isJsonObject(at(values, leaf)) && layersWith(input, leaf).length > 1) return undefined;
  const isOfHook = isPatched(leaf, input.patches ?? []) || !sameJson(at(before, leaf), at(values, leaf));
  return { layer: isOfHook ? "hook patch" : layerOf(input, leaf), path: leaf };
}

/** `path` as far as it leads through maps; undefined when nothing is there. */
function leafAt(values: Json, path: string): string | undefined {
  const walked: string[] = [];
  let value: Json | undefined = values;
  for (const segment of path === "/" ? [] : segmentsOf(path)) {
    if (!isJsonObject(value)) break;
    value = member(value, segment);
    walked.push(segment);
  }
  return value === undefined ? undefined : pointerOf(walked);
}

/** The written layers that say something at `path`, strongest first. */
function layersWith(input: SectionInput, path: string): LayerName[] {
  const layers: readonly (readonly [LayerName, Section | undefined])[] = [
    ["overlay", input.overlay],
    ["ConfigMap", input.config],
    ["module values.yaml", input.own],
    ["modules/values.yaml", input.common],
  ];
  const saying = layers.filter(([, section]) => section !== undefined && at(section, path) !== undefined);
  return saying.map(([layer]) => layer);
}

function layerOf(input: SectionInput, path: string): LayerName {
  const [found] = layersWith(input, path);
  if (found !== undefined) return found;
  const given = (mergeLayers([input.common, input.own, input.config, input.overlay]) ?? {}) as Section;
  const isConfigDefault = at(input.schemas.configDefaults(given), path) !== undefined;
  return isConfigDefault ? "config schema default" : "values schema default";
}

/** Paths of patches begin with the section's key; the rest is compared with `path`. */
function isPatched(path: string, patches: readonly PatchOperation[]): boolean {
  return patches.some((each) => {
    const below = pointerOf(segmentsOf(each.path).slice(1));
    return each.op !== "remove" && each.op !== "test" && (below === "" || isAtOrBelow(path, below));
  });
}

function at(value: Json, path: string): Json | undefined {
  return valueAt(value, segmentsOf(path));
}

function* leaves(value: Json, path = ""): Generator<readonly [string, Json]> {
  const members = isJsonObject(value) ? Object.entries(value) : [];
  if (members.length === 0) yield [path, value];
  for (const [key, child] of members) {
    if (child !== undefined) yield* leaves(child, `${path}${pointerOf([key])}`);
  }
}
