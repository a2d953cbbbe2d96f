import type { RunResult } from "../process/index.ts";

/** helm failed, was cancelled or could not be started. `message` is one line for people. */
export class HelmError extends Error {
  readonly verb: string;
  readonly result: RunResult;

  constructor(verb: string, result: RunResult, remedy?: string) {
    super(`helm ${verb}: ${result.message}${remedy === undefined ? "" : ` (${remedy})`}`);
    this.name = "HelmError";
    this.verb = verb;
    this.result = result;
  }
}

/** The release carries the mark of another operator, or is nobody's to delete. */
export class ForeignReleaseError extends Error {
  readonly release: string;

  constructor(release: string, owner: string) {
    super(`release "${release}" belongs to ${owner}`);
    this.name = "ForeignReleaseError";
    this.release = release;
  }
}
