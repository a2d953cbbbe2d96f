/** Finds the layer that set a value, and its file and line, ConfigMap key or hook (`module values --explain`). */

import { isAtOrBelow, listLeaves, toPointer, sameJson, parsePointer } from "../lib/index.ts";
import { isJsonObject, member, valueAt, mergeLayers } from "../model/index.ts";
import type { Json, Module, SchemaFiles, Section } from "../model/index.ts";
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

/** Describes the origin of each leaf of a section, by JSON pointer, as `LAYER` or `LAYER: FILE` (or key, object, hook). A list is one leaf. */
export function explainOrigins(
  input: SectionInput,
  layerOrigins: LayerOrigins = {},
): ReadonlyMap<string, string> {
  const withoutPatches = mergeSectionLayers({ ...input, patches: [] }).values;
  const { values } = mergeSectionLayers(input);
  const origins = new Map<string, string>();
  for (const [path, leaf] of listLeaves(values)) {
    const layer = findLayer(input, path, !sameJson(valueAtPath(withoutPatches, path), leaf));
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
 * in the ConfigMap removed, that is the ConfigMap; undefined = no layer set it. The layers are merged once for all paths.
 */
export function createOriginFinder(input: SectionInput): (path: string) => Origin | undefined {
  const withoutPatches = mergeSectionLayers({ ...input, patches: [] }).values;
  const { values } = mergeSectionLayers(input);
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
  const found = sections.find(([, section]) => valueAtPath(section, path) === null);
  return found && { layer: found[0], path };
}

/** The part of `path` up to the first value that is no map, because a list has one origin; undefined if no value is at `path`. */
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
  return layers.filter(([, section]) => valueAtPath(section, path) !== undefined).map(([layer]) => layer);
}

/** The strongest layer that sets the value at `path`. `isChanged`: whether patches changed this value. */
function findLayer(input: SectionInput, path: string, isChanged: boolean): LayerName {
  if (isChanged || isPatched(path, input.patches ?? [])) return "hook patch";
  const [found] = findLayersWithValue(input, path);
  if (found !== undefined) return found;
  // Only a default is left: the config schema's apply first.
  const layers = [input.common, input.own, input.sources?.section, input.config, input.overlay];
  const withoutDefaults = (mergeLayers(layers) ?? {}) as Section;
  const isConfigDefault = valueAtPath(input.schemas.fillConfigDefaults(withoutDefaults), path) !== undefined;
  return isConfigDefault ? "config schema default" : "values schema default";
}

/** Whether a patch set `path`. Paths of patches begin with the section's key, which is ignored. */
function isPatched(path: string, patches: readonly PatchOperation[]): boolean {
  return patches.some((each) => {
    const below = toPointer(parsePointer(each.path).slice(1));
    return each.op !== "remove" && each.op !== "test" && (below === "" || isAtOrBelow(path, below));
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

/** The origin of each layer of a section. */
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
    const missing = violation.rule === "required" ? describeMissingValue(section, violation.path) : {};
    return { ...violation, ...missing, layer: origin?.layer, position };
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

/** Violations as text: path, rule and origin; for a missing value, where to set it. */
export function describeLocatedViolations(key: string, violations: readonly LocatedViolation[]): string[] {
  return violations.map(({ path, message, position, remedy }) => {
    if (remedy !== undefined) return `${message}: ${remedy}`;
    return `${key}${path}: ${message}${position === undefined ? "" : `; set in ${position}`}`;
  });
}

/** The Secret or ConfigMap that the value at `path` comes from. */
function describeSource({ sources }: SectionInput, path: string): string {
  return sources?.findPosition(path) ?? "valuesFrom";
}

/** The origin of a value for messages: file and line, object and key, or hook. */
function describeOrigin(
  { key, configMap, module, input, findCommonPosition, findHook }: SectionOrigins,
  layerOrigins: LayerOrigins,
  { layer, path }: Origin,
): string {
  if (layer === "valuesFrom") return describeSource(input, path);
  if (layer === "hook patch") return `a patch of hook ${findHook(path) ?? "unknown"}`;
  if (layer === "ConfigMap") return `${configMap}, key ${key}`;
  const file = layerOrigins[layer] as string | undefined;
  const lineFinders: Readonly<Partial<Record<LayerName, FindPosition | undefined>>> = {
    "modules/values.yaml": findCommonPosition,
    "module values.yaml": module?.own.findPosition,
  };
  if (!(layer in lineFinders)) return file === undefined ? layer : `${layer}: ${file}`;
  return findNearestPosition(lineFinders[layer], `/${key}${path}`) ?? file ?? layer;
}

/** File and line of a value, or of the nearest key above it: values of an alias or a merge key have no line of their own. */
function findNearestPosition(find: FindPosition | undefined, pointer: string): string | undefined {
  for (let at = pointer; at !== ""; at = at.slice(0, at.lastIndexOf("/"))) {
    const position = find?.(at);
    if (position !== undefined) return position;
  }
  return undefined;
}

const MAX_RECORDED_PATHS = 1000;

/** Remembers which hook last patched a path, so that messages about a value can name the hook. */
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
