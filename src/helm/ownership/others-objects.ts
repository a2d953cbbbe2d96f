/** What an upgrade does about objects that somebody else made (docs/RUNNING.md, "What outlives a release"). */

import { mergePatch } from "../../kube/index.ts";
import { inParallel, oneLine } from "../../lib/index.ts";
import { HelmError } from "../binary/helm-errors.ts";
import type { UpgradeCall } from "../binary/helm.ts";
import type { Reconciliation } from "../examine.ts";
import { documentsOf, isShared, nameOf, objectsOf, type ObjectRef } from "../manifest/manifest.ts";
import { manifestsOf } from "../rendering.ts";
import { annotationsOf, KEEP, ownerOf, RESOURCE_POLICY } from "./outliving.ts";

/**
 * Before helm takes them over: namespaces and CRDs of a chart that somebody else made are marked to outlive the
 * release. The mark is on the object itself, where helm's upgrades and the operator's removals find it. `rendered`: what
 * the chart makes, where it was rendered already.
 */
export async function keepExisting(
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

/** Objects looked at at the same time. */
const AT_ONCE = 8;
const MOST_NAMED = 20;

/** Whether helm left everything as it was, since an object exists that somebody else made. */
export function isTaken(error: unknown): error is HelmError {
  return error instanceof HelmError && error.result.stderr.includes(NOT_OURS);
}

/** Upgrades the release and takes over all its objects, after the former owners were told. */
export async function takeOver(
  reconciliation: Reconciliation,
  call: UpgradeCall,
  taken: HelmError,
): Promise<void> {
  const { upgradeInstall, logger, tookOver } = reconciliation.tools;
  const module = reconciliation.request.module.name;
  // An object that cannot be looked at is left to helm's own message, which names one object.
  const objects = await othersOf(reconciliation, call).catch(() => [oneLine(taken)]);
  if (objects.length > 0) {
    logger.warn("Objects of other releases are taken over", { module, objects });
    tookOver(module, objects);
  }
  await upgradeInstall({ ...call, takeOwnership: true });
}

/** Objects of the chart that belong to other releases, each with its release. */
async function othersOf(reconciliation: Reconciliation, call: UpgradeCall): Promise<string[]> {
  const { tools, request } = reconciliation;
  const objects = objectsOf((await manifestsOf(reconciliation, call)).flatMap(documentsOf));
  const told = await inParallel(AT_ONCE, objects, async (object: ObjectRef): Promise<string[]> => {
    const annotations = await annotationsOf(tools, object, request.signal);
    const owner = annotations && ownerOf(annotations, tools.namespace);
    const isOwn = owner?.release === request.module.name && owner.namespace === tools.namespace;
    return owner === undefined || isOwn ? [] : [`${nameOf(object)} of ${owner.namespace}/${owner.release}`];
  });
  return told.flat().slice(0, MOST_NAMED);
}
