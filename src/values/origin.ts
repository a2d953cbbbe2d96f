/** Finds the layer that set a value, and its file and line, ConfigMap key or hook (`module values --explain`). */

import { isAtOrBelow, listLeaves, toPointer, sameJson, parsePointer } from "../lib/index.ts";
import { isJsonObject, member, valueAt } from "../model/index.ts";
import type { Json, Module, SchemaFiles, Section } from "../model/index.ts";
import { effective, type SectionInput } from "./layers.ts";
import { mergeLayers } from "./merge.ts";
import type { PatchOperation } from "./patch/apply-patch.ts";
import type { Violation } from "./schema/violation.ts";

/** Names of layers as people read them, strongest last. */
type LayerName =
  | "config schema default"
  | "modules/values.yaml"
  | "module values.yaml"
  | "valuesFrom"
  | "ConfigMap"
  | "overlay"
  | "values schema default"
  | "hook patch";

/** The origin of each layer, for display: a file or a key of a ConfigMap, or a function where it depends on the leaf. */
type Places = Readonly<Partial<Record<Exclude<LayerName, keyof LeafPlaces>, string>>> & LeafPlaces;

/** Functions that find the hook that patched a leaf, and the Secret or ConfigMap that a leaf comes from. */
interface LeafPlaces {
  readonly "hook patch"?: PlaceOf;
  readonly valuesFrom?: PlaceOf | undefined;
}

/** The origin of each leaf of `values`, by JSON pointer, as `layer` or `layer: place`. A list is one leaf. */
export function explain(input: SectionInput, places: Places = {}): ReadonlyMap<string, string> {
  const withoutPatches = effective({ ...input, patches: [] }).values;
  const { values } = effective(input);
  const origins = new Map<string, string>();
  for (const [path, leaf] of listLeaves(values)) {
    const layer = findLayer(input, path, !sameJson(valueAtPath(withoutPatches, path), leaf));
    const source = places[layer];
    const place = typeof source === "function" ? source(path) : source;
    origins.set(path, place === undefined ? layer : `${layer}: ${place}`);
  }
  return origins;
}

/** The layer that set a leaf, and the path at which it did. */
interface Origin {
  readonly layer: LayerName;
  readonly path: string;
}

/**
 * Returns a function that finds the layer that set the value at a path, or the list that contains the path. For a value that a null
 * in the ConfigMap removed, that is the ConfigMap; undefined = no layer set it. The layers are merged once for all paths.
 */
export function createOriginFinder(input: SectionInput): (path: string) => Origin | undefined {
  const withoutPatches = effective({ ...input, patches: [] }).values;
  const { values } = effective(input);
  return (path) => {
    const leaf = findLeafPath(values, path);
    if (leaf === undefined) return findRemovingLayer(input, path);
    // A map that several layers fill has no single origin.
    if (isJsonObject(valueAtPath(values, leaf)) && findLayersWithValue(input, leaf).length > 1)
      return undefined;
    const isChanged = !sameJson(valueAtPath(withoutPatches, leaf), valueAtPath(values, leaf));
    return { layer: findLayer(input, leaf, isChanged), path: leaf };
  };
}

/** Finds the ConfigMap or overlay whose null at `path` removed the values of weaker layers. */
function findRemovingLayer(input: SectionInput, path: string): Origin | undefined {
  const sections = [["overlay", input.overlay] as const, ["ConfigMap", input.config] as const];
  const found = sections.find(([, section]) => section !== undefined && valueAtPath(section, path) === null);
  return found && { layer: found[0], path };
}

/** The part of `path` up to the first value that is no map; undefined if there is no value at `path`. */
function findLeafPath(values: Json, path: string): string | undefined {
  const walked: string[] = [];
  let value: Json | undefined = values;
  for (const segment of path === "/" ? [] : parsePointer(path)) {
    if (!isJsonObject(value)) break;
    value = member(value, segment);
    walked.push(segment);
  }
  return value === undefined ? undefined : toPointer(walked);
}

/** The layers that set a value at `path`, strongest first. */
function findLayersWithValue(input: SectionInput, path: string): LayerName[] {
  const layers: readonly (readonly [LayerName, Section | undefined])[] = [
    ["overlay", input.overlay],
    ["ConfigMap", input.config],
    ["valuesFrom", input.sources?.section],
    ["module values.yaml", input.own],
    ["modules/values.yaml", input.common],
  ];
  const layersWithValue = layers.filter(
    ([, section]) => section !== undefined && valueAtPath(section, path) !== undefined,
  );
  return layersWithValue.map(([layer]) => layer);
}

/** The strongest layer that sets the value at `path`. `isChanged`: whether patches changed this value. */
function findLayer(input: SectionInput, path: string, isChanged: boolean): LayerName {
  if (isChanged || isPatched(path, input.patches ?? [])) return "hook patch";
  const [found] = findLayersWithValue(input, path);
  if (found !== undefined) return found;
  const written = [input.sources?.section, input.config, input.overlay];
  const given = (mergeLayers([input.common, input.own, ...written]) ?? {}) as Section;
  const isConfigDefault = valueAtPath(input.schemas.configDefaults(given), path) !== undefined;
  return isConfigDefault ? "config schema default" : "values schema default";
}

/** Whether a patch set `path`. Paths of patches begin with the section's key, which is ignored. */
function isPatched(path: string, patches: readonly PatchOperation[]): boolean {
  return patches.some((each) => {
    const below = toPointer(parsePointer(each.path).slice(1));
    return each.op !== "remove" && each.op !== "test" && (below === "" || isAtOrBelow(path, below));
  });
}

/** The value at a JSON pointer. */
function valueAtPath(value: Json, path: string): Json | undefined {
  return valueAt(value, parsePointer(path));
}

