/** The interfaces of those who use a watch: the consumer of its events, its subscription, and the observer of all watches. */

import type { WatchErrorType } from "./reflector.ts";
import type { WatchSpec, WatchedObject } from "./watch-spec.ts";

/**
 * Consumer of a watch. The hub calls `onListed` for each existing object, again if the list begins again after a failure, and `onSynced`; from then
 * on `onApplied` and `onDeleted` in order. Consumers share the objects: never change them. A returned promise is back-pressure: the watch waits while
 * too many are pending; the order stays the same.
 */
export interface WatchConsumer {
  /** Consumers of one watch are served in the order of their ranks (text order); default "". */
  readonly rank?: string;
  onListed(object: WatchedObject): Promise<void> | void;
  /**
   * The server had exactly the delivered objects as of `version`: the first list is complete, or later another list or a check of the known objects. An
   * object that the consumer knows from another source is deleted if it was not delivered and is not newer.
   */
  onSynced(version: string): Promise<void> | void;
  /** The object is new or in another version than delivered before. */
  onApplied(object: WatchedObject): Promise<void> | void;
  /**
   * The object is deleted or no longer selected; it may never have been delivered. `isLastState` is false if a new list showed the deletion: `object`
   * then has only apiVersion, kind, namespace, name, uid and the resourceVersion of that list.
   */
  onDeleted(object: WatchedObject, isLastState: boolean): Promise<void> | void;
  /**
   * The server's etcd was restored to an earlier state, or may have been because the first list begins again. Versions seen so far, also in
   * answers, cannot be compared any more: a list follows that delivers every object.
   */
  onEtcdRestored?(): void;
  /**
   * The newest version that the consumer knows from answers; "" = none. After a failure of the watch, a server whose newest
   * version is older was restored to an earlier state.
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
