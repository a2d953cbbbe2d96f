/** One consumer of a shared watch and its progress. */

import type { Failures } from "../../lib/index.ts";
import type { WatchConsumer } from "./consumer.ts";
import { isLater, type WatchedObject } from "./watch-spec.ts";

/** Calls one method of a consumer. */
export type ConsumerCall = (consumer: WatchConsumer) => Promise<void> | void;

/** Back-pressure: the watch waits while a consumer has this many pending promises. */
const MAX_PENDING_PROMISES = 64;

/**
 * Delivers a list and then the changes to one consumer. A member that joins a running watch gets a list of its own; changes
 * that the watch reports meanwhile are buffered, and dropped if the list contains them.
 */
export class WatchMember {
  readonly consumer: WatchConsumer;
  readonly whenSynced = Promise.withResolvers<void>();
  /** The version of the member's list: it contains all changes up to this version. */
  #listVersion = "";
  /** The list is complete: changes are delivered at once. */
  isLive = false;
  /** The etcd was restored: versions can no longer show which changes the list contains. */
  #isEtcdRestored = false;
  #isClosed = false;
  #hasReportedError = false;
  /** Changes buffered until the member's own list is complete. */
  #bufferedChanges: { readonly version: string; readonly act: ConsumerCall }[] = [];
  readonly #failures: Failures;
  readonly #pendingPromises = new Set<Promise<void>>();

  constructor(consumer: WatchConsumer, failures: Failures) {
    this.consumer = consumer;
    this.#failures = failures;
  }

  /** A list begins, maybe again after a failure. */
  startList(): void {
    this.#callConsumer((each) => each.onListStart?.());
  }

  /** Delivers one object of the list. Resolves when the consumer is ready for more; undefined = at once. */
  deliverListed(object: WatchedObject): Promise<void> | undefined {
    this.#callConsumer((each) => each.onListed(object));
    return this.#waitIfBusy(MAX_PENDING_PROMISES);
  }

  /** The member's list is complete as of `version`: delivers the buffered changes that are later; new ones follow. */
  async completeList(version: string): Promise<void> {
    // All calls for the list end before `onSynced`.
    await this.#waitIfBusy(1);
    if (!this.#isEtcdRestored) this.#listVersion = version;
    this.isLive = true;
    this.#callConsumer((each) => each.onSynced(version));
    this.whenSynced.resolve();
    const buffered = this.#bufferedChanges;
    this.#bufferedChanges = [];
    // Do not await: a new change must not be delivered between the buffered ones.
    for (const change of buffered) void this.deliverChange(change.version, change.act);
  }

  /**
   * Delivers a change; buffers it until the list is complete, and drops it if its `version` shows that the list contains
   * it. Resolves when the consumer is ready for more; undefined = at once.
   */
  deliverChange(version: string, act: ConsumerCall): Promise<void> | undefined {
    if (!this.isLive) {
      this.#bufferedChanges.push({ version, act });
      return undefined;
    }
    if (this.#listVersion !== "" && !isLater(version, this.#listVersion)) return undefined;
    this.#callConsumer(act);
    return this.#waitIfBusy(MAX_PENDING_PROMISES);
  }

  /** The server's etcd was restored: the versions of buffered changes and of the list in progress cannot be compared any more. */
  handleEtcdRestored(): void {
    this.#isEtcdRestored = true;
    this.#listVersion = "";
    this.#bufferedChanges = [];
    this.#callConsumer((each) => each.onEtcdRestored?.());
  }

  /** The newest version that the consumer knows; "" = none. */
  getNewestVersion(): string {
    return this.consumer.getNewestVersion?.() ?? "";
  }

  /** Reports an error of the watch, or (undefined) that it works again, which is reported only after an error. */
  reportError(error: Error | undefined): void {
    if (error === undefined && !this.#hasReportedError) return;
    this.#hasReportedError = error !== undefined;
    this.#callConsumer((each) => each.onError?.(error));
  }

  /** Ends all calls of the consumer. */
  close(): void {
    this.#isClosed = true;
    this.#bufferedChanges = [];
  }

  /** Calls the consumer, unless it is closed. Reports its errors, which must neither stop the watch nor reach other consumers. */
  #callConsumer(act: ConsumerCall): void {
    if (this.#isClosed) return;
    try {
      const answer: unknown = act(this.consumer);
      // A consumer typed `void` may still return a value.
      if (answer instanceof Promise) this.#trackPromise(answer);
    } catch (error) {
      this.#failures.report("watch", error);
    }
  }

  /** Counts a promise of the consumer until it settles, and reports its rejection. */
  #trackPromise(promise: Promise<void>): void {
    const settled = promise
      .catch((error: unknown) => this.#failures.report("watch", error))
      .then(() => void this.#pendingPromises.delete(settled));
    this.#pendingPromises.add(settled);
  }

  /** Back-pressure. Undefined, so that callers need not await, while fewer than `limit` promises are pending: one per event would be slow. */
  #waitIfBusy(limit: number): Promise<void> | undefined {
    return this.#pendingPromises.size < limit ? undefined : this.#waitUntilBelow(limit);
  }

  async #waitUntilBelow(limit: number): Promise<void> {
    while (this.#pendingPromises.size >= limit && !this.#isClosed) await Promise.race(this.#pendingPromises);
  }
}
