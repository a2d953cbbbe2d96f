/** One watch of a binding, and the objects it has delivered. */

import type { Subscription, WatchConsumer, WatchHub, WatchSpec, WatchedObject } from "../../../kube/index.ts";
import { objectKey } from "../../../kube/index.ts";
import type { Clock } from "../../../lib/index.ts";
import type { SnapshotItem, WatchEvent } from "../../../model/index.ts";
import { ObjectCache } from "./monitor-cache.ts";
import type { Extract } from "./monitor-extract.ts";
import type { Tail } from "./monitor-tail.ts";
import type { TextPool } from "./monitor-text.ts";

/** A change of an object of a binding. */
export interface Happening {
  readonly watchEvent: WatchEvent;
  /** `namespace/name`. */
  readonly key: string;
  readonly item: SnapshotItem;
  /** When the operator learned of it, on the monotonic clock; undefined = it found out by itself. */
  readonly heardAt?: number;
}

/** The binding a watch belongs to. */
export interface WatchOwner {
  readonly rank: string;
  readonly extract: Extract;
  /** Keeps the order of changes over all watches of the binding. */
  readonly tail: Tail;
  readonly pool: TextPool;
  readonly clock: Clock;
  /** Called when what the watch has delivered changed. */
  changed(): void;
  happened(happening: Happening): void;
  synced(): void;
  troubled(): void;
  filterFailed(key: string, error: unknown): void;
}

/** One watch of a binding and what it has delivered. */
export class BindingWatch {
  readonly namespace: string | undefined;
  readonly store: ObjectCache;
  readonly #owner: WatchOwner;
  /** Opened after the binding was ready: what is there then is news (a new namespace). */
  readonly #late: boolean;
  /** Objects that a list which began again has not shown yet. */
  #stale = new Set<string>();
  #subscription: Subscription | undefined;
  #synced = false;
  #closed = false;
  #trouble: Error | undefined;

  constructor(owner: WatchOwner, place: { readonly namespace: string | undefined; readonly late: boolean }) {
    this.#owner = owner;
    this.namespace = place.namespace;
    this.#late = place.late;
    this.store = new ObjectCache(owner.pool);
  }

  get synced(): boolean {
    return this.#synced;
  }

  get trouble(): Error | undefined {
    return this.#trouble;
  }

  open(hub: WatchHub, spec: WatchSpec): void {
    this.#subscription = hub.subscribe(spec, this.#consumer());
  }

  /** Stops the watch; what it has delivered stays until it is cleared. */
  close(): void {
    this.#closed = true;
    this.#subscription?.close();
  }

  #consumer(): WatchConsumer {
    const { rank, tail } = this.#owner;
    return {
      rank,
      begin: () => void (this.#stale = new Set(this.store.keys())),
      object: (object) => this.#take(object),
      applied: (object) => this.#take(object),
      deleted: (object, complete) => this.#drop(object, complete),
      synced: () => tail.run(undefined, () => this.#listed()),
      trouble: (error) => {
        this.#trouble = error;
        this.#owner.troubled();
      },
    };
  }

  #listed(): void {
    if (this.#closed) return;
    this.#dropStale();
    this.#synced = true;
    this.#owner.synced();
  }

  #take(object: WatchedObject): Promise<void> | undefined {
    const { extract, tail, clock } = this.#owner;
    const news = this.#synced || this.#late;
    const heardAt = clock.monotonic();
    return tail.run(extract.evaluate(object), (outcome) => {
      if (this.#closed) return;
      const key = objectKey(object);
      this.#stale.delete(key);
      if (outcome !== undefined && "error" in outcome) return this.#owner.filterFailed(key, outcome.error);
      const entry = extract.entry(object, outcome);
      const before = this.store.put(key, entry);
      this.#owner.changed();
      if (!news || before?.checksum === entry.checksum) return;
      const watchEvent = before === undefined ? "Added" : "Modified";
      this.#owner.happened({ watchEvent, key, item: entry.item, heardAt });
    });
  }

  #drop(object: WatchedObject, complete: boolean): Promise<void> | undefined {
    const { extract, tail, clock } = this.#owner;
    const heardAt = clock.monotonic();
    return tail.run(complete ? extract.evaluate(object) : undefined, (outcome) => {
      if (this.#closed) return;
      const key = objectKey(object);
      const before = this.#forget(key);
      const failed = outcome !== undefined && "error" in outcome;
      if (failed) this.#owner.filterFailed(key, outcome.error);
      // The last state comes with the event; where it does not, the stored one is used.
      const item = complete && !failed ? extract.item(object, outcome) : before;
      if (item !== undefined) this.#owner.happened({ watchEvent: "Deleted", key, item, heardAt });
    });
  }

  #dropStale(): void {
    for (const key of this.#stale) {
      const item = this.#forget(key);
      if (item !== undefined && this.#late) this.#owner.happened({ watchEvent: "Deleted", key, item });
    }
    this.#stale.clear();
  }

  #forget(key: string): SnapshotItem | undefined {
    const before = this.store.take(key);
    this.#owner.changed();
    return before?.item;
  }
}
