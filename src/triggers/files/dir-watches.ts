/** Kernel watches (inotify) of directories. */

import type { FSWatcher } from "node:fs";

import type { WatchedDir } from "./scan.ts";

/** As `fs.watch`. */
export type Watch = (dir: string, news: (event: string, name: string | null) => void) => FSWatcher;

/** Error codes of inotify's limits: watches of a user, instances, open files. */
const LIMITS = new Set(["ENOSPC", "EMFILE", "ENFILE"]);

interface DirWatchesOptions {
  readonly onNews: (entry: string) => void;
  /** Called when the kernel has no watches left; all watches are closed then. */
  readonly onLimit: (code: string) => void;
  readonly watch: Watch;
}

/** Kernel watches of directories. A missing or unreadable directory has none: the watch of its parent reports it. */
export class DirWatches {
  readonly #options: DirWatchesOptions;
  readonly #watchers = new Map<string, { readonly entry: string; readonly watcher: FSWatcher }>();
  /** Keys that were added since `beginRound`. */
  readonly #renewed = new Set<string>();
  #closed = false;

  constructor(options: DirWatchesOptions) {
    this.#options = options;
  }

  get size(): number {
    return this.#watchers.size;
  }

  /** `drop` keeps the watches that are added from now on. */
  beginRound(): void {
    this.#renewed.clear();
  }

  /** Watches a directory unless it is watched already. With a `name`, reports only changes of this name. */
  add({ dir, entry, id, name }: WatchedDir): void {
    const key = [entry, dir, id, name ?? ""].join("\0");
    this.#renewed.add(key);
    if (this.#closed || this.#watchers.has(key)) return;
    try {
      const watcher = this.#options.watch(dir, (_event, changed) => {
        if (name === undefined || changed === null || changed === name) this.#options.onNews(entry);
      });
      watcher.on("error", (error) => this.#failed(error));
      watcher.unref();
      this.#watchers.set(key, { entry, watcher });
    } catch (error) {
      this.#failed(error);
    }
  }

  /** Closes watches of renewed entries that were not added since `beginRound`. */
  drop(isRenewed: (entry: string) => boolean): void {
    for (const [key, { entry, watcher }] of this.#watchers) {
      if (this.#renewed.has(key) || !isRenewed(entry)) continue;
      watcher.close();
      this.#watchers.delete(key);
    }
  }

  close(): void {
    this.#closed = true;
    for (const { watcher } of this.#watchers.values()) watcher.close();
    this.#watchers.clear();
  }

  /** Only the kernel's limits matter. Any other error means that the directory was removed, which its parent reports. */
  #failed(error: unknown): void {
    const code = error instanceof Error && "code" in error ? String(error.code) : "";
    if (this.#closed || !LIMITS.has(code)) return;
    this.close();
    this.#options.onLimit(code);
  }
}
