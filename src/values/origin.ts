/** Tells which layer set a value, and where that is written (`module values --explain`). */

import { isAtOrBelow, pointerOf, sameJson, segmentsOf } from "../lib/index.ts";
import { isJsonObject, member, valueAt } from "../model/index.ts";
import type { Json, Module, SchemaFiles, Section } from "../model/index.ts";
import { effective, mergeLayers, type SectionInput } from "./layers.ts";
import type { PatchOperation } from "./patch/apply-patch.ts";
import type { Violation } from "./schema/validator.ts";

/** Names of layers as people read them, strongest last. */
type LayerName =
  | "config schema default"
  | "modules/values.yaml"
  | "module values.yaml"
  | "ConfigMap"
  | "overlay"
  | "values schema default"
  | "hook patch";

/** Where a layer is written: a file, a key of a ConfigMap, a hook. Hooks depend on the leaf that they patched. */
type Places = Readonly<Partial<Record<Exclude<LayerName, "hook patch">, string>>> & {
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
interface Origin {
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

/** A violation and who set the wrong value; undefined where nobody set it. */
export interface Located extends Violation {
  readonly layer: LayerName | undefined;
  /** File and line, ConfigMap key or hook. */
  readonly place: string | undefined;
}

/** The layers of one section, and what tells where they are written. */
export interface Written {
  readonly key: string;
  readonly input: SectionInput;
  /** The module whose section it is; undefined for `global`. */
  readonly module: Module | undefined;
  readonly schemas: SchemaFiles;
  /** File and line of a value of `modules/values.yaml`. */
  readonly commonPlaceOf: PlaceOf | undefined;
  /** The hook that last patched a path. */
  readonly hookOf: (path: string) => string | undefined;
}

type PlaceOf = (pointer: string) => string | undefined;

/** Files and keys in which the layers of a section are written. */
export function placesIn({ key, module, schemas, hookOf }: Written): Places {
  const places = {
    "modules/values.yaml": module?.common.file,
    "module values.yaml": module?.own.file,
    ConfigMap: `key ${key}`,
    overlay: `key ${key}`,
    "config schema default": schemas.config?.file,
    "values schema default": schemas.values?.file,
  };
  const known = Object.entries(places).filter(([, place]) => place !== undefined);
  return { ...(Object.fromEntries(known) as Places), hookOf };
}

/** Where the values of a section come from. */
export function locate(written: Written, violations: readonly Violation[]): Located[] {
  const places = placesIn(written);
  return violations.map((violation) => {
    const origin = originOf(written.input, violation.path);
    const place = origin === undefined ? undefined : placeOf(written, places, origin);
    return { ...violation, layer: origin?.layer, place };
  });
}

/** Violations in words: path, rule, and who set it. */
export function wordsOf(key: string, violations: readonly Located[]): string[] {
  return violations.map(({ path, message, place }) => {
    return `${key}${path}: ${message}${place === undefined ? "" : `; set in ${place}`}`;
  });
}

function placeOf(written: Written, places: Places, { layer, path }: Origin): string {
  const { key, module, commonPlaceOf, hookOf } = written;
  if (layer === "hook patch") return `a patch of hook ${hookOf(path) ?? "unknown"}`;
  const place = places[layer];
  const lines: Readonly<Partial<Record<LayerName, PlaceOf | undefined>>> = {
    "modules/values.yaml": commonPlaceOf,
    "module values.yaml": module?.own.placeOf,
  };
  if (!(layer in lines)) return place === undefined ? layer : `${layer}: ${place}`;
  return lineAt(lines[layer], `/${key}${path}`) ?? place ?? layer;
}

/** What comes from an alias or a merge key is written under a key above it. */
function lineAt(find: PlaceOf | undefined, pointer: string): string | undefined {
  for (let at = pointer; at !== ""; at = at.slice(0, at.lastIndexOf("/"))) {
    const place = find?.(at);
    if (place !== undefined) return place;
  }
  return undefined;
}

const MOST_PATHS = 1000;

/** Which hook last patched a path, for messages to people. */
export class PatchAuthors {
  readonly #hooks = new Map<string, Map<string, string>>();

  /** Notes that a hook left operations on the section of `key`. */
  note(key: string, operations: readonly PatchOperation[], hook: string): void {
    const known = this.#hooks.get(key) ?? new Map<string, string>();
    this.#hooks.set(key, known);
    for (const { path } of operations) {
      // The newest is the last.
      known.delete(path);
      known.set(path, hook);
      const [oldest] = known.keys();
      if (known.size > MOST_PATHS && oldest !== undefined) known.delete(oldest);
    }
  }

  /** The hook that last patched the leaf at `path` (within the section), something above it, or an item of it. */
  of(key: string, path: string): string | undefined {
    const leaf = `/${key}${path}`;
    const patched = [...(this.#hooks.get(key) ?? [])].toReversed();
    return patched.find(([at]) => leaf === at || leaf.startsWith(`${at}/`) || at.startsWith(`${leaf}/`))?.[1];
  }
}
