/** Judges what may be secret: by the name of its key, and by its own form. */

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
 * What a key says of its value: `secret`; `likely`, unless it is a name, a path or a number; `keyName`, unless it is
 * the key of a value in a Secret, or that Secret's name; `about`: not the secret itself; `plain`: nothing.
 */
export type Says = "secret" | "likely" | "keyName" | "about" | "plain";

/** Keys that say too little alone. */
const COMPLETED = /^[^a-z0-9]*(?:keys?|auth|cert|string|url|id|hash|secret|community)[^a-z0-9]*$/i;
/** Values have few distinct keys and many of each. */
const judged = new Memo<Says>(10_000);

/** What `key` says of its value; `parent` is the key above it, which completes keys like `key` and `url`. */
export function judgeKey(key: string, parent = ""): Says {
  const id = COMPLETED.test(key) ? `${parent}\0${key}` : key;
  return judged.get(id, () => judge(key, parent));
}

/** True when a value under this key must not be shown: passwords, tokens, keys, certificates and the like. */
export function looksSecret(key: string): boolean {
  const says = judgeKey(key);
  return says === "secret" || says === "likely" || says === "keyName";
}

/** The words of a key in lower case, without digits at their ends. */
function words(key: string): string[] {
  const apart = key.replaceAll(/([a-z0-9])([A-Z])/g, "$1 $2").replaceAll(/([A-Z])(?=[A-Z][a-z])/g, "$1 ");
  return (apart.match(/[A-Za-z0-9]+/g) ?? []).flatMap((word) => joined(word.toLowerCase()));
}

/** `accountkey` is two words. */
function joined(word: string): string[] {
  const [, before = ""] = /^([a-z]+)keys?$/.exec(word) ?? [];
  return KEYS_OF.has(before) ? [before, word.slice(before.length)] : [word];
}

function judge(key: string, parent: string): Says {
  const own = words(key);
  const all = COMPLETED.test(key) ? [...words(parent).slice(-2), ...own] : own;
  return judgeWords(withoutFillers(all), own.length);
}

/** `encryptionKeyData`, `apiKey1`, `tokenOld`: what stands before counts. */
function withoutFillers(all: readonly string[]): string[] {
  const found = [...all];
  const isFiller = (word: string): boolean => FILLERS.has(word) || /^\d+$/.test(word);
  if (isConnection(found)) return ["connectionstring"];
  const joint = ` ${found.join(" ")}`;
  if (/ docker (?:config|cfg) json$/.test(joint)) return ["dockerconfigjson"];
  if (/ basic ?auth users$/.test(joint)) return ["htpasswd"];
  while (found.length > 1 && isFiller(found.at(-1) ?? "")) found.pop();
  // `base64` and `sha256` are words of their own.
  return found.map((word) =>
    /^[a-z]{3,}\d{1,3}$/.test(word) && !ONLY_ABOUT.has(word) ? word.replace(/\d{1,3}$/, "") : word,
  );
}

function isConnection(all: readonly string[]): boolean {
  const at = all.findIndex((word) => word === "connection" || word === "conn");
  return at >= 0 && /^(?:string|str)s?\d*$/.test(all[at + 1] ?? "");
}

/** The words of a key, and how many of them are its own: others are the parent's. */
interface Words {
  readonly all: readonly string[];
  readonly last: string;
  readonly before: string;
  readonly own: number;
}

/** The first rule that knows an answer gives it. */
const RULES: readonly ((key: Words) => Says | undefined)[] = [
  ({ all }) => (all.includes("checksum") || all.includes("existing") ? "about" : undefined),
  (key) => (isWebhookUrl(key) ? "secret" : undefined),
  ({ last, before }) => (last === "id" && before === "secret" ? "secret" : undefined),
  ({ all, last }) => (all.length > 1 && CHOOSES.has(all[0] ?? "") && !KEY.test(last) ? "about" : undefined),
  ({ last, before }) => (DIGEST.test(last) && PASSWORD.test(before) ? "likely" : undefined),
  ({ last }) => (ONLY_ABOUT.has(last) ? "about" : undefined),
  ({ last, before }) => (KEY.test(last) ? judgeKeyOf(before) : undefined),
  ({ last, before, own }) => (/^secrets?$/.test(last) ? judgeSecret(before, own) : undefined),
  ({ all, last, before }) =>
    all.some(isSecretWord) || SECRET_AT_END.has(last) || SECRET_AT_END.has(before + last)
      ? "secret"
      : undefined,
  ({ last, before }) => (LIKELY_AT_END.has(last) && before !== "public" ? "likely" : undefined),
];
const KEY = /^keys?$/;
const PASSWORD = /^passw(?:or)?ds?$/;
const DIGEST = /^(?:digest|md5|sha\d*)$/;

