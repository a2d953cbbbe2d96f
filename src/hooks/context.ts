/** Writes the binding context of a run (docs/HOOKS.md, "Running: what a hook is given"). */

import type { HookConfig, HookTrigger, Json, SnapshotItem } from "../model/index.ts";

/** Where snapshots come from; read anew for each attempt of a run. */
export interface SnapshotSource {
  get(bindingName: string): readonly SnapshotItem[];
  objects(bindingId: string): readonly SnapshotItem[];
}

/** What a binding context file is made of. */
export interface ContextInput {
  readonly config: HookConfig;
  readonly triggers: readonly HookTrigger[];
  readonly snapshots: SnapshotSource;
}

/** A member whose value is text, or an array that is written item by item. */
type Member = readonly [key: string, value: Json | JsonText | readonly SnapshotItem[] | SnapshotMap];
class SnapshotMap extends Map<string, readonly SnapshotItem[]> {}

/** A value that is JSON text already, in UTF-8. */
class JsonText {
  readonly bytes: Uint8Array;

  constructor(bytes: Uint8Array) {
    this.bytes = bytes;
  }
}

const PIECE = 64 * 1024;

/**
 * The binding context as JSON text in pieces of about 64 KiB: an array, keys in alphabetical order, a line end.
 * However large the snapshots are, no piece holds more than one item.
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
  const source = onceEach(snapshots);
  yield "[";
  for (const [index, trigger] of triggers.entries()) {
    if (index > 0) yield ",";
    yield* objectTexts(config.version === "v0" ? v0Members(trigger) : v1Members(trigger, config, source));
  }
  yield "]\n";
}

/** Keeps what was read: in one run the same name means the same array in every context. */
function onceEach(source: SnapshotSource): SnapshotSource {
  const seen = new Map<string, readonly SnapshotItem[]>();
  const once = (key: string, read: () => readonly SnapshotItem[]): readonly SnapshotItem[] => {
    const items = seen.get(key) ?? read();
    seen.set(key, items);
    return items;
  };
  return {
    get: (name) => once(`name ${name}`, () => source.get(name)),
    objects: (id) => once(`id ${id}`, () => source.objects(id)),
  };
}

const RESOURCE_EVENTS = { Added: "add", Modified: "update", Deleted: "delete" } as const;

/** A context of version 0 (docs/HOOKS.md, "The old configuration"). */
function v0Members(trigger: HookTrigger): Member[] {
  if (trigger.type === "lifecycle") return [["binding", trigger.binding]];
  const members: Member[] = [["binding", trigger.binding.name]];
  if (trigger.type !== "event") return members;
  const { watchEvent, kind, namespace, name } = trigger.event;
  members.push(["resourceEvent", RESOURCE_EVENTS[watchEvent]], ["resourceKind", kind]);
  return [...members, ["resourceName", name], ["resourceNamespace", namespace]];
}

/** A context of version 1. */
function v1Members(trigger: HookTrigger, config: HookConfig, source: SnapshotSource): Member[] {
  if (trigger.type === "lifecycle") return lifecycleMembers(trigger.binding, config, source);
  const { binding } = trigger;
  const snapshots: Member[] =
    binding.includeSnapshotsFrom.length === 0
      ? []
      : [["snapshots", named(binding.includeSnapshotsFrom, source)]];
  if (binding.group !== undefined) {
    return [["binding", binding.name], ["groupName", binding.group], ...snapshots, ["type", "Group"]];
  }
  return [["binding", binding.name], ...eventMembers(trigger, snapshots, source)];
}

function lifecycleMembers(name: string, config: HookConfig, source: SnapshotSource): Member[] {
  if (name === "onStartup") return [["binding", name]];
  const all = config.kubernetes.map((binding) => binding.name);
  return [
    ["binding", name],
    ["snapshots", named(all, source)],
  ];
}

type BoundTrigger = Exclude<HookTrigger, { type: "lifecycle" }>;

function eventMembers(trigger: BoundTrigger, snapshots: Member[], source: SnapshotSource): Member[] {
  switch (trigger.type) {
    case "schedule":
      return [...snapshots, ["type", "Schedule"]];
    case "synchronization":
      return [["objects", source.objects(trigger.binding.id)], ...snapshots, ["type", "Synchronization"]];
    case "event":
      return [
        ...itemMembers(trigger.event.item),
        ...snapshots,
        ["type", "Event"],
        ["watchEvent", trigger.event.watchEvent],
      ];
  }
}

function itemMembers(item: SnapshotItem): Member[] {
  const { filterResult, objectText } = item;
  const members: Member[] = filterResult === undefined ? [] : [["filterResult", filterResult]];
  // Not `object` where there is text: `object` is parsed at each access.
  const object = objectText === undefined ? item.object : new JsonText(objectText);
  if (object !== undefined) members.push(["object", object]);
  return members;
}

function named(names: readonly string[], source: SnapshotSource): SnapshotMap {
  return new SnapshotMap([...new Set(names)].sort().map((name) => [name, source.get(name)]));
}

function* objectTexts(members: Iterable<Member>): Generator<string> {
  let separator = "{";
  for (const [key, value] of members) {
    yield `${separator}${JSON.stringify(key)}:`;
    yield* valueTexts(key, value);
    separator = ",";
  }
  yield separator === "{" ? "{}" : "}";
}

function* valueTexts(key: string, value: Member[1]): Generator<string> {
  if (value instanceof SnapshotMap) yield* objectTexts(value);
  else if (value instanceof JsonText) yield utf8(value.bytes);
  // Both kinds of lists of items: `objects`, and the values of `snapshots`.
  else if (Array.isArray(value) && key !== "filterResult") yield* itemTexts(value as readonly SnapshotItem[]);
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
