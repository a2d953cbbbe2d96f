/** Decides whether a value is secret, by the name of its key and by its form. */

import { Memo } from "../memo.ts";
import {
  CHOOSES,
  FILLERS,
  KEYS_OF,
  LIKELY_AT_END,
  LISTS_SECRETS,
  NAMES_BY_KEY,
  NO_SECRET_PART,
  ONLY_ABOUT,
  SECRET_ANYWHERE,
  SECRET_AT_END,
  SECRET_PART,
  SECRETS_BY_NAME,
} from "./vocabulary.ts";

/**
 * What a key says of its value:
 * - `secret`: the value is secret.
 * - `likely`: it is secret unless it looks like a name, a path or a number.
 * - `keyName`: it is secret unless it looks like the name of a Secret or of a key in one.
 * - `about`: it describes a secret and is not secret itself.
 * - `plain`: the key says nothing.
 */
export type Says = "secret" | "likely" | "keyName" | "about" | "plain";

/** Keys that mean something only together with the key above them. */
const NEEDS_PARENT = /^[^a-z0-9]*(?:keys?|auth|cert|string|url|id|hash|secret|community)[^a-z0-9]*$/i;
/** Results by key, since the same keys occur many times. */
const classifiedKeys = new Memo<Says>(10_000);

/** Classifies a key; `parent` is the key above it, which completes keys like `key` and `url`. */
export function classifyKey(key: string, parent = ""): Says {
  const id = NEEDS_PARENT.test(key) ? `${parent}\0${key}` : key;
  return classifiedKeys.getOrMake(id, () => classify(key, parent));
}

/** True if values of this key must be redacted: passwords, tokens, keys, certificates. */
export function looksSecret(key: string): boolean {
  const says = classifyKey(key);
  return says === "secret" || says === "likely" || says === "keyName";
}

/** The words of a key in lower case, without digits at their ends. */
function wordsOf(key: string): string[] {
  const apart = key.replaceAll(/([a-z0-9])([A-Z])/g, "$1 $2").replaceAll(/([A-Z])(?=[A-Z][a-z])/g, "$1 ");
  return (apart.match(/[A-Za-z0-9]+/g) ?? []).flatMap((word) => splitCompoundKey(word.toLowerCase()));
}

/** Splits a word that ends in `key` and begins with a known word: `accountkey` is `account`, `key`. */
function splitCompoundKey(word: string): string[] {
  const [, before = ""] = /^([a-z]+)keys?$/.exec(word) ?? [];
  return KEYS_OF.has(before) ? [before, word.slice(before.length)] : [word];
}

function classify(key: string, parent: string): Says {
  const ownWords = wordsOf(key);
  const all = NEEDS_PARENT.test(key) ? [...wordsOf(parent).slice(-2), ...ownWords] : ownWords;
  return classifyWords(withoutFillers(all), ownWords.length);
}

/**
 * Drops words and digits at the end that say nothing: in `encryptionKeyData`, `apiKey1` and `tokenOld` the words before
 * them count. Replaces some combinations of words by one word that the rules know.
 */
function withoutFillers(all: readonly string[]): string[] {
  const found = [...all];
  const isFiller = (word: string): boolean => FILLERS.has(word) || /^\d+$/.test(word);
  if (isConnectionString(found)) return ["connectionstring"];
  const joint = ` ${found.join(" ")}`;
  if (/ docker (?:config|cfg) json$/.test(joint)) return ["dockerconfigjson"];
  if (/ basic ?auth users$/.test(joint)) return ["htpasswd"];
  while (found.length > 1 && isFiller(found.at(-1) ?? "")) found.pop();
  // `base64` and `sha256` are words of their own.
  return found.map((word) =>
    /^[a-z]{3,}\d{1,3}$/.test(word) && !ONLY_ABOUT.has(word) ? word.replace(/\d{1,3}$/, "") : word,
  );
}

/** Whether the words contain `connection string`, also in its short forms. */
function isConnectionString(all: readonly string[]): boolean {
  const at = all.findIndex((word) => word === "connection" || word === "conn");
  return at >= 0 && /^(?:string|str)s?\d*$/.test(all[at + 1] ?? "");
}

