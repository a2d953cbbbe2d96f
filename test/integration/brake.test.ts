import { expect, test } from "vitest";

import { cluster, eventually, freshNamespace } from "../support/cluster.ts";
import { hookLab } from "../support/hook-files.ts";
import { startOperator } from "../support/operator.ts";

// docs/guides/running.md, "The deletion limit": never more modules are removed than --delete-brake allows without a confirmation.

interface Operator {
  readonly metadata: { readonly annotations?: Record<string, string> };
  readonly status?: {
    readonly holds?: readonly string[];
    readonly conditions?: readonly { readonly type: string; readonly reason: string }[];
  };
}

const tokenOf = ({ status }: Operator): string | undefined =>
  /confirm-delete=([0-9a-f]{12})/.exec(status?.holds?.[0] ?? "")?.[1];

const { kubectl, json, apply } = cluster();
const NAMES = ["a", "b", "c", "d", "e"];
const KEYS = Object.fromEntries(NAMES.map((name) => [`${name}Enabled`, "true"]));

test("an emptied ConfigMap removes nothing before a person says so", { timeout: 180_000 }, async () => {
  const namespace = await freshNamespace("brake");
  const lab = hookLab("brake");
  for (const name of NAMES) {
    lab.file(`modules/${name}/Chart.yaml`, `apiVersion: v2\nname: ${name}\nversion: 1.0.0\n`);
    const map = `apiVersion: v1\nkind: ConfigMap\nmetadata: {name: map-${name}}\n`;
    lab.file(`modules/${name}/templates/map.yaml`, map);
  }
  const metadata = { name: "addon-operator", namespace };
  await apply({ apiVersion: "v1", kind: "ConfigMap", metadata, data: KEYS });
  const maps = async (): Promise<string> => {
    const names = await kubectl(["get", "cm", "-n", namespace, "-o", "jsonpath={.items[*].metadata.name}"]);
    return names
      .split(" ")
      .filter((name) => name.startsWith("map-"))
      .join(" ");
  };
  const held = (): Promise<Operator> =>
    eventually(
      async () => {
        const found = await json<Operator>(["get", "addonoperator", "addon-operator", "-n", namespace]);
        return (found.status?.holds?.length ?? 0) > 0 ? found : false;
      },
      "the hold",
      { context: () => operator.log() },
    );
  const all = "map-a map-b map-c map-d map-e";
  let operator = await startOperator({ namespace, modulesDir: lab.modulesDir });
  await operator.waitReady();

  await kubectl(["replace", "-f", "-"], JSON.stringify({ apiVersion: "v1", kind: "ConfigMap", metadata }));
  const first = await held();
  expect(first.status?.holds?.[0]).toMatch(/^not deleted: a, b, c, d, e: 5 of 5 modules at once/);
  const waitForStalled = async (object: string, reason: string): Promise<unknown> =>
    eventually(async () => {
      const { status } = await json<Operator>(["get", object, "-n", namespace]);
      return status?.conditions?.find(({ type }) => type === "Stalled")?.reason === reason;
    }, `the state of ${object}`);
  // Statuses are written one after the other, and one that is written before the converge ends has the hold already.
  await waitForStalled("addonoperator/addon-operator", "RemovalHeld");
  await waitForStalled("addonmodule/a", "Invalid");
  await eventually(async () => {
    const events = await kubectl(["get", "events", "-n", namespace, "-o", "jsonpath={.items[*].reason}"]);
    return events.includes("RemovalHeld");
  }, "the Event");
  expect(await maps()).toBe(all);
  const plan = await operator.cli(["plan"]);
  expect(plan.stdout).toContain("5 of 5 modules at once");

  await operator.stop();
  operator = await startOperator({ namespace, modulesDir: lab.modulesDir });
  await operator.waitReady();
  const again = await held();
  expect(await maps()).toBe(all);
  expect(tokenOf(again)).toBe(tokenOf(first));

  const annotation = `addon-operator.io/confirm-delete=${tokenOf(first)}`;
  await kubectl(["annotate", "addonoperator/addon-operator", "-n", namespace, annotation]);
  await eventually(async () => (await maps()) === "", "all modules go", { context: () => operator.log() });
  await kubectl([
    "wait",
    "-n",
    namespace,
    "addonoperator/addon-operator",
    "--for=condition=Ready",
    "--timeout=120s",
  ]);
});
