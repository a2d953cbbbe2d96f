/**
 * Decides whether a value is secret, by the name of its key (split into words: `dbPassword` is `db`, `password`) and by its form.
 * A key's class says what the key says about its value: `secret` (the value is secret), `likely` (unless it looks like a name, a path
 * or a number), `keyName` (unless it looks like the name of a Secret or of a key in one), `about` (the value describes a secret and is
 * none), `plain` (the key says nothing).
 */

import { Memo } from "../memo.ts";
import {
  list,
  CHOOSING_FIRST_WORDS,
  FILLER_WORDS,
  WORDS_BEFORE_SECRET_KEY,
  LIKELY_AT_END,
  WORDS_BEFORE_SECRET_LIST,
  WORDS_BEFORE_KEY_NAME,
  WORDS_WITHOUT_SECRET,
  DESCRIBING_LAST_WORDS,
  SECRET_ANYWHERE,
  SECRET_AT_END,
  SECRET_SUBSTRING,
  WORDS_BEFORE_SECRET_NAME,
} from "./vocabulary.ts";

/** What a key says about its value: see the head of this file. */
export type KeyClass = "secret" | "likely" | "keyName" | "about" | "plain";

/** Keys that mean something only together with the key above them. */
const NEEDS_PARENT = /^[^a-z0-9]*(?:keys?|auth|cert|string|url|id|hash|secret|community)[^a-z0-9]*$/i;
/** Results by key, since the same keys occur many times. */
const classifiedKeys = new Memo<KeyClass>(10_000);

/** Classifies a key, from a cache. `parent` is the key above it, which counts only for keys like `key` and `url`. */
export function classifyKey(key: string, parent = ""): KeyClass {
  const cacheKey = NEEDS_PARENT.test(key) ? `${parent}\0${key}` : key;
  return classifiedKeys.getOrMake(cacheKey, () => classifyWithParent(key, parent));
}

/** True if values of this key must be redacted: passwords, tokens, keys, certificates. */
export function looksSecret(key: string): boolean {
  const keyClass = classifyKey(key);
  return keyClass === "secret" || keyClass === "likely" || keyClass === "keyName";
}

/** Splits a key into words in lower case, at separators and capitals: `dbPassword2` into `db` and `password2`. */
function splitWords(key: string): string[] {
  const spaced = key.replaceAll(/([a-z0-9])([A-Z])/g, "$1 $2").replaceAll(/([A-Z])(?=[A-Z][a-z])/g, "$1 ");
  return (spaced.match(/[A-Za-z0-9]+/g) ?? []).flatMap((word) => splitCompoundKey(word.toLowerCase()));
}

/** Splits a word that ends in `key` and begins with a known word: `accountkey` is `account`, `key`. Keeps others (`monkey`). */
function splitCompoundKey(word: string): string[] {
  const [, before = ""] = /^([a-z]+)keys?$/.exec(word) ?? [];
  return WORDS_BEFORE_SECRET_KEY.has(before) ? [before, word.slice(before.length)] : [word];
}

/** Classifies a key without the cache. For a key like `url`, the last two words of its parent's key count too. */
function classifyWithParent(key: string, parent: string): KeyClass {
  const ownWords = splitWords(key);
  const words = NEEDS_PARENT.test(key) ? [...splitWords(parent).slice(-2), ...ownWords] : ownWords;
  return classifyWords(dropFillers(words), ownWords.length);
}

/**
 * Drops words and digits at the end that say nothing: `encryptionKeyData`, `apiKey1` and `tokenOld` are classified as
 * `encryptionKey`, `apiKey` and `token`. Replaces some combinations of words by one word that the rules know.
 */
function dropFillers(allWords: readonly string[]): string[] {
  const words = [...allWords];
  const isFiller = (word: string): boolean => FILLER_WORDS.has(word) || /^\d+$/.test(word);
  if (isConnectionString(words)) return ["connectionstring"];
  const joined = ` ${words.join(" ")}`;
  if (/ docker (?:config|cfg) json$/.test(joined)) return ["dockerconfigjson"];
  if (/ basic ?auth users$/.test(joined)) return ["htpasswd"];
  while (words.length > 1 && isFiller(words.at(-1) ?? "")) words.pop();
  // `password2` becomes `password`; `base64` and `sha256` stay.
  return words.map((word) =>
    DESCRIBING_LAST_WORDS.has(word) ? word : word.replace(/^([a-z]{3,})\d{1,3}$/, "$1"),
  );
}

