/** Repairs the records of a release (helm's Secrets, one for each revision) after errors of helm, or after a helm that was killed. */

import { apiGroupOf } from "../kube/index.ts";
import { listNames, mapInParallel } from "../lib/index.ts";
import { BrokenRecordError } from "./binary/helm-errors.ts";
import { UNKNOWN_KIND } from "./binary/helm.ts";
import { INVALID_OBJECT, resourceName, type ObjectRef } from "./manifest/manifest.ts";
import { forgetGoneKinds, moveManagedFields } from "./objects/gone-kinds.ts";
import { claimRemainingHookObjects } from "./objects/hook-objects.ts";
import { MAX_PARALLEL_REQUESTS } from "./objects/live-objects.ts";
import { RecordedObjects } from "./objects/recorded-objects.ts";
import { MAX_LOGGED_OBJECTS } from "./objects/takeover.ts";
import {
  findComparedRevisions,
  isPendingStatus,
  releaseSecretName,
  type ReleaseMeta,
} from "./release/revisions.ts";
import type { Reconciliation } from "./types.ts";

/** Part of helm's message, because helm has no exit codes: no revision was ever deployed, so helm cannot upgrade. */
const NOTHING_DEPLOYED = "has no deployed releases";
/** Parts of helm's message for a pending record. The last request of a killed helm may make a record pending late. */
const OPERATION_PENDING = ["another operation ", " is in progress"];
/** Parts of helm's messages for a Secret that exists but that helm does not recognize as a record. */
const UNRECOGNIZED_RECORD = ["release: already exists", "no revision for release"];

/** helm's message where the API server refuses a custom resource with `managedFields` of a version that it does not serve. */
const GONE_VERSION = /request to convert CR to an invalid group\/version: ([a-z0-9./-]+)/;

interface FailedUpgrade {
  /** helm's output. */
  readonly stderr: string;
  /** Lists the objects that helm was to apply. */
  readonly listWanted: () => Promise<readonly ObjectRef[]> | readonly ObjectRef[];
}

/**
 * Repairs the records of a release after an error that helm's message identifies. Returns whether a repair was made, so that
 * helm can run again. Throws BrokenRecordError where a user has to repair a Secret.
 */
export async function repairRecords(
  reconciliation: Reconciliation,
  { stderr, listWanted }: FailedUpgrade,
): Promise<boolean> {
  const { tools, request } = reconciliation;
  const { store, logger } = tools;
  const { module, signal } = request;
  if (OPERATION_PENDING.every((part) => stderr.includes(part))) {
    await recoverPendingRelease(reconciliation);
    return true;
  }
  if (stderr.includes(UNKNOWN_KIND)) return forgetKinds(reconciliation, listWanted);
  const [, goneVersion] = GONE_VERSION.exec(stderr) ?? [];
  if (goneVersion !== undefined) return leaveVersion(reconciliation, goneVersion);
  if (UNRECOGNIZED_RECORD.some((text) => stderr.includes(text)))
    throw await buildUnrecognizedRecordError(reconciliation);
  if (!stderr.includes(NOTHING_DEPLOYED)) return undoReplacedItems(reconciliation, stderr);
  // helm upgrades no release whose revisions all failed; without records it installs the release.
  logger.warn("helm refuses the record of a failed release; removing it", { release: module.name });
  await claimRemainingHookObjects(tools, module.name);
  await store.deleteRecords(module.name, signal);
  return true;
}

/** Removes kinds that are no longer served from the records, unless the chart contains them. Returns whether there were any. */
function forgetKinds(
  { tools, request: { module, signal } }: Reconciliation,
  listWanted: FailedUpgrade["listWanted"],
): Promise<boolean> {
  const revisions = findComparedRevisions(tools.store.revisions(module.name));
  return forgetGoneKinds(tools, { release: module.name, revisions, listWanted, signal });
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
async function undoReplacedItems({ tools, request }: Reconciliation, stderr: string): Promise<boolean> {
  const { store, logger } = tools;
  const { module, signal } = request;
  const refused = new Set(
    Array.from(stderr.matchAll(INVALID_OBJECT), ([, kind, , name]) => `${kind} ${name}`),
  );
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
  if (release === undefined || !isPendingStatus(release.status)) return release;
  logger.warn("Recovering an unfinished release", { release: module.name, status: release.status });
  await store.markFailed(release, `${release.status} was interrupted`, signal);
  return store.get(module.name);
}
