/** Errors that no caller can catch, such as those of timers. */

import { oneLine } from "./errors.ts";
import type { Logger } from "./log.ts";

/** Most lines of a stack trace that a log line shows, and most characters of these lines. */
const MAX_FRAMES = 3;
const MAX_FRAMES_LENGTH = 1000;

/** Handles errors that no caller can catch, such as those of a timer's callback: logs and counts each, and the operator continues. */
export class Failures {
  readonly #logger: Logger;
  /** Called for each error, so that metrics count it. */
  onFailure: (place: string) => void = () => {};

  constructor(logger: Logger) {
    this.#logger = logger;
  }

  /** Logs and counts an error. `place` names what called the failed callback, such as `timer`. */
  report(place: string, error: unknown): void {
    this.onFailure(place);
    this.#logger.error("An internal error", { place, error: oneLine(error), at: readStackFrames(error) });
  }

  /** Calls `fn` and reports what it throws, or what the promise it returns is rejected with. */
  callAndReport(place: string, fn: () => unknown): void {
    const report = (error: unknown): void => this.report(place, error);
    try {
      const answer = fn();
      if (answer instanceof Promise) answer.catch(report);
    } catch (error) {
      report(error);
    }
  }
}

/** The innermost frames of the error's stack trace, in one line for the log. */
function readStackFrames(error: unknown): string {
  const stack = error instanceof Error && typeof error.stack === "string" ? error.stack : "";
  const frames = stack.split("\n").filter((line) => line.trimStart().startsWith("at "));
  return oneLine(frames.slice(0, MAX_FRAMES).join(" "), MAX_FRAMES_LENGTH);
}
