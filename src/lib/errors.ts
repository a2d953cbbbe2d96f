/** Errors as text, and those that no caller can catch, such as those of timers. */

import type { Clock } from "./time/clock.ts";
import type { Logger } from "./log.ts";

/** Converts anything thrown to an Error. */
export function toError(thrown: unknown): Error {
  return thrown instanceof Error ? thrown : new Error(String(thrown));
}

/** The message of anything thrown, in one line of at most `limit` characters. */
export function oneLine(thrown: unknown, limit = 500): string {
  const text = (thrown instanceof Error ? thrown.message : String(thrown)).replaceAll(/\s+/g, " ").trim();
  return text.length > limit ? `${text.slice(0, limit - 1)}…` : text;
}

/** The same of what others say, without the characters that a terminal obeys. */
export function plainLine(text: string, limit = 500): string {
  return oneLine(text.slice(0, 4 * limit).replaceAll(/[\p{Cc}\p{Cf}]+/gu, " "), limit);
}

/** What a terminal obeys, and what turns the direction of text. */
const OBEYED = /[\p{Cc}\u061C\u200E\u200F\u202A-\u202E\u2066-\u2069]/gu;

/** A text of others as it may be printed: what a terminal would obey is shown instead, but for line ends and tabs. */
export function visible(text: string): string {
  return text.replaceAll(OBEYED, (each) =>
    each === "\n" || each === "\t" ? each : `\\u${(each.codePointAt(0) ?? 0).toString(16).padStart(4, "0")}`,
  );
}

/** One line of anything thrown; of a long message the beginning and the end: API servers print a value that they refuse before they say why. */
export function bothEnds(thrown: unknown, limit = 500): string {
  const text = oneLine(thrown, Infinity);
  const half = Math.floor((limit - 3) / 2);
  return text.length > limit ? `${text.slice(0, half)} … ${text.slice(-half)}` : text;
}

/** Lines of a stack trace that are logged. */
const FRAMES = 3;
const LONGEST_FRAMES = 1000;

/**
 * Errors that nobody waits for, such as those of a timer's callback: each is logged and counted, and the operator
 * goes on.
 */
export class Failures {
  readonly #logger: Logger;
  /** Called for each error. */
  onFailure: (place: string) => void = () => {};

  constructor(logger: Logger) {
    this.#logger = logger;
  }

  /** `place` says what called back, such as `timer`. */
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
