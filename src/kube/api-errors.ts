/** The errors of calls to the API server. */

import type { JsonObject } from "../model/index.ts";

/** The API server's answer was an error. `message` is the server's own sentence, never a body or a secret. */
export class ApiError extends Error {
  /** HTTP status code. */
  readonly status: number;
  /** Machine-readable reason of the Status object (`NotFound`, `Conflict` …); the status code where it had none. */
  readonly reason: string;
  /** How long the server asks to wait before the next try. */
  readonly retryAfterMs: number | undefined;
  /** `details` of the Status object: name, group, kind, causes. */
  readonly details: JsonObject | undefined;

  constructor(answer: Pick<ApiError, "status" | "reason" | "message"> & Partial<ApiError>) {
    super(answer.message);
    this.name = "ApiError";
    this.status = answer.status;
    this.reason = answer.reason;
    this.retryAfterMs = answer.retryAfterMs;
    this.details = answer.details;
  }
}

/** There was no answer: refused, reset, cut, TLS failure (`code` as Node and undici name it) or `ETIMEDOUT`. */
export class ConnectionError extends Error {
  readonly code: string;

  constructor(code: string, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = "ConnectionError";
    this.code = code;
  }
}

/** The handshake failed: one side does not accept the certificate of the other. */
export function isTlsFailure(error: ConnectionError): boolean {
  return /CERT|TLS|SSL|SELF_SIGNED|VERIFY/.test(error.code);
}

/** The object, its kind or its namespace is not there (404). */
export function isNotFound(error: unknown): error is ApiError {
  return error instanceof ApiError && error.status === 404;
}

/** For `catch`: undefined for what is not there; throws every other error. */
export function ignoreNotFound(error: unknown): undefined {
  if (!isNotFound(error)) throw error;
}

/** A precondition on the resourceVersion failed, or field managers disagree (409, but not "already exists"). */
export function isConflict(error: unknown): error is ApiError {
  return error instanceof ApiError && error.status === 409 && error.reason !== "AlreadyExists";
}

/** An object of that name exists already (409). */
export function isAlreadyExists(error: unknown): error is ApiError {
  return error instanceof ApiError && error.reason === "AlreadyExists";
}

/** The operator may not do this (403). */
export function isForbidden(error: unknown): error is ApiError {
  return error instanceof ApiError && error.status === 403;
}

/** Does `work` anew while its write is overtaken, `most` times in all; every other error, and the last, is thrown. */
export async function retryConflicts<T>(
  most: number,
  work: () => Promise<T>,
  isOvertaken: (error: unknown) => boolean = isConflict,
): Promise<T> {
  for (let tries = 1; ; tries++) {
    try {
      return await work();
    } catch (error) {
      if (!isOvertaken(error) || tries >= most) throw error;
    }
  }
}
