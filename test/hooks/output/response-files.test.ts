import { expect, test } from "vitest";

import { parseAdmission, parseConversion } from "../../../src/hooks/output/response-files.ts";

const NONE = { allowed: false, message: undefined, warnings: [], patch: undefined };

const patchOf = (text: string): string => JSON.stringify({ patch: Buffer.from(text).toString("base64") });

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
  patchOf("not json"),
  patchOf("{}"),
  patchOf('"text"'),
  patchOf("[1]"),
  patchOf('[{"op":"nope","path":"/a"}]'),
  patchOf('[{"path":"/a"}]'),
  patchOf('[{"op":"add","value":1}]'),
  patchOf('[{"op":"add","path":"a","value":1}]'),
  patchOf('[{"op":"move","path":"/a"}]'),
])("admission %j is refused, and its content is not quoted", (text) => {
  expect(() => parseAdmission(text)).toThrow(/JSON|must be/);
});

test("a patch may have all operations of RFC 6902", () => {
  const operations = [
    { op: "add", path: "/a", value: null },
    { op: "test", path: "", value: {} },
    { op: "replace", path: "/a", value: 1 },
    { op: "move", from: "/a", path: "/b" },
    { op: "copy", from: "/b", path: "/a" },
    { op: "remove", path: "/a" },
  ];
  for (const text of [JSON.stringify(operations), "null"])
    expect(parseAdmission(patchOf(text))?.patch).toBe(Buffer.from(text).toString("base64"));
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
