/** Turns failed answers of the API server into errors without secrets. */

import { parseJson } from "../../lib/index.ts";
import type { JsonObject } from "../../model/index.ts";
import { isJsonObject } from "../../model/index.ts";
import { ApiError, ConnectionError } from "../api-errors.ts";

/** An answer with an error status. */
export interface FailedAnswer {
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
