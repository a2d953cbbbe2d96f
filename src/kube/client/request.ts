/** Requests to the API server: the verbs, what a request is made of, and whether it is sent again. */

import { DepthError, isCut } from "../../lib/index.ts";
import type { JsonObject } from "../../model/index.ts";
import { ApiError, ConnectionError, isTlsFailure } from "../api-errors.ts";
import { pathOf, type ObjectPath, type ResourceType } from "../resources.ts";
import type { WatchedObject } from "../watch/watch-spec.ts";
import type { KubeClient } from "./client.ts";

/** Field manager of the operator's own writes. */
const FIELD_MANAGER = "addon-operator";

/** Which object. Errors of all verbs: ApiError, ConnectionError. */
export interface Target extends ObjectPath {
  readonly resource: ResourceType;
}

/** How a call is made. */
interface CallOptions {
  readonly signal?: AbortSignal | undefined;
  readonly timeoutMs?: number | undefined;
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
interface RemoveOptions extends CallOptions {
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

/** How something is written. */
interface WriteOptions extends CallOptions {
  readonly body: unknown;
}

/** Creates `body` in the target's collection (or posts to its subresource, where `name` and `subresource` are given). */
export const create = writer({ method: "POST" });

/** Replaces an object; a resourceVersion in `body` makes it conditional (409 when it moved). */
export const replace = writer({ method: "PUT" });

/** RFC 7396 merge patch; `metadata.resourceVersion` in `body` makes it conditional. */
export const mergePatch = writer({ method: "PATCH", contentType: "application/merge-patch+json" });

/** RFC 6902 JSON patch. */
export const jsonPatch = writer({ method: "PATCH", contentType: "application/json-patch+json" });

/** Server-side apply; with `force` fields of other managers are taken over, without it they are a conflict. */
export const applyPatch: <T = JsonObject>(
  client: KubeClient,
  target: Target,
  call: WriteOptions & Force,
) => Promise<T> = writer({
  method: "PATCH",
  contentType: "application/apply-patch+yaml",
  force: false,
});

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

interface Force {
  /** Only server-side apply knows it: with it other patches are refused. */
  readonly force?: boolean;
}

type Write = <T = JsonObject>(client: KubeClient, target: Target, call: WriteOptions) => Promise<T>;

function writer(how: Required<Pick<ApiRequest, "method">> & Pick<ApiRequest, "contentType"> & Force): Write {
  return (client, target, call) => {
    const { method, contentType, force, ...asked }: typeof how & WriteOptions = { ...how, ...call };
    const { body, dryRun, fieldValidation, fieldManager = FIELD_MANAGER } = asked;
    const path = pathOf(target.resource, target);
    const query = { fieldManager, fieldValidation, dryRun: dryRun ? "All" : undefined, force };
    return client.json({ ...common(asked), method, path, body, contentType, query });
  };
}

function common({ signal, timeoutMs }: CallOptions): Pick<ApiRequest, "signal" | "timeoutMs"> {
  return { signal, timeoutMs };
}

/** HTTP methods the API server knows. */
export type Method = "GET" | "POST" | "PUT" | "PATCH" | "DELETE";

/** One request. `path` starts with `/api` or `/apis`; `query` values that are undefined are left out. */
export interface ApiRequest {
  readonly method?: Method;
  readonly path: string;
  readonly query?: Readonly<Record<string, string | number | boolean | undefined>>;
  /** Sent as JSON, or as it is when it is a string. */
  readonly body?: unknown;
  readonly contentType?: string | undefined;
  readonly accept?: string;
  readonly signal?: AbortSignal | undefined;
  /** Time for the whole call, retries included; for `stream` until the headers are there. Default 30 s. */
  readonly timeoutMs?: number | undefined;
}

/** Whether a request may change what the server stores; an access review is a POST and changes nothing. */
export function isWrite(method: string, path: string): boolean {
  return method !== "GET" && !path.includes("/apis/authorization.k8s.io/");
}

/** A request for messages: `GET https://host/path`, without its query. */
export function nameOf(request: ApiRequest, server: string): string {
  return `${request.method ?? "GET"} ${server}${request.path}`;
}

/** The query with its question mark, or nothing. */
export function queryOf(request: ApiRequest): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(request.query ?? {})) {
    if (value !== undefined) query.set(name, String(value));
  }
  return query.size === 0 ? "" : `?${query.toString()}`;
}

/** All headers but the host; `own`: those of the credentials. */
export function headersOf(
  request: ApiRequest,
  own: Readonly<Record<string, string>>,
  userAgent: string,
): Record<string, string> {
  const headers: Record<string, string> = {
    accept: request.accept ?? "application/json",
    // Otherwise the server would spend time on compressing lists for a reader close by.
    "accept-encoding": "identity",
    "user-agent": userAgent,
    ...own,
  };
  if (request.body !== undefined) headers["content-type"] = request.contentType ?? "application/json";
  return headers;
}

/** The body as it is sent. */
export function bodyOf(request: ApiRequest): string | null {
  if (request.body === undefined) return null;
  return typeof request.body === "string" ? request.body : JSON.stringify(request.body);
}

/** The `Accept` header: with `metadataOnly` the server leaves out the rest, where it can. */
export function acceptOf(
  { metadataOnly }: { readonly metadataOnly?: boolean | undefined },
  suffix: "List" | "",
): string {
  if (metadataOnly !== true) return "application/json";
  return `application/json;as=PartialObjectMetadata${suffix};g=meta.k8s.io;v=v1,application/json`;
}

const MOST_TRIES = 6;
const UNAUTHORIZED = 401;

/** What to do about a failed try: wait this long and send it again, with credentials read anew or not. */
interface Retry {
  readonly waitMs: number;
  readonly renew?: boolean;
}

/**
 * Whether a call that failed `tries` times (1 = the first) is sent again; undefined = no. Overload answers that say
 * when to come back are obeyed; after a cut connection a read is tried once more; after 401 or a failed handshake,
 * once more with fresh credentials. Writes that may have taken effect are never repeated.
 */
export function retryOf(error: unknown, request: ApiRequest, tries: number): Retry | undefined {
  if (tries >= MOST_TRIES) return undefined;
  if (error instanceof ConnectionError) return afterCut(error, request, tries);
  return error instanceof ApiError ? afterAnswer(error, request, tries) : undefined;
}

function afterCut(error: ConnectionError, request: ApiRequest, tries: number): Retry | undefined {
  // Nothing was sent yet; the files may hold a newer CA or certificate than the one in use.
  if (isTlsFailure(error)) return tries === 1 ? { waitMs: 0, renew: true } : undefined;
  return tries === 1 && isRead(request) && error.code !== "ETIMEDOUT" ? { waitMs: 0 } : undefined;
}

function afterAnswer(error: ApiError, request: ApiRequest, tries: number): Retry | undefined {
  if (error.status === UNAUTHORIZED) return tries === 1 ? { waitMs: 0, renew: true } : undefined;
  if (error.retryAfterMs === undefined || !mayRepeat(error.status, request)) return undefined;
  return { waitMs: error.retryAfterMs };
}

function mayRepeat(status: number, request: ApiRequest): boolean {
  // 429 is said before anything is done; on an eviction it is the disruption budget's answer, not overload.
  if (status === 429) return !request.path.endsWith("/eviction");
  return status >= 500 && isIdempotent(request);
}

function isRead(request: ApiRequest): boolean {
  return (request.method ?? "GET") === "GET";
}

function isIdempotent(request: ApiRequest): boolean {
  const method = request.method ?? "GET";
  return method !== "POST" && !(method === "PATCH" && request.contentType === "application/json-patch+json");
}
