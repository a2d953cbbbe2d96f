import { randomBytes } from "node:crypto";
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";

import { cluster, eventually, freshNamespace } from "../support/cluster.ts";
import { startOperator } from "../support/operator.ts";

/** Other operators of this machine write the same file: a name of its own reports this one's picture. */
const HOOK = `stuck-${randomBytes(4).toString("hex")}`;

test("the queue is on the HTTP port, in /tmp/addon-operator-queue and in the dump", async () => {
  const root = mkdtempSync(join(tmpdir(), "queue-"));
  onTestFinished(() => rmSync(root, { recursive: true, force: true }));
  mkdirSync(join(root, "modules/010-web/templates"), { recursive: true });
  writeFileSync(join(root, "modules/010-web/values.yaml"), "webEnabled: true\n");
  mkdirSync(join(root, "hooks"));
  const hook = join(root, "hooks", HOOK);
  writeFileSync(hook, `#!/bin/sh\nif [ "$1" = --config ]; then echo '{"onStartup": 1}'; exit; fi\nexit 7\n`);
  chmodSync(hook, 0o755);
  const namespace = await freshNamespace("queue");
  const operator = await startOperator({
    namespace,
    modulesDir: join(root, "modules"),
    globalHooksDir: join(root, "hooks"),
  });
  const failing = new RegExp(`hook hooks/${HOOK}: onStartup; failed \\d+ times?: exit code 7`);
  await eventually(async () => {
    expect((await operator.http("/queue")).body).toMatch(failing);
  }, "the port shows the failing hook");
  await eventually(async () => {
    expect(await readFile("/tmp/addon-operator-queue", "utf8")).toMatch(failing);
  }, "the file shows it");
  await eventually(async () => {
    const path = ["-n", namespace, "-o", `jsonpath={.status.conditions[?(@.type=="Ready")].message}`];
    expect(await cluster().kubectl(["get", "addonmodule", "web", ...path])).toMatch(
      new RegExp(`^waits for onStartup hook hooks/${HOOK} \\(failed \\d+ times?\\)$`),
    );
  }, "the module that waits says for what");
  const { active } = JSON.parse((await operator.http("/queue?output=json")).body) as {
    active: { name: string; tasksCount: number }[];
  };
  expect(active).toMatchObject([{ name: "main", tasksCount: 2 }]);
  expect((await operator.http("/readyz")).status).toBe(500);
});
