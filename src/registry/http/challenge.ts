/** Reads `WWW-Authenticate` headers (RFC 9110, section 11.6.1). */

/** What a registry requires; the parameters have lower-case names. */
export interface Challenge {
  /** In lower case: `basic`, `bearer`. */
  readonly scheme: string;
  readonly parameters: ReadonlyMap<string, string>;
}

/** A token, then `=` and a quoted string or a token. Linear: no part can match where another does. */
const PARAMETER = /^([\w!#$%&'*+.^`|~-]+)[ \t]*=[ \t]*(?:"((?:[^"\\]|\\.)*)"|([\w!#$%&'*+.^`|~/-]*))/;
const SCHEME = /^([\w!#$%&'*+.^`|~-]+)(?:[ \t]+|$|(?=,))/;
const SEPARATORS = /^[ \t,]+/;
const LONGEST = 16_384;

/** The first Bearer or Basic challenge of all headers; other schemes are skipped. */
export function findChallenge(headers: readonly string[]): Challenge | undefined {
  return headers.flatMap(challengesIn).find(({ scheme }) => scheme === "bearer" || scheme === "basic");
}

/** All challenges of one header. A comma separates challenges and also their parameters, and may stand in quotes. */
function challengesIn(header: string): Challenge[] {
  const found: Writable[] = [];
  let rest = header.slice(0, LONGEST).replace(SEPARATORS, "");
  while (rest !== "") rest = rest.slice(readNext(rest, found)).replace(SEPARATORS, "");
  return found;
}

interface Writable {
  readonly scheme: string;
  readonly parameters: Map<string, string>;
}

/** Reads a parameter or a scheme, and skips anything else. Returns how many characters it read. */
function readNext(text: string, found: Writable[]): number {
  const parameter = PARAMETER.exec(text);
  if (parameter !== null) {
    const [all, name = "", quoted, plain = ""] = parameter;
    found.at(-1)?.parameters.set(name.toLowerCase(), quoted?.replace(/\\(.)/g, "$1") ?? plain);
    return all.length;
  }
  return readScheme(text, found) ?? /^.[^,]*/s.exec(text)?.[0].length ?? text.length;
}

function readScheme(text: string, found: Writable[]): number | undefined {
  const [all, scheme = ""] = SCHEME.exec(text) ?? [];
  if (all !== undefined) found.push({ scheme: scheme.toLowerCase(), parameters: new Map() });
  return all?.length;
}
