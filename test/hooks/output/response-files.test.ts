import { expect, test } from "vitest";

import { parseAdmission, parseConversion } from "../../../src/hooks/output/response-files.ts";

const NONE = { allowed: false, message: undefined, warnings: [], patch: undefined };

test.each<[string, object | undefined]>([
  ["", undefined],
  ["{}", NONE],
  ["null", NONE],
  ['{"allowed":true}', { ...NONE, allowed: true }],
  ['{"ALLOWED":true,"Message":"x"} {"allowed":false} rest', { ...NONE, allowed: true, message: "x" }],
  ['{"allowed":null,"warnings":["a"],"other":1}', { ...NONE, warnings: ["a"] }],
  ['{"patch":""}', NONE],
  ['{"patch":"W10="}', { ...NONE, patch: "W10=" }],
])("admission %j", (text, answer) => {
  expect(parseAdmission(text)).toEqual(answer);
});

test.each([
  " ",
  "\n",
  "[]",
  '[{"op":"add"}]',
  '"text"',
  '{"allowed":',
  '{"allowed":"true"}',
  '{"message":1}',
  '{"warnings":"x"}',
  '{"warnings":[1]}',
  '{"patch":[]}',
  '{"patch":"YWI"}',
  '{"patch":"*"}',
])("admission %j is refused, and its content is not quoted", (text) => {
  expect(() => parseAdmission(text)).toThrow(/JSON|must be/);
});

test("conversion", () => {
  expect(parseConversion("")).toBeUndefined();
  expect(parseConversion("{}")).toEqual({ convertedObjects: [], failedMessage: undefined });
  expect(parseConversion('{"ConvertedObjects":[{"a":1}],"failedMessage":"no"}')).toEqual({
    convertedObjects: [{ a: 1 }],
    failedMessage: "no",
  });
  expect(() => parseConversion('{"convertedObjects":{}}')).toThrow("list of objects");
  expect(() => parseConversion('{"convertedObjects":[1]}')).toThrow("list of objects");
});
