/** Ends a child with its whole process group, and finds what is left of the group. */

import { sleep, type Clock, type Timer } from "../lib/index.ts";
import { listPids, readStat } from "./proc.ts";

const POLL_MS = 20;
/** How long to wait for the end of a group after SIGKILL: zombies that nobody reaps look alive. */
const AFTER_KILL_MS = 200;

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
  #timer: Timer | undefined;

  constructor(pid: number, clock: Clock) {
    this.#pid = pid;
    this.#clock = clock;
  }

  get reason(): TerminationReason | undefined {
    return this.#reason;
  }

  /** Sends SIGTERM now and SIGKILL after `graceMs`. Does nothing if an earlier call kills sooner. */
  terminate(reason: TerminationReason, graceMs: number): void {
    const killAt = this.#clock.monotonic() + graceMs;
    if (killAt >= this.#killAt) return;
    if (this.#reason === undefined) signalGroup(this.#pid, "SIGTERM");
    this.#reason ??= reason;
    this.#killAt = killAt;
    this.#timer?.cancel();
    this.#timer = this.#clock.setTimer(graceMs, () => signalGroup(this.#pid, "SIGKILL"));
  }

  /**
   * Call it after the child has exited. If the group was terminated, waits until its other processes have ended or were
   * killed; otherwise they may go on in the background.
   */
  async waitForGroupEnd(): Promise<void> {
    const deadline = this.#killAt + AFTER_KILL_MS;
    while (this.#reason !== undefined && isGroupAlive(this.#pid) && this.#clock.monotonic() < deadline) {
      await sleep(this.#clock, POLL_MS);
    }
    this.#timer?.cancel();
  }
}

/** Sends a signal to the whole process group led by `pid`. Never throws. */
export function signalGroup(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(-pid, signal);
  } catch {
    // ESRCH: the group has ended. EPERM: a set-uid member, which may not be signalled.
  }
}

function isGroupAlive(pid: number): boolean {
  try {
    // Signal 0 is not sent: it only checks whether the group exists.
    process.kill(-pid, 0);
    return true;
  } catch {
    return false;
  }
}

/**
 * Pids of the processes that remain in a group after its leader has ended. Waits `ms` first, because a filter of output
 * needs a moment to end. Empty where there is no /proc.
 */
export async function listPidsLeftInGroup(group: number, clock: Clock, ms: number): Promise<number[]> {
  if (!isGroupAlive(group)) return [];
  await sleep(clock, ms);
  const allPids = await listPids();
  const stats = await Promise.all(allPids.map(readStat));
  // A zombie has ended; only its parent has not collected it yet.
  return allPids.filter((_, index) => stats[index]?.processGroup === group && stats[index].state !== "Z");
}
