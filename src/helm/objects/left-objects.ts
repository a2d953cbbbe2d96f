/**
 * Deletes what helm left. In an upgrade or a rollback, helm skips the deletion of an object that it cannot read, and succeeds: no later revision
 * contains the object, so nobody would delete it.
 */

import { ignoreNotFound, remove } from "../../kube/index.ts";
import { mapInParallel, oneLine } from "../../lib/index.ts";
import { resourceKey, resourceName, type ObjectRef } from "../manifest/manifest.ts";
import type { Reconciler } from "../types.ts";
import { hasKeepPolicy, isSameOwner, MAX_PARALLEL_REQUESTS, readLiveObject } from "./live-objects.ts";

/**
 * Call it after a success of helm: deletes those of the `recorded` objects, which `retainBeforeUpgrade` has returned, that the installed
 * revision lacks and that still belong to the release. Never throws: the release is installed. An object that cannot be deleted is logged.
 */
export async function deleteLeftObjects(
  tools: Reconciler,
  release: string,
  { recorded, signal }: { readonly recorded: readonly ObjectRef[]; readonly signal: AbortSignal },
): Promise<void> {
  if (recorded.length === 0) return;
  // Not by version: helm may have applied the same object in another one.
  const keyOf = ({ namespace = tools.namespace, ...object }: ObjectRef): string =>
    resourceKey({ ...object, namespace, apiVersion: "" });
  try {
    const installed = tools.store.get(release);
    if (installed === undefined) return;
    const { objects } = await tools.store.readSummary(installed);
    const dropped = new Map(recorded.map((object) => [keyOf(object), object]));
    for (const object of objects) dropped.delete(keyOf(object));
    await mapInParallel(MAX_PARALLEL_REQUESTS, [...dropped.values()], (object) =>
      deleteIfLeft(tools, object, { release, signal }),
    );
  } catch (error) {
    tools.logger.warn("Objects that helm left are not known", { release, error: oneLine(error) });
  }
}

/** Deletes an object unless it is gone, is being deleted, must be kept, or belongs to another owner. */
async function deleteIfLeft(
  tools: Reconciler,
  object: ObjectRef,
  { release, signal }: { readonly release: string; readonly signal: AbortSignal },
): Promise<void> {
  const fields = { release, object: resourceName(object) };
  try {
    const live = await readLiveObject(tools, object, signal);
    const isOwn = isSameOwner(live?.owner, { release, namespace: tools.namespace });
    if (live === undefined || !isOwn || live.isTerminating || hasKeepPolicy(live)) return;
    const { uid } = live;
    await remove(tools.client, live.target, { preconditions: { uid }, signal }).catch(ignoreNotFound);
    tools.logger.warn("An object that helm left is deleted", fields);
  } catch (error) {
    tools.logger.warn("An object that helm left cannot be deleted", { ...fields, error: oneLine(error) });
  }
}
