// Runs at night: documentation.
import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { clusterOf, eventually, ownCluster } from "../support/cluster.ts";
import { startOperator } from "../support/operator.ts";

const root = join(import.meta.dirname, "..", "..");
const page = readFileSync(join(root, "examples", "README.md"), "utf8");
const tour = page.slice(page.indexOf("## Try it"), page.indexOf("## Choose another demo"));
const commands = [...tour.matchAll(/^ {4}(kubectl .+)$/gm)].map(([, command = ""]) => command);

test("the tour of examples/README.md works, command by command", { timeout: 240_000 }, async () => {
  const own = await ownCluster();
  const { kubectl, json } = clusterOf(own);
  await kubectl(["create", "namespace", "addon-operator"]);
  await kubectl(["create", "configmap", "addon-operator", "-n", "addon-operator"]);
  const operator = await startOperator({
    kubeconfig: own.kubeconfig,
    admin: own.kubeconfig,
    namespace: "addon-operator",
    modulesDir: join(root, "examples", "modules"),
    globalHooksDir: join(root, "examples", "global-hooks"),
  });
  await operator.waitReady();
  const env = {
    ...process.env,
    KUBECONFIG: own.kubeconfig,
    PATH: `${dirname(own.bin.kubectl)}:${process.env["PATH"] ?? ""}`,
  };
  interface Resource {
    status: { state?: string; conditions: { type: string; reason: string; status: string }[] };
  }
  const conditions = async () =>
    (await json<Resource>(["get", "addonoperator", "addon-operator", "-n", "addon-operator"])).status
      .conditions;
  const state = async (name: string) =>
    (await json<Resource>(["get", "addonmodule", name, "-n", "addon-operator"])).status.state;
  /** What the text says comes of a command. */
  const follows: Readonly<Record<string, () => Promise<void>>> = {
    '"classes: 7"': async () => expect(JSON.stringify(await conditions())).toContain("ConfigMapInvalid"),
    '"priorityClasses":null': async () =>
      expect(JSON.stringify(await conditions())).not.toContain("ConfigMapInvalid"),
    'Enabled":"false"': async () => expect(await state("namespace-census")).toBe("Disabled"),
    'Enabled":"true"': async () => expect(await state("namespace-census")).toBe("Ready"),
  };
  // The demo, in which readers type this, says so when all modules are shown.
  const modules = ["get", "addonmodule", "priority-classes", "namespace-census", "-n", "addon-operator"];
  await eventually(() => kubectl(modules), "the modules are shown", { context: () => operator.log() });
  for (const command of commands) {
    await promisify(execFile)("bash", ["-c", command], { env });
    const [, check] = Object.entries(follows).find(([part]) => command.includes(part)) ?? [];
    if (check !== undefined) await eventually(check, command, { context: () => operator.log().slice(-3000) });
  }
  expect(commands.length).toBeGreaterThan(8);
});