function judgeWords(all: readonly string[], own: number): Says {
  const key = { all, own, last: all.at(-1) ?? "", before: all.at(-2) ?? "" };
  for (const rule of RULES) {
    const says = rule(key);
    if (says !== undefined) return says;
  }
  return "plain";
}

/** `https://hooks.…/…`: who knows it may write there. Alone, `url` below `webhook` may be any address. */
function isWebhookUrl({ last, before, own }: Words): boolean {
  return own > 1 && /^ur[li]s?$/.test(last) && /^(?:webhook|hook|incoming)s?$/.test(before);
}

function judgeKeyOf(before: string): Says {
  if (/^(?:secret|token)s?$/.test(before)) return "keyName";
  if (KEYS_OF.has(before)) return "secret";
  if (NAMES_BY_KEY.has(before)) return "about";
  return "likely";
}

function isSecretWord(word: string): boolean {
  if (SECRET_ANYWHERE.has(word)) return true;
  return !NO_SECRET_PART.has(word) && (SECRET_PART.test(word) || (word.length > 5 && word.endsWith("pass")));
}

/** `imagePullSecrets` are names, `tlsSecret` mostly is one, `secret` alone may be one. */
function judgeSecret(before: string, own: number): Says {
  if (LISTS_SECRETS.has(before)) return "about";
  if (SECRETS_BY_NAME.has(before)) return "likely";
  return own === 1 && !KEYS_OF.has(before) ? "keyName" : "secret";
}

/** Words for yes and no, and texts that only refer to where a secret is kept. */
const SWITCH = /^(?:true|false|yes|no|on|off|null|~|enabled|disabled|required|optional)$/i;
/** `accessToken: 1h` is how long one lives. */
const DURATION = /^\d{1,4}(?:ms|[smhd])$/;
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

/** True for what is no secret under any key. */
export function isHarmless(text: string): boolean {
  if (text.length === 0 || SWITCH.test(text) || DURATION.test(text)) return true;
  return /^[$%<{/a-z]/i.test(text) && REFERENCES.some((form) => form.test(text));
}

const NAME = /^[A-Za-z][A-Za-z]*\d{0,4}(?:[-_./][A-Za-z0-9][A-Za-z]*\d{0,4})*$/;
const NUMBER = /^[-+]?\d[\d.]*\s?[A-Za-z%]{0,2}$/;
const PATH = /^\.{0,2}\/[\w./-]*$/;
const EMAIL = /^[\w.+-]+@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+$/;
const PLAIN_URL = /^[a-z][a-z0-9+.-]{1,20}:\/\/[\w.:-]+(?:\/[\w./-]*)?$/i;

/** True for names, paths, numbers and addresses: under a key that is only likely to be secret, they are shown. */
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

/** Words of passwords that nobody was to use. */
const JOKES = new Set(
  "not a the change changeme changeit secure insecure super top random very use please replace example".split(
    " ",
  ),
);

/** True for what names a Secret or a value in it: `my-app-secret`, `admin-password`, `tls.key`. */
export function looksLikeKeyName(text: string): boolean {
  if (!/^[A-Za-z][A-Za-z._-]{1,80}$/.test(text)) return false;
  const parts = words(text);
  return (
    parts.some((word) => KEY_WORDS.has(word) || SECRET_ANYWHERE.has(word)) &&
    !parts.some((word) => JOKES.has(word))
  );
}

/** Least length of a part that is judged by its randomness, and how long its runs of one kind are at most. */
const RANDOM_LENGTH = 20;
const RANDOM_RUN = 2.5;
const PART = /[A-Za-z0-9]{20,}/g;
/** `Camel`, `lower`, `UPPER`, `123`. */
const RUN = /[A-Z]?[a-z]+|[A-Z]+|\d+/g;
const HEX = /^(?:[0-9a-f]+|[0-9A-F]+)$/;

/** True when a part of the text has letters and digits in no order, as keys and tokens have. */
export function looksRandom(text: string): boolean {
  if (text.length < RANDOM_LENGTH) return false;
  return [...text.matchAll(PART)].some(([part]) => isRandom(part));
}

function isRandom(part: string): boolean {
  if (!/\d/.test(part) || !/[A-Za-z]/.test(part)) return false;
  if (HEX.test(part)) return part.length >= 32;
  const runs = part.match(RUN)?.length ?? 1;
  return part.length / runs < RANDOM_RUN;
}
