/** Upgrades a release, and retains objects that must outlive it (docs/guides/running.md, "What outlives a release"). */

import { inParallel } from "../lib/index.ts";
import type { Module } from "../model/index.ts";
import { UnusableChartError } from "./chart/chart.ts";
import { ownCrdIn } from "./crds/read-crds.ts";
import { BrokenRecordError, HelmError } from "./binary/helm-errors.ts";
import type { UpgradeCall } from "./binary/helm.ts";
import { otherOwner } from "./objects/live-objects.ts";
import {
  documentsOf,
  hookObjects,
  keyIn,
  resourceKey,
  resourceName,
  objectsOf,
  type ObjectRef,
  type Rendered,
} from "./manifest/manifest.ts";
import {
  AT_ONCE,
  claim,
  claimExisting,
  isTaken,
  KEEP,
  liveObject,
  mayHave,
  RESOURCE_POLICY,
} from "./objects/ownership.ts";
import { withoutObjects } from "./manifest/edit-manifest.ts";
import { claimHookLeftovers, guardHookObjects, type HookRun } from "./objects/hook-objects.ts";
import { comparedRevisions, isUnfinished, LABELS, secretOf, type ReleaseMeta } from "./release/revisions.ts";
import { manifestsOf } from "./rendering.ts";
import type { Reconciler, Reconciliation } from "./types.ts";

/** Retains the objects that must stay, then installs or upgrades with helm. */
export async function install(
  reconciliation: Reconciliation,
  call: UpgradeCall,
  rendered: Rendered | undefined,
): Promise<void> {
  const { tools, request } = reconciliation;
  const made = rendered ?? (await previousRendering(reconciliation));
  const { objects, hooks } = made ?? (await contentNow(reconciliation, call));
  const fault = ownCrdIn([...objects, ...hooks.map(({ ref }) => ref)], request.module.chartDir);
  if (fault !== undefined) throw new UnusableChartError([fault]);
  await retainInUpgrade(tools, call.release, { made: made?.objects, signal: request.signal });
  try {
    await upgrade();
  } catch (error) {
    if (!(error instanceof HelmError) || !(await repairRecords(reconciliation, error.result.stderr)))
      throw error;
    await upgrade();
  }

  async function upgrade(): Promise<void> {
    await guardHookObjects(tools, request, { verb: verbOf(reconciliation), hooks });
    await upgradeOrClaim(reconciliation, call);
  }
}

/** Objects and hooks of the chart. Renders it only if it may have hooks or definitions of kinds, else nothing is listed. */
async function contentNow(
  reconciliation: Reconciliation,
  call: UpgradeCall,
): Promise<Pick<Rendered, "objects" | "hooks">> {
  const { hooks, crds } = reconciliation.chart.reach;
  if (!hooks && !crds) return { objects: [], hooks: [] };
  const documents = (await manifestsOf(reconciliation, call)).flatMap(documentsOf);
  return { objects: objectsOf(documents), hooks: hookObjects(documents) };
}

/** `install` or `upgrade`, decided by the newest revision as helm does. */
function verbOf({ tools, request }: Reconciliation): HookRun["verb"] {
  const status = tools.store.get(request.module.name)?.status ?? "uninstalled";
  return status === "uninstalled" ? "install" : "upgrade";
}

/** The rendering of the last revision, which a retry with equal inputs may use again; undefined if the inputs differ or `lookup` is used. */
async function previousRendering({
  tools,
  request,
  chart,
  inputs,
}: Reconciliation): Promise<Rendered | undefined> {
  const release = tools.store.get(request.module.name);
  if (release?.labels[LABELS.inputs] !== inputs || chart.reach.lookup) return undefined;
  return tools.store.summary(release);
}

/** Part of helm's message, because helm has no exit codes: no revision was ever deployed, so helm cannot upgrade. */
const NOTHING_DEPLOYED = "has no deployed releases";
/** Parts of helm's message for a pending record. The last request of a killed helm may make a record pending late. */
const OPERATION_PENDING = ["another operation ", " is in progress"];
/** Parts of helm's messages for a Secret that exists but that helm does not recognize as a record. */
const UNRECOGNIZED_RECORD = ["release: already exists", "no revision for release"];

/**
 * Runs helm without `--take-ownership`. Where helm refuses existing objects, claims those that the release may adopt and
 * runs helm again. Throws as `claimExisting` and `Helm.upgradeInstall`.
 */
async function upgradeOrClaim(reconciliation: Reconciliation, call: UpgradeCall): Promise<void> {
  const { helm, store } = reconciliation.tools;
  try {
    await helm.upgradeInstall(call);
  } catch (error) {
    if (!isTaken(error)) throw error;
    const compared = comparedRevisions(store.revisions(call.release)).at(-1);
    const recorded = compared === undefined ? [] : (await store.summary(compared)).objects;
    await claimExisting(reconciliation, call, { recorded, taken: error });
    await helm.upgradeInstall(call);
  }
}

/** Repairs the records of a release after a known error of helm; returns whether it did. */
async function repairRecords(reconciliation: Reconciliation, complaint: string): Promise<boolean> {
  const { tools, request } = reconciliation;
  const { store, logger } = tools;
  const { module, signal } = request;
  if (OPERATION_PENDING.every((part) => complaint.includes(part))) {
    await recover(reconciliation);
    return true;
  }
  if (UNRECOGNIZED_RECORD.some((text) => complaint.includes(text)))
    throw await unrecognizedRecordError(reconciliation);
  if (!complaint.includes(NOTHING_DEPLOYED)) return false;
  logger.warn("helm refuses the record of a failed release; removing it", { release: module.name });
  await claimHookLeftovers(tools, module.name);
  await store.forget(module.name, signal);
  return true;
}

/** An error that names the Secret that helm does not recognize. Throws BrokenRecordError where it is unreadable. */
async function unrecognizedRecordError({ tools, request }: Reconciliation): Promise<Error> {
  const { name } = request.module;
  const newest = await tools.store.refresh(name, request.signal);
  if (newest !== undefined) await tools.store.record(newest, request.signal);
  const secret = secretOf(name, (newest?.revision ?? 0) + 1);
  return new BrokenRecordError(secret, "it blocks helm, because it lacks helm's labels or has wrong ones");
}

/** Ends orphaned helm processes, then marks the pending revision failed, so that helm accepts it. */
export async function recover({ tools, request }: Reconciliation): Promise<ReleaseMeta | undefined> {
  const { helm, store, logger } = tools;
  const { module, signal } = request;
  await helm.endLeftOver(signal, module.name);
  const release = await store.refresh(module.name, signal);
  if (release === undefined || !isUnfinished(release.status)) return release;
  logger.warn("Recovering an unfinished release", { release: module.name, status: release.status });
  await store.markFailed(release, `${release.status} was interrupted`, signal);
  return store.get(module.name);
}

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
  const checked = await inParallel(AT_ONCE, check.objects, async (object) => {
    const why = await reasonToStay(object);
    return why === undefined ? [] : [{ object, why }];
  });
  const spared = checked.flat();
  if (spared.length === 0) return;
  for (const { object, why } of spared)
    tools.logger.warn("An object is not deleted", { release: meta.name, object: resourceName(object), why });
  const [manifest = ""] = await tools.store.manifests(meta, check.signal);
  const stay = spared.map(({ object }) => object);
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
