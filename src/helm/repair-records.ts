/** Repairs the records of a release (helm's Secrets, one for each revision) after errors of helm, or after a helm that was killed. */

import { apiGroupOf } from "../kube/index.ts";
import { listNames, mapInParallel } from "../base/index.ts";
import { BrokenRecordError, type HelmError } from "./binary/helm-errors.ts";
import { HELM_MESSAGES, helmSays, listInvalidObjects } from "./binary/helm-messages.ts";
import { resourceName, type ObjectRef } from "./manifest/manifest.ts";
import { forgetGoneKinds, moveManagedFields } from "./objects/gone-kinds.ts";
import { claimRemainingHookObjects } from "./objects/hook-objects.ts";
import { MAX_PARALLEL_REQUESTS } from "./objects/live-objects.ts";
import { RecordedObjects } from "./objects/recorded-objects.ts";
import { MAX_LOGGED_OBJECTS } from "./objects/takeover.ts";
import {
  findComparedRevisions,
  isPending,
  releaseSecretName,
  type ReleaseMeta,
} from "./release/revisions.ts";
import type { Reconciliation } from "./types.ts";

/** Lists the objects that helm was to apply. */
type ListWanted = () => Promise<readonly ObjectRef[]> | readonly ObjectRef[];

/**
 * Repairs the records of a release after an error that helm's message identifies. Returns whether a repair was made, so that
 * helm can run again. Throws BrokenRecordError where a user has to repair a Secret.
 */
export async function repairRecords(
  reconciliation: Reconciliation,
  failure: HelmError,
  listWanted: ListWanted,
): Promise<boolean> {
  const { tools, request } = reconciliation;
  const { store, logger } = tools;
  const { module, signal } = request;
  if (helmSays(failure, "operationPending")) {
    await recoverPendingRelease(reconciliation);
    return true;
  }
  if (helmSays(failure, "unknownKind")) {
    const revisions = findComparedRevisions(store.revisions(module.name));
    return forgetGoneKinds(tools, { release: module.name, revisions, listWanted, signal });
  }
  const [, goneVersion] = HELM_MESSAGES.goneVersion.exec(failure.result.stderr) ?? [];
  if (goneVersion !== undefined) return leaveVersion(reconciliation, goneVersion);
  if (helmSays(failure, "unrecognizedRecord")) throw await buildUnrecognizedRecordError(reconciliation);
  if (!helmSays(failure, "nothingDeployed")) return undoReplacedItems(reconciliation, failure);
  // helm upgrades no release whose revisions all failed; without records it installs the release.
  logger.warn("helm refuses the record of a failed release; removing it", { release: module.name });
  await claimRemainingHookObjects(tools, module.name);
  await store.deleteRecords(module.name, signal);
  return true;
}

/** Moves `managedFields` of the release's objects out of a version that is no longer served. Returns whether there were any. */
async function leaveVersion(
  { tools, request: { module, signal } }: Reconciliation,
  goneVersion: string,
): Promise<boolean> {
  const newest = tools.store.get(module.name);
  const { objects } = newest === undefined ? { objects: [] } : await tools.store.readSummary(newest);
  const group = apiGroupOf(goneVersion);
  const inGroup = objects.filter(({ apiVersion }) => apiGroupOf(apiVersion) === group);
  const moves = await mapInParallel(MAX_PARALLEL_REQUESTS, inGroup, (object) =>
    moveManagedFields(tools, object, { from: goneVersion, release: module.name, signal }),
  );
  return moves.includes(true);
}

/**
 * Restores the objects that the API server refuses because others have changed keys of list items, such as the port of a Service: helm
 * adds the recorded item beside the changed one. Returns whether there were any.
 */
async function undoReplacedItems({ tools, request }: Reconciliation, failure: HelmError): Promise<boolean> {
  const { store, logger } = tools;
  const { module, signal } = request;
  const refused = new Set(listInvalidObjects(failure).map(({ kind, name }) => `${kind} ${name}`));
  const compared = findComparedRevisions(store.revisions(module.name)).at(-1);
  if (refused.size === 0 || compared === undefined) return false;
  const [manifest = ""] = await store.readManifests(compared, signal);
  const recorded = new RecordedObjects(tools, module.name, manifest);
  let isRepaired = false;
  for (const object of (await store.readSummary(compared)).objects) {
    if (!refused.has(`${object.kind} ${object.name}`)) continue;
    const inspection = await recorded.inspect(object, { ignore: [], signal });
    if (inspection === undefined || inspection.replaced.length === 0) continue;
    const changes = inspection.fields.map(({ field, manager }) => `${field} by ${manager ?? "someone"}`);
    logger.warn("Changes by others are undone, because helm cannot upgrade the object with them", {
      release: module.name,
      object: resourceName(object),
      changes: listNames(changes, MAX_LOGGED_OBJECTS),
    });
    await inspection.repair();
    isRepaired = true;
  }
  return isRepaired;
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
  const why = "helm does not find it, because helm's labels are missing or wrong";
  return new BrokenRecordError({ namespace: tools.namespace, secret }, why);
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
  if (release === undefined || !isPending(release)) return release;
  logger.warn("Recovering an unfinished release", { release: module.name, status: release.status });
  await store.markFailed(release, `${release.status} was interrupted`, signal);
  return store.get(module.name);
}
