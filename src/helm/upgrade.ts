/** Upgrades a release, and sees to what must outlive it (docs/RUNNING.md, "What outlives a release"). */

import { inParallel } from "../lib/index.ts";
import { BrokenRecordError, HelmError } from "./binary/helm-errors.ts";
import type { UpgradeCall } from "./binary/helm.ts";
import type { Reconciler, Reconciliation } from "./decide.ts";
import { otherOwner } from "./live-objects.ts";
import {
  documentsOf,
  keyIn,
  keyOf,
  nameOf,
  objectsOf,
  withoutObjects,
  type ObjectRef,
} from "./manifest/manifest.ts";
import { AT_ONCE, claim, claimExisting, isTaken, KEEP, liveObject, RESOURCE_POLICY } from "./ownership.ts";
import { isUnfinished, LABELS, secretOf, type ReleaseMeta } from "./release/revisions.ts";
import type { Rendered } from "./rendering.ts";

/** Sees to what must stay, then lets helm install. */
export async function install(
  reconciliation: Reconciliation,
  call: UpgradeCall,
  rendered: Rendered | undefined,
): Promise<void> {
  const { tools, request } = reconciliation;
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
  try {
    await upgradeOrClaim(reconciliation, call);
  } catch (error) {
    if (!(error instanceof HelmError) || !(await mend(reconciliation, error.result.stderr))) throw error;
    await upgradeOrClaim(reconciliation, call);
  }
}

/**
 * helm never runs with `--take-ownership`: it refuses a chart with existing objects of others, and runs again when those
 * that the release may have are claimed one by one. Throws as `claimExisting` and `Helm.upgradeInstall`.
 */
async function upgradeOrClaim(reconciliation: Reconciliation, call: UpgradeCall): Promise<void> {
  const { upgradeInstall, store } = reconciliation.tools;
  try {
    await upgradeInstall(call);
  } catch (error) {
    if (!isTaken(error)) throw error;
    const compared = inForce(store.revisions(call.release)).at(-1);
    const recorded = compared === undefined ? [] : (await store.summary(compared)).objects;
    await claimExisting(reconciliation, call, { recorded, taken: error });
    await upgradeInstall(call);
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
 * over, or that are marked to be kept: helm itself goes by the record alone. What another module is about to make is
 * marked as its release's, so that it is known whose it is when this release is gone.
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
    const live = await liveObject(tools, object, look.signal);
    const own = { release: meta.name, namespace: tools.namespace };
    const owner = live && otherOwner(live.annotations, own);
    if (live !== undefined && maker !== undefined && owner === undefined)
      await claim(tools, live, { release: maker, signal: look.signal });
    if (maker !== undefined) return `the chart of module ${maker} has it now`;
    if (live === undefined) return undefined;
    if (owner !== undefined) return `it belongs to the release ${owner.namespace}/${owner.release} now`;
    const isKept = live.annotations[RESOURCE_POLICY]?.trim() === KEEP;
    return isKept ? `it is annotated ${RESOURCE_POLICY}: ${KEEP}` : undefined;
  }
}
