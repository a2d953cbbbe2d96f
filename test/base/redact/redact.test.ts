import { describe, expect, it } from "vitest";

import {
  KnownSecrets,
  OVERFULL_WARNING,
  SecretWords,
  looksSecret,
  oneLine,
  redactText,
  redactValues,
} from "../../../src/base/index.ts";
import type { Json } from "../../../src/base/model/index.ts";

const HIDDEN = /^<redacted:[0-9a-f]{32}>$/;

describe("looksSecret", () => {
  it.each([
    "password",
    "dbPassword",
    "DB_PASSWORD",
    "passwd",
    "passphrase",
    "secret",
    "clientSecret",
    "token",
    "authToken",
    "apiKey",
    "api-key",
    "APIKEY",
    "tlsKey",
    "ca.key",
    "key",
    "tls.crt",
    "caCert",
    "certificate",
    "credentials",
    "dsn",
    "databaseDSN",
    "privateKey",
    "dbpassword",
    "accesstoken",
    "kubeconfig",
    "basicAuth",
    "secretAccessKey",
    "sshPrivateKeyPem",
    "cookieSecret",
  ])("hides %s", (key) => {
    expect(looksSecret(key)).toBe(true);
  });

  it.each([
    "replicas",
    "image",
    "publicKeyName",
    "secretName",
    "tokenTTL",
    "keyName",
    "passwordLength",
    "host",
    "certManager",
    "certIssuer",
    "secretRef",
    "keepAlive",
    "monkey",
    "keyboard",
    "enabledModules",
    "publicKey",
  ])("shows %s", (key) => {
    expect(looksSecret(key)).toBe(false);
  });
});

describe("redactValues", () => {
  const hide = (value: Json, paths: readonly string[] = []): Json => redactValues(value, new Set(paths));

  it("hides values under secret keys at any depth and keeps the rest", () => {
    const value = hide({ a: [{ password: "p", user: "u" }], tls: { key: "k", ttl: 5 }, on: true });
    expect(value).toEqual({
      a: [{ password: expect.stringMatching(HIDDEN), user: "u" }],
      tls: { key: expect.stringMatching(HIDDEN), ttl: 5 },
      on: true,
    });
  });

  it("hides what is below a secret key and not only about it", () => {
    expect(hide({ credentials: { user: "u", pin: 1234, list: ["x"], on: false } })).toEqual({
      credentials: {
        user: "u",
        pin: expect.stringMatching(HIDDEN),
        list: [expect.stringMatching(HIDDEN)],
        on: false,
      },
    });
  });

  it("hides what the schema names, items of lists and members of maps included", () => {
    const value = { a: { b: "x" }, list: [{ pin: "1" }, { pin: "2" }], "o/p": "q" };
    expect(hide(value, ["/a/b", "/list/*/pin", "/o~1p"])).toEqual({
      a: { b: expect.stringMatching(HIDDEN) },
      list: [{ pin: expect.stringMatching(HIDDEN) }, { pin: expect.stringMatching(HIDDEN) }],
      "o/p": expect.stringMatching(HIDDEN),
    });
  });

  it("gives the same stand-in for the same text, and another one for another", () => {
    const { a, b, c } = hide({ a: { token: "1" }, b: { token: "1" }, c: { token: "2" } }) as Record<
      string,
      Json
    >;
    expect(a).toEqual(b);
    expect(a).not.toEqual(c);
  });

  it("hides long strings, PEM blocks and user info in URLs wherever they stand", () => {
    const pem = "-----BEGIN RSA PRIVATE KEY-----\nMIIx\n-----END RSA PRIVATE KEY-----";
    const displayed = JSON.stringify(
      hide({ a: "x".repeat(257), b: `x ${pem} y`, c: "https://me:pw@host/path", d: "x".repeat(256) }),
    );
    expect(displayed).not.toContain("MIIx");
    expect(displayed).not.toContain("me:pw");
    expect(displayed).toContain("@host/path");
    expect(displayed).not.toContain("x".repeat(257));
    expect(displayed).toContain("x".repeat(256));
  });
});

