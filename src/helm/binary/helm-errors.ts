/** The errors of work on releases. */

import { ApiError, ConnectionError } from "../../kube/index.ts";
import { shortenMiddle } from "../../lib/index.ts";
import type { RunResult } from "../../process/index.ts";

/** helm failed, was cancelled or could not be started. `message` is one line for people, without secrets. */
export class HelmError extends Error {
  readonly verb: string;
  /** Its `message` comes from `extractReason`; stdout and stderr are unredacted. */
  readonly result: RunResult;

  /** `hook`: the chart's hook in which it failed. */
  constructor(verb: string, result: RunResult, hook?: string) {
    const blame = hook === undefined ? "" : `; its hook ${hook} did not succeed`;
    super(`helm ${verb}: ${result.message}${blame}`);
    this.name = "HelmError";
    this.verb = verb;
    this.result = result;
  }
}

/** helm 4.3 has uninstalled a release, but left objects that it could not read. The record says that they are gone. */
export class UnreadObjectsError extends HelmError {}

/** What helm reports if the API server, or a webhook of another owner, does not answer, in the words of Go and of Kubernetes. */
const NO_ANSWER =
  /connection refused|connection reset by peer|broken pipe|no such host|network is unreachable|no route to host|i\/o timeout|TLS handshake timeout|http2: (?:client|server|Transport)|unexpected EOF|: EOF$|currently unable to handle the request|not return a response in the time allotted|failed calling webhook|etcdserver: |leader changed|too many requests|\bUnauthorized$|the server has asked for the client to provide credentials|unable to retrieve the complete list of server APIs/im;

/** Answers of the API server that say only that it cannot answer now. */
const NO_ANSWER_STATUSES = [401, 429];

/** Whether a failure says nothing about the chart and its values, because an answer was missing. */
export function isMissingAnswer(error: unknown): boolean {
  if (error instanceof HelmError) return NO_ANSWER.test(error.result.stderr);
  if (error instanceof ApiError) return error.status >= 500 || NO_ANSWER_STATUSES.includes(error.status);
  return error instanceof ConnectionError;
}

const TRAILING_ADVICE = "\nUse --debug flag to render out invalid YAML";

/** Leaves space in a line for a prefix. */
const MAX_REASON_LENGTH = 440;

/**
 * Extracts helm's own error message: from its last `Error:` to the end, in one line. Of a long one, both ends are kept, because the
 * names of nested templates come before the problem. `hide` removes secrets.
 */
export function extractReason(result: RunResult, hide: (text: string) => string): string {
  const errorText = extractErrorText(result, hide);
  return wasEndedByForeignSignal(result)
    ? `${errorText}; a signal that is not this operator's ended it`
    : errorText;
}

/** The end of helm's message after a signal. */
const CANCELLED_SUFFIX = " has been cancelled.";

/** Whether a signal ended helm that this operator did not send, for example the kernel's when memory is short. */
function wasEndedByForeignSignal({ outcome, signal, stdout }: RunResult): boolean {
  return outcome === "failed" && (signal !== undefined || stdout.includes(CANCELLED_SUFFIX));
}

/** Extracts helm's last error from stderr, without its prefix and its advice to use `--debug`. `hide` removes secrets. */
function extractErrorText(result: RunResult, hide: (text: string) => string): string {
  // The message of a timeout or an abort says more than what helm wrote before the operator ended it.
  const errorStart = result.outcome === "failed" ? result.stderr.lastIndexOf("Error: ") : -1;
  if (errorStart < 0) return hide(result.message);
  const text = result.stderr.slice(errorStart + "Error: ".length).trimEnd();
  const withoutAdvice = text.endsWith(TRAILING_ADVICE) ? text.slice(0, -TRAILING_ADVICE.length) : text;
  return shortenMiddle(withoutLongImmutableValues(hide(withoutAdvice)), MAX_REASON_LENGTH);
}

const VALUE_PREFIX = ": Invalid value: ";
const IMMUTABLE_SUFFIX = ": field is immutable";
const MAX_VALUE_LENGTH = 80;

/** Removes long values of fields that cannot change, such as the whole template of a Job's Pod: they hide what the field is. */
function withoutLongImmutableValues(text: string): string {
  const parts = text.split(IMMUTABLE_SUFFIX);
  return parts
    .map((part, index) => {
      const start = part.lastIndexOf(VALUE_PREFIX);
      const isLong = start >= 0 && part.length - start - VALUE_PREFIX.length > MAX_VALUE_LENGTH;
      return isLong && index < parts.length - 1 ? part.slice(0, start) : part;
    })
    .join(IMMUTABLE_SUFFIX);
}

/** An object of a chart's hook prevents that helm succeeds, which says nothing about the revision: it does not count towards a rollback. */
export class HookObjectError extends Error {
  constructor(message: string) {
    super(message);
    this.name = "HookObjectError";
  }
}

/** The release belongs to another operator, or may not be deleted. */
export class ForeignReleaseError extends Error {
  constructor(release: string, owner: string) {
    super(`release "${release}" belongs to ${owner}`);
    this.name = "ForeignReleaseError";
  }
}

/** helm reports success, but the operator's API server has no new revision. */
export class UnseenError extends Error {
  constructor(release: string, verb: string, server: string) {
    super(
      `helm ${verb} ${release}: helm reports success, but ${server} shows no trace of it; check that the helm binary (--helm-bin) works with the cluster of its --kubeconfig`,
    );
    this.name = "UnseenError";
  }
}

/** The Secret with the record of a revision. */
interface RecordSecret {
  readonly namespace: string;
  readonly secret: string;
}

/** The release record in a Secret cannot be read; a user has to decide what to do. */
export class BrokenRecordError extends SyntaxError {
  constructor({ namespace, secret }: RecordSecret, why: string) {
    const command = `kubectl delete secret ${secret} --namespace ${namespace}`;
    const remedy =
      "restore the Secret from a backup, or delete it to have the release made from the record before";
    super(
      `the release record in Secret ${namespace}/${secret} cannot be read: ${why}; ${remedy}: ${command}`,
    );
    this.name = "BrokenRecordError";
  }
}

/** Objects of a release could not be restored. */
export class RestoreError extends Error {
  readonly missingObjects: readonly string[];

  /** `refusals`: why an object could not be restored, for each. `missingObjects`: the names of those that are still missing. */
  constructor(refusals: readonly string[], missingObjects: readonly string[]) {
    super(`cannot bring back ${refusals.join("; ")}`);
    this.name = "RestoreError";
    this.missingObjects = missingObjects;
  }
}
