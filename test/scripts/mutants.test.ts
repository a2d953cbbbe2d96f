import { globSync, readFileSync } from "node:fs";
import { stripTypeScriptTypes } from "node:module";
import { expect, test } from "vitest";

import config from "../../scripts/mutants/stryker.config.mjs";

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
