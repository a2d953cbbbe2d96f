import { createHash } from "node:crypto";

import type { Json, JsonObject } from "../model/index.ts";

/** Longer strings are shown as a hash: nobody reads them, and they may be keys or certificates. */
const LONGEST_SHOWN = 256;

/** Words that make a key secret wherever they stand in it. */
const SECRET_ANYWHERE = new Set([
  "password",
  "passwords",
  "passwd",
  "passwds",
  "passphrase",
  "pwd",
  "pass",
  "secret",
  "secrets",
  "token",
  "tokens",
  "credential",
  "credentials",
  "creds",
  "cred",
  "dsn",
  "apikey",
  "apikeys",
  "privatekey",
  "cert",
  "certs",
  "certificate",
  "certificates",
  "crt",
  "pem",
  "pfx",
  "keystore",
  "jwt",
  "kubeconfig",
  "dockerconfigjson",
  "htpasswd",
  "authorization",
  "cookie",
  "session",
  "salt",
  "bearer",
  "hmac",
  "signature",
  "connectionstring",
  "accesskey",
  "secretkey",
  "license",
]);
/** Words that make a key secret as its last word: `tlsKey`, but not `keyName`. */
const SECRET_AT_END = new Set(["key", "keys", "auth"]);
/** A last word that says the value only names or describes the secret: `secretName`, `tokenTTL`, `publicKeyName`. */
const ONLY_ABOUT = new Set([
  "name",
  "names",
  "namespace",
  "ref",
  "refs",
  "path",
  "file",
  "dir",
  "enabled",
  "disabled",
  "ttl",
  "expiry",
  "duration",
  "length",
  "size",
  "type",
  "kind",
  "count",
  "days",
  "hours",
  "seconds",
  "minutes",
  "version",
  "algorithm",
  "manager",
  "issuer",
  "class",
  "mode",
  "policy",
  "rotation",
  "timeout",
  "interval",
  "url",
]);
/** Texts in which lower-case letters run together: `dbpassword`, `authtoken`. */
const SECRET_PART = /passw(?:or)?d|passphrase|secret|token|credential|privatekey|apikey|accesskey/;
const PEM = /-----BEGIN [A-Z0-9 ]+-----[\s\S]*?(?:-----END [A-Z0-9 ]+-----|$)/g;
const PEM_END = /-----END [A-Z0-9 ]{1,64}-----/g;
/** Lines of a PEM block have 64 characters, the last one any number. */
const PEM_LINE = 16;
const URL_USER = /\b([a-z][a-z0-9+.-]{0,30}:\/\/)([^\s/?#@"'<>]*)@/gi;

/** A key and a sign that a value follows: `key=`, `"key": `; quotes may be escaped. */
const GIVES = /([\w.-]{2,64})(\\*["']?\s*[:=]\s*)/g;
/** The value: quoted, quoted in a quotation, or up to where it must end. */
const GIVEN = /"(?:[^"\\]|\\.)*|\\+["'][^"'\\]*|'[^']*|[^\s,;&"'{}[\])<]+/y;
const FLAG = /(--[\w.-]{2,64}\s+)([^\s<-]\S*)/g;
const SCHEME = /\b((?:Bearer|Basic)\s+)([A-Za-z0-9._~+/=-]{8,})/gi;
/** Without one of these no key looks secret; most texts have none. */
const HINT =
  /pass|pwd|secret|token|cred|dsn|key|cert|crt|pem|pfx|jwt|kubeconfig|htpasswd|auth|cookie|session|salt|bearer|basic|hmac|signature|connectionstring|license/i;

/** Words of sentences: what follows `--password is required` or `"password": a string` is no secret. */
const PROSE = new Set(
  `a an the is are was were be must should may can cannot could will would has have had does did not no and or of in
  into to for from on at by as with without needs need requires required expects expected given missing already only
  if when that which this but because flag option field key value found set unset empty invalid`.split(/\s+/),
);

/** What stands in for a secret: the same text always gives the same stand-in, and tells nothing else. */
export function standIn(text: string): string {
  return `<redacted:sha256:${createHash("sha256").update(text).digest("hex").slice(0, 8)}>`;
}

function words(key: string): string[] {
  return key
    .replaceAll(/([a-z0-9])([A-Z])/g, "$1 $2")
    .replaceAll(/([A-Z])(?=[A-Z][a-z])/g, "$1 ")
    .split(/[^A-Za-z0-9]+/)
    .filter((word) => word !== "")
    .map((word) => word.toLowerCase());
}

/**
 * True when a value under this key must not be shown (design: "Redaction"): passwords, tokens, keys,
 * certificates and the like. Keys that only name or describe a secret (`secretName`, `tokenTTL`) are shown.
 */
export function looksSecret(key: string): boolean {
  let known = JUDGED.get(key);
  if (known === undefined) {
    known = judgeKey(key);
    if (JUDGED.size >= MOST_JUDGED) JUDGED.clear();
    JUDGED.set(key, known);
  }
  return known;
}

/** Values have few distinct keys and many of each. */
const JUDGED = new Map<string, boolean>();
const MOST_JUDGED = 10_000;

function judgeKey(key: string): boolean {
  const parts = words(key);
  const last = parts.at(-1) ?? "";
  if (parts.length > 1 && ONLY_ABOUT.has(last)) return false;
  if (SECRET_AT_END.has(last)) return parts.at(-2) !== "public";
  return parts.some((word) => SECRET_ANYWHERE.has(word) || SECRET_PART.test(word));
}

/**
 * A free text (log line, stderr, error) without PEM blocks, user info in URLs, and what is given to a secret-looking key
 * (`password=…`, `"token": "…"`, `--api-key …`, `Authorization: Bearer …`).
 */
export function redactText(text: string): string {
  let plain = text;
  if (plain.includes("-----BEGIN ")) plain = plain.replaceAll(PEM, standIn);
  if (plain.includes("-----END ")) plain = withoutPemEnds(plain);
  if (plain.includes("://")) {
    plain = plain.replaceAll(URL_USER, (_, scheme: string, user: string) => `${scheme}${standIn(user)}@`);
  }
  return HINT.test(plain) ? redactAssigned(plain) : plain;
}

/** Without the ends of blocks whose begins were cut off. Walks back from each end, never past the one before. */
function withoutPemEnds(text: string): string {
  const parts: string[] = [];
  let done = 0;
  for (const found of text.matchAll(PEM_END)) {
    const from = pemBodyStart(text, done, found.index);
    const end = found.index + found[0].length;
    if (from < found.index) parts.push(text.slice(done, from), standIn(text.slice(from, end)));
    else parts.push(text.slice(done, end));
    done = end;
  }
  return parts.length === 0 ? text : parts.join("") + text.slice(done);
}

/** Where the base64 lines begin that stand before `end`. */
function pemBodyStart(text: string, least: number, end: number): number {
  let from = end;
  let shortest = 1;
  for (let at = end; at > least; shortest = PEM_LINE) {
    while (at > least && /[\s|]/.test(text[at - 1] ?? "")) at--;
    const lineEnd = at;
    while (at > least && /[A-Za-z0-9+/=]/.test(text[at - 1] ?? "")) at--;
    if (lineEnd - at < shortest) break;
    from = at;
  }
  return from;
}

/** User infos of the URLs in a text. */
export function urlUsers(text: string): string[] {
  return [...text.matchAll(URL_USER)].map(([, , user = ""]) => user);
}

function redactAssigned(text: string): string {
  const plain = text
    // `Basic authentication failed`: what is encoded or random is hardly ever lower case alone.
    .replaceAll(SCHEME, (all, scheme: string, value: string) =>
      /^[a-z]+$/.test(value) ? all : `${scheme}${standIn(value)}`,
    )
    .replaceAll(FLAG, (all, flag: string, value: string) =>
      looksSecret(flag) && !PROSE.has(value) ? `${flag}${standIn(value)}` : all,
    );
  const parts: string[] = [];
  let done = 0;
  GIVES.lastIndex = 0;
  for (let found = GIVES.exec(plain); found !== null; found = GIVES.exec(plain)) {
    const [, key = "", glue = ""] = found;
    if (!looksSecret(key)) continue;
    const from = GIVES.lastIndex;
    GIVEN.lastIndex = from;
    const value = GIVEN.exec(plain)?.[0] ?? "";
    parts.push(plain.slice(done, from), isGiven(glue, value) ? hideGiven(value) : value);
    done = from + value.length;
    GIVES.lastIndex = done;
  }
  return parts.length === 0 ? plain : parts.join("") + plain.slice(done);
}

/** Without quotes or an equals sign, what follows may be prose: `secret: not found`. */
function isGiven(glue: string, value: string): boolean {
  return /["'=]/.test(glue) || /^\\*["']/.test(value) || (value.length >= 6 && /\d/.test(value));
}

function hideGiven(value: string): string {
  const quote = /^\\*["']?/.exec(value)?.[0] ?? "";
  const rest = value.slice(quote.length);
  return rest === "" || PROSE.has(rest) || rest.startsWith("<redacted:") ? value : `${quote}${standIn(rest)}`;
}

/**
 * `value` without secrets (design: "Redaction"): values under secret-looking keys, at `secretPaths` (JSON
 * pointers relative to `value`, `*` for any member or item), PEM blocks, user info in URLs, and strings over
 * 256 characters become a short hash. Booleans and null stay. Shares what needs no change.
 */
export function redactValues(value: Json, secretPaths: ReadonlySet<string> = new Set()): Json {
  return redact(
    value,
    [...secretPaths].map((path) => path.split("/").slice(1)),
  );
}

function redact(value: Json, paths: readonly (readonly string[])[]): Json {
  if (paths.some((path) => path.length === 0)) return hide(value);
  if (typeof value === "string") return value.length > LONGEST_SHOWN ? standIn(value) : redactText(value);
  if (Array.isArray(value))
    return value.map((item, index) => redact(item, membersBelow(paths, String(index))));
  return value !== null && typeof value === "object" ? redactMembers(value, paths) : value;
}

function redactMembers(value: JsonObject, paths: readonly (readonly string[])[]): JsonObject {
  const entries = Object.entries(value).map(([key, member]) => {
    const shown = member ?? null;
    return [key, looksSecret(key) ? hide(shown) : redact(shown, membersBelow(paths, key))] as const;
  });
  return Object.fromEntries(entries);
}

/** Paths of a member: those that begin with its key, or with `*`. */
export function membersBelow(paths: readonly (readonly string[])[], key: string): (readonly string[])[] {
  if (paths.length === 0) return [];
  const name = key.replaceAll("~", "~0").replaceAll("/", "~1");
  return paths.filter(([first]) => first === "*" || first === name).map((path) => path.slice(1));
}

/** Everything below a secret is secret, but its shape is shown. */
function hide(value: Json): Json {
  if (value === null || typeof value === "boolean" || value === "") return value;
  if (typeof value !== "object") return standIn(String(value));
  if (Array.isArray(value)) return value.map(hide);
  return Object.fromEntries(Object.entries(value).map(([key, member]) => [key, hide(member ?? null)]));
}
