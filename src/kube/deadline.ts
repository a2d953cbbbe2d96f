import type { Clock, Timer } from "../lib/index.ts";

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

  /** Takes the time limit off; the caller's signal still counts. */
  lift(): void {
    this.#timer.cancel();
  }

  /** Lets go of timer and outer signal. */
  end(): void {
    this.#timer.cancel();
    this.#outer?.removeEventListener("abort", this.#abort);
  }
}
