/** Finds and ends orphans: processes that an earlier operator process has left. */

import { readFile } from "node:fs/promises";

import { sleep, type Clock } from "../lib/index.ts";
import { pids } from "./proc.ts";

const STEP_MS = 50;

/**
 * Recognizes an orphan by its environment variables, each as `NAME=value`. Unlike a pid, these remain reliable after a
 * crash and when pids are reused.
 */
export type EnvironmentMatch = (environment: readonly string[]) => boolean;

/** How orphans are ended. */
export interface StrayOptions {
  readonly clock: Clock;
  /** From SIGTERM to SIGKILL. */
  readonly graceMs: number;
  readonly signal?: AbortSignal | undefined;
}

/** Pids of orphans of an earlier operator process, found by their environment variables. Empty where /proc is missing. */
export async function strays(isStray: EnvironmentMatch): Promise<number[]> {
  const allPids = await pids();
  const isStrayAt = await Promise.all(
    allPids.map(async (pid) => {
      if (pid === process.pid) return false;
      const text = await readFile(`/proc/${pid}/environ`, "latin1").catch(() => "");
      return text !== "" && isStray(text.split("\0"));
    }),
  );
  return allPids.filter((_, index) => isStrayAt[index] === true);
}

/** Ends all matching orphans, and resolves when none is left. */
export async function endStrays(
  isStray: EnvironmentMatch,
  { clock, graceMs, signal }: StrayOptions,
): Promise<void> {
  const start = clock.monotonic();
  let isSignalled = false;
  for (let strayPids = await strays(isStray); strayPids.length > 0; strayPids = await strays(isStray)) {
    signal?.throwIfAborted();
    const isGraceOver = clock.monotonic() - start > graceMs;
    // SIGTERM once, then SIGKILL in each round after the grace time.
    if (!isSignalled || isGraceOver)
      for (const pid of strayPids) kill(pid, isGraceOver ? "SIGKILL" : "SIGTERM");
    isSignalled = true;
    await sleep(clock, STEP_MS, signal);
  }
}

/** Sends a signal; ignores an error. */
function kill(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch {
    // It has ended meanwhile, or belongs to another user.
  }
}
