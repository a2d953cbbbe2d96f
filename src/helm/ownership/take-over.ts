/** Takes over objects of other releases, and tells so. */

import { inParallel } from "../../kube/index.ts";
import { oneLine } from "../../lib/index.ts";
import { HelmError } from "../binary/helm-errors.ts";
import type { UpgradeCall } from "../binary/helm.ts";
import { documentsOf, nameOf, objectsOf } from "../manifest/manifest.ts";
import type { ObjectRef } from "../manifest/manifest.ts";
import { annotationsOf, ownerOf } from "./outliving.ts";
import type { Reconciliation } from "../examine.ts";
import { manifestsOf } from "../rendering.ts";

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