describe("redactText", () => {
  it("takes PEM blocks and user info out of free text", () => {
    const text = "cannot reach postgres://app:s3cret@db:5432/x\n-----BEGIN CERTIFICATE-----\nMIIB\n(cut)";
    const displayed = redactText(text);
    expect(displayed).not.toContain("s3cret");
    expect(displayed).not.toContain("MIIB");
    expect(displayed).toContain("@db:5432/x");
  });

  it("leaves other text alone", () => {
    expect(redactText("see https://example.com/a@b for more")).toBe("see https://example.com/a@b for more");
  });
});

describe("what is given to a secret-looking key in a text", () => {
  it.each([
    ["password=hunter2 next", "password=* next"],
    ['{"token": "abc \\" def", "user":"me"}', '{"token": "*", "user":"me"}'],
    ['{\\"token\\":\\"abc\\",\\"a\\":1}', '{\\"token\\":\\"*\\",\\"a\\":1}'],
    ["db_password: 'x y' z", "db_password: '*' z"],
    ["tls.key: a1b2c3", "tls.key: *"],
    ["curl --api-key abc -v", "curl --api-key * -v"],
    ["Authorization: Bearer abcdefgh1234", "Authorization: Bearer *"],
    ["GET https://h/x?token=abc&x=1", "GET https://h/x?token=*&x=1"],
    ["AAAABBBBCCCCDDDD | -----END PRIVATE KEY-----", "*"],
  ])("%s", (text, displayed) => {
    expect(redactText(text).replaceAll(/<redacted:[0-9a-f]{32}>/g, "*")).toBe(displayed);
    expect(redactText(redactText(text))).toBe(redactText(text));
  });

  it.each([
    "secret: not found",
    "the token is invalid",
    'secrets "db-password" is forbidden: User "x" cannot get it',
    "ConfigMap x, app/password: must be string",
    "keyName=abc secretRef: abc123 apiKey=",
  ])("stays: %s", (text) => {
    expect(redactText(text)).toBe(text);
  });
});

describe("what no list of keys can know", () => {
  const displayed = (value: Json): string =>
    JSON.stringify(redactValues(value)).replaceAll(/<redacted:[0-9a-f]{32}>/g, "*");

  it.each<[Json, string]>([
    [[{ name: "DB_PASSWORD", value: "a b" }], '[{"name":"DB_PASSWORD","value":"*"}]'],
    [["--password", "abc", "--port", "80"], '["--password","*","--port","80"]'],
    [["--caCert", "s3cr3t-69", "--cert", "tls.crt"], '["--caCert","*","--cert","tls.crt"]'],
    [["--api-key=abc"], '["--api-key=*"]'],
    ["mysql -u root -pabc db", '"mysql -u root -p* db"'],
    [{ bindPW: "abc", psk: "abc", githubPat: "abc" }, '{"bindPW":"*","psk":"*","githubPat":"*"}'],
    [{ webhookUrl: "https://h.example.com/x" }, '{"webhookUrl":"*"}'],
    ["https://h.example.com/x?sv=1&sig=abc%3D", '"https://h.example.com/x?sv=1&sig=*"'],
    [{ apiKey1: "abc", encryptionKeyData: "abc" }, '{"apiKey1":"*","encryptionKeyData":"*"}'],
    [{ masterKeyOld: "abc", totpSeed: "abc" }, '{"masterKeyOld":"*","totpSeed":"*"}'],
    [{ connectionString: "abc", dockerConfigJson: "{}" }, '{"connectionString":"*","dockerConfigJson":"*"}'],
    [{ file: "admin:$apr1$a$IgXLP6ewTrSuBkTrqE8wj/" }, '{"file":"admin:*"}'],
    [{ file: "host: h\npassword: abcd\n" }, '{"file":"host: h\\npassword: *\\n"}'],
    [{ file: '{"host": "h", "token": "abcd"}' }, '{"file":"{\\"host\\": \\"h\\", \\"token\\": \\"*\\"}"}'],
    ["postgres://app:pa/s@s@db:5432/x", '"postgres://*@db:5432/x"'],
  ])("%j", (value, wanted) => {
    expect(displayed(value)).toBe(wanted);
  });

  it("hides the same secret under a second key", () => {
    const values = {
      password: "correct-h0rse",
      note: "login with correct-h0rse",
      url: "http://h/?x=correct-h0rse",
    };
    const secrets = new KnownSecrets();
    secrets.register(values);
    const hidden = secrets.redact("correct-h0rse");
    expect(secrets.redactValues(values)).toEqual({
      password: hidden,
      note: `login with ${hidden}`,
      url: `http://h/?x=${hidden}`,
    });
  });
});

