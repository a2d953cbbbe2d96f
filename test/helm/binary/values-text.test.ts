import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { array, boolean, constantFrom, dictionary, double, integer, oneof, sample, tuple } from "fast-check";
import { describe, expect, it, onTestFinished } from "vitest";

import { tools } from "../../../scripts/setup/tools.mjs";
import { toHelmValues } from "../../../src/helm/binary/values-text.ts";
import type { JsonObject } from "../../../src/base/model/index.ts";
import { putFiles } from "../../support/chart-repository.ts";
import { HELMS } from "../../support/helms.ts";

/** What a chart gets from helm as `.Values`. */
function readWithHelm(helm: string, json: string): unknown {
  const dir = mkdtempSync(join(tmpdir(), "values-"));
  onTestFinished(() => rmSync(dir, { recursive: true, force: true }));
  putFiles(dir, {
    "chart/Chart.yaml": "apiVersion: v2\nname: web\nversion: 1.0.0\n",
    "chart/templates/x.yaml": "x: {{ .Values | toJson | b64enc }}\n",
  });
  writeFileSync(join(dir, "values.yaml"), toHelmValues("web", json));
  const args = ["template", "web", join(dir, "chart"), "-f", join(dir, "values.yaml")];
  const output = execFileSync(helm, args, { encoding: "utf8", env: { HOME: dir } });
  const [, encoded = ""] = /^x: (.*)$/m.exec(output) ?? [];
  return JSON.parse(Buffer.from(encoded, "base64").toString());
}

/** Characters of each kind that YAML treats in its own way, words with a meaning in YAML, and lengths at limits of go-yaml. */
const CHARACTERS = [
  ...Array.from({ length: 0xa1 }, (_, code) => String.fromCodePoint(code)),
  ...Array.from("\u00ad\u2028\u2029\ud7ff\ue000\ufeff\ufffd\ufffe\uffff\u{10000}\u{1fffe}\u{10ffff}"),
];
const WORDS = [
  "",
  "<<",
  "=",
  "~",
  "y",
  "no",
  "null",
  "0x1",
  "1e3",
  "1_000",
  ".inf",
  "2001-01-01",
  "12:30",
  "!!str",
];
const MARKS = [
  "\n---\n",
  "\n...\n",
  "--- a",
  "...",
  "%YAML 1.1",
  "a: b",
  "a #b",
  "- a",
  "? a",
  "&a",
  "*a",
  "\t",
  "__proto__",
];

const character = oneof(
  constantFrom(...CHARACTERS),
  constantFrom("  ", "\r\n", '"', "\\", "'", "{{ x }}", "é", "😀"),
);
const text = oneof(
  constantFrom(...WORDS, ...MARKS),
  array(character, { maxLength: 12 }).map((parts) => parts.join("")),
  tuple(character, integer({ min: 160, max: 1100 })).map(([each, length]) => each.repeat(length)),
);
const scalar = oneof(text, boolean(), integer(), double({ noNaN: true, noDefaultInfinity: true }));
const values = dictionary(
  text.filter((key) => key !== "__proto__"),
  oneof(
    scalar,
    array(scalar, { maxLength: 3 }),
    dictionary(
      text.filter((key) => key !== "__proto__"),
      scalar,
      { maxKeys: 3 },
    ),
  ),
  { minKeys: 400, maxKeys: 400, noNullPrototype: true },
);

const seed = Number(process.env["SEED"] ?? Date.now() % 2 ** 31);
describe.each(HELMS)("%s", (which) => {
  it(`gets exactly the text of the values (SEED=${seed})`, () => {
    for (const given of sample(values, { seed, numRuns: 2 })) {
      const json = JSON.stringify(given);
      expect(readWithHelm(tools()[which], json)).toEqual(JSON.parse(json));
    }
  });

  it("gets the texts of a field report", () => {
    const reported = {
      txt: { a: "one\u0085two", b: "one\u2028  two", c: "caf\u0097", d: "\u007f\ufffe\uffff😀" },
      [`"${"k".repeat(1023)}`]: { ["é".repeat(200)]: 1 },
    };
    expect(readWithHelm(tools()[which], JSON.stringify(reported))).toEqual(reported);
  });
});

describe("values that YAML cannot express are refused with their path:", () => {
  const cases: Record<string, [JsonObject | string, string]> = {
    "a lone surrogate": [
      { web: { a: ["x", "y\ud800z"] } },
      "/web/a/1: contains half a surrogate pair, which is no character",
    ],
    "a lone surrogate in a key": [
      { web: { "a\udfff": 1 } },
      "/web/a\ufffd: contains half a surrogate pair, which is no character",
    ],
    "a number": [`{"web": {"a": 1e999}}`, "/web/a: contains a number above 1e308, which helm cannot read"],
    "a long number": [
      `{"web": {"a": 1${"0".repeat(400)}}}`,
      "/web/a: contains a number above 1e308, which helm cannot read",
    ],
  };
  it.each(Object.entries(cases))("%s", (_, [given, message]) => {
    const json = typeof given === "string" ? given : JSON.stringify(given);
    expect(() => toHelmValues("web", json)).toThrow(
      `values of module web: ${message} (correct the hook that sets it)`,
    );
  });

  it("not texts that only resemble them", () => {
    const json = JSON.stringify({ a: String.raw`\ud800`, b: "1e999", c: "9".repeat(400), d: "\u{1d800}" });
    expect(toHelmValues("web", json)).toBe(json);
  });
});
