/**
 * Redacts the values of secret-looking keys in texts, and passwords in command lines and argument lists. In all functions, `hide`
 * returns the placeholder of a secret, and `isProse` says that the text is a message for people, in which plain words after a colon
 * are no value (`secret: not found`); else the text is a configuration or output, in which they are.
 */

import { classifyKey, looksSecret, isHarmless, looksLikeKeyName, looksLikeName } from "./classify.ts";
import { PLACEHOLDER, type Hide } from "./placeholder.ts";
import { PROSE_WORDS, SECRET_ANYWHERE } from "./vocabulary.ts";

/** A key and the separator before its value: `key=`, `"key": `; quotes may be escaped. */
const KEY_AND_SEPARATOR = /([\w.-]{2,64})(\\*["']?\]?\s{0,20}(?::=|=>|[:=])\s{0,200})/g;
/** The value: quoted, quoted in a quotation, or up to where it must end. */
const VALUE = /"(?:[^"\\]|\\.)*|\\+["'][^"'\\]*|[EN]?'[^']*|[^\s,;&"'{}[\])<]+/y;
const AUTH_SCHEME =
  /\b((?:Bearer|Basic|Token|ApiKey|GenieKey|Splunk)[ \t]{1,20})([A-Za-z0-9._~+/=-]{8,4000})/gi;
