import { oneLine } from "../lib/index.ts";
import type { RunResult } from "../process/index.ts";

/** helm failed, was cancelled or could not be started. `message` is one line for people. */
export class HelmError extends Error {
  readonly verb: string;
  readonly result: RunResult;

  constructor(verb: string, result: RunResult) {
    super(`helm ${verb}: ${reasonOf(result)}`);
    this.name = "HelmError";
    this.verb = verb;
    this.result = result;
  }
}

const LAST_ADVICE = /\n+Use --debug flag to render out invalid YAML\s*$/;

/** What helm says went wrong: from its last `Error:` to the end, in one line. */
function reasonOf(result: RunResult): string {
  const at = result.outcome === "failed" ? result.stderr.lastIndexOf("Error: ") : -1;
  return at < 0 ? result.message : oneLine(result.stderr.slice(at + 7).replace(LAST_ADVICE, ""));
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
