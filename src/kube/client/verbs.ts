/** The verbs of the API: read, list, create, replace, patch, apply, delete. */

import { DepthError, wasCut } from "../../base/index.ts";
import { isJsonObject, objectOf, type Json, type JsonObject } from "../../base/model/index.ts";
import { ConnectionError, ignoreNotFound } from "../api-errors.ts";
import { pathOf, type ObjectPath, type ResourceType } from "../resources.ts";
import type { WatchedObject } from "../watch/watch-spec.ts";
import type { KubeClient } from "./client.ts";
import { APPLY_PATCH, formatAcceptHeader, type ApiRequest } from "./request.ts";

/** Field manager of the operator's own writes. */
export const FIELD_MANAGER = "addon-operator";

/** The object or collection of a request. All verbs throw ApiError and ConnectionError. */
export interface Target extends ObjectPath {
  readonly resource: ResourceType;
}

type CallOptions = Pick<ApiRequest, "signal" | "timeoutMs">;

interface WriteOptions extends CallOptions {
  readonly body: unknown;
  /** The server checks the request but stores nothing. */
  readonly dryRun?: boolean;
  /** How the server validates the body: `Strict` refuses unknown fields. */
  readonly fieldValidation?: "Strict" | "Warn" | "Ignore";
  /** Field manager; the operator's own by default. */
  readonly fieldManager?: string;
}

interface ApplyOptions extends WriteOptions {
  /** Take over fields of other managers, which are a conflict otherwise. The API server refuses other patches with it. */
  readonly force?: boolean;
}

/** When the objects that an object owns are deleted: before it, after it, or never. */
export type Propagation = "Foreground" | "Background" | "Orphan";

interface RemoveOptions extends CallOptions {
  readonly propagationPolicy?: Propagation;
  /** Delete only this version of the object. */
  readonly preconditions?: { readonly uid?: string; readonly resourceVersion?: string };
}

/** Reads the metadata of one object, without the rest of it. */
export async function getMetadata<T = JsonObject>(
  client: KubeClient,
  target: Target,
  options: CallOptions = {},
): Promise<T> {
  const path = pathOf(target.resource, target);
  const accept = formatAcceptHeader({ metadataOnly: true }, "");
  return requireObject(await client.json<T>({ ...options, path, accept }), target);
}

/** Returns an answer that is the requested object. Throws ConnectionError for any other, such as of a program in between. */
function requireObject<T>(answer: T, target: Target): T {
  const metadata = objectOf(answer as Json)["metadata"];
  if (isJsonObject(metadata) && (metadata["name"] ?? target.name) === target.name) return answer;
  const path = pathOf(target.resource, target);
  throw new ConnectionError(
    "EFOREIGN",
    `GET ${path}: the answer is no such object; a proxy may be in between`,
  );
}

/** Lists the metadata of few objects, in one answer without pages. */
export async function listMetadata(
  client: KubeClient,
  target: Pick<Target, "resource" | "namespace">,
  options: CallOptions & Partial<Record<"labelSelector" | "fieldSelector", string | undefined>>,
): Promise<{ items: readonly WatchedObject[]; resourceVersion: string }> {
  const { labelSelector, fieldSelector } = options;
  const path = pathOf(target.resource, { namespace: target.namespace });
  const { kind, items, metadata } = await client.json<RawList>({
    ...options,
    path,
    query: { labelSelector, fieldSelector },
    accept: formatAcceptHeader({ metadataOnly: true }, "List"),
  });
  // Any other object would read as a list without items.
  if (kind?.endsWith("List") !== true && items === undefined)
    throw new ConnectionError("EFOREIGN", `GET ${path}: the answer is no list; a proxy may be in between`);
  return { items: items ?? [], resourceVersion: metadata?.resourceVersion ?? "" };
}

interface RawList {
  readonly kind?: string;
  readonly items?: readonly WatchedObject[] | null;
  readonly metadata?: { readonly resourceVersion?: string };
}

/** Reads one object. Throws DepthError if it is nested too deep to be written back complete. */
export async function get<T = JsonObject>(
  client: KubeClient,
  target: Target,
  options: CallOptions = {},
): Promise<T> {
  const path = pathOf(target.resource, target);
  const object = requireObject(await client.json<T>({ ...options, path }), target);
  if (wasCut(object as object)) throw new DepthError(path);
  return object;
}

/** Creates `body` in the target's collection (or posts to its subresource, where `name` and `subresource` are given). */
export const create = createWriter({ method: "POST" });

/** Replaces an object; a resourceVersion in `body` makes the write conditional (409 if the object has changed). */
export const replace = createWriter({ method: "PUT" });

/** Sends an RFC 7396 merge patch; `metadata.resourceVersion` in `body` makes the write conditional. */
export const mergePatch = createWriter({ method: "PATCH", contentType: "application/merge-patch+json" });

/** Sends an RFC 6902 JSON patch. */
export const jsonPatch = createWriter({ method: "PATCH", contentType: "application/json-patch+json" });

/** Applies an object server-side. */
export function serverSideApply<T = JsonObject>(
  client: KubeClient,
  target: Target,
  options: ApplyOptions,
): Promise<T> {
  const verb = { method: "PATCH", contentType: APPLY_PATCH } as const;
  return write(client, target, { force: false, ...options, ...verb });
}

/** Deletes one object, and resolves to whether it existed; finalizers may keep it. */
export async function remove(
  client: KubeClient,
  target: Target,
  options: RemoveOptions = {},
): Promise<boolean> {
  const { propagationPolicy, preconditions } = options;
  const body = { apiVersion: "v1", kind: "DeleteOptions", propagationPolicy, preconditions };
  const path = pathOf(target.resource, target);
  return client.json({ ...options, method: "DELETE", path, body }).then(() => true, isAbsence);
}

/** For `catch`: false for an answer that the object does not exist; throws every other error. */
function isAbsence(error: unknown): false {
  ignoreNotFound(error);
  return false;
}

type Verb = Required<Pick<ApiRequest, "method">> & Pick<ApiRequest, "contentType">;

/** Creates the function of a verb that writes (`create`, `replace`, the patches). */
function createWriter(verb: Verb) {
  return <T = JsonObject>(client: KubeClient, target: Target, options: WriteOptions): Promise<T> =>
    write(client, target, { ...options, ...verb });
}

/** Sends a write. Names the operator as field manager unless the options name another one. */
function write<T>(client: KubeClient, target: Target, options: ApplyOptions & Verb): Promise<T> {
  const { force, dryRun, fieldValidation, fieldManager = FIELD_MANAGER } = options;
  const query = { fieldManager, fieldValidation, dryRun: dryRun ? "All" : undefined, force };
  return client.json({ ...options, path: pathOf(target.resource, target), query });
}
