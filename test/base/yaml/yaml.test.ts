import * as fc from "fast-check";
import { describe, expect, it } from "vitest";

import { YamlError, parseYaml, cutLaterDocuments, toYaml, toYamlSafeJson } from "../../../src/base/index.ts";
import { ExactNumber, type Json } from "../../../src/base/model/index.ts";

const read = (text: string): Json => parseYaml(text, "test.yaml").value;

function failure(text: string): YamlError {
  try {
    read(text);
  } catch (error) {
    if (error instanceof YamlError) return error;
    throw error;
  }
  throw new Error(`was read: ${text.slice(0, 60)}`);
}

/** Plain scalars as helm and kubectl read them. */
const SCALARS: readonly (readonly [readonly string[], Json])[] = [
  [["yes", "Yes", "YES", "on", "On", "ON", "y", "Y", "true", "True", "TRUE"], true],
  [["no", "No", "NO", "off", "Off", "OFF", "n", "N", "false", "False", "FALSE"], false],
  [["~", "null", "Null", "NULL", ""], null],
  [["0644"], 420],
  [["0777"], 511],
  [["00", "0", "-0"], 0],
  [["08"], 8],
  [["09"], 9],
  [["0o17"], 15],
  [["0x1F"], 31],
  [["0b101"], 5],
  [["1_000", "1e3", "1E3", "1e+3"], 1000],
  [["012e3"], 12000],
  [["1e-3"], 0.001],
  [[".5", "+.5"], 0.5],
  [["-.5"], -0.5],
  [[".3_5"], 0.35],
  [["5."], 5],
  [["1.0"], 1],
  [["1.50"], 1.5],
  [["-0x1F"], -31],
  [["9007199254740993", "9_007_199_254_740_993", "+0x20000000000001"], new ExactNumber("9007199254740993")],
  [["18446744073709551615", "0xffffffffffffffff"], new ExactNumber("18446744073709551615")],
  [["01777777777777777777777"], new ExactNumber("18446744073709551615")],
  [["-9223372036854775808"], new ExactNumber("-9223372036854775808")],
  [["-9223372036854775807"], new ExactNumber("-9223372036854775807")],
  [["18446744073709551616"], 2 ** 64],
  [["-9223372036854775809"], -(2 ** 63)],
  [["!!float 9007199254740993"], 2 ** 53],
  [["0x1ffffffffffffffff"], "0x1ffffffffffffffff"],
  [["!!str 5"], "5"],
  [['!!int "5"'], 5],
  [['!!bool "yes"'], true],
  [["!!binary aGk="], "hi"],
  [["!foo b"], "b"],
];
const STRINGS = [
  "._5",
  ".5_",
  "tRue",
  "0x",
  "_1",
  "1,000",
  "1e400",
  "0.1.2",
  "v1.0",
  "=",
  "12:30",
  "12:30:45",
  "2026-01-01",
];

