/** Shows whether files have changed, without reading them: a signature for each, and one fingerprint of many. */

import type { Stats } from "node:fs";

import { digest } from "../../base/index.ts";

/** An existing file or directory, with a signature that changes when the file does. */
export interface FoundFile {
  readonly path: string;
  readonly signature: string;
  readonly executable: boolean;
  /** Time of the last change, in ms since the epoch. */
  readonly changedAt: number;
}

/** Makes the signature of an existing path from its `stats`: any change of content, owner or mode changes it. */
export function toFoundFile(path: string, stats: Stats): FoundFile {
  return {
    path,
    signature: [stats.mtimeMs, stats.ctimeMs, stats.size, stats.ino, stats.mode].join("-"),
    executable: (stats.mode & 0o111) !== 0,
    changedAt: Math.max(stats.ctimeMs, stats.mtimeMs),
  };
}

/** File systems may give two changes within this time the same time stamp. */
const TIMESTAMP_RESOLUTION_MS = 50;

/** The fingerprint of a list of files. */
export class Fingerprint {
  /** Digest of paths and signatures. */
  readonly digest: string;
  /** The latest change of a file, in ms since the epoch. */
  readonly #changedAt: number;

  /** `files` with their relative paths. `problems` counts, too. */
  constructor(
    files: Iterable<readonly [rel: string, file: Pick<FoundFile, "signature" | "changedAt">]>,
    problems: readonly string[] = [],
  ) {
    const parts: string[] = [];
    let changedAt = 0;
    for (const [rel, file] of files) {
      parts.push(rel, file.signature);
      changedAt = Math.max(changedAt, file.changedAt);
    }
    // No path contains a NUL. One text is faster than the parts, because each read of each module computes this.
    this.digest = digest([...parts, ...problems].join("\0"));
    this.#changedAt = changedAt;
  }

  /**
   * Whether files that had this fingerprint when they were read at `readAt` are unchanged if they have the fingerprint `now`. False if a file
   * had changed just before it was read: it may have changed again with the same time stamp.
   */
  isUnchanged(readAt: number, now: Fingerprint): boolean {
    return this.#changedAt < readAt - TIMESTAMP_RESOLUTION_MS && this.digest === now.digest;
  }
}
