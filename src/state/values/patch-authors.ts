/** Remembers which hook patched which value. */

import type { PatchOperation } from "../../values/index.ts";

const MOST_PATHS = 1000;

/** Which hook last patched a path, for messages to people. */
export class PatchAuthors {
  readonly #hooks = new Map<string, Map<string, string>>();

  /** Notes that a hook left operations on the section of `key`. */
  note(key: string, operations: readonly PatchOperation[], hook: string): void {
    const known = this.#hooks.get(key) ?? new Map<string, string>();
    this.#hooks.set(key, known);
    for (const { path } of operations) {
      // The newest is the last.
      known.delete(path);
      known.set(path, hook);
      const [oldest] = known.keys();
      if (known.size > MOST_PATHS && oldest !== undefined) known.delete(oldest);
    }
  }

  /** The hook that last patched the leaf at `path` (within the section), something above it, or an item of it. */
  of(key: string, path: string): string | undefined {
    const leaf = `/${key}${path}`;
    const patched = [...(this.#hooks.get(key) ?? [])].toReversed();
    return patched.find(([at]) => leaf === at || leaf.startsWith(`${at}/`) || at.startsWith(`${leaf}/`))?.[1];
  }
}
