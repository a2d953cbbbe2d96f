/** Searches a text for many secrets at once. */

import { encodedForms } from "./forms/encoded.ts";
import type { Hide } from "./stand-in.ts";

/** Of a longer form so much is enough: messages are cut, and may end within it. */
const HEAD = 32;
/** So many first characters are looked up. */
const START = 8;
/** Forms that begin alike; further ones are not told apart: what begins so is hidden up to its end. */
const MOST_ALIKE = 16;
const FILTER_BITS = 1 << 16;

/** One text to look for. */
interface Form {
  readonly text: string;
  /** What it is a form of. */
  readonly secret: string;
  /** Within a longer base64 text, which is hidden as a whole. */
  readonly isPart: boolean;
}

/** Looks for many texts at once, in one walk over the text: a filter of four characters, then a map of eight. */
export class SecretSearch {
  readonly #filter = new Uint8Array(FILTER_BITS);
  readonly #byStart = new Map<string, Form[]>();

  add(secret: string): void {
    for (const form of formsOf(secret)) {
      const start = form.text.slice(0, START);
      const alike = this.#byStart.get(start) ?? [];
      this.#byStart.set(start, [...alike, form]);
      this.#filter[hashAt(start, 0)] = 1;
    }
  }

  /** The filter keeps its bits: they only cost a look. */
  remove(secret: string): void {
    for (const form of formsOf(secret)) {
      const start = form.text.slice(0, START);
      const others = (this.#byStart.get(start) ?? []).filter((each) => each.secret !== secret);
      if (others.length === 0) this.#byStart.delete(start);
      else this.#byStart.set(start, others);
    }
  }

  /** `text` with each form replaced by what `hide` makes of its secret. */
  replace(text: string, hide: Hide): string {
    if (this.#byStart.size === 0 || text.length < START) return text;
    const parts: string[] = [];
    let done = 0;
    for (let at = 0; at <= text.length - START; at++) {
      if (this.#filter[hashAt(text, at)] === 0) continue;
      const found = this.#match(text, at, done);
      if (found === undefined) continue;
      parts.push(text.slice(done, found.from), hide(found.secret));
      done = found.to;
      at = done - 1;
    }
    return parts.join("") + text.slice(done);
  }

  #match(text: string, at: number, least: number): { from: number; to: number; secret: string } | undefined {
    const alike = this.#byStart.get(text.slice(at, at + START));
    if (alike === undefined) return undefined;
    if (alike.length > MOST_ALIKE)
      return { from: at, to: endOf(text, at, /[^\s"',;]/), secret: alike[0]?.secret ?? "" };
    const [longest] = alike
      .map((form) => ({ form, length: commonLength(text, at, form.text) }))
      .filter(({ form, length }) => length >= Math.min(HEAD, form.text.length))
      .toSorted((a, b) => b.length - a.length);
    if (longest === undefined) return undefined;
    const { secret, isPart } = longest.form;
    if (!isPart) return { from: at, to: at + longest.length, secret };
    return { from: startOf(text, at, least), to: endOf(text, at, BASE64), secret };
  }
}

const BASE64 = /[A-Za-z0-9+/=_-]/;

/** A text of several kilobytes is not encoded as a whole: its head tells it. */
const LONGEST_FORM = 2048;

function formsOf(secret: string): Form[] {
  const plain = { text: secret.slice(0, LONGEST_FORM), secret, isPart: false };
  return [plain, ...encodedForms(secret).map((form) => ({ ...form, secret }))];
}

/** Of the four characters at a place. */
function hashAt(text: string, at: number): number {
  const a = text.charCodeAt(at) + (text.charCodeAt(at + 1) << 5);
  const b = (text.charCodeAt(at + 2) << 9) + (text.charCodeAt(at + 3) << 13);
  return (Math.imul(a ^ b, 0x9e3779b1) >>> 16) & (FILTER_BITS - 1);
}

function commonLength(text: string, at: number, form: string): number {
  let length = START;
  while (length < form.length && text.charCodeAt(at + length) === form.charCodeAt(length)) length++;
  return length;
}

function startOf(text: string, at: number, least: number): number {
  let from = at;
  while (from > least && BASE64.test(text[from - 1] ?? "")) from--;
  return from;
}

function endOf(text: string, at: number, goesOn: RegExp): number {
  let to = at + START;
  while (to < text.length && goesOn.test(text[to] ?? "")) to++;
  return to;
}
