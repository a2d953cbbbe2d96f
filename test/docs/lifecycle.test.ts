import { readdirSync, readFileSync } from "node:fs";

import { expect, test } from "vitest";

const tests = new URL("../", import.meta.url);

test("each numbered step of the life cycle has tests that begin with its number", () => {
  const dir = new URL("scenarios/", tests);
  const sources = readdirSync(dir).map((file) => readFileSync(new URL(file, dir), "utf8"));
  const numbers = sources.flatMap((source) =>
    [...source.matchAll(/["'](\d+): /g)].map(([, number]) => Number(number)),
  );
  const missing = Array.from({ length: 16 }, (_, index) => index + 1).filter(
    (each) => !numbers.includes(each),
  );
  expect(missing).toEqual([]);
});
