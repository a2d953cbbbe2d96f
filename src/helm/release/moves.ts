/**
 * Moves of releases to other namespaces, before they happen. A move creates the objects of a release again and deletes the old ones, so it
 * counts as a removal (docs/guides/tenancy.md, "Move a release").
 */

import type { Json, JsonObject } from "../../model/index.ts";
import { objectOf } from "../../model/index.ts";
import { listManifestObjects, parseObjectRef, type ObjectRef } from "../manifest/manifest.ts";

/** The move of a release to the namespace that its module names. */
export interface ReleaseMove {
  readonly from: string;
  readonly to: string;
  /** Objects whose data the move deletes; undefined = unknown, because the record of the release cannot be read. */
  readonly dataObjects: readonly string[] | undefined;
}

/** The discovery does not know a move that a run is about to begin, so another discovery decides first. */
export class UndecidedMoveError extends Error {
  constructor(release: string, { from, to }: Pick<ReleaseMove, "from" | "to">) {
    super(
      `release "${release}" may not move from namespace ${from} to ${to} before the next converge decides`,
    );
    this.name = "UndecidedMoveError";
  }
}

/** Lists the objects of a manifest that contain data: claims of volumes, StatefulSets with claims, and Namespaces with all their objects. */
export function listDataObjects(documents: readonly Json[]): ObjectRef[] {
  return listManifestObjects(documents)
    .filter(containsData)
    .flatMap((object) => parseObjectRef(object) ?? []);
}

function containsData({ apiVersion, kind, spec }: JsonObject): boolean {
  if (apiVersion === "v1") return kind === "PersistentVolumeClaim" || kind === "Namespace";
  const claims = objectOf(spec)["volumeClaimTemplates"];
  return apiVersion === "apps/v1" && kind === "StatefulSet" && Array.isArray(claims) && claims.length > 0;
}
