/** Finds and ends children that outlived the operator that started them. */

import { readdir, readFile } from "node:fs/promises";

import { sleep, type Clock } from "../lib/index.ts";

const STEP_MS = 50;

/**
 * Identifies a stray by variables in its environment, each as `NAME=value`: these stay right after a crash and when
 * a pid is used again.
 */
export type Fits = (environment: readonly string[]) => boolean;

/** How strays are ended. */
export interface StrayOptions {
  readonly clock: Clock;
  /** From SIGTERM to SIGKILL. */
  readonly graceMs: number;
  readonly signal?: AbortSignal | undefined;
}

/**
 * Pids of processes that an earlier operator process left, found by the variables it gave them. Empty where there
 * is no /proc.
 */
export async function strays(fits: Fits): Promise<number[]> {
  const pids = (await readdir("/proc").catch(() => [])).filter((name) => /^\d+$/.test(name)).map(Number);
  const fitting = await Promise.all(
    pids.map(async (pid) => {
      if (pid === process.pid) return false;
      const text = await readFile(`/proc/${pid}/environ`, "latin1").catch(() => "");
      return text !== "" && fits(text.split("\0"));
    }),
  );
  return pids.filter((_, at) => fitting[at] === true);
}

/** Ends all that match, and resolves when none is left. */
export async function endStrays(fits: Fits, { clock, graceMs, signal }: StrayOptions): Promise<void> {
  const start = clock.monotonic();
  let told = false;
  for (let pids = await strays(fits); pids.length > 0; pids = await strays(fits)) {
    signal?.throwIfAborted();
    const late = clock.monotonic() - start > graceMs;
    if (!told || late) for (const pid of pids) kill(pid, late ? "SIGKILL" : "SIGTERM");
    told = true;
    await sleep(clock, STEP_MS, signal);
  }
}

function kill(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch {
    // It has ended meanwhile, or belongs to somebody else.
  }
}
