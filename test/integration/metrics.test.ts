import { execFile } from "node:child_process";
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, onTestFinished, test } from "vitest";

import { SERIES } from "../../src/report/metrics/index.ts";
import { cluster, eventually, freshNamespace, helmUnderTest } from "../support/cluster.ts";
import { startOperator } from "../support/operator.ts";

const TEMPLATE = `apiVersion: v1
kind: ConfigMap
metadata: {name: web}
data: {size: "{{ .Values.web.size }}"}
`;
/** Opens its output by name, as many a script does. */
const HOOK = `#!/bin/sh -e
if [ "$1" = --config ]; then echo '{"configVersion": "v1", "beforeHelm": 1}'; else echo ready >/dev/stderr; fi
`;

function write(path: string, text: string, mode = 0o644): void {
  mkdirSync(join(path, ".."), { recursive: true });
  writeFileSync(path, text);
  chmodSync(path, mode);
}

test("the operator's series: at zero from the start, then what helm did and why", async () => {
  const root = mkdtempSync(join(tmpdir(), "metrics-"));
  onTestFinished(() => rmSync(root, { recursive: true, force: true }));
  const module = join(root, "modules/010-web");
  write(join(module, "templates/map.yaml"), TEMPLATE);
  write(join(module, "values.yaml"), "web: {size: 1}\nwebEnabled: true\n");
  write(join(module, "hooks/before"), HOOK, 0o755);
  mkdirSync(join(root, "hooks"));
  const namespace = await freshNamespace("metrics");
  const places = { modulesDir: join(root, "modules"), globalHooksDir: join(root, "hooks") };
  const operator = await startOperator({ namespace, ...places });
  await operator.waitReady();

  const page = async (): Promise<string> => (await operator.http("/metrics")).body;
  /** The value of the one sample with these labels. */
  const value = async (name: string, labels: Record<string, string> = {}): Promise<number | undefined> => {
    const lines = (await page()).split("\n").filter((line) => line.startsWith("addon_operator_"));
    const found = lines.filter(
      (line) => line.startsWith(`addon_operator_${name}{`) || line.startsWith(`addon_operator_${name} `),
    );
    const fits = found.filter((line) =>
      Object.entries(labels).every(([label, text]) => line.includes(`${label}="${text}"`)),
    );
    return fits[0] === undefined ? undefined : Number(fits[0].split(" ").at(-1));
  };
  const soon = (name: string, labels: Record<string, string>, expected: number): Promise<void> =>
    eventually(async () => expect(await value(name, labels)).toBe(expected), `${name} is ${expected}`);

  const text = await page();
  const missing = Object.values(SERIES).filter(
    ({ name }) => !text.includes(`# TYPE addon_operator_${name} `),
  );
  expect(missing).toEqual([]);
  const web = { module: "web" };
  for (const name of ["config_values_errors_total", "modules_discover_errors_total", "missing_rights"])
    expect([name, await value(name)]).toEqual([name, 0]);
  for (const name of [
    "module_run_errors_total",
    "module_run_errors",
    "module_delete_errors_total",
    "modules_helm_release_redeployed_total",
    "module_hook_errors_total",
    "module_hook_allowed_errors_total",
    "hook_errors",
    "hook_allowed_errors",
  ])
    expect([name, await value(name, web)]).toEqual([name, 0]);

  const started = { ...web, activation: "OperatorStartup" };
  expect(await value("module_run_seconds_count", started)).toBe(1);
  expect(await value("module_helm_seconds_count", started)).toBe(1);
  expect(await value("helm_operation_seconds_count", { ...started, operation: "upgrade" })).toBe(1);
  const hook = { ...web, hook: "hooks/before" };
  expect(await value("module_hook_run_seconds_count", hook)).toBe(1);
  expect(await value("module_hook_run_user_cpu_seconds_count", hook)).toBe(1);
  expect(await value("module_hook_run_sys_cpu_seconds_count", hook)).toBe(1);
  expect(await value("convergence_total", { activation: "OperatorStartup" })).toBe(1);
  for (const queue_action of ["AddLast", "AddFirst", "GetFirst", "RemoveFirst"]) {
    const main = { queue_name: "main", queue_action };
    expect(await value("tasks_queue_action_duration_seconds_count", main)).toBeGreaterThan(0);
  }

  const edited = { ...web, activation: "KubeConfig-Changed-Modules" };
  const patch = JSON.stringify({ data: { web: "size: 2\n" } });
  await cluster().kubectl(["patch", "cm", "addon-operator", "-n", namespace, "--type=merge", "-p", patch]);
  await soon("helm_operation_seconds_count", { ...edited, operation: "template" }, 1);
  await soon("helm_operation_seconds_count", { ...edited, operation: "upgrade" }, 1);

  await cluster().kubectl(["delete", "cm", "web", "-n", namespace]);
  await soon("modules_absent_resources_total", { ...web, resource: `${namespace}/ConfigMap/web` }, 1);
  await soon("module_run_seconds_count", { ...web, activation: "AbsentHelmResourcesDetected" }, 1);

  const byHand = ["uninstall", "web", "-n", namespace, "--kubeconfig", cluster().kubeconfig];
  await promisify(execFile)(helmUnderTest(), byHand);
  await soon("modules_helm_release_redeployed_total", web, 1);
});
