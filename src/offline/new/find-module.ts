/** Finds the directory of a module by its name. */

import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";

import type { Settings } from "../../config.ts";
import { ProblemError } from "../../model/index.ts";
import { splitEntryName } from "../../modules/index.ts";

/** The directories of modules for sub-commands that write into them: those that are set, else `modules`. */
export function modulesDirsOf({ modulesDir = "modules" }: Settings): readonly [string, ...string[]] {
  const [first = "modules", ...rest] = modulesDir.split(":").filter(Boolean);
  return [first, ...rest];
}

/** The directory of a module, in the first directory that has one of its name. Throws ProblemError. */
export function findModule(settings: Settings, wanted: string): { dir: string; name: string } {
  const dirs = modulesDirsOf(settings);
  for (const dir of dirs.filter((each) => existsSync(each)))
    for (const entry of readdirSync(dir)) {
      const { name } = splitEntryName(entry, 0);
      if (entry === wanted || name === wanted) return { dir: join(dir, entry), name };
    }
  const message = `there is no module ${wanted}`;
  throw new ProblemError([{ file: dirs.join(", "), message, remedy: "name one, or set --modules-dir" }]);
}
