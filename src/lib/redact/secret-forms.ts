/** The texts as which programs write a secret: in base64, hex, URLs, JSON and floating point. */

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
 * Lists the texts to search for, for one line of a secret: the head of the line as it is, and escaped as in JSON, which escapes each
 * line by itself. Base64, hex and URLs encode the secret as a whole, and that encoding begins like the encoding of the first line:
 * these forms are listed for the first line only (`isFirst`).
 */
export function listForms(line: string, isFirst: boolean): Form[] {
  const plain = { text: line.slice(0, LONGEST_FORM), secret: line, isPart: false };
  if (isFirst) return [plain, ...listEncodedForms(line)];
  return NEEDS_NO_ESCAPES.test(line) ? [plain] : [plain, ...toForms(line, encodeForJson(line))];
}

/** So many bytes identify a secret in base64 and in hex. */
const HEAD_BYTES = 48;

/** Matches a secret whose text is the same in a URL, in JSON and as a number. */
const NEEDS_NO_ESCAPES = /^(?!\d+$)[\w.~-]*$/;

/** The forms of a secret that programs write: within base64 at each of its three offsets, in hex, in a URL, in JSON. */
function listEncodedForms(secret: string): Form[] {
  const parts = encodeBase64Parts(secret);
  const urlSafe = parts.map((text) => text.replaceAll("+", "-").replaceAll("/", "_"));
  const bytes = Buffer.from(secret.slice(0, HEAD_BYTES)).subarray(0, HEAD_BYTES);
  const written = NEEDS_NO_ESCAPES.test(secret)
    ? []
    : [...encodeForUrls(secret), ...encodeForJson(secret), formatAsHelmNumber(secret)];
  const partTexts = new Set([...parts, ...urlSafe, ...encodeHex(bytes)]);
  const partForms = Array.from(partTexts, (text) => ({ text, secret, isPart: true }));
  return [...partForms, ...toForms(secret, written)];
}

/** Makes forms of the encodings of a secret that differ from the secret, each once. */
function toForms(secret: string, texts: readonly string[]): Form[] {
  return [...new Set(texts)]
    .filter((text) => text !== secret)
    .map((text) => ({ text, secret, isPart: false }));
}

/**
 * The base64 text of the secret at offset 0, 1 and 2 of a group of three bytes, because a secret may be anywhere in a longer encoded text.
 * Without the characters at both ends that adjacent bytes influence.
 */
function encodeBase64Parts(secret: string): string[] {
  const bytes = Buffer.from(`\0\0${secret}`).subarray(0, HEAD_BYTES + 2);
  return [0, 1, 2].map((offset) => {
    const text = bytes.toString("base64", 2 - offset);
    return text.slice(Math.ceil((offset * 8) / 6), Math.floor(((offset + bytes.length - 2) * 8) / 6));
  });
}

/** Bytes in hex, in lower and in upper case. */
export function encodeHex(bytes: Buffer): string[] {
  const text = bytes.toString("hex");
  return [text, text.toUpperCase()];
}

/** The secret as languages write it in URLs: they escape different characters. Half a surrogate pair is replaced. */
function encodeForUrls(secret: string): string[] {
  const plain = encodeURIComponent(secret.toWellFormed());
  const strict = plain.replaceAll(/[!'()*]/g, (char) => `%${charCodeInHex(char).toUpperCase()}`);
  return [plain, strict, strict.replaceAll("%2F", "/"), strict.replaceAll("%20", "+")];
}

/** The secret in JSON: once, JSON in JSON, with HTML characters escaped (Go), with non-ASCII escaped (Python). */
function encodeForJson(secret: string): string[] {
  const plain = escapeForJson(secret);
  const escape = (char: string): string => `\\u${charCodeInHex(char).padStart(4, "0")}`;
  return [
    plain,
    escapeForJson(plain),
    plain.replaceAll(/[<>&]/g, escape),
    plain.replaceAll(/[\u0080-\uffff]/g, escape),
  ];
}

/** A text as the inside of a JSON string, without its quotes. */
export function escapeForJson(text: string): string {
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
