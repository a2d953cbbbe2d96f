import { describe, expect, test } from "vitest";

import { diffObjects } from "../../../src/helm/manifest/difference.ts";

// `module diff`: what is shown of an object that changes.

const lines = (count: number, changed?: number): string[] =>
  Array.from({ length: count }, (_, index) => (index === changed ? "changed" : `line ${index}`));

describe("the difference of an object", () => {
  test.each([
    ["in the middle", 3],
    ["at the beginning", 0],
    ["at the end", 6],
  ])("has one line that changes %s, and a few around it", (_where, at) => {
    const reported = diffObjects({ list: lines(7) }, { list: lines(7, at) }).split("\n");
    expect(reported.filter((line) => /^[-+]/.test(line))).toEqual([`-  - line ${at}`, "+  - changed"]);
  });

  test("keeps a line that is there twice", () => {
    expect(diffObjects({ list: ["a", "a"] }, { list: ["a"] })).toBe(" list:\n   - a\n-  - a\n");
    expect(diffObjects({ list: ["a"] }, { list: ["a", "a"] })).toBe(" list:\n   - a\n+  - a\n");
    expect(diffObjects({ list: ["a"] }, { list: ["a"] })).toBe("");
  });

  test("is found in objects of many thousand lines", () => {
    const reported = diffObjects({ list: lines(20_000) }, { list: lines(20_000, 9000) }).split("\n");
    expect(reported.filter((line) => /^[-+]/.test(line))).toEqual(["-  - line 9000", "+  - changed"]);
  });
});
