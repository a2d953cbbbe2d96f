/** Finds many secrets in a text at once, in each encoding that programs use. */

import type { Hide } from "./placeholder.ts";
import { listForms, type Form } from "./secret-forms.ts";

/** So many characters identify a longer form. A message may be cut within the form. */
const MIN_MATCH = 32;
/** Number of first characters by which a form is looked up. */
const START_LENGTH = 8;
/**
 * Maximum of forms with one start that are compared. If there are more, any word with this start is redacted, or any
 * line from this start on, if one of the forms has several words.
 */
const MAX_FORMS_PER_START = 16;

/** A form, and how many texts have it: certificates share lines. */
interface Use {
  readonly form: Form;
  uses: number;
}

/** The range of a text to hide, and the secret that was found there. */
interface Match {
  readonly from: number;
  readonly to: number;
  readonly secret: string;
}

/**
 * Finds many secrets in one walk over a text. A filter finds places where a form may start, by its first eight
 * characters. A map then gives the forms with this start.
 */
export class SecretSearch {
  #filter = new StartFilter(1 << 16);
  /** Forms by their start. Most starts have a single form, which needs no map. */
  readonly #byStart = new Map<string, Use | Map<string, Use>>();
  /** Starts of forms that do not end where a word ends. */
  readonly #startsOfLines = new Set<string>();

  /** Adds a part of a secret with the forms in which it may appear. `isFirst`: the part is the first one of its secret. */
  add(secret: string, isFirst: boolean): void {
    for (const form of listForms(secret, isFirst)) this.#addForm(form);
  }

  /** Reverses one call of `add` with the same arguments. */
  remove(secret: string, isFirst: boolean): void {
    for (const form of listForms(secret, isFirst)) this.#removeForm(form);
  }

  /** Counts one more use of a form. The second form with the same start turns the entry into a map. */
  #addForm(form: Form): void {
    const start = form.text.slice(0, START_LENGTH);
    const candidates = this.#byStart.get(start);
    if (WORD_END.test(form.text)) this.#startsOfLines.add(start);
    if (candidates === undefined) {
      this.#byStart.set(start, { form, uses: 1 });
      this.#filter.add(start);
      if (this.#filter.isCrowded) this.#filter = this.#filter.enlarged(this.#byStart.keys());
      return;
    }
    const uses = candidates instanceof Map ? candidates : new Map([[candidates.form.text, candidates]]);
    const known = uses.get(form.text) ?? { form, uses: 0 };
    known.uses++;
    this.#byStart.set(start, uses.set(form.text, known));
  }

  /** Counts one use less, and removes an unused form. The filter keeps its bits: they only cost a lookup. */
  #removeForm({ text }: Form): void {
    const start = text.slice(0, START_LENGTH);
    const candidates = this.#byStart.get(start);
    const use = candidates instanceof Map ? candidates.get(text) : candidates;
    if (use?.form.text !== text) return;
    use.uses--;
    if (use.uses > 0) return;
    if (candidates instanceof Map) candidates.delete(text);
    if (!(candidates instanceof Map) || candidates.size === 0) this.#byStart.delete(start);
  }

  /** `text` with each form replaced by what `hide` makes of its secret. */
  replace(text: string, hide: Hide): string {
    if (this.#byStart.size === 0) return text;
    const parts: string[] = [];
    let done = 0;
    for (const at of this.#filter.findPossibleStarts(text)) {
      if (at < done) continue;
      const found = this.#findMatch(text, at, done);
      if (found === undefined) continue;
      parts.push(text.slice(done, found.from), hide(found.secret));
      done = found.to;
    }
    return parts.join("") + text.slice(done);
  }

  /**
   * Finds the longest form that begins at index `at`. Returns the range to hide and the secret; undefined if none begins there. The
   * range may begin before `at`, in a longer base64 text, but not before `minIndex`.
   */
  #findMatch(text: string, at: number, minIndex: number): Match | undefined {
    const start = text.slice(at, at + START_LENGTH);
    const found = this.#byStart.get(start);
    if (found === undefined) return undefined;
    const candidates = found instanceof Map ? found : new Map([["", found]]);
    const [first] = candidates.values();
    if (candidates.size > MAX_FORMS_PER_START) {
      const character = this.#startsOfLines.has(start) ? /./ : WORD;
      const to = findRunEnd(text, at + START_LENGTH, character);
      return { from: at, to, secret: first?.form.secret ?? "" };
    }
    const [longest] = [...candidates.values()]
      .map(({ form }) => ({ form, length: commonPrefixLength(text, at, form.text) }))
      .filter(({ form, length }) => length >= Math.min(MIN_MATCH, form.text.length))
      .toSorted((a, b) => b.length - a.length);
    if (longest === undefined) return undefined;
    const { secret, isPart } = longest.form;
    if (!isPart) return { from: at, to: at + longest.length, secret };
    const to = findRunEnd(text, at + START_LENGTH, BASE64);
    return { from: findBase64Start(text, at, minIndex), to, secret };
  }
}

