import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

import { expect, test } from "vitest";

import { ByteCollector } from "../../../src/base/index.ts";

test("pieces are joined in order, and the next whole begins empty", () => {
  const collector = new ByteCollector();
  let expected = "";
  for (let piece = 0; piece < 2000; piece++) {
    collector.add(Buffer.from(`${piece},`));
    expected += `${piece},`;
  }
  expect(collector.size).toBe(expected.length);
  expect(collector.take().toString()).toBe(expected);
  expect([collector.size, collector.take().length]).toEqual([0, 0]);
  const only = Buffer.from("only");
  collector.add(only);
  expect(collector.take().buffer).toBe(only.buffer);
});

test("a million pieces of one byte need no memory for a million pieces", () => {
  setFlagsFromString("--expose-gc");
  const collectGarbage = runInNewContext("gc") as () => void;
  const collector = new ByteCollector();
  const slab = Buffer.alloc(1000);
  collectGarbage();
  const before = process.memoryUsage().heapUsed;
  for (let piece = 0; piece < 1_000_000; piece++)
    collector.add(slab.subarray(piece % 1000, (piece % 1000) + 1));
  collectGarbage();
  expect(process.memoryUsage().heapUsed - before).toBeLessThan(10_000_000);
  expect(collector.take().length).toBe(1_000_000);
});
