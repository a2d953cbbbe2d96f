/** Upgrades a release, and sees to what must outlive it (docs/RUNNING.md, "What outlives a release"). */

import { getMetadata, isNotFound, mergePatch, type WatchedObject } from "../kube/index.ts";
import { inParallel, oneLine } from "../lib/index.ts";
import { BrokenRecordError, HelmError } from "./binary/helm-errors.ts";
import type { UpgradeCall } from "./binary/helm.ts";
import type { Reconciler, Reconciliation } from "./decide.ts";
import { otherOwner, ownerOf, type LookTools } from "./live-objects.ts";
import {
  documentsOf,
  isShared,
  keyIn,
  keyOf,
  nameOf,
  objectsOf,
  withoutObjects,
  type ObjectRef,
} from "./manifest/manifest.ts";
import { isUnfinished, LABELS, secretOf, type ReleaseMeta } from "./release/revisions.ts";
import { manifestsOf, type Rendered } from "./rendering.ts";

/** Sees to objects of others and to what must stay, then lets helm install. */
export async function install(
  reconciliation: Reconciliation,
  call: UpgradeCall,
  rendered: Rendered | undefined,
): Promise<void> {
  const { tools, request } = reconciliation;
  await keepExisting(reconciliation, call, rendered?.objects);
  const made = rendered?.objects ?? (await madeBefore(reconciliation));
  await spareInUpgrade(tools, call.release, { made, signal: request.signal });
  await upgradeOrMend(reconciliation, call);
}

/** Another try with equal inputs renders the same, unless templates use `lookup`. */
async function madeBefore({
  tools,
  request,
  chart,
  inputs,
}: Reconciliation): Promise<Rendered["objects"] | undefined> {
  const release = tools.store.get(request.module.name);
  if (release?.labels[LABELS.inputs] !== inputs || chart.reach.lookup) return undefined;
  return (await tools.store.summary(release)).objects;
}

/** helm has no codes for these: no revision was ever deployed, so it cannot upgrade in place. */
const REFUSED = "has no deployed releases";
/** The record is unfinished after all: what a helm sent just before its end may arrive after it. */
const BUSY = ["another operation ", " is in progress"];
/** The Secret of a revision is there, but helm does not take it for one. */
const UNSEEN = ["release: already exists", "no revision for release"];

async function upgradeOrMend(reconciliation: Reconciliation, call: UpgradeCall): Promise<void> {
  const { upgradeInstall } = reconciliation.tools;
  try {
    await upgradeInstall(call);
  } catch (error) {
    if (isTaken(error)) return takeOver(reconciliation, call, error);
    if (!(error instanceof HelmError) || !(await mend(reconciliation, error.result.stderr))) throw error;
    await upgradeInstall({ ...call, takeOwnership: true });
  }
}

/** True when helm's complaint about the records of a release was put right. */
async function mend(reconciliation: Reconciliation, complaint: string): Promise<boolean> {
  const { store, logger } = reconciliation.tools;
  const { module, signal } = reconciliation.request;
  if (BUSY.every((part) => complaint.includes(part))) {
    await recover(reconciliation);
    return true;
  }
  if (UNSEEN.some((words) => complaint.includes(words))) throw await unseen(reconciliation);
  if (!complaint.includes(REFUSED)) return false;
  logger.warn("helm refuses the record of a failed release; removing it", { release: module.name });
  await store.forget(module.name, signal);
  return true;
}

/** Which Secret helm does not take for a revision. Throws BrokenRecordError where it is one that cannot be read. */
async function unseen({ tools, request }: Reconciliation): Promise<Error> {
  const { name } = request.module;
  const newest = await tools.store.refresh(name, request.signal);
  if (newest !== undefined) await tools.store.record(newest, request.signal);
  const secret = secretOf(name, (newest?.revision ?? 0) + 1);
  return new BrokenRecordError(secret, "it is in helm's way, without helm's labels or with wrong ones");
}

/** Ends what an earlier operator process left running, then marks the record failed, so that helm can go on. */
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

