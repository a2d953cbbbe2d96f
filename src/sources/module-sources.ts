/** Modules from registries: content that ModuleSources name becomes a modules directory (docs/guides/module-sources.md). */

import { SourcesContext, type ModuleSourcesOptions } from "./context.ts";
import { SourceController } from "./leader/controller.ts";
import { Standby } from "./standby.ts";

/**
 * Provides modules from registries as a modules directory. Prepares the locked content from disk before the operator reads its
 * modules, without a request to a registry. Then the leader checks the sources, and a standby fetches what the leader locks.
 */
export class ModuleSources {
  readonly #context: SourcesContext;
  #isOpen = false;
  #controller: SourceController | undefined;
  #standby: Standby | undefined;

  constructor(options: ModuleSourcesOptions) {
    this.#context = new SourcesContext(options);
    options.registryModules.describeSources = () => this.#context.describeState();
  }

  /**
   * Reads ModuleSources, lock and keys, and verifies and unpacks the locked content from disk. Sends nothing to a registry.
   * Throws errors of the API if lock or keys cannot be read: without them, a release could look as if its module were missing.
   * `served` resolves when the API server serves the CRD. A standby that becomes the leader calls it a second time, because the
   * lock may have changed.
   */
  async prepare(served: Promise<unknown> = Promise.resolve()): Promise<void> {
    const context = this.#context;
    this.#standby?.close();
    await context.runExclusively(async () => {
      if (!this.#isOpen) await context.blobStore.prepareDirectories();
      this.#isOpen = true;
      const reads = [context.lock.read(), context.readKeys(), context.readSources(served)] as const;
      const [content] = await Promise.all(reads);
      await context.lockedModules.load(content);
      await context.writeModulesDir();
      context.options.registryModules.restore = () => context.restoreModulesDir();
    });
  }

  /** As a standby: fetches content that the leader locks, until `prepare` is called again. */
  startStandby(): void {
    this.#standby = new Standby(this.#context);
  }

  /** As the leader, once modules may run: checks sources, locks content, and writes statuses. */
  startLeading(): void {
    this.#controller = new SourceController(this.#context);
  }

  close(): void {
    this.#context.close();
    this.#controller?.close();
    this.#standby?.close();
  }
}
