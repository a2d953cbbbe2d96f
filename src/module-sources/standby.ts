/** A follower's part: it fetches what the leader has locked, so that it can take over without a registry. */

import { growingDelay, Memo, oneLine, type Timer } from "../lib/index.ts";
import { Access } from "./fetch/registry-access.ts";
import { obtain } from "./fetch/fetch-content.ts";
import { followConfigMap, type Shared } from "./context.ts";

const RETRY = { firstMs: 5000, mostMs: 600_000 };

/** Follows the lock. Never decides, never locks. */
export class Follower {
  readonly #shared: Shared;
  readonly #subscription: { close(): void };
  readonly #refused = new Memo<{ why: string | undefined }>(1000);
  #timer: Timer | undefined;
  #failures = 0;
  #closed = false;

  constructor(shared: Shared) {
    this.#shared = shared;
    const { options, lock } = shared;
    this.#subscription = followConfigMap(options, lock.name, () => this.#refreshIn(0));
    this.#refreshIn(0);
  }

  close(): void {
    this.#closed = true;
    this.#timer?.cancel();
    this.#subscription.close();
  }

  #refreshIn(ms: number): void {
    if (this.#closed) return;
    this.#timer?.cancel();
    this.#timer = this.#shared.options.clock.setTimer(ms, () => this.#refresh());
  }

  /** Reads the lock again, and fetches what the disk does not have. */
  async #refresh(): Promise<void> {
    const { options, stock, lock, exclusively, setSources, list, keysOf } = this.#shared;
    try {
      const content = await lock.read();
      setSources(await list());
      await exclusively(async () => stock.load(content, keysOf));
      await this.#fetchMissing();
      this.#failures = 0;
    } catch (error) {
      this.#failures += 1;
      options.logger.debug("Locked modules could not be fetched", { error: oneLine(error) });
      this.#refreshIn(growingDelay(this.#failures, RETRY));
    }
  }

  /** Throws the last error, after it has tried all modules. */
  async #fetchMissing(): Promise<void> {
    const { options, stock, store, sources, keysOf, exclusively } = this.#shared;
    let failure: unknown;
    for (const [name, entry] of stock.entries) {
      const source = sources().get(entry.source);
      if (this.#closed || source?.spec === undefined || stock.content(name)?.dir !== undefined) continue;
      const registry = new Access(options, source.spec, () => {});
      try {
        const { mostBytes } = options;
        const wanted = { ...entry, name };
        await obtain({ store, registry, mostBytes, keys: keysOf(name) }, wanted, this.#refused);
        await exclusively(() => stock.stage(name, keysOf(name)));
      } catch (error) {
        failure = error;
      } finally {
        await registry.close();
      }
    }
    if (failure !== undefined) throw failure as Error;
  }
}
