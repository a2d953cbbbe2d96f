/** Errors and untrusted text as lines of text. */

/** Converts anything thrown to an Error. */
export function toError(thrown: unknown): Error {
  return thrown instanceof Error ? thrown : new Error(String(thrown));
}

/** The result of `read`; undefined if it throws. */
export function attempt<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch {
    return undefined;
  }
}

/** At most `most` names in one text: `a, b and 3 more`. */
export function nameSome(names: readonly string[], most: number): string {
  const more = names.length > most ? ` and ${names.length - most} more` : "";
  return names.slice(0, most).join(", ") + more;
}

/** The message of anything thrown, in one line of at most `limit` characters. */
export function oneLine(thrown: unknown, limit = 500): string {
  const text = (thrown instanceof Error ? thrown.message : String(thrown)).replaceAll(/\s+/g, " ").trim();
  return text.length > limit ? `${text.slice(0, limit - 1)}…` : text;
}

/** As `oneLine` for untrusted text, without terminal control characters. */
export function plainLine(text: string, limit = 500): string {
  return oneLine(text.slice(0, 4 * limit).replaceAll(/[\p{Cc}\p{Cf}]+/gu, " "), limit);
}

/** Control characters, and characters that change the text direction. */
const CONTROL_CHARACTERS = /[\p{Cc}\u061C\u200E\u200F\u202A-\u202E\u2066-\u2069]/gu;

/** Whether a text has characters that a terminal obeys or that change the text direction. */
export function hasControlCharacter(text: string): boolean {
  return text.search(CONTROL_CHARACTERS) !== -1;
}

/** Untrusted text for a terminal: escapes control characters except line ends and tabs. */
export function visible(text: string): string {
  return text.replaceAll(CONTROL_CHARACTERS, (each) =>
    each === "\n" || each === "\t" ? each : `\\u${(each.codePointAt(0) ?? 0).toString(16).padStart(4, "0")}`,
  );
}

/** One line of anything thrown, with the beginning and the end of a long message: API servers print a refused value before the reason. */
export function bothEnds(thrown: unknown, limit = 500): string {
  const text = oneLine(thrown, Infinity);
  const half = Math.floor((limit - 3) / 2);
  return text.length > limit ? `${text.slice(0, half)} … ${text.slice(-half)}` : text;
}
