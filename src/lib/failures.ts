/** Errors that no caller can catch, such as those of timers. */

import { oneLine } from "./errors.ts";
import type { Logger } from "./log.ts";
import type { Clock } from "./time/clock.ts";

/** Lines of a stack trace that are logged. */
const FRAMES = 3;
const LONGEST_FRAMES = 1000;

/**
 * Handles errors that no caller can catch, such as those of a timer's callback: logs and counts each, and the operator
 * continues.
 */
export class Failures {
  readonly #logger: Logger;
  /** Called for each error. */
  onFailure: (place: string) => void = () => {};

  constructor(logger: Logger) {
    this.#logger = logger;
  }

  /** `place` names the source of the callback, such as `timer`. */
  report(place: string, error: unknown): void {
    this.onFailure(place);
    this.#logger.error("An internal error", { place, error: oneLine(error), at: framesOf(error) });
  }

  /** Calls `fn` and reports what it throws, or what the promise it returns is rejected with. */
  guard(place: string, fn: () => unknown): void {
    const failed = (error: unknown): void => this.report(place, error);
    try {
      const answer = fn();
      if (answer instanceof Promise) answer.catch(failed);
    } catch (error) {
      failed(error);
    }
  }
}

function framesOf(error: unknown): string {
  const stack = error instanceof Error && typeof error.stack === "string" ? error.stack : "";
  const frames = stack.split("\n").filter((line) => line.trimStart().startsWith("at "));
  return oneLine(frames.slice(0, FRAMES).join(" "), LONGEST_FRAMES);
}

/** A clock that reports errors of its timers' callbacks, and rejections of promises that these return. */
export function guardedClock(clock: Clock, failures: Failures): Clock {
  return {
    now: () => clock.now(),
    monotonic: () => clock.monotonic(),
    setTimer: (ms, fn) => clock.setTimer(ms, () => failures.guard("timer", fn)),
  };
}
