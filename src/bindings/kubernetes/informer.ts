/** One watch of a kubernetes binding: the objects that it has delivered, and what happens to them. */

import type { Subscription, WatchHub, WatchSpec, WatchedObject } from "../../kube/index.ts";
import { objectKey, splitKey } from "../../kube/index.ts";
import type { Clock } from "../../lib/index.ts";
import type { SnapshotItem, WatchEvent } from "../../model/index.ts";
import type { Extract, KeptObject } from "./extract.ts";

/** A change of an object of a binding. */
export interface ObjectChange {
  readonly watchEvent: WatchEvent;
  /** `namespace/name`. */
  readonly key: string;
  readonly item: SnapshotItem;
  /** When the operator learned of it, on the monotonic clock; undefined = it found out by itself. */
  readonly heardAt?: number;
}

/** The binding that an informer belongs to. */
export interface InformerOwner {
  readonly rank: string;
  readonly extract: Extract;
  /** Keeps the order of changes over all watches of the binding. */
  readonly sequence: Sequence;
  readonly clock: Clock;
  /** Called when what the watch has delivered changed. */
  readonly onStore: () => void;
  readonly onChange: (change: ObjectChange) => void;
  readonly onSynced: () => void;
  readonly onTrouble: () => void;
  readonly onFilterError: (key: string, error: unknown) => void;
}

/** One watch of a binding and what it has delivered. */
export class Informer {
  readonly namespace: string | undefined;
  readonly #owner: InformerOwner;
  /** Opened after the binding was ready: what is there then is news (a new namespace). */
  readonly #late: boolean;
  /** By `namespace/name`. */
  readonly #store = new Map<string, KeptObject>();
  /** Objects that a list which began again has not shown yet. */
  #stale = new Set<string>();
  #subscription: Subscription | undefined;
  #closed = false;
  synced = false;
  trouble: Error | undefined;

  constructor(owner: InformerOwner, namespace: string | undefined, late: boolean) {
    this.#owner = owner;
    this.namespace = namespace;
    this.#late = late;
  }

  /** What it has delivered, by `namespace/name`. */
  get store(): ReadonlyMap<string, KeptObject> {
    return this.#store;
  }

  open(hub: WatchHub, spec: WatchSpec): void {
    this.#subscription = hub.subscribe(spec, {
      rank: this.#owner.rank,
      begin: () => void (this.#stale = new Set(this.#store.keys())),
      object: (object) => this.#take(object),
      applied: (object) => this.#take(object),
      deleted: (object, complete) => this.#drop(object, complete),
      synced: () => this.#owner.sequence.run(undefined, () => this.#listed()),
      trouble: (error) => {
        this.trouble = error;
        this.#owner.onTrouble();
      },
    });
  }

  /** Stops the watch; what it has delivered stays until it is cleared. */
  close(): void {
    this.#closed = true;
    this.#subscription?.close();
  }

  clear(): void {
    for (const kept of this.#store.values()) this.#owner.extract.release(kept);
    this.#store.clear();
  }

  #listed(): void {
    if (this.#closed) return;
    for (const key of this.#stale) {
      const item = this.#forget(key);
      if (item !== undefined && this.#late) this.#owner.onChange({ watchEvent: "Deleted", key, item });
    }
    this.#stale.clear();
    this.synced = true;
    this.#owner.onSynced();
  }

  #take(object: WatchedObject): Promise<void> | undefined {
    const { extract, sequence, clock, onStore, onChange, onFilterError } = this.#owner;
    const news = this.synced || this.#late;
    const heardAt = clock.monotonic();
    return sequence.run(extract.evaluate(object), (outcome) => {
      if (this.#closed) return;
      const key = objectKey(object);
      this.#stale.delete(key);
      if (outcome.error !== undefined) return onFilterError(key, outcome.error);
      const kept = extract.keep(object, outcome);
      const before = this.#store.get(key);
      this.#store.set(key, kept);
      extract.release(before);
      onStore();
      if (!news || before?.checksum === kept.checksum) return;
      const watchEvent = before === undefined ? "Added" : "Modified";
      onChange({ watchEvent, key, item: kept.item, heardAt });
    });
  }

  #drop(object: WatchedObject, complete: boolean): Promise<void> | undefined {
    const { extract, sequence, clock, onChange, onFilterError } = this.#owner;
    const heardAt = clock.monotonic();
    return sequence.run(complete ? extract.evaluate(object) : {}, (outcome) => {
      if (this.#closed) return;
      const key = objectKey(object);
      const before = this.#forget(key);
      const failed = outcome.error !== undefined;
      if (failed) onFilterError(key, outcome.error);
      // The last state comes with the event; where it does not, the stored one is used.
      const item = complete && !failed ? extract.item(object, outcome) : before;
      if (item !== undefined) onChange({ watchEvent: "Deleted", key, item, heardAt });
    });
  }

  #forget(key: string): SnapshotItem | undefined {
    const kept = this.#store.get(key);
    this.#store.delete(key);
    this.#owner.extract.release(kept);
    this.#owner.onStore();
    return kept?.item;
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
