import { mkdirSync, mkdtempSync, renameSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
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
  await cluster().kubectl(["wait", "--for=condition=Ready", "addonoperator/addon-operator", ...where]);
  const jsonpath = "jsonpath={.status.modules.summary}";
  const get = ["get", "addonoperator", "addon-operator", "-n", namespace, "-o", jsonpath];
  expect(await cluster().kubectl(get)).toBe("0/0");
});

// docs/reference/modules.md: a link without a target makes the module Invalid.
test("a module that a start finds as a link to nothing is Invalid, and keeps its release", async () => {
  const root = mkdtempSync(join(tmpdir(), "lost-modules-"));
  onTestFinished(() => rmSync(root, { recursive: true, force: true }));
  const modulesDir = join(root, "modules");
  const dir = join(modulesDir, "010-web");
  mkdirSync(join(dir, "templates"), { recursive: true });
  writeFileSync(join(dir, "Chart.yaml"), "apiVersion: v2\nname: web\nversion: 1.0.0\n");
  writeFileSync(
    join(dir, "templates", "map.yaml"),
    "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: of-web}\n",
  );
  writeFileSync(join(dir, "values.yaml"), "webEnabled: true\n");
  const namespace = await freshNamespace("lost-modules");
  const first = await startOperator({ namespace, modulesDir });
  await first.waitReady();
  await first.stop();

  renameSync(dir, join(root, "elsewhere"));
  symlinkSync("nowhere", dir);
  const second = await startOperator({ namespace, modulesDir });
  const { kubectl } = cluster();
  const wait = ["wait", "-n", namespace, "--timeout=60s"];
  await kubectl([...wait, "--for=jsonpath={.status.state}=Invalid", "addonmodule/web"]);
  await kubectl([...wait, "--for=condition=Stalled", "addonoperator/addon-operator"]);
  expect(await kubectl(["get", "addonmodule", "web", "-n", namespace, "-o", "json"])).toContain(
    "is a link to nothing",
  );

  rmSync(dir);
  renameSync(join(root, "elsewhere"), dir);
  await second.stop();
  const third = await startOperator({ namespace, modulesDir });
  await third.waitReady();
  await kubectl([...wait, "--for=condition=Ready", "addonmodule/web"]);
  const revision = ["-o", "jsonpath={.status.release.revision}"];
  expect(await kubectl(["get", "addonmodule", "web", "-n", namespace, ...revision])).toBe("1");
  await kubectl(["get", "configmap", "of-web", "-n", namespace]);
});
