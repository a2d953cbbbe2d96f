/** Reads files as text, and detects changes of files without reading them. */

import { closeSync, openSync, readSync, statSync, type Stats } from "node:fs";

import { oneLine, readRegularFile } from "../../lib/index.ts";
import { ProblemError, type Problem } from "../../model/index.ts";

/** Reads a regular file as text. Throws ProblemError if it cannot be read. */
export function readText(path: string): string {
  try {
    return readRegularFile(path).toString("utf8");
  } catch (error) {
    throw new ProblemError(fileProblem(path, error));
  }
}

/** Whether a file begins with `#!`, so that it is meant to be executed; false if it cannot be read. */
export function isScript(path: string): boolean {
  let file: number | undefined;
  try {
    file = openSync(path, "r");
    const start = Buffer.alloc(2);
    readSync(file, start);
    return start.toString("latin1") === "#!";
  } catch {
    return false;
  } finally {
    if (file !== undefined) closeSync(file);
  }
}

/** The problem of a file or directory that the file system refuses to read. */
export function fileProblem(file: string, error: unknown): Problem {
  return {
    file,
    message: `cannot be read: ${oneLine(error)}`,
    remedy: "check that it exists and its rights",
  };
}

/** The problem of a required values.yaml that is missing. */
export function missingValuesFile(file: string): Problem {
  const remedy = "add it, or start without --strict-check-values-mode-enabled";
  return { file, message: "is missing", remedy };
}

/** An existing file or directory, with a signature that changes when the file does: changes are found without reading content. */
export interface FoundFile {
  readonly path: string;
  readonly signature: string;
  readonly executable: boolean;
  /** Time of the last change, in ms since the epoch. A file that changed just before it was read may change again without a new time. */
  readonly changedAt: number;
}

/** Stats of a path, following links; undefined if it does not exist or is a dangling link. Throws other errors. */
export function stat(path: string): Stats | undefined {
  return statSync(path, { throwIfNoEntry: false });
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

/**
 * Whether a file changed long enough before `now` that another change would have another time stamp. Only then an
 * equal signature means equal content.
 */
export function isTimestampReliable(changedAt: number, now: number): boolean {
  return changedAt < now - TIMESTAMP_RESOLUTION_MS;
}
