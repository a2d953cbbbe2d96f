/**
 * What becomes of a trigger, which is why a hook runs: a binding with its event, if there is one. It becomes a task in a queue, where
 * neighbours of one hook merge into one run, and an element of the binding context that the hook of that run reads.
 */

import { FLOOD } from "../../base/model/index.ts";
import type { Binding, Hook, HookConfig, HookTask, HookTrigger, Json } from "../../base/model/index.ts";
import type { ObjectEvent, ReviewTrigger, SnapshotItem } from "../../base/model/index.ts";
import { newCause } from "../../base/trace/index.ts";

/**
 * Builds the task for one trigger of a hook (docs/reference/hooks.md, "Queues"). The queue merges neighbours with the same `batch`, unless one
 * is `alone`. Such tasks merge nevertheless if they have the same `peer`. Tasks of configVersion v0 run alone.
 */
export function buildHookTask(hook: Hook, trigger: HookTrigger): HookTask {
  const task: HookTask = { kind: "hook", hook, trigger, batch: hook.id, ...foldingOptions(hook, trigger) };
  if (hook.config.version === "v0") return { ...task, alone: true };
  const mergesWith = trigger.type === "synchronization" ? { peer: trigger.type } : {};
  return { ...task, ...(mayMerge(trigger) ? {} : { alone: true }), ...mergesWith };
}

/** Whether the run for a trigger may be merged with neighbours in the queue. */
function mayMerge({ type, binding }: HookTrigger): boolean {
  if (type === "event" || type === "schedule") return true;
  return type === "synchronization" && binding.group !== undefined;
}

/** Lets a schedule tick replace a queued tick of the same binding, so that ticks do not pile up behind a slow hook. */
function foldingOptions(hook: Hook, { type, binding }: HookTrigger): Pick<HookTask, "key" | "foldsInto"> {
  return type === "schedule" ? { key: `tick/${hook.id}/${binding.id}`, foldsInto: "waiting" } : {};
}

/** The part of the queues (`engine/queue/`) that hooks use. */
export interface HookQueues {
  offer(queue: string, task: HookTask): unknown;
}

/** Queues a task for the trigger of a hook, which begins a trace. */
export function enqueueHook(queues: HookQueues, hook: Hook, trigger: HookTrigger): void {
  // Not the current span: the watch or timer may have been set up inside another operation's trace.
  const origin = newCause(describeTrigger(trigger), { hook: hook.id });
  queues.offer(trigger.binding.queue, { ...buildHookTask(hook, trigger), origin });
}

/** The trigger in words for the trace, such as `Added Pod default/web`. */
function describeTrigger(trigger: HookTrigger): string {
  if (trigger.type !== "event") return trigger.type;
  const { watchEvent, kind, namespace, name } = trigger.event;
  return `${watchEvent} ${kind} ${namespace === "" ? "" : `${namespace}/`}${name}`;
}

/**
 * Drops triggers of a merged run that contain nothing new for the hook. Of neighbours in the same group, keeps the last one. If there
 * are more than FLOOD triggers, keeps only the last one of each group: a hook would get the same snapshots for each. All without a group remain.
 */
export function collapseGroups(triggers: readonly HookTrigger[]): HookTrigger[] {
  const lastIndexByGroup = new Map(triggers.map(({ binding }, index) => [binding.group, index]));
  return triggers.filter(({ binding: { group } }, index) => {
    if (group === undefined) return true;
    return triggers.length > FLOOD
      ? lastIndexByGroup.get(group) === index
      : group !== triggers[index + 1]?.binding.group;
  });
}

/** Whether all bindings of a run set allowFailure. A failed run is repeated otherwise. */
export function allowsFailure(triggers: readonly HookTrigger[]): boolean {
  return triggers.length > 0 && triggers.every(({ binding }) => binding.allowFailure);
}

/** The metric labels `activation` of hooks by the type of the binding; a lifecycle binding has its name. */
const ACTIVATIONS: Readonly<Record<Exclude<Binding["type"], "lifecycle">, string>> = {
  schedule: "Schedule",
  kubernetes: "Kubernetes",
  validating: "Validating",
  mutating: "Mutating",
  conversion: "Conversion",
};

/** The metric label `activation` of a hook: `Schedule`, `Kubernetes`, or the lifecycle binding. */
export function getHookActivation(binding: Binding): string {
  return binding.type === "lifecycle" ? binding.name : ACTIVATIONS[binding.type];
}

/** Whether hooks run for the binding to answer a request of the API server, outside of the queues. */
export function isReviewBinding(binding: Binding): binding is ReviewTrigger["binding"] {
  return binding.type === "validating" || binding.type === "mutating" || binding.type === "conversion";
}