/** Whether the words contain `connection string`, also in its short forms. */
function isConnectionString(words: readonly string[]): boolean {
  const index = words.findIndex((word) => word === "connection" || word === "conn");
  return index >= 0 && /^(?:string|str)s?\d*$/.test(words[index + 1] ?? "");
}

/** The words of a key, its last word and the word before it. The last `ownCount` words are its own, others the parent's. */
interface KeyWords {
  readonly words: readonly string[];
  readonly last: string;
  readonly before: string;
  readonly ownCount: number;
}

/** The first rule that returns a classification decides. A rule returns undefined if it does not apply. */
const RULES: readonly ((key: KeyWords) => KeyClass | undefined)[] = [
  ({ words }) => (words.includes("checksum") || words.includes("existing") ? "about" : undefined),
  (key) => (isWebhookUrl(key) ? "secret" : undefined),
  ({ last, before }) => (last === "id" && before === "secret" ? "secret" : undefined),
  ({ words, last }) =>
    words.length > 1 && CHOOSING_FIRST_WORDS.has(words[0] ?? "") && !KEY_WORD.test(last)
      ? "about"
      : undefined,
  ({ last, before }) => (DIGEST_WORD.test(last) && PASSWORD_WORD.test(before) ? "likely" : undefined),
  ({ last }) => (DESCRIBING_LAST_WORDS.has(last) ? "about" : undefined),
  ({ last, before }) => (KEY_WORD.test(last) ? classifyKeyEndingInKey(before) : undefined),
  ({ last, before, ownCount }) =>
    /^secrets?$/.test(last) ? classifyKeyEndingInSecret(before, ownCount) : undefined,
  ({ words, last, before }) =>
    words.some(isSecretWord) || SECRET_AT_END.has(last) || SECRET_AT_END.has(before + last)
      ? "secret"
      : undefined,
  ({ last, before }) => (LIKELY_AT_END.has(last) && before !== "public" ? "likely" : undefined),
];
const KEY_WORD = /^keys?$/;
const PASSWORD_WORD = /^passw(?:or)?ds?$/;
const DIGEST_WORD = /^(?:digest|md5|sha\d*)$/;

/** Classifies a key by the first rule that applies to its words, of which the last `ownCount` are its own, others those of the key above it. */
function classifyWords(words: readonly string[], ownCount: number): KeyClass {
  const key = { words, ownCount, last: words.at(-1) ?? "", before: words.at(-2) ?? "" };
  for (const rule of RULES) {
    const keyClass = rule(key);
    if (keyClass !== undefined) return keyClass;
  }
  return "plain";
}

/**
 * Whether a key such as `webhookUrl` names a secret URL (`https://hooks.…/…`): who knows it can post there. The key itself must have
 * both words (`ownCount` counts the words that do not come from the key above it): `url` below a key `webhook` may be any address.
 */
function isWebhookUrl({ last, before, ownCount }: KeyWords): boolean {
  return ownCount > 1 && /^ur[li]s?$/.test(last) && /^(?:webhook|hook|incoming)s?$/.test(before);
}

/** Classifies a key whose last word is `key`, by the word `before` it: `secretKey` may name a key of a Secret, `apiKey` is secret. */
function classifyKeyEndingInKey(before: string): KeyClass {
  if (/^(?:secret|token)s?$/.test(before)) return "keyName";
  if (WORDS_BEFORE_SECRET_KEY.has(before)) return "secret";
  if (WORDS_BEFORE_KEY_NAME.has(before)) return "about";
  return "likely";
}

/** Whether a word makes its key secret at any position in the key: `password`, or a word that contains one (`mysqlpass`). */
function isSecretWord(word: string): boolean {
  if (SECRET_ANYWHERE.has(word)) return true;
  if (WORDS_WITHOUT_SECRET.has(word)) return false;
  return SECRET_SUBSTRING.test(word) || (word.length > 5 && word.endsWith("pass"));
}

/**
 * Classifies a key that ends in `secret`, by the word `before` it: `imagePullSecrets` are names of Secrets, `tlsSecret` mostly is one,
 * `secret` alone may be one, `clientSecret` is a secret. `ownCount` counts the words that do not come from the key above it.
 */
