/** One request to the API server: method, headers and body, and the retry rules. */

import { ApiError, ConnectionError, isTlsFailure } from "../api-errors.ts";

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
export function objectName(request: ApiRequest, server: string): string {
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

/** All headers except `host`; `own` are those of the credentials. */
export function headersOf(
  request: ApiRequest,
  own: Readonly<Record<string, string>>,
  userAgent: string,
): Record<string, string> {
  const headers: Record<string, string> = {
    accept: request.accept ?? "application/json",
    // Compression of lists costs the server more time than it saves on a fast network.
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

/** The `Accept` header; `metadataOnly` requests PartialObjectMetadata. */
export function acceptOf(
  { metadataOnly }: { readonly metadataOnly?: boolean | undefined },
  suffix: "List" | "",
): string {
  if (metadataOnly !== true) return "application/json";
  return `application/json;as=PartialObjectMetadata${suffix};g=meta.k8s.io;v=v1,application/json`;
}

const MOST_TRIES = 6;
const UNAUTHORIZED = 401;

/** How to repeat a failed try: delay in milliseconds, and whether to read the credentials again. */
interface Retry {
  readonly waitMs: number;
  readonly renew?: boolean;
}

/**
 * Whether a call that failed `tries` times (1 = the first) is sent again; undefined = no. `Retry-After` of
 * overload answers is obeyed; a read is repeated once after a cut connection; any call is repeated once with fresh
 * credentials after 401 or a failed TLS handshake. Writes that may have taken effect are never repeated.
 */
export function retryOf(error: unknown, request: ApiRequest, tries: number): Retry | undefined {
  if (tries >= MOST_TRIES) return undefined;
  if (error instanceof ConnectionError) return afterCut(error, request, tries);
  return error instanceof ApiError ? afterAnswer(error, request, tries) : undefined;
}

function afterCut(error: ConnectionError, request: ApiRequest, tries: number): Retry | undefined {
  // Nothing was sent yet, and the files may contain a newer CA or certificate.
  if (isTlsFailure(error)) return tries === 1 ? { waitMs: 0, renew: true } : undefined;
  return tries === 1 && (request.method ?? "GET") === "GET" && error.code !== "ETIMEDOUT"
    ? { waitMs: 0 }
    : undefined;
}

function afterAnswer(error: ApiError, request: ApiRequest, tries: number): Retry | undefined {
  if (error.status === UNAUTHORIZED) return tries === 1 ? { waitMs: 0, renew: true } : undefined;
  if (error.retryAfterMs === undefined || !mayRepeat(error.status, request)) return undefined;
  return { waitMs: error.retryAfterMs };
}

function mayRepeat(status: number, request: ApiRequest): boolean {
  // The server answers 429 before it changes anything; on an eviction it is the disruption budget's answer, not overload.
  if (status === 429) return !request.path.endsWith("/eviction");
  return status >= 500 && isIdempotent(request);
}

function isIdempotent(request: ApiRequest): boolean {
  const method = request.method ?? "GET";
  return method !== "POST" && !(method === "PATCH" && request.contentType === "application/json-patch+json");
}
