import { describe, expect, it } from "vitest";

import { compilePattern } from "../../../src/values/schema/pattern.ts";

/** Patterns on which JavaScript and RE2 agree. */
const PATTERNS = [
  "^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$",
  "^(a+)+$",
  "^\\d{1,3}(\\.\\d{1,3}){3}$",
  "foo|bar",
  "^$",
  "",
  "a{2,3}b*?",
  "(?:x|y)+z",
  "^[^/]+$",
  "\\bfoo\\b",
  "\\Bo",
  "[\\w.-]+@[\\w-]+",
  "^(yes|no)$",
  "[a\\-z]",
  "^a.c$",
  "\\x41|\\x42",
  "(ab?){2}$",
  "a|",
  "^(?:a|b|)$",
  "x{0}y",
  "\\s\\S",
  "[^\\d\\s]{3}",
  "é",
];
const TEXTS = [
  ..."|a|aa|aaa|aaab|foo|foobar|a foo b|bar|xyz|zz|a-b.c|a.c|abc|1.2.3.4|yes|no|-|]|me@x|/x|A|B|abab|aba|é".split(
    "|",
  ),
  "a\nc",
  "😀",
];

// Whatever takes more than its part of time here does not end: then the time limit of the test reports.
describe("compilePattern", () => {
  it.each(PATTERNS)("%s matches what JavaScript matches", (pattern) => {
    const own = compilePattern(pattern);
    const other = new RegExp(pattern, "u");
    expect(TEXTS.filter((text) => own.test(text))).toEqual(TEXTS.filter((text) => other.test(text)));
  });

  it.each([
    ["(?i)abc", ["ABC", "xaBcx"], ["ab"]],
    ["a(?i:b)c", ["aBc"], ["ABc"]],
    ["(?P<name>a)b", ["ab"], ["b"]],
    ["^\\pL+$", ["äöß"], ["a1"]],
    ["^\\p{Greek}$", ["α"], ["a"]],
    ["^\\PL$", ["1"], ["a"]],
    ["^[[:alpha:]]+$", ["ab"], ["a1"]],
    ["^[[:^digit:]]$", ["a"], ["1"]],
    ["(?s)a.c", ["a\nc"], ["ac"]],
    ["(?m)^b$", ["a\nb\nc"], ["abc"]],
    ["^\\x{1F600}$", ["😀"], ["x"]],
    ["\\Aab\\z", ["ab"], ["ab\n"]],
    ["[]a]", ["]", "a"], ["b"]],
  ])("%s is read as RE2 reads it", (pattern, yes, no) => {
    const compiled = compilePattern(pattern);
    expect(yes.every((text) => compiled.test(text))).toBe(true);
    expect(no.some((text) => compiled.test(text))).toBe(false);
  });

  it.each([
    "(?=a)",
    "(?<!a)b",
    "(a)\\1",
    "(",
    ")",
    "[a",
    "*a",
    "a{2,1}",
    "a{1,2000}",
    "\\q",
    "\\",
    "[z-a]",
    "[[:x:]]",
  ])("refuses %s, as RE2 does", (pattern) => {
    expect(() => compilePattern(pattern)).toThrow(SyntaxError);
  });

  it("refuses patterns of endless size", () => {
    expect(() => compilePattern("((((a{9}){1000}){1000}){1000}){1000}")).toThrow("invalid repeat");
    expect(() => compilePattern(`${"(".repeat(10_000)}a${")".repeat(10_000)}`)).toThrow("expression nest");
    expect(compilePattern(`^${"(".repeat(100)}a${")?".repeat(100)}$`).test("a")).toBe(true);
  });

  it.each(["^(a+)+$", "^(a|aa)+$", "^(a|a)*$", "a*a*a*a*a*b", "^(.*a){12}$"])(
    "%s cannot stall on a hostile text",
    (pattern) => expect(compilePattern(pattern).test(`${"a".repeat(20_000)}!`)).toBe(false),
  );
});
