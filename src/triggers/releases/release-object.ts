/** An object of a release, and its keys. */

import type { ObjectRef } from "../../helm/index.ts";
import { compileCel, type CelTest } from "../../lib/index.ts";
import type { Module } from "../../model/index.ts";

export interface ReleaseObject {
  readonly apiVersion: string;
  readonly kind: string;
  /** Ignored for cluster-scoped objects. */
  readonly namespace: string;
  readonly name: string;
  /** A CEL expression for its health, in place of the rules for its status. */
  readonly check?: { readonly cel: string; readonly test: CelTest } | undefined;
}

/** Key of the watch that an object belongs to. */
export function kindKey({ apiVersion, kind, namespace, check }: ReleaseObject): string {
  return `${apiVersion}/${kind}/${namespace}${check === undefined ? "" : ` ${check.cel}`}`;
}

/** Key of an object among those of all releases. */
export function releaseObjectKey(object: ReleaseObject): string {
  return `${kindKey(object)}/${object.name}`;
}

/** Display name: `Deployment kube-system/web`, or `ClusterRole web`. */
export function titleOf({ kind, namespace, name }: Omit<ObjectRef, "apiVersion">): string {
  return `${kind} ${namespace === undefined ? name : `${namespace}/${name}`}`;
}

/**
 * Adds the default namespace and the health check of its kind to each object. Checks that do not compile are left out:
 * their module is Invalid.
 */
export async function releaseObjectsOf(
  objects: readonly ObjectRef[],
  namespace: string,
  checks: NonNullable<Module["health"]>["checks"] = [],
): Promise<ReleaseObject[]> {
  const compiling = checks.map(async (check) => ({ ...check, test: await compileCel(check.cel) }));
  const settled = await Promise.allSettled(compiling);
  const compiled = settled.flatMap((each) => (each.status === "fulfilled" ? [each.value] : []));
  return objects.map((object) => ({
    ...object,
    namespace: object.namespace ?? namespace,
    check: compiled.find(({ apiVersion, kind }) => apiVersion === object.apiVersion && kind === object.kind),
  }));
}
