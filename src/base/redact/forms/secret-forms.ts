/**
 * The *forms* of a secret: the texts as which programs write it (base64, hex, URLs, JSON, HTML, shells, Python, floating point), by which
 * output is searched for it.
 */

import { toJsonEscape } from "../../yaml/yaml-safe-json.ts";

/** A text as which a secret may appear in output: the secret itself or an encoding of it. */
export interface Form {
  readonly text: string;
  readonly secret: string;
  /** The form may be part of a longer base64 or hex text. Then that whole text is hidden. */
  readonly isPart: boolean;
}

/** Longer texts are not encoded completely: their head identifies them. */
const LONGEST_FORM = 2048;

/**
 * Lists the forms of one line of a secret: the line as it is (its head, if it is long), and escaped. Only the first line (`isFirst`) has forms
 * in base64 and hex: these encode the secret as a whole, and the result begins like that of the first line.
 */
export function listForms(line: string, isFirst: boolean): Form[] {
  const plain = { text: line.slice(0, LONGEST_FORM), secret: line, isPart: false };
  const escaped = NEEDS_NO_ESCAPES.test(line) ? [] : [...listEscapedTexts(line), formatAsHelmNumber(line)];
  const encoded = isFirst ? listEncodedForms(line) : [];
  return [plain, ...encoded, ...toForms(line, escaped)];
}

/** So many bytes identify a secret in base64 and in hex. */
const HEAD_BYTES = 48;

/** Matches a secret whose text is the same in a URL, in JSON and as a number. */
const NEEDS_NO_ESCAPES = /^(?!\d+$)[\w.~-]*$/;

/** The encoded forms of a secret: in base64, also escaped for a URL, and in hex. The secret may be part of a longer encoded text. */
function listEncodedForms(secret: string): Form[] {
  const base64 = encodeBase64Parts(secret);
  const base64ForUrls = base64.map((text) => text.replaceAll("+", "-").replaceAll("/", "_"));
  const head = Buffer.from(secret.slice(0, HEAD_BYTES)).subarray(0, HEAD_BYTES);
  const escapedBase64 = base64.filter((text) => /[+/]/.test(text)).flatMap(encodeForUrls);
  const partTexts = new Set([...base64, ...base64ForUrls, ...encodeHex(head), ...escapedBase64]);
  return Array.from(partTexts, (text) => ({ text, secret, isPart: true }));
}

/** The texts as which programs write a secret among other text: in one line, in URLs, JSON, HTML, for shells and in Python. May contain the secret itself. */
export function listEscapedTexts(secret: string): string[] {
  return [
    inOneLine(secret),
    ...encodeForUrls(secret),
    ...encodeForJson(secret),
    ...encodeForHtml(secret),
    ...quoteForShells(secret),
    ...encodeForPython(secret),
  ];
}

/** The secret as `oneLine` writes it in messages. */
function inOneLine(secret: string): string {
  return secret.replaceAll(/\s+/g, " ");
}

/** Makes forms of escaped texts of a secret: each text once, and only those that differ from the secret. */
function toForms(secret: string, texts: readonly string[]): Form[] {
  return [...new Set(texts)]
    .filter((text) => text !== secret)
    .map((text) => ({ text, secret, isPart: false }));
}

/**
 * The three base64 texts of a secret within a longer encoded text: base64 encodes three bytes together, of which 0, 1 or 2 may precede the
 * secret in its first group. Leaves out the characters at both ends that depend on the bytes beside the secret, too.
 */
function encodeBase64Parts(secret: string): string[] {
  const padded = Buffer.from(`\0\0${secret}`).subarray(0, HEAD_BYTES + 2);
  return [0, 1, 2].map((bytesBefore) => {
    const text = padded.toString("base64", 2 - bytesBefore);
    const secretEnd = bytesBefore + padded.length - 2;
    return text.slice(Math.ceil((bytesBefore * 8) / 6), Math.floor((secretEnd * 8) / 6));
  });
}

