/** Finds the permission that other users of the machine lack for a file or directory, for messages with a remedy. */

import { realpathSync, statSync } from "node:fs";
import { dirname } from "node:path";

import { attempt } from "../../index.ts";

const OTHERS_EXECUTE = 0o001;
const OTHERS_READ = 0o004;

/**
 * Finds the first directory on the way to `path`, or the file itself, that other users may not access; returns it with the
 * chmod that helps. Undefined if there is none. Directories need o+x; files also o+r, because they may be scripts.
 */
export function findAccessObstacle(path: string): string | undefined {
  const target = attempt(() => realpathSync(path));
  if (target === undefined) return undefined;
  return pathsFromRoot(target)
    .map(describeMissingMode)
    .find((problem) => problem !== undefined);
}

/** The directories from the root to a path, and the path. */
function pathsFromRoot(path: string): string[] {
  const parent = dirname(path);
  return parent === path ? [path] : [...pathsFromRoot(parent), path];
}

/** The mode bits for others that one directory or file lacks, with the chmod that sets them; undefined if it lacks none. */
function describeMissingMode(path: string): string | undefined {
  const stats = statSync(path, { throwIfNoEntry: false });
  if (stats === undefined) return undefined;
  const [needed, missingMode] = stats.isDirectory()
    ? [OTHERS_EXECUTE, "o+x"]
    : [OTHERS_READ | OTHERS_EXECUTE, "o+rx"];
  if ((stats.mode & needed) === needed) return undefined;
  const mode = (stats.mode & 0o7777).toString(8).padStart(4, "0");
  return `${path} has mode ${mode} (chmod ${missingMode} ${path})`;
}
