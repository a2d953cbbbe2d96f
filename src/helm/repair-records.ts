/** Repairs the records of a release (helm's Secrets, one for each revision) after errors of helm, or after a helm that was killed. */

import { BrokenRecordError } from "./binary/helm-errors.ts";
import { claimRemainingHookObjects } from "./objects/hook-objects.ts";
import { isPendingStatus, releaseSecretName, type ReleaseMeta } from "./release/revisions.ts";
import type { Reconciliation } from "./types.ts";

/** Part of helm's message, because helm has no exit codes: no revision was ever deployed, so helm cannot upgrade. */
const NOTHING_DEPLOYED = "has no deployed releases";
/** Parts of helm's message for a pending record. The last request of a killed helm may make a record pending late. */
const OPERATION_PENDING = ["another operation ", " is in progress"];
/** Parts of helm's messages for a Secret that exists but that helm does not recognize as a record. */
const UNRECOGNIZED_RECORD = ["release: already exists", "no revision for release"];

/**
 * Repairs the records of a release after an error that helm's message identifies. Returns whether a repair was made, so that
 * helm can run again. Throws BrokenRecordError where a user has to repair a Secret.
 */
export async function repairRecords(reconciliation: Reconciliation, stderr: string): Promise<boolean> {
  const { tools, request } = reconciliation;
  const { store, logger } = tools;
  const { module, signal } = request;
  if (OPERATION_PENDING.every((part) => stderr.includes(part))) {
    await recoverPendingRelease(reconciliation);
    return true;
  }
  if (UNRECOGNIZED_RECORD.some((text) => stderr.includes(text)))
    throw await buildUnrecognizedRecordError(reconciliation);
  if (!stderr.includes(NOTHING_DEPLOYED)) return false;
  // helm upgrades no release whose revisions all failed; without records it installs the release.
  logger.warn("helm refuses the record of a failed release; removing it", { release: module.name });
  await claimRemainingHookObjects(tools, module.name);
  await store.deleteRecords(module.name, signal);
  return true;
}

/**
 * Builds the error for a Secret that exists but that helm does not recognize as a record, because its labels are missing or
 * wrong. The Secret has the name of the next revision, unless the newest record is unreadable, which throws BrokenRecordError.
 */
async function buildUnrecognizedRecordError({ tools, request }: Reconciliation): Promise<Error> {
  const { name } = request.module;
  const newest = await tools.store.refresh(name, request.signal);
  if (newest !== undefined) await tools.store.readRecord(newest, request.signal);
  const secret = releaseSecretName(name, (newest?.revision ?? 0) + 1);
  return new BrokenRecordError(secret, "it blocks helm, because it lacks helm's labels or has wrong ones");
}

/**
 * Recovers a release that a killed helm left pending: ends orphaned helm processes, then marks the pending revision failed,
 * because helm refuses to work on a pending release. Returns the newest revision after that.
 */
export async function recoverPendingRelease({
  tools,
  request,
}: Reconciliation): Promise<ReleaseMeta | undefined> {
  const { helm, store, logger } = tools;
  const { module, signal } = request;
  await helm.endOrphanedProcesses(signal, module.name);
  const release = await store.refresh(module.name, signal);
  if (release === undefined || !isPendingStatus(release.status)) return release;
  logger.warn("Recovering an unfinished release", { release: module.name, status: release.status });
  await store.markFailed(release, `${release.status} was interrupted`, signal);
  return store.get(module.name);
}
