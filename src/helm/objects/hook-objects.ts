/**
 * Objects that helm creates as hooks. helm deletes or overwrites existing objects of their names, and writes no annotations of their owner
 * on them. So the records of a release (the Secrets of its revisions) decide which existing objects its hooks created
 * (docs/guides/running.md, "Taking over").
 */

import { apiGroupOf } from "../../kube/index.ts";
import { listNames, sleep } from "../../base/index.ts";
import { BrokenRecordError, HookObjectError } from "../binary/helm-errors.ts";
import type { Reconciler } from "../types.ts";
import {
  parseDocuments,
  listHookObjects,
  listObjectRefs,
  namespacedKey,
  resourceName,
  type HookObject,
  type ObjectRef,
} from "../manifest/manifest.ts";
import type { HookRecord, ReleaseRecord } from "../release/record.ts";
import type { ReleaseMeta } from "../release/revisions.ts";
import { claimObject, deleteObject, readLiveObjects, type LiveObject, type Owner } from "./live-objects.ts";
import {
  isYieldingOwner,
  MAX_LOGGED_OBJECTS,
  reportTakeover,
  requireTakeoverConsent,
  yieldsObjects,
  type TakeoverRequest,
} from "./takeover.ts";

/** The operation of helm, and the hooks of the chart, rendered or stored. */
export interface HookRun {
  readonly verb: "install" | "upgrade" | "rollback" | "delete";
  readonly hooks: readonly HookObject[];
}

/**
 * Call it before helm runs hooks, because helm deletes or overwrites existing objects of their names without a question. Throws
 * ExistingObjectsError, with nothing changed, for objects that no hook of this release, or of a former release of a renamed module, has
 * created. If a user has confirmed the replacement, marks the objects as owned by the release. Throws ApiError.
 */
export async function refuseHookReplacements(
  tools: Reconciler,
  request: TakeoverRequest & { readonly signal?: AbortSignal | undefined },
  { verb, hooks }: HookRun,
): Promise<void> {
  const { module, signal } = request;
  const runHooks = listRunHooks({ verb, hooks });
  const existing = await readLiveObjects(
    tools,
    runHooks.map(({ ref }) => ref),
    signal,
  );
  const foreign = await findForeignObjects(tools, module.name, { existing, signal });
  const what = "hooks of the chart (helm.sh/hook) would replace";
  requireTakeoverConsent(tools, request, { what, objects: foreign });
  const isReplaced = ({ ref }: LiveObject): boolean =>
    runHooks.some((hook) => hook.ref === ref && hook.deletePolicies.includes("before-hook-creation"));
  await deleteObjectsWithFinalizers(tools, existing.filter(isReplaced), signal);
  reportTakeover(tools, module.name, foreign, "Existing objects are replaced by hooks of the chart");
  for (const object of foreign) await claimObject(tools, object, { release: module.name, signal });
}

/** The hooks that helm runs. */
export function listRunHooks({ verb, hooks }: HookRun): HookObject[] {
  return hooks.filter(({ events }) => events.includes(`pre-${verb}`) || events.includes(`post-${verb}`));
}

/** How long the operator waits until objects with finalizers are deleted. */
const DELETION_MS = 5000;
const CHECK_MS = 250;

/**
 * Deletes the existing objects with finalizers that helm would delete before it creates them again, because helm goes on while a finalizer
 * keeps them: it fails, or takes the former object for the new one. Throws HookObjectError for objects that stay.
 */
async function deleteObjectsWithFinalizers(
  tools: Reconciler,
  objects: readonly LiveObject[],
  signal: AbortSignal | undefined,
): Promise<void> {
  const replaced = objects.filter(({ finalizers }) => finalizers.length > 0);
  for (const object of replaced)
    if (!object.isTerminating) await deleteObject(tools, object, { propagationPolicy: "Background", signal });
  const deadline = tools.clock.monotonic() + DELETION_MS;
  let left = replaced;
  while (left.length > 0) {
    const found = await readLiveObjects(
      tools,
      left.map(({ ref }) => ref),
      signal,
    );
    left = found.filter(({ uid }) => replaced.some((each) => each.uid === uid));
    if (left.length > 0 && tools.clock.monotonic() > deadline) throw buildTerminatingError(left);
    if (left.length > 0) await sleep(tools.clock, CHECK_MS, signal);
  }
}

function buildTerminatingError(objects: readonly LiveObject[]): HookObjectError {
  const names = objects.map(
    ({ ref, finalizers }) => `${resourceName(ref)} (finalizer ${finalizers.join(", ")})`,
  );
  return new HookObjectError(
    `hooks of the chart (helm.sh/hook) replace objects that are being deleted, but that their finalizers keep: ${listNames(names, MAX_LOGGED_OBJECTS)}; let the owner of the finalizer remove it, or remove it from metadata.finalizers`,
  );
}

/** Builds the error for the object of a hook that was deleted too early. */
export function buildDeletedObjectError(what: string): HookObjectError {
  const remedy = "keep it for a minute or longer, for example with spec.ttlSecondsAfterFinished";
  return new HookObjectError(`${what}; ${remedy}`);
}

