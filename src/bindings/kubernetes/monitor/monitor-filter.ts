/** Runs the filters of bindings, once for equal ones. */

import { hash } from "node:crypto";

import { FilterError } from "../../../filter/index.ts";
import type { WatchedObject } from "../../../kube/index.ts";
import type { Json, JsonObject } from "../../../model/index.ts";

/** A compiled jq filter, as the filter room makes it. */
export interface CompiledFilter {
  readonly text: string;
  readonly namesManagedFields: boolean;
  evaluate(object: JsonObject): Json | Promise<Json>;
}

/** The outcome of a filter. */
export type FilterOutcome = { readonly value: Json } | { readonly error: unknown };

/** Filter results of objects being processed: equal filters are computed once for each object. */
export class FilterMemo {
  readonly #outcomes = new WeakMap<object, Map<string, FilterOutcome | Promise<FilterOutcome>>>();

  /** The outcome, at once where the filter answers at once; when jq failed it is tried once more. Never rejects. */
  evaluate(filter: CompiledFilter, object: WatchedObject): FilterOutcome | Promise<FilterOutcome> {
    let outcomes = this.#outcomes.get(object);
    if (outcomes === undefined) this.#outcomes.set(object, (outcomes = new Map()));
    let outcome = outcomes.get(filter.text);
    if (outcome === undefined) {
      outcome = attempt(filter, object, 2);
      outcomes.set(filter.text, outcome);
    }
    return outcome;
  }
}

function attempt(
  filter: CompiledFilter,
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

const LONGEST_PLAIN = 64;

/**
 * Equal for equal states of an object, as a binding sees them: the filter's result, or without a filter the
 * version, which changes with every write.
 */
export function checksumOf(object: WatchedObject, result: { readonly value: Json } | undefined): string {
  const { uid = "", resourceVersion = "" } = object.metadata;
  if (result === undefined) return `${uid}/${resourceVersion}`;
  const text = JSON.stringify(result.value);
  return text.length <= LONGEST_PLAIN ? text : hash("sha256", text, "base64url");
}
