/** Ends a child with its whole process group, and finds what is left of the group. */

import { sleep, type Clock, type Timer } from "../lib/index.ts";
import { pids, statOf } from "./proc.ts";

const POLL_MS = 20;
/** How long to wait for the end of a group after SIGKILL; zombies that are not reaped look alive. */
const KILLED_MS = 200;

export type EndReason = "timedOut" | "cancelled";

/**
 * Ends a child from outside: SIGTERM to its whole process group, SIGKILL after the grace time. The first reason counts; a
 * later call can shorten the grace time.
 */
export class Ending {
  readonly #pid: number;
  readonly #clock: Clock;
  #reason: EndReason | undefined;
  #killAt = Infinity;
  #timer: Timer | undefined;

  constructor(pid: number, clock: Clock) {
    this.#pid = pid;
    this.#clock = clock;
  }

  get reason(): EndReason | undefined {
    return this.#reason;
  }

  /** Sends SIGTERM now and SIGKILL after `graceMs`. Does nothing if an earlier call kills sooner. */
  begin(reason: EndReason, graceMs: number): void {
    const killAt = this.#clock.monotonic() + graceMs;
    if (killAt >= this.#killAt) return;
    if (this.#reason === undefined) signalGroup(this.#pid, "SIGTERM");
    this.#reason ??= reason;
    this.#killAt = killAt;
    this.#timer?.cancel();
    this.#timer = this.#clock.setTimer(graceMs, () => signalGroup(this.#pid, "SIGKILL"));
  }

  /** After the leader's end: waits until the rest of the group has ended too, or was killed. */
  async finish(): Promise<void> {
    const deadline = this.#killAt + KILLED_MS;
    while (this.#reason !== undefined && groupAlive(this.#pid) && this.#clock.monotonic() < deadline) {
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

/** Signal 0 is not sent: it only checks whether the group exists. */
function groupAlive(pid: number): boolean {
  try {
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
export async function pidsLeftInGroup(group: number, clock: Clock, ms: number): Promise<number[]> {
  if (!groupAlive(group)) return [];
  await sleep(clock, ms);
  const allPids = await pids();
  const stats = await Promise.all(allPids.map(statOf));
  // A zombie has ended; only its parent has not collected it yet.
  return allPids.filter((_, index) => stats[index]?.group === group && stats[index].state !== "Z");
}
