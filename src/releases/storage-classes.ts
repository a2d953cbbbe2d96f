/** Reads when StorageClasses bind volumes, because the status of a PersistentVolumeClaim does not show whether it waits for its first Pod. */

import type { VolumeBinding } from "../kube/health/index.ts";
import { get, ignoreNotFound, STORAGE_CLASSES, type KubeClient } from "../kube/index.ts";
import { oneLine, type Clock } from "../base/index.ts";

interface StorageClassesOptions {
  readonly client: KubeClient;
  readonly clock: Clock;
}

interface CachedBinding {
  readonly readAt: number;
  binding: VolumeBinding | undefined;
}

/** A class can be deleted and created again with another mode. */
const TTL_MS = 60_000;
const READ_TIMEOUT_MS = 5000;

/** Caches the binding modes of the classes that unbound claims name. */
export class StorageClasses {
  readonly #options: StorageClassesOptions;
  readonly #bindings = new Map<string, CachedBinding>();

  constructor(options: StorageClassesOptions) {
    this.#options = options;
  }

  /** When volumes of a class are bound; undefined until it is read for the first time: then calls `onRead`. */
  find(name: string, onRead: () => void): VolumeBinding | undefined {
    const { clock } = this.#options;
    const cached = this.#bindings.get(name);
    if (cached === undefined || clock.monotonic() - cached.readAt >= TTL_MS) {
      this.#bindings.set(name, { readAt: clock.monotonic(), binding: cached?.binding });
      void this.#read(name).then((binding) => {
        const entry = this.#bindings.get(name);
        if (entry !== undefined) entry.binding = binding;
        onRead();
      });
    }
    return cached?.binding;
  }

  /** Never rejects. */
  async #read(name: string): Promise<VolumeBinding> {
    try {
      const target = { resource: STORAGE_CLASSES, name };
      const options = { timeoutMs: READ_TIMEOUT_MS };
      const found = await get(this.#options.client, target, options).catch(ignoreNotFound);
      return { isLate: found?.["volumeBindingMode"] === "WaitForFirstConsumer" };
    } catch (error) {
      return { why: oneLine(error) };
    }
  }
}
