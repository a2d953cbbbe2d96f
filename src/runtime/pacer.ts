/** Bounds the share of the processor that repeated work takes, so that it does not slow down the rest of the operator. */

import { Timers, type Clock } from "../base/index.ts";

/** Work that took 1 ms delays the next one for 20 ms on average: it takes a twentieth of the time at most. */
const PAUSE_PER_COST = 20;
/** Shortest time between the starts of paced work. */
const MIN_INTERVAL_MS = 50;

interface PacerOptions {
  readonly clock: Clock;
  /** Called at the end of the pause after `trigger`. Passes its work to `measure`. */
  readonly act: () => void;
  /** Longest time between the starts of paced work, whatever it costs. */
  readonly maxIntervalMs: number;
  /** After a pause, work may exceed its share by this much waiting time. */
  readonly burstMs?: number;
  /** Moves the start of work from the time `at` of the monotonic clock to a later one, for example to when others need its result. */
  readonly align?: (at: number) => number;
}

/** Calls `act` after triggers, the later the more processor time the work has used. */
export class Pacer {
  readonly #options: PacerOptions;
  readonly #timers: Timers<"next">;
  #startedAt = Number.NEGATIVE_INFINITY;
  /** When the work so far will have used no more than its share of the time; on the monotonic clock. */
  #budgetFreeAt = 0;
  /** When the scheduled call is due. */
  #dueAt = 0;

  constructor(options: PacerOptions) {
    this.#options = options;
    this.#timers = new Timers(options.clock);
  }

  /** Schedules a call of `act`, unless one is scheduled that is not later. */
  trigger(): void {
    const { clock, act, burstMs = 0, align = (at) => at } = this.#options;
    const now = clock.monotonic();
    const dueAt = align(Math.max(now, this.#startedAt + MIN_INTERVAL_MS, this.#budgetFreeAt - burstMs));
    if (this.#timers.has("next") && this.#dueAt <= dueAt) return;
    this.#dueAt = dueAt;
    this.#timers.set("next", dueAt - now, act);
  }

  /** Schedules a call of `act` in `ms` milliseconds, and calls it no earlier. */
  postpone(ms: number): void {
    const { clock, burstMs = 0 } = this.#options;
    this.cancel();
    this.#budgetFreeAt = Math.max(this.#budgetFreeAt, clock.monotonic() + ms + burstMs);
    this.trigger();
  }

  /** Does work, also without a trigger. Its cost delays the next calls of `act`. */
  measure(work: () => void): void {
    const { clock, maxIntervalMs, burstMs = 0 } = this.#options;
    const startedAt = clock.monotonic();
    this.#startedAt = startedAt;
    work();
    const costMs = clock.monotonic() - startedAt;
    const freeAt = Math.max(this.#budgetFreeAt, startedAt) + PAUSE_PER_COST * costMs;
    // A single expensive work must not delay many later ones.
    this.#budgetFreeAt = Math.min(freeAt, startedAt + maxIntervalMs + burstMs);
  }

  /** Cancels the scheduled call. */
  cancel(): void {
    this.#timers.cancel("next");
  }
}
