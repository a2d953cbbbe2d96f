/** The verbs of the API: get, create, replace, patch, delete. */

import { DepthError, isCut } from "../../lib/index.ts";
import type { JsonObject } from "../../model/index.ts";
import type { KubeClient } from "./client.ts";
import { acceptOf } from "./request.ts";
import type { ApiRequest } from "./request.ts";
import type { ObjectPath, ResourceType } from "../discovery/resources.ts";
import { pathOf } from "../discovery/resources.ts";
import type { WatchedObject } from "../watch/watch-spec.ts";

/** Field manager of the operator's own writes. */
const FIELD_MANAGER = "addon-operator";

/** Which object. Errors of all verbs: ApiError, ConnectionError. */
export interface Target extends ObjectPath {
  readonly resource: ResourceType;
}

/** How a call is made. */
export interface CallOptions {
  readonly signal?: AbortSignal | undefined;
  readonly timeoutMs?: number;
  /** Checked by the server, not stored. */
  readonly dryRun?: boolean;
  /** How the server validates a written body: `Strict` refuses unknown fields. */
  readonly fieldValidation?: "Strict" | "Warn" | "Ignore";
  /** Field manager; the operator's own by default. */
  readonly fieldManager?: string;
}

/** Who deletes what an object owns. */
export type Propagation = "Foreground" | "Background" | "Orphan";

/** How an object is deleted. */
export interface RemoveOptions extends CallOptions {
  readonly propagationPolicy?: Propagation;
  /** Only if the object still is the one that was seen. */
  readonly preconditions?: { readonly uid?: string; readonly resourceVersion?: string };
}

/** Reads the metadata of one object, without the rest of it. */
export function getMetadata<T = JsonObject>(
  client: KubeClient,
  target: Target,
  options: CallOptions = {},
): Promise<T> {
  const path = pathOf(target.resource, target);
  return client.json<T>({ ...common(options), path, accept: acceptOf({ metadataOnly: true }, "") });
}

/** Lists the metadata of few objects, in one answer. */
export async function listMetadata(
  client: KubeClient,
  target: Pick<Target, "resource" | "namespace">,
  call: CallOptions & {
    readonly labelSelector?: string | undefined;
    readonly fieldSelector?: string | undefined;
  },
): Promise<{ items: readonly WatchedObject[]; resourceVersion: string }> {
  const { labelSelector, fieldSelector } = call;
  const { items, metadata } = await client.json<RawList>({
    ...common(call),
    path: pathOf(target.resource, { namespace: target.namespace }),
    query: { labelSelector, fieldSelector },
    accept: acceptOf({ metadataOnly: true }, "List"),
  });
  return { items: items ?? [], resourceVersion: metadata?.resourceVersion ?? "" };
}

interface RawList {
  readonly items?: readonly WatchedObject[] | null;
  readonly metadata?: { readonly resourceVersion?: string };
}

/** Reads one object. Throws DepthError for one that is nested so deep that it could not be written back whole. */
export async function get<T = JsonObject>(
  client: KubeClient,
  target: Target,
  options: CallOptions = {},
): Promise<T> {
  const path = pathOf(target.resource, target);
  const object = await client.json<T>({ ...common(options), path });
  if (isCut(object as object)) throw new DepthError(path);
  return object;
}

/** Creates `body` in the target's collection (or posts to its subresource, where `name` and `subresource` are given). */
export function create<T = JsonObject>(
  client: KubeClient,
  target: Target,
  call: CallOptions & { readonly body: unknown },
): Promise<T> {
  return client.json<T>({ ...write("POST", call), path: pathOf(target.resource, target), body: call.body });
}

/** Replaces an object; a resourceVersion in `body` makes it conditional (409 when it moved). */
export function replace<T = JsonObject>(
  client: KubeClient,
  target: Target,
  call: CallOptions & { readonly body: unknown },
): Promise<T> {
  return client.json<T>({ ...write("PUT", call), path: pathOf(target.resource, target), body: call.body });
}

/** What a patch call takes. */
export interface PatchCall extends CallOptions {
  readonly body: unknown;
}

/** RFC 7396 merge patch; `metadata.resourceVersion` in `body` makes it conditional. */
export function mergePatch<T = JsonObject>(client: KubeClient, target: Target, call: PatchCall): Promise<T> {
  return patch<T>(client, target, { ...call, contentType: "application/merge-patch+json" });
}

/** RFC 6902 JSON patch. */
export function jsonPatch<T = JsonObject>(client: KubeClient, target: Target, call: PatchCall): Promise<T> {
  return patch<T>(client, target, { ...call, contentType: "application/json-patch+json" });
}

/** Server-side apply; with `force` fields of other managers are taken over, without it they are a conflict. */
export function applyPatch<T = JsonObject>(
  client: KubeClient,
  target: Target,
  call: PatchCall & { readonly force?: boolean },
): Promise<T> {
  return patch<T>(client, target, { ...call, contentType: "application/apply-patch+yaml" });
}

/** Deletes one object; the answer is the object (still there, with finalizers) or a Status. */
export function remove<T = JsonObject>(
  client: KubeClient,
  target: Target,
  options: RemoveOptions = {},
): Promise<T> {
  const { propagationPolicy, preconditions, dryRun } = options;
  return client.json<T>({
    ...common(options),
    method: "DELETE",
    path: pathOf(target.resource, target),
    body: {
      apiVersion: "v1",
      kind: "DeleteOptions",
      propagationPolicy,
      preconditions,
      dryRun: dryRun ? ["All"] : undefined,
    },
  });
}

function patch<T>(
  client: KubeClient,
  target: Target,
  call: PatchCall & { readonly contentType: string; readonly force?: boolean },
): Promise<T> {
  const { query, ...rest } = write("PATCH", call);
  const path = pathOf(target.resource, target);
  // Only server-side apply knows `force`: with it other patches are refused.
  const force = call.contentType === "application/apply-patch+yaml" ? (call.force ?? false) : undefined;
  return client.json<T>({
    ...rest,
    path,
    body: call.body,
    contentType: call.contentType,
    query: { ...query, force },
  });
}

function write(method: "POST" | "PUT" | "PATCH", call: CallOptions): Omit<ApiRequest, "path"> {
  const { dryRun, fieldValidation, fieldManager = FIELD_MANAGER } = call;
  const query = { fieldManager, fieldValidation, dryRun: dryRun ? "All" : undefined };
  return { ...common(call), method, query };
}

function common(options: CallOptions): Pick<ApiRequest, "signal" | "timeoutMs"> {
  const { signal, timeoutMs } = options;
  return { signal, ...(timeoutMs === undefined ? {} : { timeoutMs }) };
}
