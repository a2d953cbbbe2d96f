/** Tells whether what was read is one version of the directories, not half of one and half of the next. */

import { realpathSync } from "node:fs";

import { listModule } from "./listing.ts";
import type { Reading, RememberedModule } from "./reading.ts";

/** Where each of `dirs` leads; git-sync and ConfigMap volumes swap a link for another version. */
export function realPlaces(dirs: readonly string[]): string {
  return dirs.map((dir) => orEmpty(() => realpathSync(dir))).join("\n");
}

/** Whether the modules that were read again are still as they were listed before that. */
export function isWhole({ before, after }: Reading): boolean {
  return [...after.modules.values()].every(
    (each) => each === before.modules.get(each.module.name) || isAsListed(each),
  );
}

/** A module that could not be listed has no fingerprint, and nothing was read of it. */
function isAsListed({ fingerprint, module }: RememberedModule): boolean {
  return fingerprint === "" || fingerprint === orEmpty(() => listModule(module.dir).fingerprint);
}

function orEmpty(read: () => string): string {
  try {
    return read();
  } catch {
    return "";
  }
}