/**
 * Reports where a text may have one of many starts (a Bloom filter with one hash): a rolling hash of each eight characters tells cheaply
 * that most positions have none.
 */
class StartFilter {
  readonly #bits: Uint32Array;
  #count = 0;

  /** `bitCount` must be a power of two. */
  constructor(bitCount: number) {
    this.#bits = new Uint32Array(bitCount >>> 5);
  }

  /** Whether more than a 16th of the bits is set, so that the filter reports too many wrong positions. */
  get isCrowded(): boolean {
    return this.#count > (this.#bits.length * 32) / 16;
  }

  /** Sets the bit of a start. */
  add(start: string): void {
    let hash = 0;
    for (let at = 0; at < START_LENGTH; at++) hash = appendToHash(hash, start.charCodeAt(at));
    const bit = this.#toBitIndex(hash);
    this.#bits[bit >>> 5]! |= 1 << (bit & 31);
    this.#count++;
  }

  /** A filter of four times the size with the same starts. */
  enlarged(starts: Iterable<string>): StartFilter {
    const filter = new StartFilter(this.#bits.length * 32 * 4);
    for (const start of starts) filter.add(start);
    return filter;
  }

  /** Each index where one of the starts may occur. */
  findPossibleStarts(text: string): number[] {
    const indexes: number[] = [];
    let hash = 0;
    for (let at = 0; at < text.length; at++) {
      // The character that leaves the window of START_LENGTH characters no longer counts in the hash.
      const leaving = at < START_LENGTH ? 0 : Math.imul(text.charCodeAt(at - START_LENGTH), LEAVING_FACTOR);
      hash = (appendToHash(hash, text.charCodeAt(at)) - leaving) | 0;
      const bit = this.#toBitIndex(hash);
      if (at >= START_LENGTH - 1 && (this.#bits[bit >>> 5]! & (1 << (bit & 31))) !== 0)
        indexes.push(at - START_LENGTH + 1);
    }
    return indexes;
  }

  /** Mixes the bits of a hash (multiplicative hashing by the golden ratio), and takes as many as select a bit of the filter. */
  #toBitIndex(hash: number): number {
    return (Math.imul(hash ^ (hash >>> 15), 0x9e3779b1) >>> 7) & (this.#bits.length * 32 - 1);
  }
}

/** The prime of the FNV hash. */
const BASE = 0x01000193;
/** BASE to the power of START_LENGTH: the weight of a character when it leaves the hash. */
const LEAVING_FACTOR = Array<number>(START_LENGTH)
  .fill(BASE)
  .reduce((power, base) => Math.imul(power, base), 1);

/** The rolling hash after one more character. */
function appendToHash(hash: number, char: number): number {
  return (Math.imul(hash, BASE) + char) | 0;
}

const BASE64 = /[A-Za-z0-9+/=_-]/;
const WORD = /[^\s"',;]/;
const WORD_END = /[\s"',;]/;

/** Length of the common prefix of `form` and the text from `at`; their first START_LENGTH characters are equal. */
function commonPrefixLength(text: string, at: number, form: string): number {
  let length = START_LENGTH;
  while (length < form.length && text.charCodeAt(at + length) === form.charCodeAt(length)) length++;
  return length;
}

/** Index at which the base64 text around `at` begins, not before `minIndex`. */
function findBase64Start(text: string, at: number, minIndex: number): number {
  let from = at;
  while (from > minIndex && BASE64.test(text[from - 1] ?? "")) from--;
  return from;
}

/** The index of the first character from `from` that does not match `character`. */
export function findRunEnd(text: string, from: number, character: RegExp): number {
  let to = from;
  while (to < text.length && character.test(text[to] ?? "")) to++;
  return to;
}
