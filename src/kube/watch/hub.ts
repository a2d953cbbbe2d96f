/** Shares watches, one for each distinct spec, among their consumers. */

import { Failures } from "../../base/index.ts";
import type { Subscription, WatchConsumer, WatchObserver } from "./consumer.ts";
import { SharedWatch, WatchMember, type SharedWatchOptions } from "./shared-watch.ts";
import { toSpecKey, type WatchSpec } from "./watch-spec.ts";

/** Without `failures`, errors that consumers throw are logged. Tests replace `random`. */
type HubOptions = Pick<SharedWatchOptions, "client" | "clock" | "logger"> &
  Partial<Pick<SharedWatchOptions, "failures" | "random" | "compareMs">>;

/** Shares one watch for each distinct spec. Stores only the version of each object; consumers store what they need. */
export class WatchHub {
  readonly #options: SharedWatchOptions;
  readonly #sharedWatches = new Map<string, SharedWatch>();
  /** Notified of failures and repeated lists of all watches. */
  observer: WatchObserver | undefined;

  constructor(options: HubOptions) {
    const failures = options.failures ?? new Failures(options.logger);
    // An error of the observer must not end a watch.
    const observer: WatchObserver = {
      onFailure: (type) => failures.callAndReport("watch", () => this.observer?.onFailure(type)),
      onRelist: (spec) => failures.callAndReport("watch", () => this.observer?.onRelist(spec)),
    };
    this.#options = { random: Math.random, ...options, failures, observer };
  }

  /**
   * Delivers the existing objects and then every change to the consumer. Opens a watch, or joins the one of an equal
   * spec: then a separate list delivers the existing objects.
   */
  subscribe(spec: WatchSpec, consumer: WatchConsumer): Subscription {
    const key = toSpecKey(spec);
    const sharedWatch = this.#sharedWatches.get(key) ?? new SharedWatch(spec, this.#options);
    this.#sharedWatches.set(key, sharedWatch);
    const member = new WatchMember(consumer, this.#options.failures);
    sharedWatch.add(member);
    const close = (): void => {
      const wasLast = sharedWatch.remove(member);
      if (!wasLast) return;
      sharedWatch.close();
      // A second call may find a newer watch under the key.
      if (this.#sharedWatches.get(key) === sharedWatch) this.#sharedWatches.delete(key);
    };
    return { whenSynced: member.whenSynced.promise, close };
  }

  /** Counts the watches that work, and the ones that fail and are retried. */
  countWatches(): { readonly open: number; readonly broken: number } {
    const broken = [...this.#sharedWatches.values()].filter(
      ({ lastError }) => lastError !== undefined,
    ).length;
    return { open: this.#sharedWatches.size - broken, broken };
  }

  close(): void {
    for (const shared of this.#sharedWatches.values()) shared.close();
    this.#sharedWatches.clear();
  }
}
