/** Shares watches, one for each distinct spec, among their consumers. */

import { Failures, type Clock, type Logger } from "../../lib/index.ts";
import type { KubeClient } from "../client/client.ts";
import { SharedWatch } from "./shared-watch.ts";
import type { WatchErrorType } from "./reflector.ts";
import { specKey, isLater, type WatchSpec, type WatchedObject } from "./watch-spec.ts";

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
    return { synced: member.synced, close: () => this.#leave(key, joined, member) };
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
  /** The watch does not work now and is retried; undefined = it works again. */
  trouble?(error: Error | undefined): void;
}

/** A change on its way to the members; `version` orders it against a member's own list. */
export interface Change {
  readonly type: "applied" | "deleted";
  readonly object: WatchedObject;
  readonly complete: boolean;
  readonly version: string;
}

/** Changes that wait for a member's own list. */
interface Late {
  readonly version: string;
  readonly act: () => Promise<void> | void;
}

/** Most pending promises of consumers before the watch waits for them. */
const MOST_OUTSTANDING = 64;

/** A consumer and how far it has come. */
export class Member {
  readonly consumer: WatchConsumer;
  readonly synced: Promise<void>;
  /** Live changes up to this version are part of the member's own list. */
  #floor = "";
  #live = false;
  #closed = false;
  #troubled = false;
  #held: Late[] = [];
  readonly #failures: Failures;
  readonly #outstanding = new Set<Promise<void>>();
  readonly #resolveSynced: () => void;

  constructor(consumer: WatchConsumer, failures: Failures) {
    this.consumer = consumer;
    this.#failures = failures;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.synced = promise;
    this.#resolveSynced = resolve;
  }

  get live(): boolean {
    return this.#live;
  }

  begin(): void {
    this.#call(() => this.consumer.begin?.());
  }

  listed(object: WatchedObject): Promise<void> | undefined {
    this.#call(() => this.consumer.object(object));
    return this.#room(MOST_OUTSTANDING);
  }

  /** The member's list is complete at `version`: held changes after it follow, then all new ones. */
  async complete(version: string): Promise<void> {
    await this.#room(1);
    this.#floor = version;
    this.#live = true;
    this.#call(() => this.consumer.synced(version));
    this.#resolveSynced();
    const held = this.#held;
    this.#held = [];
    // Without waiting: a new change must not get in between.
    for (const { version: at, act } of held) void this.#deliver(at, act);
  }

  /** Delivers a change, holds it until the list is complete, or drops it when the list contained it. */
  change(change: Change): Promise<void> | undefined {
    const { type, object, complete, version } = change;
    return this.#deliver(version, () =>
      type === "applied" ? this.consumer.applied(object) : this.consumer.deleted(object, complete),
    );
  }

  /** As `change`, after everything was listed anew. */
  relisted(keys: ReadonlySet<string>, version: string): void {
    void this.#deliver(version, () => this.consumer.relisted?.(keys, version));
  }

  #deliver(version: string, act: () => Promise<void> | void): Promise<void> | undefined {
    if (!this.#live) {
      this.#held.push({ version, act });
      return undefined;
    }
    if (this.#floor !== "" && !isLater(version, this.#floor)) return undefined;
    this.#call(act);
    return this.#room(MOST_OUTSTANDING);
  }

  trouble(error: Error | undefined): void {
    if (error === undefined && !this.#troubled) return;
    this.#troubled = error !== undefined;
    this.#call(() => this.consumer.trouble?.(error));
  }

  close(): void {
    this.#closed = true;
    this.#held = [];
  }

  // One consumer's error must neither stop the watch nor reach the others.
  #call(act: () => Promise<void> | void): void {
    if (this.#closed) return;
    try {
      const answer: unknown = act();
      // A consumer that promises nothing may still answer something.
      if (answer instanceof Promise) this.#track(answer);
    } catch (error) {
      this.#failed(error);
    }
  }

  #track(promise: Promise<void>): void {
    const over = promise
      .catch((error: unknown) => this.#failed(error))
      .then(() => void this.#outstanding.delete(over));
    this.#outstanding.add(over);
  }

  #failed(error: unknown): void {
    this.#failures.report("watch", error);
  }

  // undefined while fewer than `limit` promises are outstanding.
  #room(limit: number): Promise<void> | undefined {
    return this.#outstanding.size < limit ? undefined : this.#untilBelow(limit);
  }

  async #untilBelow(limit: number): Promise<void> {
    while (this.#outstanding.size >= limit && !this.#closed) await Promise.race(this.#outstanding);
  }
}