/** Whether helm waits for a hook of which no object exists any more. Helm waits only for Jobs and Pods. */
export async function isHookMissing(
  tools: Reconciler,
  hook: Pick<HookRecord, "manifest">,
  signal: AbortSignal,
): Promise<boolean> {
  const refs = listObjectRefs(parseDocuments(hook.manifest)).filter(({ kind }) =>
    ["Job", "Pod"].includes(kind),
  );
  return refs.length > 0 && (await readLiveObjects(tools, refs, signal)).length === 0;
}

/**
 * Call it before the records of a release are deleted, because only the records show which objects its hooks created. Annotates
 * the remaining objects with the release, so that a later release of this name may replace them. Throws ApiError.
 */
export async function claimRemainingHookObjects(tools: Reconciler, release: string): Promise<void> {
  const newest = tools.store.get(release);
  if (newest === undefined) return;
  const { hooks } = await tools.store.readSummary(newest).catch((error: unknown) => {
    if (error instanceof BrokenRecordError) return { hooks: [] };
    throw error;
  });
  const refs = hooks.map(({ ref }) => ref);
  const existing = await readLiveObjects(tools, refs, undefined);
  const withoutOwner = existing.filter(({ owner }) => owner === undefined);
  const created = await findObjectsCreatedBy(tools, release, { existing: withoutOwner });
  for (const object of created) await claimObject(tools, object, { release, signal: undefined });
}

interface ObjectSelection {
  readonly existing: readonly LiveObject[];
  readonly signal?: AbortSignal | undefined;
}

/**
 * Finds the existing objects that do not belong to a release: they are neither annotated with the release nor created by its hooks. A
 * release whose module is missing (a *former* one) is probably of a renamed module, so its objects count as the release's own.
 */
async function findForeignObjects(
  tools: Reconciler,
  release: string,
  { existing, signal }: ObjectSelection,
): Promise<LiveObject[]> {
  const isOwn = (owner: Owner): boolean =>
    isYieldingOwner(tools, release, owner) && (owner.release === release || !tools.hasModule(owner.release));
  const ofOtherReleases = existing.filter(({ owner }) => owner !== undefined && !isOwn(owner));
  let withoutOwner = existing.filter(({ owner }) => owner === undefined);
  const otherNames = tools.store.newestRevisions().flatMap(({ name }) => (name === release ? [] : [name]));
  const formerNames = otherNames.filter((name) => !tools.hasModule(name) && yieldsObjects(tools, name));
  for (const name of [release, ...formerNames]) {
    const created = await findObjectsCreatedBy(tools, name, { existing: withoutOwner, signal });
    withoutOwner = withoutOwner.filter((each) => !created.includes(each));
  }
  // In the order of the chart's hooks.
  return existing.filter((each) => ofOtherReleases.includes(each) || withoutOwner.includes(each));
}

/**
 * Finds the existing objects that hooks of a release created and helm has not deleted since: if helm deleted one, someone else has created
 * the existing object. For each hook, the newest revision in which it ran decides, so the search ends as soon as all objects are decided.
 */
async function findObjectsCreatedBy(
  tools: Reconciler,
  release: string,
  { existing, signal }: ObjectSelection,
): Promise<LiveObject[]> {
  const created: LiveObject[] = [];
  let undecided = existing;
  for (const meta of tools.store.revisions(release)) {
    if (undecided.length === 0) break;
    const results = findHookResults(await tools.store.readRecord(meta, signal), meta);
    created.push(
      ...undecided.filter(({ ref }) => results.get(versionlessKey(ref, tools.namespace)) === "left"),
    );
    undecided = undecided.filter(({ ref }) => !results.has(versionlessKey(ref, tools.namespace)));
  }
  return created;
}

/** For the object of each hook that ran in a revision, by `versionlessKey`: whether helm left it in the cluster or deleted it. */
function findHookResults({ hooks }: ReleaseRecord, meta: ReleaseMeta): Map<string, "left" | "deleted"> {
  const results = new Map<string, "left" | "deleted">();
  for (const hook of hooks.filter(({ startedAt }) => startedAt !== undefined)) {
    const result = hasHelmDeleted(hook, meta) ? "deleted" : "left";
    for (const { ref } of listHookObjects(parseDocuments(hook.manifest)))
      results.set(versionlessKey(ref, meta.namespace), result);
  }
  return results;
}

/**
 * Whether helm deleted a hook's object after the hook ran, by the hook's delete policy, such as `hook-succeeded`. In a failed revision, not
 * every version of helm deletes the objects of hooks that succeeded, so an object there counts as not deleted.
 */
function hasHelmDeleted({ phase = "", deletePolicies }: HookRecord, { status }: ReleaseMeta): boolean {
  const policy = `hook-${phase.toLowerCase()}`;
  return status !== "failed" && deletePolicies.includes(policy);
}

/** A key of an object that is the same for all versions of its kind, because records and charts may name different ones. */
function versionlessKey(ref: ObjectRef, namespace: string): string {
  return namespacedKey(namespace, { ...ref, apiVersion: apiGroupOf(ref.apiVersion) });
}
