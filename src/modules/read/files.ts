/** Reads files of modules within limits. */

import { closeSync, openSync, readSync, realpathSync, statSync, type Stats } from "node:fs";
import { dirname, join, sep } from "node:path";

import { decodeText, EncodingError, oneLine, readRegularFile } from "../../base/index.ts";
import { ProblemError, type Problem } from "../../base/model/index.ts";
import { toFoundFile, type FoundFile } from "./fingerprint.ts";

/** Most bytes of a file that is parsed as a whole, such as a values.yaml: parsing a larger one would block the operator for too long. */
const MAX_PARSED_BYTES = 1024 * 1024;

/** Reads a regular file as text. Throws ProblemError if it is too large, cannot be read, or is not UTF-8. */
export function readText(path: string): string {
  try {
    if (statSync(path).size > MAX_PARSED_BYTES)
      throw new ProblemError({ file: path, message: "is larger than 1 MiB", remedy: "make it smaller" });
    return decodeText(readRegularFile(path));
  } catch (error) {
    if (error instanceof EncodingError) throw new ProblemError(encodingProblem(path, error));
    throw error instanceof ProblemError ? error : new ProblemError(fileProblem(path, error));
  }
}

/** The problem of a file that is not UTF-8. */
export function encodingProblem(file: string, { line }: EncodingError): Problem {
  return { file, key: `line ${line}`, message: "is no UTF-8 text", remedy: "save the file as UTF-8" };
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
  const remedy = "check that it exists and its rights";
  return { file, message: `cannot be read: ${oneLine(error)}`, remedy };
}

/** The problem of a required values.yaml that is missing. */
export function missingValuesFile(file: string): Problem {
  const remedy = "add it, or start without --strict-check-values-mode-enabled";
  return { file, message: "is missing", remedy };
}

/** Stats of a path, following links; undefined if it does not exist or is a dangling link. Throws other errors. */
export function stat(path: string): Stats | undefined {
  return statSync(path, { throwIfNoEntry: false });
}

/** The regular files among paths below a directory, by path. */
export function findFiles(dir: string, paths: Iterable<string>): Map<string, FoundFile> {
  const files = new Map<string, FoundFile>();
  for (const path of paths) {
    const full = join(dir, path);
    const stats = stat(full);
    if (stats?.isFile() === true) files.set(path, toFoundFile(full, stats));
  }
  return files;
}

/**
 * Throws ProblemError if one of the existing `files` of a module links out of the modules directory, the parent of
 * `moduleDir`. If `moduleDir` itself is a link, its target is allowed, too.
 */
export function refuseLinksOutside(moduleDir: string, files: Iterable<{ readonly path: string }>): void {
  const allowedDirs = [dirname(moduleDir), moduleDir].map((dir) => realpathSync(dir) + sep);
  for (const { path: file } of files) {
    const target = realpathSync(file);
    if (allowedDirs.some((dir) => target.startsWith(dir))) continue;
    const message = "is a link out of the modules directory, and the module has a serviceAccountName";
    throw new ProblemError({ file, message, remedy: "replace it by a copy of what it leads to" });
  }
}
