import { createHash } from "node:crypto";
import { describe, expect, it } from "vitest";

import {
  KnownSecrets,
  SecretWords,
  lineWithCommand,
  oneLine,
  plainLine,
  shortenMiddle,
} from "../../../../src/base/index.ts";

/** So many characters of a secret may stay beside a cut. */
const MAX_LEFT = 3;
const SECRETS = [
  "s3cr3t-LEAK-1234",
  "SummerHoliday2024",
  "correct horse battery 7",
  `a"b\\c'd<e>&/é$1-tail`,
  `-${"aZ0+/".repeat(40)}-`,
];
const known = new KnownSecrets();
known.register({ passwords: SECRETS });
const words = new SecretWords(["plainword", "correct horse", ...SECRETS]);
/** What the operator, and what jq and Go put in place of what they cut. */
const MARKS: readonly ((text: string) => string)[] = [
  (text) => `${text}…`,
  (text) => `${text} … `,
  (text) => `("${text}...)`,
  (text) => `\`${text}...\``,
];
const forms = (secret: string): string[] => [
  secret,
  JSON.stringify(secret).slice(1, -1),
  encodeURIComponent(secret),
  Buffer.from(secret).toString("base64"),
  Buffer.from(secret).toString("hex"),
];

/** The part of `form` beside a cut that stays in `displayed`. */
function longestLeft(displayed: string, form: string, edge: "begin" | "end"): number {
  let length = 0;
  const part = (size: number): string => (edge === "begin" ? form.slice(0, size) : form.slice(-size));
  while (length < form.length && displayed.includes(part(length + 1))) length++;
  return length;
}

describe("a secret that is cut", () => {
  const cases = SECRETS.flatMap((secret) => forms(secret).map((form) => [form] as const));
  it.each(cases)("at any position leaves at most a few characters before the mark: %s", (form) => {
    for (let at = 1; at <= form.length; at++)
      for (const cut of MARKS) {
        const displayed = known.redact(`connection failed with ${cut(form.slice(0, at))}`);
        expect(longestLeft(displayed, form, "begin")).toBeLessThanOrEqual(MAX_LEFT);
        expect(displayed).toMatch(/^connection failed with /);
      }
  });

  it.each(SECRETS.flatMap((secret) => forms(secret).slice(0, 3)))(
    "at any position leaves at most a few characters after the mark: %s",
    (form) => {
      for (let at = 0; at < form.length; at++) {
        const displayed = known.redact(`Invalid value … ${form.slice(at)}": a name`);
        expect(longestLeft(displayed, form, "end")).toBeLessThanOrEqual(MAX_LEFT);
        expect(displayed).toMatch(/^Invalid value … .*": a name$/);
      }
    },
  );

  it.each([
    ["one line", oneLine],
    ["a line without its middle", shortenMiddle],
    ["a line with commands", lineWithCommand],
    ["an untrusted line", plainLine],
  ])("by %s of any length leaves at most a few characters", (_, shorten) => {
    for (const secret of SECRETS.slice(0, 3))
      for (let before = 0; before < 130; before++) {
        const text = `${"x ".repeat(before / 2)}: ${secret}, ${"y ".repeat(60)}`;
        const displayed = known.redact(shorten(text, 100));
        for (const edge of ["begin", "end"] as const)
          expect(longestLeft(displayed, secret, edge)).toBeLessThanOrEqual(MAX_LEFT);
      }
  });

  it.each(SECRETS)("in base64 among other text leaves at most a few characters: %s", (secret) => {
    for (const before of ["u:", "us:", "use:"]) {
      const base64 = Buffer.from(`${before}${secret} and more`).toString("base64");
      for (let at = 1; at <= base64.length; at++) {
        const [shown = ""] = /^[\w+/]*/.exec(known.redact(`${base64.slice(0, at)}…`)) ?? [];
        const decoded = Buffer.from(shown, "base64").toString("utf8");
        expect(longestLeft(decoded, secret, "begin")).toBeLessThanOrEqual(MAX_LEFT);
      }
    }
  });

  it("is hidden whatever it is and wherever the text is cut", () => {
    for (let round = 0; round < 100; round++) {
      const random = createHash("sha512").update(`${round}`).digest("base64url");
      const secret = `${random.slice(0, 4 + (round % 60))}-${round}-A1b2`;
      const secrets = new KnownSecrets();
      secrets.register({ password: secret });
      const text = `${"= ".repeat(30)}${secret}${" =".repeat(30)}`;
      for (let limit = 2; limit < text.length; limit++)
        for (const shorten of [oneLine, shortenMiddle]) {
          const displayed = secrets.redact(shorten(text, limit)).replaceAll(/<redacted:\w+>/g, "*");
          for (const edge of ["begin", "end"] as const)
            expect(longestLeft(displayed, secret, edge)).toBeLessThanOrEqual(MAX_LEFT);
        }
    }
  });

  it("is hidden also if it is a plain word that the program got", () => {
    expect(words.hide('jq: string ("correct ho...) and number')).toMatch(
      /^jq: string \("<redacted:\w+>\.\.\.\) and/,
    );
    expect(words.hide("… word: plainw…")).toMatch(/^… <redacted:\w+>: <redacted:\w+>…$/);
  });

  it("has the placeholder of the whole", () => {
    const secret = SECRETS[0] ?? "";
    expect(known.redact(`${secret.slice(0, 9)}…`)).toBe(`${known.redact(secret)}…`);
    expect(known.redact(`…${secret.slice(9)}`)).toBe(`…${known.redact(secret)}`);
  });

  it("is forgotten with the secret", () => {
    const secrets = new KnownSecrets();
    secrets.register({ password: "alike-00-b" });
    const cut = "alike…, …00-b";
    expect(secrets.redact(cut)).toMatch(/^<redacted:\w+>…, …<redacted:\w+>$/);
    secrets.registerAgain = () => secrets.register({ password: "other-11-c" });
    const long = "b2".repeat(200);
    for (const from of [10_000, 20_000])
      secrets.register({
        tokens: Array.from({ length: 5000 }, (_, index) => `${from + index}-0ther${long}`),
      });
    expect(secrets.redact(cut)).toBe(cut);
  });
});

it.each([
  "s3cr3t-LEA with no mark",
  "s3c…",
  "waiting for SummerHoliday...",
  "a SummerHoliday, then more…",
  "… and then 1234",
  "s3cr4…",
])("a text in which nothing is cut out of a secret stays: %s", (text) => {
  expect(known.redact(text)).toBe(text);
});

it("what looks secret is hidden before a line is cut", () => {
  const url = "postgres://admin:s3cr3t-LEAK@db:5432/x";
  const token = `ghp_${"aB3".repeat(12)}`;
  for (const shorten of [oneLine, shortenMiddle, lineWithCommand, plainLine])
    for (let before = 0; before < 100; before++)
      for (const secret of [url, token]) {
        const displayed = shorten(`${"x ".repeat(before / 2)} ${secret} ${"y ".repeat(70)}`, 100);
        expect(displayed).not.toMatch(/s3cr|LEAK|aB3a/);
      }
});

it("very many cuts and forms take linear time", () => {
  const secrets = new KnownSecrets();
  secrets.register({ tokens: Array.from({ length: 5000 }, (_, index) => `${index}-s3cret-same-end`) });
  for (const piece of ["…", "1234-s3…-same-end…", "-end", "1234…", " … 12 … "]) {
    const text = piece.repeat((1 << 20) / piece.length);
    expect(secrets.redact(`${text}…`).length).toBeGreaterThan(0);
  }
}, 10_000);
