/** Why a filter gives no result. */

/**
 * Why a filter gave no result: its text is wrong (`syntax`), it uses what a filter may not (`refused`), it failed
 * for this object (`runtime`), it took too long (`timeout`), or jq itself is missing or died (`engine`).
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
