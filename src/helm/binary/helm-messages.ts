/** What the messages of helm mean: helm has no exit codes, so that only its words tell failures apart. */

import { ApiError, ConnectionError } from "../../kube/index.ts";
import { shortenMiddle } from "../../base/index.ts";
import type { RunResult } from "../../base/process/index.ts";
import { HelmError } from "./helm-errors.ts";

/** Parts of what helm writes to stderr, by their meaning. */
export const HELM_MESSAGES = {
  /** An object exists already, and its annotations do not name this release. */
  existingObject: /cannot be imported into the current release/,
  /** The server does not serve a kind of the chart. */
  unknownKind: /ensure CRDs are installed first/,
  /** The server refuses a custom resource with `managedFields` of a version that it does not serve. */
  goneVersion: /request to convert CR to an invalid group\/version: ([a-z0-9./-]+)/,
  /** The namespace of an object does not exist: its name. */
  missingNamespace: /\bnamespaces "([^"\s]+)" not found/,
  /** No revision was ever deployed, so helm cannot upgrade. */
  nothingDeployed: /has no deployed releases/,
  /** A record is pending. The last request of a killed helm may make it pending late. */
  operationPending: /another operation [^\n]{0,100} is in progress/,
  /** A Secret exists that helm does not recognize as a record. */
  unrecognizedRecord: /release: already exists|no revision for release/,
  /** helm 4 waited in vain for the object of a hook: its kind, namespace and name. */
  hookNotReady: /resource ([A-Za-z]+)\/([^/\s]+)\/(\S+) not ready\. status: /,
  /** Fields that cannot change, in the API server's words: in general and of bindings, Services, StatefulSets and StorageClasses. */
  immutableField:
    /\bis immutable\b|may not change once set|cannot change roleRef|: Forbidden: updates to \w+ (?:spec for fields other than|are forbidden)/,
  /** The API server, or a webhook of another owner, does not answer, in the words of Go and of Kubernetes. */
  noAnswer:
    /connection refused|connection reset by peer|connection timed out|broken pipe|no such host|server misbehaving|network is unreachable|no route to host|i\/o timeout|TLS handshake timeout|http2: (?:client|server|Transport)|unexpected EOF|: EOF$|currently unable to handle the request|unable to return a response in the time allotted|did not complete within|could not be completed at this time|Internal error occurred: |has prevented the request from succeeding|failed calling webhook|etcdserver: |leader changed|too many requests|\bUnauthorized$|the server has asked for the client to provide credentials|unable to retrieve the complete list of server APIs/im,
} as const;

/**
 * Part of what helm 4.3 prints to stdout when it uninstalls a release, with exit code 0. It reads the owner of each object, and leaves those
 * objects that it cannot read. Their names and the errors follow.
 */
export const UNREAD_OBJECTS = "resource(s) were not deleted because their ownership could not be verified:";

/** Whether helm failed with a message of this meaning. */
export function helmSays({ result }: HelmError, meaning: keyof typeof HELM_MESSAGES): boolean {
  return HELM_MESSAGES[meaning].test(result.stderr);
}

/** An object that the API server refuses: its kind, group and name. */
const INVALID_OBJECT = /\b([A-Z][A-Za-z]*)(?:\.([a-z0-9.-]+))? "([^"\s]+)" is invalid\b/g;

/** An object that the API server refuses. */
export interface InvalidObject {
  readonly kind: string;
  readonly group: string | undefined;
  readonly name: string;
  /** The text from its name to the next such object. */
  readonly text: string;
}

/** Lists the objects that the API server refuses as invalid. */
export function listInvalidObjects({ result: { stderr } }: HelmError): InvalidObject[] {
  const matches = Array.from(stderr.matchAll(INVALID_OBJECT));
  return matches.map((match, index) => {
    const [, kind = "", group, name = ""] = match;
    return { kind, group, name, text: stderr.slice(match.index, matches[index + 1]?.index) };
  });
}

/**
 * Parts of helm's errors about the files of a chart, which values cannot solve: a template that cannot be parsed, another `kubeVersion`, and
 * metadata, dependencies and values.yaml that helm cannot load.
 */
const CHART_FAULT =
  /parse error|incompatible with Kubernetes|Chart\.yaml|chart\.metadata|cannot load |library charts/;

/** Helm's error about a chart whose `kubeVersion` excludes the version for which helm renders it. */
const EXCLUDED_KUBERNETES = / which is incompatible with Kubernetes (v\S+)/;

/** Finds the version of Kubernetes for which helm renders, if the chart excludes it; undefined for any other error. */
export function findExcludedKubernetes({ message }: HelmError): string | undefined {
  return EXCLUDED_KUBERNETES.exec(message)?.[1];
}

/** Whether helm cannot render a chart because of its files. Other errors may be due to values that hooks set, or to the API server. */
export function isChartFault(error: unknown): boolean {
  return error instanceof HelmError && CHART_FAULT.test(error.message);
}

/** Answers of the API server that say only that it cannot answer now. */
const NO_ANSWER_STATUSES = [401, 429];

/**
 * Whether a failure says nothing about the chart and its values, because an answer was missing: to helm, to the operator, or to a question that
 * the failure names, such as who owns an object.
 */
export function isMissingAnswer(error: unknown): boolean {
  if (error instanceof HelmError) return helmSays(error, "noAnswer");
  if (error instanceof ApiError) return error.status >= 500 || NO_ANSWER_STATUSES.includes(error.status);
  return error instanceof ConnectionError || (error instanceof Error && isMissingAnswer(error.cause));
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
  if (ranOutOfMemory(result)) return `${errorText}; the operator's memory limit leaves it no more`;
  return wasEndedByForeignSignal(result)
    ? `${errorText}; a signal that is not this operator's ended it`
    : errorText;
}

/** The last words of a program that could not allocate memory: of Go, the C library, and others. */
const OUT_OF_MEMORY = /\b(?:out of memory|cannot allocate memory)\b/i;

/** Whether helm ended because it got no more memory. Then it reports no error of its own, which can quote the API server. */
function ranOutOfMemory({ outcome, stderr }: RunResult): boolean {
  return outcome === "failed" && !stderr.includes(ERROR_PREFIX) && OUT_OF_MEMORY.test(stderr);
}

const ERROR_PREFIX = "Error: ";

/** The end of helm's message after a signal. */
const CANCELLED_SUFFIX = " has been cancelled.";

/** Whether a signal ended helm that this operator did not send, for example the kernel's when memory is short. */
function wasEndedByForeignSignal({ outcome, signal, stdout }: RunResult): boolean {
  return outcome === "failed" && (signal !== undefined || stdout.includes(CANCELLED_SUFFIX));
}

/** Extracts helm's last error from stderr, without its prefix and its advice to use `--debug`. `hide` removes secrets. */
function extractErrorText(result: RunResult, hide: (text: string) => string): string {
  // The message of a timeout or an abort says more than what helm wrote before the operator ended it.
  const errorStart = result.outcome === "failed" ? result.stderr.lastIndexOf(ERROR_PREFIX) : -1;
  if (errorStart < 0) return hide(result.message);
  const text = result.stderr.slice(errorStart + ERROR_PREFIX.length).trimEnd();
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