/** The words of a key, and how many of them are its own: others are the parent's. */
interface KeyWords {
  readonly all: readonly string[];
  readonly last: string;
  readonly before: string;
  readonly ownCount: number;
}

/** The first rule that returns a classification decides. A rule returns undefined if it does not apply. */
const RULES: readonly ((key: KeyWords) => Says | undefined)[] = [
  ({ all }) => (all.includes("checksum") || all.includes("existing") ? "about" : undefined),
  (key) => (isWebhookUrl(key) ? "secret" : undefined),
  ({ last, before }) => (last === "id" && before === "secret" ? "secret" : undefined),
  ({ all, last }) => (all.length > 1 && CHOOSES.has(all[0] ?? "") && !KEY.test(last) ? "about" : undefined),
  ({ last, before }) => (DIGEST.test(last) && PASSWORD.test(before) ? "likely" : undefined),
  ({ last }) => (ONLY_ABOUT.has(last) ? "about" : undefined),
  ({ last, before }) => (KEY.test(last) ? classifyKeyOf(before) : undefined),
  ({ last, before, ownCount }) => (/^secrets?$/.test(last) ? classifySecretKey(before, ownCount) : undefined),
  ({ all, last, before }) =>
    all.some(isSecretWord) || SECRET_AT_END.has(last) || SECRET_AT_END.has(before + last)
      ? "secret"
      : undefined,
  ({ last, before }) => (LIKELY_AT_END.has(last) && before !== "public" ? "likely" : undefined),
];
const KEY = /^keys?$/;
const PASSWORD = /^passw(?:or)?ds?$/;
const DIGEST = /^(?:digest|md5|sha\d*)$/;

function classifyWords(all: readonly string[], ownCount: number): Says {
  const key = { all, ownCount, last: all.at(-1) ?? "", before: all.at(-2) ?? "" };
  for (const rule of RULES) {
    const says = rule(key);
    if (says !== undefined) return says;
  }
  return "plain";
}

/** `https://hooks.…/…`: knowing the URL is enough to post there. `url` below `webhook` may be any address. */
function isWebhookUrl({ last, before, ownCount }: KeyWords): boolean {
  return ownCount > 1 && /^ur[li]s?$/.test(last) && /^(?:webhook|hook|incoming)s?$/.test(before);
}

/** Classifies a key whose last word is `key`, by the word `before` it. */
function classifyKeyOf(before: string): Says {
  if (/^(?:secret|token)s?$/.test(before)) return "keyName";
  if (KEYS_OF.has(before)) return "secret";
  if (NAMES_BY_KEY.has(before)) return "about";
  return "likely";
}

/** Whether a word makes its key secret wherever it stands in the key. */
function isSecretWord(word: string): boolean {
  if (SECRET_ANYWHERE.has(word)) return true;
  return !NO_SECRET_PART.has(word) && (SECRET_PART.test(word) || (word.length > 5 && word.endsWith("pass")));
}

/** Classifies a key that ends in `secret`: `imagePullSecrets` are names, `tlsSecret` mostly is one, `secret` may be. */
function classifySecretKey(before: string, ownCount: number): Says {
  if (LISTS_SECRETS.has(before)) return "about";
  if (SECRETS_BY_NAME.has(before)) return "likely";
  return ownCount === 1 && !KEYS_OF.has(before) ? "keyName" : "secret";
}

/** Words for yes and no: never secret. */
const SWITCH_WORD = /^(?:true|false|yes|no|on|off|null|~|enabled|disabled|required|optional)$/i;
/** `accessToken: 1h` is the lifetime of a token. */
const DURATION = /^\d{1,4}(?:ms|[smhd])$/;
/** Texts that refer to a place where a secret is kept: variables, templates, files. */
const REFERENCES = [
  /^\$[({][\w.:-]{1,200}[)}]$/,
  /^pk_(?:live|test)_\w{1,200}$/,
  /^\$__(?:file|env|vault)\{[^}]{0,300}\}$/,
  /^\{\{[^{}]{0,300}\}\}$/,
  /^%[A-Z_]{2,64}%$/,
  /^<path:[^>]{0,300}>$/,
  /^(?:ref\+\w{2,20}:\/\/|vault:|env:|file:|secretref:|valueFrom:)[\w./#:@-]{1,300}$/i,
  /^[A-Za-z][\w-]{0,60}\.(?:key|pem|crt|cer|jks|p12|pfx|ya?ml|json|conf|properties|txt)$/,
  /^(?:\/[A-Za-z][A-Za-z._-]{1,60}){2,12}$/,
];

