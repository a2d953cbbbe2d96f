/** Recognises tokens of well-known services. */

import type { Hide } from "../stand-in.ts";

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
export function hideTokens(text: string, hide: Hide): string {
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
