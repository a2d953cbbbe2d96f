/** Shares watches, one for each distinct spec, among their consumers. */

import { Failures } from "../../lib/index.ts";
import type { HubOptions, HubTools, Subscription, WatchConsumer, WatchObserver } from "./consumer.ts";
import { WatchMember } from "./member.ts";
import { SharedWatch } from "./shared-watch.ts";
import { toSpecKey, type WatchSpec } from "./watch-spec.ts";

/** Shares one watch for each distinct spec. Stores only the version of each object; consumers store what they need. */
export class WatchHub {
  readonly #options: HubTools;
  readonly #sharedWatches = new Map<string, SharedWatch>();
  readonly #observers: WatchObserver[] = [];

  /** Each watch reports to one observer, which passes it on to those that were added. An error of theirs must not end a watch. */
  constructor(options: HubOptions) {
    const failures = options.failures ?? new Failures(options.logger);
    const observer: WatchObserver = {
      onFailure: (type) =>
        failures.callAndReport("watch", () => this.#observers.forEach((each) => each.onFailure(type))),
      onRelist: (spec) =>
        failures.callAndReport("watch", () => this.#observers.forEach((each) => each.onRelist(spec))),
    };
    this.#options = { random: Math.random, ...options, failures, observer };
  }

  /** Reports failures and repeated lists of all watches to `observer` from now on. */
  addObserver(observer: WatchObserver): void {
    this.#observers.push(observer);
  }

  /**
   * Delivers the existing objects and then every change to the consumer. Opens a watch, or joins the one of an equal
   * spec: then a separate list delivers the existing objects.
   */
  subscribe(spec: WatchSpec, consumer: WatchConsumer): Subscription {
    const key = toSpecKey(spec);
    const shared = this.#sharedWatches.get(key) ?? new SharedWatch(spec, this.#options);
    this.#sharedWatches.set(key, shared);
    const member = new WatchMember(consumer, this.#options.failures);
    shared.add(member);
    return {
      whenSynced: member.whenSynced.promise,
      close: () => this.#unsubscribe(key, shared, member),
    };
  }

  /** Counts the watches that work, and the ones that fail and are retried. */
  countWatches(): { readonly open: number; readonly broken: number } {
    const broken = [...this.#sharedWatches.values()].filter(({ isFailing }) => isFailing).length;
    return { open: this.#sharedWatches.size - broken, broken };
  }

  /** Closes all watches. */
  close(): void {
    for (const shared of this.#sharedWatches.values()) shared.close();
    this.#sharedWatches.clear();
  }

  /** Removes a consumer from its watch; the last consumer closes the watch. */
  #unsubscribe(key: string, shared: SharedWatch, member: WatchMember): void {
    const wasLast = shared.remove(member);
    if (!wasLast) return;
    shared.close();
    // A second call may find a newer watch under the key.
    if (this.#sharedWatches.get(key) === shared) this.#sharedWatches.delete(key);
  }
}
