import { expect, test } from "vitest";

import { serialize } from "../../src/runtime/index.ts";
import { settle } from "../support/clock.ts";

test("work begins after the end of all earlier work, in the order of the calls", async () => {
  const runInTurn = serialize();
  const log: string[] = [];
  const first = Promise.withResolvers<void>();
  const all = Promise.all([
    runInTurn(async () => {
      log.push("first");
      await first.promise;
      log.push("end of first");
    }),
    runInTurn(async () => log.push("second")),
    runInTurn(async () => log.push("third")),
  ]);
  await settle();
  expect(log).toEqual(["first"]);
  first.resolve();
  await all;
  expect(log).toEqual(["first", "end of first", "second", "third"]);
});

test("a failure reaches its own caller only", async () => {
  const runInTurn = serialize();
  const results = await Promise.allSettled([
    runInTurn(() => Promise.reject(new Error("refused"))),
    runInTurn(() => Promise.resolve(2)),
  ]);
  expect(results).toEqual([
    { status: "rejected", reason: new Error("refused") },
    { status: "fulfilled", value: 2 },
  ]);
});

test("two of them are independent", async () => {
  const never = serialize();
  void never(() => new Promise(() => {}));
  await expect(serialize()(() => Promise.resolve(1))).resolves.toBe(1);
});
