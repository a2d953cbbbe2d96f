/** Why an artifact does not count as signed. */

/** The digest has no valid signature: a retry does not help as long as digest and keys are the same. */
export class NotVerifiedError extends Error {
  override readonly name = "NotVerifiedError";
}

/** The signatures could not be read: a retry may help. */
export class CannotVerifyError extends Error {
  override readonly name = "CannotVerifyError";
}
