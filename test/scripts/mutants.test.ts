import { globSync, readFileSync } from "node:fs";
import { stripTypeScriptTypes } from "node:module";
import { expect, test } from "vitest";

import config from "../../scripts/mutants/stryker.config.mjs";

/** `src/{a,b}.ts` as `src/a.ts` and `src/b.ts`: each alternative is to match by itself. */
function alternatives(pattern: string): string[] {
  const [, before, inside, after] = /^(.*?)\{(.*?)\}(.*)$/.exec(pattern) ?? [];
  return inside === undefined ? [pattern] : inside.split(",").map((one) => `${before}${one}${after}`);
}

test("every pattern of `npm run mutants` matches files", () => {
  const { mutate, inProcess } = config;
  const patterns = [...mutate, ...inProcess.include, ...inProcess.exclude].flatMap(alternatives);
  expect(patterns.filter((pattern) => globSync(pattern).length === 0)).toEqual([]);
});

test("Node itself can read every test that `npm run mutants` loads", () => {
  const { include, exclude } = config.inProcess;
  const files = globSync([...include, "test/support/*.ts"], { exclude });
  const unreadable = files.filter((file) => {
    try {
      stripTypeScriptTypes(readFileSync(file, "utf8"));
      return false;
    } catch {
      return true;
    }
  });
  expect(files.length).toBeGreaterThan(50);
  expect(unreadable).toEqual([]);
});
