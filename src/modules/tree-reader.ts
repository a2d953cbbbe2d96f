/** Reads the directories that the settings of an operator name: all of them, or one module again. */

import type { Tree } from "../base/model/index.ts";
import { readTree } from "./read/read-tree.ts";
import type { ReadTreeOptions } from "./read/reading.ts";
import { rereadModule } from "./read/refresh-module.ts";

/** What stays the same for all reads of an operator. */
type FixedOptions = Omit<ReadTreeOptions, "previous" | "namesToRead" | "onlyDir">;

/** Reads the directories that the settings name. */
export class TreeReader {
  readonly #options: FixedOptions;

  constructor(options: FixedOptions) {
    this.#options = options;
  }

  /**
   * Reads all directories, or with `names` files of these modules only. Broken files keep the version of `previous`, the tree
   * that was read before (undefined at a start), and missing ones stay until the deletion is confirmed.
   */
  readTree(previous?: Tree, names?: ReadonlySet<string>): Promise<Tree> {
    return readTree({ ...this.#options, previous, namesToRead: names });
  }

  /** Reads one module again; returns `previous` itself if nothing of the module has changed. */
  rereadModule(previous: Tree, name: string): Promise<Tree> {
    return rereadModule(this.#options, previous, name);
  }

  /** Reads a modules directory that the settings do not name, such as a candidate from a registry. */
  readModulesDir(modulesDir: string): Promise<Tree> {
    const onlyModules = { globalHooksDir: undefined, registryModules: undefined };
    return readTree({ ...this.#options, ...onlyModules, modulesDirs: [modulesDir] });
  }
}
