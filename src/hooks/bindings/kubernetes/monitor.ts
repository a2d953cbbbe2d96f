/** The watches, the snapshot and the pending events of one kubernetes binding. An informer is one watch and its objects. */

import type { ObjectKey, Resource, Subscription, WatchHub, WatchSpec } from "../../../kube/index.ts";
import {
  NAMESPACES,
  ObjectStore,
  formatLabelSelector,
  splitKey,
  toStoredVersion,
} from "../../../kube/index.ts";
import type { Filter } from "../../filter/index.ts";
import { Sequence, type Clock } from "../../../base/index.ts";
import type { Hook, JsonObject, KubernetesBinding, ObjectEvent } from "../../../base/model/index.ts";
import type { SnapshotItem, WatchEvent } from "../../../base/model/index.ts";
import { enqueueHook, type HookQueues } from "../trigger.ts";
import { Informer, type BindingTimes, type InformerOwner, type SharedObjects } from "./informer.ts";

interface MonitorOptions {
  readonly hub: WatchHub;
  readonly clock: Clock;
  readonly shared: SharedObjects;
  readonly keepManagedFields: boolean;
  /** Receive the tasks of the binding's events. */
  readonly queues: HookQueues;
  /** Everything selected has been listed. */
  readonly onReady: () => void;
  /** Why the binding cannot work; undefined = it works again. */
  readonly onIssue: (error: Error | undefined) => void;
  readonly onFilterError: (object: ObjectKey, error: unknown) => void;
  readonly times: BindingTimes | undefined;
}

/** Watches the objects of one kubernetes binding, reports when all are listed, and returns the snapshot. `outbox` buffers the events until `unlock`. */
export class Monitor {
  readonly hook: Hook;
  readonly binding: KubernetesBinding;
  readonly outbox: Outbox;
  readonly informers = new Set<Informer>();
  /** Whether all selected objects have been listed once. */
  isReady = false;
  readonly #options: MonitorOptions;
  #namespaces: Subscription | undefined;
  #areNamespacesListed = true;
  #namespacesIssue: Error | undefined;
  #closed = false;
  #items: readonly SnapshotItem[] | undefined;

  /** Opens nothing yet. The outbox will queue a task of the hook for each event. */
  constructor(hook: Hook, binding: KubernetesBinding, options: MonitorOptions) {
    this.hook = hook;
    this.binding = binding;
    this.#options = options;
    this.outbox = new Outbox(binding.events, (event) =>
      enqueueHook(options.queues, hook, { type: "event", binding, event }),
    );
  }

  /** Number of stored objects. */
  get size(): number {
    return [...this.informers].reduce((size, { store }) => size + store.size, 0);
  }

  /** Opens the watches: of the namespaces with the selected labels, of named namespaces, or one of the whole cluster. */
  open(resource: Resource, filter: Filter | undefined): void {
    const { binding } = this;
    const owner = this.#createOwner(resource.kind, filter);
    const openIn = (namespace: string | undefined): void => this.#openInNamespace(namespace, resource, owner);
    if (resource.namespaced && binding.namespaceLabels !== undefined)
      return this.#watchNamespaces(owner, openIn);
    const namedNamespaces = resource.namespaced ? binding.namespaces : undefined;
    for (const namespace of new Set(namedNamespaces ?? [undefined])) openIn(namespace);
  }

  /** The snapshot, by namespace and name. */
  get items(): readonly SnapshotItem[] {
    this.#items ??= sortItems(this.informers);
    return this.#items;
  }

  /** Closes all watches, and drops the objects and the buffered events. */
  close(): void {
    this.#closed = true;
    this.#namespaces?.close();
    for (const informer of this.informers) {
      informer.close();
      informer.clear();
    }
    this.informers.clear();
    this.outbox.close();
    this.#items = undefined;
  }

