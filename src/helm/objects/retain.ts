/** Retains objects that must outlive a release or a revision (docs/guides/running.md, "What outlives a release"). */

import { mapInParallel } from "../../lib/index.ts";
import type { Module } from "../../model/index.ts";
import { withoutObjects } from "../manifest/edit-manifest.ts";
import {
  documentsOf,
  hookObjects,
  keyIn,
  objectsOf,
  resourceKey,
  resourceName,
  type ObjectRef,
} from "../manifest/manifest.ts";
import { comparedRevisions, type ReleaseMeta } from "../release/revisions.ts";
import type { Reconciler } from "../types.ts";
import { guardHookObjects } from "./hook-objects.ts";
import { otherOwner } from "./live-objects.ts";
import { AT_ONCE, claim, KEEP, liveObject, mayHave, RESOURCE_POLICY } from "./ownership.ts";

/**
 * Before a release is removed: removes objects that must stay from its record, because helm deletes what the record
 * contains. Throws ExistingObjectsError, and when an object cannot be read or the record was changed meanwhile.
 */
export async function retainInRemoval(
  tools: Reconciler,
  module: Pick<Module, "name" | "helm">,
  signal?: AbortSignal,
): Promise<void> {
  const meta = await tools.store.refresh(module.name, signal);
  if (meta === undefined) return;
  const [manifest = "", ...hooks] = await tools.store.manifests(meta, signal);
  const run = { verb: "delete", hooks: hookObjects(hooks.flatMap(documentsOf)) } as const;
  await guardHookObjects(tools, { module, signal }, run);
  await retain(tools, meta, { objects: objectsOf(documentsOf(manifest)), signal });
}

/**
 * Before an upgrade: removes objects that must stay from the record, because helm deletes objects that the chart no longer
 * contains. `made` is the current rendering. Without it, all objects are checked.
 */
export async function retainInUpgrade(
  tools: Reconciler,
  release: string,
  next: { readonly made: readonly ObjectRef[] | undefined; readonly signal: AbortSignal },
): Promise<void> {
  const made = new Set(next.made?.map(resourceKey));
  for (const meta of comparedRevisions(tools.store.revisions(release))) {
    const { objects } = await tools.store.summary(meta);
    const dropped = objects.filter((object) => !made.has(resourceKey(object)));
    if (dropped.length > 0) await retain(tools, meta, { objects: dropped, signal: next.signal });
  }
}

/**
 * Removes objects that must stay from the record of a revision. An object stays if another module is about to apply it,
 * another release has adopted it, or it has the policy `keep`. If another module is about to apply an object, and its account
 * may do so, the object is marked as owned by the release of that module.
 */
async function retain(
  tools: Reconciler,
  meta: ReleaseMeta,
  check: { readonly objects: readonly ObjectRef[]; readonly signal: AbortSignal | undefined },
): Promise<void> {
  const pendingOwners = await tools.pendingOwners(check.signal);
  const checked = await mapInParallel(AT_ONCE, check.objects, async (object) => {
    const why = await reasonToStay(object);
    return why === undefined ? [] : [{ object, why }];
  });
  const retained = checked.flat();
  if (retained.length === 0) return;
  for (const { object, why } of retained)
    tools.logger.warn("An object is not deleted", { release: meta.name, object: resourceName(object), why });
  const [manifest = ""] = await tools.store.manifests(meta, check.signal);
  const stay = retained.map(({ object }) => object);
  await tools.store.replaceManifest(meta, withoutObjects(manifest, stay), check.signal);

  /** Why an object must stay; undefined if helm may delete it. */
  async function reasonToStay(object: ObjectRef): Promise<string | undefined> {
    const live = await liveObject(tools, object, check.signal);
    const owner = live && otherOwner(live.annotations, { release: meta.name, namespace: tools.namespace });
    const maker = pendingOwners.get(keyIn(tools.namespace, object));
    if (maker !== undefined && (await mayHave(tools, maker, live))) {
      if (live !== undefined && owner === undefined)
        await claim({ ...tools, ...tools.actorOf(maker) }, live, { release: maker, signal: check.signal });
      return `the chart of module ${maker} has it now`;
    }
    if (live === undefined) return undefined;
    if (owner !== undefined) return `it belongs to the release ${owner.namespace}/${owner.release} now`;
    const isKept = live.annotations[RESOURCE_POLICY]?.trim() === KEEP;
    return isKept ? `it is annotated ${RESOURCE_POLICY}: ${KEEP}` : undefined;
  }
}
