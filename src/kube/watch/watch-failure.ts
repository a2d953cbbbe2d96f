/** What to do after a failed list or watch. */

import { ApiError, ConnectionError } from "../api-errors.ts";

/** What to do after a failed list or watch. */
export type Remedy =
  /** Too old a version: list again. */
  | { readonly kind: "expired" }
  /** The server said when to come back. */
  | { readonly kind: "wait"; readonly ms: number }
  /** It may work again any moment. */
  | { readonly kind: "soon" }
  /** Somebody has to change something (rights, a missing kind, a wrong selector): try seldom. */
  | { readonly kind: "seldom" };

/** Sorts errors by status; connection errors and whatever else is thrown are tried again soon. */
export function remedyFor(error: unknown): Remedy {
  if (!(error instanceof ApiError)) return { kind: "soon" };
  if (error.status === 410 || error.reason === "Expired" || error.reason === "Gone")
    return { kind: "expired" };
  if (error.retryAfterMs !== undefined && error.retryAfterMs > 0)
    return { kind: "wait", ms: error.retryAfterMs };
  if ([400, 403, 404, 405, 406, 415, 422].includes(error.status)) return { kind: "seldom" };
  return { kind: "soon" };
}

/** Classes of failures of a watch, as the Go operator's metric names them. */
export type WatchErrorType = "expired" | "eof" | "unexpected-eof" | "fail";

/** `eof`: the server ended the watch at once; `unexpected-eof`: the connection broke; `fail`: an error was answered. */
export function watchErrorType(error: unknown): WatchErrorType {
  if (remedyFor(error).kind === "expired") return "expired";
  if (!(error instanceof ConnectionError)) return "fail";
  return error.code === "ECLOSED" ? "eof" : "unexpected-eof";
}

const SOON = { firstMs: 200, mostMs: 10_000 };
const SELDOM = { firstMs: 1000, mostMs: 30_000 };
const LONGEST_WAIT_MS = 60_000;

/**
 * Delay before the next try after `failures` failures in a row (1 = the first), with jitter down to half of it:
 * 0.2 to 10 s, 1 to 30 s where a person is needed, at least what the server asked for, none for a first 410.
 */
export function retryDelayFor(remedy: Remedy, failures: number, random: number): number {
  if (remedy.kind === "expired" && failures <= 1) return 0;
  const { firstMs, mostMs } = remedy.kind === "seldom" ? SELDOM : SOON;
  const backoff = Math.min(firstMs * 2 ** Math.min(failures - 1, 20), mostMs) * (1 - random / 2);
  return remedy.kind === "wait" ? Math.min(remedy.ms, LONGEST_WAIT_MS) + random * 200 : backoff;
}
