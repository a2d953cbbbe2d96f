/** Records that the operator cannot watch its own objects: then edits have no effect, and what it knows of releases may be wrong. */

import { oneLine, Timers, type Clock } from "../base/index.ts";
import type { State } from "../engine/state/index.ts";

interface WatchIssuesOptions {
  readonly state: Pick<State, "record">;
  readonly clock: Clock;
}

/** A restart of the API server is no issue. */
const REPORT_AFTER_MS = 10_000;

interface FailingWatch {
  error: string;
  isReported: boolean;
}

/** The watches of the operator's own objects that have failed for a while. */
export class WatchIssues {
  readonly #options: WatchIssuesOptions;
  readonly #failing = new Map<string, FailingWatch>();
  /** Report the issues of failing watches. */
  readonly #timers: Timers<string>;

  constructor(options: WatchIssuesOptions) {
    this.#options = options;
    this.#timers = new Timers(options.clock);
  }

  /** The watch of `what` fails with this error; undefined = it works again. */
  readonly report = (what: string, error: Error | undefined): void => {
    const failing = this.#failing.get(what);
    if (error === undefined) {
      this.#timers.cancel(what);
      this.#failing.delete(what);
      if (failing?.isReported === true) this.#record();
      return;
    }
    if (failing !== undefined) {
      failing.error = oneLine(error);
      if (failing.isReported) this.#record();
      return;
    }
    const watch: FailingWatch = { error: oneLine(error), isReported: false };
    this.#failing.set(what, watch);
    this.#timers.set(what, REPORT_AFTER_MS, () => {
      watch.isReported = true;
      this.#record();
    });
  };

  #record(): void {
    const watchIssues = [...this.#failing]
      .filter(([, { isReported }]) => isReported)
      .map(([what, { error }]) => `${what} cannot be watched: ${error}`);
    this.#options.state.record("watchIssuesChanged", watchIssues);
  }

  close(): void {
    this.#timers.close();
    this.#failing.clear();
  }
}
