/** Errors of calls to a registry. */

import { oneLine } from "../../lib/index.ts";

/** A request that failed. The message names host, request and remedy, and contains no credentials. */
export class RegistryError extends Error {
  /** The HTTP status; undefined without an answer. */
  readonly status: number | undefined;

  constructor(message: string, status?: number, options?: ErrorOptions) {
    super(message, options);
    this.name = "RegistryError";
    this.status = status;
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
function getErrorCode(error: unknown): string {
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
