/**
 * Finds many secrets in a text at once, in each encoding that programs use. A *form* is a text as which a secret may appear (itself,
 * in base64, …); its *start* is its first {@link START_LENGTH} characters, by which it is looked up.
 */

import { CutForms } from "./forms/cut-forms.ts";
import type { Hide } from "./placeholder.ts";
import { findBase64End, findBase64Start, findRunEnd } from "./forms/runs.ts";
import { listForms, type Form } from "./forms/secret-forms.ts";

/** So many characters identify a longer form. A message may be cut within the form. */
const MIN_MATCH = 32;
/** Number of first characters by which a form is looked up. */
const START_LENGTH = 8;
/** Most forms with one start that are compared. If there are more, any word (or line, if a form has several words) with this start is hidden. */
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
 * Finds many secrets in one walk over a text. A Bloom filter reports the indexes at which a form may begin, by its start (the first
 * eight characters). A map then gives the forms with this start. Counts the uses of a form, because several secrets may have it.
 */
export class SecretSearch {
  #filter = new StartFilter(1 << 16);
  /** Forms by their start. Most starts have a single form, which needs no map. */
  readonly #byStart = new Map<string, Use | Map<string, Use>>();
  /** Starts of forms that have several words. */
  readonly #startsOfSeveralWords = new Set<string>();
  readonly #cutForms = new CutForms();

  /** Adds a part of a secret with the forms in which it may appear. `isFirst`: the part is the first one of its secret. */
  add(secret: string, isFirst: boolean): void {
    for (const form of listForms(secret, isFirst)) this.#addForm(form);
  }

  /** Reverses one call of `add` with the same arguments. */
  remove(secret: string, isFirst: boolean): void {
    for (const form of listForms(secret, isFirst)) this.#removeForm(form);
  }

  /** Counts one more use of a form. The entry of a start is a single form, which the second one with this start turns into a map by text. */
  #addForm(form: Form): void {
    const start = form.text.slice(0, START_LENGTH);
    const entry = this.#byStart.get(start);
    const hasSeveralWords = WORD_END.test(form.text);
    if (hasSeveralWords) this.#startsOfSeveralWords.add(start);
    if (entry === undefined) {
      this.#cutForms.add(form);
      this.#byStart.set(start, { form, uses: 1 });
      this.#filter.add(start);
      if (this.#filter.isCrowded) this.#filter = this.#filter.enlarged(this.#byStart.keys());
      return;
    }
    const usesByText = entry instanceof Map ? entry : new Map([[entry.form.text, entry]]);
    const use = usesByText.get(form.text) ?? { form, uses: 0 };
    if (use.uses === 0) this.#cutForms.add(form);
    use.uses++;
    this.#byStart.set(start, usesByText.set(form.text, use));
  }

  /** Counts one use less, and removes an unused form. The filter keeps its bits: they only cost a lookup. */
  #removeForm({ text }: Form): void {
    const start = text.slice(0, START_LENGTH);
    const entry = this.#byStart.get(start);
    const use = entry instanceof Map ? entry.get(text) : entry;
    const isOtherForm = use?.form.text !== text;
    if (isOtherForm) return;
    use.uses--;
    if (use.uses > 0) return;
    this.#cutForms.remove(use.form);
    if (entry instanceof Map) entry.delete(text);
    const isEntryEmpty = !(entry instanceof Map) || entry.size === 0;
    if (isEntryEmpty) this.#byStart.delete(start);
  }

  /** `text` with each form, and each part of one beside a cut, replaced by the placeholder that `hide` returns for its secret. */
  replace(text: string, hide: Hide): string {
    if (this.#byStart.size === 0) return text;
    const parts: string[] = [];
    let copiedUntil = 0;
    for (const index of this.#filter.findPossibleStarts(text)) {
      if (index < copiedUntil) continue;
      const match = this.#findMatch(text, index, copiedUntil);
      if (match === undefined) continue;
      parts.push(text.slice(copiedUntil, match.from), hide(match.secret));
      copiedUntil = match.to;
    }
    return this.#cutForms.replace(parts.join("") + text.slice(copiedUntil), hide);
  }

  /**
   * Finds the longest form that begins at `index`, or is cut off there after {@link MIN_MATCH} characters. Returns the range to hide and
   * the secret; undefined if no form begins there. A form in base64 or hex may be part of a longer text, all of which is hidden: the
   * range may begin before `index`, but not before `minIndex`.
   */
  #findMatch(text: string, index: number, minIndex: number): Match | undefined {
    const start = text.slice(index, index + START_LENGTH);
    const entry = this.#byStart.get(start);
    if (entry === undefined) return undefined;
    // Listing and comparing very many forms would be slow: the rest of the word or line is hidden without a comparison.
    if (entry instanceof Map && entry.size > MAX_FORMS_PER_START) {
      const [first] = entry.values();
      const character = this.#startsOfSeveralWords.has(start) ? /./ : WORD;
      const to = findRunEnd(text, index + START_LENGTH, character);
      return { from: index, to, secret: first?.form.secret ?? "" };
    }
    const candidates = entry instanceof Map ? [...entry.values()] : [entry];
    const [longest] = candidates
      .map(({ form }) => ({ form, length: commonPrefixLength(text, index, form.text) }))
      .filter(({ form, length }) => length >= Math.min(MIN_MATCH, form.text.length))
      .toSorted((a, b) => b.length - a.length);
    if (longest === undefined) return undefined;
    const { secret, isPart } = longest.form;
    if (!isPart) return { from: index, to: index + longest.length, secret };
    const to = findBase64End(text, index + START_LENGTH);
    return { from: findBase64Start(text, index, minIndex), to, secret };
  }
}

/**
 * Reports at which indexes a text may have one of many *starts* (strings of eight characters): a Bloom filter with one hash. Because
 * the hash rolls over the text, the filter excludes most indexes cheaply; it may report an index wrongly, but never misses one.
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

  /** A filter of four times the size, which reports fewer indexes wrongly. `starts` are all starts of this filter. */
  enlarged(starts: Iterable<string>): StartFilter {
    const filter = new StartFilter(this.#bits.length * 32 * 4);
    for (const start of starts) filter.add(start);
    return filter;
  }

  /** Each index of the text where one of the starts may occur. */
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

const WORD = /[^\s"',;]/;
const WORD_END = /[\s"',;]/;

/** Length of the common prefix of `form` and the text from `index`. Their first START_LENGTH characters are known to be equal. */
function commonPrefixLength(text: string, index: number, form: string): number {
  let length = START_LENGTH;
  while (length < form.length && text.charCodeAt(index + length) === form.charCodeAt(length)) length++;
  return length;
}
