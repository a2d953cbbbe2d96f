/** Errors of calls to a registry. */

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
