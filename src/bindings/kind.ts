/**
 * The interface of a kind of binding, and the parts that bindings and binding contexts share. A binding is an item of the configuration that a
 * hook prints, such as `kubernetes[0]`: what the hook runs for.
 */

import type { Binding, CommonBinding, Hook, HookConfig, HookTrigger, Json } from "../model/index.ts";
import type { JsonObject, SnapshotItem } from "../model/index.ts";
import { BOOLEAN_SHAPE, STRING_SHAPE, type ValueOf, type Shape } from "./shape.ts";

/** Collects problems, or warnings, while a configuration is read. */
export type Complain = (problem: string) => void;

/** Input of `read`: where errors and warnings go, and the default queue. */
export interface BindingReadOptions {
  readonly complain: Complain;
  readonly warn: Complain;
  readonly queue: string;
}

/** The triggers of one kind of binding; a new kind without triggers does not compile. */
type TriggerOf<B extends HookTrigger["binding"]> = Extract<HookTrigger, { readonly binding: B }>;

/** One kind of binding; kinds.ts lists them all. */
export interface BindingKind<B extends HookTrigger["binding"] = Binding> {
  /** The configuration keys of such bindings and the shapes of their values, by configuration version. */
  readonly shapesByVersion: Readonly<Record<HookConfig["version"], Readonly<Record<string, Shape>>>>;
  /** Reads the bindings of a configuration whose shape is valid. */
  read(config: JsonObject, options: BindingReadOptions): readonly B[];
  /** Builds the members of the binding context besides `binding` and the requested snapshots. */
  buildContext(trigger: TriggerOf<B>, config: HookConfig, snapshots: Snapshots): ContextMembers;
  /** Builds the members of the binding context in version 0, which has a few of its own. */
  buildV0Context?(trigger: TriggerOf<B>): ContextMembers;
  /** Such bindings answer requests of the API server, outside of the queues: their context is never one of a group. */
  readonly isReview?: true;
  /** Whether the run for this trigger may be merged with neighbours in the queue. */
  mayMerge(trigger: TriggerOf<B>): boolean;
  /** Returns the metric label `activation` of the hook. */
  getActivation(binding: B): string;
}

/** Triggers hooks for their bindings. */
export interface TriggerSource {
  /** Starts a hook's bindings. Idempotent; a new configuration replaces the old one. */
  enable(hook: Hook): void;
  disable(hook: Hook): void;
  close(): void;
}

/** Shapes of the fields that items of `schedule` and `kubernetes` share in version 1. */
export const ITEM_FIELDS = {
  name: STRING_SHAPE,
  allowFailure: BOOLEAN_SHAPE,
  queue: STRING_SHAPE,
  group: STRING_SHAPE,
  includeSnapshotsFrom: { kind: "array", of: STRING_SHAPE, min: 1 },
} as const satisfies Record<string, Shape>;

/** The shape of a list with at least one item. */
export function nonEmptyList(of: Shape): Shape {
  return { kind: "array", of, min: 1 };
}

/**
 * Reads the fields that all items have, with their defaults; `queue` is the default queue. `place` is the item's key and its index there.
 * `readBindings` adds the snapshots of the item's group later, when all bindings are known.
 */
export function readCommonBinding(
  raw: { readonly [Key in keyof typeof ITEM_FIELDS]?: ValueOf<(typeof ITEM_FIELDS)[Key]> | undefined },
  place: { readonly key: string; readonly index: number },
  queue: string,
): CommonBinding {
  const { key, index } = place;
  return {
    id: `${key}[${index}]`,
    name: raw.name || key,
    allowFailure: raw.allowFailure ?? false,
    queue: raw.queue || queue,
    group: raw.group || undefined,
    includeSnapshotsFrom: raw.includeSnapshotsFrom ?? [],
  };
}

/** Returns the current snapshots of a hook, which are read again for each attempt of a run. */
export interface Snapshots {
  byBindingName(bindingName: string): readonly SnapshotItem[];
  byBindingId(bindingId: string): readonly SnapshotItem[];
}

/** A value that is already JSON text in UTF-8. */
export class JsonBytes {
  readonly bytes: Uint8Array;

  constructor(bytes: Uint8Array) {
    this.bytes = bytes;
  }
}

/** A list that `renderContext` writes item by item: as one text, a large snapshot would need much memory. */
export class SnapshotList {
  readonly list: readonly SnapshotItem[];

  constructor(list: readonly SnapshotItem[]) {
    this.list = list;
  }
}

/** Members of a binding context, which are rendered as JSON. */
export type ContextMembers = Readonly<
  Record<string, Json | JsonBytes | SnapshotList | ReadonlyMap<string, SnapshotList>>
>;

/**
 * The members that describe one object in a binding context, in a snapshot as well as in an event: `filterResult` if the binding has
 * a filter, `object` if it keeps whole objects.
 */
export function snapshotItemMembers(item: SnapshotItem): [string, ContextMembers[string]][] {
  const { filterResult, objectText } = item;
  const members: [string, ContextMembers[string]][] =
    filterResult === undefined ? [] : [["filterResult", filterResult]];
  // The text is copied into the output as it is, whereas the getter `object` parses it at each access.
  const object = objectText === undefined ? item.object : new JsonBytes(objectText);
  if (object !== undefined) members.push(["object", object]);
  return members;
}

/** The snapshots of a binding context by name, sorted: names of bindings need not be unique. */
export function snapshotsByName(
  names: readonly string[],
  snapshots: Snapshots,
): ReadonlyMap<string, SnapshotList> {
  return new Map(
    [...new Set(names)].sort().map((name) => [name, new SnapshotList(snapshots.byBindingName(name))]),
  );
}