/** helm looks for it in manifests and, in upgrades, on objects. */
const RESOURCE_POLICY = "helm.sh/resource-policy";
const KEEP = "keep";

/** Objects looked at at the same time. */
const AT_ONCE = 8;

/**
 * Before helm takes them over: namespaces and CRDs of a chart that somebody else made are marked to outlive the
 * release. The mark is on the object itself, where helm's upgrades and the operator's removals find it. `rendered`: what
 * the chart makes, where it was rendered already.
 */
async function keepExisting(
  reconciliation: Reconciliation,
  call: UpgradeCall,
  rendered: readonly ObjectRef[] | undefined,
): Promise<void> {
  if (!reconciliation.chart.mentionsShared) return;
  const { tools, request } = reconciliation;
  const objects = rendered ?? objectsOf((await manifestsOf(reconciliation, call)).flatMap(documentsOf));
  for (const object of objects.filter(isShared)) {
    if (!(await isSomebodysOwn(reconciliation, object))) continue;
    const resource = await tools.discovery.resolve(object.kind, object.apiVersion);
    if (resource === undefined) continue;
    const body = { metadata: { annotations: { [RESOURCE_POLICY]: KEEP } } };
    await mergePatch(tools.client, { resource, name: object.name }, { body, signal: request.signal });
    tools.logger.warn("An object that was there before is kept when its module goes", {
      module: request.module.name,
      object: nameOf(object),
    });
  }
}

/** It exists, is not marked yet, and no release of this operator has made it. */
async function isSomebodysOwn({ tools, request }: Reconciliation, object: ObjectRef): Promise<boolean> {
  const annotations = await annotationsOf(tools, object, request.signal);
  if (annotations === undefined || annotations[RESOURCE_POLICY] !== undefined) return false;
  const owner = ownerOf(annotations, tools.namespace);
  if (owner === undefined || owner.namespace !== tools.namespace) return true;
  return owner.release !== request.module.name && !tools.isOurs(owner.release);
}

/** helm has no code for it: an object exists already, and its marks do not name this release. */
const NOT_OURS = "cannot be imported into the current release";

const MOST_NAMED = 20;

/** Whether helm left everything as it was, since an object exists that somebody else made. */
function isTaken(error: unknown): error is HelmError {
  return error instanceof HelmError && error.result.stderr.includes(NOT_OURS);
}

/** Upgrades the release and takes over all its objects, after the former owners were told. */
async function takeOver(reconciliation: Reconciliation, call: UpgradeCall, taken: HelmError): Promise<void> {
  const { upgradeInstall, logger, recorder } = reconciliation.tools;
  const module = reconciliation.request.module.name;
  // An object that cannot be looked at is left to helm's own message, which names one object.
  const objects = await othersOf(reconciliation, call).catch(() => [oneLine(taken)]);
  if (objects.length > 0) {
    logger.warn("Objects of other releases are taken over", { module, objects });
    recorder?.tookOver(module, objects);
  }
  await upgradeInstall({ ...call, takeOwnership: true });
}

/** Objects of the chart that belong to other releases, each with its release. */
async function othersOf(reconciliation: Reconciliation, call: UpgradeCall): Promise<string[]> {
  const { tools, request } = reconciliation;
  const own = { release: request.module.name, namespace: tools.namespace };
  const objects = objectsOf((await manifestsOf(reconciliation, call)).flatMap(documentsOf));
  const told = await inParallel(AT_ONCE, objects, async (object: ObjectRef): Promise<string[]> => {
    const annotations = await annotationsOf(tools, object, request.signal);
    const owner = annotations && otherOwner(annotations, own);
    return owner === undefined ? [] : [`${nameOf(object)} of ${owner.namespace}/${owner.release}`];
  });
  return told.flat().slice(0, MOST_NAMED);
}

/**
 * Before a release is removed: takes the objects that must stay out of its record, by which helm deletes. Throws
 * when an object cannot be looked at, or the record was changed meanwhile.
 */
