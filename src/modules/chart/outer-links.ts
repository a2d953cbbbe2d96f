/** Refuses links that lead out of the modules directory: the operator would read for a module what its team may not read. */

import { realpathSync } from "node:fs";
import { dirname, sep } from "node:path";

import { ProblemError } from "../../model/index.ts";

/**
 * Throws ProblemError if one of the files, which exist, lies outside of the directory of `moduleDir` and of `moduleDir` itself,
 * which may be a link.
 */
export function refuseLinksOutside(moduleDir: string, files: Iterable<string>): void {
  const roots = [dirname(moduleDir), moduleDir].map((dir) => realpathSync(dir) + sep);
  for (const file of files) {
    const target = realpathSync(file);
    if (roots.some((root) => target.startsWith(root))) continue;
    const message = "is a link out of the modules directory, and the module has a serviceAccountName";
    throw new ProblemError({ file, message, remedy: "replace it by a copy of what it leads to" });
  }
}
