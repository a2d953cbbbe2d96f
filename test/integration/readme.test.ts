// Run with helm 3 as well.
// Runs at night: documentation.
import { execFile } from "node:child_process";
import { cpSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, dirname, join } from "node:path";
import { promisify } from "node:util";
import { expect, onTestFinished, test } from "vitest";

import { cluster, freshNamespace, ownCluster } from "../support/cluster.ts";
import type { Cluster } from "../support/cluster.ts";
import { isUnderTest } from "../support/helms.ts";
import { startOperator } from "../support/operator.ts";

const run = promisify(execFile);
const root = join(import.meta.dirname, "../..");

/** The blocks of examples/README.md, "Try it", as they are printed. */
function blocks(): string[] {
  const text = readFileSync(join(root, "examples", "README.md"), "utf8");
  const [, section = ""] = /^## Try it\n([^]*?)^## /m.exec(text) ?? [];
  return [...section.matchAll(/(?:^ {4}.+\n)+/gm)].map(([block]) => block);
}

type Place = [string, () => Promise<Pick<Cluster, "kubeconfig" | "kubectl">>];

const DEMOS_OWN: Place = [
  "the demo's own control plane, which has no controller manager",
  () => ownCluster({ controllerManager: false }),
];
const places: Place[] = [
  ["a cluster", () => Promise.resolve(cluster())],
  // No matter of helm's: with one of them.
  ...(isUnderTest("helm") ? [DEMOS_OWN] : []),
];

test.each(places)(
  "the tour of examples/README.md on %s, typed block by block as fast as can be",
  { timeout: 240_000 },
  async (_, place) => {
    const { kubeconfig: admin, kubectl } = await place();
    const namespace = await freshNamespace("readme");
    await kubectl(["create", "namespace", namespace]).catch(() => {});
    const operator = await startOperator({
      namespace,
      admin,
      kubeconfig: admin,
      modulesDir: join(root, "examples", "modules"),
      globalHooksDir: join(root, "examples", "global-hooks"),
    });
    await operator.waitReady();
    // As when the demo has come to its end. A server that knows a kind for less than two seconds lets its first object wait.
    for (const what of ["create", "condition=Ready"])
      await kubectl([
        "wait",
        `--for=${what}`,
        "addonmodule/priority-classes",
        "-n",
        namespace,
        "--timeout=120s",
      ]);
    const dir = mkdtempSync(join(tmpdir(), "readme-"));
    onTestFinished(() => rmSync(dir, { recursive: true, force: true }));
    const kubeconfig = join(dir, "config");
    cpSync(admin, kubeconfig);
    const env = {
      HOME: dir,
      KUBECONFIG: kubeconfig,
      PATH: [dirname(cluster().bin.kubectl), process.env["PATH"]].join(delimiter),
    };
    const type = async (block: string): Promise<string> => {
      const own = block.replace("--namespace=addon-operator", `--namespace=${namespace}`);
      return (await run("bash", ["-e", "-c", own], { env })).stdout;
    };

    const displayed: string[] = [];
    for (const block of blocks()) displayed.push(await type(block));
    expect(displayed).toHaveLength(5);
    expect(displayed[0]).toMatch(/^priority-classes +true /m);
    expect(displayed[1]).toMatch(/"result":"Succeeded".*"trigger":"ConfigMap section changed"/);
    expect(displayed[2]).toContain("priorityClasses/classes: must be object");
    expect(displayed[3]).toMatch(/namespace-census +false .* Disabled/);
  },
);
