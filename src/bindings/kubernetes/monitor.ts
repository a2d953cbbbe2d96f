/** The objects of one kubernetes binding: its watches, its snapshot, its events on their way to the hook. */

import type { Resource, Subscription, WatchHub, WatchSpec, WatchedObject } from "../../kube/index.ts";
import { NAMESPACES, labelSelectorText, splitKey } from "../../kube/index.ts";
import type { Filter } from "../../filter/index.ts";
import type { Clock } from "../../lib/index.ts";
import type { Hook, KubernetesBinding, ObjectEvent, SnapshotItem, WatchEvent } from "../../model/index.ts";
import { Informer, type InformerOwner, type ObjectChange, type SharedObjects } from "./informer.ts";

/** Durations, in seconds. */
export interface BindingTimes {
  /** One evaluation of the filter. */
  filtered(seconds: number): void;
  /** From receiving a change to handing it on. */
  event(seconds: number): void;
}

interface MonitorOptions {
  readonly hub: WatchHub;
  readonly clock: Clock;
  readonly shared: SharedObjects;
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
  readonly #informers = new Set<Informer>();
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
    return [...this.#informers].reduce((size, { store }) => size + store.size, 0);
  }

  /** Opens the watches. */
  open(resource: Resource, filter: Filter | undefined): void {
    const { binding } = this;
    const owner = this.#owner(resource.kind, filter);
    const openIn = (namespace: string | undefined): void => this.#openIn(namespace, resource, owner);
    if (resource.namespaced && binding.namespaceLabels !== undefined)
      return this.#followNamespaces(owner, openIn);
    const fixed = resource.namespaced ? binding.namespaces : undefined;
    for (const namespace of new Set(fixed ?? [undefined])) openIn(namespace);
  }

  /** The snapshot, by namespace and name. */
  get items(): readonly SnapshotItem[] {
    this.#items ??= sortedItems(this.#informers);
    return this.#items;
  }

