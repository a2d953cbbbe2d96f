import type { Clock, Timer } from "../../src/base/index.ts";

interface Pending {
  readonly at: number;
  readonly seq: number;
  readonly fn: () => void;
}

/** A clock that only moves when a test turns it. Timers run in order of their time, then of their making. */
export class ManualClock implements Clock {
  #now: number;
  #seq = 0;
  /** How far the wall clock is ahead of the monotonic one. */
  #ahead = 0;
  readonly #pending = new Set<Pending>();

  constructor(startMs = Date.UTC(2026, 0, 1)) {
    this.#now = startMs;
  }

  now(): number {
    return this.#now + this.#ahead;
  }

  /** Somebody sets the wall clock: ahead by `ms`, or back where that is negative. Timers go on as they would. */
  setWall(ms: number): void {
    this.#ahead += ms;
  }

  monotonic(): number {
    return this.#now;
  }

  setTimer(ms: number, fn: () => void): Timer {
    const pending: Pending = { at: this.#now + Math.max(0, ms), seq: this.#seq++, fn };
    this.#pending.add(pending);
    return { cancel: () => this.#pending.delete(pending) };
  }

  /** Time of the next timer, in ms since the epoch. */
  get nextTimerAt(): number | undefined {
    return this.#earliest()?.at;
  }

  /** How many timers are set. */
  get timers(): number {
    return this.#pending.size;
  }

  /** Moves time by `ms`, running every timer that falls due and what follows from it. */
  async advance(ms: number): Promise<void> {
    const end = this.#now + ms;
    await settle();
    for (let next = this.#earliest(); next !== undefined && next.at <= end; next = this.#earliest()) {
      this.#now = Math.max(this.#now, next.at);
      this.#pending.delete(next);
      next.fn();
      await settle();
    }
    this.#now = end;
  }

  #earliest(): Pending | undefined {
    let first: Pending | undefined;
    for (const each of this.#pending)
      if (first === undefined || each.at < first.at || (each.at === first.at && each.seq < first.seq))
        first = each;
    return first;
  }
}

/** Lets promise chains and immediates that are ready run to their end. */
export async function settle(turns = 5): Promise<void> {
  for (let turn = 0; turn < turns; turn++) {
    await new Promise((resolve) => {
      setImmediate(resolve);
    });
  }
}