describe("parseYaml", () => {
  it.each(SCALARS.flatMap(([texts, value]) => texts.map((text) => [text, value] as const)))(
    "reads %s as helm does",
    (text, value) => {
      expect(read(`a: ${text}`)).toEqual({ a: value });
    },
  );

  it.each([...STRINGS, "2026-01-01T00:00:00Z"])("leaves %s a string", (text) => {
    expect(read(`a: ${text}`)).toEqual({ a: text });
  });

  it.each([
    ["1: a", "1"],
    ["1.5: a", "1.5"],
    ["true: a", "true"],
    ["0x10: a", "16"],
    ["0644: a", "420"],
    ["y: a", "true"],
    ["n: a", "false"],
  ])("turns the key of %s into %s", (text, key) => {
    expect(read(text)).toEqual({ [key]: "a" });
  });

  it.each([
    ["infinity", "a: .inf", 1],
    ["negative infinity", "a: -.Inf", 1],
    ["not a number", "a: 1\nb:\n  - .nan", 3],
    ["a null key", "a: 1\n~: b", 2],
    ["a list as key", "[a]: b", 1],
    ["an unknown alias", "a: 1\nb: *x", 2],
    ["a tab as indentation", "a:\n\t- b", 2],
    ["a mapping in a line of a mapping", "a: b: c", 1],
    ["an at sign", "@x", 1],
    ["a back quote", "`x", 1],
    ["an alias within itself", "&a [*a]", 1],
  ])("refuses %s", (_, text, line) => {
    expect(failure(text).line).toBe(line);
  });

  it.each<readonly [string, string, Json]>([
    ["lines of a quoted text at the parent's column", "a:\n  q: '\n  .spec\n  '\n", { a: { q: " .spec " } }],
    ["lines of a quoted text at column 1", "a:\n  q: '\n.spec\n'\n  b: 1\n", { a: { q: " .spec ", b: 1 } }],
    ["lines of an item in quotes", '- "a\nb"\n- c', ["a b", "c"]],
    ["lines of a map in braces at any column", "a: {b: 1,\nc: 2\n}", { a: { b: 1, c: 2 } }],
    ["lines of a list in brackets at any column", "a:\n  - [1,\n2\n]\n  - 3", { a: [[1, 2], 3] }],
    ["no comment inside quotes", 'a: "x\n# y"', { a: "x # y" }],
    ["a tab that begins a line in quotes", 'a: "x\n\ty"', { a: "x y" }],
    [
      "blanks before a line break in quotes",
      "a: \"x\\t \t\n  y\"\nb: 'z \t\n\n y'",
      { a: "x\t y", b: "z\ny" },
    ],
    ["blanks within a plain text, and none at its ends", "a:  x \t y \t# z\nb:  1 \n", { a: "x \t y", b: 1 }],
    ["an escaped line break", 'a: "x\\\n  y"', { a: "xy" }],
    ["a plain text that goes on deeper", "b: one\n two", { b: "one two" }],
    ["an item that goes on in the next line", "- a\n - b", ["a - b"]],
    ["a block without a final line break", "a: |\n  text", { a: "text" }],
    ["a block that keeps line breaks and has none", "a: |+\n  text", { a: "text" }],
    ["a folded block without a final line break", "a: >\n  text\n  more", { a: "text more" }],
    ["a block with a final line break", "a: |\n  text\n", { a: "text\n" }],
    ["a broken second document", "a: 1\n---\nb: [", { a: 1 }],
    ["broken text behind the end of a document", "a: 1\n...\n[", { a: 1 }],
    ["a second map behind the first", '{"a":1}{"b":[', { a: 1 }],
    ["a key that is less indented than the first", " a: 1\nb: 2", { a: 1 }],
    ["a comma behind the last item", "[a, b,]", ["a", "b"]],
    ["a comma behind the last pair", "{a: 1,}", { a: 1 }],
    ["a byte order mark", "\uFEFFa: 1", { a: 1 }],
    ["a version", "%YAML 1.1\n---\na: 1", { a: 1 }],
    ["a tag directive", "%TAG !e! tag:yaml.org,2002:\n---\na: !e!str 1", { a: "1" }],
    ["a tab behind a colon", "a:\t1", { a: 1 }],
    ["a list at the column of its key", "a:\n- b\n- c\nd: 1", { a: ["b", "c"], d: 1 }],
    ["an apostrophe behind a backslash", 'a: "x\\\'y"', { a: "x'y" }],
    ["a colon behind a key in quotes, without a blank", '{"a":b}', { a: "b" }],
    ["a colon in a plain text", "{a:b: c}", { "a:b": "c" }],
    ["a separator line of Unicode in quotes", 'a: "x\u2028y"', { a: "x\u2028y" }],
    ["an anchor before a tag", "a: &x !!str 1\nb: *x", { a: "1", b: "1" }],
  ])("reads %s as Go does", (_, text, value) => {
    expect(read(text)).toEqual(value);
  });

  it.each([
    ["a document marker in quotes", 'a: "b\n--- c"', 2],
    ["a document marker behind an escaped line break", 'a: "b\\\n---\n"', 2],
    ["the end of a document in quotes", "a: 'b\n...\n'", 2],
    ["a list that only has a comma", "[,]", 1],
    ["a plain text that goes on at its key's column", "b: one\ntwo", 2],
    ["an escaped slash", '"x\\/y"', 1],
    ["an unknown escape sequence", '"\\q"', 1],
    ["half an escape sequence", 'a: 1\nb: "\\u12"', 2],
    ["text behind a quoted one", 'a: "x"y', 1],
    ["a list behind a key", "a: - b", 1],
    ["a list that does not end", "a:\n  [x", 2],
    ["a quote that does not end", "a: 'x\nb: 1\n", 3],
    ["a less indented line of a block", "a: |\n    x\n  y", 3],
    ["less indentation within a list", "a:\n  - b\n - c", 3],
    ["less indentation within a map", "a:\n  b: 1\n c: 1", 3],
    ["a key of two lines", '"a\nb": 1', 2],
    ["a key without a colon", "a: 1\nb\nc: 2", 3],
    ["a control character", "a: 1\nb: x\u0007", 2],
    ["a tag that nobody declared", "a: !e!x b", 1],
    ["a type that the text has not", "a: 1\nb: !!int 1.5", 2],
    ["another version of YAML", "%YAML 2.0\n---\na: 1", 1],
  ])("refuses %s as Go does, in its line", (_, text, line) => {
    expect(failure(text).line).toBe(line);
  });

  it("warns of text that belongs to no document", () => {
    const { warnings } = parseYaml('{"a": 1}\n{"b": 2}', "test.yaml");
    expect(warnings).toEqual(["test.yaml: line 2: the document ends before this line; the rest is ignored"]);
  });

  it.each([
    ["a: 1\n---\nb: 2\n", 3, "a: 1\n"],
    ["---\n---\na: 1\n", 3, "---\n"],
    ["a: 1\r\n...\r\n# comment\r\n--- {b: 2}", 4, "a: 1\r\n"],
    ["a: 1\u2028--- b", 2, "a: 1\u2028"],
    ["a: 1\n---\n# comment\n---\n", undefined, "a: 1\n"],
    ["# comment\n---\na: 1\n", undefined, "# comment\n---\na: 1\n"],
    ["a: |\n  x\n  ---\n  y\n", undefined, "a: |\n  x\n  ---\n  y\n"],
  ])("warns of documents after the first one of %j, and cuts them", (text, line, kept) => {
    const warning = `x: line ${line}: the document ends before this line; the rest is ignored`;
    expect(parseYaml(text, "x").warnings).toEqual(line === undefined ? [] : [warning]);
    expect(cutLaterDocuments(text)).toBe(kept);
    expect(parseYaml(kept, "x")).toEqual({ value: parseYaml(text, "x").value, warnings: [] });
  });

  it("does not repeat what a text contains that is read as an alias or a tag", () => {
    for (const text of ["a: *s3cret", "a: *s3cret!", "a: !s3cret!x", "a: !s3cr\u00e9t", '"s3cret'])
      expect(failure(text).message).not.toContain("s3cr");
  });

  it("takes the last of duplicate keys and warns with both lines", () => {
    const { value, warnings } = parseYaml("a: 1\nb:\n  c: 1\n  c: 2\na: 3", "test.yaml");
    expect(value).toEqual({ a: 3, b: { c: 2 } });
    expect(warnings).toEqual([
      'test.yaml: line 4: key "c" was already set in line 3; the last one wins',
      'test.yaml: line 5: key "a" was already set in line 1; the last one wins',
    ]);
  });

  it("finds duplicate keys in a large document", () => {
    const lines = Array.from({ length: 50_000 }, (_, index) => `key${index}: value`);
    const { warnings } = parseYaml([...lines, "key7: other"].join("\n"), "test.yaml");
    expect(warnings).toEqual([
      'test.yaml: line 50001: key "key7" was already set in line 8; the last one wins',
    ]);
  });

  it("merges maps with own keys winning, without a warning", () => {
    const { value, warnings } = parseYaml("x: &x {a: 1, b: 2}\nz:\n  <<: *x\n  a: 3", "test.yaml");
    expect(value).toEqual({ x: { a: 1, b: 2 }, z: { a: 3, b: 2 } });
    expect(warnings).toEqual([]);
  });

  it("warns of a duplicate key beside a merged one", () => {
    const { value, warnings } = parseYaml("x: &x {a: 1}\nz:\n  <<: *x\n  a: 2\n  a: 3\n  a: 4", "test.yaml");
    expect(value).toEqual({ x: { a: 1 }, z: { a: 4 } });
    expect(warnings).toEqual(
      [5, 6].map((line) => `test.yaml: line ${line}: key "a" was already set in line 4; the last one wins`),
    );
  });

  it("reads the first of several documents, and nothing as null", () => {
    expect(read("---\na: 1\n---\nb: 2")).toEqual({ a: 1 });
    expect(read("")).toBeNull();
    expect(read("# only a comment\n")).toBeNull();
  });

  it("keeps __proto__ an ordinary key", () => {
    const value = read('{"__proto__": {"polluted": true}}') as Record<string, unknown>;
    expect(Object.keys(value)).toEqual(["__proto__"]);
    expect(Object.getPrototypeOf(value)).toBe(Object.prototype);
    expect(({} as Record<string, unknown>)["polluted"]).toBeUndefined();
  });

  it("refuses more keys and values than it reads within a moment, and names the line", () => {
    const keys = (count: number): string => `a:\n${"- b\n".repeat(count)}`;
    expect(read(keys(199_997))).toMatchObject({ a: { length: 199_997 } });
    // The map, its key and its list are three.
    expect(failure(keys(199_998))).toMatchObject({
      message: "more than 200000 keys and values in one document",
      line: 199_999,
    });
    const levels = `${"{a: ".repeat(150)}1${"}".repeat(150)}`;
    expect(failure(`- ${levels}\n`.repeat(2000)).message).toContain("more than 200000 keys and values");
    const ones = `a: &a [${"1,".repeat(1000)}]\nb: [${"*a,".repeat(1000)}]`;
    expect(failure(ones).message).toBe("aliases make the document larger than 200000 keys and values");
  });

  it("refuses alias bombs and deep nesting", () => {
    let bomb = "a0: &a0 [x,x,x,x,x,x,x,x,x]\n";
    for (let level = 1; level < 12; level++) {
      bomb += `a${level}: &a${level} [${Array.from({ length: 9 })
        .fill(`*a${level - 1}`)
        .join(",")}]\n`;
    }
    expect(failure(bomb).message).toContain("aliases");
    expect(failure("[".repeat(10_000) + "]".repeat(10_000)).message).toContain("nested deeper");
    const block = Array.from({ length: 10_000 }, (_, depth) => `${" ".repeat(depth)}a:`).join("\n");
    expect(failure(block).message).toContain("nested deeper");
    let chain = "a0: &a0 [x]\n";
    for (let level = 1; level < 5000; level++) chain += `a${level}: &a${level} [*a${level - 1}]\n`;
    expect(failure(chain).message).toContain("nest");
  });
});

