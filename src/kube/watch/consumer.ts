/** The consumer of a watch, and its member of the shared watch, which delivers lists and changes to it. */

import type { Failures } from "../../lib/index.ts";
import type { WatchErrorType } from "./reflector.ts";
import { isLater, type WatchSpec, type WatchedObject } from "./watch-spec.ts";

/**
 * Consumer of a watch. The hub calls `onListStart`, `onListed` for each existing object, and `onSynced`; from then on
 * `onApplied` and `onDeleted` in order. Consumers share the objects: never change them. A returned promise is
 * back-pressure: the watch waits while too many are pending; the order stays the same.
 */
export interface WatchConsumer {
  /** Consumers of one watch are served in the order of their ranks (text order); default "". */
  readonly rank?: string;
  /** The first list begins, or begins again: forget the objects delivered so far. Never called after `onSynced`. */
  onListStart?(): void;
  onListed(object: WatchedObject): Promise<void> | void;
  /** The list is complete, as of `version`. */
  onSynced(version: string): Promise<void> | void;
  /** The object is new or in another version than delivered before. */
  onApplied(object: WatchedObject): Promise<void> | void;
  /**
   * The object is deleted or no longer selected; it may never have been delivered. `complete` is false if a new list showed the deletion: `object`
   * then has only apiVersion, kind, namespace, name, uid and the resourceVersion of that list.
   */
  onDeleted(object: WatchedObject, complete: boolean): Promise<void> | void;
  /**
   * A new list as of `version` is complete. For consumers that also know objects from other sources: an object that is
   * not in `keys` (see `objectKey`) and not newer is deleted, though the watch never saw it and does not call `onDeleted`.
   */
  onRelisted?(keys: ReadonlySet<string>, version: string): void;
  /**
   * The server's etcd was restored to an earlier state. Versions seen so far, also in answers, cannot be compared any
   * more: a new list follows and delivers every object by `onApplied` or `onDeleted`.
   */
  onEtcdRestored?(): void;
  /**
   * The newest version that the consumer knows, also from answers; "" = none. After a failure of the watch, a server whose
   * newest version is older was restored to an earlier state.
   */
  getNewestVersion?(): string;
  /** The watch fails and is retried; undefined = it works again. */
  onError?(error: Error | undefined): void;
}

export interface Subscription {
  /** Resolves when the consumer's `onSynced` has been called; never if the subscription is closed before. */
  readonly whenSynced: Promise<void>;
  /** Ends the delivery; the last subscription closes the watch. Idempotent. */
  close(): void;
}

/** Counts failures and new lists of watches. */
export interface WatchObserver {
  /** A list or watch failed and is tried again. */
  onFailure(type: WatchErrorType): void;
  /** A synced watch had to list everything again. */
  onRelist(spec: WatchSpec): void;
}

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
    if (this.#isClosed) return;
    // Versions from before and after a restore of the etcd cannot be compared: then no change is dropped.
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
    const isInList = this.#listVersion !== "" && !isLater(version, this.#listVersion);
    if (isInList) return undefined;
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

  /**
   * Calls the consumer, unless it is closed, and counts the promise that it returns until that settles. Reports its errors, which must
   * neither stop the watch nor reach other consumers.
   */
  #callConsumer(act: ConsumerCall): void {
    if (this.#isClosed) return;
    const report = (error: unknown): void => this.#failures.report("watch", error);
    try {
      const answer: unknown = act(this.consumer);
      // A consumer typed `void` may still return a value.
      if (!(answer instanceof Promise)) return;
      const settled: Promise<void> = answer
        .catch(report)
        .then(() => void this.#pendingPromises.delete(settled));
      this.#pendingPromises.add(settled);
    } catch (error) {
      report(error);
    }
  }

  /**
   * Back-pressure: returns a promise that resolves when fewer than `limit` promises of the consumer are pending. Undefined if they are fewer
   * already, so that callers need not await: a promise per event would be slow.
   */
  #waitIfBusy(limit: number): Promise<void> | undefined {
    return this.#pendingPromises.size < limit ? undefined : this.#waitUntilBelow(limit);
  }

  async #waitUntilBelow(limit: number): Promise<void> {
    while (this.#pendingPromises.size >= limit && !this.#isClosed) await Promise.race(this.#pendingPromises);
  }
}

/** Joins the promises of several members for back-pressure; undefined when no member is busy. */
export function waitForAll(promises: readonly (Promise<void> | undefined)[]): Promise<void> | undefined {
  const pending = promises.filter((promise) => promise !== undefined);
  return pending.length === 0 ? undefined : Promise.all(pending).then(() => {});
}
