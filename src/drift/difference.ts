/** Finds what others have changed of what helm set. */

import { oneLine, sameJson } from "../lib/index.ts";
import { isJsonObject, member } from "../model/index.ts";
import type { DriftIgnore, Json, JsonObject } from "../model/index.ts";
import { entriesOf, holderOf, isHelms, type Entry } from "./hands.ts";
import { isIgnored } from "./ignore.ts";
import { childAt, describePath, holds, isLeaf, pointerTo, type FieldPath } from "./paths.ts";

/** A field that is not as helm has set it. */
export interface DriftedField {
  /** `spec.template.spec.containers[name="web"].image` */
  readonly field: string;
  /** The field manager that holds it now; undefined where nobody does. */
  readonly manager: string | undefined;
  /** When, in ms since the epoch. */
  readonly at: number | undefined;
  readonly removed: boolean;
}

/** What a look at an object finds. */
export interface Comparison {
  readonly fields: readonly DriftedField[];
  /** What differs and is to stay so: a repair leaves it out. */
  readonly ignored: readonly FieldPath[];
  /** Somebody else holds a field that helm sets: each further write of theirs matters. */
  readonly isShared: boolean;
}

/** Most fields of an object that are compared. */
const MOST_FIELDS = 5000;
const LONGEST_NAME = 100;

/**
 * Compares an object as it is with what the API server makes of a forced apply of what the release's record says of it.
 * Only what the record sets counts; and a difference where helm alone holds the field is made by nobody: a webhook changes
 * each apply in another way.
 */
export function compare(live: JsonObject, applied: JsonObject, targets: readonly DriftIgnore[]): Comparison {
  const entries = entriesOf(live);
  const own = entries.filter(isHelms);
  const set = entriesOf(applied).find((entry) => isHelms(entry) && entry.operation === "Apply");
  const walk = new Walk();
  walk.step(set?.fields, [applied, live], []);
  const differing = walk.differing.map((path) => ({
    path,
    pointer: pointerTo(applied, path),
    holder: holderOf(entries, path),
  }));
  const lost = differing.filter(
    ({ path, holder }) => holder !== undefined || !own.some(({ fields }) => holds(fields, path)),
  );
  const ignored = lost.filter((each) => isIgnored(each, applied, targets));
  const fields = lost
    .filter((each) => !ignored.includes(each))
    .map(({ path, holder }) => fieldOf(path, holder, valueAt(live, path)));
  return { fields, ignored: ignored.map(({ path }) => path), isShared: walk.leaves.some(isHeld) };

  function isHeld(path: FieldPath): boolean {
    const holder = holderOf(entries, path);
    return (
      holder !== undefined &&
      !isIgnored({ path, pointer: pointerTo(applied, path), holder }, applied, targets)
    );
  }
}

function fieldOf(path: FieldPath, holder: Entry | undefined, value: Json | undefined): DriftedField {
  return {
    field: describePath(path),
    manager: holder && oneLine(holder.manager, LONGEST_NAME),
    at: holder?.at,
    removed: value === undefined,
  };
}

function valueAt(object: JsonObject, path: FieldPath): Json | undefined {
  return path.reduce<Json | undefined>(childAt, object);
}

/** What was applied, and what is there. */
type Pair = readonly [wanted: Json | undefined, live: Json | undefined];

/** Goes through the fields that were applied, in both objects. */
class Walk {
  readonly leaves: FieldPath[] = [];
  readonly differing: FieldPath[] = [];

  step(node: Json | undefined, [wanted, live]: Pair, path: FieldPath): void {
    if (!isJsonObject(node) || this.leaves.length >= MOST_FIELDS) return;
    // The server leaves out what is set to nothing, such as "" or false: then there is to be none.
    if (wanted === undefined && live === undefined) return;
    const segments = Object.keys(node).filter((segment) => segment !== ".");
    if (live === undefined || segments.length === 0) return this.#end(node, [wanted, live], path);
    for (const segment of segments)
      this.step(
        member(node, segment),
        [childAt(wanted, segment), childAt(live, segment)],
        [...path, segment],
      );
  }

  #end(node: JsonObject, [wanted, live]: Pair, path: FieldPath): void {
    this.leaves.push(path);
    // Of an item that is held without its members only its presence counts.
    if (live === undefined || (isLeaf(node) && !sameJson(wanted, live))) this.differing.push(path);
  }
}
