/**
 * Hides the secrets that one program gets (a hook, say) in the output of this program, even if they are plain words. Only this output
 * is searched for them: elsewhere, a secret such as `web` would hide too much. `KnownSecrets`, which redacts all texts, therefore
 * knows no plain words. A *form* of a secret is a text as which programs write it: itself, a line of it, or an encoding of it.
 */

import { CutForms } from "./forms/cut-forms.ts";
import { hideInEncoded } from "./encoded-text.ts";
import { placeholderOf, type Hide } from "./placeholder.ts";
import { HIDDEN } from "./quoted.ts";
import { encodeForUrls, encodeHex, listEscapedTexts } from "./forms/secret-forms.ts";
import { findRunEnd } from "./forms/runs.ts";

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
  readonly #cutForms = new CutForms();
  readonly #isOverfull: boolean;

  /** Indexes the forms of the secrets by their first characters. With too many secrets, `hide` hides texts completely. */
  constructor(secrets: readonly string[]) {
    this.#isOverfull = secrets.length > MAX_SECRETS;
    if (this.#isOverfull) return;
    const formsByText = new Map<string, Form>();
    for (const form of secrets.flatMap(listForms))
      if (!formsByText.has(form.text)) formsByText.set(form.text, form);
    const longestFirst = [...formsByText.values()].toSorted((a, b) => b.text.length - a.text.length);
    for (const form of longestFirst) {
      this.#cutForms.add({ ...form, isPart: form.isHex });
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
    const replace = (each: string, hide: Hide): string => this.#replace(each, hide);
    return hideInEncoded(replace(text, placeholderOf), replace);
  }

  /** `text` with what `hide` returns for each secret in it, and for each part of one beside a cut. */
  #replace(text: string, hide: Hide): string {
    const parts: string[] = [];
    let copiedUntil = 0;
    let index = 0;
    while (index + MIN_LENGTH <= text.length) {
      const match = this.#findSecret(text, index);
      if (match !== undefined) {
        parts.push(text.slice(copiedUntil, index), hide(match.secret));
        copiedUntil = match.end;
      }
      index = match?.end ?? index + 1;
    }
    return this.#cutForms.replace(parts.join("") + text.slice(copiedUntil), hide);
  }

  /** Finds the longest form at `index` that consists of whole words. Returns its secret and the index after the text to hide. */
  #findSecret(text: string, index: number): { secret: string; end: number } | undefined {
    const candidates = this.#forms.get(text.slice(index, index + MIN_LENGTH));
    if (candidates === undefined || isInsideWord(text, index)) return undefined;
    const [first] = candidates;
    // Comparing with very many forms would be slow: the rest of the word is hidden without a comparison.
    if (candidates.length > MAX_FORMS_PER_START && first !== undefined)
      return { secret: first.secret, end: findRunEnd(text, index + MIN_LENGTH, NO_SPACE) };
    const form = candidates.find(
      (each) =>
        text.startsWith(each.text, index) && (each.isHex || !isInsideWord(text, index + each.text.length)),
    );
    if (form === undefined) return undefined;
    const end = index + form.text.length;
    // The form may be the first of several lines in hex that a program writes as one.
    return { secret: form.secret, end: form.isHex ? findRunEnd(text, end, HEX) : end };
  }
}

/** Whether the characters on both sides of an index belong to one word. */
function isInsideWord(text: string, at: number): boolean {
  return at > 0 && at < text.length && WORD.test(text[at - 1] ?? "") && WORD.test(text[at] ?? "");
}

/** Lists the texts as which programs write a secret: itself, its lines, in base64 and hex. None for very short and common ones (`true`). */
function listForms(secret: string): Form[] {
  const trimmed = secret.trim();
  if (trimmed.length < MIN_LENGTH || COMMON_WORDS.has(trimmed.toLowerCase())) return [];
  const lines = trimmed.split("\n").map((line) => line.trim());
  const longLines = lines.length > 1 ? lines.filter((line) => line.length >= MIN_LINE) : [];
  const texts = [trimmed, ...listEscapedTexts(trimmed), ...longLines, ...encodeBase64Lines(secret)];
  return [
    ...texts.map((text) => ({ text, secret, isHex: false })),
    ...encodeHexLines(secret).map((text) => ({ text, secret, isHex: true })),
  ];
}

/** The secret in base64, as one text (also trimmed, and with the line end that `echo` adds) and in the lines into which tools wrap it. */
function encodeBase64Lines(secret: string): string[] {
  const whole = [secret, `${secret}\n`, secret.trim()].map((text) => toUnpaddedBase64(headBytes(text)));
  const bytes = headBytes(secret);
  const wrapped = BASE64_LINE_BYTES.flatMap((size) => splitBytes(bytes, size).map(toUnpaddedBase64));
  // A chart with `b64enc` of what the API server encodes once more.
  const twice = [secret, `${secret}\n`, secret.trim()].map((text) =>
    toUnpaddedBase64(Buffer.from(headBytes(text).toString("base64"))),
  );
  const inUrls = whole.flatMap(encodeForUrls);
  return [...whole, ...wrapped, ...twice, ...inUrls].filter((text) => text.length >= MIN_LINE);
}

/** The bytes of a text, of a long one only those at its begin. */
function headBytes(text: string): Buffer {
  return Buffer.from(text.slice(0, MAX_ENCODED_LENGTH));
}

/** The secret in hex, in the lines into which tools wrap it. The first line also finds the secret in a text without line breaks. */
function encodeHexLines(secret: string): string[] {
  const lines = splitBytes(headBytes(secret), HEX_LINE_BYTES);
  return lines.flatMap(encodeHex).filter((text) => text.length >= MIN_LINE);
}

/** Splits bytes into lines of `size` bytes, the last one with the rest. */
function splitBytes(bytes: Buffer, size: number): Buffer[] {
  const count = Math.ceil(bytes.length / size);
  return Array.from({ length: count }, (_, index) => bytes.subarray(index * size, (index + 1) * size));
}

/** Bytes in base64 without the padding, which more text in the same line would replace. */
function toUnpaddedBase64(bytes: Buffer): string {
  return bytes.toString("base64").replace(/={1,2}$/, "");
}
