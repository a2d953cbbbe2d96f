/** A request to the API server: its parts, and whether it is sent again when it has failed. */

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
