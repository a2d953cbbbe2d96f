import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";

import { cluster, freshNamespace } from "../support/cluster.ts";
import { startOperator } from "../support/operator.ts";

// docs/get-started/install.md: the published image contains no modules, and the published chart installs it by default.

test("an operator without modules becomes Ready", { timeout: 120_000 }, async () => {
  const empty = mkdtempSync(join(tmpdir(), "no-modules-"));
  onTestFinished(() => rmSync(empty, { recursive: true, force: true }));
  const namespace = await freshNamespace("no-modules");
  const operator = await startOperator({ namespace, modulesDir: empty, globalHooksDir: empty });
  await operator.waitReady();
  const where = ["-n", namespace, "--timeout=60s"];
  await cluster().kubectl(["wait", "--for=create", "addonoperator/addon-operator", ...where]);
  await cluster().kubectl(["wait", "--for=condition=Ready", "addonoperator/addon-operator", ...where]);
  const jsonpath = "jsonpath={.status.modules.summary}";
  const get = ["get", "addonoperator", "addon-operator", "-n", namespace, "-o", jsonpath];
  expect(await cluster().kubectl(get)).toBe("0/0");
});