  /** Builds what all informers of this binding share: the filter, the callbacks, and `sequence`, which keeps the order of changes. */
  #createOwner(kind: string, filter: Filter | undefined): InformerOwner {
    const { clock, shared, keepManagedFields, times, onFilterError } = this.#options;
    const { hook, binding } = this;
    return {
      rank: `${hook.name}\0${binding.id}`,
      binding,
      filter,
      shared,
      // They are dropped to save memory, unless the filter may use them.
      keepManagedFields: keepManagedFields || filter?.namesManagedFields === true,
      sequence: new Sequence(),
      clock,
      times,
      onStoreChanged: () => void (this.#items = undefined),
      onChange: (watchEvent, key, item) => this.outbox.push({ watchEvent, kind, ...splitKey(key), item }),
      onStatus: () => this.#reportStatus(),
      onFilterError: (key, error) => onFilterError(splitKey(key), error),
    };
  }

  /**
   * Watches the namespaces with the selected labels. Opens the binding's watches in new ones, and closes them in those that lose the
   * labels. If the binding names namespaces, too, only those are opened. `owner` reports the objects of a closed namespace as deleted.
   */
  #watchNamespaces(owner: InformerOwner, open: (namespace: string) => void): void {
    this.#areNamespacesListed = false;
    const labelSelector = formatLabelSelector(this.binding.namespaceLabels);
    const spec: WatchSpec = { resource: NAMESPACES, labelSelector, metadataOnly: true };
    const namespaces = new ObjectStore({ toStored: toStoredVersion });
    this.#namespaces = namespaces.watch(this.#options.hub, spec, {
      onChange: (now, before, key) => {
        const { name } = splitKey(key);
        const isNew = before === undefined;
        if (now === undefined) this.#closeNamespace(name, owner);
        else if (isNew && (this.binding.namespaces?.includes(name) ?? true)) open(name);
      },
      onSynced: () => {
        this.#areNamespacesListed = true;
        this.#reportStatus();
      },
      onError: (error) => {
        this.#namespacesIssue = error;
        this.#reportStatus();
      },
    });
  }

  /** Opens the watches in one namespace, one for each selected name. `namespace` undefined = all namespaces, or a cluster-wide kind. */
  #openInNamespace(namespace: string | undefined, resource: Resource, owner: InformerOwner): void {
    if (this.#closed) return;
    const { names, keepFullObjects, jqFilter, labelSelector, fieldSelector } = this.binding;
    const spec: WatchSpec = {
      resource,
      namespace,
      labelSelector: formatLabelSelector(labelSelector),
      // Without the full object and a filter, only the version of the object is needed.
      metadataOnly: !keepFullObjects && jqFilter === undefined,
      keepManagedFields: owner.keepManagedFields,
    };
    // Open all watches first: one that is listed synchronously must not make the binding ready.
    const newInformers = [...new Set(names ?? [undefined])].map((name) => {
      const informer = new Informer(owner, namespace, this.isReady);
      this.informers.add(informer);
      const nameSelector = name === undefined ? undefined : `metadata.name=${name}`;
      const fields = [fieldSelector, nameSelector].filter(Boolean).join(",");
      return { informer, watchSpec: { ...spec, fieldSelector: fields || undefined } };
    });
    for (const { informer, watchSpec } of newInformers) informer.open(this.#options.hub, watchSpec);
  }

  /** Closes the watches of a namespace that has lost the labels. The hook receives Deleted events for its objects. */
  #closeNamespace(name: string, { onChange }: InformerOwner): void {
    for (const informer of this.informers) {
      if (informer.namespace !== name) continue;
      informer.close();
      this.informers.delete(informer);
      this.#items = undefined;
      this.outbox.count("cleaned", informer.store.size);
      if (this.isReady) for (const [key, { item }] of informer.store) onChange("Deleted", key, item);
      informer.clear();
      this.#reportStatus();
    }
  }

  /**
   * Reports the binding as ready, once: when the namespaces and the objects of all watches are listed. Reports the first issue of a
   * watch, or that all watches work.
   */
  #reportStatus(): void {
    if (this.#closed) return;
    const informers = [...this.informers];
    if (!this.isReady && this.#areNamespacesListed && informers.every(({ isSynced }) => isSynced)) {
      this.isReady = true;
      this.#options.onReady();
    }
    const issues = [this.#namespacesIssue, ...informers.map(({ issue }) => issue)];
    this.#options.onIssue(issues.find((issue) => issue !== undefined));
  }

  /** The names of hook, module and binding, for logs and issues. */
  get logFields(): { hook: string; module: string | undefined; binding: string } {
    return { hook: this.hook.name, module: this.hook.module, binding: this.binding.name };
  }

  /** Snapshot and counters of the binding for the debug commands. */
  dump() {
    const { sinceStart, sinceLastExecution } = this.outbox;
    return {
      snapshot: this.items.map(({ object, filterResult }): JsonObject => {
        return { ...(object && { object }), ...(filterResult !== undefined && { filterResult }) };
      }),
      operations: { sinceStart: addTotal(sinceStart), sinceLastExecution: addTotal(sinceLastExecution) },
    };
  }
}

