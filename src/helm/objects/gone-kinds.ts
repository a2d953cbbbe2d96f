/**
 * Keeps records usable after the API server has stopped to serve a kind, for example because its CRD was deleted or has lost a version.
 * Helm reads the objects of a release from its record, and can neither upgrade, roll back nor remove a release with a kind that it
 * cannot find (docs/reference/modules.md, "The chart").
 */

import { findServedVersion, getMetadata, ignoreNotFound } from "../../kube/index.ts";
import { mapInParallel, oneLine } from "../../base/index.ts";
import { objectOf, objectsIn } from "../../base/model/index.ts";
import { withServedVersions } from "../manifest/edit-manifest.ts";
import { kindKey, resourceName, type ObjectRef } from "../manifest/manifest.ts";
import type { ReleaseMeta } from "../release/revisions.ts";
import type { Reconciler } from "../types.ts";
import {
  findOtherOwner,
  locateObject,
  MAX_PARALLEL_REQUESTS,
  readOwner,
  writeManagedFields,
} from "./live-objects.ts";

interface RecordsOfRelease {
  readonly release: string;
  /** The revisions that helm is about to read. */
  readonly revisions: readonly ReleaseMeta[];
  /** Lists the objects that helm is about to apply. Their kinds must exist, so records that have them stay as they are. */
  readonly listWanted?: () => Promise<readonly ObjectRef[]> | readonly ObjectRef[];
  readonly signal: AbortSignal | undefined;
}

/**
 * Call it before helm reads records. Removes objects of kinds that the API server no longer serves, because they no longer exist, and
 * moves objects to another version of their kind if their own is no longer served. Logs and announces each, and returns whether there
 * were any. Throws ApiError, ConnectionError if the API server does not answer for a group: then nothing is known about its objects.
 */
export async function forgetGoneKinds(tools: Reconciler, records: RecordsOfRelease): Promise<boolean> {
  const { release, revisions, listWanted, signal } = records;
  const summaries = await Promise.all(revisions.map((meta) => tools.store.readSummary(meta)));
  const recorded = summaries.flatMap(({ objects, hooks }) => [...objects, ...hooks.map(({ ref }) => ref)]);
  const unserved = await findUnservedKinds(tools, recorded, signal);
  if (unserved.size === 0) return false;
  for (const object of (await listWanted?.()) ?? []) unserved.delete(kindKey(object));
  const changed = recorded.filter((object) => unserved.has(kindKey(object)));
  if (changed.length === 0) return false;
  for (const meta of revisions)
    await tools.store.mapManifests(meta, (manifest) => withServedVersions(manifest, unserved), signal);
  await mapInParallel(MAX_PARALLEL_REQUESTS, changed, async (object) => {
    const apiVersion = unserved.get(kindKey(object));
    if (apiVersion === undefined) return;
    await moveManagedFields(tools, { ...object, apiVersion }, { from: object.apiVersion, release, signal });
  });
  const names = [...new Set(changed.map((object) => describeChange(object, unserved.get(kindKey(object)))))];
  tools.logger.warn(
    "The record of a release names kinds that the API server does not serve; it is corrected",
    {
      release,
      objects: names,
    },
  );
  tools.report?.forgotKinds(release, names);
  return true;
}

/** Finds kinds of objects that the API server does not serve in their version. Each has the version that is served instead, if any. */
async function findUnservedKinds(
  { discovery, client }: Reconciler,
  objects: readonly ObjectRef[],
  signal: AbortSignal | undefined,
): Promise<Map<string, string | undefined>> {
  const kinds = new Map(objects.map((object) => [kindKey(object), object]));
  const unserved = new Map<string, string | undefined>();
  // Kinds may have gone since the last discovery.
  discovery.invalidate();
  for (const [key, object] of kinds) {
    try {
      if ((await discovery.resolve(object.kind, object.apiVersion)) !== undefined) continue;
      // Discovery also lacks what it could not read.
      const served = await findServedVersion(object, { client, signal });
      if (served !== object.apiVersion) unserved.set(key, served);
    } catch (error) {
      const message = `cannot determine whether the API server serves ${object.kind} of ${object.apiVersion}: ${oneLine(error)}`;
      throw new Error(message, { cause: error });
    }
  }
  return unserved;
}

interface FieldsMove {
  /** The version that is not served any more. */
  readonly from: string;
  readonly release: string;
  readonly signal: AbortSignal | undefined;
}

/**
 * Moves the entries in `managedFields` of a live object to the version of `object`: the API server refuses each server-side apply of a
 * custom resource with an entry of a version that it does not serve. Returns whether there were any. Does nothing if the object is
 * missing or belongs to another release.
 */
export async function moveManagedFields(
  tools: Reconciler,
  object: ObjectRef,
  { from, release, signal }: FieldsMove,
): Promise<boolean> {
  const { client, namespace } = tools;
  const target = await locateObject(tools, object);
  if (target === undefined) return false;
  const found = await getMetadata(client, target, { signal }).catch(ignoreNotFound);
  if (found === undefined) return false;
  const { managedFields, annotations } = objectOf(found["metadata"]);
  const owner = readOwner(objectOf(annotations) as Record<string, string>, namespace);
  const isForeign = findOtherOwner(owner, { release, namespace }) !== undefined;
  const entries = objectsIn(managedFields);
  if (isForeign || entries.every((entry) => entry["apiVersion"] !== from)) return false;
  const { apiVersion } = object;
  const moved = entries.map((entry) => (entry["apiVersion"] === from ? { ...entry, apiVersion } : entry));
  await writeManagedFields(client, target, { live: found, managedFields: moved }, { signal }).catch(
    ignoreNotFound,
  );
  return true;
}

/** Describes for people what happens to an object in the record. */
function describeChange(object: ObjectRef, served: string | undefined): string {
  const name = `${resourceName(object)} of ${object.apiVersion}`;
  return served === undefined ? `${name}: the kind does not exist any more` : `${name}: read as ${served}`;
}