  /** All watches, for a snapshot of several bindings. */
  get informers(): readonly Informer[] {
    return [...this.#informers];
  }

  /** Closes the watches and drops everything. */
  close(): void {
    this.#closed = true;
    this.#namespaces?.close();
    for (const informer of this.#informers) {
      informer.close();
      informer.clear();
    }
    this.#informers.clear();
    this.outbox.close();
    this.#items = undefined;
  }

  #owner(kind: string, filter: Filter | undefined): InformerOwner {
    const { clock, shared, keepManagedFields, times, onFilterError } = this.#options;
    const { hook, binding } = this;
    return {
      rank: `${hook.name}\0${binding.id}`,
      binding,
      filter,
      shared,
      keepManagedFields: keepManagedFields || filter?.namesManagedFields === true,
      sequence: new Sequence(),
      clock,
      onFiltered: (seconds) => times?.filtered(seconds),
      onStore: () => void (this.#items = undefined),
      onChange: (change) => this.#push(kind, change),
      onSynced: () => this.#checkReady(),
      onTrouble: () => this.#tellTrouble(),
      onFilterError: (key, error) => onFilterError(splitKey(key), error),
    };
  }

  #followNamespaces(owner: InformerOwner, open: (namespace: string) => void): void {
    this.#namespacesKnown = false;
    const came = ({ metadata: { name } }: WatchedObject): void => {
      const known = [...this.#informers].some(({ namespace }) => namespace === name);
      if (!known && (this.binding.namespaces?.includes(name) ?? true)) open(name);
    };
    const labelSelector = labelSelectorText(this.binding.namespaceLabels);
    const spec: WatchSpec = { resource: NAMESPACES, labelSelector, metadataOnly: true };
    this.#namespaces = this.#options.hub.subscribe(spec, {
      begin: () => {
        for (const informer of this.#informers) this.#leave(informer, owner);
      },
      object: came,
      applied: came,
      deleted: ({ metadata: { name } }) => {
        for (const informer of this.#informers) if (informer.namespace === name) this.#leave(informer, owner);
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

  /** One watch for each name; undefined = in all namespaces, or of a cluster-wide kind. */
  #openIn(namespace: string | undefined, resource: Resource, owner: InformerOwner): void {
    if (this.#closed) return;
    const { names, keepFullObjects, jqFilter, labelSelector, fieldSelector } = this.binding;
    const spec: WatchSpec = {
      resource,
      namespace,
      labelSelector: labelSelectorText(labelSelector),
      // Nothing of the object is needed but its version.
      metadataOnly: !keepFullObjects && jqFilter === undefined,
      keepManagedFields: owner.keepManagedFields,
    };
    // All watches first: one that is listed at once must not make the binding ready.
    const opened = [...new Set(names ?? [undefined])].map((name) => {
      const informer = new Informer(owner, namespace, this.#ready);
      this.#informers.add(informer);
      const terms = [fieldSelector, name === undefined ? undefined : `metadata.name=${name}`].filter(Boolean);
      return { informer, selected: { ...spec, fieldSelector: terms.join(",") || undefined } };
    });
    for (const { informer, selected } of opened) informer.open(this.#options.hub, selected);
  }

  #push(kind: string, { watchEvent, key, item, heardAt }: ObjectChange): void {
    this.outbox.push({ watchEvent, kind, ...splitKey(key), item });
    const { clock, times } = this.#options;
    if (heardAt !== undefined) times?.event((clock.monotonic() - heardAt) / 1000);
  }

  // A namespace is not selected any more: the hook is told of its objects as of deleted ones.
  #leave(informer: Informer, owner: InformerOwner): void {
    informer.close();
    this.#informers.delete(informer);
    this.#items = undefined;
    this.outbox.cleaned(informer.store.size);
    if (this.#ready)
      for (const [key, { item }] of informer.store) owner.onChange({ watchEvent: "Deleted", key, item });
    informer.clear();
    this.#checkReady();
    this.#tellTrouble();
  }

  #checkReady(): void {
    if (this.#ready || this.#closed || !this.#namespacesKnown) return;
    if ([...this.#informers].some(({ synced }) => !synced)) return;
    this.#ready = true;
    this.#options.onReady();
  }

  #tellTrouble(): void {
    if (this.#closed) return;
    const troubles = [this.#namespacesTrouble, ...[...this.#informers].map(({ trouble }) => trouble)];
    this.#options.onTrouble(troubles.find((trouble) => trouble !== undefined));
  }
}

/** What happened to the objects of a binding; `cleaned`: dropped because their namespace left the selector. */
export type Operations = typeof NO_OPERATIONS;
const NO_OPERATIONS = { added: 0, modified: 0, deleted: 0, cleaned: 0 };
const COUNTERS = { Added: "added", Modified: "modified", Deleted: "deleted" } as const;

/** Events of one binding on their way to the hook: counted, chosen, and kept back until `unlock`. */
class Outbox {
  readonly sinceStart = { ...NO_OPERATIONS };
  sinceLastExecution = { ...NO_OPERATIONS };
  readonly #wanted: readonly WatchEvent[];
  readonly #emit: (event: ObjectEvent) => void;
  #locked = true;
  #buffer: ObjectEvent[] = [];

  constructor(wanted: readonly WatchEvent[], emit: (event: ObjectEvent) => void) {
    this.#wanted = wanted;
    this.#emit = emit;
  }

  /** Counts an event, and hands it to the hook if the hook wants it. */
  push(event: ObjectEvent): void {
    this.#count(COUNTERS[event.watchEvent], 1);
    if (!this.#wanted.includes(event.watchEvent)) return;
    if (this.#locked) this.#buffer.push(event);
    else this.#emit(event);
  }

  /** Counts objects that are not selected any more. */
  cleaned(count: number): void {
    this.#count("cleaned", count);
  }

  /** The hook is about to see the snapshot: for a locked binding, that shows what the waiting events would tell. */
  seen(): void {
    if (this.#locked) this.#buffer = [];
    this.sinceLastExecution = { ...NO_OPERATIONS };
  }

  /** Releases the events that waited; from now on every event is handed on at once. */
  unlock(): void {
    this.#locked = false;
    for (const event of this.#buffer.splice(0)) this.#emit(event);
  }

  /** Drops what waits. */
  close(): void {
    this.#buffer = [];
  }

  #count(operation: keyof Operations, count: number): void {
    this.sinceStart[operation] += count;
    this.sinceLastExecution[operation] += count;
  }
}

/**
 * Runs steps in the order of their arrival, although each first waits for its input. A step whose input is ready
 * and that nobody is in front of runs at once.
 */
export class Sequence {
  #last: Promise<void> | undefined;

  /** Runs `step` with the result of `input`; the promise (if any) ends when it has run. `input` never rejects. */
  run<T>(input: T | Promise<T>, step: (value: T) => void): Promise<void> | undefined {
    if (this.#last === undefined && !(input instanceof Promise)) {
      step(input);
      return undefined;
    }
    const before = this.#last;
    const turn = (async () => {
      const value = await input;
      await before?.catch(() => {});
      step(value);
    })();
    this.#last = turn;
    const free = (): void => {
      if (this.#last === turn) this.#last = undefined;
    };
    turn.then(free, free);
    return turn;
  }
}

/** Items of several informers, by namespace, then name. */
export function sortedItems(informers: Iterable<Informer>): readonly SnapshotItem[] {
  const rows = [...informers].flatMap(({ store }) =>
    [...store].map(([key, { item }]) => ({ ...splitKey(key), item })),
  );
  rows.sort((a, b) => compare(a.namespace, b.namespace) || compare(a.name, b.name));
  return rows.map(({ item }) => item);
}

function compare(a: string, b: string): number {
  if (a === b) return 0;
  return a < b ? -1 : 1;
}
