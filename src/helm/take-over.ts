import { inParallel } from "../kube/index.ts";
import { oneLine } from "../lib/index.ts";
import { HelmError } from "./errors.ts";
import type { UpgradeCall } from "./helm.ts";
import { renderedFor } from "./keep.ts";
import { documentsOf, nameOf, objectsOf } from "./manifest.ts";
import type { ObjectRef } from "./manifest.ts";
import { annotationsOf, ownerOf } from "./outliving.ts";
import type { Step } from "./reconcile.ts";

/** helm has no code for it: an object is there already, and its marks do not name this release. */
const NOT_OURS = "cannot be imported into the current release";

/** Objects looked at at the same time. */
const AT_ONCE = 8;
const MOST_NAMED = 20;

/** Whether helm left everything as it was, since an object is there that another made. */
export function isTaken(error: unknown): error is HelmError {
  return error instanceof HelmError && error.result.stderr.includes(NOT_OURS);
}

/** Brings the release with the ownership of all its objects taken, after it was told from whom. */
export async function takeOver(
  step: Step,
  call: UpgradeCall,
  taken: { readonly error: HelmError; readonly labels: UpgradeCall["labels"] },
): Promise<void> {
  const { helm, logger, tookOver } = step.tools;
  const module = step.request.module.name;
  // What cannot be looked at is told in helm's own words, which name one object.
  const objects = await othersOf(step, call).catch(() => [oneLine(taken.error)]);
  if (objects.length > 0) {
    logger.warn("Objects of other releases are taken over", { module, objects });
    tookOver(module, objects);
  }
  await helm.upgradeInstall({ ...call, labels: taken.labels, takeOwnership: true });
}

/** Objects of the chart that marks of other releases are on, each with its release. */
async function othersOf(step: Step, call: UpgradeCall): Promise<string[]> {
  const { tools, request } = step;
  const objects = objectsOf((await renderedFor(step, call)).flatMap(documentsOf));
  const told = await inParallel(AT_ONCE, objects, async (object: ObjectRef): Promise<string[]> => {
    const annotations = await annotationsOf(tools, object, request.signal);
    const owner = annotations && ownerOf(annotations, tools.namespace);
    const isOwn = owner?.release === request.module.name && owner.namespace === tools.namespace;
    return owner === undefined || isOwn ? [] : [`${nameOf(object)} of ${owner.namespace}/${owner.release}`];
  });
  return told.flat().slice(0, MOST_NAMED);
}
