/** Renders the binding context file of a hook run. */

import { Items, JsonBytes, contextOf, itemMembers, type Members, type Snapshots } from "../bindings/index.ts";
import type { Hook, HookTrigger, SnapshotItem } from "../model/index.ts";

interface ContextInput extends Pick<Hook, "config"> {
  readonly triggers: readonly HookTrigger[];
  readonly snapshots: Snapshots;
}

const PIECE = 64 * 1024;

/**
 * The binding context as JSON text in pieces of about 64 KiB: an array, keys in alphabetical order, a line end.
 * No piece contains more than one snapshot item, so memory stays bounded.
 */
export function* renderContext(input: ContextInput): Generator<string> {
  let pending = "";
  for (const text of contextTexts(input)) {
    pending += text;
    if (pending.length < PIECE) continue;
    yield pending;
    pending = "";
  }
  yield pending;
}

function* contextTexts({ config, triggers, snapshots }: ContextInput): Generator<string> {
  const read = onceEach(snapshots);
  yield "[";
  for (const [index, trigger] of triggers.entries()) {
    if (index > 0) yield ",";
    const members = Object.entries(contextOf(trigger, config, read));
    yield* objectTexts(members.sort(([a], [b]) => (a < b ? -1 : 1)));
  }
  yield "]\n";
}

/** Caches snapshots: in one run, the same name yields the same array in every context. */
function onceEach(snapshots: Snapshots): Snapshots {
  const seen = new Map<string, readonly SnapshotItem[]>();
  const once = (key: string, read: () => readonly SnapshotItem[]): readonly SnapshotItem[] => {
    const items = seen.get(key) ?? read();
    seen.set(key, items);
    return items;
  };
  return {
    get: (name) => once(`name ${name}`, () => snapshots.get(name)),
    objects: (id) => once(`id ${id}`, () => snapshots.objects(id)),
  };
}

function* objectTexts(members: Iterable<readonly [string, Members[string]]>): Generator<string> {
  let separator = "{";
  for (const [key, value] of members) {
    yield `${separator}${JSON.stringify(key)}:`;
    yield* valueTexts(value);
    separator = ",";
  }
  yield separator === "{" ? "{}" : "}";
}

function* valueTexts(value: Members[string]): Generator<string> {
  if (value instanceof Map) yield* objectTexts(value);
  else if (value instanceof Items) yield* itemTexts(value.list);
  else if (value instanceof JsonBytes) yield utf8(value.bytes);
  else yield JSON.stringify(value);
}

function utf8({ buffer, byteOffset, byteLength }: Uint8Array): string {
  return Buffer.from(buffer, byteOffset, byteLength).toString("utf8");
}

function* itemTexts(items: readonly SnapshotItem[]): Generator<string> {
  let separator = "[";
  for (const item of items) {
    yield separator;
    yield* objectTexts(itemMembers(item));
    separator = ",";
  }
  yield separator === "[" ? "[]" : "]";
}