export async function spareInRemoval(
  tools: Reconciler,
  release: string,
  signal?: AbortSignal,
): Promise<void> {
  const meta = await tools.store.refresh(release, signal);
  if (meta === undefined) return;
  const [manifest = ""] = await tools.store.manifests(meta, signal);
  await spare(tools, meta, { objects: objectsOf(documentsOf(manifest)), signal });
}

/**
 * The same before an upgrade, which deletes what the chart no longer makes. `made` is what it makes now; where that
 * is not known, all objects are looked at.
 */
export async function spareInUpgrade(
  tools: Reconciler,
  release: string,
  next: { readonly made: readonly ObjectRef[] | undefined; readonly signal: AbortSignal },
): Promise<void> {
  const made = new Set(next.made?.map(keyOf));
  for (const meta of inForce(tools.store.revisions(release))) {
    const { objects } = await tools.store.summary(meta);
    const dropped = objects.filter((object) => !made.has(keyOf(object)));
    if (dropped.length > 0) await spare(tools, meta, { objects: dropped, signal: next.signal });
  }
}

/** The revisions that helm may compare a chart with: the newest, and the one that was deployed last. */
function inForce(revisions: readonly ReleaseMeta[]): ReleaseMeta[] {
  const [newest] = revisions;
  if (newest === undefined || newest.status === "uninstalled") return [];
  const deployed = revisions.find(({ status }) => status === "deployed");
  return [...new Set([newest, deployed ?? newest])];
}

/**
 * Takes objects out of the record of a revision that another module is about to make, that another release has taken
 * over, or that are marked to be kept: helm itself goes by the record alone.
 */
async function spare(
  tools: Reconciler,
  meta: ReleaseMeta,
  look: { readonly objects: readonly ObjectRef[]; readonly signal: AbortSignal | undefined },
): Promise<void> {
  const makers = await tools.makers(look.signal);
  const looked = await inParallel(AT_ONCE, look.objects, async (object) => {
    const why = await reasonToStay(object);
    return why === undefined ? [] : [{ object, why }];
  });
  const spared = looked.flat();
  if (spared.length === 0) return;
  for (const { object, why } of spared)
    tools.logger.warn("An object is not deleted", { release: meta.name, object: nameOf(object), why });
  const [manifest = ""] = await tools.store.manifests(meta, look.signal);
  const stay = spared.map(({ object }) => object);
  await tools.store.replaceManifest(meta, withoutObjects(manifest, stay), look.signal);

  async function reasonToStay(object: ObjectRef): Promise<string | undefined> {
    const maker = makers.get(keyIn(tools.namespace, object));
    if (maker !== undefined) return `the chart of module ${maker} has it now`;
    const annotations = await annotationsOf(tools, object, look.signal);
    if (annotations === undefined) return undefined;
    const owner = otherOwner(annotations, { release: meta.name, namespace: tools.namespace });
    if (owner !== undefined) return `it belongs to the release ${owner.namespace}/${owner.release} now`;
    const isKept = annotations[RESOURCE_POLICY]?.trim() === KEEP;
    return isKept ? `it is annotated ${RESOURCE_POLICY}: ${KEEP}` : undefined;
  }
}

/** Annotations of an object as it is now; undefined when there is none. */
async function annotationsOf(
  { client, discovery, namespace }: LookTools,
  object: ObjectRef,
  signal: AbortSignal | undefined,
): Promise<Readonly<Record<string, string>> | undefined> {
  try {
    const resource = await discovery.resolve(object.kind, object.apiVersion);
    if (resource?.verbs.includes("get") !== true) return undefined;
    const target = { resource, namespace: object.namespace ?? namespace, name: object.name };
    const { metadata } = await getMetadata<WatchedObject>(client, target, { signal });
    return (metadata["annotations"] ?? {}) as Record<string, string>;
  } catch (error) {
    signal?.throwIfAborted();
    if (isNotFound(error)) return undefined;
    throw new Error(`cannot tell whose ${nameOf(object)} is: ${oneLine(error)}`, { cause: error });
  }
}