/** Bytes in hex, in lower and in upper case. */
export function encodeHex(bytes: Buffer): string[] {
  const text = bytes.toString("hex");
  return [text, text.toUpperCase()];
}

/** The secret as languages write it in URLs: some escape `!'()*` or `/`, some write a space as `+`. Half a surrogate pair is replaced. */
export function encodeForUrls(secret: string): string[] {
  const plain = encodeURIComponent(secret.toWellFormed());
  const strict = plain.replaceAll(/[!'()*]/g, (char) => `%${charCodeInHex(char).toUpperCase()}`);
  const texts = [plain, strict, strict.replaceAll("%2F", "/"), strict.replaceAll("%20", "+")];
  // Digits of either case are valid.
  return [
    ...texts,
    ...texts.map((text) => text.replaceAll(/%[0-9A-F]{2}/g, (digits) => digits.toLowerCase())),
  ];
}

/** The secret in HTML and XML, with the entities of Go, JavaScript and Python. */
function encodeForHtml(secret: string): string[] {
  if (!/[<>&"']/.test(secret)) return [];
  return HTML_ENTITIES.map((entities) => secret.replaceAll(/[<>&"']/g, (char) => entities[char] ?? char));
}

const HTML_NAMES = { "<": "&lt;", ">": "&gt;", "&": "&amp;" };
const HTML_ENTITIES: readonly Readonly<Record<string, string>>[] = [
  { ...HTML_NAMES, '"': "&#34;", "'": "&#39;" },
  { ...HTML_NAMES, '"': "&quot;", "'": "&#39;" },
  { ...HTML_NAMES, '"': "&quot;", "'": "&#x27;" },
  { ...HTML_NAMES, '"': "&quot;", "'": "&apos;" },
  HTML_NAMES,
];

/** The secret in quotes of a shell: a quote ends the text, is quoted, and begins it again; Bash escapes single characters. */
function quoteForShells(secret: string): string[] {
  if (!/[^\w./:=@%,+-]/.test(secret)) return [];
  return [
    secret.replaceAll("'", `'\\''`),
    secret.replaceAll("'", `'"'"'`),
    secret.replaceAll(/[\\"$`]/g, String.raw`\$&`),
    secret.replaceAll(/[\s!"$&'()*,;<>?[\\\]^`{|}]/g, String.raw`\$&`),
  ];
}

/** The secret as `repr` of Python writes it, as a text and as bytes. */
function encodeForPython(secret: string): string[] {
  const escaped = secret.replaceAll("\\", String.raw`\\`);
  const inQuotes = escaped.replaceAll("'", String.raw`\'`);
  const bytes = inQuotes.replaceAll(/[\u0080-\uffff]+/g, (text) =>
    Buffer.from(text)
      .toString("hex")
      .replaceAll(/../g, String.raw`\x$&`),
  );
  return [escaped, inQuotes, bytes];
}

/** The secret in JSON: once, JSON in JSON up to three times, with HTML characters escaped (Go), with non-ASCII escaped (Python). */
function encodeForJson(secret: string): string[] {
  const plain = escapeForJson(secret);
  const twice = escapeForJson(plain);
  return [
    plain,
    twice,
    escapeForJson(twice),
    plain.replaceAll(/[<>&]/g, toJsonEscape),
    plain.replaceAll(/[\u0080-\uffff]/g, toJsonEscape),
  ];
}

/** A text as the inside of a JSON string, without its quotes. */
function escapeForJson(text: string): string {
  return JSON.stringify(text).slice(1, -1);
}

function charCodeInHex(char: string): string {
  return char.charCodeAt(0).toString(16);
}

/** A long number as helm templates print it, in floating point (`1.2e+09`); other secrets unchanged. */
function formatAsHelmNumber(secret: string): string {
  if (!/^[1-9]\d{7,20}$/.test(secret)) return secret;
  const text = Number(secret).toExponential();
  return text.replace(/\+(?=\d$)/, "+0");
}
