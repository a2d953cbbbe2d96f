import { describe, expect, it } from "vitest";

import { compileCel } from "../../../src/base/index.ts";
import { readJson } from "../../../src/base/model/index.ts";

const SECRET = {
  data: { "tls.crt": "x" },
  spec: readJson('{"id":1234567890123456789,"size":1.0}'),
  status: { replicas: 3, conditions: [{ type: "Ready", status: "True" }] },
};

describe("an expression over an object", () => {
  it.each<[string, boolean, string?]>([
    ["'tls.crt' in object.data", true],
    ["'tls.key' in object.data", false],
    ["has(object.data)", true],
    ["has(object.none) && object.none.paused", false],
    ["object.spec.id == 1234567890123456789 && object.spec.size == 1", true],
    ["object.spec.id == 1234567890123456790", false],
    ["object.status.replicas >= 2", true],
    ["object.status.conditions.exists(c, c.type == 'Ready' && c.status == 'True')", true],
    ["object.none == 1", false, "fails: No such key: none"],
    ["object.constructor == 1", false, "fails: No such key: constructor"],
    ["object.data", false, "gives neither true nor false"],
    // What an error says of the object itself is not told.
    ["int(object.data['tls.crt']) > 0", false, "fails: it does not fit the object"],
    ["object.data[object.data['tls.crt']] == ''", false, "fails: it does not fit the object"],
    ["{'a': 1}[object.data['tls.crt']] == 1", false, "fails: it does not fit the object"],
    ["object['none'] == 1", false, "fails: No such key: none"],
  ])("%s", async (text, isMet, why) => {
    const test = await compileCel(text);
    expect(test(SECRET)).toEqual(why === undefined ? { isMet } : { isMet, why });
  });

  it.each([
    ["1 +", /^Unexpected token/],
    ["secret.data", /^Unknown variable: secret/],
    ["'a'", /^is no condition: it gives a string/],
    [`${"(".repeat(60)}true${")".repeat(60)}`, /depth/i],
    [Array.from({ length: 600 }, () => "true").join(" && "), /node/i],
  ])("is refused: %.20s", async (text, message) => {
    await expect(compileCel(text)).rejects.toThrow(message);
  });

  it("that would not end on what others have put into the object is given up", async () => {
    const list = Array.from({ length: 3000 }, (_, index) => index);
    const turns = "object.l.all(a, object.l.all(b, object.l.all(c, a + b + c >= 0.0)))";
    expect((await compileCel(turns))({ l: list })).toEqual({ isMet: false, why: "takes too long" });
    const pattern = await compileCel("object.t.matches('^(x+)+$')");
    expect(pattern({ t: `${"x".repeat(60)}y` })).toEqual({ isMet: false, why: "takes too long" });
    // And another one is evaluated as ever.
    expect(pattern({ t: "xx" })).toEqual({ isMet: true });
  });

  it("that is slow is not evaluated again and again: all slow ones together get a part of the time", async () => {
    const object = { t: `${"x".repeat(60)}y` };
    const slow = await compileCel("object.t.matches('^(x+)+$')");
    const other = await compileCel("object.t.matches('^(y+)+$')");
    const startedAt = performance.now();
    const before = process.threadCpuUsage();
    const calls = Array.from({ length: 40 }, () => slow(object));
    const { user, system } = process.threadCpuUsage(before);
    expect(calls.every(({ why }) => why === "takes too long")).toBe(true);
    // Each alone may take 100 ms of a processor. On a busy machine the calls take long, and the budget (1 s) grows meanwhile.
    const budgetGrowthMs = (performance.now() - startedAt) / 10;
    expect((user + system) / 1000).toBeLessThan(1500 + budgetGrowthMs);
    // One that is not slow is not delayed.
    expect(other({ t: "y" })).toEqual({ isMet: true });
    expect(other({ t: "y" })).toEqual({ isMet: true });
  });
});
