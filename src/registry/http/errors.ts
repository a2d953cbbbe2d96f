/** Errors of calls to a registry. */

import { oneLine } from "../../lib/index.ts";

/** A call that failed. The message names host, request and remedy, and contains no credentials. */
export class RegistryError extends Error {
  /** The HTTP status; undefined without an answer. */
  readonly status: number | undefined;

  constructor(message: string, status?: number, options?: ErrorOptions) {
    super(message, options);
    this.name = "RegistryError";
    this.status = status;
  }
}

/** A call that got no answer at all. */
export class NoAnswerError extends RegistryError {}

/** Codes of connection errors that may pass. */
const TRANSIENT_CODES =
  /^(?:UND_ERR_|ECONNRESET|ECONNREFUSED|EPIPE|ETIMEDOUT|EAI_AGAIN|ENETUNREACH|EHOSTUNREACH)/;

/** Whether a call ended without an answer by something that may pass. */
export function isTransient({ status, cause }: RegistryError): boolean {
  return status === undefined && TRANSIENT_CODES.test(codeOf(cause));
}

function codeOf(error: unknown): string {
  const { code } = (error ?? {}) as { readonly code?: unknown };
  return typeof code === "string" ? code : "";
}

const NO_TLS = /WRONG_VERSION|EPROTO/;
const TLS_REMEDIES = [
  [NO_TLS, "; set --plain-http (plainHttp of a ModuleSource) for a registry without TLS"],
  [/CERT|SELF_SIGNED|SIGNATURE/, "; name the registry's CA with --ca-file (ca of a ModuleSource)"],
] as const;

/** An error of the connection as a RegistryError, with a remedy for problems with TLS. */
export function toRegistryError(error: unknown, name: string): RegistryError {
  if (error instanceof RegistryError) return error;
  const code = codeOf(error);
  const remedy = TLS_REMEDIES.find(([pattern]) => pattern.test(code))?.[1] ?? "";
  // OpenSSL's message names its own source files.
  const what = NO_TLS.test(code) ? "it answers without TLS" : oneLine(error);
  return new NoAnswerError(`${name}: ${what}${remedy}`, undefined, { cause: error });
}