/** What happened to the objects of a binding; `cleaned`: dropped because their namespace is no longer selected. */
type Operations = typeof ZERO_COUNTS;
const ZERO_COUNTS = { added: 0, modified: 0, deleted: 0, cleaned: 0 };
const COUNTER_BY_EVENT = { Added: "added", Modified: "modified", Deleted: "deleted" } as const;

/** Counts and filters the events of one binding, and buffers them until `unlock`. */
class Outbox {
  readonly sinceStart = { ...ZERO_COUNTS };
  sinceLastExecution = { ...ZERO_COUNTS };
  readonly #eventTypes: readonly WatchEvent[];
  readonly #emit: (event: ObjectEvent) => void;
  #locked = true;
  #buffer: ObjectEvent[] = [];

  constructor(eventTypes: readonly WatchEvent[], emit: (event: ObjectEvent) => void) {
    this.#eventTypes = eventTypes;
    this.#emit = emit;
  }

  /** Counts an event, and passes it to the hook if the binding selects its type. */
  push(event: ObjectEvent): void {
    this.count(COUNTER_BY_EVENT[event.watchEvent], 1);
    if (!this.#eventTypes.includes(event.watchEvent)) return;
    if (this.#locked) this.#buffer.push(event);
    else this.#emit(event);
  }

  /**
   * Call before the hook receives the snapshot. Drops the events that are buffered before the Synchronization: the snapshot contains their
   * changes. Restarts the counters of what happened since the hook's last execution.
   */
  markSnapshotRead(): void {
    if (this.#locked) this.#buffer = [];
    this.sinceLastExecution = { ...ZERO_COUNTS };
  }

  /** Passes on the buffered events, and from now on every event at once. */
  unlock(): void {
    this.#locked = false;
    for (const event of this.#buffer.splice(0)) this.#emit(event);
  }

  close(): void {
    this.#buffer = [];
  }

  /** Adds to both counters of an operation. */
  count(operation: keyof Operations, count: number): void {
    this.sinceStart[operation] += count;
    this.sinceLastExecution[operation] += count;
  }
}

/** Adds the total of the counters, as the first member as in the Go operator. */
function addTotal(operations: Operations): Operations & { count: number } {
  const { added, modified, deleted, cleaned } = operations;
  return { count: added + modified + deleted + cleaned, ...operations };
}

/** Items of several informers, by namespace, then name. */
export function sortItems(informers: Iterable<Informer>): readonly SnapshotItem[] {
  const rows = [...informers].flatMap(({ store }) =>
    [...store].map(([key, { item }]) => ({ ...splitKey(key), item })),
  );
  rows.sort((a, b) => compareText(a.namespace, b.namespace) || compareText(a.name, b.name));
  return rows.map(({ item }) => item);
}

function compareText(a: string, b: string): number {
  if (a === b) return 0;
  return a < b ? -1 : 1;
}
