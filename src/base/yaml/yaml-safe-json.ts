/** Writes JSON that YAML parsers read as the same value: helm reads its values file as YAML, and the API server the body of a server-side apply. */

/** Characters that JSON contains as they are, and that YAML forbids, or reads as line breaks. */
// oxlint-disable-next-line no-control-regex
const NOT_IN_YAML = /[\u007f-\u009f\u2028\u2029\ufeff\ufffe\uffff]/g;
/** Longest text of a key, with its quotes and escapes, that needs no `?`: a little less than the limit of YAML, 1024. */
const MAX_PLAIN_KEY = 1000;

/** The JSON text of a value as `toYamlSafeText` changes it. */
export function toYamlSafeJson(value: unknown): string {
  return toYamlSafeText(JSON.stringify(value));
}

/** A JSON text without white space, changed so that YAML means the same: with more escapes, and `? ` before long keys. */
export function toYamlSafeText(json: string): string {
  return markLongKeys(json.replaceAll(NOT_IN_YAML, toJsonEscape));
}

/** The escape of a UTF-16 unit in JSON and YAML, such as `\u0085`. */
export function toJsonEscape(character: string): string {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`;
}

/** Writes `? ` before each long key, because YAML otherwise looks for the colon of a key only within 1024 characters. */
function markLongKeys(text: string): string {
  if (text.length <= MAX_PLAIN_KEY) return text;
  let result = "";
  let copiedTo = 0;
  let start: number | undefined;
  for (const { 0: token, index } of text.matchAll(/\\.|"/g)) {
    if (token !== '"') continue;
    if (start === undefined) {
      start = index;
      continue;
    }
    const end = index + 1;
    if (end - start > MAX_PLAIN_KEY && text[end] === ":") {
      result += `${text.slice(copiedTo, start)}? ${text.slice(start, end)} `;
      copiedTo = end;
    }
    start = undefined;
  }
  return result + text.slice(copiedTo);
}
