import { describe, expect, it } from "vitest";

import { ListSplitter } from "../../../src/kube/watch/list.ts";
import { FrameSplitter } from "../../../src/kube/watch/stream.ts";

const chunksOf = (text: string, size: number): Buffer[] => {
  const bytes = Buffer.from(text);
  const chunks: Buffer[] = [];
  for (let at = 0; at < bytes.length; at += size) chunks.push(bytes.subarray(at, at + size));
  return chunks;
};

const SIZES = [1, 2, 3, 7, 16, 10_000];

describe("FrameSplitter", () => {
  it.each(SIZES)("finds every line in chunks of %i bytes, and keeps a half one back", (size) => {
    const lines = new FrameSplitter();
    const text = `{"a":"ä\\n"}\n\n{"b":2}\n{"half":`;
    const found = chunksOf(text, size).flatMap((chunk) => lines.push(chunk).map(String));
    expect(found).toEqual([`{"a":"ä\\n"}`, `{"b":2}`]);
  });
});

describe("ListSplitter", () => {
  const items = [
    { metadata: { name: "a", labels: { x: "]}{[" } }, list: [[1], [{}]] },
    { metadata: { name: 'b"\\' }, data: { "k\\": 'say "hi"\\', u: "ü€😀" } },
    {},
  ];
  const lists: [string, string][] = [
    [
      "metadata first",
      JSON.stringify({ kind: "L", metadata: { resourceVersion: "7", continue: "x" }, items }),
    ],
    [
      "metadata last",
      JSON.stringify({ items, kind: "L", metadata: { resourceVersion: "7", continue: "x" } }),
    ],
    [
      "spaced",
      JSON.stringify({ items, kind: "L", metadata: { resourceVersion: "7", continue: "x" } }, null, 2),
    ],
  ];
  for (const [name, text] of lists) {
    it.each(SIZES)(`takes a list apart, ${name}, in chunks of %i bytes`, (size) => {
      const splitter = new ListSplitter();
      const found = chunksOf(text, size).flatMap((chunk) =>
        splitter.push(chunk).map((item) => JSON.parse(String(item)) as unknown),
      );
      expect(found).toEqual(items);
      expect(splitter.finish()).toEqual({
        kind: "L",
        metadata: { resourceVersion: "7", continue: "x" },
        items: [],
      });
    });
  }

  it("says so when the list ends in the middle", () => {
    const splitter = new ListSplitter();
    splitter.push(Buffer.from(`{"items":[{"a":1},{"b"`));
    expect(() => splitter.finish()).toThrow(SyntaxError);
  });

  it("takes an empty and a null list", () => {
    for (const items of ["[]", "null"]) {
      const splitter = new ListSplitter();
      expect(splitter.push(Buffer.from(`{"metadata":{},"items":${items}}`))).toEqual([]);
      expect(splitter.finish()["metadata"]).toEqual({});
    }
  });
});
