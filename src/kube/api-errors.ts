/** Errors of calls to the API server, built from its answers without secrets. */

import { attempt, hideQuotedValues, parseJson } from "../base/index.ts";
import { isJsonObject, type JsonObject } from "../base/model/index.ts";

const MAX_RETRY_AFTER_MS = 30_000;

/** The API server's answer was an error. `message` is the server's own sentence, never a body or a secret. */
export class ApiError extends Error {
  readonly status: number;
  /** Machine-readable reason of the Status object (`NotFound`, `Conflict` …); the status code where it had none. */
  readonly reason: string;
  /** `Retry-After` in milliseconds, capped at 30 s so that one answer cannot block the operator for long. */
  readonly retryAfterMs: number | undefined;
  /** `details` of the Status object: name, group, kind, causes. */
  readonly details: JsonObject | undefined;

  constructor(answer: Pick<ApiError, "status" | "reason" | "message"> & Partial<ApiError>) {
    super(answer.message);
    this.name = "ApiError";
    this.status = answer.status;
    this.reason = answer.reason;
    const { retryAfterMs } = answer;
    this.retryAfterMs = retryAfterMs === undefined ? undefined : Math.min(retryAfterMs, MAX_RETRY_AFTER_MS);
    this.details = answer.details;
  }
}

/** The request got no answer: connection refused, reset or cut, TLS failure (`code` as Node and undici name it) or `ETIMEDOUT`. */
export class ConnectionError extends Error {
  readonly code: string;

  constructor(code: string, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = "ConnectionError";
    this.code = code;
  }
}

/**
 * The API server, or a server that it passes requests to, sent more than the operator keeps in memory. It sends that again at once, so the request
 * is repeated seldom.
 */
export class OversizeError extends ConnectionError {
  constructor(message: string) {
    super("ETOOLARGE", message);
    this.name = "OversizeError";
  }
}

/** The handshake failed: one side does not accept the certificate of the other. */
export function isTlsFailure(error: ConnectionError): boolean {
  return /CERT|TLS|SSL|SELF_SIGNED|VERIFY/.test(error.code);
}

/**
 * The API server says that the object, its kind or its namespace does not exist. A 404 of another program, such as a proxy, says nothing about
 * objects: unknown is not absent.
 */
export function isNotFound(error: unknown): error is ApiError {
  return error instanceof ApiError && error.status === 404 && error.reason === "NotFound";
}

/** For `catch`: returns undefined for a 404 and throws every other error. */
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

/**
 * Optimistic concurrency: calls `work`, which reads and writes an object, up to `maxTries` times while it fails because another writer was
 * faster (`isLostRace`). Throws the last conflict and every other error.
 */
export async function retryConflicts<T>(
  maxTries: number,
  work: () => Promise<T>,
  isLostRace: (error: unknown) => boolean = isConflict,
): Promise<T> {
  for (let tries = 1; ; tries++) {
    try {
      return await work();
    } catch (error) {
      if (!isLostRace(error) || tries >= maxTries) throw error;
    }
  }
}

interface FailedAnswer {
  readonly status: number;
  readonly retryAfter: string | undefined;
  readonly text: string;
  /** `GET https://host/path`, for answers without a Status object. */
  readonly requestName: string;
  /** Path of the request. */
  readonly path: string;
  /** The request was for Secrets: the error omits values that the server quotes. */
  readonly isSecret: boolean;
}

/** Builds the error for an answer of status 400 and above. An error about Secrets (`isSecret`) may quote their values, which are hidden. */
export function toApiError(answer: FailedAnswer): ApiError {
  const { text, status, requestName, retryAfter, isSecret } = answer;
  const reported = readStatus(parseStatus(text), status);
  const message = reported.message ?? `${requestName}: the server answered ${status}`;
  const retryAfterMs = parseRetryAfterMs(retryAfter) ?? reported.retryAfterMs;
  return new ApiError({
    ...reported,
    ...(isUnknownGroup(answer) && { reason: "NotFound" }),
    message: isSecret ? hideQuotedValues(message) : message,
    retryAfterMs,
    details: isSecret ? undefined : reported.details,
  });
}

/** Whether the API server says that it does not serve an API group: then its answer is no Status, but this text. */
function isUnknownGroup({ status, text, path }: FailedAnswer): boolean {
  return status === 404 && path.startsWith("/apis/") && text.trim() === "404 page not found";
}

/** Builds the error for a Status object that arrives in place of a list or in a watch frame. */
export function statusToApiError(status: JsonObject): ApiError {
  const reported = readStatus(status, Number(status["code"] ?? 500));
  const message = reported.message ?? `the server answered ${reported.status}`;
  return new ApiError({ ...reported, message });
}

/** Reads the fields of a Status object; `status` is the HTTP status. */
function readStatus(statusObject: JsonObject, status: number) {
  const details = isJsonObject(statusObject["details"]) ? statusObject["details"] : undefined;
  const retryAfterMs = parseRetryAfterMs(details?.["retryAfterSeconds"]);
  const reason = toNonEmptyString(statusObject["reason"]) ?? String(status);
  return { status, reason, message: toNonEmptyString(statusObject["message"]), retryAfterMs, details };
}

/** Builds the error for a request that got no answer. `requestName` is `GET https://host/path`. */
export function toConnectionError(thrown: unknown, requestName: string): ConnectionError {
  const error = thrown instanceof Error ? thrown : new Error(String(thrown));
  const code = findErrorCode(error) ?? "ECONNECTION";
  return new ConnectionError(code, `${requestName}: ${error.message || code}`, { cause: error });
}

/** Finds the code of an error (`ECONNREFUSED`) on the error or on the causes behind it. */
function findErrorCode(error: Error): string | undefined {
  const { code } = error as { code?: unknown };
  if (typeof code === "string") return code;
  return error.cause instanceof Error ? findErrorCode(error.cause) : undefined;
}

/** Parses a body as a Status object; empty if the body is anything else, as from a proxy. */
function parseStatus(body: string): JsonObject {
  const value = attempt(() => parseJson(body));
  return isJsonObject(value) && value["kind"] === "Status" ? value : {};
}

/** Converts `Retry-After` in seconds to ms; undefined without one. The API server does not use the date form of the header. */
function parseRetryAfterMs(seconds: unknown): number | undefined {
  const ms = seconds === undefined || seconds === null ? Number.NaN : Number(seconds) * 1000;
  return Number.isFinite(ms) ? Math.max(0, ms) : undefined;
}

function toNonEmptyString(value: unknown): string | undefined {
  return typeof value === "string" && value !== "" ? value : undefined;
}
