import { describe, expect, it } from "vitest";

import type { Json } from "../../../src/base/model/index.ts";
import { VALUES_LIMIT, displayValues } from "../../../src/report/index.ts";

const size = (value: Json | undefined) => Buffer.byteLength(JSON.stringify(value ?? null));

describe("values in a status", () => {
  it("are redacted, full or not there", () => {
    const values = { db: { password: "hunter2", host: "db" }, cert: "x" };
    expect(JSON.stringify(displayValues(values, "redacted"))).not.toMatch(/hunter2|"x"/);
    expect(displayValues(values, "full")).toEqual({ values });
    expect(displayValues(values, "none")).toEqual({});
  });

  it("hide what a schema marks as secret", () => {
    const displayed = displayValues({ m: { plain: "hunter2" } }, "redacted", {
      secretPaths: new Set(["/m/plain"]),
    });
    expect(JSON.stringify(displayed)).not.toContain("hunter2");
  });

  it.each<[string, Json]>([
    ["one long list", { m: { list: Array.from({ length: 9000 }, (_, i) => `item ${i}`) } }],
    ["many keys", { m: Object.fromEntries(Array.from({ length: 9000 }, (_, i) => [`k${i}`, i])) }],
    ["many long texts", { m: Array.from({ length: 900 }, (_, i) => ({ [`k${i}`]: "x".repeat(250) })) }],
    ["one long text", "ä".repeat(40_000)],
    ["deep", { a: { b: { c: { d: Array.from({ length: 20_000 }, () => "€") } } } }],
  ])("are cut to 32 KiB: %s", (_, values) => {
    const displayed = displayValues(values, "full");
    expect(displayed.valuesTruncated).toBe(true);
    expect(size(displayed.values)).toBeLessThanOrEqual(VALUES_LIMIT);
    expect(JSON.stringify(displayed.values).includes("<cut: ")).toBe(true);
  });

  it("keep small members whole when a large one is cut", () => {
    const { values } = displayValues({ big: "x".repeat(50_000), small: { a: 1 } }, "full");
    expect(values).toEqual({ big: "<cut: 50002 bytes>", small: { a: 1 } });
  });
});
