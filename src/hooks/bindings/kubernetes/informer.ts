/**
 * One watch of a kubernetes binding: filters and stores its objects, and reports their changes. Bindings that watch the same objects share their
 * texts and filter results. The owner is the monitor, which unites the watches of one binding.
 */

import { hash } from "node:crypto";

import { objectKey } from "../../../kube/index.ts";
import type { Subscription, WatchHub, WatchSpec, WatchedObject } from "../../../kube/index.ts";
import { DepthError, toOwnBytes, wasCut, type Clock, type Sequence } from "../../../base/index.ts";
import { FilterError, type Filter } from "../../filter/index.ts";
import { ObjectTextItem } from "../../../base/model/index.ts";
import type { Json, KubernetesBinding, SnapshotItem, WatchEvent } from "../../../base/model/index.ts";

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

  #completeList(): void {
    if (this.#closed) return;
    this.isSynced = true;
    this.#owner.onStatus();
  }

  /** Whether hooks receive events of the changes: objects of the first list are no changes, unless the watch was opened late. */
  get #isReported(): boolean {
    return this.isSynced || this.#isOpenedLate;
  }

  /** Filters and stores an object, and reports the change. Steps of several objects keep their order (`sequence`), although a filter may take time. */
  #storeObject(object: WatchedObject): Promise<void> | undefined {
    const { shared, sequence, clock, onStoreChanged, onFilterError } = this.#owner;
    const isReported = this.#isReported;
    const receivedAt = clock.monotonic();
    return sequence.run(evaluateFilter(this.#owner, object), (outcome) => {
      if (this.#closed) return;
      const key = objectKey(object);
      const before = this.store.get(key);
      if (outcome.error !== undefined) {
        if (before === undefined) this.#keysWithFailedFilter.add(key);
        return onFilterError(key, outcome.error);
      }
      const stored = makeStoredObject(this.#owner, object, outcome.value);
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
    const isReported = this.#isReported;
    const receivedAt = clock.monotonic();
    return sequence.run(isLastState ? evaluateFilter(this.#owner, object) : {}, (outcome) => {
      if (this.#closed) return;
      const key = objectKey(object);
      const before = this.#removeStored(key);
      if (outcome.error !== undefined) onFilterError(key, outcome.error);
      // Use the last state from the event, or else the stored one.
      const lastObject = binding.keepFullObjects ? { object } : {};
      const item =
        isLastState && outcome.error === undefined
          ? { ...lastObject, ...toFilterResultItem(outcome.value) }
          : before;
      if (item !== undefined && isReported) this.#reportChange("Deleted", key, { item, receivedAt });
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
function evaluateFilter(owner: InformerOwner, object: WatchedObject): PendingOutcome {
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
function makeStoredObject(owner: InformerOwner, object: WatchedObject, value?: Json): StoredObject {
  const { binding, shared, keepManagedFields } = owner;
  const text = binding.keepFullObjects ? shared.acquireText(object, keepManagedFields ? "+" : "") : undefined;
  const item = text === undefined ? toFilterResultItem(value) : new ObjectTextItem(text.bytes, value);
  // The key of the text identifies the version of the object.
  const checksum = value === undefined && text !== undefined ? text.key : computeChecksum(object, value);
  return { checksum, text, item };
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

/** Of objects of which a binding keeps nothing, a snapshot shows only the number. */
const EMPTY_ITEM: SnapshotItem = Object.freeze({});

/** A snapshot item without the object. */
function toFilterResultItem(filterResult: Json | undefined): SnapshotItem {
  return filterResult === undefined ? EMPTY_ITEM : { filterResult };
}

/** The JSON text of one version of one object, shared by all bindings that store it. */
interface SharedText {
  readonly key: string;
  readonly bytes: Uint8Array;
  referenceCount: number;
}

/** Neither `value` nor `error` = there is no filter. */
interface FilterOutcome {
  readonly value?: Json;
  readonly error?: unknown;
}

/** An outcome, which must be awaited only if jq evaluates the filter. */
type PendingOutcome = FilterOutcome | Promise<FilterOutcome>;

/**
 * Data that bindings share. Texts of full objects: bytes outside the JavaScript heap are the smallest form that can be written into a context
 * unchanged (a parsed object takes two to four times as much). Filter results of objects in progress: equal filters are evaluated once per object.
 */
export class SharedObjects {
  readonly #texts = new Map<string, SharedText>();
  /** By object, then by text of the filter. */
  readonly #outcomes = new WeakMap<object, Map<string, PendingOutcome>>();

  /** The shared text of `object`; the caller gives it back with `releaseText`. `flavour` distinguishes forms of the same object (with `managedFields`). */
  acquireText(object: WatchedObject, flavour: string): SharedText {
    const { uid = "", resourceVersion = "" } = object.metadata;
    const key = `${uid}/${resourceVersion}/${object.apiVersion}${flavour}`;
    const text = this.#texts.get(key) ?? {
      key,
      bytes: toOwnBytes(JSON.stringify(object)),
      referenceCount: 0,
    };
    text.referenceCount += 1;
    // Without a uid, equal keys may mean different objects.
    if (uid !== "") this.#texts.set(key, text);
    return text;
  }

  /** Drops one reference to a text; the last one frees it. */
  releaseText(text: SharedText | undefined): void {
    if (text === undefined) return;
    text.referenceCount -= 1;
    if (text.referenceCount === 0) this.#texts.delete(text.key);
  }

  /** Evaluates the filter, once for all bindings with the same object and filter text; synchronously if it can. Repeats a failed jq run once. Never rejects. */
  evaluate(filter: Filter, object: WatchedObject): PendingOutcome {
    const known = this.#outcomes.get(object)?.get(filter.text);
    if (known !== undefined) return known;
    const outcome = evaluateWithRetry(filter, object, 2);
    const outcomes = this.#outcomes.get(object) ?? new Map<string, PendingOutcome>();
    this.#outcomes.set(object, outcomes.set(filter.text, outcome));
    return outcome;
  }
}

/** Evaluates a filter up to `triesLeft` times; an error becomes an outcome. Waits only if jq, a process, evaluates this filter. */
function evaluateWithRetry(filter: Filter, object: WatchedObject, triesLeft: number): PendingOutcome {
  const retryOrFail = (error: unknown): PendingOutcome =>
    triesLeft > 1 && !isRetryUseless(error) ? evaluateWithRetry(filter, object, triesLeft - 1) : { error };
  try {
    const value = filter.evaluate(object);
    return value instanceof Promise ? value.then((result) => ({ value: result }), retryOrFail) : { value };
  } catch (error) {
    return retryOrFail(error);
  }
}

/** Whether another try is useless: it would fail in the same way, or (after a time-out) jq has been tried twice already. */
const isRetryUseless = (error: unknown): boolean =>
  error instanceof FilterError && (error.failure === "runtime" || error.failure === "timeout");
