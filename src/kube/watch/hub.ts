/** Shares watches, one for each distinct spec, among their consumers. */

import { Failures, type Clock, type Logger } from "../../lib/index.ts";
import type { KubeClient } from "../client/client.ts";
import type { WatchErrorType } from "./reflector.ts";
import { Member } from "./member.ts";
import { SharedWatch } from "./shared-watch.ts";
import { specKey, type WatchSpec, type WatchedObject } from "./watch-spec.ts";

/** What a hub needs. `random` (in [0, 1)) is for tests. */
interface HubOptions {
  readonly client: Pick<KubeClient, "stream">;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Called with what consumers throw. */
  readonly failures?: Failures;
  readonly random?: () => number;
}

/** Counts what happens to watches. */
export interface WatchObserver {
  /** A list or watch failed and is tried again. */
  failed(type: WatchErrorType): void;
  /** A watch that was complete had to list everything anew. */
  relisted(spec: WatchSpec): void;
}

/** What all watches of a hub share. */
export type HubTools = Required<HubOptions> & { readonly observer: WatchObserver };

/** A consumer's subscription to a watch. */
export interface Subscription {
  /** Resolves when the consumer's `synced` has been called; never when it is closed before. */
  readonly synced: Promise<void>;
  /** Nothing is delivered from now on; the last consumer closes the watch. Idempotent. */
  close(): void;
}

/**
 * One watch for each distinct spec, shared by all who want it. The hub keeps no objects, only the version of each
 * that it has seen; consumers keep what they need.
 */
export class WatchHub {
  readonly #options: HubTools;
  readonly #shared = new Map<string, SharedWatch>();
  readonly #observers: WatchObserver[] = [];

  constructor(options: HubOptions) {
    const failures = options.failures ?? new Failures(options.logger);
    const observer: WatchObserver = {
      failed: (type) => failures.guard("watch", () => this.#observers.forEach((each) => each.failed(type))),
      relisted: (spec) => this.#observers.forEach((each) => each.relisted(spec)),
    };
    this.#options = { random: Math.random, ...options, failures, observer };
  }

  /** Reports on all watches to `observer` from now on. */
  onWatch(observer: WatchObserver): void {
    this.#observers.push(observer);
  }

  /**
   * Delivers what is there and then every change. A late consumer gets a list of its own and then joins the watch.
   */
  subscribe(spec: WatchSpec, consumer: WatchConsumer): Subscription {
    const key = specKey(spec);
    let shared = this.#shared.get(key);
    if (shared === undefined) {
      shared = new SharedWatch(spec, this.#options);
      this.#shared.set(key, shared);
    }
    const member = new Member(consumer, this.#options.failures);
    const joined = shared;
    joined.add(member);
    return { synced: member.synced.promise, close: () => this.#leave(key, joined, member) };
  }

  /** How many watches work, and how many have failed and are tried again. */
  count(): { readonly open: number; readonly broken: number } {
    const broken = [...this.#shared.values()].filter(({ isBroken }) => isBroken).length;
    return { open: this.#shared.size - broken, broken };
  }

  /** Closes all watches. */
  close(): void {
    for (const shared of this.#shared.values()) shared.close();
    this.#shared.clear();
  }

  #leave(key: string, shared: SharedWatch, member: Member): void {
    if (!shared.remove(member)) return;
    shared.close();
    if (this.#shared.get(key) === shared) this.#shared.delete(key);
  }
}

/**
 * Consumer of a watch. First come `begin`, an `object` for each that is there, and `synced`; from then on `applied`
 * and `deleted` in order. Objects are shared between consumers: never change them. A returned promise is
 * back-pressure: the watch waits while too many are pending; the order stays the same.
 */
export interface WatchConsumer {
  /** Consumers of one watch are served in the order of their ranks (text order); default "". */
  readonly rank?: string;
  /** The first list begins, or begins again: forget the objects delivered so far. Never after `synced`. */
  begin?(): void;
  object(object: WatchedObject): Promise<void> | void;
  /** The list is complete, true for `version`. */
  synced(version: string): Promise<void> | void;
  /** The object is new or in another version than delivered before. */
  applied(object: WatchedObject): Promise<void> | void;
  /**
   * The object is gone, or no longer selected; it may be one that was never delivered. `complete` is false when
   * that was found out by a new list: then only apiVersion, kind, namespace, name and uid are there, and the
   * resourceVersion of that list.
   */
  deleted(object: WatchedObject, complete: boolean): Promise<void> | void;
  /**
   * Everything was listed anew, for `version`. For consumers that learn of objects elsewhere too: an object that is
   * not among `keys` (as of `objectKey`) and not newer is gone, though the watch has never seen it and reports no
   * deletion.
   */
  relisted?(keys: ReadonlySet<string>, version: string): void;
  /**
   * The server's etcd was put back to an earlier state. Versions seen so far, also in answers, are no measure any more:
   * a new list follows, and delivers every object as `applied` or `deleted`.
   */
  putBack?(): void;
  /** The watch does not work now and is retried; undefined = it works again. */
  trouble?(error: Error | undefined): void;
}
