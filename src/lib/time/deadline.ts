/** A time limit for work that the caller can also abort. */

import type { Clock, Timer } from "./clock.ts";

/**
 * A signal that is aborted by a time limit or by the caller's signal, whichever comes first, and that tells which of both it was.
 * `AbortSignal.timeout` does not follow a clock that tests can set.
 */
export class Deadline {
  readonly #controller = new AbortController();
  readonly #callerSignal: AbortSignal | undefined;
  readonly #timer: Timer;
  readonly #abortByCaller = (): void => this.#controller.abort(this.#callerSignal?.reason);
  #isTimedOut = false;

  constructor(clock: Clock, ms: number, callerSignal?: AbortSignal) {
    this.#callerSignal = callerSignal;
    this.#timer = clock.setTimer(ms, () => {
      this.#isTimedOut = true;
      this.#controller.abort();
    });
    if (callerSignal?.aborted) this.#abortByCaller();
    else callerSignal?.addEventListener("abort", this.#abortByCaller, { once: true });
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** Whether the time limit aborted the signal, and not the caller. */
  get isTimedOut(): boolean {
    return this.#isTimedOut;
  }

  /** Removes the time limit. The caller's signal still counts. */
  removeTimeLimit(): void {
    this.#timer.cancel();
  }

  /** Call it when the work is over: cancels the timer, and removes the listener, which the caller's signal would otherwise retain. */
  release(): void {
    this.#timer.cancel();
    this.#callerSignal?.removeEventListener("abort", this.#abortByCaller);
  }
}
