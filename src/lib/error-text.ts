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

/** The same of what others say, without the characters that a terminal obeys. */
export function plainLine(text: string, limit = 500): string {
  return oneLine(text.slice(0, 4 * limit).replaceAll(/[\p{Cc}\p{Cf}]+/gu, " "), limit);
}

/** What a terminal obeys, and what turns the direction of text. */
const OBEYED = /[\p{Cc}\u061C\u200E\u200F\u202A-\u202E\u2066-\u2069]/gu;

/** A text of others as it may be printed: what a terminal would obey is shown instead, but for line ends and tabs. */
export function visible(text: string): string {
  return text.replaceAll(OBEYED, (each) =>
    each === "\n" || each === "\t" ? each : `\\u${(each.codePointAt(0) ?? 0).toString(16).padStart(4, "0")}`,
  );
}

/** One line of anything thrown; of a long message the beginning and the end: API servers print a value that they refuse before they say why. */
export function bothEnds(thrown: unknown, limit = 500): string {
  const text = oneLine(thrown, Infinity);
  const half = Math.floor((limit - 3) / 2);
  return text.length > limit ? `${text.slice(0, half)} … ${text.slice(-half)}` : text;
}
