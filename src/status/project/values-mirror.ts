/** The values of a module as its status shows them (docs/STATUS.md, "Values and secrets"). */

import { KnownSecrets } from "../../lib/index.ts";
import { type Json, isJsonObject } from "../../model/index.ts";

/** `--status-values`. */
export type StatusValues = "redacted" | "full" | "none";

/** Merged values as they may be shown. */
export interface ShownValues {
  readonly values?: Json;
  readonly valuesTruncated?: boolean;
}

/** What is known to be secret: paths from the schemas of the values, and texts. */
export interface SecretMarks {
  readonly secretPaths?: ReadonlySet<string> | undefined;
  readonly secrets?: KnownSecrets;
}

/** Most bytes of JSON that the values in a status may have. */
export const VALUES_LIMIT = 32 * 1024;

/**
 * The merged values as they may be shown: in mode `redacted` without secrets, in every mode but `none` cut to 32
 * KiB, with a note in place of what was cut.
 */
export function showValues(values: Json, mode: StatusValues, marks: SecretMarks = {}): ShownValues {
  if (mode === "none") return {};
  const { secrets = new KnownSecrets(), secretPaths } = marks;
  const shown = mode === "full" ? values : secrets.redactValues(values, secretPaths);
  if (sizeOf(shown) <= VALUES_LIMIT) return { values: shown };
  return { values: cut(shown, VALUES_LIMIT), valuesTruncated: true };
}

/** Bytes of `value` as JSON. */
function sizeOf(value: Json): number {
  return Buffer.byteLength(JSON.stringify(value));
}

/** `value` in at most `budget` bytes: small members are kept whole, then large ones are cut, the rest is left out. */
function cut(value: Json, budget: number): Json {
  const size = sizeOf(value);
  if (size <= budget) return value;
  if (Array.isArray(value)) return cutList(value, budget - 2);
  if (isJsonObject(value)) return cutMap(value, budget - 2);
  return note(size);
}

function note(size: number): string {
  return `<cut: ${size} bytes>`;
}
const NOTE_SIZE = 24;

function cutMap(value: Readonly<Record<string, Json | undefined>>, budget: number): Json {
  const members = Object.entries(value).map(([key, member]) => ({ key, member: member ?? null }));
  const sized = members.map((member) => ({ ...member, size: sizeOf(member.member) }));
  const kept = new Map<string, Json>();
  let left = budget - 2 * NOTE_SIZE;
  for (const { key, member, size } of sized.toSorted((a, b) => a.size - b.size)) {
    const room = left - Buffer.byteLength(JSON.stringify(key)) - 2;
    if (room < Math.min(size, NOTE_SIZE)) continue;
    const shown = cut(member, room);
    kept.set(key, shown);
    left = room - sizeOf(shown);
  }
  // In the order in which the user wrote them.
  const shown: [string, Json][] = members.flatMap(({ key }) =>
    kept.has(key) ? [[key, kept.get(key) ?? null]] : [],
  );
  const dropped = members.length - kept.size;
  if (dropped > 0) shown.push(["…", `<cut: ${dropped} keys>`]);
  return Object.fromEntries(shown);
}

function cutList(value: readonly Json[], budget: number): Json {
  const kept: Json[] = [];
  let left = budget - NOTE_SIZE;
  for (const item of value) {
    left -= sizeOf(item) + 1;
    if (left < 0) break;
    kept.push(item);
  }
  return [...kept, `<cut: ${value.length - kept.length} items>`];
}
