/** Watches single directories: the kernel's news of them, one watch each. */

import { watch, type FSWatcher } from "node:fs";

/** A directory to watch, and what is said to have changed when something in it does. */
export interface WatchedDir {
  readonly dir: string;
  readonly entry: string;
  /** Device and inode: another directory in the same place is watched anew. */
  readonly id: string;
  /** Only this name in it counts. */
  readonly name?: string;
}

/** Starts to watch a directory; as `fs.watch`. */
export type Watch = (dir: string, news: (event: string, name: string | null) => void) => FSWatcher;

/** The limits of inotify: watches of a user, and instances or open files. */
const LIMITS = new Set(["ENOSPC", "EMFILE", "ENFILE"]);

export interface DirWatchesOptions {
  readonly onNews: (entry: string) => void;
  /** The kernel has no more watches to give; nothing is watched any more. */
  readonly onLimit: (code: string) => void;
  readonly watch?: Watch;
}

/** The directories that are watched. One that is gone or may not be read is none: those above it tell of it. */
export class DirWatches {
  readonly #options: DirWatchesOptions;
  readonly #watchers = new Map<string, { readonly entry: string; readonly watcher: FSWatcher }>();
  /** Those that were added since `renew`. */
  readonly #fresh = new Set<string>();
  #closed = false;

  constructor(options: DirWatchesOptions) {
    this.#options = options;
  }

  get size(): number {
    return this.#watchers.size;
  }

  /** What is added from now on is what `drop` leaves. */
  renew(): void {
    this.#fresh.clear();
  }

  add({ dir, entry, id, name }: WatchedDir): void {
    const key = [entry, dir, id, name ?? ""].join("\0");
    this.#fresh.add(key);
    if (this.#closed || this.#watchers.has(key)) return;
    try {
      const watcher = (this.#options.watch ?? watch)(dir, (_event, changed) => {
        if (name === undefined || changed === null || changed === name) this.#options.onNews(entry);
      });
      watcher.on("error", (error) => this.#failed(error));
      watcher.unref();
      this.#watchers.set(key, { entry, watcher });
    } catch (error) {
      this.#failed(error);
    }
  }

  /** Ends the watches of these entries that were not added again. */
  drop(isRenewed: (entry: string) => boolean): void {
    for (const [key, { entry, watcher }] of this.#watchers) {
      if (this.#fresh.has(key) || !isRenewed(entry)) continue;
      watcher.close();
      this.#watchers.delete(key);
    }
  }

  close(): void {
    this.#closed = true;
    for (const { watcher } of this.#watchers.values()) watcher.close();
    this.#watchers.clear();
  }

  #failed(error: unknown): void {
    const code = error instanceof Error && "code" in error ? String(error.code) : "";
    if (this.#closed || !LIMITS.has(code)) return;
    this.close();
    this.#options.onLimit(code);
  }
}
