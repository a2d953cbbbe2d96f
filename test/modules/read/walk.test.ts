import { mkdirSync, symlinkSync } from "node:fs";
import { expect, test } from "vitest";

import { listHooks } from "../../../src/modules/index.ts";
import { SizeLimits, walk } from "../../../src/modules/read/walk.ts";
import { directories } from "../module-directories.ts";

test("yields each directory before its content, follows links, and names circular ones", async () => {
  const on = await directories();
  for (const path of ["a/x", "a.b", "b/c/y", "left/out"]) await on.put(`w/${path}`);
  await on.link("w/b/up", "..");
  await on.link("w/c", "a");
  await on.link("w/lost", "nowhere");
  const names = (entersOnce: boolean): string[] => {
    const rules = {
      limits: new SizeLimits(on.at("w")),
      isLeftOut: (rel: string) => rel === "left",
      entersOnce,
    };
    return [...walk(on.at("w"), rules)].map(({ rel, isCircular }) => (isCircular ? `(${rel})` : rel));
  };
  const above = ["a", "a/x", "a.b", "b", "b/c", "b/c/y", "(b/up)", "c"];
  expect(names(false)).toEqual([...above, "c/x", "lost"]);
  expect(names(true)).toEqual([...above, "lost"]);
});

test("refuses what lies too deep", async () => {
  const on = await directories();
  const deepest = "d/".repeat(100);
  mkdirSync(on.at(`hooks/${deepest}`), { recursive: true });
  await on.put(`hooks/${deepest}x`);
  expect(listHooks(on.at("hooks")).files.size).toBe(1);
  symlinkSync("/", on.at(`hooks/${deepest}e`));
  expect(() => listHooks(on.at("hooks"))).toThrow("/e: lies more than 100 directories deep");
});
