/**
 * Why a filter gave no result: its text is wrong (`syntax`), uses what a filter may not (`refused`), it failed on this
 * object (`runtime`), it ran too long (`timeout`), or jq itself is missing or dies (`engine`).
 */
export type FilterFailure = "syntax" | "refused" | "runtime" | "timeout" | "engine";

/** A jq filter that cannot be compiled or has failed; the message is one line. */
export class FilterError extends Error {
  readonly failure: FilterFailure;

  constructor(failure: FilterFailure, message: string) {
    super(message);
    this.name = "FilterError";
    this.failure = failure;
  }
}
