/** Extracts from an object what a binding keeps of it. */

import type { WatchedObject } from "../../../kube/index.ts";
import { DepthError, isCut } from "../../../lib/index.ts";
import type { Clock } from "../../../lib/index.ts";
import type { Json, KubernetesBinding, SnapshotItem } from "../../../model/index.ts";
import type { CachedObject } from "./monitor-cache.ts";
import type { CompiledFilter, FilterMemo, FilterOutcome } from "./monitor-filter.ts";
import { checksumOf } from "./monitor-filter.ts";
import type { TextPool } from "./monitor-text.ts";
import { snapshotItem } from "./monitor-text.ts";

export interface ExtractOptions {
  readonly binding: KubernetesBinding;
  readonly filter: CompiledFilter | undefined;
  readonly pool: TextPool;
  readonly memo: FilterMemo;
  readonly clock: Clock;
  /** `--keep-managed-fields`. */
  readonly keepManagedFields: boolean;
  /** Called with the time that each evaluation of the filter took. */
  readonly onFiltered: (seconds: number) => void;
}

/** The result of a filter; undefined without one. */
export type Result = { readonly value: Json } | undefined;

/** What a binding keeps of an object: its text if it wants full objects, the filter's result if it has a filter. */
export class Extract {
  readonly #options: ExtractOptions;
  /** Whether objects come with `managedFields`. */
  readonly keepManagedFields: boolean;

  constructor(options: ExtractOptions) {
    this.#options = options;
    this.keepManagedFields = options.keepManagedFields || options.filter?.namesManagedFields === true;
  }

  /** Runs the filter; undefined without one. What is nested too deep is an error. Never rejects. */
  evaluate(object: WatchedObject): FilterOutcome | Promise<FilterOutcome> | undefined {
    const { filter, memo, clock, onFiltered } = this.#options;
    if (isCut(object)) return { error: new DepthError("the object") };
    if (filter === undefined) return undefined;
    const begun = clock.monotonic();
    const took = (): void => onFiltered((clock.monotonic() - begun) / 1000);
    const outcome = memo.evaluate(filter, object);
    if (outcome instanceof Promise) void outcome.then(took);
    else took();
    return outcome;
  }

  /** What is kept while the object is there. */
  entry(object: WatchedObject, result: Result): CachedObject {
    const { binding, pool } = this.#options;
    const text = binding.keepFullObjects ? pool.hold(object, this.keepManagedFields ? "+" : "") : undefined;
    return { checksum: checksumOf(object, result), text, item: snapshotItem(text?.bytes, result) };
  }

  /** What a binding is given of an object that is not kept. */
  item(object: WatchedObject, result: Result): SnapshotItem {
    const item = snapshotItem(undefined, result);
    return this.#options.binding.keepFullObjects ? { object, ...item } : item;
  }
}
