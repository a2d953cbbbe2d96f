/** Kubernetes objects as they come over the wire: types of the client library, in which times are Dates, as JSON. */

import type { EventsV1Event } from "@kubernetes/client-node/dist/gen/models/EventsV1Event.js";
import type { V1ConfigMap } from "@kubernetes/client-node/dist/gen/models/V1ConfigMap.js";
import type { V1Lease } from "@kubernetes/client-node/dist/gen/models/V1Lease.js";
import type { V1ObjectMeta } from "@kubernetes/client-node/dist/gen/models/V1ObjectMeta.js";
import type { V1OwnerReference } from "@kubernetes/client-node/dist/gen/models/V1OwnerReference.js";
import type { V1Secret } from "@kubernetes/client-node/dist/gen/models/V1Secret.js";
import type { V1SelfSubjectAccessReview } from "@kubernetes/client-node/dist/gen/models/V1SelfSubjectAccessReview.js";

/** As JSON: times are text, and what was read is not changed. */
type Wire<T> = T extends Date
  ? string
  : T extends readonly (infer Item)[]
    ? readonly Wire<Item>[]
    : T extends object
      ? { readonly [Key in keyof T]: Wire<T[Key]> }
      : T;

/** Metadata of an object that has its name. */
export type NamedMeta = Wire<V1ObjectMeta> & { readonly name: string };
/** An object as the server has it. */
type Stored<T> = Wire<T> & {
  readonly metadata: NamedMeta & { readonly uid: string; readonly resourceVersion: string };
};

export type ConfigMap = Stored<V1ConfigMap>;
export type Event = Wire<EventsV1Event>;
export type LeaseObject = Stored<V1Lease>;
export type LeaseSpec = NonNullable<LeaseObject["spec"]>;
export type OwnerReference = Wire<V1OwnerReference>;
export type Secret = Stored<V1Secret>;
export type AccessReview = Wire<V1SelfSubjectAccessReview>;

/** RFC 3339 time as metav1.MicroTime has it: the server wants exactly six digits. */
export function microTime(ms: number): string {
  return new Date(ms).toISOString().replace("Z", "000Z");
}

/** Label of objects that the operator makes for itself. */
export const MADE_HERE = { "app.kubernetes.io/managed-by": "addon-operator" };