/** A violation and the origin of the wrong value; undefined if it is not set. */
export interface LocatedViolation extends Violation {
  /** Where to set a missing value. */
  readonly remedy?: string;
  readonly layer: LayerName | undefined;
  /** File and line, ConfigMap key or hook. */
  readonly place: string | undefined;
}

/** The layers of one section and their sources. */
export interface SectionOrigins {
  readonly key: string;
  /** Name of the ConfigMap, for messages. */
  readonly configMap: string;
  readonly input: SectionInput;
  /** The module of the section; undefined for `global`. */
  readonly module: Module | undefined;
  readonly schemas: SchemaFiles;
  /** File and line of a value of `modules/values.yaml`. */
  readonly commonPlaceOf: PlaceOf | undefined;
  readonly hookOf: (path: string) => string | undefined;
}

type PlaceOf = (pointer: string) => string | undefined;

/** Sources of the layers of a section. */
export function placesIn({ key, module, schemas, hookOf, input }: SectionOrigins): Places {
  const places = {
    "modules/values.yaml": module?.common.file,
    "module values.yaml": module?.own.file,
    ConfigMap: `key ${key}`,
    overlay: `key ${key}`,
    "config schema default": schemas.config?.file,
    "values schema default": schemas.values?.file,
  };
  const known = Object.entries(places).filter(([, place]) => place !== undefined);
  const leafPlaces = { "hook patch": hookOf, valuesFrom: input.sources?.placeOf };
  return { ...(Object.fromEntries(known) as Places), ...leafPlaces };
}

/** Adds the origin of the wrong value to each violation. */
export function locateViolations(
  written: SectionOrigins,
  violations: readonly Violation[],
): LocatedViolation[] {
  if (violations.length === 0) return [];
  const places = placesIn(written);
  const originOf = createOriginFinder(written.input);
  return violations.map((violation) => {
    const origin = originOf(violation.path);
    const place = origin === undefined ? undefined : describeOrigin(written, places, origin);
    const missing = violation.rule === "required" ? describeMissing(written, violation.path) : {};
    return { ...violation, ...missing, layer: origin?.layer, place };
  });
}

/** Message and remedy for a required value that is missing. */
function describeMissing(
  { key, configMap }: SectionOrigins,
  path: string,
): Pick<LocatedViolation, "message" | "remedy"> {
  const names = [key, ...parsePointer(path)];
  return {
    message: `missing property \`${names.at(-1)}\``,
    remedy: `set ${names.join(".")} in ${configMap}, key ${key}`,
  };
}

/** Violations of the values in force, as text. */
export function describeViolations(written: SectionOrigins, violations: readonly Violation[]): string {
  return describeLocatedViolations(written.key, locateViolations(written, violations)).join("; ");
}

/** Violations as text: path, rule and origin; for a missing value, where to set it. */
export function describeLocatedViolations(key: string, violations: readonly LocatedViolation[]): string[] {
  return violations.map(({ path, message, place, remedy }) => {
    if (remedy !== undefined) return `${message}: ${remedy}`;
    return `${key}${path}: ${message}${place === undefined ? "" : `; set in ${place}`}`;
  });
}

/** The Secret or ConfigMap that the value at `path` comes from. */
function describeSource({ input }: SectionOrigins, path: string): string {
  return input.sources?.placeOf(path) ?? "valuesFrom";
}

/** The origin of a value for messages: file and line, object and key, or hook. */
function describeOrigin(written: SectionOrigins, places: Places, { layer, path }: Origin): string {
  const { key, configMap, module, commonPlaceOf, hookOf } = written;
  if (layer === "valuesFrom") return describeSource(written, path);
  if (layer === "hook patch") return `a patch of hook ${hookOf(path) ?? "unknown"}`;
  if (layer === "ConfigMap") return `${configMap}, key ${key}`;
  const place = places[layer];
  const lines: Readonly<Partial<Record<LayerName, PlaceOf | undefined>>> = {
    "modules/values.yaml": commonPlaceOf,
    "module values.yaml": module?.own.placeOf,
  };
  if (!(layer in lines)) return place === undefined ? layer : `${layer}: ${place}`;
  return findNearestPlace(lines[layer], `/${key}${path}`) ?? place ?? layer;
}

/** File and line of a value, or of the nearest key above it: values of an alias or a merge key have no line of their own. */
function findNearestPlace(find: PlaceOf | undefined, pointer: string): string | undefined {
  for (let at = pointer; at !== ""; at = at.slice(0, at.lastIndexOf("/"))) {
    const place = find?.(at);
    if (place !== undefined) return place;
  }
  return undefined;
}

const MAX_RECORDED_PATHS = 1000;

/** Records which hook last patched a path, for messages. */
export class PatchAuthors {
  readonly #hooks = new Map<string, Map<string, string>>();

  /** Records a hook as the author of operations on the section of `key`. */
  record(key: string, operations: readonly PatchOperation[], hook: string): void {
    const known = this.#hooks.get(key) ?? new Map<string, string>();
    this.#hooks.set(key, known);
    for (const { path } of operations) {
      // A Map keeps the order of insertion: delete first, so that the newest path becomes the last.
      known.delete(path);
      known.set(path, hook);
      const [oldest] = known.keys();
      if (known.size > MAX_RECORDED_PATHS && oldest !== undefined) known.delete(oldest);
    }
  }

  /** The hook that last patched the leaf at `path` (within the section), an ancestor, or an item of it. */
  findAuthor(key: string, path: string): string | undefined {
    const leaf = `/${key}${path}`;
    const patched = [...(this.#hooks.get(key) ?? [])].toReversed();
    return patched.find(([at]) => leaf === at || leaf.startsWith(`${at}/`) || at.startsWith(`${leaf}/`))?.[1];
  }
}
