/** Resource types, their paths, and the objects that the operator itself reads and writes. */

import type { EventsV1Event } from "@kubernetes/client-node/dist/gen/models/EventsV1Event.js";
import type { V1ConfigMap } from "@kubernetes/client-node/dist/gen/models/V1ConfigMap.js";
import type { V1Lease } from "@kubernetes/client-node/dist/gen/models/V1Lease.js";
import type { V1ObjectMeta } from "@kubernetes/client-node/dist/gen/models/V1ObjectMeta.js";
import type { V1OwnerReference } from "@kubernetes/client-node/dist/gen/models/V1OwnerReference.js";
import type { V1Secret } from "@kubernetes/client-node/dist/gen/models/V1Secret.js";
import type { V1SelfSubjectAccessReview } from "@kubernetes/client-node/dist/gen/models/V1SelfSubjectAccessReview.js";

/** One resource type as discovery describes it. `group` is empty for the core group. */
export interface Resource {
  readonly group: string;
  readonly version: string;
  readonly plural: string;
  readonly kind: string;
  readonly namespaced: boolean;
  readonly verbs: readonly string[];
  readonly singular?: string;
  readonly shortNames?: readonly string[];
}

/** Which part of a resource a path names; without `name` the collection. */
export interface ObjectPath {
  readonly namespace?: string | undefined;
  readonly name?: string | undefined;
  readonly subresource?: string | undefined;
}

/** The part of a resource that its path depends on. */
export type ResourceType = Pick<Resource, "group" | "version" | "plural" | "namespaced">;

/** The `apiVersion` of objects of a resource: `v1` or `group/version`. */
export function apiVersionOf(resource: Pick<Resource, "group" | "version">): string {
  return resource.group === "" ? resource.version : `${resource.group}/${resource.version}`;
}

/** The API group in an `apiVersion`; "" for the core group. */
export function apiGroupOf(apiVersion: string): string {
  return apiVersion.includes("/") ? (apiVersion.split("/")[0] ?? "") : "";
}

/** Builds the URL path of a collection, an object or its subresource; ignores the namespace for cluster-wide resources. */
export function pathOf(resource: ResourceType, object: ObjectPath = {}): string {
  const parts = [resource.group === "" ? "api" : "apis"];
  parts.push(...apiVersionOf(resource).split("/"));
  if (resource.namespaced && object.namespace !== undefined) parts.push("namespaces", object.namespace);
  parts.push(resource.plural);
  if (object.name !== undefined) parts.push(object.name);
  if (object.subresource !== undefined) parts.push(...object.subresource.split("/"));
  return `/${parts.map(encodeURIComponent).join("/")}`;
}

/**
 * Replaces the names in a URL path by placeholders, for metrics: `/api/v1/namespaces/{namespace}/configmaps/{name}`.
 * Paths outside the resource API are returned as they are.
 */
export function toPathTemplate(path: string): string {
  const parts = path.split("/");
  // Names follow `/api/v1/` or `/apis/group/version/`; the first part is empty.
  let start = parts.length;
  if (parts[1] === "api") start = 3;
  if (parts[1] === "apis") start = 4;
  const isInNamespace = parts[start] === "namespaces" && parts.length > start + 2;
  if (isInNamespace) parts[start + 1] = "{namespace}";
  const nameIndex = isInNamespace ? start + 3 : start + 1;
  if (parts.length > nameIndex) parts[nameIndex] = "{name}";
  return parts.join("/");
}

const ALL_VERBS = ["create", "delete", "get", "list", "patch", "update", "watch"];
const CORE_V1 = { group: "", version: "v1", namespaced: true, verbs: ALL_VERBS };

