/** Why a module is not Ready, in sentences: one format for the state of the running operator and for AddonModules. */

import { formatTimes } from "./task-words.ts";

/** What is known of a module, from its view (`module why`) or from its AddonModule (`kubectl addon why`). */
export interface Reasons {
  /** Errors, what it waits for, and failing hooks, the gravest first. */
  readonly blockers: readonly (string | undefined)[];
  readonly isSuspended: boolean;
  /** What its run does now. */
  readonly activity?: readonly (string | undefined)[];
  /** The failures in a row; `since` and `nextTry` are times in UTC. */
  readonly retry?: RetryReason | undefined;
  /** Why inputs are not tried again after a rollback. */
  readonly refused?: string | undefined;
  /** Objects of its release that do not exist. */
  readonly missing: readonly string[];
  readonly unhealthy: readonly (string | undefined)[];
  readonly drift: string | undefined;
  /** Why some of its hooks cannot run. */
  readonly warnings?: readonly string[];
}

interface RetryReason {
  readonly failures: number;
  readonly reason: string;
  readonly message?: string;
  readonly since?: string;
  readonly nextTry?: string | undefined;
}

/** Turns the known facts about a module into sentences, one for each reason why it is not Ready. */
export function describeReasons(reasons: Reasons): string[] {
  const { blockers, isSuspended, activity = [], retry, missing, unhealthy, warnings = [] } = reasons;
  const facts = [
    ...blockers,
    isSuspended ? "suspended: Helm does not run, hooks continue to run" : undefined,
    ...activity,
    retry && describeRetry(retry),
    reasons.refused,
    missing.length === 0 ? undefined : `missing objects: ${missing.join(", ")}`,
    ...unhealthy,
    reasons.drift,
    ...warnings,
  ];
  return facts.filter((fact) => fact !== undefined);
}

/** A sentence about failures in a row and the next try. */
function describeRetry({ failures, since, reason, message, nextTry }: RetryReason): string {
  const from = since === undefined ? "" : ` since ${since}`;
  const why = message === undefined ? "" : `: ${message}`;
  const next = nextTry === undefined ? "" : `; next try ${nextTry}`;
  return `failed ${formatTimes(failures)}${from} (${reason})${why}${next}`;
}

/** The health of a module in words; undefined where it is healthy, or not known to be unhealthy. */
export function describeHealth(
  health: { readonly status: string; readonly message: string } | undefined,
): string | undefined {
  return health?.status === "False" ? `not healthy: ${health.message}` : undefined;
}
