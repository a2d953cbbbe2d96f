/** Removes temporary directories of earlier processes, and ends processes that were started for such a directory. */

import { readdir } from "node:fs/promises";
import { join } from "node:path";

import type { Clock } from "../index.ts";
import { readStat } from "./proc.ts";
import { OWN_PROCESS_PART, tryRemoveDir, UNKNOWN_START } from "./scratch.ts";
import { endOrphanedProcesses, type EndOrphansOptions } from "./termination.ts";

/** Grace time for orphaned hooks of an earlier operator. */
const GRACE_MS = 3000;
/** `<prefix>.<pid>-<start time>.<random>`: the pid and the start time identify the process. */
const DIR_NAME = /^.+\.(\d+)-(\d+)\.[A-Za-z0-9]{6}$/;

/**
 * Removes the directories that earlier operator processes have left below `tmpDir`, after it has ended the children of those
 * processes. Returns the number of removed directories. Never throws.
 */
export async function removeStaleDirs(tmpDir: string, clock: Clock): Promise<number> {
  const names = await readdir(tmpDir).catch((): string[] => []);
  const areStale = await Promise.all(names.map(isStaleDirName));
  const dirs = names.filter((_, index) => areStale[index]).map((name) => join(tmpDir, name));
  if (dirs.length === 0) return 0;
  // An orphaned hook would run in parallel with the next run of the same hook. Orphans found by KUBECONFIG alone are
  // helm processes, which get a longer grace time (`Helm.endOrphanedProcesses`).
  const namesStaleDir = (each: string): boolean =>
    !each.startsWith("KUBECONFIG=") && dirs.some((dir) => each.includes(`${dir}/`));
  const options = { clock, graceMs: GRACE_MS };
  await endOrphanedProcesses((environment) => environment.some(namesStaleDir), options);
  const removed = await Promise.all(dirs.map(tryRemoveDir));
  return removed.filter(Boolean).length;
}

/** Ends all processes whose environment names a temporary directory of this process: hooks that still run, and what they have started. */
export async function endOwnProcesses(tmpDir: string, options: EndOrphansOptions): Promise<void> {
  const namesOwnDir = (each: string): boolean =>
    each.includes(`${tmpDir}/`) && each.includes(OWN_PROCESS_PART);
  await endOrphanedProcesses((environment) => environment.some(namesOwnDir), options);
}

/** Whether the process that made the directory of this name has ended. Another start time means that a later process has got its pid. */
async function isStaleDirName(name: string): Promise<boolean> {
  const [, pid, startTime] = DIR_NAME.exec(name) ?? [];
  if (pid === undefined) return false; // Not a name of ours.
  const process = await readStat(Number(pid));
  return process?.hasEnded === true || (process?.startTime ?? UNKNOWN_START) !== startTime;
}
