/**
 * What a standby operator does for ModuleSources: it fetches content that the leader has locked, so that it can take over
 * while no registry answers.
 */

import { exponentialDelay, Memo, oneLine, type Timer } from "../lib/index.ts";
import { RegistryPauses, type Signer } from "../registry/index.ts";
import { RegistryAccess } from "./fetch/registry-access.ts";
import { fetchContent, type RefusalMemo } from "./fetch/fetch-content.ts";
import { watchConfigMap, type SourcesContext } from "./context.ts";

const RETRY = { firstMs: 5000, maxMs: 600_000 };

/** Watches the lock, and fetches the content of its entries. Never chooses content, and never changes the lock. */
export class Standby {
  readonly #context: SourcesContext;
  readonly #subscription: { close(): void };
  readonly #refusals: RefusalMemo = new Memo(1000);
  readonly #pauses = new RegistryPauses();
  #timer: Timer | undefined;
  #failures = 0;
  #closed = false;

  constructor(context: SourcesContext) {
    this.#context = context;
    const { options, lock } = context;
    this.#subscription = watchConfigMap(options, lock.name, () => this.#scheduleRefresh(0));
    this.#scheduleRefresh(0);
  }

  close(): void {
    this.#closed = true;
    this.#timer?.cancel();
    this.#subscription.close();
  }

  /** Reads the lock again in `ms`, instead of at the time that was scheduled before. */
  #scheduleRefresh(ms: number): void {
    if (this.#closed) return;
    this.#timer?.cancel();
    this.#timer = this.#context.options.clock.setTimer(ms, () => this.#refresh());
  }

  /**
   * Reads lock and ModuleSources again, which name registries and keys, and fetches content that is missing on disk. Tries
   * again after an error, in growing steps.
   */
  async #refresh(): Promise<void> {
    const context = this.#context;
    try {
      const content = await context.lock.read();
      context.setSources(await context.listSources());
      const keysOf = (name: string): readonly Signer[] => context.keysForModule(name);
      await context.runExclusively(() => context.lockedModules.load(content, keysOf));
      await this.#fetchMissingContent();
      this.#failures = 0;
    } catch (error) {
      this.#failures += 1;
      context.options.logger.debug("Locked modules could not be fetched", { error: oneLine(error) });
      this.#scheduleRefresh(exponentialDelay(this.#failures, RETRY));
    }
  }

  /** Fetches locked content that is missing on disk, if its source has a valid spec. Tries all modules, then throws the last error. */
  async #fetchMissingContent(): Promise<void> {
    const context = this.#context;
    const { options, lockedModules, blobStore: store } = context;
    const access = { ...options, pauses: this.#pauses };
    let failure: unknown;
    for (const [name, entry] of lockedModules.entries) {
      const spec = context.sources.get(entry.source)?.spec;
      if (this.#closed || spec === undefined || lockedModules.getContent(name)?.dir !== undefined) continue;
      const registry = new RegistryAccess(access, spec, () => {});
      const { maxBytes, clock } = options;
      const keys = context.keysForModule(name);
      try {
        const tools = { store, registry, maxBytes, keys, now: clock.now() };
        await fetchContent(tools, { ...entry, name }, this.#refusals);
        await context.runExclusively(() => lockedModules.verifyAndUnpack(name, context.keysForModule(name)));
      } catch (error) {
        failure = error;
      } finally {
        await registry.close();
      }
    }
    if (failure !== undefined) throw failure as Error;
  }
}
