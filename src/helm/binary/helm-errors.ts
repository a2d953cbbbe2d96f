/** The errors of work on releases. */

import type { RunResult } from "../../base/process/index.ts";

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
  /** `refusal`: why helm cannot write its record, if the API server says so. */
  constructor(release: string, verb: string, server: string, refusal?: string) {
    const why =
      refusal === undefined
        ? `${server} shows no trace of it; check that the helm binary (--helm-bin) works with the cluster of its --kubeconfig`
        : `it could not write the record of the release: ${refusal}`;
    super(`helm ${verb} ${release}: helm reports success, but ${why}`);
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