describe("toYamlSafeJson", () => {
  it("escapes what JSON contains as it is, and YAML forbids or reads as a line break", () => {
    const text = "caf\u0097 one\u0085 two\u2028  three\u2029\uFEFF\uFFFE\uFFFF\u007F 😀 é";
    const json = toYamlSafeJson({ [text]: text });
    expect(json).toContain(
      String.raw`caf\u0097 one\u0085 two\u2028  three\u2029\ufeff\ufffe\uffff\u007f 😀 é`,
    );
    for (const value of [JSON.parse(json), read(json)]) expect(value).toEqual({ [text]: text });
  });

  it("marks keys that are too long for a key without a question mark", () => {
    const value = { a: { ['"k'.repeat(1000)]: ["x".repeat(2000)], b: 1 } };
    expect(() => read(JSON.stringify(value))).toThrow(YamlError);
    expect(read(toYamlSafeJson(value))).toEqual(value);
  });
});

describe("toYaml", () => {
  it("writes the text of numbers that JavaScript would round", () => {
    const numbers = ["1234567890123456789", "-9223372036854775808", "18446744073709551615"];
    const value = { numbers: numbers.map((text) => new ExactNumber(text)), texts: numbers };
    expect(toYaml(value)).toBe(
      `numbers:\n${numbers.map((each) => `  - ${each}\n`).join("")}texts:\n${numbers.map((each) => `  - '${each}'\n`).join("")}`,
    );
    expect(read(toYaml(value))).toEqual(value);
  });

  const awkward = [
    ...SCALARS.flatMap(([texts]) => texts),
    ...STRINGS,
    "<<",
    ".inf",
    "- x",
    "#a",
    "a: b",
    " a",
    "a ",
    "a\nb",
    "a\n",
    "\n a",
    "\t",
    "\u2028",
    "@",
    "%",
    "!x",
    "&x",
  ];

  it("quotes what a reader would take for something else", () => {
    expect(toYaml({ a: "yes", b: "0644", c: "12:30", d: "2026-01-01", e: "text", f: 5 })).toBe(
      "a: 'yes'\nb: '0644'\nc: '12:30'\nd: '2026-01-01'\ne: text\nf: 5\n",
    );
  });

  it("is read back as it was, whatever the strings and keys", () => {
    const text = fc.oneof(fc.constantFrom(...awkward), fc.string(), fc.string({ unit: "grapheme" }));
    const { json } = fc.letrec<{ json: Json }>((tie) => ({
      json: fc.oneof(
        { maxDepth: 4 },
        text,
        fc.double({ noNaN: true, noDefaultInfinity: true }).map((value) => value + 0),
        fc.boolean(),
        fc.constant(null),
        fc.array(tie("json"), { maxLength: 4 }),
        fc.dictionary(text, tie("json"), { maxKeys: 4 }),
      ),
    }));
    expect(read(toYaml("\n a"))).toBe("\n a");
    fc.assert(
      fc.property(json, (value) => {
        expect(read(toYaml(value))).toEqual(JSON.parse(JSON.stringify(value)));
      }),
      { numRuns: 500 },
    );
  });
});