interface ContextInput extends Pick<Hook, "config"> {
  readonly triggers: readonly HookTrigger[];
  readonly snapshots: Snapshots;
}

/** Returns the current snapshots of a hook, which are read again for each attempt of a run. */
export interface Snapshots {
  byBindingName(bindingName: string): readonly SnapshotItem[];
  byBindingId(bindingId: string): readonly SnapshotItem[];
}

/** A value that is already JSON text in UTF-8. */
class JsonBytes {
  readonly bytes: Uint8Array;

  constructor(bytes: Uint8Array) {
    this.bytes = bytes;
  }
}

/** A list that `renderContext` writes item by item: as one text, a large snapshot would need much memory. */
class SnapshotList {
  readonly list: readonly SnapshotItem[];

  constructor(list: readonly SnapshotItem[]) {
    this.list = list;
  }
}

/** Members of a binding context, which are rendered as JSON. */
type ContextMembers = Readonly<
  Record<string, Json | JsonBytes | SnapshotList | ReadonlyMap<string, SnapshotList>>
>;

/**
 * The members that describe one object in a binding context, in a snapshot as well as in an event: `filterResult` if the binding has
 * a filter, `object` if it keeps whole objects.
 */
function snapshotItemMembers(item: SnapshotItem): [string, ContextMembers[string]][] {
  const { filterResult, objectText } = item;
  const members: [string, ContextMembers[string]][] =
    filterResult === undefined ? [] : [["filterResult", filterResult]];
  // The text is copied into the output as it is, whereas the getter `object` parses it at each access.
  const object = objectText === undefined ? item.object : new JsonBytes(objectText);
  if (object !== undefined) members.push(["object", object]);
  return members;
}

/** The snapshots of a binding context by name, sorted: names of bindings need not be unique. */
function snapshotsByName(names: readonly string[], snapshots: Snapshots): ReadonlyMap<string, SnapshotList> {
  return new Map(
    [...new Set(names)].sort().map((name) => [name, new SnapshotList(snapshots.byBindingName(name))]),
  );
}

/** Names of watch events in configVersion v0. */
export const V0_EVENT_NAMES = { Added: "add", Modified: "update", Deleted: "delete" } as const;

/** Builds one element of the binding context, which says why the hook runs. A binding with a group gets only the group's snapshots, without the event. */
function buildContext(trigger: HookTrigger, config: HookConfig, snapshots: Snapshots): ContextMembers {
  const { binding } = trigger;
  const { name, group, includeSnapshotsFrom } = binding;
  if (config.version === "v0")
    return { binding: name, ...(trigger.type === "event" && describeV0Event(trigger.event)) };
  const included =
    includeSnapshotsFrom.length === 0 ? {} : { snapshots: snapshotsByName(includeSnapshotsFrom, snapshots) };
  if (group !== undefined && !isReviewBinding(binding))
    return { binding: name, groupName: group, ...included, type: "Group" };
  return { binding: name, ...included, ...buildOwnMembers(trigger, config, snapshots) };
}

/** The members of an element besides `binding` and the snapshots that the binding includes. */
function buildOwnMembers(trigger: HookTrigger, config: HookConfig, snapshots: Snapshots): ContextMembers {
  switch (trigger.type) {
    case "lifecycle": {
      const names = config.bindings.kubernetes.map(({ name }) => name);
      return trigger.binding.name === "onStartup" ? {} : { snapshots: snapshotsByName(names, snapshots) };
    }
    case "schedule":
      return { type: "Schedule" };
    case "synchronization":
      return {
        type: "Synchronization",
        objects: new SnapshotList(snapshots.byBindingId(trigger.binding.id)),
      };
    case "event": {
      const { watchEvent, item } = trigger.event;
      return { type: "Event", watchEvent, ...Object.fromEntries(snapshotItemMembers(item)) };
    }
    case "validating":
    case "mutating":
      return { type: ACTIVATIONS[trigger.type], review: { request: trigger.request } };
    case "conversion": {
      const { fromVersion, toVersion } = trigger.rule;
      return { type: "Conversion", fromVersion, toVersion, review: { request: trigger.request } };
    }
  }
}

/** The members that describe an event in configVersion v0. */
function describeV0Event({ watchEvent, kind, namespace, name }: ObjectEvent): ContextMembers {
  const resourceEvent = V0_EVENT_NAMES[watchEvent];
  return { resourceEvent, resourceKind: kind, resourceName: name, resourceNamespace: namespace };
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
