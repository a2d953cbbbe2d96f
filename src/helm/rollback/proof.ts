/** Waits until what is healthy has proved to be (docs/LIFECYCLE.md, "Rollback"). */

import { Timers } from "../../lib/index.ts";

/** Longer than a container that crashes is left alone at first: it is ready for a moment each time. */
const PROOF_MS = 60_000;

/** One timer for each module whose release is healthy and has not proved to be. */
export class Proofs extends Timers<string> {
  /** Begins anew with each change; `proved` is called when the module has been healthy all the time. */
  look(module: string, isHealthy: boolean, proved: () => void): void {
    if (isHealthy) this.set(module, PROOF_MS, proved);
    else this.cancel(module);
  }
}
