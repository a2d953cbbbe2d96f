/** Hides what a text, a command line or a list of arguments gives to keys that look secret. */

import { judgeKey, looksSecret, isHarmless, looksLikeKeyName, looksLikeName } from "./judge.ts";
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
function isSecretGiven(key: string, value: string, isProse: boolean): boolean {
  if (isHarmless(value) || (isProse && PROSE.has(value))) return false;
  const says = judgeKey(key);
  if (says === "keyName") return !looksLikeKeyName(value);
  if (says !== "likely") return says === "secret";
  return !looksLikeName(value) && (!isProse || value.length >= 4);
}

/** A well-known command that takes a password on its command line. */
interface Command {
  readonly name: RegExp;
  /** The short flag before it. */
  readonly flag?: RegExp;
  /** How many arguments stand between flag and password. */
  readonly between?: number;
  /** The flag that it follows without a space. */
  readonly attached?: RegExp;
}

const COMMANDS: readonly Command[] = [
  { name: /^(?:mysql|mariadb)[\w-]*$/, attached: /^-p./ },
  { name: /^7z\w?$/, attached: /^-p./ },
  { name: /^sshpass$/, flag: /^-p$/, attached: /^-p./ },
  {
    name: /^(?:zip|unzip|docker|podman|nerdctl|helm|oc|mongo\w*|impala-shell|influx)$/,
    flag: /^-[pP]$/,
  },
  { name: /^(?:sqlcmd|bcp|osql)$/, flag: /^-P$/, attached: /^-P./ },
  { name: /^az$/, flag: /^-p$/ },
  { name: /^rabbitmqctl$/, flag: /^(?:add_user|change_password)$/, between: 1 },
  { name: /^mc$/, flag: /^set$/, between: 3 },
  { name: /^redis-\w+$/, flag: /^-a$/ },
  { name: /^(?:ldap|slap)\w+$/, flag: /^-w$/, attached: /^-w./ },
  {
    name: /^(?:curl|wget|https?|nats|mc|smbclient|etcdctl)$/,
    flag: /^(?:-[uU]|--user|--proxy-user)$/,
    attached: /^-u[^:]+:./,
  },
  // `htpasswd -nb user password`, `htpasswd -b file user password`
  { name: /^htpasswd$/, flag: /^-(?=\w{0,9}n)\w{0,9}b\w{0,9}$/, between: 1 },
  { name: /^htpasswd$/, flag: /^-(?!\w{0,9}n)\w{0,9}b\w{0,9}$/, between: 2 },
];
/** What a command may stand behind: a path, the begin of a quotation. */
const BEFORE_NAME = /^.*[/;&|(`"'](?=.)/s;
const FLAG = /^--?([A-Za-z][\w.-]{1,63})$/;
const ANY_FLAG = /^--?[A-Za-z]/;
const ENDS = /^(?:\|\|?|&&?|;)$/;

/** The passwords in an argument list, by their place, as they may be shown. */
export function hideArguments(items: readonly string[], hide: Hide): ReadonlyMap<number, string> {
  const known = new Set<Command>();
  const hidden = new Map<number, string>();
  for (const [at, item] of items.entries()) {
    if (ENDS.test(item)) known.clear();
    const name = item.replace(BEFORE_NAME, "");
    for (const each of COMMANDS) if (each.name.test(name)) known.add(each);
    const isAttached = [...known].some(({ attached }) => attached?.test(item));
    if (isAttached) hidden.set(at, item.slice(0, 2) + hideArgument(item.slice(2), hide));
    const place = at + 1 + ([...known].find(({ flag }) => flag?.test(item))?.between ?? 0);
    const next = items[place];
    if (next !== undefined && takesSecret(item, next, known)) hidden.set(place, hideArgument(next, hide));
  }
  return hidden;
}

function takesSecret(item: string, next: string, known: ReadonlySet<Command>): boolean {
  if (PROSE.has(next) || ANY_FLAG.test(next)) return false;
  const flag = FLAG.exec(item)?.[1];
  if (flag !== undefined && isSecretGiven(flag, next, true)) return true;
  return [...known].some((each) => each.flag?.test(item));
}

/** What stands before the secret: a quote, a user; and the secret up to the quote that ends it. */
const ARGUMENT = /^(["'`]?(?:[\w.@-]{1,64}:(?=.))?)(.*?)(?=["'`]?$)/s;

/** Of `user:password` the password; quotes stay, references to the environment too. */
function hideArgument(text: string, hide: Hide): string {
  return text.replace(ARGUMENT, (all, before: string, secret: string) =>
    isHarmless(secret) || /^\$\w+$/.test(secret) || secret.startsWith(STAND_IN) ? all : before + hide(secret),
  );
}

/** A command line without the passwords in it. */
export function hideCommandLine(text: string, hide: Hide): string {
  if (!/(?:^|\s)(?:--?[A-Za-z]|add_user\s|change_password\s|alias set\s)/.test(text)) return text;
  // Every other part is white space.
  const parts = text.split(/(\s+)/);
  const items = parts.filter((_, at) => at % 2 === 0);
  const hidden = hideArguments(items, hide);
  return parts.map((part, at) => hidden.get(at / 2) ?? part).join("");
}
