/** The objects of one kubernetes binding. */

import type { Resource, Subscription, WatchHub, WatchSpec, WatchedObject } from "../../../kube/index.ts";
import { ApiError, NAMESPACES, labelSelectorText } from "../../../kube/index.ts";
import type { Clock } from "../../../lib/index.ts";
import type { Hook, KubernetesBinding, ObjectEvent, SnapshotItem } from "../../../model/index.ts";
import type { ObjectCache } from "./monitor-cache.ts";
import { placeOf, sortedItems } from "./monitor-cache.ts";
import { Extract } from "./monitor-extract.ts";
import type { CompiledFilter, FilterMemo } from "./monitor-filter.ts";
import { Outbox } from "./monitor-outbox.ts";
import { fixedNamespaces, followsNamespaces, namespaceWanted, specsIn } from "./monitor-scope.ts";
import { Tail } from "./monitor-tail.ts";
import type { TextPool } from "./monitor-text.ts";
import type { Happening, WatchOwner } from "./monitor-watch.ts";
import { BindingWatch } from "./monitor-watch.ts";

/** Durations, in seconds. */
export interface BindingTimes {
  /** One evaluation of the filter. */
  filtered(seconds: number): void;
  /** From receiving a change to handing it on. */
  event(seconds: number): void;
}

/** What a monitor uses and what it calls. */
export interface MonitorOptions {
  readonly hub: WatchHub;
  readonly clock: Clock;
  readonly pool: TextPool;
  readonly memo: FilterMemo;
  readonly keepManagedFields: boolean;
  readonly emit: (event: ObjectEvent) => void;
  /** Everything selected has been listed. */
  readonly onReady: () => void;
  /** Why the binding cannot work; undefined = it works again. */
  readonly onTrouble: (error: Error | undefined) => void;
  readonly onFilterError: (place: { namespace: string; name: string }, error: unknown) => void;
  readonly times: BindingTimes | undefined;
}

/**
 * The objects of one kubernetes binding: opens its watches, says when all are listed, shows the snapshot. Events
 * wait in `outbox` until it is unlocked.
 */
export class Monitor {
  readonly hook: Hook;
  readonly binding: KubernetesBinding;
  readonly outbox: Outbox;
  readonly #options: MonitorOptions;
  readonly #watches = new Set<BindingWatch>();
  #namespaces: Subscription | undefined;
  #namespacesKnown = true;
  #namespacesTrouble: Error | undefined;
  #ready = false;
  #closed = false;
  #items: readonly SnapshotItem[] | undefined;

  constructor(hook: Hook, binding: KubernetesBinding, options: MonitorOptions) {
    this.hook = hook;
    this.binding = binding;
    this.#options = options;
    this.outbox = new Outbox(binding.events, options.emit);
  }

  get ready(): boolean {
    return this.#ready;
  }

