/** Tokens of requests for a run: those of annotations, and requests that come without one. */

/** No token of an annotation has it. */
const SEPARATOR = "\n";

/** The next request without a token of its own, after `last`: it keeps the token of the annotation that came last. */
export function nextToken(last: string | undefined): string {
  const [annotation = "", count = "0"] = (last ?? "").split(SEPARATOR);
  return `${annotation}${SEPARATOR}${Number(count) + 1}`;
}

/** The token of an annotation that is answered with this one; undefined where there was none. */
export function annotationToken(token: string | undefined): string | undefined {
  return token?.split(SEPARATOR)[0] || undefined;
}
