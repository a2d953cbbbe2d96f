/** What every kind of binding says of itself; what items of most, and contexts of all, are made of. */

import type { Clock } from "../lib/index.ts";
import type {
  Binding,
  CommonBinding,
  Hook,
  HookConfig,
  HookTrigger,
  Json,
  JsonObject,
  SnapshotItem,
} from "../model/index.ts";
import { BOOLEAN, STRING, type Fits, type Shape } from "./shape.ts";

/** Collects problems, or warnings, while a configuration is read. */
export type Complain = (problem: string) => void;

/** What bindings are read with: where errors and warnings go, and the queue of those that name none. */
export interface Reading {
  readonly complain: Complain;
  readonly warn: Complain;
  readonly queue: string;
}

/** The triggers of bindings of one kind; the compiler asks for those of a new kind. */
type TriggerOf<B extends HookTrigger["binding"]> = Extract<HookTrigger, { readonly binding: B }>;

/** What there is to know of one kind of binding; kinds.ts lists them all. */
export interface BindingKind<B extends HookTrigger["binding"] = Binding> {
  /** The keys of a configuration that hold such bindings, by version, and the form of what stands there. */
  readonly keys: Readonly<Record<HookConfig["version"], Readonly<Record<string, Shape>>>>;
  /** Reads the bindings of a configuration that has this form. */
  read(config: JsonObject, reading: Reading): readonly B[];
  /** What a context says beside `binding` and the snapshots that were asked for. */
  context(trigger: TriggerOf<B>, config: HookConfig, snapshots: Snapshots): Members;
  /** The same in version 0, where it says anything. */
  oldContext?(trigger: TriggerOf<B>): Members;
  /** Whether a run for this trigger may be one with its neighbours' in the queue. */
  joins(trigger: TriggerOf<B>): boolean;
  /** The label `activation` of the hook's series. */
  activation(binding: B): string;
  /** What makes hooks run for such bindings, where that is not a task or a watch. */
  source?(options: SourceOptions): Source;
}

/** What a source uses, and whom it tells that a hook is to run. */
export interface SourceOptions {
  readonly clock: Clock;
  /** The time zone of the operator. */
  readonly zone: string;
  readonly emit: (hook: Hook, trigger: HookTrigger) => void;
}

/** Makes hooks run for their bindings of one kind. */
export interface Source {
  /** Starts a hook's bindings; twice changes nothing, a new configuration replaces the old one. */
  enable(hook: Hook): void;
  /** Ends them. */
  disable(hook: Hook): void;
  close(): void;
}

/** The form of the fields that items of `schedule`, `kubernetes` and their like have in version 1. */
export const ITEM_FIELDS = {
  name: STRING,
  allowFailure: BOOLEAN,
  queue: STRING,
  group: STRING,
  includeSnapshotsFrom: { kind: "array", of: STRING, min: 1 },
} as const satisfies Record<string, Shape>;

/** A list of items. */
export function items(of: Shape): Shape {
  return { kind: "array", of, min: 1 };
}

/** What all items have; the names of their groups' snapshots are added when all bindings are known. */
export function itemBinding(
  raw: { readonly [Key in keyof typeof ITEM_FIELDS]?: Fits<(typeof ITEM_FIELDS)[Key]> | undefined },
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

/** Where snapshots come from; read anew for each attempt of a run. */
export interface Snapshots {
  get(bindingName: string): readonly SnapshotItem[];
  objects(bindingId: string): readonly SnapshotItem[];
}

/** A value that is JSON text already, in UTF-8. */
export class JsonText {
  readonly bytes: Uint8Array;

  constructor(bytes: Uint8Array) {
    this.bytes = bytes;
  }
}

/** A list that is written item by item. */
export class Items {
  readonly list: readonly SnapshotItem[];

  constructor(list: readonly SnapshotItem[]) {
    this.list = list;
  }
}

/** Members of a JSON object. */
export type Members = Readonly<Record<string, Json | JsonText | Items | ReadonlyMap<string, Items>>>;

/** The members of an item of a list, or of an event. */
export function itemMembers(item: SnapshotItem): [string, Members[string]][] {
  const { filterResult, objectText } = item;
  const members: [string, Members[string]][] =
    filterResult === undefined ? [] : [["filterResult", filterResult]];
  // Not `object` where there is text: `object` is parsed at each access.
  const object = objectText === undefined ? item.object : new JsonText(objectText);
  if (object !== undefined) members.push(["object", object]);
  return members;
}

/** Snapshots by name, each once. */
export function named(names: readonly string[], snapshots: Snapshots): ReadonlyMap<string, Items> {
  return new Map([...new Set(names)].sort().map((name) => [name, new Items(snapshots.get(name))]));
}
