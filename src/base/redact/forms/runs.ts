/** Finds where a run of characters of one kind begins and ends in a text. */

const BASE64 = /[A-Za-z0-9+/=_-]/;
/** `+`, `/` and `=` in a URL. */
const ESCAPED_BASE64 = /^%(?:2[bf]|3d)$/i;

/** Index at which the base64 text around `index` begins, not before `minIndex`. */
export function findBase64Start(text: string, index: number, minIndex: number): number {
  let from = index;
  while (from > minIndex && BASE64.test(text[from - 1] ?? "")) from--;
  return from;
}

/** The index from `from` at which a base64 text ends, which may be escaped for a URL. */
export function findBase64End(text: string, from: number): number {
  let to = from;
  for (;;) {
    to = findRunEnd(text, to, BASE64);
    if (text[to] !== "%" || !ESCAPED_BASE64.test(text.slice(to, to + 3))) return to;
    to += 3;
  }
}

/** The index of the first character from `from` that does not match `character`. */
export function findRunEnd(text: string, from: number, character: RegExp): number {
  let to = from;
  while (to < text.length && character.test(text[to] ?? "")) to++;
  return to;
}
