/** Reads in `managedFields` who holds the fields of an object. */

import { createHash } from "node:crypto";

import { isJsonObject, objectOf, objectsIn, textOf } from "../model/index.ts";
import type { Json, JsonObject } from "../model/index.ts";
import { holds, type FieldPath } from "./paths.ts";

/** The field manager of helm, with every method of applying. */
export const HELM = "helm";

/** One entry of `managedFields`. */
export interface Entry {
  readonly manager: string;
  readonly operation: string;
  /** Empty for the object itself. */
  readonly subresource: string;
  /** In ms since the epoch. */
  readonly at: number | undefined;
  readonly fields: JsonObject;
}

/** The entries of an object; what is none is left out. */
export function entriesOf(object: JsonObject): Entry[] {
  return objectsIn(objectOf(object["metadata"])["managedFields"]).flatMap((entry) => {
    const { manager, operation, subresource, time, fieldsV1 } = entry;
    if (typeof manager !== "string" || !isJsonObject(fieldsV1)) return [];
    const at = Date.parse(textOf(time) ?? "");
    return [
      {
        manager,
        operation: textOf(operation) ?? "",
        subresource: textOf(subresource) ?? "",
        at: Number.isNaN(at) ? undefined : at,
        fields: fieldsV1,
      },
    ];
  });
}

/** Whether an entry is helm's own. */
export function isHelms({ manager, subresource }: Entry): boolean {
  return manager === HELM && subresource === "";
}

/** Whether an entry is somebody else's, and may be about what helm has set. */
function isForeign(entry: Entry): boolean {
  return !isHelms(entry) && entry.subresource !== "status";
}

/** The newest of the entries of others that hold a field. */
export function holderOf(entries: readonly Entry[], path: FieldPath): Entry | undefined {
  return entries
    .filter((entry) => isForeign(entry) && holds(entry.fields, path))
    .reduce<Entry | undefined>(
      (newest, entry) => ((newest?.at ?? 0) > (entry.at ?? 0) ? newest : entry),
      undefined,
    );
}

/** A small digest of who holds which fields of one version of an object: two that are equal need no second look. */
export interface Hands {
  readonly version: string;
  /** What helm holds, since when. */
  readonly helm: string;
  /** What others hold; empty where there are none, and helm holds something. */
  readonly others: string;
  /** Changes with every write of others, and of the object's spec. */
  readonly moves: string;
}

/** The hands of an object, or of its metadata alone. */
export function handsOf(object: JsonObject): Hands {
  const entries = entriesOf(object);
  const { uid, resourceVersion, generation } = objectOf(object["metadata"]);
  const version = textOf(resourceVersion) ?? "";
  const others = entries.filter(isForeign);
  const own = entries.filter(isHelms);
  const texts = others.map(({ manager, operation, subresource, fields }) => [
    manager,
    operation,
    subresource,
    fields,
  ]);
  return {
    version,
    helm: short([uid ?? "", own.map(({ at, fields }) => [at ?? null, fields])]),
    others: others.length === 0 && own.length > 0 ? "" : short(texts),
    moves: short([generation ?? version, others.map(({ at }) => at ?? null)]),
  };
}

/** The API server writes members in one order. */
function short(value: Json): string {
  return createHash("sha256").update(JSON.stringify(value)).digest("base64").slice(0, 16);
}
