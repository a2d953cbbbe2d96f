/** One request to the API server: method, headers and body, and the retry rules. */

import { toYamlSafeJson } from "../../base/index.ts";
import { ApiError, ConnectionError, OversizeError, isNotFound, isTlsFailure } from "../api-errors.ts";

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

/** Content type of a server-side apply, whose body the API server decodes as YAML. */
export const APPLY_PATCH = "application/apply-patch+yaml";

/** Whether a request may change objects of the server. An access review is a POST and changes nothing. */
export function isWrite(method: string, path: string): boolean {
  return method !== "GET" && !path.includes("/apis/authorization.k8s.io/");
}

/** Describes a request for messages: `GET https://host/path`, without its query. */
export function describeRequest(request: ApiRequest, server: string): string {
  return `${request.method ?? "GET"} ${server}${request.path}`;
}

/** Formats the query with its question mark; empty without parameters. */
export function formatQuery(request: ApiRequest): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(request.query ?? {})) {
    if (value !== undefined) query.set(name, String(value));
  }
  return query.size === 0 ? "" : `?${query.toString()}`;
}

/** Builds all headers of a request except `host`. */
export function buildHeaders(
  request: ApiRequest,
  credentialHeaders: Readonly<Record<string, string>>,
  userAgent: string,
): Record<string, string> {
  const headers: Record<string, string> = {
    accept: request.accept ?? "application/json",
    // Compression of lists costs the server more time than it saves on a fast network.
    "accept-encoding": "identity",
    "user-agent": userAgent,
    ...credentialHeaders,
  };
  if (request.body !== undefined) headers["content-type"] = request.contentType ?? "application/json";
  return headers;
}

/** Serializes the body as it is sent; null without a body, as undici expects. */
export function serializeBody(request: ApiRequest): string | null {
  if (request.body === undefined) return null;
  if (typeof request.body === "string") return request.body;
  return request.contentType === APPLY_PATCH ? toYamlSafeJson(request.body) : JSON.stringify(request.body);
}

/** Formats the `Accept` header for objects or (`List`) lists; `metadataOnly` requests PartialObjectMetadata. */
export function formatAcceptHeader(
  { metadataOnly }: { readonly metadataOnly?: boolean | undefined },
  suffix: "List" | "",
): string {
  if (metadataOnly !== true) return "application/json";
  return `application/json;as=PartialObjectMetadata${suffix};g=meta.k8s.io;v=v1,application/json`;
}

const MAX_TRIES = 6;
const UNAUTHORIZED = 401;

/** How to repeat a failed try: delay in milliseconds, and whether to read the credentials again. */
interface Retry {
  readonly waitMs: number;
  readonly renewCredentials?: boolean;
}

/**
 * Decides whether a call that failed `tries` times (1 = the first) is sent again; undefined = no. Obeys `Retry-After` of
 * overload answers; a read is repeated once after a cut connection; any call is repeated once with fresh
 * credentials after 401 or a failed TLS handshake, and once after the answer that its object does not exist: a false one would end
 * what nobody does later, such as a deletion. Writes that may have taken effect are never repeated.
 */
export function decideRetry(error: unknown, request: ApiRequest, tries: number): Retry | undefined {
  if (tries >= MAX_TRIES) return undefined;
  if (isNotFound(error)) return tries === 1 ? { waitMs: 0 } : undefined;
  if (error instanceof ConnectionError) return decideConnectionRetry(error, request, tries);
  return error instanceof ApiError ? decideAnswerRetry(error, request, tries) : undefined;
}

/** Decides whether to repeat a call whose connection failed `tries` times. */
function decideConnectionRetry(error: ConnectionError, request: ApiRequest, tries: number) {
  if (tries > 1 || error instanceof OversizeError) return undefined;
  // Nothing was sent yet, and the files may contain a newer CA or certificate.
  if (isTlsFailure(error)) return { waitMs: 0, renewCredentials: true };
  const isRead = (request.method ?? "GET") === "GET";
  // A call that timed out has used up its time.
  return isRead && error.code !== "ETIMEDOUT" ? { waitMs: 0 } : undefined;
}

/** Decides whether to repeat a call that the server answered with an error. */
function decideAnswerRetry(error: ApiError, request: ApiRequest, tries: number): Retry | undefined {
  if (error.status === UNAUTHORIZED) return tries === 1 ? { waitMs: 0, renewCredentials: true } : undefined;
  if (error.retryAfterMs === undefined || !canRepeat(error.status, request)) return undefined;
  return { waitMs: error.retryAfterMs };
}

/** Whether a call with this answer can be sent again without taking effect twice. */
function canRepeat(status: number, request: ApiRequest): boolean {
  // The server answers 429 before it changes anything; on an eviction it is the disruption budget's answer, not overload.
  if (status === 429) return !request.path.endsWith("/eviction");
  return status >= 500 && isIdempotent(request);
}

/** Whether sending the request twice has the effect of sending it once. */
function isIdempotent(request: ApiRequest): boolean {
  const method = request.method ?? "GET";
  // A JSON patch may append to a list.
  return method !== "POST" && !(method === "PATCH" && request.contentType === "application/json-patch+json");
}