/** Resources the operator itself uses, known without discovery. */
export const CONFIG_MAPS: Resource = { ...CORE_V1, plural: "configmaps", kind: "ConfigMap" };
export const SECRETS: Resource = { ...CORE_V1, plural: "secrets", kind: "Secret" };
export const NAMESPACES: Resource = {
  ...CORE_V1,
  namespaced: false,
  plural: "namespaces",
  kind: "Namespace",
};
export const SERVICE_ACCOUNTS: Resource = { ...CORE_V1, plural: "serviceaccounts", kind: "ServiceAccount" };
export const SERVICES: Resource = { ...CORE_V1, plural: "services", kind: "Service" };
export const PODS: Resource = { ...CORE_V1, plural: "pods", kind: "Pod" };
export const REPLICA_SETS: Resource = {
  ...CORE_V1,
  group: "apps",
  plural: "replicasets",
  kind: "ReplicaSet",
};
export const EVENTS: Resource = { ...CORE_V1, group: "events.k8s.io", plural: "events", kind: "Event" };
export const LEASES: Resource = { ...CORE_V1, group: "coordination.k8s.io", plural: "leases", kind: "Lease" };
export const CUSTOM_RESOURCE_DEFINITIONS: Resource = {
  ...CORE_V1,
  group: "apiextensions.k8s.io",
  plural: "customresourcedefinitions",
  kind: "CustomResourceDefinition",
  namespaced: false,
};
export const STORAGE_CLASSES: Resource = {
  ...CORE_V1,
  group: "storage.k8s.io",
  plural: "storageclasses",
  kind: "StorageClass",
  namespaced: false,
};
export const CLUSTER_ROLE_BINDINGS: Resource = {
  ...CORE_V1,
  group: "rbac.authorization.k8s.io",
  plural: "clusterrolebindings",
  kind: "ClusterRoleBinding",
  namespaced: false,
};
const WEBHOOK_CONFIGURATIONS = { ...CORE_V1, group: "admissionregistration.k8s.io", namespaced: false };
export const VALIDATING_WEBHOOKS: Resource = {
  ...WEBHOOK_CONFIGURATIONS,
  plural: "validatingwebhookconfigurations",
  kind: "ValidatingWebhookConfiguration",
};
export const MUTATING_WEBHOOKS: Resource = {
  ...WEBHOOK_CONFIGURATIONS,
  plural: "mutatingwebhookconfigurations",
  kind: "MutatingWebhookConfiguration",
};

/** The JSON form of an API type: times are strings, everything is readonly. */
type JsonForm<T> = T extends Date
  ? string
  : T extends readonly (infer Item)[]
    ? readonly JsonForm<Item>[]
    : T extends object
      ? { readonly [Key in keyof T]: JsonForm<T[Key]> }
      : T;

/** Metadata of an object that has its name. */
export type NamedMeta = JsonForm<V1ObjectMeta> & { readonly name: string };
/** An object as the server returns it. */
type ServerObject<T> = JsonForm<T> & {
  readonly metadata: NamedMeta & { readonly uid: string; readonly resourceVersion: string };
};

export type ConfigMap = ServerObject<V1ConfigMap>;
export type Event = JsonForm<EventsV1Event>;
export type LeaseObject = ServerObject<V1Lease>;
export type LeaseSpec = NonNullable<LeaseObject["spec"]>;
export type OwnerReference = JsonForm<V1OwnerReference>;
export type Secret = ServerObject<V1Secret>;
export type AccessReview = JsonForm<V1SelfSubjectAccessReview>;

/** Formats a time in the form of metav1.MicroTime, which requires exactly six fractional digits. */
export function formatMicroTime(ms: number): string {
  return new Date(ms).toISOString().replace("Z", "000Z");
}

/** The names of the operator's own CustomResourceDefinitions. */
export const OWN_CRDS: readonly string[] = [
  "addonmodules.addon-operator.io",
  "addonoperators.addon-operator.io",
  "modulesources.addon-operator.io",
];

/** The begin of the names of Secrets to which the operator binds the tokens of hooks. */
export const RUN_SECRET_PREFIX = "addon-operator-run-";

/** Label that Kubernetes sets on each namespace: its name. */
export const NAMESPACE_LABEL = "kubernetes.io/metadata.name";

/** Label of the objects that the operator creates for itself. */
export const MANAGED_BY_OPERATOR = { "app.kubernetes.io/managed-by": "addon-operator" };

/** Builds the command that users copy: `kubectl annotate --overwrite -n ops addonmodule/web KEY=VALUE`. `object` is kind and name. */
export function annotateCommand(
  object: string,
  namespace: string,
  annotations: Readonly<Record<string, string>>,
): string {
  const pairs = Object.entries(annotations).map(([key, value]) => `${key}=${value}`);
  return `kubectl annotate --overwrite -n ${namespace} ${object} ${pairs.join(" ")}`;
}
