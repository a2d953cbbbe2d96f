/** The objects that a release is made of. */

import type { Resource } from "../../kube/index.ts";

/** An object that a release is made of. */
export interface ReleaseObject {
  readonly apiVersion: string;
  readonly kind: string;
  /** Its namespace; ignored for cluster-wide objects. */
  readonly namespace: string;
  readonly name: string;
}

/** An object that may be gone. */
export interface Suspect {
  readonly object: ReleaseObject;
  readonly resource: Resource;
  /** Its kind cannot be watched: only an answer of the server shows whether it exists. */
  readonly unwatched: boolean;
}

/** What the objects of one watch have in common. */
export function kindKey({ apiVersion, kind, namespace }: ReleaseObject): string {
  return `${apiVersion}/${kind}/${namespace}`;
}

export function keyOf(object: ReleaseObject): string {
  return `${kindKey(object)}/${object.name}`;
}
