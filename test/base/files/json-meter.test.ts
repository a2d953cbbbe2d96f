import { expect, test } from "vitest";

import { JsonMeter } from "../../../src/base/index.ts";
import { WEBHOOK_LIMITS } from "../../../src/webhooks/limits.ts";

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

const manyKeys = (count: number, name: (i: number) => string): string =>
  `{${Array.from({ length: count }, (_, i) => `"${name(i)}":0`).join(",")}}`;

test("a key that the text did not have before counts more, once there are many", () => {
  const count = 100_000;
  const [, same] = measure(`[${Array(count).fill('{"a":0}').join(",")}]`);
  const [, different] = measure(manyKeys(count, (i) => `k${i.toString(36)}`));
  const [, spread] = measure(
    `[${Array.from({ length: count }, (_, i) => `{"k${i.toString(36)}":0}`).join(",")}]`,
  );
  expect(same).toBeLessThan(4 * count);
  expect(different).toBeGreaterThan(25 * count);
  expect(spread).toBeGreaterThan(25 * count);
  expect(measure(manyKeys(2000, (i) => `k${i}`))[1]).toBeLessThan(2100);
});

test.each([
  ["a fraction", "[1.10,2]", 12],
  ["an exponent", "[1E3,2]", 12],
  ["an integer above 2^53", "[12345678901234567890,2]", 12],
  ["numbers in strings", '["1.10","12345678901234567890"]', 3],
  ["words with the letter e", "[true,false,1]", 4],
])("%s counts as it costs", (_, text, values) => {
  expect(measure(text)[1]).toBe(values);
  expect(measure(text, 1)[1]).toBe(values);
});

test("no text within the limits of a review blocks the event loop for long", () => {
  const admission = WEBHOOK_LIMITS.admission.values;
  // What an attacker would send: as many keys as the limit allows, with a number that is read a second time.
  const tooMany = manyKeys(admission / 30 / 4 + 2100, (i) => `k${i.toString(36)}`).replace(":0", ":1.10");
  expect(measure(tooMany)[1]).toBeGreaterThan(admission);
});
