/** Finds programs as a shell does. */

import { accessSync, constants, statSync } from "node:fs";
import { delimiter, resolve } from "node:path";

/** Absolute path of a program: of a name on `searchPath`, or of a path itself. Undefined where it cannot be executed. */
export function findProgram(name: string, searchPath = ""): string | undefined {
  const candidates = name.includes("/")
    ? [resolve(name)]
    : searchPath.split(delimiter).map((dir) => resolve(dir, name));
  return candidates.find(isExecutable);
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return statSync(path).isFile();
  } catch {
    return false;
  }
}
