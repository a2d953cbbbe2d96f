/** What a watch delivers to its consumers and observers, and what all watches share. */

import type { Clock, Failures, Logger } from "../../lib/index.ts";
import type { KubeClient } from "../client/client.ts";
import type { WatchErrorType } from "./reflector.ts";
import type { WatchSpec, WatchedObject } from "./watch-spec.ts";

/**
 * Consumer of a watch. The hub calls `begin`, `object` for each existing object, and `synced`; from then on `applied`
 * and `deleted` in order. Consumers share the objects: never change them. A returned promise is
 * back-pressure: the watch waits while too many are pending; the order stays the same.
 */
export interface WatchConsumer {
  /** Consumers of one watch are served in the order of their ranks (text order); default "". */
  readonly rank?: string;
  /** The first list begins, or begins again: forget the objects delivered so far. Never after `synced`. */
  begin?(): void;
  object(object: WatchedObject): Promise<void> | void;
  /** The list is complete, as of `version`. */
  synced(version: string): Promise<void> | void;
  /** The object is new or in another version than delivered before. */
  applied(object: WatchedObject): Promise<void> | void;
  /**
   * The object is deleted or no longer selected; it may never have been delivered. `complete` is false if a new list
   * showed the deletion: `object` then has only apiVersion, kind, namespace, name, uid and the resourceVersion of that
   * list.
   */
  deleted(object: WatchedObject, complete: boolean): Promise<void> | void;
  /**
   * A new list as of `version` is complete. For consumers that also know objects from other sources: an object that is
   * not in `keys` (see `objectKey`) and not newer is deleted, though the watch never saw it and calls no `deleted`.
   */
  relisted?(keys: ReadonlySet<string>, version: string): void;
  /**
   * The server's etcd was restored to an earlier state. Versions seen so far, also in answers, cannot be compared any
   * more: a new list follows and delivers every object as `applied` or `deleted`.
   */
  putBack?(): void;
  /**
   * The newest version that the consumer knows, also from answers; "" = none. After a failure of the watch, a server whose
   * newest version is older was restored to an earlier state.
   */
  newest?(): string;
  /** The watch does not work now and is retried; undefined = it works again. */
  issue?(error: Error | undefined): void;
}

/** A consumer's subscription to a watch. */
export interface Subscription {
  /** Resolves when the consumer's `synced` has been called; never if the subscription is closed before. */
  readonly synced: Promise<void>;
  /** Ends the delivery; the last subscription closes the watch. Idempotent. */
  close(): void;
}

/** Counts failures and new lists of watches. */
export interface WatchObserver {
  /** A list or watch failed and is tried again. */
  failed(type: WatchErrorType): void;
  /** A synced watch had to list everything again. */
  relisted(spec: WatchSpec): void;
}

/** What a hub needs. `random` (in [0, 1)) is for tests. */
export interface HubOptions {
  readonly client: Pick<KubeClient, "stream">;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Called with errors that consumers throw. */
  readonly failures?: Failures;
  readonly random?: () => number;
}

/** What all watches of a hub share. */
export type HubTools = Required<HubOptions> & { readonly observer: WatchObserver };
