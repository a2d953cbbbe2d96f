#!/usr/bin/env node
// Runs the operator on a real control plane and writes what kubectl shows of it into docs/reference/status.md, between the
// markers. What differs from run to run (times, ages, ids, digests) is made the same.
//   node scripts/run.mjs capture.mjs
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { captureAll, createFirst, namespace, writeBroken } from "./capture/commands.mjs";
import { withBlocks } from "./capture/page.mjs";
import { startCluster } from "./control-plane.mjs";
import { startOperator } from "./operator.mjs";
import { root } from "./setup/versions.mjs";

const page = join(root, "docs", "reference", "status.md");

async function main() {
  const dir = mkdtempSync(join(tmpdir(), "capture-"));
  const cluster = await startCluster();
  let operator;
  try {
    await createFirst(cluster.kubectl);
    operator = await startOperator({
      kubeconfig: cluster.kubeconfig,
      namespace,
      modulesDir: `${join(root, "examples", "modules")}:${writeBroken(dir)}`,
      globalHooksDir: join(root, "examples", "global-hooks"),
    });
    const blocks = await captureAll(cluster.kubectl);
    writeFileSync(page, withBlocks(readFileSync(page, "utf8"), blocks));
  } finally {
    await operator?.stop();
    await cluster.stop();
    rmSync(dir, { recursive: true, force: true });
  }
}

if (process.argv[1] && import.meta.url === pathToFileURL(process.argv[1]).href) await main();
