import type { Clock } from "./clock.ts";
import { oneLine } from "./errors.ts";
import type { Logger } from "./log.ts";

/** Frames of a trace that are logged. */
const FRAMES = 3;
const LONGEST_FRAMES = 1000;

/** Errors that nobody waits for, such as those of a timer's callback: each is logged and counted, and ends nothing. */
export class Failures {
  readonly #logger: Logger;
  /** Called for each. */
  onFailure: (place: string) => void = () => {};

  constructor(logger: Logger) {
    this.#logger = logger;
  }

  /** `place` is what called back, such as `timer`. */
  report(place: string, error: unknown): void {
    this.onFailure(place);
    this.#logger.error("An internal error", { place, error: oneLine(error), at: framesOf(error) });
  }

  /** Calls `fn`; reports what it throws, also later where it promises something. */
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

/** A clock whose timers report what their callbacks throw, also later as promises. */
export function guardedClock(clock: Clock, failures: Failures): Clock {
  return {
    now: () => clock.now(),
    monotonic: () => clock.monotonic(),
    setTimer: (ms, fn) => clock.setTimer(ms, () => failures.guard("timer", fn)),
  };
}
