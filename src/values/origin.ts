/**
 * Finds the layer that set a value, and its file and line, ConfigMap key or hook (`module values --explain`, messages about wrong values).
 * A *leaf* is a value that one layer sets as a whole: any value but a map. Paths are JSON pointers within a section.
 */

import { isAtOrBelow, listLeaves, toPointer, sameJson, parsePointer } from "../base/index.ts";
import { isJsonObject, member, valueAt, mergeLayers } from "../base/model/index.ts";
import type { Json, Module, SchemaFiles, Section } from "../base/model/index.ts";
import { mergeSectionLayers, type SectionInput } from "./layers.ts";
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

/** The origin of each layer for display: a file, a key of a ConfigMap, or a function where the origin differs by leaf. */
type LayerOrigins = Readonly<Partial<Record<LayerName, string | FindPosition | undefined>>>;

/** Describes the origin of each leaf of a section, by JSON pointer, as `LAYER` or `LAYER: FILE` (or key, object, hook). */
export function explainOrigins(
  input: SectionInput,
  layerOrigins: LayerOrigins = {},
): ReadonlyMap<string, string> {
  const withoutPatches = mergeSectionLayers({ ...input, patches: [] }).values;
  const { values } = mergeSectionLayers(input);
  const origins = new Map<string, string>();
  for (const [path, leaf] of listLeaves(values)) {
    const isChangedByPatch = !sameJson(valueAtPath(withoutPatches, path), leaf);
    const layer = findLayer(input, path, isChangedByPatch);
    const origin = layerOrigins[layer];
    const position = typeof origin === "function" ? origin(path) : origin;
    origins.set(path, position === undefined ? layer : `${layer}: ${position}`);
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
 * in the ConfigMap removed, that is the ConfigMap; undefined = no layer, or more than one, set it. Merges the layers once for all paths.
 */
export function createOriginFinder(input: SectionInput): (path: string) => Origin | undefined {
  const withoutPatches = mergeSectionLayers({ ...input, patches: [] }).values;
  const { values } = mergeSectionLayers(input);
  return (path) => {
    const leafPath = findLeafPath(values, path);
    if (leafPath === undefined) return findRemovingLayer(input, path);
    const value = valueAtPath(values, leafPath);
    const isFilledBySeveralLayers = isJsonObject(value) && findLayersWithValue(input, leafPath).length > 1;
    if (isFilledBySeveralLayers) return undefined;
    const isChangedByPatch = !sameJson(valueAtPath(withoutPatches, leafPath), value);
    return { layer: findLayer(input, leafPath, isChangedByPatch), path: leafPath };
  };
}

/** Finds the ConfigMap or overlay whose null at `path` removed the values of weaker layers; undefined if none has a null there. */
function findRemovingLayer(input: SectionInput, path: string): Origin | undefined {
  const sections = [["overlay", input.overlay] as const, ["ConfigMap", input.config] as const];
  const removing = sections.find(([, section]) => valueAtPath(section, path) === null);
  return removing && { layer: removing[0], path };
}

/**
 * The part of `path` up to the first value that is no map: of an item in a list, the path of the list, because a list has one origin.
 * Undefined if no value is at `path`. The path `/` of violations means the whole section.
 */
function findLeafPath(values: Json, path: string): string | undefined {
  const segmentsToLeaf: string[] = [];
  let value: Json | undefined = values;
  for (const segment of path === "/" ? [] : parsePointer(path)) {
    if (!isJsonObject(value)) break;
    value = member(value, segment);
    segmentsToLeaf.push(segment);
  }
  return value === undefined ? undefined : toPointer(segmentsToLeaf);
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
  return layers.filter(([, section]) => valueAtPath(section, path) !== undefined).map(([layer]) => layer);
}

/** The strongest layer that sets the value at `path`. `isChangedByPatch`: the value differs from that without patches of hooks. */
function findLayer(input: SectionInput, path: string, isChangedByPatch: boolean): LayerName {
  // A patch may also set the value that other layers have.
  if (isChangedByPatch || isPatched(path, input.patches ?? [])) return "hook patch";
  const [strongest] = findLayersWithValue(input, path);
  if (strongest !== undefined) return strongest;
  // The value is a default; those of the config schema are filled in first.
  const layers = [input.common, input.own, input.sources?.section, input.config, input.overlay];
  const withoutDefaults = (mergeLayers(layers) ?? {}) as Section;
  const isConfigDefault = valueAtPath(input.schemas.fillConfigDefaults(withoutDefaults), path) !== undefined;
  return isConfigDefault ? "config schema default" : "values schema default";
}

/** Whether a patch set the value at `path`, or a value around it. Paths of patches begin with the section's key, others do not. */
function isPatched(path: string, patches: readonly PatchOperation[]): boolean {
  return patches.some(({ op, path: pathWithKey }) => {
    if (op === "remove" || op === "test") return false;
    const patchedPath = toPointer(parsePointer(pathWithKey).slice(1));
    const isWholeSection = patchedPath === "";
    return isWholeSection || isAtOrBelow(path, patchedPath);
  });
}

function valueAtPath(value: Json | undefined, path: string): Json | undefined {
  return valueAt(value, parsePointer(path));
}

/** A violation and the origin of the wrong value, so that messages say where to correct it. */
export interface LocatedViolation extends Violation {
  /** How to set a missing value. */
  readonly remedy?: string;
  /** The layer that set the value; undefined if no layer did. */
  readonly layer: LayerName | undefined;
  /** File and line, ConfigMap key or hook. */
  readonly position: string | undefined;
}

/** The layers of one section, and what is needed to find where a layer sets a value. */
export interface SectionOrigins {
  readonly key: string;
  /** Name of the ConfigMap, for messages. */
  readonly configMap: string;
  readonly input: SectionInput;
  /** The module of the section; undefined for `global`. */
  readonly module: Module | undefined;
  readonly schemas: SchemaFiles;
  /** File and line of a value of `modules/values.yaml`. */
  readonly findCommonPosition: FindPosition | undefined;
  readonly findHook: (path: string) => string | undefined;
}

type FindPosition = (pointer: string) => string | undefined;

/** The origin of each layer of a section, for display: file, key, or a function that finds the object or hook of a path. */
export function listLayerOrigins({ key, module, schemas, findHook, input }: SectionOrigins): LayerOrigins {
  return {
    "modules/values.yaml": module?.common.file,
    "module values.yaml": module?.own.file,
    valuesFrom: input.sources?.findPosition,
    ConfigMap: `key ${key}`,
    overlay: `key ${key}`,
    "config schema default": schemas.config?.file,
    "values schema default": schemas.values?.file,
    "hook patch": findHook,
  };
}

/** Adds the origin of the wrong value to each violation. */
export function locateViolations(
  section: SectionOrigins,
  violations: readonly Violation[],
): LocatedViolation[] {
  if (violations.length === 0) return [];
  const layerOrigins = listLayerOrigins(section);
  const findOrigin = createOriginFinder(section.input);
  return violations.map((violation) => {
    const origin = findOrigin(violation.path);
    const position = origin === undefined ? undefined : describeOrigin(section, layerOrigins, origin);
    const isMissing = violation.rule === "required";
    const messageAndRemedy = isMissing ? describeMissingValue(section, violation.path) : {};
    return { ...violation, ...messageAndRemedy, layer: origin?.layer, position };
  });
}

/** Message and remedy for a required value that is missing. */
function describeMissingValue(
  { key, configMap }: SectionOrigins,
  path: string,
): Pick<LocatedViolation, "message" | "remedy"> {
  const names = [key, ...parsePointer(path)];
  return {
    message: `missing property \`${names.at(-1)}\``,
    remedy: `set ${names.join(".")} in ${configMap}, key ${key}`,
  };
}

/** Violations of the values in force as one text, with the origin of each wrong value. */
export function describeViolations(section: SectionOrigins, violations: readonly Violation[]): string {
  return describeLocatedViolations(section.key, locateViolations(section, violations)).join("; ");
}

/** Violations as texts: path, message and origin; of a missing value, where to set it. */
export function describeLocatedViolations(key: string, violations: readonly LocatedViolation[]): string[] {
  return violations.map(({ path, message, position, remedy }) => {
    if (remedy !== undefined) return `${message}: ${remedy}`;
    return `${key}${path}: ${message}${position === undefined ? "" : `; set in ${position}`}`;
  });
}

/** The origin of a value for messages: file and line, object and key, or hook; at least the name of the layer. */
function describeOrigin(
  section: SectionOrigins,
  layerOrigins: LayerOrigins,
  { layer, path }: Origin,
): string {
  const { key, configMap, findHook } = section;
  // These two have a longer form in messages than in the list of `--explain` (`layerOrigins`).
  if (layer === "hook patch") return `a patch of hook ${findHook(path) ?? "unknown"}`;
  if (layer === "ConfigMap") return `${configMap}, key ${key}`;
  const origin = layerOrigins[layer];
  // `valuesFrom`: each value can come from another object.
  if (typeof origin === "function") return origin(path) ?? layer;
  const lineFinders = listLineFinders(section);
  const isValuesFile = layer in lineFinders;
  // The file of an overlay or of a schema with defaults does not say which layer it is.
  if (!isValuesFile) return origin === undefined ? layer : `${layer}: ${origin}`;
  return findNearestPosition(lineFinders[layer], `/${key}${path}`) ?? origin ?? layer;
}

/** For each layer that is a values file, the function that finds file and line of a value. */
function listLineFinders({
  findCommonPosition,
  module,
}: SectionOrigins): Readonly<Partial<Record<LayerName, FindPosition | undefined>>> {
  return {
    "modules/values.yaml": findCommonPosition,
    "module values.yaml": module?.own.findPosition,
  };
}

/** File and line of a value, or of the nearest key above it: values of an alias or a merge key have no line of their own. */
function findNearestPosition(find: FindPosition | undefined, pointer: string): string | undefined {
  let nearest = pointer;
  while (nearest !== "") {
    const position = find?.(nearest);
    if (position !== undefined) return position;
    nearest = nearest.slice(0, nearest.lastIndexOf("/"));
  }
  return undefined;
}

const MAX_RECORDED_PATHS = 1000;

/** Remembers which hook last patched a path, so that messages about a value can name the hook. Forgets the oldest of very many paths. */
export class PatchAuthors {
  /** Hooks by path, in the order of their patches, by key of the section. Paths begin with the key. */
  readonly #hooks = new Map<string, Map<string, string>>();

  /** Records a hook as the author of operations on the section of `key`. */
  record(key: string, operations: readonly PatchOperation[], hook: string): void {
    const hooksByPath = this.#hooks.get(key) ?? new Map<string, string>();
    this.#hooks.set(key, hooksByPath);
    for (const { path } of operations) {
      // A Map keeps the order of insertion: delete first, so that the newest path becomes the last.
      hooksByPath.delete(path);
      hooksByPath.set(path, hook);
      const [oldest] = hooksByPath.keys();
      if (hooksByPath.size > MAX_RECORDED_PATHS && oldest !== undefined) hooksByPath.delete(oldest);
    }
  }

  /** The hook that last patched the leaf at `path` (within the section), a value around it, or an item of it; undefined if none did. */
  findAuthor(key: string, path: string): string | undefined {
    const leafPath = `/${key}${path}`;
    const newestFirst = [...(this.#hooks.get(key) ?? [])].toReversed();
    return newestFirst.find(
      ([patchedPath]) => isAtOrBelow(leafPath, patchedPath) || isAtOrBelow(patchedPath, leafPath),
    )?.[1];
  }
}
