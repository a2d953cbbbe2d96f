/** Finds the permission that other users of the machine lack for a file or directory, for messages with a remedy. */

import { realpathSync, statSync } from "node:fs";
import { dirname } from "node:path";

import { attempt } from "../../lib/index.ts";

const OTHERS_EXECUTE = 0o001;
const OTHERS_READ = 0o004;

/**
 * Which directory on the way, or which file, has no rights for others, with the remedy; undefined if there is none. A directory
 * must be passable, a file also readable, because it may be a script.
 */
export function obstacleTo(path: string): string | undefined {
  const target = attempt(() => realpathSync(path));
  if (target === undefined) return undefined;
  return wayTo(target)
    .map(problemOf)
    .find((problem) => problem !== undefined);
}

/** The directories from the root to a path, and the path. */
function wayTo(path: string): string[] {
  const parent = dirname(path);
  return parent === path ? [path] : [...wayTo(parent), path];
}

function problemOf(path: string): string | undefined {
  const stats = statSync(path, { throwIfNoEntry: false });
  if (stats === undefined) return undefined;
  const [needed, what] = stats.isDirectory()
    ? [OTHERS_EXECUTE, "o+x"]
    : [OTHERS_READ | OTHERS_EXECUTE, "o+rx"];
  if ((stats.mode & needed) === needed) return undefined;
  const mode = (stats.mode & 0o7777).toString(8).padStart(4, "0");
  return `${path} has mode ${mode} (chmod ${what} ${path})`;
}
