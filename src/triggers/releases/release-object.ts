/** An object of a release, and its keys. */

import type { ObjectRef } from "../../helm/index.ts";
import { compileCel, type CelTest } from "../../lib/index.ts";
import type { Module } from "../../model/index.ts";

/** An object that a release contains, with the default namespace filled in. */
export interface ReleaseObject {
  readonly apiVersion: string;
  readonly kind: string;
  /** Ignored for cluster-scoped objects. */
  readonly namespace: string;
  readonly name: string;
  /** A CEL expression for its health, in place of the rules for its status. */
  readonly check?: { readonly cel: string; readonly test: CelTest } | undefined;
}

/** Key of the watch that an object belongs to: one for each kind, namespace and health check. */
export function toKindKey({ apiVersion, kind, namespace, check }: ReleaseObject): string {
  return `${apiVersion}/${kind}/${namespace}${check === undefined ? "" : ` ${check.cel}`}`;
}

/** Key of an object among those of all releases. */
export function toReleaseObjectKey(object: ReleaseObject): string {
  return `${toKindKey(object)}/${object.name}`;
}

/** Display name: `Deployment kube-system/web`, or `ClusterRole web`. */
export function titleOf({ kind, namespace, name }: Omit<ObjectRef, "apiVersion">): string {
  return `${kind} ${namespace === undefined ? name : `${namespace}/${name}`}`;
}

/**
 * Adds the default namespace and the health check of its kind to each object. Leaves out checks that do not compile: their
 * module is Invalid.
 */
export async function toReleaseObjects(
  objects: readonly ObjectRef[],
  namespace: string,
  checks: NonNullable<Module["health"]>["checks"] = [],
): Promise<ReleaseObject[]> {
  const compilations = checks.map(async (check) => ({ ...check, test: await compileCel(check.cel) }));
  const settled = await Promise.allSettled(compilations);
  const compiledChecks = settled.flatMap((each) => (each.status === "fulfilled" ? [each.value] : []));
  return objects.map((object) => ({
    ...object,
    namespace: object.namespace ?? namespace,
    check: compiledChecks.find(
      ({ apiVersion, kind }) => apiVersion === object.apiVersion && kind === object.kind,
    ),
  }));
}
