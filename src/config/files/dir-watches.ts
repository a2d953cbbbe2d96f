/** Kernel watches (inotify) of directories. An entry is a subdirectory of a modules directory, or the directory of global hooks. */

import type { FSWatcher } from "node:fs";

import type { WatchedDir } from "./scan.ts";

/** Watches a directory, as `fs.watch` does. */
export type WatchDirectory = (
  dir: string,
  onEvent: (event: string, name: string | null) => void,
) => FSWatcher;

/** Error codes of inotify's limits: watches of a user, instances, open files. */
const INOTIFY_LIMIT_CODES = new Set(["ENOSPC", "EMFILE", "ENFILE"]);

interface DirWatchesOptions {
  /** Called when something in a directory of this entry has changed. */
  readonly onChange: (entry: string) => void;
  /** Called when the kernel has no watches left; all watches are closed then. */
  readonly onLimit: (code: string) => void;
  readonly watch: WatchDirectory;
}

/** Kernel watches of directories. A missing or unreadable directory has none: the watch of its parent reports it. */
export class DirWatches {
  readonly #options: DirWatchesOptions;
  readonly #watchers = new Map<string, { readonly entry: string; readonly watcher: FSWatcher }>();
  /** Keys that were added since `startScan`. */
  readonly #addedKeys = new Set<string>();
  #isClosed = false;

  constructor(options: DirWatchesOptions) {
    this.#options = options;
  }

  get size(): number {
    return this.#watchers.size;
  }

  /** Call it before a scan, which then adds its directories: `closeUnusedWatches` keeps the watches added from now on. */
  startScan(): void {
    this.#addedKeys.clear();
  }

  /**
   * Watches a directory (not its subdirectories) of an entry, unless it is watched already; `id` is its inode, since a directory may be replaced.
   * With a `name`, reports only changes of this name in the directory.
   */
  add({ dir, entry, id, name }: WatchedDir): void {
    const key = [entry, dir, id, name ?? ""].join("\0");
    this.#addedKeys.add(key);
    if (this.#isClosed || this.#watchers.has(key)) return;
    try {
      // The kernel does not always report the name (null).
      const watcher = this.#options.watch(dir, (_event, changedName) => {
        if (name === undefined || changedName === null || changedName === name) this.#options.onChange(entry);
      });
      watcher.on("error", (error) => this.#handleError(error));
      watcher.unref();
      this.#watchers.set(key, { entry, watcher });
    } catch (error) {
      this.#handleError(error);
    }
  }

  /** Call it after a scan: closes the watches that the scan did not add again. Keeps those of entries that were not scanned. */
  closeUnusedWatches(isScanned: (entry: string) => boolean): void {
    for (const [key, { entry, watcher }] of this.#watchers) {
      if (this.#addedKeys.has(key) || !isScanned(entry)) continue;
      watcher.close();
      this.#watchers.delete(key);
    }
  }

  close(): void {
    this.#isClosed = true;
    for (const { watcher } of this.#watchers.values()) watcher.close();
    this.#watchers.clear();
  }

  /**
   * Handles a failure to watch. If the kernel has reached a limit, closes all watches and notifies the owner, who polls. Any other error means that
   * the directory was removed, which its parent reports.
   */
  #handleError(error: unknown): void {
    const code = error instanceof Error && "code" in error ? String(error.code) : "";
    if (this.#isClosed || !INOTIFY_LIMIT_CODES.has(code)) return;
    this.close();
    this.#options.onLimit(code);
  }
}
