import * as fc from "fast-check";
import { describe, expect, it } from "vitest";

import { ExactNumber, readJson } from "../../../src/base/model/index.ts";
import type { Json } from "../../../src/base/model/index.ts";

const exact = (text: string): ExactNumber => new ExactNumber(text);

describe("readJson", () => {
  it.each([
    "1234567890123456789",
    "-9223372036854775809",
    "9007199254740993",
    "1e999",
    "1.0",
    "1.50",
    "-0",
    "-0.0",
    "1E5",
    "1e5",
    "0.12345678901234567890",
    "0.0000001",
  ])("keeps the text of %s", (text) => {
    for (const [json, value] of [
      [text, exact(text)],
      [`[${text}]`, [exact(text)]],
      [`{"a":{"b":[1, ${text} ],"c":"${text}"}}`, { a: { b: [1, exact(text)], c: text } }],
    ] as const) {
      expect(readJson(json)).toStrictEqual(value);
      expect(JSON.stringify(readJson(json))).toBe(json.replaceAll(/ /g, ""));
    }
  });

  it.each(["0", "-5", "0.5", "1.25", "9007199254740991", "9007199254740992", "-0.1", "1e+21", "1e-7"])(
    "reads %s as a number",
    (text) => expect(readJson(`[${text}]`)).toStrictEqual([Number(text)]),
  );

  it("writes the same text again, whatever the numbers are", () => {
    const digits = fc.stringMatching(/^(?:0|[1-9]\d{0,25})$/);
    const number = fc
      .tuple(
        fc.constantFrom("", "-"),
        digits,
        fc.constantFrom("", ".0", ".5", ".10", ".12345678901234567890"),
        fc.constantFrom("", "e5", "E-7", "e+999"),
      )
      .map((parts) => parts.join(""));
    const text = fc.letrec<{ value: string }>((tie) => ({
      value: fc.oneof(
        { maxDepth: 4 },
        number,
        fc.constantFrom("true", "null", "{}", "[]", '"1.0,"', '":1.50}"'),
        fc.array(tie("value")).map((items) => `[${items.join(",")}]`),
        fc.array(tie("value")).map((items) => `{${items.map((item, i) => `"k${i}":${item}`).join(",")}}`),
      ),
    }));
    fc.assert(fc.property(text.value, (json) => JSON.stringify(readJson(json)) === json));
  });

  it("keeps the key __proto__ as a key", () => {
    const value = readJson('{"__proto__":{"a":1.0}}') as Record<string, Json>;
    expect(JSON.stringify(value)).toBe('{"__proto__":{"a":1.0}}');
  });

  it("reads a text that is nested too deep for a reviver", () => {
    const text = `${"[".repeat(9000)}1.0${"]".repeat(9000)}`;
    expect(() => readJson(text)).not.toThrow();
  });

  it("fails as JSON.parse does", () => expect(() => readJson("{")).toThrow(SyntaxError));
});
