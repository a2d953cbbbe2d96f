import { expect, test } from "vitest";

import { JsonMeter } from "../../src/webhooks/body.ts";

function measure(text: string, chunk = text.length): [depth: number, values: number] {
  const meter = new JsonMeter();
  const bytes = Buffer.from(text);
  for (let at = 0; at < bytes.length; at += chunk) meter.add(bytes.subarray(at, at + chunk));
  return [meter.depth, meter.values];
}

test.each<[string, number, number]>([
  ["1", 0, 0],
  ['{"a":1,"b":2}', 1, 3],
  ['[[1],[2],{"a":{"b":[]}}]', 4, 14],
  [String.raw`["[[{,\"[,", "\\", 1]`, 1, 4],
  ["]]]][", 0, 2],
  ["[".repeat(300), 300, 600],
])("%s", (text, depth, values) => {
  expect(measure(text)).toEqual([depth, values]);
  expect(measure(text, 1)).toEqual([depth, values]);
});
