import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { startOperator } from "../../scripts/operator.mjs";

/** An operator that logs one line and ends before it serves anything. */
async function ending() {
  const dir = mkdtempSync(join(tmpdir(), "operator-test-"));
  onTestFinished(() => rmSync(dir, { recursive: true }));
  const bundle = join(dir, "main.js");
  writeFileSync(bundle, 'console.log("no such cluster"); process.exitCode = 3;');
  return startOperator({ kubeconfig: join(dir, "kubeconfig"), helm: "helm", bundle });
}

test("waiting for an operator ends with its log when the operator ends", async () => {
  const operator = await ending();
  const forever = operator.until(() => false, "no task waits", { timeoutMs: 600_000 });
  const ended = (what: string) =>
    `${what}: the operator ended with {"code":3,"signal":null}:\nno such cluster`;
  await expect(forever).rejects.toThrow(ended("no task waits"));
  await expect(operator.waitReady(600_000)).rejects.toThrow(ended("operator ready"));
  await operator.stop();
});
