/**
 * Retains objects that must outlive a release or a revision (docs/guides/running.md, "Objects that stay after a removal"). helm deletes only
 * objects that the record of a revision, its Secret, contains; so an object that must stay is removed from the record.
 */

import { findMissingPermissions } from "../../kube/index.ts";
import { mapInParallel } from "../../base/index.ts";
import { objectOf, type Json, type Module } from "../../base/model/index.ts";
import { withoutObjects } from "../manifest/edit-manifest.ts";
import {
  expandLists,
  parseDocuments,
  listHookObjects,
  namespacedKey,
  listObjectRefs,
  resourceKey,
  resourceName,
  type ObjectRef,
} from "../manifest/manifest.ts";
import { findComparedRevisions, type ReleaseMeta } from "../release/revisions.ts";
import type { Reconciler } from "../types.ts";
import { forgetGoneKinds } from "./gone-kinds.ts";
import { refuseHookReplacements } from "./hook-objects.ts";
import {
  claimObject,
  findOtherOwner,
  hasKeepPolicy,
  isMarked,
  KEEP,
  MAX_PARALLEL_REQUESTS,
  readLiveObject,
  RESOURCE_POLICY,
  type LiveObject,
} from "./live-objects.ts";

/**
 * Call it before a release is uninstalled: retains objects, and refuses a removal whose hooks would replace objects of others. Returns the
 * objects that the chart does not tell helm to keep, for `handleFormerObjects`. Throws ExistingObjectsError, and when an object cannot be
 * read or the record was changed meanwhile.
 */
export async function retainBeforeRemoval(
  tools: Reconciler,
  module: Pick<Module, "name" | "helm">,
  signal?: AbortSignal,
): Promise<ObjectRef[]> {
  const newest = await tools.store.refresh(module.name, signal);
  if (newest === undefined) return [];
  await forgetGoneKinds(tools, { release: module.name, revisions: [newest], signal });
  const meta = tools.store.get(module.name) ?? newest;
  const [manifest = "", ...hooks] = await tools.store.readManifests(meta, signal);
  const run = { verb: "delete", hooks: listHookObjects(hooks.flatMap(parseDocuments)) } as const;
  await refuseHookReplacements(tools, { module, signal }, run);
  const documents = parseDocuments(manifest);
  await retainObjects(tools, meta, { objects: listObjectRefs(documents), signal, isRemoval: true });
  // helm looks at the annotation of a whole list.
  return listObjectRefs(
    documents
      .filter((each) => !isKept(each))
      .flatMap(expandLists)
      .filter((each) => !isKept(each)),
  );
}

/** Whether a document of a manifest has the policy `keep`. */
function isKept(document: Json): boolean {
  const { annotations } = objectOf(objectOf(document)["metadata"]);
  return hasKeepPolicy({ annotations: objectOf(annotations) as Record<string, string> });
}

/**
 * Call it before an upgrade or a rollback, in which helm deletes recorded objects that the new manifest lacks. `next.rendered` are the
 * objects of the new manifest; without them, all recorded objects are checked. Returns the objects that it has checked, for
 * `handleFormerObjects`.
 */
export async function retainBeforeUpgrade(
  tools: Reconciler,
  release: string,
  next: { readonly rendered: readonly ObjectRef[] | undefined; readonly signal: AbortSignal },
): Promise<ObjectRef[]> {
  const checked: ObjectRef[] = [];
  // Also by version, and by the namespace as it is written: to check an object that helm will not delete does no harm.
  const renderedKeys = new Set(next.rendered?.map(resourceKey));
  // helm compares the new manifest with one or two earlier revisions.
  for (const meta of findComparedRevisions(tools.store.revisions(release))) {
    const { objects } = await tools.store.readSummary(meta);
    const dropped = objects.filter((object) => !renderedKeys.has(resourceKey(object)));
    if (dropped.length > 0) await retainObjects(tools, meta, { objects: dropped, signal: next.signal });
    checked.push(...dropped);
  }
  return checked;
}

