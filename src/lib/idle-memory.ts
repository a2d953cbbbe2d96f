/** Gives memory back to the system when the operator becomes idle. */

import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

import type { Clock, Timer } from "./clock.ts";

type Collect = (options: { type: "major"; execution: "sync"; flavor: "last-resort" }) => void;

/** After this long without work, garbage of the last work is collected. */
const QUIET_MS = 2000;
/** Less than this is not worth the time that it takes. */
const LEAST_GROWTH = 8 * 1024 * 1024;
/** A larger heap would block the event loop for too long; V8 collects it in its own time. */
const LARGEST_HEAP = 64 * 1024 * 1024;

/**
 * Gives memory back after work: V8 collects garbage only when it needs room, which an idle operator does not for
 * hours. One collection after a burst of work that left enough of it, 20–100 ms, once everything is quiet.
 */
export class IdleMemory {
  readonly #clock: Clock;
  readonly #collect: Collect;
  #timer: Timer | undefined;
  #touchedAt = 0;
  /** Bytes in use after the last collection. */
  #kept = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
    setFlagsFromString("--expose-gc");
    this.#collect = runInNewContext("gc") as Collect;
  }

  /** Notes that something was done: the quiet time begins anew. */
  touch(): void {
    this.#touchedAt = this.#clock.monotonic();
    this.#timer ??= this.#clock.setTimer(QUIET_MS, () => this.#look());
  }

  close(): void {
    this.#timer?.cancel();
  }

  /** One timer that checks when the last work was, in place of a new timer for each change of a queue. */
  #look(): void {
    const left = this.#touchedAt + QUIET_MS - this.#clock.monotonic();
    this.#timer = left > 0 ? this.#clock.setTimer(left, () => this.#look()) : undefined;
    if (left <= 0) this.#run();
  }

  #run(): void {
    const used = process.memoryUsage().heapUsed;
    if (used > LARGEST_HEAP || used < this.#kept + LEAST_GROWTH) return;
    this.#collect({ type: "major", execution: "sync", flavor: "last-resort" });
    this.#kept = process.memoryUsage().heapUsed;
  }
}
