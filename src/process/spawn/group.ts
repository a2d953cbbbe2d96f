/** Ends a process group: SIGTERM, then SIGKILL. */

import { type Clock, sleep, type Timer } from "../../lib/index.ts";

const POLL_MS = 20;
/** How long to wait for the end of a group that was sent SIGKILL; zombies that nobody reaps look alive. */
const KILLED_MS = 200;

export type EndReason = "timedOut" | "cancelled";

/**
 * The one way a child is ended from outside: SIGTERM to its whole process group, SIGKILL after the grace time. The
 * first reason counts; a later call can shorten the grace time.
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

  begin(reason: EndReason, graceMs: number): void {
    const killAt = this.#clock.monotonic() + graceMs;
    if (killAt >= this.#killAt) return;
    if (this.#reason === undefined) signalGroup(this.#pid, "SIGTERM");
    this.#reason ??= reason;
    this.#killAt = killAt;
    this.#timer?.cancel();
    this.#timer = this.#clock.setTimer(graceMs, () => signalGroup(this.#pid, "SIGKILL"));
  }

  /** After the leader's end: waits until the rest of the group is gone too, or was killed. */
  async finish(): Promise<void> {
    const patience = this.#killAt + KILLED_MS;
    while (this.#reason !== undefined && groupAlive(this.#pid) && this.#clock.monotonic() < patience) {
      await sleep(this.#clock, POLL_MS);
    }
    this.#timer?.cancel();
  }
}

/** Sends a signal to the whole process group led by `pid`; a group that is gone is fine. */
export function signalGroup(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(-pid, signal);
  } catch {
    // ESRCH: already gone. EPERM: a set-uid member, which may not be signalled.
  }
}

function groupAlive(pid: number): boolean {
  try {
    process.kill(-pid, 0);
    return true;
  } catch {
    return false;
  }
}
