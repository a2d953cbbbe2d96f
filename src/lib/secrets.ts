import type { Json, JsonObject } from "../model/index.ts";
import { looksSecret, membersBelow, redactText, standIn, urlUsers } from "./redact.ts";

const MOST_KNOWN = 2000;
const SHORTEST = 8;
/** What is only letters and separators may be a word of the language, a name or a path: hiding it would hide much. */
const WORDS = /^[A-Za-z\s._/:-]*$/;
/** As in values: strings so long are keys, certificates, blobs. */
const LONG = 256;

/** Of a longer secret so much is enough: messages are cut, and may end within it. */
const HEAD = 32;

type Paths = readonly (readonly string[])[];

/**
 * What values have shown to be secret, so that it can be taken out of any text: the log, statuses, Events, queues. Only
 * texts of eight and more characters that are no plain words are known; of 2,000 the oldest is forgotten.
 */
export class KnownSecrets {
  readonly #known = new Set<string>();
  #walked = new WeakSet<object>();
  /** Texts that have been looked at; most come again with the next merge. */
  readonly #taken = new Set<string>();

  /** Takes up the secrets in `value`: as {@link redactValues} tells them, `paths` being its `secretPaths`. */
  learn(value: Json, paths: ReadonlySet<string> = new Set()): void {
    this.#walk(
      value,
      false,
      [...paths].map((path) => path.split("/").slice(1)),
    );
  }

  /** A text without what is known to be secret, and without what looks so. */
  redact(text: string): string {
    let plain = text;
    for (const secret of this.#known) {
      if (plain.includes(secret.slice(0, HEAD))) plain = without(plain, secret);
    }
    return redactText(plain);
  }

  /** The same for every text in a value; whatever is no text stays. */
  redactDeep<T>(value: T): T {
    if (typeof value === "string") return this.redact(value) as T;
    if (value === null || typeof value !== "object") return value;
    if (Array.isArray(value)) return value.map((item: unknown) => this.redactDeep(item)) as T;
    return Object.fromEntries(
      Object.entries(value).map(([key, member]) => [key, this.redactDeep<unknown>(member)]),
    ) as T;
  }

  #walk(value: Json, secret: boolean, paths: Paths): void {
    const isSecret = secret || paths.some((path) => path.length === 0);
    if (value === null || typeof value !== "object") this.#take(value, isSecret);
    else if (isSecret || paths.length > 0) this.#walkMembers(value, isSecret, paths);
    // Merges share what they do not change: it has been walked before.
    else if (!this.#walked.has(value)) {
      this.#walked.add(value);
      this.#walkMembers(value, false, paths);
    }
  }

  #walkMembers(value: Json[] | JsonObject, secret: boolean, paths: Paths): void {
    const looks = Array.isArray(value) ? () => false : looksSecret;
    for (const [key, member] of Object.entries(value))
      this.#walk(member ?? null, secret || looks(key), membersBelow(paths, key));
  }

  #take(value: string | number | boolean | null, isSecret: boolean): void {
    if (typeof value === "string" && (isSecret || value.length > LONG)) this.#add(value);
    else if (typeof value === "number" && isSecret) this.#add(String(value));
    if (typeof value !== "string" || !value.includes("://")) return;
    for (const user of urlUsers(value)) user.split(":").forEach((part) => this.#add(part));
  }

  #add(text: string): void {
    if (this.#taken.has(text)) return;
    if (this.#taken.size >= MOST_KNOWN) this.#taken.clear();
    this.#taken.add(text);
    // A text of several lines comes to the log line by line.
    for (const line of text.split("\n").map((each) => each.trim())) {
      if (line.length < SHORTEST || WORDS.test(line) || this.#known.has(line)) continue;
      if (this.#known.size >= MOST_KNOWN) this.#forgetOldest();
      this.#known.add(line);
    }
  }

  #forgetOldest(): void {
    const [oldest] = this.#known;
    if (oldest !== undefined) this.#known.delete(oldest);
    // What was walked is to be learned again should it come back.
    this.#walked = new WeakSet();
    this.#taken.clear();
  }
}

/** A text in which each occurrence of `secret`, or of as much of it as is there, is replaced. */
function without(text: string, secret: string): string {
  if (secret.length <= HEAD) return text.replaceAll(secret, standIn(secret));
  const parts: string[] = [];
  let from = 0;
  for (
    let at = text.indexOf(secret.slice(0, HEAD));
    at >= 0;
    at = text.indexOf(secret.slice(0, HEAD), from)
  ) {
    let length = HEAD;
    while (length < secret.length && text[at + length] === secret[length]) length++;
    parts.push(text.slice(from, at), standIn(secret));
    from = at + length;
  }
  return parts.join("") + text.slice(from);
}
