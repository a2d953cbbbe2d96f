/** Hides secrets in free text (log lines, errors, output): by their keys, and by their form as URLs, PEM blocks and tokens have it. */

import { hideCommandLine, hideGiven } from "./given.ts";
import { STAND_IN, standIn, type Hide } from "./stand-in.ts";

const LONGEST = 256;

/** Texts in which no secret was found: most come again, and need not be looked through again. */
export class PlainTexts {
  readonly #most: number;
  readonly #texts = new Set<string>();

  constructor(most: number) {
    this.#most = most;
  }

  has(text: string): boolean {
    return text.length <= LONGEST && this.#texts.has(text);
  }

  /** Long ones are not kept, and of too many none. */
  add(text: string): void {
    if (text.length > LONGEST) return;
    if (this.#texts.size >= this.#most) this.#texts.clear();
    // A copy: a part cut out of a text would keep the whole of it in memory.
    this.#texts.add(Buffer.from(text).toString());
  }
}

const MOST_PLAIN = 2000;
const plainProse = new PlainTexts(MOST_PLAIN);
const plainValues = new PlainTexts(MOST_PLAIN);

/**
 * A free text (log line, stderr, error) without PEM blocks, user info in URLs, tokens of well-known forms, and what is
 * given to a secret-looking key (`password=…`, `"token": "…"`, `--api-key …`, `Authorization: Bearer …`).
 */
export function redactText(text: string): string {
  return hideInText(text, standIn);
}

/** The same with another stand-in; with `isProse` false, a colon gives a value: `password: correcthorse`. */
export function hideInText(text: string, hide: Hide, isProse = true): string {
  const known = isProse ? plainProse : plainValues;
  if (text.length < 4 || known.has(text)) return text;
  const plain = hideTokens(hideUrlUsers(hidePem(text, hide), hide), hide);
  const shown = hideGiven(hideCommandLine(plain, hide), hide, isProse);
  if (shown === text) known.add(text);
  return shown;
}

/** A URL up to where it must end. */
const URL_TEXT = /(?<![A-Za-z0-9+])([a-z][a-z0-9+.:-]{0,40}:\/\/)([^\s"'<>]{1,4000})/gi;
/** What may stand behind the `@`: hosts, then port, path, query or nothing. */
const HOST = /^(?:\[[0-9a-f:.]{2,45}\]|[\w.-]{1,255}|[a-z]{2,8}\()(?:[:/?#,);\\\]}]|$)/i;
/** A name that anyone may know: `git@`. */
const USER = /^[A-Za-z][A-Za-z-]{0,15}$/;
/** `user:password@tcp(host:3306)/db`, `user:password@host:5432`: without a scheme. */
const BARE =
  /(?<![^\s"'=,;(])([\w.-]{1,64}):([^\s"'@]{1,200})@(?=(?:tcp|unix)?\(|[\w-]{1,63}(?:\.[\w-]{1,63}){0,8}(?::\d{2,5}(?!\w)|\/\w))/g;
/** Oracle: `jdbc:oracle:thin:scott/tiger@//host`. */
const ORACLE = /(:thin:[\w.-]{1,64}\/)([^\s"'@]{1,200})(?=@)/gi;

/** User infos with their passwords, whatever these contain. */
function hideUrlUsers(text: string, hide: Hide): string {
  if (!text.includes("@")) return text;
  let plain = text;
  if (plain.includes("://")) {
    plain = plain.replaceAll(URL_TEXT, (all, scheme: string, rest: string) => {
      const end = userEnd(rest);
      return end <= 0 || isShown(rest.slice(0, end))
        ? all
        : scheme + hide(rest.slice(0, end)) + rest.slice(end);
    });
  }
  if (plain.includes(":thin:"))
    plain = plain.replaceAll(ORACLE, (_, user: string, secret: string) => user + hide(secret));
  return plain.replaceAll(BARE, (all, user: string, secret: string) =>
    secret.startsWith("//") || secret.includes(STAND_IN) ? all : `${user}:${hide(secret)}@`,
  );
}

function isShown(user: string): boolean {
  return USER.test(user) || user.startsWith(STAND_IN) || (/^\$[({][^@]*$/.test(user) && !user.includes(":"));
}

/** Where the user info of what follows `://` ends; 0 = it has none. A password may contain `/`, `?`, `#` and `@`. */
function userEnd(rest: string): number {
  const slash = rest.search(/[/?#]/);
  const authority = slash < 0 ? rest : rest.slice(0, slash);
  const inAuthority = authority.lastIndexOf("@");
  // `host:8080/a@b` and `host/a@b` have none; `user:pa/ss@host` does.
  if (inAuthority < 0 && !/^[^:@]*:(?!\d+$)./.test(authority) && !/^[A-Za-z][\w-]*:\d+$/.test(authority))
    return 0;
  for (let at = rest.lastIndexOf("@"); at > inAuthority; at = at > 0 ? rest.lastIndexOf("@", at - 1) : -1) {
    if (HOST.test(rest.slice(at + 1, at + 300))) return at;
  }
  return Math.max(inAuthority, 0);
}

const PEM =
  /-----BEGIN (?!(?:[A-Z0-9]{1,16} )?PUBLIC KEY)[A-Z0-9 ]{1,64}-----[\s\S]*?(?:-----END [A-Z0-9 ]{1,64}-----|$)/g;
const PEM_END = /-----END (?!(?:[A-Z0-9]{1,16} )?PUBLIC KEY)[A-Z0-9 ]{1,64}-----/g;
/** Lines of a block have 64 characters, the last one any number. */
const PEM_LINE = 16;

/** A text without PEM blocks (public keys are no secret), also such whose begin or end was cut off. */
function hidePem(text: string, hide: Hide): string {
  return hideEnds(text.replaceAll(PEM, hide), hide);
}

/** Walks back from each end, never past the one before. */
function hideEnds(text: string, hide: Hide): string {
  const parts: string[] = [];
  let done = 0;
  for (const found of text.matchAll(PEM_END)) {
    const from = bodyStart(text, done, found.index);
    const end = found.index + found[0].length;
    if (from === found.index) continue;
    parts.push(text.slice(done, from), hide(text.slice(from, end)));
    done = end;
  }
  return parts.join("") + text.slice(done);
}

/** Where the base64 lines begin that stand before `end`. */
function bodyStart(text: string, least: number, end: number): number {
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

/** How tokens of well-known services begin, and what follows. Facts that their makers publish. */
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
/** By their first two letters: few words begin so. */
const BY_START = new Map<string, (readonly [prefix: string, rest: RegExp])[]>();
for (const [prefixes, rest] of TOKENS) {
  for (const prefix of prefixes.split(" ")) {
    const start = prefix.slice(0, 2);
    BY_START.set(start, [...(BY_START.get(start) ?? []), [prefix, rest]]);
  }
}

/** Where a word begins like a token: one search for all of them, which most texts fail. */
const PREFIX = new RegExp(
  `(?<![A-Za-z0-9_])(?:${TOKENS.flatMap(([prefixes]) => prefixes.replaceAll(".", "\\.").split(" ")).join("|")})`,
  "g",
);

/** Other forms, and what each of them has: JSON web tokens, tokens that join a cluster, bots, hashes of passwords. */
const FORMS: readonly (readonly [has: string, form: RegExp])[] = [
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

/** Addresses whose path is the secret: who knows it may write there. */
const HOOK =
  /(:\/\/(?:hooks\.slack\.com|(?:\w{1,20}\.)?discord(?:app)?\.com\/api|hooks\.zapier\.com|maker\.ifttt\.com|hc-ping\.com|[\w-]{1,60}\.webhook\.office\.com|outlook\.office(?:365)?\.com|open\.(?:feishu\.cn|larksuite\.com)|oapi\.dingtalk\.com|qyapi\.weixin\.qq\.com|api\.telegram\.org|chat\.googleapis\.com|[\w.-]{1,60}\.logic\.azure\.com(?::443)?|events\.pagerduty\.com\/integration)\/)([^\s"'<>]{8,2000})/gi;

const SHORTEST = 12;

/** Tokens that tell by their form what they are. */
function hideTokens(text: string, hide: Hide): string {
  if (text.length < SHORTEST) return text;
  let plain = text;
  if (plain.includes("://"))
    plain = plain.replaceAll(HOOK, (_, host: string, path: string) => host + hide(path));
  plain = hidePrefixed(plain, hide);
  for (const [has, form] of FORMS)
    if (plain.includes(has)) plain = plain.replaceAll(form, (found) => hide(found));
  return plain;
}

function hidePrefixed(text: string, hide: Hide): string {
  const parts: string[] = [];
  let done = 0;
  PREFIX.lastIndex = 0;
  for (let found = PREFIX.exec(text); found !== null; found = PREFIX.exec(text)) {
    const token = tokenAt(text, found.index);
    if (token === "") continue;
    parts.push(text.slice(done, found.index), hide(token));
    done = found.index + token.length;
    PREFIX.lastIndex = done;
  }
  return parts.join("") + text.slice(done);
}

/** The token that begins there, or nothing. */
function tokenAt(text: string, at: number): string {
  for (const [prefix, rest] of BY_START.get(text.slice(at, at + 2)) ?? []) {
    if (!text.startsWith(prefix, at)) continue;
    rest.lastIndex = at + prefix.length;
    const found = rest.exec(text)?.[0];
    if (found !== undefined) return prefix + found;
  }
  return "";
}