interface Retention {
  /** The recorded objects that helm is about to delete. */
  readonly objects: readonly ObjectRef[];
  readonly signal: AbortSignal | undefined;
  /** With an uninstallation, and not with an upgrade. */
  readonly isRemoval?: boolean;
}

/**
 * Removes objects that must stay from the record of a revision. An object stays if another module is about to apply it, another release
 * has adopted it, or it has the policy `keep`. Before a removal, restores the marks of the others: helm 4.3 deletes no object without
 * them when it uninstalls a release, and other versions of helm do.
 */
async function retainObjects(tools: Reconciler, meta: ReleaseMeta, check: Retention): Promise<void> {
  const pendingOwners = await tools.findPendingOwners(check.signal);
  const checked = await mapInParallel(MAX_PARALLEL_REQUESTS, check.objects, async (object) => {
    const why = await explainRetention(object);
    return why === undefined ? [] : [{ object, why }];
  });
  const retained = checked.flat();
  if (retained.length === 0) return;
  for (const { object, why } of retained)
    tools.logger.warn("An object is not deleted", { release: meta.name, object: resourceName(object), why });
  const retainedObjects = retained.map(({ object }) => object);
  const removeRetained = (manifest: string, isHook: boolean): string =>
    isHook ? manifest : withoutObjects(manifest, retainedObjects);
  await tools.store.mapManifests(meta, removeRetained, check.signal);

  /**
   * Explains why an object must stay; undefined if helm may delete it. If another module is about to apply the object, marks it as owned by
   * that module's release, because helm refuses to apply it otherwise. A module whose account may not change the object does not count.
   */
  async function explainRetention(object: ObjectRef): Promise<string | undefined> {
    const live = await readLiveObject(tools, object, check.signal);
    const self = { release: meta.name, namespace: tools.namespace };
    const owner = findOtherOwner(live?.owner, self);
    const pendingOwner = pendingOwners.get(namespacedKey(tools.namespace, object));
    if (pendingOwner !== undefined && (await mayChangeObject(tools, pendingOwner, live))) {
      // An object that another release has adopted already is not taken from it.
      const mustClaim = live !== undefined && owner === undefined;
      if (mustClaim)
        await claimObject({ ...tools, ...tools.getIdentity(pendingOwner) }, live, {
          release: pendingOwner,
          signal: check.signal,
        });
      return `the chart of module ${pendingOwner} has it now`;
    }
    if (live === undefined) return undefined;
    if (owner !== undefined) return `it belongs to the release ${owner.namespace}/${owner.release} now`;
    if (hasKeepPolicy(live)) return `it is annotated ${RESOURCE_POLICY}: ${KEEP}`;
    if (check.isRemoval === true && !isMarked(live, self))
      await claimObject(tools, live, { release: meta.name, signal: check.signal });
    return undefined;
  }
}

/**
 * Whether a module has the permission to change an object: without it, the object must not be handed over to the module's release. Always
 * true of a module without a ServiceAccount of its own, and of an object that does not exist. Throws ApiError, ConnectionError.
 */
async function mayChangeObject(
  { getIdentity, logger }: Pick<Reconciler, "getIdentity" | "logger">,
  module: string,
  live: LiveObject | undefined,
): Promise<boolean> {
  const { client, hasServiceAccount } = getIdentity(module);
  if (!hasServiceAccount || live === undefined) return true;
  const { resource, namespace, name } = live.target;
  const { group, plural, namespaced } = resource;
  const permission = { verb: "patch", group, resource: plural, namespace: namespaced ? namespace : "", name };
  if ((await findMissingPermissions(client, [permission])).length === 0) return true;
  logger.warn("The chart of a module has an object that its account may not change", {
    module,
    object: resourceName(live.ref),
  });
  return false;
}
