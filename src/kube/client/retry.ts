/** Decides whether a failed call is sent again. */

import { ApiError, ConnectionError, isTlsFailure } from "../api-errors.ts";
import type { ApiRequest } from "./request.ts";

const MOST_TRIES = 6;
const UNAUTHORIZED = 401;

/** What to do about a failed try: wait this long and send it again, with credentials read anew or not. */
export interface Retry {
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
