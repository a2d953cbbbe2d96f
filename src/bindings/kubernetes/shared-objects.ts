/** Data of objects that several bindings share to save memory and time: texts of whole objects, counted by references, and results of filters. */

import { FilterError, type Filter } from "../../filter/index.ts";
import type { WatchedObject } from "../../kube/index.ts";
import type { Json, JsonObject } from "../../model/index.ts";

/** The JSON text of one version of one object, shared by all bindings that store it. */
export interface SharedText {
  readonly key: string;
  readonly bytes: Uint8Array;
  referenceCount: number;
}

/** Neither `value` nor `error` = there is no filter. */
export interface FilterOutcome {
  readonly value?: Json;
  readonly error?: unknown;
}

/** By text of the filter. */
type OutcomeByFilter = Map<string, FilterOutcome | Promise<FilterOutcome>>;

/**
 * Data that bindings share. Texts of full objects: bytes outside the JavaScript heap are the smallest form that can be written into a context
 * unchanged (a parsed object takes two to four times as much). Filter results of objects in progress: equal filters are evaluated once per object.
 */
export class SharedObjects {
  readonly #texts = new Map<string, SharedText>();
  readonly #outcomes = new WeakMap<object, OutcomeByFilter>();

  /** The shared text of `object`; the caller gives it back with `releaseText`. `flavour` distinguishes forms of the same object (with `managedFields`). */
  acquireText(object: WatchedObject, flavour: string): SharedText {
    const { uid = "", resourceVersion = "" } = object.metadata;
    const key = `${uid}/${resourceVersion}/${object.apiVersion}${flavour}`;
    const sharedText = this.#texts.get(key);
    if (sharedText !== undefined) {
      sharedText.referenceCount += 1;
      return sharedText;
    }
    const text: SharedText = { key, bytes: toExactBytes(object), referenceCount: 1 };
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
  evaluate(filter: Filter, object: WatchedObject): FilterOutcome | Promise<FilterOutcome> {
    let outcomeByFilter = this.#outcomes.get(object);
    if (outcomeByFilter === undefined) {
      outcomeByFilter = new Map();
      this.#outcomes.set(object, outcomeByFilter);
    }
    const known = outcomeByFilter.get(filter.text);
    if (known !== undefined) return known;
    const outcome = evaluateWithRetry(filter, object, 2);
    outcomeByFilter.set(filter.text, outcome);
    return outcome;
  }
}

/** The JSON text in a buffer of exactly its size: a slice of Node's shared pool would keep the whole pool alive. */
function toExactBytes(object: JsonObject): Uint8Array {
  const text = JSON.stringify(object);
  const bytes = Buffer.allocUnsafeSlow(Buffer.byteLength(text));
  bytes.write(text);
  return bytes;
}

/** Evaluates a filter up to `triesLeft` times; an error becomes an outcome. Waits only if jq, a process, evaluates this filter. */
function evaluateWithRetry(
  filter: Filter,
  object: WatchedObject,
  triesLeft: number,
): FilterOutcome | Promise<FilterOutcome> {
  const retryOrFail = (error: unknown): FilterOutcome | Promise<FilterOutcome> =>
    triesLeft > 1 && !isRetryUseless(error) ? evaluateWithRetry(filter, object, triesLeft - 1) : { error };
  try {
    const value = filter.evaluate(object);
    return value instanceof Promise ? value.then((result) => ({ value: result }), retryOrFail) : { value };
  } catch (error) {
    return retryOrFail(error);
  }
}

/** Whether another try is useless: it would fail in the same way, or (after a time-out) jq has been tried twice already. */
function isRetryUseless(error: unknown): boolean {
  return error instanceof FilterError && (error.failure === "runtime" || error.failure === "timeout");
}
