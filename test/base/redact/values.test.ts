import { describe, expect, it } from "vitest";

import { KnownSecrets, redactText, redactValues } from "../../../src/base/index.ts";
import type { Json } from "../../../src/base/model/index.ts";

const starred = (value: Json, paths: readonly string[] = []): Json =>
  JSON.parse(
    JSON.stringify(redactValues(value, new Set(paths))).replaceAll(/<redacted:[0-9a-f]{32}>/g, "*"),
  ) as Json;
const RANDOM = "qX7mZp2LkV9sTn4RbWc8YdHf";

describe("values", () => {
  it.each<[string, Json, Json, ...string[]]>([
    ["a number under a secret key", { password: 5, port: 5 }, { password: "*", port: 5 }],
    [
      "all but what says nothing, at a path of the schema",
      { a: { n: null, b: true, e: "", x: 1, l: ["y", { z: "w" }] } },
      { a: { n: null, b: true, e: "", x: "*", l: ["*", { z: "*" }] } },
      "/a",
    ],
    ["items by their place", { l: ["x1", "y1"] }, { l: ["x1", "*"] }, "/l/1"],
    ["members with a slash or tilde", { "a/b": "x1", "~": "y1" }, { "a/b": "*", "~": "*" }, "/a~1b", "/~0"],
    [
      "data of Secrets only",
      [
        { kind: "Secret", data: { a: "b1" }, note: "c1" },
        { kind: "ConfigMap", data: { a: "b1" } },
      ],
      [
        { kind: "Secret", data: { a: "*" }, note: "c1" },
        { kind: "ConfigMap", data: { a: "b1" } },
      ],
    ],
    ["what is named beside it", { name: "TOKEN", value: "a1" }, { name: "TOKEN", value: "*" }],
    ["not a name that is no text", { name: 5, value: "a1" }, { name: 5, value: "a1" }],
    ["not what a plain name gives", { name: "HOST", value: "a1" }, { name: "HOST", value: "a1" }],
    [
      "not references",
      { passwordRef: { name: "a1%b", key: "c1%d" } },
      { passwordRef: { name: "a1%b", key: "c1%d" } },
    ],
    [
      "not a reference by its members",
      { x: { name: "a1%b", key: "c1%d" } },
      { x: { name: "a1%b", key: "c1%d" } },
    ],
    ["but a key alone", { x: { key: "c1%d" } }, { x: { key: "*" } }],
    [
      "not below what only names it",
      { secretRef: { a: { b: "c1%d" } } },
      { secretRef: { a: { b: "c1%d" } } },
    ],
    [
      "below a secret key, whatever says nothing",
      { password: { a: { b: "c1" } } },
      { password: { a: { b: "*" } } },
    ],
    ["in no order", { a: RANDOM, publicThing: RANDOM }, { a: "*", publicThing: RANDOM }],
    [
      "not digests, addresses and files",
      { a: `sha256:${RANDOM}`, b: `h://${RANDOM}` },
      { a: `sha256:${RANDOM}`, b: `h://${RANDOM}` },
    ],
  ])("hide %s", (_, ...[value, wanted, ...paths]) => expect(starred(value, paths)).toEqual(wanted));

  it("are hidden where nobody reads so deep", () => {
    const nested = (levels: number): Json => (levels === 0 ? "leaf" : { a: nested(levels - 1) });
    const displayed = (levels: number, ...paths: string[]) => JSON.stringify(starred(nested(levels), paths));
    expect(displayed(200)).toContain("leaf");
    expect(displayed(202)).toMatch(/"a":"\*"}/);
    expect(displayed(202, "/a").match(/"a"/g)).toHaveLength(201);
  });
});

describe("names, numbers and words under keys that may be secret", () => {
  it.each([
    "tls-1",
    "web.tls",
    "v2",
    "42",
    "-1.5 Mi",
    "./a/b_c.x",
    "/etc/ssl/x1",
    "https://h.example.com:80/a",
    "read the whole handbook",
    "Jane went to Rome.",
    "a".repeat(200),
  ])("%s is shown", (text) => expect(starred({ cert: text })).toEqual({ cert: text }));

  it.each([
    "x",
    "a1b2c3",
    "a-b1c2d3",
    "a b",
    "Two words",
    "4 words Of many",
    "a".repeat(201),
    "https://h/x?y=1",
    "5 apples",
    "%a",
  ])("%s is hidden", (text) => expect(starred({ cert: text })).toEqual({ cert: "*" }));

  it.each([
    ["0123456789abcdef0123456789abcdef", true],
    ["0123456789abcdef0123456789abcde", false],
    ["0123456789ABCDEF0123456789ABCDEF", true],
    ["01234567890123456789012345678901", false],
    [RANDOM.slice(0, 19), false],
    [`x ${RANDOM}`, false],
    ["Camel2Case3Names4Stay5Shown", false],
  ])("%s in no order: %s", (text, isHidden) => {
    expect(starred({ a: text })).toEqual({ a: isHidden ? "*" : text });
  });
});

