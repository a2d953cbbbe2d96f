/** Remembers the secrets of values, to remove them from any text. */

import type { Json } from "../../model/index.ts";
import { SecretSearch } from "./search.ts";
import { standIn } from "./stand-in.ts";
import { redactText } from "./redact-text.ts";
import { hideInValues } from "./values.ts";

const MOST_KNOWN = 2000;
/** What is short, or only letters and separators, may be a word, a name or a path: hiding it would hide much. */
const WORDS = /^(?:[A-Za-z\s._/:-]*|.{0,7})$/s;

/**
 * What values have shown to be secret, so that it can be taken out of any text: the log, statuses, Events, queues. Only
 * texts of eight and more characters that are no plain words are known; of 2,000 the oldest is forgotten.
 */
export class KnownSecrets {
  readonly #known = new Set<string>();
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
    for (const part of partsOf(text)) {
      if (WORDS.test(part) || this.#known.has(part)) continue;
      if (this.#known.size >= MOST_KNOWN) this.#forgetOldest();
      this.#known.add(part);
      this.#search.add(part);
    }
  }

  #forgetOldest(): void {
    const [oldest] = this.#known;
    if (oldest === undefined) return;
    this.#known.delete(oldest);
    this.#search.remove(oldest);
    // What was walked is to be learned again should it come back.
    this.#walked = new WeakSet();
  }
}

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
