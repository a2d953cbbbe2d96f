/** Errors of calls to a registry, and why an artifact does not count as signed. */

import { attempt, oneLine, plainLine } from "../../base/index.ts";
import { objectsIn } from "../../base/model/index.ts";
import { parseJsonObject } from "./manifest.ts";

/** A request that failed. The message names host, request and remedy, and contains no credentials. */
export class RegistryError extends Error {
  /** The HTTP status; undefined without an answer. */
  readonly status: number | undefined;
  /** Until when the registry asks for a pause, in milliseconds since the epoch. */
  readonly retryAt: number | undefined;

  constructor(
    message: string,
    status?: number,
    options: ErrorOptions & { readonly retryAt?: number | undefined } = {},
  ) {
    super(message, options);
    this.name = "RegistryError";
    this.status = status;
    this.retryAt = options.retryAt;
  }
}

/** A request that got no answer at all. */
export class NoAnswerError extends RegistryError {}

/** Codes of connection errors after which the same request may succeed. */
const TRANSIENT_CODES =
  /^(?:UND_ERR_|ECONNRESET|ECONNREFUSED|EPIPE|ETIMEDOUT|EAI_AGAIN|ENETUNREACH|EHOSTUNREACH)/;

/** Whether a request got no answer because of a connection error that a retry may avoid. */
export function isTransientError({ status, cause }: RegistryError): boolean {
  return status === undefined && TRANSIENT_CODES.test(getErrorCode(cause));
}

/** The `code` of an error of Node or undici, such as ECONNRESET; empty if it has none. */
export function getErrorCode(error: unknown): string {
  const { code } = (error ?? {}) as { readonly code?: unknown };
  return typeof code === "string" ? code : "";
}

/** Codes with which OpenSSL reports that the server speaks plain HTTP. */
const NO_TLS_CODES = /WRONG_VERSION|EPROTO/;
/** Remedies for problems with TLS, by code of the error. */
const TLS_REMEDIES = [
  [NO_TLS_CODES, "; set --plain-http (plainHttp of a ModuleSource) for a registry without TLS"],
  [/CERT|SELF_SIGNED|SIGNATURE/, "; name the registry's CA with --ca-file (ca of a ModuleSource)"],
] as const;

/** Turns a connection error into a RegistryError that names the request and, for problems with TLS, a remedy. */
export function toRegistryError(error: unknown, requestName: string): RegistryError {
  if (error instanceof RegistryError) return error;
  const code = getErrorCode(error);
  const remedy = TLS_REMEDIES.find(([pattern]) => pattern.test(code))?.[1] ?? "";
  // OpenSSL's message names its own source files.
  const reason = NO_TLS_CODES.test(code) ? "it answers without TLS" : oneLine(error);
  return new NoAnswerError(`${requestName}: ${reason}${remedy}`, undefined, { cause: error });
}

/** Ends of error messages, by HTTP status. */
const STATUS_REMEDIES: Readonly<Record<number, string>> = {
  401: "log in with `helm registry login HOST`, or check the credentials",
  403: "the credentials do not allow it",
  404: "not found, or not allowed to be seen",
  413: "the registry accepts no content of this size",
  429: "the registry limits requests: try again later",
};

/** Describes a status that is no success: with the registry's own message in the body, if there is one, and a remedy. */
export function describeStatus(status: number, body: Buffer): string {
  const [first = {}] = attempt(() => objectsIn(parseJsonObject(body)["errors"])) ?? [];
  const words = [first["code"], first["message"]].filter((each) => typeof each === "string");
  const reason = words.length === 0 ? "" : ` ${plainLine(words.join(": "), 200)}`;
  const remedy = STATUS_REMEDIES[status];
  return `${status}${reason}${remedy === undefined ? "" : `; ${remedy}`}`;
}

/** The digest has no valid signature: a retry does not help as long as digest and keys are the same. */
export class NotVerifiedError extends Error {
  override readonly name = "NotVerifiedError";
}

/** The signatures could not be read: a retry may help. */
export class CannotVerifyError extends Error {
  override readonly name = "CannotVerifyError";
}
