import { statSync } from "node:fs";
import type { Stats } from "node:fs";

/** A file or directory that was found, with what tells a changed one apart. */
export interface Found {
  readonly path: string;
  readonly signature: string;
  readonly executable: boolean;
  /** ms since the epoch of the last change; a file changed just before it was read may change again unseen. */
  readonly changedAt: number;
}

/** Follows symlinks; undefined where nothing is there (a dangling link too). Throws on other errors. */
export function stat(path: string): Stats | undefined {
  return statSync(path, { throwIfNoEntry: false });
}

/** Describes what `stats` says of `path`. */
export function found(path: string, stats: Stats): Found {
  return {
    path,
    signature: [stats.mtimeMs, stats.ctimeMs, stats.size, stats.ino, stats.mode].join("-"),
    executable: (stats.mode & 0o111) !== 0,
    changedAt: Math.max(stats.ctimeMs, stats.mtimeMs),
  };
}

/** Time stamps of file systems move in steps of some milliseconds: what changed within this is read again. */
export const STAMP_STEP_MS = 50;