/** True for a text that is no secret under any key. */
export function isHarmless(text: string): boolean {
  if (text.length === 0 || SWITCH_WORD.test(text) || DURATION.test(text)) return true;
  return /^[$%<{/a-z]/i.test(text) && REFERENCES.some((form) => form.test(text));
}

const NAME = /^[A-Za-z][A-Za-z]*\d{0,4}(?:[-_./][A-Za-z0-9][A-Za-z]*\d{0,4})*$/;
const NUMBER = /^[-+]?\d[\d.]*\s?[A-Za-z%]{0,2}$/;
const PATH = /^\.{0,2}\/[\w./-]*$/;
const EMAIL = /^[\w.+-]+@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+$/;
const PLAIN_URL = /^[a-z][a-z0-9+.-]{1,20}:\/\/[\w.:-]+(?:\/[\w./-]*)?$/i;

/** True for names, paths, numbers and addresses: under a key that is only likely to be secret, they are displayed. */
export function looksLikeName(text: string): boolean {
  if (text.length < 2 || text.length > 200) return false;
  if (NUMBER.test(text) || EMAIL.test(text)) return true;
  if (!NAME.test(text) && !PATH.test(text) && !PLAIN_URL.test(text))
    return /^[A-Za-z][a-z]*(?: [A-Za-z][a-z]*){2,40}\.?$/.test(text);
  return !looksRandom(text) && !hasMixedPart(text);
}

/** A part like `a1b2c3`: letters and digits change places more than once. */
function hasMixedPart(text: string): boolean {
  return text.split(/[-_./:]/).some((part) => (part.match(/\d+/g)?.length ?? 0) > 1);
}

const KEY_WORDS = new Set(
  "key keys user username crt cert certs ca tls auth id accesskey secretkey conf config license regcred".split(
    " ",
  ),
);

/** Words of well-known placeholder passwords. */
const PLACEHOLDER_WORDS = new Set(
  "not a the change changeme changeit secure insecure super top random very use please replace example".split(
    " ",
  ),
);

/** True for a text that names a Secret or a key in one: `my-app-secret`, `admin-password`, `tls.key`. */
export function looksLikeKeyName(text: string): boolean {
  if (!/^[A-Za-z][A-Za-z._-]{1,80}$/.test(text)) return false;
  const parts = wordsOf(text);
  return (
    parts.some((word) => KEY_WORDS.has(word) || SECRET_ANYWHERE.has(word)) &&
    !parts.some((word) => PLACEHOLDER_WORDS.has(word))
  );
}

/** Only parts of this length are tested for randomness. In a random part, runs of one kind are short on average. */
const MIN_RANDOM_LENGTH = 20;
const MAX_RANDOM_RUN = 2.5;
const ALPHANUMERIC_PART = /[A-Za-z0-9]{20,}/g;
/** A run of characters of one kind: `Camel`, `lower`, `UPPER`, `123`. */
const RUN = /[A-Z]?[a-z]+|[A-Z]+|\d+/g;
const HEX = /^(?:[0-9a-f]+|[0-9A-F]+)$/;

/** True when a part of the text has letters and digits in no order, as keys and tokens have. */
export function looksRandom(text: string): boolean {
  if (text.length < MIN_RANDOM_LENGTH) return false;
  return [...text.matchAll(ALPHANUMERIC_PART)].some(([part]) => isRandom(part));
}

/** Whether a part mixes letters and digits in short runs, or is a long hexadecimal number. */
function isRandom(part: string): boolean {
  if (!/\d/.test(part) || !/[A-Za-z]/.test(part)) return false;
  if (HEX.test(part)) return part.length >= 32;
  const runs = part.match(RUN)?.length ?? 1;
  return part.length / runs < MAX_RANDOM_RUN;
}
