/** The record of the converge (`operator-events.ts` changes it). */

import type { Cause } from "../model/index.ts";

/** Phase of *converge all modules*; `scheduledRuns` only where each module has a queue of its own. */
export type ConvergePhase = "idle" | "beforeAll" | "discovery" | "modules" | "scheduledRuns" | "afterAll";

/** Digests of what a converge depends on. */
export interface ConvergeDigests {
  /** Of the `global` section, the flags in the ConfigMap, and the keys that retain releases. */
  readonly globalConfig: string;
  /** Of the merged global values and flags; undefined until discovery. */
  readonly globals: string | undefined;
}

/** The converge in progress, or the last one. */
export interface ConvergeRecord {
  readonly phase: ConvergePhase;
  readonly cause: Cause | undefined;
  readonly startedAt: number | undefined;
  /** Start of the converge by the monotonic clock. */
  readonly begunAt: number;
  readonly finishedAt: number | undefined;
  /** A step failed and is retried. */
  readonly isBlocked: boolean;
  /** Modules that are still to run in this converge. */
  readonly remaining: readonly string[];
  /** What this converge has handled; undefined before the first converge. */
  readonly handled: ConvergeDigests | undefined;
  /** Converges in a row that their own hooks caused, by global values or files (guard against a livelock). */
  readonly rounds: number;
  /** The last converge reached MAX_ROUNDS: the next one is a retry with back-off. */
  readonly isUnstable: boolean;
  /** Digest of the modules' files at the start, if changed files are the cause. */
  readonly content: string | undefined;
}
