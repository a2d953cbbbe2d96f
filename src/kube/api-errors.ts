/** The errors of calls to the API server, and how they are made of its answers, without secrets. */

import { parseJson } from "../lib/index.ts";
import { isJsonObject, type JsonObject } from "../model/index.ts";

const MOST_RETRY_AFTER_MS = 30_000;

/** The API server's answer was an error. `message` is the server's own sentence, never a body or a secret. */
export class ApiError extends Error {
  /** HTTP status code. */
  readonly status: number;
  /** Machine-readable reason of the Status object (`NotFound`, `Conflict` …); the status code where it had none. */
  readonly reason: string;
  /** How long the server asks to wait before the next try, in milliseconds; at most 30 s, so that one answer stops nothing for long. */
  readonly retryAfterMs: number | undefined;
  /** `details` of the Status object: name, group, kind, causes. */
  readonly details: JsonObject | undefined;

  constructor(answer: Pick<ApiError, "status" | "reason" | "message"> & Partial<ApiError>) {
    super(answer.message);
    this.name = "ApiError";
    this.status = answer.status;
    this.reason = answer.reason;
    const { retryAfterMs } = answer;
    this.retryAfterMs = retryAfterMs === undefined ? undefined : Math.min(retryAfterMs, MOST_RETRY_AFTER_MS);
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

/** An answer with an error status. */
interface FailedAnswer {
  readonly status: number;
  readonly retryAfter: string | undefined;
  readonly text: string;
  /** `GET https://host/path`, for answers that are no Status object. */
  readonly what: string;
  /** The request concerned Secrets: values the server quotes are left out. */
  readonly secret: boolean;
}

/** The error for an answer of status 400 and above. */
export function answerError({ text, status, what, retryAfter, secret }: FailedAnswer): ApiError {
  const said = readStatus(parseStatus(text), status);
  const message = said.message ?? `${what}: the server answered ${status}`;
  const retryAfterMs = waitOf(retryAfter) ?? said.retryAfterMs;
  return new ApiError({
    ...said,
    message: secret ? hideQuoted(message) : message,
    retryAfterMs,
    details: secret ? undefined : said.details,
  });
}

/** The error that a Status object describes in the place of a list, or in a frame of a watch. */
export function statusError(status: JsonObject): ApiError {
  const said = readStatus(status, Number(status["code"] ?? 500));
  return new ApiError({ ...said, message: said.message ?? `the server answered ${said.status}` });
}

function readStatus(said: JsonObject, status: number) {
  const details = isJsonObject(said["details"]) ? said["details"] : undefined;
  const retryAfterMs = waitOf(details?.["retryAfterSeconds"]);
  const reason = textOf(said["reason"]) ?? String(status);
  return { status, reason, message: textOf(said["message"]), retryAfterMs, details };
}

/** The error for a request that got no answer. `what` is `GET https://host/path`. */
export function connectionError(thrown: unknown, what: string): ConnectionError {
  const error = thrown instanceof Error ? thrown : new Error(String(thrown));
  const code = codeOf(error) ?? "ECONNECTION";
  return new ConnectionError(code, `${what}: ${error.message || code}`, { cause: error });
}

function codeOf(error: Error): string | undefined {
  const { code } = error as { code?: unknown };
  if (typeof code === "string") return code;
  return error.cause instanceof Error ? codeOf(error.cause) : undefined;
}

function parseStatus(body: string): JsonObject {
  try {
    const value = parseJson(body);
    return isJsonObject(value) && value["kind"] === "Status" ? value : {};
  } catch {
    return {};
  }
}

// The server sends seconds; it does not use the date form of the header.
function waitOf(seconds: unknown): number | undefined {
  const ms = Number(seconds ?? Number.NaN) * 1000;
  return Number.isFinite(ms) ? Math.max(0, ms) : undefined;
}

function textOf(value: unknown): string | undefined {
  return typeof value === "string" && value !== "" ? value : undefined;
}

// Names are quoted too (`secrets "tls" not found`): only what follows a colon is a value.
function hideQuoted(message: string): string {
  let shown = "";
  let from = 0;
  for (let at = message.indexOf(":"); at >= 0; at = message.indexOf(":", at)) {
    const begin = pastSpaces(message, at + 1);
    const end = endOfQuoted(message, begin);
    at = begin;
    if (end === undefined) continue;
    shown += `${message.slice(from, begin).trimEnd()} (hidden)`;
    from = at = end;
  }
  return shown + message.slice(from);
}

function pastSpaces(text: string, from: number): number {
  let at = from;
  while (text[at] === " ") at++;
  return at;
}

/**
 * Where the value that begins at `from` ends: a quoted string at its quote, others as far as possible; undefined =
 * there is none.
 */
function endOfQuoted(text: string, from: number): number | undefined {
  const closing = CLOSING[text[from] ?? ""];
  if (closing === undefined) return undefined;
  const end = closing === '"' ? closingQuote(text, from) : text.lastIndexOf(closing);
  // A value that is cut off goes on to the end.
  return end <= from ? text.length : end + 1;
}

const CLOSING: Readonly<Record<string, string>> = { '"': '"', "{": "}", "[": "]" };

function closingQuote(text: string, from: number): number {
  for (let at = from + 1; at < text.length; at++) {
    if (text[at] === '"') return at;
    if (text[at] === "\\") at++;
  }
  return -1;
}
