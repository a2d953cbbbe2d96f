/** Collects the secrets of values, and redacts them in any text and encoding. */

import { isContainer, type Json } from "../model/index.ts";
import { TERMINAL_SEQUENCE } from "../errors.ts";
import { PLACEHOLDER, placeholderOf } from "./placeholder.ts";
import { redactText } from "./redact-text.ts";
import { hideInEncoded } from "./encoded-text.ts";
import { SecretSearch } from "./secret-search.ts";
import { hideInValues } from "./values.ts";

/** Most characters of the secrets of one tree of values. */
const MAX_CHARACTERS = 4 << 20;
/** Most characters of the secrets in force: while one tree of values replaces another one, both are known. */
const MAX_IN_FORCE = 2 * MAX_CHARACTERS;
/** Least number of new characters between two removals of unused secrets, because a removal registers everything again. */
const CLEANUP_STEP = MAX_CHARACTERS / 16;
/** Warning that there are more, with the remedy. */
export const OVERFULL_WARNING =
  "The values have more secret text than can be known (4 MiB of one section, 8 MiB in all), so every word that may be a secret is hidden in logs and statuses; mark fewer values as secret, then restart the operator";
/** Most characters of one text, so that it does not displace all others. */
const MAX_TEXT_LENGTH = 64 << 10;
/** Short texts, and texts of letters and separators, may be words, names or paths: redacting them would hide too much. */
const PLAIN_TEXT = /^(?:[A-Za-z\s._/:-]*|.{0,7})$/s;
/** A text without white space, quotes and brackets that may be a secret by {@link PLAIN_TEXT}, or the rest of one if it was cut. */
const ANY_WORD = /[^\s"'`,;(){}[\]]{5,}/g;
const CUT = "\u2026";

/**
 * Knows the secrets of the modules' values and replaces them in any text: log, statuses, Events, queues. Knows only texts of at least
 * eight characters that are not plain words, and each of them by its parts (its lines), which may appear alone. When the memory of
 * the secrets is full, it registers the values in force once more and forgets the secrets that these values do not have. If even these
 * are too many, it is *overfull* until the process ends: it redacts every word that may be a secret.
 */
export class KnownSecrets {
  /** Secrets, each with the parts that are searched for. */
  readonly #partsBySecret = new Map<string, readonly string[]>();
  /** Memory of all secrets, in characters. */
  #size = 0;
  readonly #search = new SecretSearch();
  /** Lists and maps whose secrets are known already. */
  #learnedValues = new WeakSet();
  /** The secrets that the current walk has found; undefined outside of `register`. */
  #secretsOfWalk: Set<string> | undefined;
  #isCleaningUp = false;
  /** With more characters, the secrets that are not in force any more are dropped. */
  #cleanUpAbove = MAX_CHARACTERS;
  /** Characters of the secrets that the current walk has added. */
  #charactersOfWalk = 0;
  #isOverfull = false;
  /** Called once, when the redaction of every word that may be a secret begins. */
  onOverfull: () => void = () => {};
  /** Calls `register` with everything in force. Without it, nothing can be dropped. */
  registerAgain: (() => void) | undefined;

  /** Whether every word that may be a secret is hidden, until the process ends. */
  get isOverfull(): boolean {
    return this.#isOverfull;
  }

  /** Walks through `value` and adds its secrets, as {@link redactValues} finds them; `paths` are its `secretPaths`. */
  register(value: Json, paths: ReadonlySet<string> = new Set()): void {
    // When the memory is full, `#learn` registers all values in force once more: these inner calls belong to the same walk.
    const isOutermost = this.#secretsOfWalk === undefined;
    if (isOutermost) this.#charactersOfWalk = 0;
    this.#secretsOfWalk ??= new Set();
    try {
      this.#learnFrom(value, paths);
    } finally {
      if (isOutermost) this.#secretsOfWalk = undefined;
    }
  }

  /** Adds the secrets in `value`. Uses the walk of the redaction, so that both find the same secrets. */
  #learnFrom(value: Json, paths: ReadonlySet<string>): void {
    hideInValues(value, paths, {
      hide: (secret) => {
        if (!this.#isOverfull) this.#learn(secret);
        return secret;
      },
      // Merged values share unchanged parts with earlier ones, whose secrets are known already.
      skip: (each) => {
        if (this.#learnedValues.has(each)) return true;
        this.#learnedValues.add(each);
        return false;
      },
    });
  }

  /** A text without known secrets and without texts that look secret. Drops terminal sequences (colours) if a secret is found without them. */
  redact(text: string): string {
    if (!text.includes(ESCAPE_CHARACTER)) return redactText(this.#hideKnown(text));
    // A terminal sequence may interrupt a secret, or belong to it: search without sequences, then with them.
    const withoutSequences = text.replaceAll(TERMINAL_SEQUENCE, "");
    const displayed = redactText(this.#hideKnown(withoutSequences));
    const hasNoSecret = displayed === withoutSequences;
    return hasNoSecret ? redactText(this.#hideKnown(text)) : displayed;
  }

  /** Redacts every string in a value as `redact` does. Numbers, booleans and null stay. */
  redactDeep<T>(value: T): T {
    return mapStringsDeep(value, (text) => this.redact(text));
  }

  /** Values for display: as {@link redactValues}, and without known secrets. */
  redactValues(value: Json, paths: ReadonlySet<string> = new Set()): Json {
    // By key first, so that the placeholder depends on the whole value, not on known secrets in it.
    return mapStringsDeep(hideInValues(value, paths, { hide: placeholderOf }), (text) =>
      this.#hideKnown(text),
    );
  }

  /** Replaces known secrets by placeholders; if the secrets are too many to know, every word that may be a secret. */
  #hideKnown(text: string): string {
    if (!this.#isOverfull)
      return hideInEncoded(this.#search.replace(text, placeholderOf), (decoded, hide) =>
        this.#search.replace(decoded, hide),
      );
    return text.replaceAll(ANY_WORD, (word) =>
      (PLAIN_TEXT.test(word) && !word.includes(CUT)) || word.startsWith(PLACEHOLDER)
        ? word
        : placeholderOf(word),
    );
  }

  /** Adds a secret, unless all its parts may be plain words. Forgets unused secrets when the memory is full. */
  #learn(secret: string): void {
    this.#secretsOfWalk?.add(secret);
    if (this.#partsBySecret.has(secret)) return;
    const allParts = splitIntoParts(secret.slice(0, MAX_TEXT_LENGTH));
    const parts = allParts.filter((part) => !PLAIN_TEXT.test(part));
    if (parts.length === 0) return;
    const size = sizeOf(parts);
    this.#charactersOfWalk += size;
    // Even if all other secrets are forgotten, those of this walk are too many.
    if (this.#charactersOfWalk > MAX_CHARACTERS) this.#setOverfull();
    // The search also finds encodings (base64, hex) of the first part: the encoding of the whole secret begins with that of this part.
    for (const [index, part] of parts.entries()) this.#search.add(part, index === 0);
    this.#partsBySecret.set(secret, parts);
    this.#size += size;
    if (this.#size > this.#cleanUpAbove && !this.#isCleaningUp) this.#dropUnusedSecrets();
  }

  /**
   * Forgets the secrets that no value in force has any more: registers all values in force once more, which collects their secrets in
   * `#secretsOfWalk`, and drops the others. Becomes overfull if the values in force have too many secrets.
   */
  #dropUnusedSecrets(): void {
    if (this.registerAgain === undefined) return this.#setOverfull();
    this.#isCleaningUp = true;
    // Each value in force must be walked through again.
    this.#learnedValues = new WeakSet();
    try {
      this.registerAgain();
    } finally {
      this.#isCleaningUp = false;
    }
    for (const [secret, parts] of this.#partsBySecret) {
      if (this.#secretsOfWalk?.has(secret) === true) continue;
      for (const [index, part] of parts.entries()) this.#search.remove(part, index === 0);
      this.#partsBySecret.delete(secret);
      this.#size -= sizeOf(parts);
    }
    // A value that comes back later must be walked through, because its secrets may be forgotten.
    this.#learnedValues = new WeakSet();
    this.#cleanUpAbove = Math.max(MAX_CHARACTERS, this.#size + CLEANUP_STEP);
    if (this.#size > MAX_IN_FORCE) this.#setOverfull();
  }

  /** Makes every word that may be a secret hidden until the process ends, and reports that once. */
  #setOverfull(): void {
    if (this.#isOverfull) return;
    this.#isOverfull = true;
    this.onOverfull();
  }
}

const ESCAPE_CHARACTER = "\u001B";
/** Memory that a part takes in addition to its characters, in characters. */
const PART_OVERHEAD = 64;

/** Memory of a secret, in characters. */
const sizeOf = (parts: readonly string[]): number =>
  parts.reduce((total, { length }) => total + length + PART_OVERHEAD, 0);

/** Splits a secret into the parts that may appear alone in output: its lines, or the whole and the password of `user:password`. */
function splitIntoParts(text: string): string[] {
  const lines = text.split("\n").map((each) => each.trim());
  const [, user, password] = /^([\w.@-]{1,64}):(\S+)$/.exec(text) ?? [];
  return user === undefined || password === undefined ? lines : [text, password];
}

/** A copy of `value` with `map` applied to each string in it, at any depth. */
function mapStringsDeep<T>(value: T, map: (text: string) => string): T {
  if (typeof value === "string") return map(value) as T;
  if (!isContainer(value)) return value;
  if (Array.isArray(value)) return value.map((item: unknown) => mapStringsDeep(item, map)) as T;
  return Object.fromEntries(
    Object.entries(value).map(([key, member]) => [key, mapStringsDeep<unknown>(member, map)]),
  ) as T;
}
