/** One consumer of a shared watch, and how far it has come. */

import type { Failures } from "../../lib/index.ts";
import type { WatchConsumer } from "./hub.ts";
import { isLater, type WatchedObject } from "./watch-spec.ts";

/** What a consumer is called with. */
export type Act = (consumer: WatchConsumer) => Promise<void> | void;

/** Most pending promises of consumers before the watch waits for them. */
const MOST_OUTSTANDING = 64;

/** A consumer and how far it has come. */
export class Member {
  readonly consumer: WatchConsumer;
  readonly synced = Promise.withResolvers<void>();
  /** Live changes up to this version are part of the member's own list. */
  #floor = "";
  live = false;
  #isPutBack = false;
  #closed = false;
  #troubled = false;
  /** Changes that wait for the member's own list. */
  #held: { readonly version: string; readonly act: Act }[] = [];
  readonly #failures: Failures;
  readonly #outstanding = new Set<Promise<void>>();

  constructor(consumer: WatchConsumer, failures: Failures) {
    this.consumer = consumer;
    this.#failures = failures;
  }

  begin(): void {
    this.#call((each) => each.begin?.());
  }

  listed(object: WatchedObject): Promise<void> | undefined {
    this.#call((each) => each.object(object));
    return this.#room(MOST_OUTSTANDING);
  }

  /** The member's list is complete at `version`: held changes after it follow, then all new ones. */
  async complete(version: string): Promise<void> {
    await this.#room(1);
    if (!this.#isPutBack) this.#floor = version;
    this.live = true;
    this.#call((each) => each.synced(version));
    this.synced.resolve();
    const held = this.#held;
    this.#held = [];
    // Without waiting: a new change must not get in between.
    for (const { version: at, act } of held) void this.deliver(at, act);
  }

  /**
   * Delivers a change, holds it until the list is complete, or drops it when the list contained it; `version` orders it
   * against the member's own list.
   */
  deliver(version: string, act: Act): Promise<void> | undefined {
    if (!this.live) {
      this.#held.push({ version, act });
      return undefined;
    }
    if (this.#floor !== "" && !isLater(version, this.#floor)) return undefined;
    this.#call(act);
    return this.#room(MOST_OUTSTANDING);
  }

  /** Versions seen so far do not count any more: not for what is held, nor for the list under way. */
  putBack(): void {
    this.#isPutBack = true;
    this.#floor = "";
    this.#held = [];
    this.#call((each) => each.putBack?.());
  }

  trouble(error: Error | undefined): void {
    if (error === undefined && !this.#troubled) return;
    this.#troubled = error !== undefined;
    this.#call((each) => each.trouble?.(error));
  }

  close(): void {
    this.#closed = true;
    this.#held = [];
  }

  // One consumer's error must neither stop the watch nor reach the others.
  #call(act: Act): void {
    if (this.#closed) return;
    try {
      const answer: unknown = act(this.consumer);
      // A consumer that promises nothing may still answer something.
      if (answer instanceof Promise) this.#track(answer);
    } catch (error) {
      this.#failures.report("watch", error);
    }
  }

  #track(promise: Promise<void>): void {
    const over = promise
      .catch((error: unknown) => this.#failures.report("watch", error))
      .then(() => void this.#outstanding.delete(over));
    this.#outstanding.add(over);
  }

  // undefined while fewer than `limit` promises are outstanding.
  #room(limit: number): Promise<void> | undefined {
    return this.#outstanding.size < limit ? undefined : this.#untilBelow(limit);
  }

  async #untilBelow(limit: number): Promise<void> {
    while (this.#outstanding.size >= limit && !this.#closed) await Promise.race(this.#outstanding);
  }
}
