// Runs at night: documentation.
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";

import {
  captureAll,
  commands,
  createFirst,
  namespace,
  writeBroken,
} from "../../scripts/capture/commands.mjs";
import { blockIn } from "../../scripts/capture/page.mjs";
import { clusterOf, ownCluster } from "../support/cluster.ts";
import { startOperator } from "../support/operator.ts";

const root = join(import.meta.dirname, "..", "..");
const page = readFileSync(join(root, "docs", "reference", "status.md"), "utf8");

const cells = (line = ""): string[] => line.split(/ {2,}/);
const columns = (block = ""): string[] => cells(block.split("\n")[1]);
/** Names of fields, with their depth, each once. */
const fields = (block = ""): string[] => [...new Set(block.match(/^ *[A-Z][\w -]*:/gm))].toSorted();

test(
  "docs/reference/status.md shows what kubectl shows (node scripts/run.mjs capture.mjs)",
  { timeout: 150_000 },
  async () => {
    const dir = mkdtempSync(join(tmpdir(), "capture-"));
    onTestFinished(() => rmSync(dir, { recursive: true, force: true }));
    const own = await ownCluster();
    const { kubectl } = clusterOf(own);
    await createFirst(kubectl);
    await startOperator({
      kubeconfig: own.kubeconfig,
      admin: own.kubeconfig,
      namespace,
      modulesDir: `${join(root, "examples", "modules")}:${writeBroken(dir)}`,
      globalHooksDir: join(root, "examples", "global-hooks"),
    });
    const blocks = await captureAll(kubectl);
    expect(Object.keys(blocks)).toEqual(Object.keys(commands));
    for (const name of ["get", "explain"]) expect(blocks[name]?.trimEnd()).toBe(blockIn(page, name));
    for (const name of ["wide", "operators"])
      expect(columns(blocks[name])).toEqual(columns(blockIn(page, name)));
    expect(fields(blocks["describe"])).toEqual(fields(blockIn(page, "describe")));
    expect(blocks["describe"]).toMatch(/Normal +ReleaseInstalled/);
    expect(columns(blocks["wide"])).toEqual([
      "NAME",
      "ENABLED",
      "READY",
      "STATE",
      "REVISION",
      "LAST RUN",
      "AGE",
      "MESSAGE",
      "ENABLED-BY",
      "VERSION",
      "SOURCE",
      "NEXT",
    ]);
  },
);
