/** Hides secrets in free text (log lines, errors, output), by their keys and their form. `hide` always returns the placeholder of a secret. */

import { hideCommandLine, hideKeyedSecrets } from "./keyed-secrets.ts";
import { PLACEHOLDER, placeholderOf, type Hide } from "./placeholder.ts";

const MAX_REMEMBERED_LENGTH = 256;

/** A cache of short texts in which no secret was found, so that a repeated text is not searched again. */
export class TextsWithoutSecrets {
  readonly #maxTexts: number;
  readonly #texts = new Set<string>();

  constructor(maxTexts: number) {
    this.#maxTexts = maxTexts;
  }

  has(text: string): boolean {
    return text.length <= MAX_REMEMBERED_LENGTH && this.#texts.has(text);
  }

  /** Remembers a text unless it is long. If the cache is full, forgets all other texts first. */
  add(text: string): void {
    if (text.length > MAX_REMEMBERED_LENGTH) return;
    if (this.#texts.size >= this.#maxTexts) this.#texts.clear();
    // A copy: V8 keeps the whole log in memory for a line that is a slice of it.
    this.#texts.add(Buffer.from(text).toString());
  }
}

const proseWithoutSecrets = new TextsWithoutSecrets(2000);
const valuesWithoutSecrets = new TextsWithoutSecrets(2000);

/**
 * A free text (log line, stderr, error) without PEM blocks, user info in URLs, tokens of well-known forms, and values of
 * secret-looking keys (`password=…`, `"token": "…"`, `--api-key …`, `Authorization: Bearer …`).
 */
export function redactText(text: string): string {
  return hideInText(text, placeholderOf);
}

/** As `redactText`, with the placeholder that `hide` returns. Only if `isProse` is false, `correcthorse` in `password: correcthorse` is a value. */
export function hideInText(text: string, hide: Hide, isProse = true): string {
  const cache = isProse ? proseWithoutSecrets : valuesWithoutSecrets;
  if (text.length < 4 || cache.has(text)) return text;
  const plain = hideTokens(hideUrlUsers(hidePem(text, hide), hide), hide);
  const displayed = hideKeyedSecrets(hideCommandLine(plain, hide), hide, isProse);
  if (displayed === text) cache.add(text);
  return displayed;
}

/** A URL up to where it must end. */
const URL_TEXT = /(?<![A-Za-z0-9+])([a-z][a-z0-9+.:-]{0,40}:\/\/)([^\s"'<>]{1,4000})/gi;
/** Text that may follow the `@`: hosts, then port, path, query or nothing. */
const HOST_AFTER_AT = /^(?:\[[0-9a-f:.]{2,45}\]|[\w.-]{1,255}|[a-z]{2,8}\()(?:[:/?#,);\\\]}]|$)/i;
/** A name that anyone may know: `git@`. */
const PUBLIC_USER = /^[A-Za-z][A-Za-z-]{0,15}$/;
/** `user:password@tcp(host:3306)/db`, `user:password@host:5432`: without a scheme. */
const USER_INFO_WITHOUT_SCHEME =
  /(?<![^\s"'=,;(])([\w.-]{1,64}):([^\s"'@]{1,200})@(?=(?:tcp|unix)?\(|[\w-]{1,63}(?:\.[\w-]{1,63}){0,8}(?::\d{2,5}(?!\w)|\/\w))/g;
/** Oracle: `jdbc:oracle:thin:scott/tiger@//host`. */
const ORACLE_USER_INFO = /(:thin:[\w.-]{1,64}\/)([^\s"'@]{1,200})(?=@)/gi;

/** Hides the user info of URLs, and `user:password@host` without a scheme. Passwords may contain any character. */
function hideUrlUsers(text: string, hide: Hide): string {
  if (!text.includes("@")) return text;
  let plain = text;
  if (plain.includes("://"))
    plain = plain.replaceAll(URL_TEXT, (all, scheme: string, afterScheme: string) => {
      const userInfo = afterScheme.slice(0, findUserInfoEnd(afterScheme));
      if (userInfo === "" || isHarmlessUserInfo(userInfo)) return all;
      return scheme + hide(userInfo) + afterScheme.slice(userInfo.length);
    });
  if (plain.includes(":thin:"))
    plain = plain.replaceAll(ORACLE_USER_INFO, (_, user: string, secret: string) => user + hide(secret));
  return plain.replaceAll(USER_INFO_WITHOUT_SCHEME, (all, user: string, secret: string) => {
    // `https://git@host:22` has the form, too.
    const isUrl = secret.startsWith("//");
    return isUrl || secret.includes(PLACEHOLDER) ? all : `${user}:${hide(secret)}@`;
  });
}

/** Whether user info has no password: a common name (`git`), or a reference to a variable (`${USER}`) without a default (`${USER:-x}`). */
function isHarmlessUserInfo(userInfo: string): boolean {
  return PUBLIC_USER.test(userInfo) || (/^\$[({][^@]*$/.test(userInfo) && !userInfo.includes(":"));
}

/**
 * Returns the index of the `@` that ends the user info of a URL, of which `afterScheme` is the text after `://`; 0 if there is no user
 * info. A password may contain `/`, `?`, `#` and `@`, so the last `@` before a host counts.
 */
function findUserInfoEnd(afterScheme: string): number {
  const [authority = ""] = afterScheme.split(/[/?#]/, 1);
  const lastInAuthority = authority.lastIndexOf("@");
  // An `@` after a slash belongs to the path (`db.local:8080/a@b`), or the slash to a password (`user:pa/ss@host`, `user:1/2@host`).
  const mayBePassword = /^[^:@]*:(?!\d+$)./.test(authority) || /^[A-Za-z][\w-]*:\d+$/.test(authority);
  if (lastInAuthority < 0 && !mayBePassword) return 0;
  let index = afterScheme.lastIndexOf("@");
  while (index > lastInAuthority) {
    if (HOST_AFTER_AT.test(afterScheme.slice(index + 1, index + 300))) return index;
    index = index > 0 ? afterScheme.lastIndexOf("@", index - 1) : -1;
  }
  return Math.max(lastInAuthority, 0);
}

const PEM =
  /-----BEGIN (?!(?:[A-Z0-9]{1,16} )?PUBLIC KEY)[A-Z0-9 ]{1,64}-----[\s\S]*?(?:-----END [A-Z0-9 ]{1,64}-----|$)/g;
const PEM_END = /-----END (?!(?:[A-Z0-9]{1,16} )?PUBLIC KEY)[A-Z0-9 ]{1,64}-----/g;
/** Only the last base64 line of a PEM block may be shorter. */
const MIN_PEM_LINE_LENGTH = 16;

/** Hides PEM blocks except public keys. If a message is cut, only END is left: hides that line and the base64 lines before it. */
function hidePem(text: string, hide: Hide): string {
  const plain = text.replaceAll(PEM, (block) => hide(block));
  const parts: string[] = [];
  let copiedUntil = 0;
  for (const endLine of plain.matchAll(PEM_END)) {
    const from = findPemBodyStart(plain, copiedUntil, endLine.index);
    const to = endLine.index + endLine[0].length;
    const hasNoBody = from === endLine.index;
    if (hasNoBody) continue;
    parts.push(plain.slice(copiedUntil, from), hide(plain.slice(from, to)));
    copiedUntil = to;
  }
  return parts.join("") + plain.slice(copiedUntil);
}

/** Index of the first of the base64 lines (with white space or `|` between them) that end at `end`; `end` if there are none after `minIndex`. */
function findPemBodyStart(text: string, minIndex: number, end: number): number {
  let start = end;
  let index = end;
  let minLength = 1;
  while (index > minIndex) {
    while (index > minIndex && /[\s|]/.test(text[index - 1] ?? "")) index--;
    const lineEnd = index;
    while (index > minIndex && /[A-Za-z0-9+/=]/.test(text[index - 1] ?? "")) index--;
    const isBase64Line = lineEnd - index >= minLength;
    if (!isBase64Line) break;
    start = index;
    minLength = MIN_PEM_LINE_LENGTH;
  }
  return start;
}

/** How tokens of well-known services begin, and what follows. The services publish these formats. */
const TOKENS: readonly (readonly [prefixes: string, rest: RegExp])[] = [
  // Code hosts and package registries
  ["ghp_ gho_ ghu_ ghs_ ghr_ github_pat_", /[A-Za-z0-9_]{20,255}/y],
  [
    "glpat- gldt- glrt- glcbt- glptt- glft- glsoat- glagent- gloas- glimt- glffct-",
    /[A-Za-z0-9_.=-]{16,255}/y,
  ],
  ["npm_", /[A-Za-z0-9]{30,64}/y],
  ["pypi-AgE dckr_pat_ dckr_oat_", /[A-Za-z0-9_-]{16,255}/y],
  ["rubygems_ cio", /[A-Za-z0-9]{32,64}/y],
  ["oy2", /[a-z0-9]{43}/y],
  ["ATATT ATCTT ATBB BBDC-", /[A-Za-z0-9_=+/-]{20,255}/y],
  // Clouds
  ["AKIA ASIA ABIA ACCA", /[A-Z0-9]{16}/y],
  ["LTAI", /[A-Za-z0-9]{12,30}/y],
  ["AIza", /[A-Za-z0-9_-]{30,40}/y],
  ["ya29. GOCSPX-", /[A-Za-z0-9_-]{16,255}/y],
  ["dop_v1_ doo_v1_ dor_v1_ dapi", /[0-9a-f]{32,64}/y],
  ["SCW", /[A-Z0-9]{17}/y],
  ["t1. y0_ y1_ y2_ y3_ AQVN", /[A-Za-z0-9_.=-]{30,255}/y],
  ["tfp_ pul- vercel_ CFPAT- tskey-", /[A-Za-z0-9_-]{20,80}/y],
  ["sbp_ pscale_tkn_ pscale_pw_ pscale_oauth_", /[A-Za-z0-9_.=-]{20,80}/y],
  // Payment, mail, chat
  ["sk_live_ sk_test_ rk_live_ rk_test_", /[A-Za-z0-9]{10,255}/y],
  ["whsec_", /[A-Za-z0-9+/=]{16,255}/y],
  ["xoxa- xoxb- xoxe- xoxe. xoxo- xoxp- xoxr- xoxs- xapp-", /[A-Za-z0-9-]{10,255}/y],
  ["SG.", /[A-Za-z0-9_-]{16,32}\.[A-Za-z0-9_-]{16,64}/y],
  ["key- SK", /[0-9a-f]{32}/y],
  ["xkeysib- sq0atp- sq0csp- sq0idp-", /[A-Za-z0-9_-]{20,100}/y],
  ["shpat_ shpss_ shpca_ shppa_", /[0-9a-fA-F]{32}/y],
  ["pat-na1- pat-na2- pat-eu1-", /[A-Za-z0-9-]{20,64}/y],
  // Models and observability
  ["sk- hf_ gsk_ r8_ xai- pplx- nvapi-", /[A-Za-z0-9_-]{20,255}/y],
  ["glsa_ glc_ eyJrIjoi sntrys_ sntryu_", /[A-Za-z0-9_=+/-]{20,255}/y],
  ["NRAK- NRJS- NRII- NRAA- NRRA-", /[A-Za-z0-9]{16,64}/y],
  ["PMAK- lin_api_ figd_ secret_ ntn_ dp.pt. dp.st. dp.ct. dp.sa.", /[A-Za-z0-9_.-]{24,100}/y],
  // Clusters and secret stores
  ["hvs. hvb. hvr.", /[A-Za-z0-9_-]{16,255}/y],
  ["s.", /[A-Za-z0-9]{24}(?![A-Za-z0-9])/y],
  ["sha256~", /[A-Za-z0-9_-]{20,64}/y],
  ["K10", /[0-9a-f]{64}::[A-Za-z0-9:._-]{8,128}/y],
  ["token-", /[a-z0-9]{5}:[a-z0-9]{30,64}/y],
  ["kubeconfig-", /[a-z0-9.-]{1,64}:[a-z0-9]{30,64}/y],
  ["AGE-SECRET-KEY-1", /[A-Z0-9]{40,64}/y],
  // `{"auths"` in base64, as the configuration of docker has it
  ["eyJhdXRocyI ewoJImF1dGhzIjo", /[A-Za-z0-9+/=_-]{16,8000}/y],
  ["ops_eyJ", /[A-Za-z0-9_=-]{20,255}/y],
];
/** Token forms by their first two letters, so that few forms are tried at one position. */
const TOKENS_BY_START = new Map<string, (readonly [prefix: string, rest: RegExp])[]>();
for (const [prefixes, rest] of TOKENS) {
  for (const prefix of prefixes.split(" ")) {
    const start = prefix.slice(0, 2);
    TOKENS_BY_START.set(start, [...(TOKENS_BY_START.get(start) ?? []), [prefix, rest]]);
  }
}

/** Where a word begins like a token: one search for all of them, which most texts fail. */
const TOKEN_PREFIX = new RegExp(
  `(?<![A-Za-z0-9_])(?:${TOKENS.flatMap(([prefixes]) => prefixes.replaceAll(".", "\\.").split(" ")).join("|")})`,
  "g",
);

/** Tokens without a fixed prefix (web tokens, join tokens, bots, hashed passwords). A form is only searched for in texts with its `part`. */
const TOKEN_FORMS: readonly (readonly [part: string, form: RegExp])[] = [
  ["eyJ", /(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{8,4000}\.[A-Za-z0-9_-]{8,4000}(?:\.[A-Za-z0-9_-]{0,4000})?/g],
  [".", /\.(?<=(?<![\w.-])[a-z0-9]{6}\.)[a-z0-9]{16}(?![\w.-])/g],
  [":", /:(?<=(?<![\w:])\d{8,10}:)[A-Za-z0-9_-]{35}(?![\w-])/g],
  [".atlasv1.", /(?<=\.atlasv1\.)[A-Za-z0-9_=-]{20,255}/g],
  [
    "$",
    /\$(?:apr1|1|2[abxy]?|5|6|7|y|gy|argon2(?:i|d|id)|pbkdf2(?:-sha\d+)?|scrypt|bcrypt-sha256)\$[A-Za-z0-9./+=,$-]{8,255}/g,
  ],
  ["{", /\{(?:SHA|SSHA|SSHA\d+|SHA\d+|CRYPT|MD5|SMD5|PBKDF2[\w-]{0,12}|ARGON2)\}[A-Za-z0-9./+=$-]{4,255}/gi],
  ["$", /(?<!\w)(?:pbkdf2_sha256|bcrypt_sha256|argon2|scram-sha-\d{1,3})\$[A-Za-z0-9./+=,:$-]{8,255}/gi],
  ["md5", /(?<!\w)md5[0-9a-f]{32}(?!\w)/g],
];

/** Webhook URLs, whose path is the secret: knowing it is enough to post there. */
const WEBHOOK_URL =
  /(:\/\/(?:hooks\.slack\.com|(?:\w{1,20}\.)?discord(?:app)?\.com\/api|hooks\.zapier\.com|maker\.ifttt\.com|hc-ping\.com|[\w-]{1,60}\.webhook\.office\.com|outlook\.office(?:365)?\.com|open\.(?:feishu\.cn|larksuite\.com)|oapi\.dingtalk\.com|qyapi\.weixin\.qq\.com|api\.telegram\.org|chat\.googleapis\.com|[\w.-]{1,60}\.logic\.azure\.com(?::443)?|events\.pagerduty\.com\/integration)\/)([^\s"'<>]{8,2000})/gi;

const MIN_TOKEN_LENGTH = 12;

/** Hides webhook URLs and tokens of well-known forms. Tests for a fixed part first (`://`, `eyJ`), because a full search is slow. */
function hideTokens(text: string, hide: Hide): string {
  if (text.length < MIN_TOKEN_LENGTH) return text;
  let plain = text;
  if (plain.includes("://"))
    plain = plain.replaceAll(WEBHOOK_URL, (_, host: string, path: string) => host + hide(path));
  plain = hidePrefixedTokens(plain, hide);
  for (const [part, form] of TOKEN_FORMS)
    if (plain.includes(part)) plain = plain.replaceAll(form, (token) => hide(token));
  return plain;
}

/** Hides tokens of services, which begin with a known prefix such as `ghp_`. */
function hidePrefixedTokens(text: string, hide: Hide): string {
  const parts: string[] = [];
  let copiedUntil = 0;
  TOKEN_PREFIX.lastIndex = 0;
  for (let match = TOKEN_PREFIX.exec(text); match !== null; match = TOKEN_PREFIX.exec(text)) {
    const token = readToken(text, match.index);
    if (token === "") continue;
    parts.push(text.slice(copiedUntil, match.index), hide(token));
    copiedUntil = match.index + token.length;
    TOKEN_PREFIX.lastIndex = copiedUntil;
  }
  return parts.join("") + text.slice(copiedUntil);
}

/** The token that begins at index `start`: a known prefix, and the characters after it that the service uses; "" if there is none. */
function readToken(text: string, start: number): string {
  for (const [prefix, formAfterPrefix] of TOKENS_BY_START.get(text.slice(start, start + 2)) ?? []) {
    if (!text.startsWith(prefix, start)) continue;
    formAfterPrefix.lastIndex = start + prefix.length;
    const afterPrefix = formAfterPrefix.exec(text)?.[0];
    if (afterPrefix !== undefined) return prefix + afterPrefix;
  }
  return "";
}
