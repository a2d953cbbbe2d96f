/** The log level that `config set` changes, for good or for a time. */

import type { LogLevel } from "../lib/index.ts";
import type { Sources } from "./routes.ts";

/**
 * The log level as `config set` changes it: the last change counts; one with a duration falls back to the level
 * before the first of them.
 */
export class TemporaryLevel {
  readonly #sources: Pick<Sources, "log" | "clock">;
  /** The level that timed changes fall back to; undefined while none is in force. */
  #lasting: LogLevel | undefined;
  #changes = 0;

  constructor(sources: Pick<Sources, "log" | "clock">) {
    this.#sources = sources;
  }

  get now(): LogLevel {
    return this.#sources.log.level;
  }

  /** Sets the level for `ms` milliseconds, or for good. */
  set(level: LogLevel, ms: number | undefined): void {
    const { log, clock } = this.#sources;
    const lasting = this.#lasting ?? log.level;
    const change = ++this.#changes;
    log.level = level;
    this.#lasting = ms === undefined ? undefined : lasting;
    if (ms === undefined) return;
    clock.setTimer(ms, () => {
      if (change !== this.#changes) return;
      log.level = lasting;
      this.#lasting = undefined;
    });
  }
}
