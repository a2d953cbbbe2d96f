/** A time limit joined with the caller's signal. */

import type { Clock, Timer } from "../../lib/index.ts";

/** A signal that is aborted by a time limit or by the caller's signal, whichever comes first. */
export class Deadline {
  readonly #controller = new AbortController();
  readonly #outer: AbortSignal | undefined;
  readonly #timer: Timer;
  readonly #abort = (): void => this.#controller.abort(this.#outer?.reason);
  #late = false;

  constructor(clock: Clock, ms: number, outer?: AbortSignal) {
    this.#outer = outer;
    this.#timer = clock.setTimer(ms, () => {
      this.#late = true;
      this.#controller.abort();
    });
    if (outer?.aborted) this.#abort();
    else outer?.addEventListener("abort", this.#abort, { once: true });
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** The time limit, not the caller, aborted the signal. */
  get late(): boolean {
    return this.#late;
  }

  /** Removes the time limit; the caller's signal still counts. */
  lift(): void {
    this.#timer.cancel();
  }

  /** Releases the timer and the caller's signal. */
  end(): void {
    this.#timer.cancel();
    this.#outer?.removeEventListener("abort", this.#abort);
  }
}
