/** Shares watches, one for each distinct spec, among their consumers. */

import { Failures, sleep, whenAll } from "../../lib/index.ts";
import type { Subscription, WatchConsumer, WatchObserver } from "./consumer.ts";
import { listObjects } from "./list.ts";
import { classifyError, computeRetryDelay } from "./reflector.ts";
import { SharedWatch, WatchMember, type SharedWatchOptions } from "./shared-watch.ts";
import { toSpecKey, type WatchSpec } from "./watch-spec.ts";

/** Without `failures`, errors that consumers throw are logged. Tests replace `random`. */
type HubOptions = Pick<SharedWatchOptions, "client" | "clock" | "logger"> &
  Partial<Pick<SharedWatchOptions, "failures" | "random" | "checkMs">>;

/** Shares one watch for each distinct spec. Stores only the version of each object; consumers store what they need. */
export class WatchHub {
  readonly #options: SharedWatchOptions;
  readonly #sharedWatches = new Map<string, SharedWatch>();
  /** Watches whose late members are being listed for, or wait for the first list. */
  readonly #joining = new WeakSet<SharedWatch>();
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
    void this.#listForLateMembers(sharedWatch);
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
  /** Lists the objects for members that came after the first list had begun, until none is left. Retries a failed list. */
  async #listForLateMembers(watch: SharedWatch): Promise<void> {
    if (this.#joining.has(watch)) return;
    this.#joining.add(watch);
    // Also gives other members time to subscribe, which then share the list.
    await watch.firstListed.promise;
    const { signal } = watch.abortController;
    for (let failures = 0; !signal.aborted;) {
      const joiners = watch.lateMembers;
      if (joiners.length === 0) break;
      try {
        await this.#listForMembers(watch, joiners, failures > 1);
        failures = 0;
      } catch (error) {
        if (signal.aborted) break;
        failures += 1;
        const remedy = classifyError(error);
        // A list that expires before its last page is no error: it is repeated.
        if (remedy.kind !== "expired" && error instanceof Error)
          for (const member of joiners) member.reportError(error);
        const delay = computeRetryDelay(remedy, failures, this.#options.random());
        await sleep(this.#options.clock, delay, signal);
      }
    }
    this.#joining.delete(watch);
  }

  /** Delivers one list to these members. `unpaged`: lists of several pages have expired before they were complete. */
  async #listForMembers(
    watch: SharedWatch,
    joiners: readonly WatchMember[],
    unpaged: boolean,
  ): Promise<void> {
    const options = { ...this.#options, unpaged, signal: watch.abortController.signal };
    for (const member of joiners) member.startList();
    const version = await listObjects(watch.spec, options, (object) =>
      whenAll(joiners.map((member) => member.deliverListed(object))),
    );
    await Promise.all(joiners.map((member) => member.completeList(version)));
    // Clears errors of earlier tries, unless the watch itself fails.
    if (watch.lastError === undefined) for (const member of joiners) member.reportError(undefined);
  }
}
