/**
 * Hides texts that are known to be secret although they may be plain words. Only texts of the programs that know these secrets
 * are searched for them: a word such as `web` would hide too much elsewhere, which `KnownSecrets` avoids by what a text looks like.
 */

import { placeholderOf } from "./placeholder.ts";
import { HIDDEN } from "./quoted.ts";
import { encodeHex, escapeForJson } from "./secret-forms.ts";
import { findRunEnd } from "./secret-search.ts";

/** Shorter texts would hide parts of most lines. */
const MIN_LENGTH = 3;
/** A line of a longer text is hidden alone if it has so many characters. */
const MIN_LINE = 8;
/** Most characters of one text whose lines in base64 and in hex are known. */
const MAX_ENCODED_LENGTH = 64 << 10;
/** Bytes in a line of base64 text, as `base64` and `openssl` wrap it: 76 and 64 characters. */
const BASE64_LINE_BYTES = [57, 48];
/** Bytes in a line of hex, as `xxd -p` wraps it. */
const HEX_LINE_BYTES = 30;
/** With more secrets, texts are hidden completely. */
const MAX_SECRETS = 5000;
/** If more forms begin alike, every word that begins so is hidden. */
const MAX_FORMS_PER_START = 64;
/** Values that say nothing. */
const COMMON_WORDS = new Set(["true", "false", "null", "yes", "no"]);
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
    this.#isOverfull = secrets.length > MAX_SECRETS;
    if (this.#isOverfull) return;
    const forms = new Map<string, Form>();
    for (const form of secrets.flatMap(listForms)) if (!forms.has(form.text)) forms.set(form.text, form);
    for (const form of [...forms.values()].toSorted((a, b) => b.text.length - a.text.length)) {
      const start = form.text.slice(0, MIN_LENGTH);
      const candidates = this.#forms.get(start);
      if (candidates === undefined) this.#forms.set(start, [form]);
      else candidates.push(form);
    }
  }

  /** A text with a placeholder for each secret in it. */
  hide(text: string): string {
    if (this.#isOverfull && text !== "") return HIDDEN;
    if (this.#forms.size === 0) return text;
    const parts: string[] = [];
    let done = 0;
    for (let at = 0; at + MIN_LENGTH <= text.length; at++) {
      const found = this.#findSecret(text, at);
      if (found === undefined) continue;
      parts.push(text.slice(done, at), placeholderOf(found.secret));
      done = found.end;
      at = done - 1;
    }
    return parts.join("") + text.slice(done);
  }

  /** Finds the longest secret that begins at index `at` and consists of whole words. Returns the secret and the index after its text. */
  #findSecret(text: string, at: number): { secret: string; end: number } | undefined {
    const candidates = this.#forms.get(text.slice(at, at + MIN_LENGTH));
    if (candidates === undefined || isInsideWord(text, at)) return undefined;
    const [first] = candidates;
    if (candidates.length > MAX_FORMS_PER_START && first !== undefined)
      return { secret: first.secret, end: findRunEnd(text, at + MIN_LENGTH, NO_SPACE) };
    const form = candidates.find(
      (each) => text.startsWith(each.text, at) && (each.isHex || !isInsideWord(text, at + each.text.length)),
    );
    if (form === undefined) return undefined;
    const end = at + form.text.length;
    return { secret: form.secret, end: form.isHex ? findRunEnd(text, end, HEX) : end };
  }
}

/** Whether the characters on both sides of an index belong to one word. */
function isInsideWord(text: string, at: number): boolean {
  return at > 0 && at < text.length && WORD.test(text[at - 1] ?? "") && WORD.test(text[at] ?? "");
}

/** Lists the texts as which programs write a secret: itself, its lines, and its text in base64 and in hex, in one line or several. */
function listForms(secret: string): Form[] {
  const trimmed = secret.trim();
  if (trimmed.length < MIN_LENGTH || COMMON_WORDS.has(trimmed.toLowerCase())) return [];
  const lines = trimmed.split("\n").map((line) => line.trim());
  const ownLines = lines.length > 1 ? lines.filter((line) => line.length >= MIN_LINE) : [];
  const texts = [
    trimmed,
    escapeForJson(trimmed),
    encodeURIComponent(trimmed.toWellFormed()),
    ...ownLines,
    ...encodeBase64Lines(secret),
  ];
  return [
    ...texts.map((text) => ({ text, secret, isHex: false })),
    ...encodeHexLines(secret).map((text) => ({ text, secret, isHex: true })),
  ];
}

/** The secret in base64, as one text and in the lines into which tools wrap it. Leaves out texts too short to identify it. */
function encodeBase64Lines(secret: string): string[] {
  const texts = [secret, `${secret}\n`, secret.trim()].map((text) =>
    Buffer.from(text.slice(0, MAX_ENCODED_LENGTH)),
  );
  const whole = texts.map((bytes) => toUnpaddedBase64(bytes));
  const [first = Buffer.alloc(0)] = texts;
  const wrapped = BASE64_LINE_BYTES.flatMap((size) => splitBytes(first, size).map(toUnpaddedBase64));
  return [...whole, ...wrapped].filter((text) => text.length >= MIN_LINE);
}

/** The secret in hex, by lines: the first one is the start of a text without line breaks, too. */
function encodeHexLines(secret: string): string[] {
  const bytes = Buffer.from(secret.slice(0, MAX_ENCODED_LENGTH));
  const lines = bytes.length > HEX_LINE_BYTES ? splitBytes(bytes, HEX_LINE_BYTES) : [bytes];
  return lines.flatMap(encodeHex).filter((text) => text.length >= MIN_LINE);
}

/** Splits bytes into pieces of `size` bytes; none if all fit into one piece. */
function splitBytes(bytes: Buffer, size: number): Buffer[] {
  const count = bytes.length > size ? Math.ceil(bytes.length / size) : 0;
  return Array.from({ length: count }, (_, index) => bytes.subarray(index * size, (index + 1) * size));
}

/** Bytes in base64 without the padding, which more text in the same line would replace. */
function toUnpaddedBase64(bytes: Buffer): string {
  return bytes.toString("base64").replace(/={1,2}$/, "");
}
