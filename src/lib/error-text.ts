/** Turns anything thrown into an Error or a message. */

/** Converts anything thrown to an Error. */
export function toError(thrown: unknown): Error {
  return thrown instanceof Error ? thrown : new Error(String(thrown));
}

/** The message of anything thrown, in one line of at most `limit` characters. */
export function oneLine(thrown: unknown, limit = 500): string {
  const text = (thrown instanceof Error ? thrown.message : String(thrown)).replaceAll(/\s+/g, " ").trim();
  return text.length > limit ? `${text.slice(0, limit - 1)}…` : text;
}