describe("user infos", () => {
  const displayed = (text: string): string => redactText(text).replaceAll(/<redacted:[0-9a-f]{32}>/g, "*");
  it.each([
    ["jdbc:oracle:thin:scott/tiger@//ora:1521/XE", "jdbc:oracle:thin:scott/*@//ora:1521/XE"],
    ["a:pw1@tcp(h:3306)/db", "a:*@tcp(h:3306)/db"],
    ["a:pw1@h.example.com:5432", "a:*@h.example.com:5432"],
    ["x://u:12ab/c@h/p", "x://*@h/p"],
    ["x://u:1/2a@h", "x://*@h"],
    ["x://u:p?a#b@h:1", "x://*@h:1"],
    ["x://u:p@q@h and y://v:w@[::1]:80/", "x://*@h and y://*@[::1]:80/"],
    ["x://$(USER):pw@h", "x://*@h"],
  ])("%s", (text, wanted) => expect(displayed(text)).toBe(wanted));

  it.each([
    "ssh://git@h/x",
    "x://${USER}@h",
    "x://$(USER)@h",
    "x://h/a@b",
    "x://h:/a@b",
    "h:a@b",
    "x://user@h",
    "mail a@b.c",
    "x://@h",
  ])("stays: %s", (text) => expect(displayed(text)).toBe(text));
});

describe("blocks and tokens", () => {
  const displayed = (text: string): string => redactText(text).replaceAll(/<redacted:[0-9a-f]{32}>/g, "*");
  const line = "A1b2".repeat(16);
  it.each([
    [`a ${line}\n${line}\nA=\n-----END X----- b`, "a * b"],
    [`a bc ${line} A=| -----END X----- b`, "a bc * b"],
    [`short\n${line}\n-----END X-----`, "short\n*"],
    ["a: -----END X----- b", "a: -----END X----- b"],
    [`${line}-----END X-----, ${line}-----END Y-----.`, "*, *."],
    ["a -----BEGIN X-----\nabc\n-----END X----- b -----BEGIN Y-----\nc", "a * b *"],
    ["x ghp_abcdefghijklmnopqrst, y glpat-abcdefghijklmnop", "x *, y *"],
    ["ghp_abc", "ghp_abc"],
    ["https://hooks.slack.com/services/T0/B0/abc x", "https://hooks.slack.com/* x"],
  ])("%j", (text, wanted) => expect(displayed(text)).toBe(wanted));
});

describe("known secrets", () => {
  const known = (...secrets: string[]): KnownSecrets => {
    const all = new KnownSecrets();
    all.register({ passwords: secrets });
    return all;
  };
  const displayed = (all: KnownSecrets, text: string): string =>
    all.redact(text).replaceAll(/<redacted:[0-9a-f]{32}>/g, "*");

  it("are reported apart where few begin alike, the longest first", () => {
    const all = known("alike-00", "alike-00-more-1", "alike-00-more-1-and");
    expect(displayed(all, "alike-00-more-1-and alike-00-more-1 alike-00-mo alike-0")).toBe(
      "* * *-mo alike-0",
    );
    expect(all.redact("alike-00")).not.toBe(all.redact("alike-00-more-1"));
    expect(all.redact("alike-00")).toBe(all.redact("alike-00"));
  });

  it("end where many that begin alike would end", () => {
    const all = known(...Array.from({ length: 20 }, (_, index) => `alike-00-${index}`));
    expect(displayed(all, 'x alike-00-7 "alike-00-other" alike-00;a')).toBe('x * "*" *;a');
  });

  it("need enough of a long one", () => {
    const long = `s3cr3t-${"x1".repeat(40)}`;
    expect(displayed(known(long), `${long.slice(0, 32)} ${long.slice(0, 31)}`)).toBe(
      `* ${long.slice(0, 31)}`,
    );
  });

  it("go, and leave others that begin alike", () => {
    const longer = `alike-00-${"a1".repeat(500)}`;
    const all = known("alike-00-b", longer);
    all.registerAgain = () => all.register({ password: "alike-00-b" });
    expect(displayed(all, longer)).toBe("*");
    const more = "b2".repeat(200);
    for (const from of [10_000, 20_000])
      all.register({ tokens: Array.from({ length: 5000 }, (_, index) => `${from + index}-0ther${more}`) });
    expect(displayed(all, `${longer} alike-00-b 24999-0ther${more}`)).toBe(`${longer} * *`);
  });

  it("are hidden with the base64 text around them, up to what was hidden before", () => {
    const secret = "pa55>word?~~ü";
    const text = Buffer.from(`uuu${secret}`).toString("base64");
    expect(displayed(known(secret), `a: ${text}${text},b`)).toMatch(/^a: \*+,b$/);
  });
});
