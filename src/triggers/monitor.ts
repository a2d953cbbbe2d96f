import type {
  Resource,
  Subscription,
  WatchConsumer,
  WatchHub,
  WatchSpec,
  WatchedObject,
} from "../kube/index.ts";
import { ApiError, NAMESPACES, labelSelectorText, objectKey } from "../kube/index.ts";
import type { Hook, Json, KubernetesBinding, ObjectEvent, SnapshotItem, WatchEvent } from "../model/index.ts";
import type { Entry, Operations } from "./monitor-cache.ts";
import { EntryStore, noOperations, placeOf, sortedItems } from "./monitor-cache.ts";
import type { CompiledFilter, FilterMemo, FilterOutcome } from "./monitor-filter.ts";
import { checksumOf } from "./monitor-filter.ts";
import { fixedNamespaces, followsNamespaces, namespaceWanted, specsIn } from "./monitor-scope.ts";
import { Tail } from "./monitor-tail.ts";
import type { TextPool } from "./monitor-text.ts";
import { snapshotItem } from "./monitor-text.ts";

/** What a monitor uses and whom it tells. */
export interface MonitorOptions {
  readonly hub: WatchHub;
  readonly pool: TextPool;
  readonly memo: FilterMemo;
  readonly keepManagedFields: boolean;
  readonly emit: (event: ObjectEvent) => void;
  /** Everything selected has been listed. */
  readonly onReady: () => void;
  /** Something stands in the way; undefined = nothing any more. */
  readonly onTrouble: (error: Error | undefined) => void;
  readonly onFilterError: (place: { namespace: string; name: string }, error: unknown) => void;
}

/** One watch of a binding and what it has brought. */
interface Scope {
  readonly namespace: string | undefined;
  readonly store: EntryStore;
  /** Opened after the binding was ready: what is there then is news (a namespace that came). */
  readonly late: boolean;
  /** Objects that a list which began again has not shown yet. */
  stale: Set<string>;
  subscription: Subscription | undefined;
  synced: boolean;
  closed: boolean;
  trouble: Error | undefined;
}

type Result = { readonly value: Json } | undefined;

/**
 * The objects of one `kubernetes` binding: opens its watches, keeps of each object what the binding asked for, tells
 * what changed (hook-contract §2.4, §6). Events wait until `unlock` (§2.5).
 */
export class Monitor {
  readonly hook: Hook;
  readonly binding: KubernetesBinding;
  readonly #options: MonitorOptions;
  readonly #tail = new Tail();
  readonly #scopes = new Set<Scope>();
  #resource: Resource | undefined;
  #filter: CompiledFilter | undefined;
  #namespaces: Subscription | undefined;
  #namespacesKnown = true;
  #namespacesTrouble: Error | undefined;
  #ready = false;
  #locked = true;
  #closed = false;
  #buffer: ObjectEvent[] = [];
  #items: readonly SnapshotItem[] | undefined;
  readonly sinceStart: Operations = noOperations();
  sinceLastExecution: Operations = noOperations();

  constructor(hook: Hook, binding: KubernetesBinding, options: MonitorOptions) {
    this.hook = hook;
    this.binding = binding;
    this.#options = options;
  }

  get ready(): boolean {
    return this.#ready;
  }

  get locked(): boolean {
    return this.#locked;
  }

