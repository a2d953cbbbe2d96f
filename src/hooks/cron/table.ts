/** Calls subscribers at the ticks of their crontab lines; equal lines share one timer. An `@every` line (`periodMs`) counts from its subscription. */

import { Timers, type Clock } from "../../base/index.ts";
import { type Crontab, parseCrontab } from "./crontab.ts";
import { TimeZone } from "./time-zone.ts";

/** An object for each subscription: the same function may subscribe twice. */
interface Subscriber {
  readonly fire: () => void;
}

interface ScheduledLine {
  readonly crontab: Crontab;
  readonly subscribers: Set<Subscriber>;
  nextTickAt: number | undefined;
  /** The last tick that fired or was skipped. */
  lastTickAt: number;
}

/** The wall clock is read again this often: it may have been set, or the machine may have slept. */
const CHECK_MS = 60_000;
/** A tick later than this counts as missed; missed ticks do not fire. */
const LATE_MS = 30_000;
/** A clock that is set back by less than this repeats no tick; a larger change means that the clock was wrong before. */
const SET_BACK_MS = 3 * 3_600_000;

/** The schedules of all hooks. */
export class CronTable {
  readonly #clock: Clock;
  #openedZone: TimeZone | undefined;
  readonly #entries = new Map<string, ScheduledLine>();
  readonly #timers: Timers<ScheduledLine>;

  /** `zone` is the default time zone of lines, as in `TimeZone`. Throws a RangeError for an unknown one. */
  constructor({ clock, zone }: { readonly clock: Clock; readonly zone: string | undefined }) {
    this.#clock = clock;
    this.#timers = new Timers(clock);
    if (zone !== undefined) this.#openedZone = new TimeZone(zone);
  }

  /** That of the system is opened with the first line: Node takes some 10 ms to load the data of time zones, which most operators do not need. */
  get #zone(): TimeZone {
    return (this.#openedZone ??= new TimeZone(undefined));
  }

  /**
   * Calls `fire` at each tick of the line, in the order of subscription. `fire` must not throw. Returns a function
   * that ends the subscription. Throws CrontabError.
   */
  add(line: string, fire: () => void): () => void {
    const entry = this.#entries.get(line) ?? this.#openLine(line);
    const subscriber = { fire };
    entry.subscribers.add(subscriber);
    return () => {
      entry.subscribers.delete(subscriber);
      if (entry.subscribers.size > 0) return;
      this.#timers.cancel(entry);
      if (this.#entries.get(line) === entry) this.#entries.delete(line);
    };
  }

  /** Ends all subscriptions. */
  close(): void {
    for (const entry of this.#entries.values()) {
      this.#timers.cancel(entry);
      entry.subscribers.clear();
    }
    this.#entries.clear();
  }

  /** Parses a line that has no subscribers yet, and sets its first timer. */
  #openLine(line: string): ScheduledLine {
    const crontab = parseCrontab(line);
    const lastTickAt = this.#clock.now();
    const nextTickAt = crontab.next(lastTickAt, this.#zone);
    const entry = { crontab, subscribers: new Set<Subscriber>(), nextTickAt, lastTickAt };
    this.#entries.set(line, entry);
    this.#scheduleCheck(entry);
    return entry;
  }

  /** Sets the timer for the next tick, or for the next check of the wall clock if that comes first. */
  #scheduleCheck(entry: ScheduledLine): void {
    if (entry.nextTickAt === undefined) return;
    const wait = Math.min(Math.max(entry.nextTickAt - this.#clock.now(), 1), CHECK_MS);
    this.#timers.set(entry, wait, () => this.#fireIfDue(entry));
  }

  /** Called by the timer. Fires the subscribers if a tick is due and not too late, and sets the next timer. */
  #fireIfDue(entry: ScheduledLine): void {
    const now = this.#clock.now();
    const { nextTickAt } = entry;
    if (nextTickAt === undefined) return;
    const lateMs = now - nextTickAt;
    if (lateMs < 0) this.#rescheduleIfClockSetBack(entry, now);
    else this.#scheduleNextTick(entry, now);
    this.#scheduleCheck(entry);
    if (lateMs < 0 || lateMs > LATE_MS) return;
    const called = [...entry.subscribers];
    for (const subscriber of called) {
      // Skips a subscriber that another one has removed during this tick. One that was added meanwhile is not called.
      if (entry.subscribers.has(subscriber)) subscriber.fire();
    }
  }

  /** Records the tick as passed and computes the next one after now. For `@every`, that is a multiple of the period after this tick. */
  #scheduleNextTick(entry: ScheduledLine, now: number): void {
    const { crontab, nextTickAt = now } = entry;
    entry.lastTickAt = nextTickAt;
    const { periodMs } = crontab;
    entry.nextTickAt =
      periodMs === undefined
        ? crontab.next(now, this.#zone)
        : nextTickAt + (Math.floor((now - nextTickAt) / periodMs) + 1) * periodMs;
  }

  /** Called before the tick is due. If the clock was set back to before the last tick, computes the next tick again. */
  #rescheduleIfClockSetBack(entry: ScheduledLine, now: number): void {
    const { crontab, lastTickAt } = entry;
    if (now >= lastTickAt) return;
    // A small correction must not repeat ticks that have fired; after a large one, the clock was wrong before.
    const countFrom = lastTickAt - now > SET_BACK_MS ? now : lastTickAt;
    entry.nextTickAt =
      crontab.periodMs === undefined ? crontab.next(countFrom, this.#zone) : now + crontab.periodMs;
    entry.lastTickAt = countFrom;
  }
}
