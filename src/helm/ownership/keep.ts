/** Marks namespaces and CRDs that must outlive a release (docs/RUNNING.md, "What outlives a release"). */

import { mergePatch } from "../../kube/index.ts";
import type { UpgradeCall } from "../binary/helm.ts";
import { documentsOf, nameOf, objectsOf } from "../manifest/manifest.ts";
import type { ObjectRef } from "../manifest/manifest.ts";
import { annotationsOf, KEEP, ownerOf, RESOURCE_POLICY } from "./outliving.ts";
import type { Reconciliation } from "../examine.ts";
import { manifestsOf } from "../rendering.ts";
import { isShared } from "../manifest/shared-kinds.ts";

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
