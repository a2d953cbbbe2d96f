/** Finds out who set a value that breaks a schema. */

import type { JsonObject, Module, SchemaFiles } from "../../model/index.ts";
import { explain, originOf } from "../../values/index.ts";
import type {
  LayerName,
  Origin,
  PatchOperation,
  Places,
  SectionInput,
  Violation,
} from "../../values/index.ts";

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
function placesOf({ key, module, schemas, hookOf }: Written): Places {
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

/** Which layer set each leaf of a section, and where, by JSON pointer. */
export function explainAll(written: Written): JsonObject {
  return Object.fromEntries(explain(written.input, placesOf(written)));
}

/** Where the values of a section come from. */
export function locate(written: Written, violations: readonly Violation[]): Located[] {
  const places = placesOf(written);
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
