/** Remembers the secrets of values, and finds them in any text, however they are encoded there. */

import type { Json } from "../../model/index.ts";
import { standIn, type Hide } from "./stand-in.ts";
import { redactText } from "./redact-text.ts";
import { hideInValues } from "./values.ts";

/** What all known secrets may take together, in characters of the forms that are looked for. */
const MOST_CHARACTERS = 4 << 20;
/** Of one text so much is remembered: a longer one must not take the place of all others. */
const LONGEST_TEXT = 64 << 10;
/** What is short, or only letters and separators, may be a word, a name or a path: hiding it would hide much. */
const WORDS = /^(?:[A-Za-z\s._/:-]*|.{0,7})$/s;

/**
 * What values have shown to be secret, so that it can be taken out of any text: the log, statuses, Events, queues. Only
 * texts of eight and more characters that are no plain words are known. Beyond {@link MOST_CHARACTERS} the longest text
 * is forgotten first, so that certificates never push out a password.
 */
export class KnownSecrets {
  readonly #texts = new BoundedTexts(MOST_CHARACTERS);
  readonly #search = new SecretSearch();
  #walked = new WeakSet<object>();

  /** Takes up the secrets in `value`: as {@link redactValues} tells them, `paths` being its `secretPaths`. */
  learn(value: Json, paths: ReadonlySet<string> = new Set()): void {
    hideInValues(value, paths, {
      hide: (secret) => {
        this.#add(secret);
        return secret;
      },
      // Merges share what they do not change: it has been walked before.
      skip: (each) => {
        if (this.#walked.has(each)) return true;
        this.#walked.add(each);
        return false;
      },
    });
  }

  /** A text without what is known to be secret, and without what looks so. */
  redact(text: string): string {
    return redactText(this.#search.replace(text, standIn));
  }

  /** The same for every text in a value; whatever is no text stays. */
  redactDeep<T>(value: T): T {
    return mapTexts(value, (text) => this.redact(text));
  }

  /** Values as they may be shown: as {@link redactValues} shows them, and without what is known to be secret. */
  redactValues(value: Json, paths: ReadonlySet<string> = new Set()): Json {
    const known = (text: string): string => this.#search.replace(text, standIn);
    // By its key first: a secret stays the same secret with or without known ones in it.
    return mapTexts(hideInValues(value, paths, { hide: standIn }), known);
  }

  #add(text: string): void {
    if (this.#texts.has(text)) return;
    const [first, ...others] = partsOf(text.slice(0, LONGEST_TEXT)).filter((part) => !WORDS.test(part));
    if (first === undefined) return;
    // Encodings begin with the first line: the others are looked for as they are.
    const forms = [...formsOf(first), ...others.map(plainForm)];
    for (const form of forms) this.#search.add(form);
    for (const forgotten of this.#texts.add(text, forms)) this.#forget(forgotten);
  }

  #forget(forms: readonly Form[]): void {
    for (const form of forms) this.#search.remove(form);
    // A walk learns the text again if the values still have it.
    this.#walked = new WeakSet();
  }
}

/** Texts with their forms, up to a number of characters: the longest texts leave first, of equal ones the oldest. */
class BoundedTexts {
  readonly #most: number;
  readonly #forms = new Map<string, readonly Form[]>();
  /** Texts by the number of bits of their size. */
  readonly #bySize: Set<string>[] = [];
  #size = 0;

  constructor(most: number) {
    this.#most = most;
  }

  has(text: string): boolean {
    return this.#forms.has(text);
  }

  /** Adds a text; returns the forms of each text that leaves for it. */
  add(text: string, forms: readonly Form[]): (readonly Form[])[] {
    this.#forms.set(text, forms);
    (this.#bySize[classOf(forms)] ??= new Set()).add(text);
    this.#size += sizeOf(forms);
    const forgotten: (readonly Form[])[] = [];
    while (this.#size > this.#most) forgotten.push(this.#removeLongest());
    return forgotten;
  }

  #removeLongest(): readonly Form[] {
    const texts = this.#bySize.findLast((each) => each !== undefined && each.size > 0) ?? new Set();
    const [text = ""] = texts;
    const forms = this.#forms.get(text) ?? [];
    texts.delete(text);
    this.#forms.delete(text);
    this.#size -= sizeOf(forms);
    return forms;
  }
}

/** What a form takes beside its characters. */
const FORM_OVERHEAD = 64;

const sizeOf = (forms: readonly Form[]): number =>
  forms.reduce((total, { text }) => total + text.length + FORM_OVERHEAD, 0);

const classOf = (forms: readonly Form[]): number => 32 - Math.clz32(sizeOf(forms));

/** Texts of several lines reach the log line by line, and the password of `user:password` also by itself. */
function partsOf(text: string): string[] {
  const lines = text.split("\n").map((each) => each.trim());
  const [, user, password] = /^([\w.@-]{1,64}):(\S+)$/.exec(text) ?? [];
  return user === undefined || password === undefined ? lines : [text, password];
}

function mapTexts<T>(value: T, map: (text: string) => string): T {
  if (typeof value === "string") return map(value) as T;
  if (value === null || typeof value !== "object") return value;
  if (Array.isArray(value)) return value.map((item: unknown) => mapTexts(item, map)) as T;
  return Object.fromEntries(
    Object.entries(value).map(([key, member]) => [key, mapTexts<unknown>(member, map)]),
  ) as T;
}

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

/** A form, and how many texts have it: certificates share lines. */
interface Use {
  readonly form: Form;
  readonly uses: number;
}

/** Looks for many texts at once, in one walk over the text: a filter of four characters, then a map of eight. */
class SecretSearch {
  readonly #filter = new Uint8Array(FILTER_BITS);
  readonly #byStart = new Map<string, Map<string, Use>>();

  add(form: Form): void {
    const start = form.text.slice(0, START);
    const alike = this.#byStart.get(start) ?? new Map<string, Use>();
    const { uses } = alike.get(form.text) ?? { uses: 0 };
    this.#byStart.set(start, alike.set(form.text, { form, uses: uses + 1 }));
    this.#filter[hashAt(start, 0)] = 1;
  }

  /** The filter keeps its bits: they only cost a lookup. */
  remove(form: Form): void {
    const start = form.text.slice(0, START);
    const alike = this.#byStart.get(start);
    const use = alike?.get(form.text);
    if (alike === undefined || use === undefined) return;
    if (use.uses > 1) alike.set(form.text, { ...use, uses: use.uses - 1 });
    else alike.delete(form.text);
    if (alike.size === 0) this.#byStart.delete(start);
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
    const [first] = alike.values();
    if (alike.size > MOST_ALIKE)
      return { from: at, to: endOf(text, at, /[^\s"',;]/), secret: first?.form.secret ?? "" };
    const [longest] = [...alike.values()]
      .map(({ form }) => ({ form, length: commonLength(text, at, form.text) }))
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

function plainForm(secret: string): Form {
  return { text: secret.slice(0, LONGEST_FORM), secret, isPart: false };
}

function formsOf(secret: string): Form[] {
  return [plainForm(secret), ...encodedForms(secret).map((form) => ({ ...form, secret }))];
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

/** So many bytes of a secret are enough to know it by. */
const HEAD_BYTES = 48;

/** The forms of a secret that programs write: within base64 at each of its three places, in a URL, in JSON. */
function encodedForms(secret: string): Omit<Form, "secret">[] {
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
