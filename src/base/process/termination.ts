/** Ends processes: the process groups of children, and orphans that an earlier operator process has left. */

import { readFile } from "node:fs/promises";

import { attempt, sleep, Timers, type Clock } from "../index.ts";
import { listPids, readStat } from "./proc.ts";

const GROUP_POLL_MS = 20;
/** How long to wait for the end of a group after SIGKILL: zombies that nobody reaps look alive. */
const AFTER_KILL_MS = 200;
const ORPHAN_POLL_MS = 50;

export type TerminationReason = "timedOut" | "cancelled";

/**
 * Terminates the process group of a child: SIGTERM, then SIGKILL after the grace time. The reason of the first call counts;
 * a later call can only shorten the grace time.
 */
export class GroupTerminator {
  readonly #pid: number;
  readonly #clock: Clock;
  #reason: TerminationReason | undefined;
  #killAt = Infinity;
  readonly #timers: Timers<"kill">;

  constructor(pid: number, clock: Clock) {
    this.#pid = pid;
    this.#clock = clock;
    this.#timers = new Timers(clock);
  }

  get reason(): TerminationReason | undefined {
    return this.#reason;
  }

  /** Sends SIGTERM now and SIGKILL after `graceMs`. Does nothing if an earlier call kills sooner. */
  terminate(reason: TerminationReason, graceMs: number): void {
    const killAt = this.#clock.monotonic() + graceMs;
    if (killAt >= this.#killAt) return;
    if (this.#reason === undefined) sendSignal(-this.#pid, "SIGTERM");
    this.#reason ??= reason;
    this.#killAt = killAt;
    this.#timers.set("kill", graceMs, () => void sendSignal(-this.#pid, "SIGKILL"));
  }

  /**
   * Call it after the child has exited. If `terminate` was called, waits until the other processes of the group have ended or were
   * killed; otherwise returns at once, and they may go on in the background.
   */
  async waitForGroupEnd(): Promise<void> {
    const deadline = this.#killAt + AFTER_KILL_MS;
    while (this.#reason !== undefined && sendSignal(-this.#pid, 0) && this.#clock.monotonic() < deadline) {
      await sleep(this.#clock, GROUP_POLL_MS);
    }
    this.#timers.close();
  }
}

/**
 * Sends a signal as kill(2) does: to a process or, if the number is negative, to the process group. Signal 0 only checks whether
 * there is one. Returns false if it has ended or may not be signalled, as one of another user.
 */
export function sendSignal(pid: number, signal: NodeJS.Signals | 0): boolean {
  return attempt(() => process.kill(pid, signal)) === true;
}

/**
 * Pids of the processes that remain in a group after its leader has ended. Waits `ms` first, because a filter of output
 * needs a moment to end. Empty where there is no /proc.
 */
export async function listPidsLeftInGroup(group: number, clock: Clock, ms: number): Promise<number[]> {
  if (!sendSignal(-group, 0)) return [];
  await sleep(clock, ms);
  const allPids = await listPids();
  const stats = await Promise.all(allPids.map(readStat));
  return allPids.filter((_, index) => stats[index]?.processGroup === group && !stats[index].hasEnded);
}

/** Recognizes an orphan by its environment variables, each as `NAME=value`. Unlike a pid, these remain reliable after a crash and when pids are reused. */
export type OrphanMatcher = (environment: readonly string[]) => boolean;

/** How orphans are ended. */
export interface EndOrphansOptions {
  readonly clock: Clock;
  /** From SIGTERM to SIGKILL. */
  readonly graceMs: number;
  readonly signal?: AbortSignal | undefined;
}

/** The pids of processes, other than this one, whose environment variables (`NAME=value`) match. Empty where there is no /proc. */
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
  const startedAt = clock.monotonic();
  let isSignalled = false;
  let orphanPids = await findOrphanedProcesses(isOrphan);
  while (orphanPids.length > 0) {
    signal?.throwIfAborted();
    const isGraceOver = clock.monotonic() - startedAt > graceMs;
    // SIGTERM once, then SIGKILL in each round after the grace time.
    if (!isSignalled || isGraceOver)
      for (const pid of orphanPids) sendSignal(pid, isGraceOver ? "SIGKILL" : "SIGTERM");
    isSignalled = true;
    await sleep(clock, ORPHAN_POLL_MS, signal);
    orphanPids = await findOrphanedProcesses(isOrphan);
  }
}
