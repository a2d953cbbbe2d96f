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
  const written = [inUrl(secret), JSON.stringify(secret).slice(1, -1)].filter((text) => text !== secret);
  return [
    ...parts.map((text) => ({ text, isPart: true })),
    ...[...new Set(written)].map((text) => ({ text, isPart: false })),
  ];
}

/** What stands in any base64 text that has the secret `place` bytes after a group of three: without what neighbours share. */
function base64At(secret: string, place: number): string {
  const bytes = Buffer.from(secret).subarray(0, HEAD_BYTES);
  const text = Buffer.concat([Buffer.alloc(place), bytes]).toString("base64");
  const from = Math.ceil((place * 8) / 6);
  return text.slice(from, Math.floor(((place + bytes.length) * 8) / 6));
}

/** Half of a surrogate pair cannot be written in a URL. */
function inUrl(secret: string): string {
  return encodeURIComponent(secret.toWellFormed());
}
