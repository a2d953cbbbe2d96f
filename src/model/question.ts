/** A change that waits until a user confirms it. */

/** The annotation that confirms a change, the value that it must have, and the command that sets it. */
export interface Question {
  readonly annotation: string;
  readonly token: string;
  readonly command: string;
}
