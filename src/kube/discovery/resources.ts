/** Resource types and their paths. */

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

/** What a path needs to know of a resource. */
export type ResourceType = Pick<Resource, "group" | "version" | "plural" | "namespaced">;

/** `v1` or `group/version`. */
export function apiVersionOf(resource: Pick<Resource, "group" | "version">): string {
  return resource.group === "" ? resource.version : `${resource.group}/${resource.version}`;
}

/** URL path of a collection, an object or its subresource; a namespace is ignored for cluster-wide resources. */
export function pathOf(resource: ResourceType, place: ObjectPath = {}): string {
  const parts = [resource.group === "" ? "api" : "apis"];
  parts.push(...apiVersionOf(resource).split("/"));
  if (resource.namespaced && place.namespace !== undefined) parts.push("namespaces", place.namespace);
  parts.push(resource.plural);
  if (place.name !== undefined) parts.push(place.name);
  if (place.subresource !== undefined) parts.push(...place.subresource.split("/"));
  return `/${parts.map(encodeURIComponent).join("/")}`;
}

/**
 * The path with names replaced by placeholders, for metrics: `/api/v1/namespaces/{namespace}/configmaps/{name}`.
 * Paths outside the resource API are returned as they are.
 */
export function pathTemplate(path: string): string {
  const parts = path.split("/");
  const start = parts[1] === "api" ? 3 : parts[1] === "apis" ? 4 : parts.length;
  if (parts[start] === "namespaces" && parts.length > start + 2) {
    parts[start + 1] = "{namespace}";
    if (parts.length > start + 3) parts[start + 3] = "{name}";
  } else if (parts.length > start + 1) {
    parts[start + 1] = "{name}";
  }
  return parts.join("/");
}

const verbs = ["create", "delete", "get", "list", "patch", "update", "watch"];
const v1 = { group: "", version: "v1", namespaced: true, verbs };

/** Resources the operator itself uses, known without discovery. */
export const CONFIG_MAPS: Resource = { ...v1, plural: "configmaps", kind: "ConfigMap" };
export const SECRETS: Resource = { ...v1, plural: "secrets", kind: "Secret" };
export const NAMESPACES: Resource = { ...v1, plural: "namespaces", kind: "Namespace", namespaced: false };
export const PODS: Resource = { ...v1, plural: "pods", kind: "Pod" };
export const EVENTS: Resource = { ...v1, group: "events.k8s.io", plural: "events", kind: "Event" };
export const LEASES: Resource = { ...v1, group: "coordination.k8s.io", plural: "leases", kind: "Lease" };
export const CUSTOM_RESOURCE_DEFINITIONS: Resource = {
  ...v1,
  group: "apiextensions.k8s.io",
  plural: "customresourcedefinitions",
  kind: "CustomResourceDefinition",
  namespaced: false,
};
