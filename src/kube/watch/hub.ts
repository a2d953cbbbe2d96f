/** Shares watches, one for each distinct spec, among their consumers. */

import { Failures } from "../../lib/index.ts";
import type { HubOptions, HubTools, Subscription, WatchConsumer, WatchObserver } from "./consumer.ts";
import { Member } from "./member.ts";
import { SharedWatch } from "./shared-watch.ts";
import { specKey, type WatchSpec } from "./watch-spec.ts";

/**
 * Shares one watch for each distinct spec. The hub stores only the version of each object; consumers store what they
 * need.
 */
export class WatchHub {
  readonly #options: HubTools;
  readonly #shared = new Map<string, SharedWatch>();
  readonly #observers: WatchObserver[] = [];

  constructor(options: HubOptions) {
    const failures = options.failures ?? new Failures(options.logger);
    const observer: WatchObserver = {
      failed: (type) =>
        failures.callAndReport("watch", () => this.#observers.forEach((each) => each.failed(type))),
      relisted: (spec) => this.#observers.forEach((each) => each.relisted(spec)),
    };
    this.#options = { random: Math.random, ...options, failures, observer };
  }

  /** Reports on all watches to `observer` from now on. */
  onWatch(observer: WatchObserver): void {
    this.#observers.push(observer);
  }

  /**
   * Delivers the existing objects and then every change. A late consumer gets its own list and then joins the watch.
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
