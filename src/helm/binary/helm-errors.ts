/** The errors of work on releases. */

import { bothEnds } from "../../lib/index.ts";
import type { RunResult } from "../../process/index.ts";

/** helm failed, was cancelled or could not be started. `message` is one line for people. */
export class HelmError extends Error {
  readonly verb: string;
  readonly result: RunResult;

  /** `hook`: the chart's hook in which it failed. */
  constructor(verb: string, result: RunResult, hook?: string) {
    const blame = hook === undefined ? "" : `; its hook ${hook} did not succeed`;
    super(`helm ${verb}: ${reasonOf(result)}${blame}`);
    this.name = "HelmError";
    this.verb = verb;
    this.result = result;
  }
}

const LAST_ADVICE = "\nUse --debug flag to render out invalid YAML";

/** What is put before it has room in a line as well. */
const LONGEST_REASON = 440;

/**
 * helm's own error message: from its last `Error:` to the end, in one line. Of a long one both ends: templates that
 * include others are named before what is wrong.
 */
function reasonOf(result: RunResult): string {
  const said = saidOf(result);
  return isEndedByOthers(result) ? `${said}; a signal that is not this operator's ended it` : said;
}

/** helm says so when a signal tells it to end. */
const ENDED = " has been cancelled.";

function isEndedByOthers({ outcome, signal, stdout }: RunResult): boolean {
  return outcome === "failed" && (signal !== undefined || stdout.includes(ENDED));
}

function saidOf(result: RunResult): string {
  const at = result.outcome === "failed" ? result.stderr.lastIndexOf("Error: ") : -1;
  if (at < 0) return result.message;
  const said = result.stderr.slice(at + 7).trimEnd();
  return bothEnds(said.endsWith(LAST_ADVICE) ? said.slice(0, -LAST_ADVICE.length) : said, LONGEST_REASON);
}

/** The release belongs to another operator, or may not be deleted. */
export class ForeignReleaseError extends Error {
  constructor(release: string, owner: string) {
    super(`release "${release}" belongs to ${owner}`);
    this.name = "ForeignReleaseError";
  }
}

/** helm reports success, and the API server that the operator works with does not show it. */
export class UnseenError extends Error {
  constructor(release: string, verb: string, server: string) {
    super(
      `helm ${verb} ${release}: helm reports success, but ${server} shows no trace of it; check that the helm binary (--helm-bin) works with the cluster of its --kubeconfig`,
    );
    this.name = "UnseenError";
  }
}

/** A release's Secret that nobody can read: what to do about it is a person's to decide. */
export class BrokenRecordError extends SyntaxError {
  constructor(secret: string, why: string) {
    super(`Secret ${secret}: ${why}; restore it, or delete it to have the release made from the one before`);
    this.name = "BrokenRecordError";
  }
}

/** Objects of a release could not be restored. */
export class RestoreError extends Error {
  /** Names of the objects that are still missing. */
  readonly left: readonly string[];

  constructor(refusals: readonly string[], left: readonly string[]) {
    super(`cannot bring back ${refusals.join("; ")}`);
    this.name = "RestoreError";
    this.left = left;
  }
}
