/**
 * One watch of a kubernetes binding: stores its objects and reports their changes. The hub delivers the events: one watch of the API server may
 * serve several bindings. A key is `NAMESPACE/NAME`. The owner is the monitor, which unites the watches of one binding.
 */

import { hash } from "node:crypto";

import { objectKey } from "../../kube/index.ts";
import type { Subscription, WatchHub, WatchSpec, WatchedObject } from "../../kube/index.ts";
import { DepthError, wasCut, type Clock } from "../../lib/index.ts";
import type { Json, JsonObject, KubernetesBinding, SnapshotItem, WatchEvent } from "../../model/index.ts";
import type { Filter } from "../../filter/index.ts";
import type { FilterOutcome, SharedObjects, SharedText } from "./shared-objects.ts";

/** Durations, in seconds. */
export interface BindingTimes {
  /** One evaluation of the filter. */
  recordFilter(seconds: number): void;
  /** From receiving a change to passing on its event. */
  recordEvent(seconds: number): void;
}

/** What all informers of a binding share. */
export interface InformerOwner {
  readonly rank: string;
  readonly binding: KubernetesBinding;
  readonly filter: Filter | undefined;
  readonly shared: SharedObjects;
  readonly keepManagedFields: boolean;
  /** Keeps the order of changes over all watches of the binding. */
  readonly sequence: Sequence;
  readonly clock: Clock;
  readonly times: BindingTimes | undefined;
  readonly onStoreChanged: () => void;
  /** Called for each change that the binding sees; `key` is `namespace/name`. */
  readonly onChange: (watchEvent: WatchEvent, key: string, item: SnapshotItem) => void;
  /** Called when the first list of a watch is complete, and when a watch fails or works again. */
  readonly onStatus: () => void;
  readonly onFilterError: (key: string, error: unknown) => void;
}

/** One watch of a binding and its objects. Does not report the first list, unless the watch was opened late, for a new namespace. */
export class Informer {
  readonly namespace: string | undefined;
  readonly #owner: InformerOwner;
  /** Opened after the binding was ready (for a new namespace): its first list counts as added objects. */
  readonly #isOpenedLate: boolean;
  /** The stored objects, by `namespace/name`. */
  readonly store = new Map<string, StoredObject>();
  /** Objects without a stored version, because the filter failed for each version so far. */
  readonly #keysWithFailedFilter = new Set<string>();
  /** Stored objects that the restarted first list has not delivered yet. */
  #stale = new Set<string>();
  #subscription: Subscription | undefined;
  #closed = false;
  isSynced = false;
  issue: Error | undefined;

  constructor(owner: InformerOwner, namespace: string | undefined, isOpenedLate: boolean) {
    this.#owner = owner;
    this.namespace = namespace;
    this.#isOpenedLate = isOpenedLate;
  }

  /** Starts the watch: its objects are filtered, stored and reported from now on. */
  open(hub: WatchHub, spec: WatchSpec): void {
    this.#subscription = hub.subscribe(spec, {
      rank: this.#owner.rank,
      // What is known so far is stale until the list, which may begin again after a failure, delivers it.
      onListStart: () => void (this.#stale = new Set([...this.store.keys(), ...this.#keysWithFailedFilter])),
      onListed: (object) => this.#storeObject(object),
      onApplied: (object) => this.#storeObject(object),
      onDeleted: (object, isLastState) => this.#removeObject(object, isLastState),
      onSynced: () => this.#owner.sequence.run(undefined, () => this.#completeList()),
      onError: (error) => {
        this.issue = error;
        this.#owner.onStatus();
      },
    });
  }

  /** Stops the watch; the stored objects stay until `clear`. */
  close(): void {
    this.#closed = true;
    this.#subscription?.close();
  }

  /** Drops the stored objects, and gives back the texts that they share with other bindings. */
  clear(): void {
    for (const { text } of this.store.values()) this.#owner.shared.releaseText(text);
    this.store.clear();
    this.#keysWithFailedFilter.clear();
  }

  /**
   * Called when a list is complete. If the first list was interrupted and started again, drops objects that only its first attempt contained:
   * a hook knows of them only if the watch was opened late. Later lists need no such step: the hub reports what they lack as deleted.
   */
  #completeList(): void {
    if (this.#closed) return;
    for (const key of this.#stale) {
      const item = this.#removeStored(key);
      if (item !== undefined && this.#isOpenedLate) this.#owner.onChange("Deleted", key, item);
    }
    this.#stale.clear();
    this.isSynced = true;
    this.#owner.onStatus();
  }

  /** Filters and stores an object, and reports the change. Steps of several objects keep their order (`sequence`), although a filter may take time. */
  #storeObject(object: WatchedObject): Promise<void> | undefined {
    const { shared, sequence, clock, onStoreChanged, onFilterError } = this.#owner;
    const isReported = this.isSynced || this.#isOpenedLate;
    const receivedAt = clock.monotonic();
    return sequence.run(evaluateFilter(this.#owner, object), (outcome) => {
      if (this.#closed) return;
      const key = objectKey(object);
      this.#stale.delete(key);
      const before = this.store.get(key);
      if (outcome.error !== undefined) {
        if (before === undefined) this.#keysWithFailedFilter.add(key);
        return onFilterError(key, outcome.error);
      }
      const stored = makeStoredObject(this.#owner, object, outcome);
      // The filter failed for the Added event of the object: this event is a Modified one, as in the Go operator.
      const isNew = before === undefined && !this.#keysWithFailedFilter.delete(key);
      this.store.set(key, stored);
      shared.releaseText(before?.text);
      onStoreChanged();
      // With an equal checksum, what the hook gets of the object is the same.
      if (!isReported || before?.checksum === stored.checksum) return;
      this.#reportChange(isNew ? "Added" : "Modified", key, { item: stored.item, receivedAt });
    });
  }

  /** Removes a deleted object and reports it. `isLastState`: the object is its last state; false if a list lacks it, which shows only the name. */
  #removeObject(object: WatchedObject, isLastState: boolean): Promise<void> | undefined {
    const { binding, sequence, clock, onFilterError } = this.#owner;
    const receivedAt = clock.monotonic();
    return sequence.run(isLastState ? evaluateFilter(this.#owner, object) : {}, (outcome) => {
      if (this.#closed) return;
      const key = objectKey(object);
      const before = this.#removeStored(key);
      const failed = outcome.error !== undefined;
      if (failed) onFilterError(key, outcome.error);
      // Use the last state from the event, or else the stored one.
      const lastObject = binding.keepFullObjects ? { object } : {};
      const item = isLastState && !failed ? { ...lastObject, ...toFilterResultItem(outcome.value) } : before;
      if (item !== undefined) this.#reportChange("Deleted", key, { item, receivedAt });
    });
  }

  /** Reports a change that the watch has delivered at `receivedAt` (monotonic ms), and how long the binding took for it. */
  #reportChange(
    watchEvent: WatchEvent,
    key: string,
    { item, receivedAt }: { item: SnapshotItem; receivedAt: number },
  ): void {
    const { clock, times, onChange } = this.#owner;
    onChange(watchEvent, key, item);
    times?.recordEvent((clock.monotonic() - receivedAt) / 1000);
  }

  /** Removes an object from the store, and frees its shared text. Returns what hooks knew of the object; undefined if it was not stored. */
  #removeStored(key: string): SnapshotItem | undefined {
    const stored = this.store.get(key);
    this.store.delete(key);
    this.#keysWithFailedFilter.delete(key);
    this.#owner.shared.releaseText(stored?.text);
    this.#owner.onStoreChanged();
    return stored?.item;
  }
}

