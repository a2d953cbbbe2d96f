/** The values of a module, leaf by leaf, as its status may show them, with the layer that set each. */

import { pointerOf } from "../lib/index.ts";
import { isJsonObject, textOf, type Json, type JsonObject } from "../model/index.ts";
import type { ShownValues } from "../status/index.ts";
import type { LeafRow, ValuesDetail } from "./wire.ts";

/** `origins` tells by JSON pointer which layer set a leaf of the section that is called `key`. */
export function leavesOf(
  { values, valuesTruncated }: ShownValues,
  key: string,
  origins: JsonObject,
): ValuesDetail {
  if (values === undefined) return { leaves: [], note: "Values are not shown: --status-values=none." };
  const section = isJsonObject(values) ? values[key] : undefined;
  const leaves = [...walk(section ?? {}, "")].map(([path, value]) => ({
    path: path === "" ? "/" : path,
    value: JSON.stringify(value),
    layer: textOf(origins[path]) ?? "",
  }));
  return valuesTruncated === true
    ? { leaves, note: "Not all is shown: the values are too large." }
    : { leaves };
}

function* walk(value: Json, path: string): Generator<readonly [LeafRow["path"], Json]> {
  const members = isJsonObject(value) ? Object.entries(value) : [];
  if (members.length === 0) yield [path, value];
  for (const [name, child] of members)
    if (child !== undefined) yield* walk(child, `${path}${pointerOf([name])}`);
}
