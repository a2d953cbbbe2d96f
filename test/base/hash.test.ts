import { expect, it } from "vitest";

import { canonicalJson, digest, digestAll, sameJson } from "../../src/base/index.ts";
import type { Json } from "../../src/base/model/index.ts";

const VALUES: readonly (Json | undefined)[] = [
  undefined,
  null,
  0,
  1,
  "",
  "1",
  true,
  false,
  [],
  [1, 2],
  [2, 1],
  [1, 2, 3],
  [[]],
  [{}],
  [null],
  {},
  { a: 1, b: 2 },
  { b: 2, a: 1 },
  { a: 1 },
  { a: 1, b: null },
  { a: { b: [1, { c: "x" }] } },
  { a: { b: [1, { c: "y" }] } },
  { 0: 1, 1: 2 },
  { length: 0 },
  { constructor: {} },
  JSON.parse('{"__proto__": {}}') as Json,
  { toString: null },
];

const copy = (value: Json | undefined): Json | undefined =>
  value === undefined ? undefined : (JSON.parse(JSON.stringify(value)) as Json);

it("two values are the same exactly if their canonical texts are", () => {
  for (const a of VALUES)
    for (const b of VALUES)
      expect(sameJson(copy(a), b), `${canonicalJson(a)} and ${canonicalJson(b)}`).toBe(
        canonicalJson(a) === canonicalJson(b),
      );
});

it("a member that is undefined counts as missing", () => {
  const unset = { a: 1, b: undefined } as unknown as Json;
  expect([sameJson(unset, { a: 1 }), sameJson({ a: 1 }, unset), sameJson(unset, { a: 1, c: 2 })]).toEqual([
    true,
    true,
    false,
  ]);
});

it.each([
  [[]],
  [["a"]],
  [["", "é", "\ud800"]],
  [["x".repeat(1000), "y"]],
  [["x".repeat(1001)]],
  [["1:a", "b"]],
])("a digest of texts is that of the same parts in a stream: %#", (parts: string[]) => {
  expect(digest(...parts)).toBe(digestAll(parts));
});
