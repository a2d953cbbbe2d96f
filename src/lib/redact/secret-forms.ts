/** The *forms* of a secret: the texts as which programs write it (base64, hex, URLs, JSON, floating point), by which output is searched for it. */

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
 * Lists the forms of one line of a secret: the line as it is (its head, if it is long), and escaped as in JSON. Only the first line
 * (`isFirst`) has forms in base64, hex and URLs: these encode the secret as a whole, and the result begins like that of the first line.
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

/** The encoded forms of a secret: in base64 and hex, where it may be part of a longer text, and escaped for a URL and for JSON. */
function listEncodedForms(secret: string): Form[] {
  const base64 = encodeBase64Parts(secret);
  const base64ForUrls = base64.map((text) => text.replaceAll("+", "-").replaceAll("/", "_"));
  const head = Buffer.from(secret.slice(0, HEAD_BYTES)).subarray(0, HEAD_BYTES);
  const partTexts = new Set([...base64, ...base64ForUrls, ...encodeHex(head)]);
  const partForms = Array.from(partTexts, (text) => ({ text, secret, isPart: true }));
  if (NEEDS_NO_ESCAPES.test(secret)) return partForms;
  const escaped = [...encodeForUrls(secret), ...encodeForJson(secret), formatAsHelmNumber(secret)];
  return [...partForms, ...toForms(secret, escaped)];
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
