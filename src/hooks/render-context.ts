/** Renders the binding context file of a hook run, piece by piece: its snapshots may be larger than the memory for one text. */

import { SnapshotList, JsonBytes, buildContext, snapshotItemMembers } from "../bindings/index.ts";
import { type ContextMembers, type Snapshots } from "../bindings/index.ts";
import type { Hook, HookTrigger, SnapshotItem } from "../model/index.ts";

interface ContextInput extends Pick<Hook, "config"> {
  readonly triggers: readonly HookTrigger[];
  readonly snapshots: Snapshots;
}

const MIN_PIECE_LENGTH = 64 * 1024;

/**
 * The binding context as JSON text in pieces of about 64 KiB: an array, keys in alphabetical order, a line end.
 * No piece contains more than one snapshot item, so memory stays bounded.
 */
export function* renderContext(input: ContextInput): Generator<string> {
  let pending = "";
  for (const text of renderContexts(input)) {
    pending += text;
    if (pending.length < MIN_PIECE_LENGTH) continue;
    yield pending;
    pending = "";
  }
  yield pending;
}

/** The JSON text of the contexts of all triggers, in small pieces. */
function* renderContexts({ config, triggers, snapshots }: ContextInput): Generator<string> {
  const cachedSnapshots = cacheSnapshots(snapshots);
  yield "[";
  for (const [index, trigger] of triggers.entries()) {
    if (index > 0) yield ",";
    const members = Object.entries(buildContext(trigger, config, cachedSnapshots));
    yield* renderObject(members.sort(([a], [b]) => (a < b ? -1 : 1)));
  }
  yield "]\n";
}

/** Caches snapshots, so that all contexts of one run show the same state of the objects. */
function cacheSnapshots(snapshots: Snapshots): Snapshots {
  const cache = new Map<string, readonly SnapshotItem[]>();
  const readOnce = (key: string, read: () => readonly SnapshotItem[]): readonly SnapshotItem[] => {
    const items = cache.get(key) ?? read();
    cache.set(key, items);
    return items;
  };
  return {
    byBindingName: (name) => readOnce(`name ${name}`, () => snapshots.byBindingName(name)),
    byBindingId: (id) => readOnce(`id ${id}`, () => snapshots.byBindingId(id)),
  };
}

/** The pieces of a JSON object: `{` or `,` before each member, so that `{` remains to be written if there are none. */
function* renderObject(members: Iterable<readonly [string, ContextMembers[string]]>): Generator<string> {
  let separator = "{";
  for (const [key, value] of members) {
    yield `${separator}${JSON.stringify(key)}:`;
    yield* renderValue(value);
    separator = ",";
  }
  yield separator === "{" ? "{}" : "}";
}

/** The pieces of one member. A `JsonBytes` is an object that is kept as JSON text. */
function* renderValue(value: ContextMembers[string]): Generator<string> {
  if (value instanceof Map) yield* renderObject(value);
  else if (value instanceof SnapshotList) yield* renderItems(value.list);
  else if (value instanceof JsonBytes) yield decodeUtf8(value.bytes);
  else yield JSON.stringify(value);
}

/** Decodes bytes without copying them first. */
function decodeUtf8({ buffer, byteOffset, byteLength }: Uint8Array): string {
  return Buffer.from(buffer, byteOffset, byteLength).toString("utf8");
}

/** The pieces of a JSON array of snapshot items: `[` or `,` before each item, so that `[` remains to be written if there are none. */
function* renderItems(items: readonly SnapshotItem[]): Generator<string> {
  let separator = "[";
  for (const item of items) {
    yield separator;
    yield* renderObject(snapshotItemMembers(item));
    separator = ",";
  }
  yield separator === "[" ? "[]" : "]";
}
