import { rmSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";

import { cluster, eventually, freshNamespace } from "../support/cluster.ts";
import { hookLab } from "../support/hook-files.ts";
import type { Lab } from "../support/hook-files.ts";
import { startOperator } from "../support/operator.ts";

// docs/guides/running.md, "Protection": a protected module is never deleted or purged. docs/get-started/install.md, "Uninstall": what goes and what stays.

interface Condition {
  readonly type: string;
  readonly status: string;
  readonly reason: string;
  readonly message: string;
}

interface AddonObject {
  readonly status?: {
    readonly state?: string;
    readonly holds?: readonly string[];
    readonly conditions?: readonly Condition[];
  };
}

const { kubectl, json, apply } = cluster();

/** Modules with a chart of one ConfigMap each, switched on in the ConfigMap. */
function modules(lab: Lab, ...names: readonly string[]): void {
  for (const name of names) {
    lab.file(`modules/${name}/Chart.yaml`, `apiVersion: v2\nname: ${name}\nversion: 1.0.0\n`);
    lab.file(
      `modules/${name}/templates/map.yaml`,
      `apiVersion: v1\nkind: ConfigMap\nmetadata: {name: ${name}}\n`,
    );
  }
}

function configMap(namespace: string, data: Record<string, string>): Promise<void> {
  return apply({
    apiVersion: "v1",
    kind: "ConfigMap",
    metadata: { name: "addon-operator", namespace },
    data,
  });
}

async function edit(namespace: string, data: Record<string, string | null>): Promise<void> {
  const patch = JSON.stringify({ data });
  await kubectl(["patch", "configmap", "addon-operator", "-n", namespace, "--type=merge", "-p", patch]);
}

async function maps(namespace: string): Promise<string[]> {
  const { items } = await json<{ items: { metadata: { name: string } }[] }>([
    "get",
    "configmaps",
    "-n",
    namespace,
  ]);
  return items.map(({ metadata }) => metadata.name).filter((name) => /^(app|node)/.test(name));
}

function wait(namespace: string, object: string, what: string): Promise<string> {
  return kubectl(["wait", "-n", namespace, object, `--for=${what}`, "--timeout=120s"]);
}

test("a protected module that is switched off stays, and says so", { timeout: 240_000 }, async () => {
  const namespace = await freshNamespace("protected");
  const lab = hookLab("protected");
  modules(lab, "app", "app-free");
  await configMap(namespace, { appEnabled: "true", appProtected: "true", appFreeEnabled: "true" });
  const operator = await startOperator({ namespace, modulesDir: lab.modulesDir });
  await operator.waitReady();

  await edit(namespace, { appEnabled: "false", appFreeEnabled: "false" });
  // The operator writes AddonModules in the background, and kubectl does not wait for an object that does not exist.
  await wait(namespace, "addonmodule/app", "create");
  await wait(namespace, "addonmodule/app", "jsonpath={.status.state}=Invalid");
  await wait(namespace, "configmap/app-free", "delete");
  const { status } = await json<AddonObject>(["get", "addonmodule", "app", "-n", namespace]);
  const stalled = status?.conditions?.find(({ type }) => type === "Stalled");
  expect(stalled).toMatchObject({ status: "True" });
  expect(stalled?.message).toContain("protected but disabled");
  expect(stalled?.message).toContain("appProtected");
  expect(await maps(namespace)).toEqual(["app"]);

  await edit(namespace, { appProtected: null });
  await wait(namespace, "addonmodule/app", "jsonpath={.status.state}=Disabled");
  expect(await maps(namespace)).toEqual([]);
});

test(
  "a protected module whose directory is gone is not purged; the AddonOperator reports",
  { timeout: 240_000 },
  async () => {
    const namespace = await freshNamespace("protected");
    const lab = hookLab("protected");
    modules(lab, "node-a", "node-b", "node-c", "app");
    const on = Object.fromEntries(["nodeA", "nodeB", "nodeC", "app"].map((key) => [`${key}Enabled`, "true"]));
    const guards = {
      nodeAProtected: "true",
      nodeBMaintenance: "NoResourceReconciliation",
      nodeCProtected: "false",
    };
    await configMap(namespace, { ...on, nodeAProtected: "true" });
    const operator = await startOperator({ namespace, modulesDir: lab.modulesDir });
    await operator.waitReady();
    for (const name of ["node-a", "node-b", "node-c"])
      rmSync(join(lab.modulesDir, name), { recursive: true });
    await edit(namespace, { ...guards, global: "{reload: 1}" });

    await wait(namespace, "configmap/node-c", "delete");
    const held = await eventually(
      async () => {
        const { status } = await json<AddonObject>([
          "get",
          "addonoperator",
          "addon-operator",
          "-n",
          namespace,
        ]);
        return status?.holds ?? false;
      },
      "the holds",
      { context: () => operator.log() },
    );
    expect(held).toEqual([
      "not purged: node-a: nodeAProtected is set in the ConfigMap",
      "not purged: node-b: nodeBMaintenance is set in the ConfigMap",
    ]);
    expect(await maps(namespace)).toEqual(["app", "node-a", "node-b"]);
    await eventually(async () => {
      const events = await kubectl(["get", "events", "-n", namespace, "-o", "jsonpath={.items[*].reason}"]);
      return events.includes("PurgeRefused");
    }, "the Event");

    await edit(namespace, { nodeAProtected: null, nodeBMaintenance: null, global: "{reload: 2}" });
    await wait(namespace, "configmap/node-a", "delete");
    await wait(namespace, "configmap/node-b", "delete");
    expect(await maps(namespace)).toEqual(["app"]);
  },
);
