/** Waits until what is healthy has proved to be (docs/LIFECYCLE.md, "Rollback"). */

import type { Clock, Timer } from "../../lib/index.ts";

/** Longer than a container that crashes is left alone at first: it is ready for a moment each time. */
const PROOF_MS = 60_000;

/** One timer for each module whose release is healthy and has not proved to be. */
export class Proofs {
  readonly #clock: Clock;
  readonly #timers = new Map<string, Timer>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Begins anew with each change; `proved` is called when the module has been healthy all the time. */
  look(module: string, isHealthy: boolean, proved: () => void): void {
    this.#timers.get(module)?.cancel();
    this.#timers.delete(module);
    if (!isHealthy) return;
    const timer = this.#clock.setTimer(PROOF_MS, () => {
      this.#timers.delete(module);
      proved();
    });
    this.#timers.set(module, timer);
  }

  close(): void {
    for (const timer of this.#timers.values()) timer.cancel();
    this.#timers.clear();
  }
}