describe("texts that were made to stall a pattern", () => {
  const long = 100_000;
  it.each([
    ["base64 before the end of a block", `${"a".repeat(150)}-----END X`],
    ["much base64 before the end of a block", `${"a".repeat(long)}-----END PRIVATE KEY`],
    [
      "ends of blocks",
      "a"
        .repeat(16)
        .concat("-----END A-----")
        .repeat(long / 30),
    ],
    ["begins of blocks", "-----BEGIN A-----".repeat(long / 17)],
    ["capitals", `${"A".repeat(long)}=x`],
    ["flags", `${"-".repeat(long / 2)}${" ".repeat(long / 2)}<`],
    ["schemes", "a.".repeat(long / 2).concat("://")],
    ["backslashes", `token=${"\\".repeat(long)}`],
  ])("%s", (_, text) => {
    const displayed = redactValues({
      [text]: { token: text },
      list: [text.slice(0, 256)],
      plain: redactText(text),
    });
    expect(Object.keys(displayed as object)).toContain("plain");
  });
});

describe("KnownSecrets", () => {
  const known = (value: Json, ...paths: readonly string[]): KnownSecrets => {
    const secrets = new KnownSecrets();
    secrets.register(value, new Set(paths));
    return secrets;
  };

  it("takes what values call secret out of any text", () => {
    const values = {
      list: [{ password: "pa55-word" }],
      pin: 12345678,
      marked: "x-marked-1",
      url: "https://me:url-pa55@h",
      key: "line-one-1\r\n  line-two-2\r\n",
      auth: "bob:bob-pa55",
    };
    const secrets = known(values, "/marked", "/pin");
    const said = "pa55-word 12345678 x-marked-1 url-pa55 line-two-2 bob-pa55";
    expect(secrets.redact(said)).toMatch(/^(<redacted:[0-9a-f]{32}> ?){6}$/);
    const none = { n: 1, none: null };
    expect(secrets.redactDeep({ a: [said], ...none })).toEqual({ a: [secrets.redact(said)], ...none });
  });

  it.each([0, 1, 2])("finds it in base64, %i bytes after a group of three", (place) => {
    const secret = "pa55>word?~~ü";
    const secrets = known({ password: secret });
    const inBase64 = Buffer.from(`${"u".repeat(place)}:::${secret} and more`);
    for (const form of ["base64", "base64url"] as const) {
      const said = `got ${inBase64.toString(form)}, too`;
      expect(secrets.redact(said)).toBe(`got ${secrets.redact(secret)}, too`);
    }
    expect(secrets.redact(`q=${encodeURIComponent(secret)}&x`)).toBe(`q=${secrets.redact(secret)}&x`);
  });

  describe("as programs write it", () => {
    const secret = `p"a\\ss'w<o>r&d $1/é?x`;
    const base64 = (text: string): string => Buffer.from(text).toString("base64");
    const json = JSON.stringify(secret).slice(1, -1);
    const lower = (text: string): string => text.replaceAll(/%../g, (digits) => digits.toLowerCase());
    const html = secret.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
    it.each([
      ["base64 of base64", base64(base64(secret))],
      ["base64 three times", base64(base64(base64(secret)))],
      ["base64 of a text with base64", base64(`user: ${base64(`app:${secret}`)}`)],
      ["base64 of JSON", base64(json)],
      ["base64 of JSON in base64", base64(base64(json))],
      ["base64 in a URL", encodeURIComponent(base64(secret))],
      ["base64 in a URL with small digits", lower(encodeURIComponent(base64(secret)))],
      ["a URL", encodeURIComponent(secret)],
      ["a URL with small digits", lower(encodeURIComponent(secret))],
      ["JSON three times", JSON.stringify(JSON.stringify(json)).slice(3, -3)],
      ["HTML of Go", html.replaceAll('"', "&#34;").replaceAll("'", "&#39;")],
      ["HTML of JavaScript", html.replaceAll('"', "&quot;").replaceAll("'", "&#39;")],
      ["HTML of Python", html.replaceAll('"', "&quot;").replaceAll("'", "&#x27;")],
      ["XML", html.replaceAll('"', "&quot;").replaceAll("'", "&apos;")],
      ["a text in XML", html],
      ["quotes of a shell", secret.replaceAll("'", `'\\''`)],
      ["mixed quotes of a shell", secret.replaceAll("'", `'"'"'`)],
      ["double quotes of a shell", secret.replaceAll(/["\\$]/g, String.raw`\$&`)],
      ["printf %q", secret.replaceAll(/["\\'<>& $?]/g, String.raw`\$&`)],
      ["repr of Python", secret.replaceAll(/['\\]/g, String.raw`\$&`)],
      ["repr of bytes", secret.replaceAll(/['\\]/g, String.raw`\$&`).replace("é", String.raw`\xc3\xa9`)],
    ])("finds it in %s", (_, text) => {
      const secrets = known({ password: secret });
      for (const said of [secret, text])
        expect(secrets.redact(`: ${said} .`)).toBe(`: ${secrets.redact(secret)} .`);
      // A program that knows the secret: a word that no other output is searched for.
      const words = new SecretWords([secret]).hide(`: ${text} .`);
      expect(words.replace(/(?:=|%3d)* \.$/i, "")).toBe(`: ${secrets.redact(secret)}`);
    });

    it("finds each line of a text", () => {
      const secrets = known({ password: `first 1\n${secret}\nlast` });
      expect(secrets.redact(lower(encodeURIComponent(secret)))).toMatch(HIDDEN);
      expect(secrets.redact(html)).toMatch(HIDDEN);
    });

    it("keeps base64 of other texts and bytes, and words", () => {
      const secrets = known({ password: secret });
      const texts = [
        base64(base64("some other text")),
        base64("{}".repeat(30)),
        "0123456789abcdef0123456789abcdef",
      ];
      for (const text of [...texts, "deployments-of-applications"]) expect(secrets.redact(text)).toBe(text);
    });
  });

  it("finds it in hex, also of a longer text or cut after 16 bytes, as a line of `xxd -p` is", () => {
    const secret = `pa55>word?~~ü${"x1".repeat(40)}`;
    const secrets = known({ password: secret });
    const hex = Buffer.from(`user:${secret}\n`).toString("hex");
    for (const text of [hex, hex.toUpperCase(), hex.slice(10, 70)])
      expect(secrets.redact(`got ${text}, too`)).toBe(`got ${secrets.redact(secret)}, too`);
    // The digits of another text of eight bytes.
    expect(secrets.redact("7061353501020304")).toBe("7061353501020304");
  });

  it("finds it in JSON", () => {
    const secret = String.raw`pa"55\word-1`;
    const said = JSON.stringify({ a: secret });
    expect(known({ password: secret }).redact(said)).toMatch(/^{"a":"<redacted:\w+>"}$/);
  });

  it("finds each line of a text in JSON, and in JSON in JSON", () => {
    const text = JSON.stringify({ type: "of-account-1", id: "zyxwv-01234", path: "/my-ö/way7" }, null, 2);
    const secrets = known({ password: text });
    const once = JSON.stringify({ text });
    const asPython = once.replaceAll("ö", String.raw`\u00f6`);
    for (const said of [once, JSON.stringify(once), asPython])
      expect(secrets.redact(said)).not.toMatch(/of-account|zyxwv|way7/);
  });

  it("hides the whole of each of many secrets that begin alike", () => {
    const lines = Array.from({ length: 20 }, (_, at) => `account-${at}: Zebra9-Kilo-${at}`);
    const secrets = known({ password: lines.join("\n") });
    expect(secrets.redact(`before ${lines[7]}\nafter`)).toMatch(/^before <redacted:\w+>\nafter$/);
  });

  const odd = String.raw`pä55 "w\d"&<x>/(1)`;

  it.each([
    ["a query as Go and Java write it", "p%C3%A455+%22w%5Cd%22%26%3Cx%3E%2F%281%29"],
    ["a path as Go writes it", "p%C3%A455%20%22w%5Cd%22%26%3Cx%3E%2F%281%29"],
    ["a path as Python writes it", "p%C3%A455%20%22w%5Cd%22%26%3Cx%3E/%281%29"],
    ["JSON as Go writes it", String.raw`pä55 \"w\\d\"\u0026\u003cx\u003e/(1)`],
    ["JSON as Python writes it", String.raw`p\u00e455 \"w\\d\"&<x>/(1)`],
    ["JSON in JSON", JSON.stringify(JSON.stringify(odd)).slice(3, -3)],
  ])("finds it in %s", (_, form) => {
    const secrets = known({ password: odd });
    expect(secrets.redact(`got ${form}, too`)).toBe(`got ${secrets.redact(odd)}, too`);
  });

  it("finds it in a message of one line", () => {
    const secrets = known({ password: "pa55  word\t-1" });
    expect(secrets.redact(oneLine("got\n pa55  word\t-1"))).toMatch(/^got <redacted:\w+>$/);
  });

  it("finds a number as Go prints it", () => {
    const secrets = known({ pin: 987654321012, password: "70000000" });
    expect(secrets.redact("9.87654321012e+11 7e+07")).toBe(`${secrets.redact("987654321012")} 7e+07`);
  });

  it("looks for thousands that begin alike in linear time", () => {
    const secrets = known({ tokens: Array.from({ length: 2000 }, (_, i) => `same-begin-${i}`) });
    const said = "same-begin-".repeat(10_000);
    expect(secrets.redact(said)).not.toContain("same");
  });

  it("leaves words and short texts", () => {
    const secrets = known({ password: "correct horse", token: "abc-1", key: "my-tls-secret", cert: true });
    const said = "correct horse abc-1 my-tls-secret true";
    expect(secrets.redact(said)).toBe(said);
  });

  it("finds a long secret in a message that was cut", () => {
    const long = `s3cr3t${"x".repeat(300)}`;
    expect(known({ blob: long }).redact(`failed: ${long.slice(0, 100)}…`)).toMatch(
      /^failed: <redacted:.*>…$/,
    );
  });

  it("learns what is added to values that share the rest", () => {
    const shared = { deep: { password: "first-0ne" } };
    const secrets = known({ shared });
    secrets.register({ shared, more: { token: "second-0ne" } });
    expect(secrets.redact("first-0ne second-0ne")).not.toMatch(/0ne/);
  });

  const many = (from: number, count: number, more = ""): { tokens: string[] } => ({
    tokens: Array.from({ length: count }, (_, i) => `${from + i}-s3cret${more}`),
  });

  /** Makes texts so long that few of them are all that can be known. */
  const LONG = "y1".repeat(200);

  it("hides every word that may be a secret where nobody says what is in force", () => {
    const secrets = known(many(1, 1, LONG));
    for (const from of [10_000, 20_000]) secrets.register(many(from, 6000, LONG));
    expect(secrets.isOverfull).toBe(true);
    expect(secrets.redact(`1-s3cret${LONG} 25999-s3cret any-t0ken`)).toMatch(/^(?:<redacted:\w+> ?){3}$/);
    expect(secrets.redact("any… secr… words wait")).toMatch(/^any… <redacted:\w+> words wait$/);
  });

  it("knows each of 20,000 secrets, also in base64", () => {
    const secrets = known(many(100_000, 20_000));
    expect(secrets.redact("100000-s3cret 110000-s3cret 119999-s3cret")).toMatch(/^(?:<redacted:\w+> ?){3}$/);
    expect(secrets.redact(Buffer.from("x:110000-s3cret").toString("base64"))).toMatch(/^<redacted:\w+>$/);
    expect(secrets.redact("140000-s3cret")).toBe("140000-s3cret");
  });

  it("hides every word that may be a secret where one tree of values has more than can be known", () => {
    const secrets = known(many(100_000, 10_000, LONG));
    const said = "container 100000-s3cret and 159999-s3cret of app.kubernetes.io/name, 3 of 4";
    expect(secrets.redact(said)).toMatch(
      /^container <redacted:\w+> and <redacted:\w+> of app\.kubernetes\.io\/name, 3 of 4$/,
    );
  });

  it("forgets what is not in force, however short, and nothing else", () => {
    const secrets = new KnownSecrets();
    const [longer, large] = [{ password: `longer-${"p4ss".repeat(10)}` }, many(100_000, 45_000)];
    secrets.registerAgain = () => secrets.register(longer);
    secrets.register(longer);
    secrets.register(many(900_000, 10_000));
    secrets.register(large);
    expect(secrets.redact(`${longer.password} ${large.tokens[0]} ${large.tokens.at(-1)}`)).toMatch(
      /^(?:<redacted:\w+> ?){3}$/,
    );
    expect(secrets.redact("905000-s3cret")).toBe("905000-s3cret");
    expect(secrets.isOverfull).toBe(false);
  });

  it("hides every word where all values in force have more than can be known", () => {
    const secrets = new KnownSecrets();
    const inForce = [many(100_000, 8000, LONG)];
    secrets.registerAgain = () => inForce.forEach((tree) => secrets.register({ ...tree }));
    // Replaced at once: both are known for a moment.
    for (const from of [100_000, 200_000, 300_000]) {
      secrets.register(many(from, 8000, LONG));
      inForce[0] = many(from, 8000, LONG);
    }
    expect(secrets.isOverfull).toBe(false);
    for (const from of [500_000, 600_000]) {
      secrets.register(many(from, 8000, LONG));
      inForce.push(many(from, 8000, LONG));
    }
    expect(secrets.isOverfull).toBe(true);
    expect(secrets.redact("any-t0ken an0ther-one")).toMatch(/^(?:<redacted:\w+> ?){2}$/);
  });

  it("says once that every word is hidden, in words that stay", () => {
    const secrets = new KnownSecrets();
    const said: string[] = [];
    secrets.onOverfull = () => said.push(secrets.redact(OVERFULL_WARNING));
    secrets.register(many(0, 100, LONG));
    expect([said, secrets.isOverfull]).toEqual([[], false]);
    for (const first of [100_000, 200_000]) secrets.register(many(first, 10_000, LONG));
    expect([said, secrets.isOverfull]).toEqual([[OVERFULL_WARNING], true]);
  });

  it.each([
    ["a colour", "pa55\u001B[1;31m-word"],
    ["a title", "pa55-\u001B]0;t\u0007word"],
    ["a link", "pa5\u001B]8;;http://h\u001B\\5-word"],
    ["other sequences", "\u001B(Bp\u001B7a55-word\u001B[K"],
  ])("finds a secret with %s in it", (_, text) => {
    expect(known({ password: "pa55-word" }).redact(`with ${text}`)).toMatch(/^with <redacted:\w+>$/);
  });

  it("leaves colours where there is no secret", () => {
    expect(known({ password: "pa55-word" }).redact("\u001B[31mred\u001B[0m")).toBe("\u001B[31mred\u001B[0m");
  });

  const line = (cert: number, at: number): string => `MIIB${cert}x${at}+${"Qk9/".repeat(14)}`;
  const certificate = (cert: number, lines: number): string =>
    ["-----BEGIN KEY-----", ...Array.from({ length: lines }, (_, at) => line(cert, at)), ""].join("\n");

  it("keeps a password beside many long texts", () => {
    const secrets = known({ password: "oldest-00" });
    secrets.register(
      Object.fromEntries(Array.from({ length: 140 }, (_, i) => [`key${i}`, certificate(i, 30)])),
    );
    secrets.register({ key: certificate(1000, 15_000) });
    expect(secrets.redact("oldest-00")).toMatch(/^<redacted:\w+>$/);
    expect(secrets.redact(line(139, 29))).toMatch(/^<redacted:\w+>$/);
  });

  it("hides a line of two texts while one of them is known", () => {
    const secrets = known({ a: { password: `shared-line-01\n${"x1".repeat(20_000)}` } });
    secrets.registerAgain = () => secrets.register({ b: { password: "shared-line-01\nan0ther" } });
    secrets.registerAgain();
    const long = "x1".repeat(50);
    for (let from = 100_000; secrets.redact(long) !== long; from += 5000)
      secrets.register(many(from, 3000, LONG));
    expect(secrets.redact("shared-line-01")).toMatch(/^<redacted:\w+>$/);
  });
});

it.each(["pwd=/aG9sYQ8x/Qz1", "kubeconfig=hunter2hunter2", "pwd=s3cr3t"])("is no path: %s", (text) => {
  expect(redactText(text)).toMatch(/^\w+=<redacted:\w+>$/);
});

describe("words of messages are left alone", () => {
  it.each([
    "KUBECONFIG=/tmp/addon-operator-0/kube-1234/hooks.kubeconfig is not there",
    "pwd=/srv/app2/data-1",
    "PWD=/var/run/hooks-7 OLDPWD=/home/u1",
    'must match the schema of "password": a string',
    'required key "tls.key": not found',
    "error: --password is required",
    "the flag --key needs a value",
    "--token must be set",
    'invalid key: "a"',
    "Basic authentication failed",
    "no Bearer authentication",
  ])("%s", (text) => expect(redactText(text)).toBe(text));
});
