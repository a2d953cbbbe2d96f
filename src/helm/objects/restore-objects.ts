/** Restores missing objects of a release from its record, the Secret in which helm stores the manifest. */

import { isAlreadyExists } from "../../kube/index.ts";
import { mapInParallel, oneLine } from "../../base/index.ts";
import { RestoreError } from "../binary/helm-errors.ts";
import { listLastingObjects, parseDocuments, resourceName } from "../manifest/manifest.ts";
import type { ManifestObject } from "../manifest/manifest.ts";
import type { ReleaseMeta } from "../release/revisions.ts";
import type { Reconciler } from "../types.ts";
import { LiveObjectClient, withHelmMetadata } from "./live-objects.ts";

interface RestoreRequest {
  readonly release: ReleaseMeta;
  /** Objects as `resourceName` names them, with their namespaces. */
  readonly missingObjects: readonly string[];
  readonly signal: AbortSignal;
}

const MAX_PARALLEL_RESTORES = 4;
/** After this many refusals of one kind, the other objects of the kind are not tried. */
const MAX_REFUSALS_PER_KIND = 3;

/** A missing object: `name` as the request has it, and what the record contains. */
interface MissingObject extends ManifestObject {
  readonly name: string;
}

/**
 * Restores missing objects of a release from its record, in helm's order and with helm's labels and annotations. It renders
 * nothing, so generated passwords stay the same, and it creates no revision. Restores as many objects as possible, then
 * throws RestoreError for the others.
 */
export async function restoreObjects(tools: Reconciler, request: RestoreRequest): Promise<void> {
  const { release, signal } = request;
  const [manifest = ""] = await tools.store.readManifests(release, signal);
  const { applyMethod } = await tools.store.readSummary(release);
  const stillMissing = new Set(request.missingObjects);
  const refusals: string[] = [];
  for (const group of groupByKind(findMissingObjects(manifest, tools.namespace, stillMissing))) {
    const refusalsBefore = refusals.length;
    await mapInParallel(MAX_PARALLEL_RESTORES, group, async ({ ref, body: recorded, name }) => {
      // A webhook or a quota probably refuses the other objects of this kind, too.
      if (refusals.length - refusalsBefore >= MAX_REFUSALS_PER_KIND) return;
      const body = withHelmMetadata(recorded, release.name, tools.namespace);
      try {
        await restoreObject(tools, { ref, body, applyMethod, signal });
        stillMissing.delete(name);
      } catch (error) {
        signal.throwIfAborted();
        refusals.push(`${name}: ${oneLine(error)}`);
      }
    });
  }
  if (refusals.length > 0) throw new RestoreError(refusals, [...stillMissing]);
}

/**
 * Finds the recorded objects whose names are in `missingObjects`. The names there have the namespace of an object unless its kind is
 * cluster-scoped; the manifest does not contain the scope, so both forms are looked up.
 */
function findMissingObjects(
  manifest: string,
  releaseNamespace: string,
  missingObjects: ReadonlySet<string>,
): MissingObject[] {
  return listLastingObjects(parseDocuments(manifest)).flatMap(({ ref, body }) => {
    const namespacedName = resourceName({ ...ref, namespace: ref.namespace ?? releaseNamespace });
    const clusterName = resourceName({ ...ref, namespace: undefined });
    const name = [namespacedName, clusterName].find((each) => missingObjects.has(each));
    return name === undefined ? [] : [{ ref, body, name }];
  });
}

/** Groups consecutive objects of one kind, because the order of kinds matters: manifests are in helm's order of installation. */
function groupByKind(objects: readonly MissingObject[]): MissingObject[][] {
  const groups: MissingObject[][] = [];
  for (const object of objects) {
    const last = groups.at(-1);
    if (last?.[0]?.ref.kind === object.ref.kind) last.push(object);
    else groups.push([object]);
  }
  return groups;
}

interface ObjectToRestore extends ManifestObject {
  readonly applyMethod: "csa" | "ssa";
  readonly signal: AbortSignal;
}

/**
 * Creates a missing object by the method of its release: server-side apply (`ssa`), or a plain creation. An object that someone else has
 * created meanwhile is no error.
 */
async function restoreObject(
  tools: Reconciler,
  { ref, body, applyMethod, signal }: ObjectToRestore,
): Promise<void> {
  const served = await LiveObjectClient.resolve(tools, ref);
  if (served === undefined) throw new Error(`the server knows no ${ref.kind} of ${ref.apiVersion}`);
  try {
    await (applyMethod === "ssa" ? served.apply(body, { signal }) : served.create(body, { signal }));
  } catch (error) {
    if (applyMethod === "ssa" || !isAlreadyExists(error)) throw error;
  }
}