/** The stored form of one object in a binding. */
interface StoredObject {
  /** Equal for states of the object that the binding does not distinguish. */
  readonly checksum: string;
  readonly text: SharedText | undefined;
  readonly item: SnapshotItem;
}

/** Runs the binding's jq filter, if there is one, and measures its time. An object that was cut because it is nested too deep is an error. Never rejects. */
function evaluateFilter(owner: InformerOwner, object: WatchedObject): FilterOutcome | Promise<FilterOutcome> {
  const { filter, shared, clock, times } = owner;
  if (wasCut(object)) return { error: new DepthError("the object") };
  if (filter === undefined) return {};
  const startedAt = clock.monotonic();
  const reportDuration = (): void => times?.recordFilter((clock.monotonic() - startedAt) / 1000);
  const outcome = shared.evaluate(filter, object);
  if (outcome instanceof Promise) void outcome.then(reportDuration);
  else reportDuration();
  return outcome;
}

/** The stored form: the object's text, shared with other bindings, if the binding keeps full objects, and the filter result if it has a filter. */
function makeStoredObject(
  owner: InformerOwner,
  object: WatchedObject,
  { value }: FilterOutcome,
): StoredObject {
  const { binding, shared, keepManagedFields } = owner;
  const text = binding.keepFullObjects ? shared.acquireText(object, keepManagedFields ? "+" : "") : undefined;
  const item = text === undefined ? toFilterResultItem(value) : new ObjectTextItem(text.bytes, value);
  return { checksum: computeChecksum(object, value), text, item };
}

/** Shorter filter results are their own checksum. */
const MAX_PLAIN_CHARS = 64;

/** A text that changes if the binding must see a change: the hash of the filter result, or without a filter the resourceVersion. */
function computeChecksum(object: WatchedObject, result: Json | undefined): string {
  const { uid = "", resourceVersion = "" } = object.metadata;
  if (result === undefined) return `${uid}/${resourceVersion}`;
  const text = JSON.stringify(result);
  return text.length <= MAX_PLAIN_CHARS ? text : hash("sha256", text, "base64url");
}

/** A snapshot item without the object. */
function toFilterResultItem(filterResult: Json | undefined): SnapshotItem {
  return filterResult === undefined ? {} : { filterResult };
}

/** An item whose object is stored as text and parsed at each access. */
class ObjectTextItem implements SnapshotItem {
  declare readonly filterResult?: Json;
  readonly objectText: Uint8Array;

  constructor(bytes: Uint8Array, result: Json | undefined) {
    this.objectText = bytes;
    if (result !== undefined) this.filterResult = result;
  }

  get object(): JsonObject {
    return JSON.parse(Buffer.from(this.objectText).toString("utf8")) as JsonObject;
  }

  toJSON(): JsonObject {
    const { object, filterResult } = this;
    return filterResult === undefined ? { object } : { object, filterResult };
  }
}

/**
 * Runs steps in the order of their arrival, although each first waits for its input. A step runs synchronously if its
 * input is ready and no earlier step is pending.
 */
export class Sequence {
  #lastTurn: Promise<void> | undefined;

  /** Runs `step` with the result of `input`, which must not reject. The promise, if there is one, resolves after the step. */
  run<T>(input: T | Promise<T>, step: (value: T) => void): Promise<void> | undefined {
    if (this.#lastTurn === undefined && !(input instanceof Promise)) {
      step(input);
      return undefined;
    }
    const earlierTurn = this.#lastTurn;
    const turn = (async () => {
      const value = await input;
      await earlierTurn?.catch(() => {});
      step(value);
    })();
    this.#lastTurn = turn;
    // Without a pending turn, the next step may run synchronously.
    const forgetTurn = (): void => {
      if (this.#lastTurn === turn) this.#lastTurn = undefined;
    };
    turn.then(forgetTurn, forgetTurn);
    return turn;
  }
}
