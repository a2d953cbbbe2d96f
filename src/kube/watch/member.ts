/** One consumer of a shared watch and its progress. */

import type { Failures } from "../../lib/index.ts";
import type { WatchConsumer } from "./consumer.ts";
import { isLater, type WatchedObject } from "./watch-spec.ts";

/** One call of a consumer. */
export type Act = (consumer: WatchConsumer) => Promise<void> | void;

/** Back-pressure: the watch waits while a consumer has this many pending promises. */
const MOST_OUTSTANDING = 64;

/** A consumer and its progress. */
export class Member {
  readonly consumer: WatchConsumer;
  readonly synced = Promise.withResolvers<void>();
  /** The member's own list contains live changes up to this version. */
  #floor = "";
  live = false;
  #isPutBack = false;
  #closed = false;
  #issueFound = false;
  /** Changes buffered until the member's own list is complete. */
  #buffered: { readonly version: string; readonly act: Act }[] = [];
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
    return this.#backPressure(MOST_OUTSTANDING);
  }

  /** The member's list is complete at `version`: delivers the buffered later changes; new ones follow. */
  async complete(version: string): Promise<void> {
    await this.#backPressure(1);
    if (!this.#isPutBack) this.#floor = version;
    this.live = true;
    this.#call((each) => each.synced(version));
    this.synced.resolve();
    const buffered = this.#buffered;
    this.#buffered = [];
    // Do not await: a new change must not be delivered between the buffered ones.
    for (const { version: at, act } of buffered) void this.deliver(at, act);
  }

  /**
   * Delivers a change, buffers it until the list is complete, or drops it if the list contains it; `version` decides
   * whether it does.
   */
  deliver(version: string, act: Act): Promise<void> | undefined {
    if (!this.live) {
      this.#buffered.push({ version, act });
      return undefined;
    }
    if (this.#floor !== "" && !isLater(version, this.#floor)) return undefined;
    this.#call(act);
    return this.#backPressure(MOST_OUTSTANDING);
  }

  /** The server's etcd was restored: the versions of buffered changes and of the list in progress cannot be compared any more. */
  putBack(): void {
    this.#isPutBack = true;
    this.#floor = "";
    this.#buffered = [];
    this.#call((each) => each.putBack?.());
  }

  /** The newest version that the consumer knows; "" = none. */
  newest(): string {
    return this.consumer.newest?.() ?? "";
  }

  issue(error: Error | undefined): void {
    if (error === undefined && !this.#issueFound) return;
    this.#issueFound = error !== undefined;
    this.#call((each) => each.issue?.(error));
  }

  close(): void {
    this.#closed = true;
    this.#buffered = [];
  }

  // One consumer's error must neither stop the watch nor reach the others.
  #call(act: Act): void {
    if (this.#closed) return;
    try {
      const answer: unknown = act(this.consumer);
      // A consumer typed `void` may still return a value.
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
  #backPressure(limit: number): Promise<void> | undefined {
    return this.#outstanding.size < limit ? undefined : this.#untilBelow(limit);
  }

  async #untilBelow(limit: number): Promise<void> {
    while (this.#outstanding.size >= limit && !this.#closed) await Promise.race(this.#outstanding);
  }
}
