/** Hides what a text gives to keys that look secret. */

import { judgeKey, looksSecret } from "./key.ts";
import { isHarmless, looksLikeKeyName, looksLikeName } from "./forms-of-words.ts";
import { STAND_IN, type Hide } from "./stand-in.ts";
import { PROSE, SECRET_ANYWHERE } from "./vocabulary.ts";

/** A key and a sign that a value follows: `key=`, `"key": `; quotes may be escaped. */
const GIVES = /([\w.-]{2,64})(\\*["']?\]?\s{0,20}(?::=|=>|[:=])\s{0,200})/g;
/** The value: quoted, quoted in a quotation, or up to where it must end. */
const GIVEN = /"(?:[^"\\]|\\.)*|\\+["'][^"'\\]*|[EN]?'[^']*|[^\s,;&"'{}[\])<]+/y;
const SCHEME = /\b((?:Bearer|Basic|Token|ApiKey|GenieKey|Splunk)[ \t]{1,20})([A-Za-z0-9._~+/=-]{8,4000})/gi;
/** `CREATE ROLE app PASSWORD 'secret'`, `IDENTIFIED WITH plugin BY 'secret'`, `SET PASSWORD FOR app = 'secret'`. */
const QUOTED =
  /\b((?:passw(?:or)?d(?:\s{1,9}for\s{1,9}\S{1,80}\s{0,9}=)?|passphrase|identified(?:\s{1,9}with\s{1,9}[\w"'`]{1,64})?\s{1,9}(?:by|as))\s{1,9})([EN]?'(?:[^'\\]|\\.|''){1,256}(?=')|"(?:[^"\\]|\\.){1,256}(?=")|\$\$[^$]{1,256}(?=\$\$))/gi;
/** The end of a line in a configuration, a key and a value: `requirepass secret`, `auth_pass s3c;`. */
const DIRECTIVE = /(?<![\w.-])([\w.-]{2,64})([ \t]{1,20}\S{1,256}?)(?=["']?;?[ \t]{0,20}$)/gm;
/** `<property name="password" value="secret"/>`, `<name>password</name><value>secret</value>`. */
const PAIR =
  /((?:\b(?:name|key)=["']|<(?:name|key)>)([\w.-]{2,64})(?:["']|<\/\w{2,4}>)\s{0,40}(?:value=["']|<(?:value|string)>))([^"'<]{1,300})/gi;
const ELEMENT = /<([\w.-]{2,64})>([^<>\s][^<>]{0,300})(?=<\/)/g;
/** Without one of these no key looks secret; most texts have none. */
const HINT =
  /pass|pwd|pw|secret|token|cred|dsn|identified|key|cert|crt|pem|pfx|jwt|kubeconfig|docker|htpasswd|auth|cookie|session|salt|bearer|basic|hmac|sig|connection|licen[cs]e|psk|pat|pin|seed|otp|mnemonic|nonce|netrc|crypt|hook|sas|splunk/i;

/**
 * A text without what is given to secret-looking keys (`password=…`, `"token": "…"`, `Authorization: Bearer …`).
 * In prose a colon alone gives nothing: `secret: not found`.
 */
export function hideGiven(text: string, hide: Hide, isProse: boolean): string {
  if (!HINT.test(text)) return text;
  const plain = text.replaceAll(SCHEME, (all, scheme: string, value: string) =>
    // `Basic authentication failed`: what is encoded or random is hardly ever lower case alone.
    /^[a-z]+$/.test(value) ? all : `${scheme}${hide(value)}`,
  );
  return hideAssigned(hideBeside(hideElements(plain, hide), hide, isProse), hide, isProse);
}

function hideElements(text: string, hide: Hide): string {
  if (!text.includes("<")) return text;
  const plain = text.replaceAll(ELEMENT, (all, name: string, value: string) =>
    isSecretGiven(name, value, false) ? `<${name}>${hide(value)}` : all,
  );
  return plain.replaceAll(PAIR, (all, ...[before = "", key = "", value = ""]: string[]) =>
    isSecretGiven(key, value, false) ? before + hide(value) : all,
  );
}

/** What stands beside its key, without a sign between them. */
function hideBeside(text: string, hide: Hide, isProse: boolean): string {
  const plain = text.replaceAll(
    QUOTED,
    (_, before: string, value: string) => before + hideBehind(/^(?:[EN]?'|"|\$\$)/i, value, hide),
  );
  if (isProse || !plain.includes("\n")) return plain;
  return plain.replaceAll(DIRECTIVE, (all, key: string, rest: string) => {
    const value = rest.trimStart();
    const isWords = SECRET_ANYWHERE.has(key.toLowerCase()) && /^[A-Z]?[a-z]+[.,:]?$/.test(value);
    if (!looksSecret(key) || isWords) return all;
    return key + rest.slice(0, rest.length - value.length) + hideQuoted({ key, value, isProse: true }, hide);
  });
}

function hideAssigned(text: string, hide: Hide, isProse: boolean): string {
  const parts: string[] = [];
  let done = 0;
  GIVES.lastIndex = 0;
  for (let found = GIVES.exec(text); found !== null; found = GIVES.exec(text)) {
    const [, key = "", glue = ""] = found;
    const from = GIVES.lastIndex;
    if (!looksSecret(key)) continue;
    const value = givenAt(text, from);
    const isGivenHere = isGiven(glue, value) || (!isProse && !glue.includes("\n"));
    parts.push(text.slice(done, from), isGivenHere ? hideQuoted({ key, value, isProse }, hide) : value);
    done = from + value.length;
    GIVES.lastIndex = done;
  }
  return parts.join("") + text.slice(done);
}

function givenAt(text: string, from: number): string {
  GIVEN.lastIndex = from;
  return GIVEN.exec(text)?.[0] ?? "";
}

/** Without quotes or an equals sign, what follows may be prose. */
function isGiven(glue: string, value: string): boolean {
  return /["'=]/.test(glue) || /["']/.test(value) || (value.length >= 6 && /\d/.test(value));
}

function hideQuoted(
  { key, value, isProse }: { key: string; value: string; isProse: boolean },
  hide: Hide,
): string {
  return hideBehind(/^(?:[EN](?='))?\\*["']?/, value, (rest) =>
    rest.startsWith(STAND_IN) || !isSecretGiven(key, rest, isProse) ? rest : hide(rest),
  );
}

/** `text` with all hidden but its begin. */
function hideBehind(begin: RegExp, text: string, hide: Hide): string {
  const kept = begin.exec(text)?.[0] ?? "";
  return kept + hide(text.slice(kept.length));
}

/** Whether a value given to a key in a text is secret; in prose a short one of a key that is only likely to be so is a word. */
export function isSecretGiven(key: string, value: string, isProse: boolean): boolean {
  if (isHarmless(value) || (isProse && PROSE.has(value))) return false;
  const says = judgeKey(key);
  if (says === "keyName") return !looksLikeKeyName(value);
  if (says !== "likely") return says === "secret";
  return !looksLikeName(value) && (!isProse || value.length >= 4);
}
