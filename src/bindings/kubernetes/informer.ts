/** One watch of a kubernetes binding: the objects it has delivered, what is kept of them, what happens to them. */

import { hash } from "node:crypto";

import { objectKey } from "../../kube/index.ts";
import type { Subscription, WatchHub, WatchSpec, WatchedObject } from "../../kube/index.ts";
import { DepthError, isCut, type Clock } from "../../lib/index.ts";
import type { Json, JsonObject, KubernetesBinding, SnapshotItem, WatchEvent } from "../../model/index.ts";
import { FilterError, type Filter } from "../../filter/index.ts";
import type { Sequence } from "./monitor.ts";

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
  readonly binding: KubernetesBinding;
  readonly filter: Filter | undefined;
  readonly shared: SharedObjects;
  /** Whether objects come with `managedFields`. */
  readonly keepManagedFields: boolean;
  /** Keeps the order of changes over all watches of the binding. */
  readonly sequence: Sequence;
  readonly clock: Clock;
  /** Called with the time that each evaluation of the filter took. */
  readonly onFiltered: (seconds: number) => void;
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
  /** Objects that nothing is kept of, since the filter failed for each version so far. */
  readonly #unfiltered = new Set<string>();
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
      begin: () => void (this.#stale = new Set([...this.#store.keys(), ...this.#unfiltered])),
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
    for (const { text } of this.#store.values()) this.#owner.shared.release(text);
    this.#store.clear();
    this.#unfiltered.clear();
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
    const { shared, sequence, clock, onStore, onChange, onFilterError } = this.#owner;
    const news = this.synced || this.#late;
    const heardAt = clock.monotonic();
    return sequence.run(evaluate(this.#owner, object), (outcome) => {
      if (this.#closed) return;
      const key = objectKey(object);
      this.#stale.delete(key);
      const before = this.#store.get(key);
      if (outcome.error !== undefined) {
        if (before === undefined) this.#unfiltered.add(key);
        return onFilterError(key, outcome.error);
      }
      const kept = keep(this.#owner, object, outcome);
      // The event that reported the object was dropped: this one reports a change, as in the Go operator.
      const isNew = before === undefined && !this.#unfiltered.delete(key);
      this.#store.set(key, kept);
      shared.release(before?.text);
      onStore();
      if (!news || before?.checksum === kept.checksum) return;
      onChange({ watchEvent: isNew ? "Added" : "Modified", key, item: kept.item, heardAt });
    });
  }

  #drop(object: WatchedObject, complete: boolean): Promise<void> | undefined {
    const { binding, sequence, clock, onChange, onFilterError } = this.#owner;
    const heardAt = clock.monotonic();
    return sequence.run(complete ? evaluate(this.#owner, object) : {}, (outcome) => {
      if (this.#closed) return;
      const key = objectKey(object);
      const before = this.#forget(key);
      const failed = outcome.error !== undefined;
      if (failed) onFilterError(key, outcome.error);
      // The last state comes with the event; where it does not, the stored one is used.
      const last = binding.keepFullObjects ? { object } : {};
      const item = complete && !failed ? { ...last, ...itemOf(outcome.value) } : before;
      if (item !== undefined) onChange({ watchEvent: "Deleted", key, item, heardAt });
    });
  }

  #forget(key: string): SnapshotItem | undefined {
    const kept = this.#store.get(key);
    this.#store.delete(key);
    this.#unfiltered.delete(key);
    this.#owner.shared.release(kept?.text);
    this.#owner.onStore();
    return kept?.item;
  }
}

/** The JSON text of one version of one object, one copy for all bindings that keep it. */
interface SharedText {
  readonly key: string;
  readonly bytes: Uint8Array;
  holders: number;
}

/** Neither `value` nor `error` = there is no filter. */
export interface FilterOutcome {
  readonly value?: Json;
  readonly error?: unknown;
}

/**
 * What bindings share. Texts of full objects: bytes outside the JavaScript heap are the smallest form that can be
 * written into a context as it is (a parsed object takes two to four times as much). Filter results of objects being
 * processed: equal filters are computed once for each object.
 */
export class SharedObjects {
  readonly #texts = new Map<string, SharedText>();
  readonly #outcomes = new WeakMap<object, Map<string, FilterOutcome | Promise<FilterOutcome>>>();

  /** The text of `object`; return it with `release`. `flavour` distinguishes other forms of the same object. */
  hold(object: WatchedObject, flavour: string): SharedText {
    const { uid = "", resourceVersion = "" } = object.metadata;
    const key = `${uid}/${resourceVersion}/${object.apiVersion}${flavour}`;
    const known = this.#texts.get(key);
    if (known !== undefined) {
      known.holders += 1;
      return known;
    }
    const text: SharedText = { key, bytes: bytesOf(object), holders: 1 };
    if (uid !== "") this.#texts.set(key, text);
    return text;
  }

  release(text: SharedText | undefined): void {
    if (text === undefined) return;
    text.holders -= 1;
    if (text.holders === 0) this.#texts.delete(text.key);
  }

  /** The outcome, at once where the filter answers at once; when jq failed it is tried once more. Never rejects. */
  evaluate(filter: Filter, object: WatchedObject): FilterOutcome | Promise<FilterOutcome> {
    let outcomes = this.#outcomes.get(object);
    if (outcomes === undefined) this.#outcomes.set(object, (outcomes = new Map()));
    let outcome = outcomes.get(filter.text);
    if (outcome === undefined) outcomes.set(filter.text, (outcome = attempt(filter, object, 2)));
    return outcome;
  }
}

// A copy of exactly this size: a slice of Node's shared pool would keep the whole pool alive.
function bytesOf(object: JsonObject): Uint8Array {
  const text = JSON.stringify(object);
  const bytes = Buffer.allocUnsafeSlow(Buffer.byteLength(text));
  bytes.write(text);
  return bytes;
}

function attempt(
  filter: Filter,
  object: WatchedObject,
  tries: number,
): FilterOutcome | Promise<FilterOutcome> {
  const again = (error: unknown): FilterOutcome | Promise<FilterOutcome> =>
    tries > 1 && !isFinal(error) ? attempt(filter, object, tries - 1) : { error };
  try {
    const value = filter.evaluate(object);
    return value instanceof Promise ? value.then((result) => ({ value: result }), again) : { value };
  } catch (error) {
    return again(error);
  }
}

/** Another try would give the same; one over the time limit has had its second try already. */
function isFinal(error: unknown): boolean {
  return error instanceof FilterError && (error.failure === "runtime" || error.failure === "timeout");
}

/** What a binding keeps of one object. */
export interface KeptObject {
  /** Equal for equal states of the object, as the binding sees them. */
  readonly checksum: string;
  readonly text: SharedText | undefined;
  readonly item: SnapshotItem;
}

/** Runs the filter, if there is one. What is nested too deep is an error. Never rejects. */
function evaluate(owner: InformerOwner, object: WatchedObject): FilterOutcome | Promise<FilterOutcome> {
  const { filter, shared, clock, onFiltered } = owner;
  if (isCut(object)) return { error: new DepthError("the object") };
  if (filter === undefined) return {};
  const begun = clock.monotonic();
  const took = (): void => onFiltered((clock.monotonic() - begun) / 1000);
  const outcome = shared.evaluate(filter, object);
  if (outcome instanceof Promise) void outcome.then(took);
  else took();
  return outcome;
}

/** What is kept while the object is there: its text if full objects are wanted, the filter's result if it has one. */
function keep(owner: InformerOwner, object: WatchedObject, { value }: FilterOutcome): KeptObject {
  const { binding, shared, keepManagedFields } = owner;
  const text = binding.keepFullObjects ? shared.hold(object, keepManagedFields ? "+" : "") : undefined;
  const item = text === undefined ? itemOf(value) : new TextItem(text.bytes, value);
  return { checksum: checksumOf(object, value), text, item };
}

const LONGEST_PLAIN = 64;

/** By the filter's result, or without a filter by the version, which changes with every write. */
function checksumOf(object: WatchedObject, result: Json | undefined): string {
  const { uid = "", resourceVersion = "" } = object.metadata;
  if (result === undefined) return `${uid}/${resourceVersion}`;
  const text = JSON.stringify(result);
  return text.length <= LONGEST_PLAIN ? text : hash("sha256", text, "base64url");
}

function itemOf(filterResult: Json | undefined): SnapshotItem {
  return filterResult === undefined ? {} : { filterResult };
}

/** An item whose object is kept as text and parsed when somebody asks for it. */
class TextItem implements SnapshotItem {
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
