/** An object that a release is made of, and what it is called. */

import type { ObjectRef } from "../../helm/index.ts";
import type { CelTest } from "../../lib/index.ts";

/** An object that a release is made of. */
export interface ReleaseObject {
  readonly apiVersion: string;
  readonly kind: string;
  /** Its namespace; ignored for cluster-wide objects. */
  readonly namespace: string;
  readonly name: string;
  /** What tells that it is as it should be, instead of its status: an expression. */
  readonly check?: { readonly cel: string; readonly test: CelTest } | undefined;
}

/** What the objects of one watch have in common. */
export function kindKey({ apiVersion, kind, namespace, check }: ReleaseObject): string {
  return `${apiVersion}/${kind}/${namespace}${check === undefined ? "" : ` ${check.cel}`}`;
}

export function keyOf(object: ReleaseObject): string {
  return `${kindKey(object)}/${object.name}`;
}

/** For people: `Deployment kube-system/web`, or `ClusterRole web`. */
export function titleOf({ kind, namespace, name }: Omit<ObjectRef, "apiVersion">): string {
  return `${kind} ${namespace === undefined ? name : `${namespace}/${name}`}`;
}
