/** What kubernetes bindings keep of an object: its text, and the result of the filter. */

import { hash } from "node:crypto";

import { FilterError } from "../../filter/index.ts";
import type { Filter } from "../../filter/index.ts";
import type { WatchedObject } from "../../kube/index.ts";
import { DepthError, isCut } from "../../lib/index.ts";
import type { Clock } from "../../lib/index.ts";
import type { Json, JsonObject, KubernetesBinding, SnapshotItem } from "../../model/index.ts";

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

interface ExtractOptions {
  readonly binding: KubernetesBinding;
  readonly filter: Filter | undefined;
  readonly shared: SharedObjects;
  readonly clock: Clock;
  /** `--keep-managed-fields`. */
  readonly keepManagedFields: boolean;
  /** Called with the time that each evaluation of the filter took. */
  readonly onFiltered: (seconds: number) => void;
}

/** What a binding keeps of an object: its text if it wants full objects, the filter's result if it has a filter. */
export class Extract {
  readonly #options: ExtractOptions;
  /** Whether objects come with `managedFields`. */
  readonly keepManagedFields: boolean;

  constructor(options: ExtractOptions) {
    this.#options = options;
    this.keepManagedFields = options.keepManagedFields || options.filter?.namesManagedFields === true;
  }

  /** Runs the filter, if there is one. What is nested too deep is an error. Never rejects. */
  evaluate(object: WatchedObject): FilterOutcome | Promise<FilterOutcome> {
    const { filter, shared, clock, onFiltered } = this.#options;
    if (isCut(object)) return { error: new DepthError("the object") };
    if (filter === undefined) return {};
    const begun = clock.monotonic();
    const took = (): void => onFiltered((clock.monotonic() - begun) / 1000);
    const outcome = shared.evaluate(filter, object);
    if (outcome instanceof Promise) void outcome.then(took);
    else took();
    return outcome;
  }

  /** What is kept while the object is there; return it with `release`. */
  keep(object: WatchedObject, { value }: FilterOutcome): KeptObject {
    const { binding, shared } = this.#options;
    const text = binding.keepFullObjects ? shared.hold(object, this.keepManagedFields ? "+" : "") : undefined;
    const item = text === undefined ? itemOf(value) : new TextItem(text.bytes, value);
    return { checksum: checksumOf(object, value), text, item };
  }

  release(kept: KeptObject | undefined): void {
    this.#options.shared.release(kept?.text);
  }

  /** What a binding is given of an object that is not kept. */
  item(object: WatchedObject, { value }: FilterOutcome): SnapshotItem {
    return this.#options.binding.keepFullObjects ? { object, ...itemOf(value) } : itemOf(value);
  }
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
