import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";

import { tools } from "../../scripts/setup/tools.mjs";
import { runOffline } from "../support/command-line.ts";

it("lint finds nothing wrong with the examples, modules and global hooks in one call", async () => {
  const tmp = mkdtempSync(join(tmpdir(), "lint-examples-"));
  onTestFinished(() => rmSync(tmp, { recursive: true, force: true }));
  const env = { PATH: process.env["PATH"], ADDON_OPERATOR_TMP_DIR: tmp };
  const dirs = ["examples/modules", "examples/global-hooks"];
  const { code, text } = await runOffline("lint", ["--helm-bin", tools().helm, ...dirs], env);
  expect([code, text]).toEqual([0, ""]);
});
