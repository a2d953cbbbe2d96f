/** What a watch selects, and the objects it delivers. */

import type { JsonObject, LabelSelector } from "../../base/model/index.ts";
import { apiVersionOf, pathOf, type Resource } from "../resources.ts";

/** What to watch. Equal specs share one watch. */
export interface WatchSpec {
  readonly resource: Resource;
  /** undefined = all namespaces, or cluster-wide. */
  readonly namespace?: string | undefined;
  /** In the API's syntax. */
  readonly labelSelector?: string | undefined;
  readonly fieldSelector?: string | undefined;
  /** Request only apiVersion, kind and metadata. */
  readonly metadataOnly?: boolean | undefined;
  /** Keep `metadata.managedFields`, which are dropped otherwise. */
  readonly keepManagedFields?: boolean | undefined;
}

/** The spec that selects one object by its name. */
export function toNamedSpec(
  resource: Resource,
  { namespace, name }: { readonly namespace?: string | undefined; readonly name: string },
): WatchSpec {
  return { resource, namespace, fieldSelector: `metadata.name=${name}` };
}

/** An object as it comes from the API server, with `apiVersion` and `kind` also where a list omits them. */
export interface WatchedObject extends JsonObject {
  apiVersion: string;
  kind: string;
  metadata: WatchedMeta;
}

/** The part of an object's metadata that identifies one version of it. */
interface WatchedMeta extends JsonObject {
  name: string;
  namespace?: string;
  uid?: string;
  resourceVersion?: string;
}

export interface ObjectVersion {
  readonly uid: string;
  readonly resourceVersion: string;
}

/** Key of an object among those of its kind: `namespace/name`. The namespace is empty for cluster-wide objects. */
export function objectKey(object: WatchedObject): string {
  return `${object.metadata.namespace ?? ""}/${object.metadata.name}`;
}

/** Identifies an object of a kind; the namespace is empty for a cluster-wide one. */
export interface ObjectKey {
  readonly namespace: string;
  readonly name: string;
}

/** Splits an `objectKey` into namespace (empty for cluster-wide objects) and name. */
export function splitKey(key: string): ObjectKey {
  const slash = key.indexOf("/");
  return { namespace: key.slice(0, slash), name: key.slice(slash + 1) };
}

/** Builds the object for a deletion that no watch event reported: a new list lacks the object, so only its key, uid and a resource version are known. */
export function buildDeletedObject(
  { resource }: WatchSpec,
  key: string,
  version: ObjectVersion,
): WatchedObject {
  const { namespace, name } = splitKey(key);
  const metadata = { name, ...(namespace !== "" && { namespace }), ...version };
  return { apiVersion: apiVersionOf(resource), kind: resource.kind, metadata };
}

/** Uid and resource version of an object. */
export function versionOf(object: WatchedObject): ObjectVersion {
  return { uid: object.metadata.uid ?? "", resourceVersion: object.metadata.resourceVersion ?? "" };
}

/** Whether resource version `a` is later than `b`. Both are decimal numbers, which may exceed what a JavaScript number can hold. */
export function isLater(a: string, b: string): boolean {
  return a.length === b.length ? a > b : a.length > b.length;
}

/** Whether a version is older than another one; an empty version is newer than any. */
export function isOlder(version: string, than: string): boolean {
  return version !== "" && isLater(than, version);
}

/** Whether a version is newer than another one; an empty version is newer than any. */
export function isNewer(version: string, than: string): boolean {
  return version === "" || isLater(version, than);
}

/** Returns the latest of these resource versions; "" if there are none. */
export function findNewestVersion(versions: Iterable<string>): string {
  let newest = "";
  for (const version of versions) if (isLater(version, newest)) newest = version;
  return newest;
}

/** A resource version earlier than that of every object: any other version supersedes it, and a write with it conflicts. */
export const EARLIEST_VERSION = "1";

/** A restore with etcdctl or etcdutl raises the revision by 10^9 (`--bump-revision`); no cluster writes this often between two answers. */
const RESTORE_REVISION_JUMP = 100_000_000;

/**
 * True when a server whose newest version was `before` and is `now` lost a part of its history: its etcd was restored
 * to an earlier state, with or without a revision bump. False if a version is empty.
 */
export function wasEtcdRestored(before: string, now: string): boolean {
  if (before === "" || now === "") return false;
  return isLater(before, now) || Number(now) - Number(before) > RESTORE_REVISION_JUMP;
}

/** Builds a map key that is equal for specs that can share a watch. */
export function toSpecKey(spec: WatchSpec): string {
  const { resource, namespace, labelSelector, fieldSelector } = spec;
  const flags = `${spec.metadataOnly === true ? "m" : ""}${spec.keepManagedFields === true ? "f" : ""}`;
  return JSON.stringify([pathOf(resource, { namespace }), labelSelector ?? "", fieldSelector ?? "", flags]);
}

/** Converts the selectors of a spec into query parameters of a list or watch. */
export function toSelectorQuery(spec: WatchSpec): Record<string, string | undefined> {
  return { labelSelector: spec.labelSelector || undefined, fieldSelector: spec.fieldSelector || undefined };
}

/** Describes a watch in log lines: `pods.v1 in ops [app=web]`. */
export function describeSpec(spec: WatchSpec): string {
  const { resource, namespace, labelSelector, fieldSelector } = spec;
  const inNamespace = namespace === undefined ? "" : ` in ${namespace}`;
  const selectors = [labelSelector, fieldSelector].filter((text) => text !== undefined && text !== "");
  return `${resource.plural}.${apiVersionOf(resource)}${inNamespace}${selectors.map((text) => ` [${text}]`).join("")}`;
}

type Expression = NonNullable<LabelSelector["matchExpressions"]>[number];

/** Formats a label selector as the API's query parameter (`app=web,tier in (a,b)`); undefined when it selects everything. */
export function formatLabelSelector(selector: LabelSelector = {}): string | undefined {
  const { matchLabels = {}, matchExpressions = [] } = selector;
  const terms = Object.entries(matchLabels).map(([key, value]) => `${key}=${value}`);
  terms.push(...matchExpressions.map(formatExpression));
  return terms.length === 0 ? undefined : terms.join(",");
}

/** Formats one entry of `matchExpressions`. */
function formatExpression({ key, operator, values = [] }: Expression): string {
  if (operator === "Exists") return key;
  if (operator === "DoesNotExist") return `!${key}`;
  return `${key} ${operator === "In" ? "in" : "notin"} (${values.join(",")})`;
}
