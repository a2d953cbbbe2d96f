/**
 * What a standby operator does for ModuleSources: it fetches content that the leader has locked, so that it can take over
 * while no registry answers.
 */

import { oneLine } from "../base/index.ts";
import { Loop } from "../runtime/index.ts";
import { watchConfigMap, type SourcesContext } from "./context.ts";

const RETRY = { firstMs: 5000, maxMs: 600_000 };

/** Watches the lock, and fetches the content of its entries. Never chooses content, and never changes the lock. */
export class Standby {
  readonly #context: SourcesContext;
  readonly #subscription: { close(): void };
  readonly #loop: Loop;

  constructor(context: SourcesContext) {
    this.#context = context;
    const { options, lock } = context;
    const { clock, logger } = options;
    this.#loop = new Loop({
      clock,
      run: (signal) => this.#refresh(signal),
      retry: RETRY,
      onError: (error) => logger.debug("Locked modules could not be fetched", { error: oneLine(error) }),
    });
    this.#subscription = watchConfigMap(options, lock.name, () => this.#loop.trigger());
    this.#loop.trigger();
  }

  close(): void {
    this.#loop.close();
    this.#subscription.close();
  }

  /** Reads lock, keys and ModuleSources again, which name registries and keys, and fetches content that is missing on disk. */
  async #refresh(signal: AbortSignal): Promise<void> {
    const context = this.#context;
    const [content] = await Promise.all([context.lock.read(), context.readKeys()]);
    context.setSources(await context.listSources());
    await context.runExclusively(() => context.lockedModules.load(content));
    await this.#fetchMissingContent(signal);
  }

  /** Fetches locked content that is missing on disk, if its source has a valid spec. Tries all modules, then throws the last error. */
  async #fetchMissingContent(signal: AbortSignal): Promise<void> {
    const context = this.#context;
    const { lock, lockedModules, fetcher } = context;
    let failure: unknown;
    for (const [name, entry] of lock.entries) {
      const spec = context.sources.get(entry.source)?.spec;
      if (signal.aborted || spec === undefined || lockedModules.getContent(name)?.dir !== undefined) continue;
      const registry = fetcher.open(spec);
      try {
        await fetcher.fetch({ ...entry, name }, { registry, keys: context.listKeys(name) });
        await context.runExclusively(() => lockedModules.verifyAndUnpack(name));
      } catch (error) {
        failure = error;
      } finally {
        await registry.close();
      }
    }
    if (failure !== undefined) throw failure as Error;
  }
}
