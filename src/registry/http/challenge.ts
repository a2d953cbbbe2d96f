/** Reads `WWW-Authenticate` headers (RFC 9110, section 11.6.1). */

/** What a registry demands before it serves a request; the parameters have lower-case names. */
export interface Challenge {
  /** In lower case: `basic`, `bearer`. */
  readonly scheme: string;
  readonly parameters: ReadonlyMap<string, string>;
}

/**
 * A name, then `=` and a quoted string or an unquoted value. Takes linear time, because no two parts can match the
 * same text.
 */
const PARAMETER = /^([\w!#$%&'*+.^`|~-]+)[ \t]*=[ \t]*(?:"((?:[^"\\]|\\.)*)"|([\w!#$%&'*+.^`|~/-]*))/;
/** The name of a scheme such as `Bearer`, before its parameters, a comma or the end. */
const SCHEME = /^([\w!#$%&'*+.^`|~-]+)(?:[ \t]+|$|(?=,))/;
const SEPARATORS = /^[ \t,]+/;
/** Characters of a header that are read; a registry is not trusted to send a short one. */
const MAX_HEADER_LENGTH = 16_384;

/**
 * The first Bearer or Basic challenge of all `WWW-Authenticate` headers; other schemes are not supported and are
 * skipped.
 */
export function findChallenge(headers: readonly string[]): Challenge | undefined {
  return headers.flatMap(parseChallenges).find(({ scheme }) => scheme === "bearer" || scheme === "basic");
}

/**
 * Parses all challenges of one header. A comma separates challenges and also their parameters, so a word followed by
 * `=` is a parameter of the last challenge, and any other word begins a new challenge.
 */
function parseChallenges(header: string): Challenge[] {
  const challenges: ChallengeDraft[] = [];
  let rest = header.slice(0, MAX_HEADER_LENGTH).replace(SEPARATORS, "");
  while (rest !== "") rest = rest.slice(parseNextPart(rest, challenges)).replace(SEPARATORS, "");
  return challenges;
}

/** A challenge whose parameters are still being read. */
interface ChallengeDraft {
  readonly scheme: string;
  readonly parameters: Map<string, string>;
}

/**
 * Parses the parameter or the scheme at the beginning of `text` and adds it to `challenges`; skips anything else up
 * to the next comma. Returns how many characters to skip.
 */
function parseNextPart(text: string, challenges: ChallengeDraft[]): number {
  const parameter = PARAMETER.exec(text);
  if (parameter !== null) {
    const [matchedText, name = "", quoted, unquoted = ""] = parameter;
    challenges.at(-1)?.parameters.set(name.toLowerCase(), quoted?.replace(/\\(.)/g, "$1") ?? unquoted);
    return matchedText.length;
  }
  const schemeLength = parseScheme(text, challenges);
  if (schemeLength !== undefined) return schemeLength;
  // The first character is skipped in any case, so that the caller's loop ends.
  const comma = text.indexOf(",", 1);
  return comma === -1 ? text.length : comma;
}

/**
 * Adds a new challenge if `text` begins with a scheme. Returns the length of the scheme, or undefined if there is
 * none.
 */
function parseScheme(text: string, challenges: ChallengeDraft[]): number | undefined {
  const [matchedText, scheme = ""] = SCHEME.exec(text) ?? [];
  if (matchedText !== undefined) challenges.push({ scheme: scheme.toLowerCase(), parameters: new Map() });
  return matchedText?.length;
}