  /** Number of objects in the snapshot. */
  get size(): number {
    let size = 0;
    for (const { store } of this.#watches) size += store.size;
    return size;
  }

  /** Opens the watches. */
  open(resource: Resource, filter: CompiledFilter | undefined): void {
    const extract = new Extract({
      ...this.#options,
      binding: this.binding,
      filter,
      onFiltered: (seconds) => this.#options.times?.filtered(seconds),
    });
    const owner = this.#owner(resource.kind, extract);
    const open = (namespace: string | undefined): void => this.#openIn(namespace, resource, owner);
    if (followsNamespaces(this.binding, resource)) return this.#followNamespaces(owner, open);
    for (const namespace of fixedNamespaces(this.binding, resource)) open(namespace);
  }

  /** The snapshot, by namespace and name. For a locked binding, drops the waiting events that it already shows. */
  items(): readonly SnapshotItem[] {
    this.outbox.seen();
    return this.peek();
  }

  /** The snapshot for people: changes nothing. */
  peek(): readonly SnapshotItem[] {
    this.#items ??= sortedItems([...this.#watches].map(({ store }) => store));
    return this.#items;
  }

  /** The stores of all watches; drops waiting events as `items` does. */
  stores(): readonly ObjectCache[] {
    this.outbox.seen();
    return [...this.#watches].map(({ store }) => store);
  }

  /** Closes the watches and drops everything. */
  close(): void {
    this.#closed = true;
    this.#namespaces?.close();
    for (const watch of this.#watches) {
      watch.close();
      watch.store.clear();
    }
    this.#watches.clear();
    this.outbox.close();
    this.#items = undefined;
  }

  #owner(kind: string, extract: Extract): WatchOwner {
    const { pool, clock, onFilterError } = this.#options;
    return {
      rank: `${this.hook.name}\0${this.binding.id}`,
      extract,
      tail: new Tail(),
      pool,
      clock,
      changed: () => void (this.#items = undefined),
      happened: (happening) => this.#happened(kind, happening),
      synced: () => this.#checkReady(),
      troubled: () => this.#tellTrouble(),
      filterFailed: (key, error) => onFilterError(placeOf(key), error),
    };
  }

  #followNamespaces(owner: WatchOwner, open: (namespace: string) => void): void {
    this.#namespacesKnown = false;
    const came = ({ metadata }: WatchedObject): void => {
      const known = [...this.#watches].some(({ namespace }) => namespace === metadata.name);
      if (!known && namespaceWanted(this.binding, metadata.name)) open(metadata.name);
    };
    const labelSelector = labelSelectorText(this.binding.namespaceLabels);
    const spec: WatchSpec = { resource: NAMESPACES, labelSelector, metadataOnly: true };
    this.#namespaces = this.#options.hub.subscribe(spec, {
      begin: () => {
        for (const watch of this.#watches) this.#leave(watch, owner);
      },
      object: came,
      applied: came,
      deleted: ({ metadata }) => {
        for (const watch of this.#watches) if (watch.namespace === metadata.name) this.#leave(watch, owner);
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

  #openIn(namespace: string | undefined, resource: Resource, owner: WatchOwner): void {
    if (this.#closed) return;
    const { keepManagedFields } = owner.extract;
    // All watches first: one that is listed at once must not make the binding ready.
    const opened = specsIn(namespace, this.binding, { resource, keepManagedFields }).map((spec) => {
      const watch = new BindingWatch(owner, { namespace, late: this.#ready });
      this.#watches.add(watch);
      return { watch, spec };
    });
    for (const { watch, spec } of opened) watch.open(this.#options.hub, spec);
  }

  #happened(kind: string, { watchEvent, key, item, heardAt }: Happening): void {
    this.outbox.push({ watchEvent, kind, ...placeOf(key), item });
    const { clock, times } = this.#options;
    if (heardAt !== undefined) times?.event((clock.monotonic() - heardAt) / 1000);
  }

  // A namespace is not selected any more: the hook is told of its objects as of deleted ones.
  #leave(watch: BindingWatch, owner: WatchOwner): void {
    watch.close();
    this.#watches.delete(watch);
    this.#items = undefined;
    this.outbox.cleaned(watch.store.size);
    if (this.#ready) {
      for (const [key, { item }] of watch.store.entries()) {
        owner.happened({ watchEvent: "Deleted", key, item });
      }
    }
    watch.store.clear();
    this.#checkReady();
    this.#tellTrouble();
  }

  #checkReady(): void {
    if (this.#ready || this.#closed || !this.#namespacesKnown) return;
    if ([...this.#watches].some(({ synced }) => !synced)) return;
    this.#ready = true;
    this.#options.onReady();
  }

  #tellTrouble(): void {
    if (this.#closed) return;
    const troubles = [this.#namespacesTrouble, ...[...this.#watches].map(({ trouble }) => trouble)];
    this.#options.onTrouble(troubles.find((trouble) => trouble !== undefined));
  }
}

/** True for errors that stay until a person acts: nobody should wait for them. */
export function needsPerson(error: Error): boolean {
  return error instanceof ApiError && [400, 403, 404, 405, 422].includes(error.status);
}
