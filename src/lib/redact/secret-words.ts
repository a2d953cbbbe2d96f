/**
 * Hides texts that are known to be secret although they may be plain words. Only texts of the programs that know these secrets
 * are searched for them: a word such as `web` would hide too much elsewhere, which `KnownSecrets` avoids by what a text looks like.
 */

import { placeholderOf } from "./placeholder.ts";
import { HIDDEN } from "./quoted.ts";
import { hexForms } from "./secret-search.ts";

/** Shorter texts would hide parts of most lines. */
const MIN_LENGTH = 3;
/** A line of a longer text is hidden alone if it has so many characters. */
const MIN_LINE = 8;
/** Most characters of one text whose lines in base64 and in hex are known. */
const MAX_WRAPPED = 64 << 10;
/** Bytes in a line of base64 text, as `base64` and `openssl` wrap it: 76 and 64 characters. */
const WRAPS = [57, 48];
/** Bytes in a line of hex, as `xxd -p` wraps it. */
const HEX_WRAP = 30;
/** With more secrets, texts are hidden completely. */
const MOST_SECRETS = 5000;
/** If more forms begin alike, every word that begins so is hidden. */
const MOST_ALIKE = 64;
/** Values that say nothing. */
const COMMON = new Set(["true", "false", "null", "yes", "no"]);
const WORD = /[\p{L}\p{N}_]/u;
const NO_SPACE = /\S/;
const HEX = /[0-9A-Fa-f]/;

interface Form {
  readonly text: string;
  readonly secret: string;
  /** The hex digits that follow belong to it. */
  readonly isHex: boolean;
}

/** Secrets that are hidden wherever they are whole words. */
export class SecretWords {
  /** By their first characters, the longest first. */
  readonly #forms = new Map<string, Form[]>();
  readonly #isOverfull: boolean;

  constructor(secrets: readonly string[]) {
    this.#isOverfull = secrets.length > MOST_SECRETS;
    if (this.#isOverfull) return;
    const forms = new Map<string, Form>();
    for (const form of secrets.flatMap(formsOf)) if (!forms.has(form.text)) forms.set(form.text, form);
    for (const form of [...forms.values()].toSorted((a, b) => b.text.length - a.text.length)) {
      const start = form.text.slice(0, MIN_LENGTH);
      const alike = this.#forms.get(start);
      if (alike === undefined) this.#forms.set(start, [form]);
      else alike.push(form);
    }
  }

  /** A text with a placeholder for each secret in it. */
  hide(text: string): string {
    if (this.#isOverfull && text !== "") return HIDDEN;
    if (this.#forms.size === 0) return text;
    const parts: string[] = [];
    let done = 0;
    for (let at = 0; at + MIN_LENGTH <= text.length; at++) {
      const found = this.#findAt(text, at);
      if (found === undefined) continue;
      parts.push(text.slice(done, at), placeholderOf(found.secret));
      done = found.end;
      at = done - 1;
    }
    return parts.join("") + text.slice(done);
  }

  /** The longest secret that begins here and ends where a word ends, and its end. */
  #findAt(text: string, at: number): { secret: string; end: number } | undefined {
    const alike = this.#forms.get(text.slice(at, at + MIN_LENGTH));
    if (alike === undefined || goesOn(text, at)) return undefined;
    const [first] = alike;
    if (alike.length > MOST_ALIKE && first !== undefined)
      return { secret: first.secret, end: endOf(NO_SPACE, text, at + MIN_LENGTH) };
    const form = alike.find(
      (each) => text.startsWith(each.text, at) && (each.isHex || !goesOn(text, at + each.text.length)),
    );
    if (form === undefined) return undefined;
    const end = at + form.text.length;
    return { secret: form.secret, end: form.isHex ? endOf(HEX, text, end) : end };
  }
}

/** Index after the last of the characters from `at` that match. */
function endOf(characters: RegExp, text: string, at: number): number {
  let end = at;
  while (end < text.length && characters.test(text[end] ?? "")) end++;
  return end;
}

/** Whether the characters on both sides of an index belong to one word. */
function goesOn(text: string, at: number): boolean {
  return at > 0 && at < text.length && WORD.test(text[at - 1] ?? "") && WORD.test(text[at] ?? "");
}

/** What programs write: the text, its lines, and its text in base64 and in hex, in one line or several. */
function formsOf(secret: string): Form[] {
  const trimmed = secret.trim();
  if (trimmed.length < MIN_LENGTH || COMMON.has(trimmed.toLowerCase())) return [];
  const lines = trimmed.split("\n").map((line) => line.trim());
  const ownLines = lines.length > 1 ? lines.filter((line) => line.length >= MIN_LINE) : [];
  const texts = [
    trimmed,
    JSON.stringify(trimmed).slice(1, -1),
    encodeURIComponent(trimmed.toWellFormed()),
    ...ownLines,
    ...base64Forms(secret),
  ];
  return [
    ...texts.map((text) => ({ text, secret, isHex: false })),
    ...hexLines(secret).map((text) => ({ text, secret, isHex: true })),
  ];
}

function base64Forms(secret: string): string[] {
  const texts = [secret, `${secret}\n`, secret.trim()].map((text) => Buffer.from(text.slice(0, MAX_WRAPPED)));
  const whole = texts.map((bytes) => unpadded(bytes));
  const [first = Buffer.alloc(0)] = texts;
  const wrapped = WRAPS.flatMap((size) => piecesOf(first, size).map(unpadded));
  return [...whole, ...wrapped].filter((text) => text.length >= MIN_LINE);
}

/** The secret in hex, by lines: the first one is the start of a text without line breaks, too. */
function hexLines(secret: string): string[] {
  const bytes = Buffer.from(secret.slice(0, MAX_WRAPPED));
  const lines = bytes.length > HEX_WRAP ? piecesOf(bytes, HEX_WRAP) : [bytes];
  return lines.flatMap(hexForms).filter((text) => text.length >= MIN_LINE);
}

function piecesOf(bytes: Buffer, size: number): Buffer[] {
  const count = bytes.length > size ? Math.ceil(bytes.length / size) : 0;
  return Array.from({ length: count }, (_, index) => bytes.subarray(index * size, (index + 1) * size));
}

function unpadded(bytes: Buffer): string {
  return bytes.toString("base64").replace(/={1,2}$/, "");
}
