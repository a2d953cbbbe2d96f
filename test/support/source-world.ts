import { existsSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished } from "vitest";

import type { IModuleSource } from "../../src/report/index.ts";
import { moduleDir, registryLab, type Lab } from "../sources/registry/artifact/lab.ts";
import { cluster, eventually, freshNamespace } from "./cluster.ts";
import { installCrds } from "./crds.ts";
import { QUICK_LEASE } from "./replicas.ts";
import { startOperator, type OperatorProcess } from "./operator.ts";

/** A registry, and an operator with a source of its modules. */
export interface World {
  readonly lab: Lab;
  readonly namespace: string;
  /** A file of its delete hook. */
  readonly bye: string;
  /** With `--ha`, each replica has a disk of its own. */
  start(replica?: string): Promise<OperatorProcess>;
  /** Modules whose content is unpacked on the disk of a replica. */
  unpacked(replica: string): number;
  source(modules: Record<string, object>): Promise<void>;
  /** The version in the ConfigMap that the chart makes. */
  installed(): Promise<string>;
  status(): Promise<NonNullable<IModuleSource["status"]>>;
  lock(): Promise<Record<string, unknown>>;
  kubectl(args: readonly string[]): Promise<string>;
}

/** A registry and a namespace, until the current test ends. */
export async function world(name: string): Promise<World> {
  await installCrds();
  const { kubectl, json, apply } = cluster();
  const lab = await registryLab({ hasReferrers: true });
  const namespace = await freshNamespace(name);
  const dir = mkdtempSync(join(tmpdir(), `${name}-`));
  onTestFinished(() => rmSync(dir, { recursive: true, force: true }));
  const bye = join(dir, "bye");
  await apply({
    apiVersion: "v1",
    kind: "ConfigMap",
    metadata: { name: "addon-operator-keys", namespace },
    data: { "ci.pub": lab.key.publicPem },
  });
  const modulesDir = mkdtempSync(join(dir, "modules-"));
  return {
    lab,
    namespace,
    bye,
    start: (replica) => {
      const args = ["--sources", `--sources-dir=${join(dir, replica ?? "sources")}`];
      const ha = replica === undefined ? [] : ["--ha", ...QUICK_LEASE];
      return startOperator({ namespace, modulesDir, args: [...args, ...ha] });
    },
    unpacked: (replica) => {
      const all = join(dir, replica, "unpacked");
      return existsSync(all) ? readdirSync(all).filter((name) => !name.startsWith(".")).length : 0;
    },
    source: (modules) =>
      apply({
        apiVersion: "addon-operator.io/v1alpha1",
        kind: "ModuleSource",
        metadata: { name: "platform", namespace },
        spec: { registry: `oci://${lab.registry.host}/modules`, plainHttp: true, modules },
      }),
    installed: () => kubectl(["get", "cm", "web", "-n", namespace, "-o", "jsonpath={.data.version}"]),
    status: async () =>
      (await json<IModuleSource>(["get", "modulesource", "platform", "-n", namespace])).status ?? {},
    lock: async () => {
      const lock = await json<{ data?: Record<string, string> }>([
        "get",
        "cm",
        "addon-operator-modules",
        "-n",
        namespace,
      ]);
      return JSON.parse(lock.data?.["web"] ?? "{}") as Record<string, unknown>;
    },
    kubectl: (args) => kubectl([...args, "-n", namespace]),
  };
}

/** Pushes the module with this version, and a delete hook that leaves a file. */
export function push({ lab, bye }: World, version: string, key = lab.key): Promise<string> {
  const hook = `#!/bin/sh\nif [ "$1" = --config ]; then echo '{"configVersion":"v1","afterDeleteHelm":1}'; else echo ${version} >${bye}; fi\n`;
  const dir = moduleDir({
    "Chart.yaml": `apiVersion: v2\nname: web\nversion: ${version}\n`,
    "hooks/bye.sh": hook,
    "templates/map.yaml": `apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\ndata: {version: "{{ .Chart.Version }}"}\n`,
  });
  return lab.push(version, { dir, key });
}

/** Waits until the chart of that version is in force. */
export async function untilInstalled(it: World, operator: OperatorProcess, version: string): Promise<void> {
  await eventually(async () => expect(await it.installed()).toBe(version), `version ${version} runs`, {
    context: () => operator.log().slice(-4000),
  });
}
