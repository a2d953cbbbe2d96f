/** Changes of the log level at run time. */

import type { Clock, LogLevel } from "../lib/index.ts";

interface LevelSources {
  readonly log: { level: LogLevel };
  readonly clock: Clock;
}

/**
 * The log level as `config set` changes it. The last change is in force; a temporary one reverts to the level before the
 * first temporary change.
 */
export class LogLevelControl {
  readonly #sources: LevelSources;
  /** The level to revert to; undefined while no temporary change is in force. */
  #baseLevel: LogLevel | undefined;
  #changeCount = 0;

  constructor(sources: LevelSources) {
    this.#sources = sources;
  }

  get current(): LogLevel {
    return this.#sources.log.level;
  }

  /** Sets the level for `ms` milliseconds; without `ms` permanently. */
  set(level: LogLevel, ms: number | undefined): void {
    const { log, clock } = this.#sources;
    const base = this.#baseLevel ?? log.level;
    const changeNumber = ++this.#changeCount;
    log.level = level;
    this.#baseLevel = ms === undefined ? undefined : base;
    if (ms === undefined) return;
    clock.setTimer(ms, () => {
      // A later change has replaced this one.
      if (changeNumber !== this.#changeCount) return;
      log.level = base;
      this.#baseLevel = undefined;
    });
  }
}