/** `CREATE ROLE app PASSWORD 'secret'`, `IDENTIFIED WITH plugin BY 'secret'`, `SET PASSWORD FOR app = 'secret'`. */
const SQL_PASSWORD =
  /\b((?:passw(?:or)?d(?:\s{1,9}for\s{1,9}\S{1,80}\s{0,9}=)?|passphrase|identified(?:\s{1,9}with\s{1,9}[\w"'`]{1,64})?\s{1,9}(?:by|as))\s{1,9})([EN]?'(?:[^'\\]|\\.|''){1,256}(?=')|"(?:[^"\\]|\\.){1,256}(?=")|\$\$[^$]{1,256}(?=\$\$))/gi;
/** The end of a line in a configuration, a key and a value: `requirepass secret`, `auth_pass s3c;`. */
const CONFIG_LINE = /(?<![\w.-])([\w.-]{2,64})([ \t]{1,20}\S{1,256}?)(?=["']?;?[ \t]{0,20}$)/gm;
/** `<property name="password" value="secret"/>`, `<name>password</name><value>secret</value>`. */
const XML_NAME_AND_VALUE =
  /((?:\b(?:name|key)=["']|<(?:name|key)>)([\w.-]{2,64})(?:["']|<\/\w{2,4}>)\s{0,40}(?:value=["']|<(?:value|string)>))([^"'<]{1,300})/gi;
const XML_ELEMENT = /<([\w.-]{2,64})>([^<>\s][^<>]{0,300})(?=<\/)/g;
/** Every secret-looking key contains one of these. Most texts contain none, so they are not searched further. */
const SECRET_KEY_HINT =
  /pass|pwd|pw|secret|token|cred|dsn|identified|key|cert|crt|pem|pfx|jwt|kubeconfig|docker|htpasswd|auth|cookie|session|salt|bearer|basic|hmac|sig|connection|licen[cs]e|psk|pat|pin|seed|otp|mnemonic|nonce|netrc|crypt|hook|sas|splunk/i;

/** A text without the values of secret-looking keys (`password=…`, `"token": "…"`, `Authorization: Bearer …`). */
export function hideKeyedSecrets(text: string, hide: Hide, isProse: boolean): string {
  if (!SECRET_KEY_HINT.test(text)) return text;
  const plain = text.replaceAll(AUTH_SCHEME, (all, scheme: string, value: string) =>
    // A word in lower case is prose (`Basic authentication failed`): a token has other characters too.
    /^[a-z]+$/.test(value) ? all : `${scheme}${hide(value)}`,
  );
  return hideAfterSeparator(hideAfterKey(hideXmlValues(plain, hide), hide, isProse), hide, isProse);
}

/** Hides values in XML: `<password>…</password>`, `<property name="password" value="…"/>`. */
function hideXmlValues(text: string, hide: Hide): string {
  if (!text.includes("<")) return text;
  const plain = text.replaceAll(XML_ELEMENT, (all, name: string, value: string) =>
    isSecretValue(name, value, false) ? `<${name}>${hide(value)}` : all,
  );
  return plain.replaceAll(XML_NAME_AND_VALUE, (all, ...[before = "", key = "", value = ""]: string[]) =>
    isSecretValue(key, value, false) ? before + hide(value) : all,
  );
}

/** Hides values that follow their key without `=` or `:`: in SQL (`PASSWORD '…'`), and at line ends of configurations (`requirepass …`). */
function hideAfterKey(text: string, hide: Hide, isProse: boolean): string {
  const plain = text.replaceAll(
    SQL_PASSWORD,
    (_, before: string, value: string) => before + hideAfterPrefix(/^(?:[EN]?'|"|\$\$)/i, value, hide),
  );
  if (isProse || !plain.includes("\n")) return plain;
  return plain.replaceAll(CONFIG_LINE, (all, key: string, rest: string) => {
    const value = rest.trimStart();
    // Words of a sentence, as in `the token expired.`
    const areWords = SECRET_ANYWHERE.has(key.toLowerCase()) && /^[A-Z]?[a-z]+[.,:]?$/.test(value);
    if (!looksSecret(key) || areWords) return all;
    const space = rest.slice(0, rest.length - value.length);
    // Every line of a text ends with two words that could be key and value, so that they count as prose.
    return key + space + hideSecretValue({ key, value, isProse: true }, hide);
  });
}

/**
 * What a shell replaces, in place of a value: `PASSWORD=${NAME}`, or the beginning of a command, `PASSWORD=$(kubectl get …)`. The
 * arguments of the command can contain secrets.
 */
const SHELL_REFERENCE = /["']?\$(?:\{\w{1,64}\}(?=["'\s;,]|$)|\([a-z][\w./-]{0,64}(?=[ \t]))/y;

/**
 * Hides values that follow a secret-looking key and a separator: `password=…`, `"token": "…"`. In prose it hides only what looks like
 * a value, so that "the token: it has expired" stays readable; elsewhere, everything on the line of the key.
 */
function hideAfterSeparator(text: string, hide: Hide, isProse: boolean): string {
  const parts: string[] = [];
  let copiedUntil = 0;
  KEY_AND_SEPARATOR.lastIndex = 0;
  for (let match = KEY_AND_SEPARATOR.exec(text); match !== null; match = KEY_AND_SEPARATOR.exec(text)) {
    const [, key = "", separator = ""] = match;
    const valueStart = KEY_AND_SEPARATOR.lastIndex;
    SHELL_REFERENCE.lastIndex = valueStart;
    if (!looksSecret(key) || SHELL_REFERENCE.test(text)) continue;
    VALUE.lastIndex = valueStart;
    const value = VALUE.exec(text)?.[0] ?? "";
    const isValue = looksLikeValue(separator, value) || (!isProse && !separator.includes("\n"));
    const displayed = isValue ? hideSecretValue({ key, value, isProse }, hide) : value;
    parts.push(text.slice(copiedUntil, valueStart), displayed);
    copiedUntil = valueStart + value.length;
    KEY_AND_SEPARATOR.lastIndex = copiedUntil;
  }
  return parts.join("") + text.slice(copiedUntil);
}

/** Whether `value` is a value even in prose, not a word: it has quotes or digits, or the `separator` after the key has quotes or an equals sign. */
function looksLikeValue(separator: string, value: string): boolean {
  return /["'=]/.test(separator) || /["']/.test(value) || (value.length >= 6 && /\d/.test(value));
}

/** Hides a value if it is secret under its key. Keeps an opening quote (also of SQL, `N'`) and an earlier placeholder. */
function hideSecretValue(
  { key, value, isProse }: { key: string; value: string; isProse: boolean },
  hide: Hide,
): string {
  return hideAfterPrefix(/^(?:[EN](?='))?\\*["']?/, value, (unquoted) =>
    unquoted.startsWith(PLACEHOLDER) || !isSecretValue(key, unquoted, isProse) ? unquoted : hide(unquoted),
  );
}

/** Replaces `text` by what `hide` returns for it, except the beginning that `prefix` matches. */
function hideAfterPrefix(prefix: RegExp, text: string, hide: Hide): string {
  const beginning = prefix.exec(text)?.[0] ?? "";
  return beginning + hide(text.slice(beginning.length));
}

/** `KUBECONFIG=/tmp/kube-7/config` names a file, `pwd=/srv/app2` a directory. */
const NAMES_A_PATH = /^(?:pwd|oldpwd|kubeconfig)$/i;

/** Whether a value is the path that its key names, and so no secret. */
function isPathValue(key: string, value: string): boolean {
  return NAMES_A_PATH.test(key) && value.startsWith("/") && looksLikeName(value);
}

/** Whether `value` is secret under `key` in a text. Uses the class of the key: see `KeyClass`. */
function isSecretValue(key: string, value: string, isProse: boolean): boolean {
  if (isHarmless(value) || (isProse && PROSE_WORDS.has(value))) return false;
  if (isPathValue(key, value)) return false;
  const keyClass = classifyKey(key);
  if (keyClass === "keyName") return !looksLikeKeyName(value);
  if (keyClass !== "likely") return keyClass === "secret";
  const isShortWord = isProse && value.length < 4;
  return !isShortWord && !looksLikeName(value);
}

/** A well-known command that takes a password on its command line. */
interface Command {
  readonly name: RegExp;
  /** The argument before the password: `-p secret`. */
  readonly flag?: RegExp;
  readonly argumentsBetween?: number;
  /** A flag of one letter and the password in one argument: `-psecret`. */
  readonly flagWithPassword?: RegExp;
}

const COMMANDS: readonly Command[] = [
  { name: /^(?:mysql|mariadb)[\w-]*$/, flagWithPassword: /^-p./ },
  { name: /^7z\w?$/, flagWithPassword: /^-p./ },
  { name: /^sshpass$/, flag: /^-p$/, flagWithPassword: /^-p./ },
  { name: /^(?:zip|unzip|docker|podman|nerdctl|helm|oc|mongo\w*|impala-shell|influx)$/, flag: /^-[pP]$/ },
  { name: /^(?:sqlcmd|bcp|osql)$/, flag: /^-P$/, flagWithPassword: /^-P./ },
  { name: /^az$/, flag: /^-p$/ },
  { name: /^rabbitmqctl$/, flag: /^(?:add_user|change_password)$/, argumentsBetween: 1 },
  { name: /^mc$/, flag: /^set$/, argumentsBetween: 3 },
  { name: /^redis-\w+$/, flag: /^-a$/ },
  { name: /^(?:ldap|slap)\w+$/, flag: /^-w$/, flagWithPassword: /^-w./ },
  {
    name: /^(?:curl|wget|https?|nats|mc|smbclient|etcdctl)$/,
    flag: /^(?:-[uU]|--user|--proxy-user)$/,
    flagWithPassword: /^-u[^:]+:./,
  },
  // `htpasswd -nb user password`, `htpasswd -b file user password`
  { name: /^htpasswd$/, flag: /^-(?=\w{0,9}n)\w{0,9}b\w{0,9}$/, argumentsBetween: 1 },
  { name: /^htpasswd$/, flag: /^-(?!\w{0,9}n)\w{0,9}b\w{0,9}$/, argumentsBetween: 2 },
];
/** Text that may precede a command name: a path, an opening quote. */
const BEFORE_NAME = /^.*[/;&|(`"'](?=.)/s;
const FLAG = /^--?([A-Za-z][\w.-]{1,63})$/;
const ANY_FLAG = /^--?[A-Za-z]/;
const COMMAND_END = /^(?:\|\|?|&&?|;)$/;

/**
 * The arguments of a command line that contain passwords, redacted, by index. A flag such as `-p` precedes a password only after the
 * name of a command that uses it so (`sshpass -p …`), and before a separator such as `&&`.
 */
export function hideArguments(args: readonly string[], hide: Hide): ReadonlyMap<number, string> {
  const commandsBefore = new Set<Command>();
  const redacted = new Map<number, string>();
  for (const [index, arg] of args.entries()) {
    if (COMMAND_END.test(arg)) commandsBefore.clear();
    const name = arg.replace(BEFORE_NAME, "");
    for (const command of COMMANDS) if (command.name.test(name)) commandsBefore.add(command);
    const hasPassword = [...commandsBefore].some(({ flagWithPassword }) => flagWithPassword?.test(arg));
    if (hasPassword) redacted.set(index, arg.slice(0, 2) + hidePassword(arg.slice(2), hide));
    const command = [...commandsBefore].find(({ flag }) => flag?.test(arg));
    const passwordIndex = index + 1 + (command?.argumentsBetween ?? 0);
    const password = args[passwordIndex];
    if (password !== undefined && isPassword(password, arg, command !== undefined))
      redacted.set(passwordIndex, hidePassword(password, hide));
  }
  return redacted;
}

/** Whether an argument is a password, because it follows the password flag of a command (`isFlagOfCommand`) or a secret-looking flag. */
function isPassword(arg: string, flag: string, isFlagOfCommand: boolean): boolean {
  if (PROSE_WORDS.has(arg) || ANY_FLAG.test(arg)) return false;
  const flagName = FLAG.exec(flag)?.[1];
  return isFlagOfCommand || (flagName !== undefined && isSecretValue(flagName, arg, true));
}

/** A quote and a user (`admin:`) before the secret, and the secret up to its closing quote. */
const ARGUMENT = /^(["'`]?(?:[\w.@-]{1,64}:(?=.))?)(.*?)(?=["'`]?$)/s;

/** Hides a password; of `user:password` only the part after the colon. Keeps quotes, references to variables and harmless texts. */
function hidePassword(text: string, hide: Hide): string {
  return text.replace(ARGUMENT, (all, before: string, secret: string) => {
    const isVariable = /^\$\w+$/.test(secret);
    return isVariable || isHarmless(secret) || secret.startsWith(PLACEHOLDER) ? all : before + hide(secret);
  });
}

/** What every command line with a password contains. Most texts do not, and are not split into arguments. */
const COMMAND_LINE_HINT = /(?:^|\s)(?:--?[A-Za-z]|add_user\s|change_password\s|alias set\s)/;

/** Hides the passwords in the arguments of a command line. */
export function hideCommandLine(text: string, hide: Hide): string {
  if (!COMMAND_LINE_HINT.test(text)) return text;
  // The pattern captures the white space: parts with an even index are arguments, those with an odd index the space between them.
  const parts = text.split(/(\s+)/);
  const args = parts.filter((_, index) => index % 2 === 0);
  const redactedArgs = hideArguments(args, hide);
  return parts.map((part, index) => redactedArgs.get(index / 2) ?? part).join("");
}