function classifyKeyEndingInSecret(before: string, ownCount: number): KeyClass {
  if (WORDS_BEFORE_SECRET_LIST.has(before)) return "about";
  if (WORDS_BEFORE_SECRET_NAME.has(before)) return "likely";
  return ownCount === 1 && !WORDS_BEFORE_SECRET_KEY.has(before) ? "keyName" : "secret";
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

/** True for a text that is no secret under any key: `true`, `1h`, or a reference to a secret such as `${PASSWORD}`. */
export function isHarmless(text: string): boolean {
  if (text.length === 0 || SWITCH_WORD.test(text) || DURATION.test(text)) return true;
  const mayBeReference = /^[$%<{/a-z]/i.test(text);
  return mayBeReference && REFERENCES.some((form) => form.test(text));
}

const NAME_FORM = /^[A-Za-z][A-Za-z]*\d{0,4}(?:[-_./][A-Za-z0-9][A-Za-z]*\d{0,4})*$/;
const NUMBER_FORM = /^[-+]?\d[\d.]*\s?[A-Za-z%]{0,2}$/;
const PATH_FORM = /^\.{0,2}\/[\w./-]*$/;
const EMAIL_FORM = /^[\w.+-]+@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+$/;
const URL_FORM = /^[a-z][a-z0-9+.-]{1,20}:\/\/[\w.:-]+(?:\/[\w./-]*)?$/i;
/** Three and more words of letters. */
const SENTENCE_FORM = /^[A-Za-z][a-z]*(?: [A-Za-z][a-z]*){2,40}\.?$/;

/** True for names, paths, numbers, addresses and sentences: under a key that is only likely to be secret, they are displayed. */
export function looksLikeName(text: string): boolean {
  if (text.length < 2 || text.length > 200) return false;
  if (NUMBER_FORM.test(text) || EMAIL_FORM.test(text) || SENTENCE_FORM.test(text)) return true;
  // A token such as `a1b2c3d4` has the form of a name, too.
  const mayBeName = NAME_FORM.test(text) || PATH_FORM.test(text) || URL_FORM.test(text);
  return mayBeName && !looksRandom(text) && !hasMixedPart(text);
}

/** A part like `a1b2c3`: letters and digits change places more than once. */
function hasMixedPart(text: string): boolean {
  return text.split(/[-_./:]/).some((part) => (part.match(/\d+/g)?.length ?? 0) > 1);
}

/** Words that names of Secrets and of keys in them have. */
const KEY_WORDS = list(
  "key keys user username crt cert certs ca tls auth id accesskey secretkey conf config license regcred",
);

/** Words of well-known placeholder passwords. */
const PLACEHOLDER_WORDS = list(
  "not a the change changeme changeit secure insecure super top random very use please replace example",
);

/**
 * True for a text that names a Secret or a key in one: `admin-password`, `tls.key`. False for a placeholder password
 * (`change-me-secret`), and for a text with a digit, which is likelier a password.
 */
export function looksLikeKeyName(text: string): boolean {
  if (!/^[A-Za-z][A-Za-z._-]{1,80}$/.test(text)) return false;
  const words = splitWords(text);
  return (
    words.some((word) => KEY_WORDS.has(word) || SECRET_ANYWHERE.has(word)) &&
    !words.some((word) => PLACEHOLDER_WORDS.has(word))
  );
}

/** Only parts of this length are tested for randomness. In a random part, runs of one kind are short on average. */
const MIN_RANDOM_LENGTH = 20;
const MAX_RANDOM_RUN = 2.5;
const ALPHANUMERIC_PART = /[A-Za-z0-9]{20,}/g;
/** A run of characters of one kind: `Camel`, `lower`, `UPPER`, `123`. */
const CHARACTER_RUN = /[A-Z]?[a-z]+|[A-Z]+|\d+/g;
const HEX = /^(?:[0-9a-f]+|[0-9A-F]+)$/;

/** True when a part of the text has letters and digits in no order, as keys and tokens have. */
export function looksRandom(text: string): boolean {
  if (text.length < MIN_RANDOM_LENGTH) return false;
  return [...text.matchAll(ALPHANUMERIC_PART)].some(([part]) => isRandomPart(part));
}

/** Whether a part is a long hexadecimal number, or mixes letters and digits in short runs (`Camel`, `UPPER`, `123` are runs). */
function isRandomPart(part: string): boolean {
  if (!/\d/.test(part) || !/[A-Za-z]/.test(part)) return false;
  if (HEX.test(part)) return part.length >= 32;
  const runs = part.match(CHARACTER_RUN)?.length ?? 1;
  return part.length / runs < MAX_RANDOM_RUN;
}