  /** Number of objects in the snapshot. */
  get size(): number {
    let size = 0;
    for (const { store } of this.#scopes) size += store.size;
    return size;
  }

  /** Opens the watches. */
  open(resource: Resource, filter: CompiledFilter | undefined): void {
    this.#resource = resource;
    this.#filter = filter;
    if (followsNamespaces(this.binding, resource)) return this.#followNamespaces();
    for (const namespace of fixedNamespaces(this.binding, resource)) this.#openScopes(namespace);
  }

  /** The snapshot, by namespace and name. Of a locked binding it makes the events it already shows void (§2.5). */
  items(): readonly SnapshotItem[] {
    if (this.#locked) this.#buffer = [];
    this.sinceLastExecution = noOperations();
    return this.peek();
  }

  /** The snapshot for people: changes nothing. */
  peek(): readonly SnapshotItem[] {
    this.#items ??= sortedItems([...this.#scopes].map(({ store }) => store));
    return this.#items;
  }

  /** The stores of all watches; makes events void as `items` does. */
  stores(): readonly EntryStore[] {
    this.items();
    return [...this.#scopes].map(({ store }) => store);
  }

  /** Lets out the events that waited, and from now on every event at once. */
  unlock(): void {
    this.#locked = false;
    const events = this.#buffer;
    this.#buffer = [];
    for (const event of events) this.#options.emit(event);
  }

  /** Closes the watches and drops everything. */
  close(): void {
    this.#closed = true;
    this.#namespaces?.close();
    for (const scope of this.#scopes) this.#shut(scope);
    this.#scopes.clear();
    this.#buffer = [];
    this.#items = undefined;
  }

  #followNamespaces(): void {
    this.#namespacesKnown = false;
    const came = ({ metadata }: WatchedObject): void => {
      const open = [...this.#scopes].some(({ namespace }) => namespace === metadata.name);
      if (!open && namespaceWanted(this.binding, metadata.name)) this.#openScopes(metadata.name);
    };
    const labelSelector = labelSelectorText(this.binding.namespaceLabels);
    const spec: WatchSpec = { resource: NAMESPACES, labelSelector, metadataOnly: true };
    this.#namespaces = this.#options.hub.subscribe(spec, {
      begin: () => {
        for (const scope of this.#scopes) this.#leave(scope);
      },
      object: came,
      applied: came,
      deleted: ({ metadata }) => {
        for (const scope of this.#scopes) if (scope.namespace === metadata.name) this.#leave(scope);
      },
      synced: () => {
        this.#namespacesKnown = true;
        this.#checkReady();
      },
      trouble: (error) => {
        this.#namespacesTrouble = error;
        this.#tellTrouble();
      },
    });
  }

  #openScopes(namespace: string | undefined): void {
    const resource = this.#resource;
    if (resource === undefined || this.#closed) return;
    const keepManagedFields = this.#options.keepManagedFields || this.#filter?.namesManagedFields === true;
    // All scopes first: one that is synced at once must not make the binding ready.
    const opened = specsIn(namespace, this.binding, { resource, keepManagedFields }).map((spec) => {
      const scope = this.#newScope(namespace);
      this.#scopes.add(scope);
      return { scope, spec };
    });
    for (const { scope, spec } of opened) {
      scope.subscription = this.#options.hub.subscribe(spec, this.#consumer(scope));
    }
  }

  #newScope(namespace: string | undefined): Scope {
    return {
      namespace,
      store: new EntryStore(this.#options.pool),
      late: this.#ready,
      stale: new Set(),
      subscription: undefined,
      synced: false,
      closed: false,
      trouble: undefined,
    };
  }

  #consumer(scope: Scope): WatchConsumer {
    return {
      rank: `${this.hook.name}\0${this.binding.id}`,
      begin: () => void (scope.stale = new Set(scope.store.keys())),
      object: (object) => this.#take(scope, object),
      applied: (object) => this.#take(scope, object),
      deleted: (object, complete) => this.#drop(scope, object, complete),
      synced: () =>
        this.#tail.run(undefined, () => {
          if (scope.closed) return;
          this.#dropStale(scope);
          scope.synced = true;
          this.#checkReady();
        }),
      trouble: (error) => {
        scope.trouble = error;
        this.#tellTrouble();
      },
    };
  }

  #take(scope: Scope, object: WatchedObject): Promise<void> | undefined {
    const news = scope.synced || scope.late;
    return this.#tail.run(this.#evaluate(object), (outcome) => {
      if (scope.closed) return;
      scope.stale.delete(objectKey(object));
      if (outcome !== undefined && "error" in outcome) return this.#filterFailed(object, outcome.error);
      const { entry, before } = this.#store(scope, object, outcome);
      if (!news || before?.checksum === entry.checksum) return;
      this.#happened(before === undefined ? "Added" : "Modified", objectKey(object), entry.item);
    });
  }

  #drop(scope: Scope, object: WatchedObject, complete: boolean): Promise<void> | undefined {
    return this.#tail.run(complete ? this.#evaluate(object) : undefined, (outcome) => {
      if (scope.closed) return;
      const key = objectKey(object);
      const before = scope.store.take(key);
      this.#items = undefined;
      const failed = outcome !== undefined && "error" in outcome;
      if (failed) this.#filterFailed(object, outcome.error);
      // The last state is the event's; where it is not known, what we had.
      const item = complete && !failed ? this.#itemOf(object, outcome) : before?.item;
      if (item !== undefined) this.#happened("Deleted", key, item);
    });
  }

  #dropStale(scope: Scope): void {
    for (const key of scope.stale) {
      const before = scope.store.take(key);
      this.#items = undefined;
      if (before !== undefined && scope.late) this.#happened("Deleted", key, before.item);
    }
    scope.stale.clear();
  }

  #evaluate(object: WatchedObject): FilterOutcome | Promise<FilterOutcome> | undefined {
    return this.#filter === undefined ? undefined : this.#options.memo.evaluate(this.#filter, object);
  }

  #store(scope: Scope, object: WatchedObject, result: Result): { entry: Entry; before: Entry | undefined } {
    const flavour = this.#options.keepManagedFields || this.#filter?.namesManagedFields === true ? "+" : "";
    const text = this.binding.keepFullObjects ? this.#options.pool.hold(object, flavour) : undefined;
    const entry = { checksum: checksumOf(object, result), text, item: snapshotItem(text?.bytes, result) };
    this.#items = undefined;
    return { entry, before: scope.store.put(objectKey(object), entry) };
  }

  #itemOf(object: WatchedObject, result: Result): SnapshotItem {
    if (!this.binding.keepFullObjects) return snapshotItem(undefined, result);
    return { object, ...snapshotItem(undefined, result) };
  }

  #happened(watchEvent: WatchEvent, key: string, item: SnapshotItem): void {
    this.#count(watchEvent);
    // Only now: snapshots are right also for events the hook does not want (§2.4).
    if (!this.binding.events.includes(watchEvent)) return;
    const event = { watchEvent, kind: this.#resource?.kind ?? this.binding.kind, ...placeOf(key), item };
    if (this.#locked) this.#buffer.push(event);
    else this.#options.emit(event);
  }

  #count(watchEvent: WatchEvent): void {
    const name = watchEvent === "Added" ? "added" : watchEvent === "Modified" ? "modified" : "deleted";
    this.sinceStart[name] += 1;
    this.sinceLastExecution[name] += 1;
  }

  // A namespace left: its objects are no longer selected, which the hook is told like a deletion.
  #leave(scope: Scope): void {
    this.#shut(scope);
    this.#scopes.delete(scope);
    this.#items = undefined;
    this.sinceStart.cleaned += scope.store.size;
    this.sinceLastExecution.cleaned += scope.store.size;
    if (this.#ready) {
      for (const [key, { item }] of scope.store.entries()) this.#happened("Deleted", key, item);
    }
    scope.store.clear();
    this.#checkReady();
    this.#tellTrouble();
  }

  #shut(scope: Scope): void {
    scope.closed = true;
    scope.subscription?.close();
    if (this.#closed) scope.store.clear();
  }

  #checkReady(): void {
    if (this.#ready || this.#closed || !this.#namespacesKnown) return;
    if ([...this.#scopes].some(({ synced }) => !synced)) return;
    this.#ready = true;
    this.#options.onReady();
  }

  #tellTrouble(): void {
    if (this.#closed) return;
    const troubles = [this.#namespacesTrouble, ...[...this.#scopes].map(({ trouble }) => trouble)];
    this.#options.onTrouble(troubles.find((trouble) => trouble !== undefined));
  }

  #filterFailed(object: WatchedObject, error: unknown): void {
    this.#options.onFilterError(placeOf(objectKey(object)), error);
  }
}

/** True for errors that stay until a person acts: nobody should wait for them. */
export function needsPerson(error: Error): boolean {
  return error instanceof ApiError && [400, 403, 404, 405, 422].includes(error.status);
}
