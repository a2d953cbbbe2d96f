/** Finds and ends orphans: processes that an earlier operator process has left. */

import { readFile } from "node:fs/promises";

import { sleep, type Clock } from "../lib/index.ts";
import { listPids } from "./proc.ts";

const POLL_MS = 50;

/**
 * Recognizes an orphan by its environment variables, each as `NAME=value`. Unlike a pid, these remain reliable after a
 * crash and when pids are reused.
 */
export type OrphanMatcher = (environment: readonly string[]) => boolean;

/** How orphans are ended. */
export interface EndOrphansOptions {
  readonly clock: Clock;
  /** From SIGTERM to SIGKILL. */
  readonly graceMs: number;
  readonly signal?: AbortSignal | undefined;
}

/** The pids of processes, other than this one, whose environment variables match. Empty where there is no /proc. */
export async function findOrphanedProcesses(isOrphan: OrphanMatcher): Promise<number[]> {
  const allPids = await listPids();
  const isOrphanAt = await Promise.all(
    allPids.map(async (pid) => {
      if (pid === process.pid) return false;
      const text = await readFile(`/proc/${pid}/environ`, "latin1").catch(() => "");
      return text !== "" && isOrphan(text.split("\0"));
    }),
  );
  return allPids.filter((_, index) => isOrphanAt[index] === true);
}

/** Ends all matching processes: SIGTERM, then SIGKILL after the grace time. Resolves when none is left. */
export async function endOrphanedProcesses(
  isOrphan: OrphanMatcher,
  { clock, graceMs, signal }: EndOrphansOptions,
): Promise<void> {
  const start = clock.monotonic();
  let isSignalled = false;
  let orphanPids = await findOrphanedProcesses(isOrphan);
  while (orphanPids.length > 0) {
    signal?.throwIfAborted();
    const isGraceOver = clock.monotonic() - start > graceMs;
    // SIGTERM once, then SIGKILL in each round after the grace time.
    if (!isSignalled || isGraceOver)
      for (const pid of orphanPids) signalProcess(pid, isGraceOver ? "SIGKILL" : "SIGTERM");
    isSignalled = true;
    await sleep(clock, POLL_MS, signal);
    orphanPids = await findOrphanedProcesses(isOrphan);
  }
}

function signalProcess(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch {
    // It has ended meanwhile, or belongs to another user.
  }
}
