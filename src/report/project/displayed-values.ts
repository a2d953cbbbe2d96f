/** The merged values in the status of a module: redacted, and cut to a limit. */

import { KnownSecrets } from "../../base/index.ts";
import { type Json, isJsonObject } from "../../base/model/index.ts";

/** How the status displays values (`--status-values`). */
export type StatusValues = "redacted" | "full" | "none";

/** The fields of a status that display the merged values; none in mode `none`. */
export interface DisplayedValues {
  readonly values?: Json;
  readonly valuesTruncated?: boolean;
}

/** What to redact in values: paths that the schemas mark as secret, and texts that are known to be secret. */
export interface SecretMarks {
  readonly secretPaths?: ReadonlySet<string> | undefined;
  readonly secrets?: KnownSecrets;
}

/** Most bytes of JSON that the values in a status may have: etcd and all watches of AddonModules carry them. */
export const VALUES_LIMIT = 32 * 1024;

/**
 * The merged values for the status: without secrets in mode `redacted`, and cut to VALUES_LIMIT bytes, with a marker in
 * place of each cut part. Empty in mode `none`: the status has no values then. `marks`: what to redact.
 */
export function displayValues(values: Json, mode: StatusValues, marks: SecretMarks = {}): DisplayedValues {
  if (mode === "none") return {};
  const { secrets = new KnownSecrets(), secretPaths } = marks;
  const displayed = mode === "full" ? values : secrets.redactValues(values, secretPaths);
  if (countJsonBytes(displayed) <= VALUES_LIMIT) return { values: displayed };
  return { values: cutToBytes(displayed, VALUES_LIMIT), valuesTruncated: true };
}

/** The size of a value as JSON. */
function countJsonBytes(value: Json): number {
  return Buffer.byteLength(JSON.stringify(value));
}

/** Cuts a value to at most `budget` bytes of JSON: keeps small members whole, cuts large ones, and omits the rest. */
function cutToBytes(value: Json, budget: number): Json {
  const size = countJsonBytes(value);
  if (size <= budget) return value;
  if (Array.isArray(value)) return cutList(value, budget - BRACKETS_BYTES);
  if (isJsonObject(value)) return cutMap(value, budget - BRACKETS_BYTES);
  return `<cut: ${size} bytes>`;
}

/** The two brackets around a list or a map. */
const BRACKETS_BYTES = 2;
/** Colon and comma of a member. */
const PUNCTUATION_BYTES = 2;
/** Room for a marker that replaces a cut part. */
const MARKER_BYTES = 24;

/** Cuts a map to `budget` bytes. Small members get room first, so that one large member does not displace them. */
function cutMap(value: Readonly<Record<string, Json | undefined>>, budget: number): Json {
  const members = Object.entries(value).map(([key, member = null]) => {
    return { key, member, size: countJsonBytes(member) };
  });
  const kept = new Map<string, Json>();
  // Room for the marker of the last member that is cut, and for that of all dropped members.
  let bytesLeft = budget - 2 * MARKER_BYTES;
  for (const { key, member, size } of members.toSorted((a, b) => a.size - b.size)) {
    const room = bytesLeft - countJsonBytes(key) - PUNCTUATION_BYTES;
    const hasRoomForMarker = room >= MARKER_BYTES;
    if (room < size && !hasRoomForMarker) continue;
    const displayed = cutToBytes(member, room);
    kept.set(key, displayed);
    bytesLeft = room - countJsonBytes(displayed);
  }
  // The result lists members in the order in which the user wrote them.
  const keptMembers = members.filter(({ key }) => kept.has(key));
  const displayed: [string, Json][] = keptMembers.map(({ key }) => [key, kept.get(key) ?? null]);
  const dropped = members.length - kept.size;
  if (dropped > 0) displayed.push(["…", `<cut: ${dropped} keys>`]);
  return Object.fromEntries(displayed);
}

/** Cuts a list to `budget` bytes: keeps its first items, and appends a marker with the number of omitted items. */
function cutList(value: readonly Json[], budget: number): Json {
  const kept: Json[] = [];
  let bytesLeft = budget - MARKER_BYTES;
  for (const item of value) {
    const comma = 1;
    bytesLeft -= countJsonBytes(item) + comma;
    if (bytesLeft < 0) break;
    kept.push(item);
  }
  return [...kept, `<cut: ${value.length - kept.length} items>`];
}
