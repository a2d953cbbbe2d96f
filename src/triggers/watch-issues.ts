/** Records that the operator cannot watch its own objects: then edits have no effect, and what it knows of releases may be wrong. */

import { oneLine, type Clock, type Timer } from "../lib/index.ts";
import type { State } from "../state/index.ts";

interface WatchIssuesOptions {
  readonly state: Pick<State, "record">;
  readonly clock: Clock;
}

/** A restart of the API server is no issue. */
const REPORT_AFTER_MS = 10_000;

interface FailingWatch {
  error: string;
  readonly timer: Timer;
  isReported: boolean;
}

/** The watches of the operator's own objects that have failed for a while. */
export class WatchIssues {
  readonly #options: WatchIssuesOptions;
  readonly #failing = new Map<string, FailingWatch>();

  constructor(options: WatchIssuesOptions) {
    this.#options = options;
  }

  /** The watch of `what` fails with this error; undefined = it works again. */
  readonly report = (what: string, error: Error | undefined): void => {
    const failing = this.#failing.get(what);
    if (error === undefined) {
      failing?.timer.cancel();
      this.#failing.delete(what);
      if (failing?.isReported === true) this.#record();
      return;
    }
    if (failing !== undefined) {
      failing.error = oneLine(error);
      if (failing.isReported) this.#record();
      return;
    }
    const timer = this.#options.clock.setTimer(REPORT_AFTER_MS, () => {
      watch.isReported = true;
      this.#record();
    });
    const watch: FailingWatch = { error: oneLine(error), timer, isReported: false };
    this.#failing.set(what, watch);
  };

  #record(): void {
    const watchIssues = [...this.#failing]
      .filter(([, { isReported }]) => isReported)
      .map(([what, { error }]) => `${what} cannot be watched: ${error}`);
    this.#options.state.record("factsObserved", { watchIssues });
  }

  close(): void {
    for (const { timer } of this.#failing.values()) timer.cancel();
    this.#failing.clear();
  }
}
