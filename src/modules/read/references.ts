/** Reads the files that schemas reference, which must be in the module's directory or below `--schema-dirs`. */

import { realpathSync } from "node:fs";
import { join, resolve, sep } from "node:path";

import { attempt, oneLine } from "../../base/index.ts";
import type { SchemaFiles, SchemaReference } from "../../base/model/index.ts";
import { referencedFiles } from "../../values/index.ts";
import { readText, stat } from "./files.ts";
import { toFoundFile } from "./fingerprint.ts";

const MAX_FILES = 100;
const MAX_BYTES = 1024 * 1024;

/**
 * Reads the files that `schemas` reference, directly or through other files, if they are in one of the allowed
 * directories `dirs`. A file that cannot be used has a problem. Never throws.
 */
export function readReferences(dirs: readonly string[], schemas: SchemaFiles): SchemaReference[] {
  const roots = [schemas.config, schemas.values].filter((file) => file !== undefined);
  const rootPaths = new Set(roots.map(({ file }) => resolve(file)));
  const references = new Map<string, SchemaReference>();
  // The queue grows while it is walked.
  const queue = roots.flatMap(({ text, file }) => referencedFiles(text, file));
  for (const path of queue) {
    if (references.has(path)) continue;
    if (references.size === MAX_FILES) {
      // One reference with a problem stands for all that are not read.
      const problem = `schemas refer to more than ${MAX_FILES} files`;
      references.set(path, { file: path, signature: "", problem });
      break;
    }
    const reference = readReference(dirs, path);
    references.set(path, reference);
    // The references of a root are in the queue already.
    if (reference.text !== undefined && !rootPaths.has(path))
      queue.push(...referencedFiles(reference.text, path));
  }
  return [...references.values()];
}

/** Whether no referenced file has changed since it was read. */
export function areReferencesUnchanged({ references = [] }: SchemaFiles): boolean {
  return references.every(({ file, signature }) => signature === fileSignature(file));
}

/** Reads one referenced file. Its problem is set if the file is outside of the allowed directories `dirs`, too large, or cannot be read. */
function readReference(dirs: readonly string[], file: string): SchemaReference {
  const signature = fileSignature(file);
  try {
    // Resolve links, which must not lead out of the directory either.
    const path = realpathSync(file);
    const problem = "it lies outside of the directory of the module (see --schema-dirs)";
    if (!dirs.some((dir) => isBelow(dir, path))) return { file, signature, problem };
    const size = stat(file)?.size ?? 0;
    if (size > MAX_BYTES) return { file, signature, problem: "it is larger than 1 MiB" };
    return { file, signature, text: readText(file) };
  } catch (error) {
    return { file, signature, problem: signature === "" ? "there is no such file" : oneLine(error) };
  }
}

/** Whether `path` is below `dir`; false if `dir` does not exist. */
function isBelow(dir: string, path: string): boolean {
  return stat(dir) !== undefined && path.startsWith(join(realpathSync(dir), sep));
}

/** A text that changes when the file does; empty if the file does not exist. */
function fileSignature(file: string): string {
  const stats = attempt(() => stat(file));
  return stats === undefined ? "" : toFoundFile(file, stats).signature;
}
