/** Fires subscribers at the ticks of their crontab lines; equal lines share one timer. */

import type { Clock, Timer } from "../lib/index.ts";
import { type Crontab, parseCrontab } from "./crontab.ts";

export interface CronTableOptions {
  readonly clock: Clock;
  /** The zone of lines that name none, e.g. `Europe/Berlin`. */
  readonly zone: string;
}

interface ScheduledLine {
  readonly crontab: Crontab;
  readonly subscribers: Set<{ readonly fire: () => void }>;
  due: number | undefined;
  /** The last tick that fired or was skipped. */
  passed: number;
  timer: Timer | undefined;
}

/** The wall clock is read again this often: it may have been set, or the machine may have slept. */
const LOOK_MS = 60_000;
/** A tick found later than this counts as missed; missed ticks are not made up for. */
const LATE_MS = 30_000;
/** A clock set back by less than this repeats no tick; set back by more, it was wrong before. */
const SET_BACK_MS = 3 * 3_600_000;

/** Fires subscribers at the ticks of crontab lines. */
export class CronTable {
  readonly #clock: Clock;
  readonly #zone: string;
  readonly #entries = new Map<string, ScheduledLine>();

  constructor({ clock, zone }: CronTableOptions) {
    this.#clock = clock;
    this.#zone = zone;
  }

  /**
   * Calls `fire` at each tick of the line, in the order of subscription. `fire` must not throw. Returns a function
   * that ends the subscription. Throws CrontabError.
   */
  add(line: string, fire: () => void): () => void {
    const entry = this.#entries.get(line) ?? this.#open(line);
    const subscriber = { fire };
    entry.subscribers.add(subscriber);
    return () => {
      entry.subscribers.delete(subscriber);
      if (entry.subscribers.size > 0) return;
      entry.timer?.cancel();
      if (this.#entries.get(line) === entry) this.#entries.delete(line);
    };
  }

  /** Ends all subscriptions. */
  close(): void {
    for (const entry of this.#entries.values()) {
      entry.timer?.cancel();
      entry.subscribers.clear();
    }
    this.#entries.clear();
  }

  #open(line: string): ScheduledLine {
    const crontab = parseCrontab(line);
    const passed = this.#clock.now();
    const due = crontab.next(passed, this.#zone);
    const entry: ScheduledLine = { crontab, subscribers: new Set(), due, passed, timer: undefined };
    this.#entries.set(line, entry);
    this.#arm(entry);
    return entry;
  }

  #arm(entry: ScheduledLine): void {
    if (entry.due === undefined) return;
    const wait = Math.min(Math.max(entry.due - this.#clock.now(), 1), LOOK_MS);
    entry.timer = this.#clock.setTimer(wait, () => this.#look(entry));
  }

  #look(entry: ScheduledLine): void {
    const now = this.#clock.now();
    const { due } = entry;
    if (due === undefined) return;
    const late = now - due;
    if (late < 0) this.#early(entry, now);
    else this.#pass(entry, now);
    this.#arm(entry);
    if (late < 0 || late > LATE_MS) return;
    const called = Array.from(entry.subscribers);
    for (const subscriber of called) {
      // A subscriber that another one removed during this tick is not called any more.
      if (entry.subscribers.has(subscriber)) subscriber.fire();
    }
  }

  /** Sets the timer for the first tick after now; `@every` keeps its phase. */
  #pass(entry: ScheduledLine, now: number): void {
    const { crontab, due = now } = entry;
    entry.passed = due;
    const { periodMs } = crontab;
    entry.due =
      periodMs === undefined
        ? crontab.next(now, this.#zone)
        : due + (Math.floor((now - due) / periodMs) + 1) * periodMs;
  }

  #early(entry: ScheduledLine, now: number): void {
    const { crontab, passed } = entry;
    if (now >= passed) return;
    const from = passed - now > SET_BACK_MS ? now : passed;
    entry.due = crontab.periodMs === undefined ? crontab.next(from, this.#zone) : now + crontab.periodMs;
    entry.passed = from;
  }
}
