/** The forms of a secret that programs write: within base64 at each of its three places, in a URL, in JSON. */
export interface EncodedForm {
  readonly text: string;
  readonly isPart: boolean;
}

/** So many bytes of a secret are enough to know it by. */
const HEAD_BYTES = 48;

export function encodedForms(secret: string): EncodedForm[] {
  const base64 = [0, 1, 2].map((place) => base64At(secret, place));
  const urlSafe = base64.map((text) => text.replaceAll("+", "-").replaceAll("/", "_"));
  const parts = [...new Set([...base64, ...urlSafe])];
  const written = new Set([...inUrl(secret), ...inJson(secret), asNumber(secret)]);
  written.delete(secret);
  return [
    ...parts.map((text) => ({ text, isPart: true })),
    ...[...written].map((text) => ({ text, isPart: false })),
  ];
}

/** What stands in any base64 text that has the secret `place` bytes after a group of three: without what neighbours share. */
function base64At(secret: string, place: number): string {
  const bytes = Buffer.from(secret).subarray(0, HEAD_BYTES);
  const text = Buffer.concat([Buffer.alloc(place), bytes]).toString("base64");
  const from = Math.ceil((place * 8) / 6);
  return text.slice(from, Math.floor(((place + bytes.length) * 8) / 6));
}

/** Languages differ in what they leave as it is. Half of a surrogate pair cannot be written in a URL. */
function inUrl(secret: string): string[] {
  const plain = encodeURIComponent(secret.toWellFormed());
  const strict = plain.replaceAll(/[!'()*]/g, (char) => `%${hexOf(char).toUpperCase()}`);
  return [plain, strict, strict.replaceAll("%2F", "/"), strict.replaceAll("%20", "+")];
}

/** Go escapes what means something in HTML, Python what is not ASCII; JSON may stand in a text in JSON. */
function inJson(secret: string): string[] {
  const plain = quoted(secret);
  const escape = (char: string): string => `\\u${hexOf(char).padStart(4, "0")}`;
  return [
    plain,
    quoted(plain),
    plain.replaceAll(/[<>&]/g, escape),
    plain.replaceAll(/[\u0080-\uffff]/g, escape),
  ];
}

function quoted(text: string): string {
  return JSON.stringify(text).slice(1, -1);
}

function hexOf(char: string): string {
  return char.charCodeAt(0).toString(16);
}

/** Templates of helm know numbers as floating point only. */
function asNumber(secret: string): string {
  return /^[1-9]\d{7,20}$/.test(secret)
    ? Number(secret)
        .toExponential()
        .replace(/\+(?=\d$)/, "+0")
    : secret;
}
