/**
 * Finds secrets in texts that are encoded more than once, or encoded together with escapes: decodes each base64 text in a text, and searches
 * the result. Forms of secrets (`forms/secret-forms.ts`) find what is encoded once, without a decoding.
 */

import { placeholderOf, type Hide } from "./placeholder.ts";

/** Encodings within each other that are decoded, such as base64 of base64 of JSON. The texts become shorter, so the work stays linear. */
const MAX_DEPTH = 3;
/** A text in base64. A secret of eight characters that is encoded twice has sixteen. */
const BASE64_TEXT = /[A-Za-z0-9+/_-]{16,}={0,2}/g;
/** A byte that no text has. Most digests and other bytes have one. */
const NO_TEXT = /[^\t\n\r\u0020-\u007e\u0080-\u00ff]/;
/** So many bytes decide whether a decoded text is a text. */
const SAMPLE_CHARACTERS = 44;

/** Returns a text with the secrets in it replaced by what `hide` returns. */
type Search = (text: string, hide: Hide) => string;

/** `text` with a placeholder in place of each base64 text in which `search` finds a secret. */
export function hideInEncoded(text: string, search: Search): string {
  return text.replaceAll(BASE64_TEXT, (encoded) => {
    const secret = findEncodedSecret(encoded, search, MAX_DEPTH);
    return secret === undefined ? encoded : placeholderOf(secret);
  });
}

/** The first secret in a base64 text, also in base64 texts in it; undefined if there is none. */
function findEncodedSecret(encoded: string, search: Search, depth: number): string | undefined {
  if (depth === 0 || !isEncodedText(encoded.slice(0, SAMPLE_CHARACTERS))) return undefined;
  const decoded = Buffer.from(encoded, "base64").toString("utf8");
  let secret: string | undefined;
  search(decoded, (found) => {
    secret ??= found;
    return "";
  });
  if (secret !== undefined) return secret;
  for (const [inner] of decoded.matchAll(BASE64_TEXT)) {
    secret = findEncodedSecret(inner, search, depth - 1);
    if (secret !== undefined) return secret;
  }
  return undefined;
}

/** Whether the begin of a base64 text may be that of a text. */
function isEncodedText(sample: string): boolean {
  return !NO_TEXT.test(Buffer.from(sample, "base64").toString("latin1"));
}
