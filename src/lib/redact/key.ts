/** What the name of a key says of its value. */

import { Memo } from "../memo.ts";
import {
  CHOOSES,
  FILLERS,
  KEYS_OF,
  LISTS_SECRETS,
  LIKELY_AT_END,
  NAMES_BY_KEY,
  NO_SECRET_PART,
  ONLY_ABOUT,
  SECRET_ANYWHERE,
  SECRET_AT_END,
  SECRETS_BY_NAME,
  SECRET_PART,
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
export function words(key: string): string[] {
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
