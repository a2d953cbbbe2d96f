import { chmodSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";

import { cluster, eventually, freshNamespace } from "../support/cluster.ts";
import { hookLab } from "../support/hook-files.ts";
import { startOperator } from "../support/operator.ts";
import { condition, module, of } from "../support/requiring.ts";

// docs/reference/modules.md, "What a module requires".

const { kubectl, apply } = cluster();

async function edit(namespace: string, data: Record<string, string | null>): Promise<void> {
  const patch = JSON.stringify({ data });
  await kubectl(["patch", "configmap", "addon-operator", "-n", namespace, "--type=merge", "-p", patch]);
}

async function maps(namespace: string): Promise<string[]> {
  const names = await kubectl(["get", "configmaps", "-n", namespace, "-o", "name"]);
  return ["back", "front", "other"].filter((name) => names.includes(`configmap/${name}\n`));
}

test(
  "a module waits for the one that it requires, says so, runs when it is Ready, and what it requires goes after it",
  { timeout: 240_000 },
  async () => {
    const namespace = await freshNamespace("requires");
    const lab = hookLab("requires");
    module(lab, "010-front", 'requires: {modules: {back: ">=1.4 <2"}}');
    module(lab, "020-back");
    module(lab, "030-other");
    lab.hook(
      "modules/020-back/hooks/open.sh",
      { configVersion: "v1", beforeHelm: 1 },
      '[ -e "$RECORDS/go-back" ]',
    );
    await kubectl([
      "create",
      "configmap",
      "addon-operator",
      "-n",
      namespace,
      "--from-literal=backEnabled=false",
    ]);
    await startOperator({ namespace, modulesDir: lab.modulesDir });
    await eventually(
      async () => (await of(namespace, "other")).status?.state === "Ready",
      "the other one is Ready",
    );
    expect(await condition(namespace, "front", "Ready")).toMatch(
      /^Unknown DependencyDisabled: waits for back, which is disabled \(since 20/,
    );

    await edit(namespace, { backEnabled: "true" });
    await eventually(
      async () => (await of(namespace, "back")).status?.state === "Retrying",
      "the dependency fails",
    );
    await eventually(
      async () =>
        (await condition(namespace, "front", "Ready")).startsWith(
          "Unknown DependencyNotReady: waits for back, which is not Ready",
        ),
      "it waits for it",
    );
    lab.release("back");
    for (const name of ["back", "front"])
      await eventually(async () => (await of(namespace, name)).status?.state === "Ready", `${name} is Ready`);

    await edit(namespace, { backEnabled: "false" });
    await eventually(
      async () =>
        (await condition(namespace, "front", "DependencyLost")).startsWith(
          "True DependencyDisabled: it requires back",
        ),
      "it tells the loss",
    );
    // The reload that the flag leads to passes it over; its release stays, and with it what it requires.
    await eventually(
      async () =>
        (await condition(namespace, "front", "Ready")).startsWith(
          "Unknown DependencyDisabled: waits for back",
        ),
      "its next run waits",
    );
    await eventually(
      async () =>
        (await condition(namespace, "back", "Ready")) ===
        "Unknown Pending: disabled, but stays while front requires it",
      "what it requires stays",
    );
    expect(await maps(namespace)).toEqual(["back", "front", "other"]);
    await edit(namespace, { frontEnabled: "false" });
    for (const name of ["front", "back"])
      await eventually(async () => (await of(namespace, name)).status?.state === "Disabled", `${name} goes`);
    expect(await maps(namespace)).toEqual(["other"]);
  },
);

test(
  "a module waits for a version of Kubernetes that is not there, and not for one that is",
  { timeout: 240_000 },
  async () => {
    const namespace = await freshNamespace("requires");
    const lab = hookLab("requires");
    module(lab, "010-front", 'requires: {kubernetes: ">=1.999"}');
    module(lab, "020-back", 'requires: {kubernetes: ">=1.20 <2"}');
    await startOperator({ namespace, modulesDir: lab.modulesDir });
    await eventually(async () => (await of(namespace, "back")).status?.state === "Ready", "one of them runs");
    await eventually(
      async () =>
        /^Unknown DependencyMissing: waits for Kubernetes, which is 1\.\d+\.\d+, not >=1\.999 \(since /.test(
          await condition(namespace, "front", "Ready"),
        ),
      "the other one waits",
    );
  },
);

const crd = (group: string): object => ({
  apiVersion: "apiextensions.k8s.io/v1",
  kind: "CustomResourceDefinition",
  metadata: { name: `widgets.${group}` },
  spec: {
    group,
    scope: "Namespaced",
    names: { plural: "widgets", singular: "widget", kind: "Widget" },
    versions: [
      {
        name: "v1",
        served: true,
        storage: true,
        schema: { openAPIV3Schema: { type: "object", "x-kubernetes-preserve-unknown-fields": true } },
      },
    ],
  },
});

test(
  "a module waits for objects, also of a kind that comes later, and runs when all are as it requires",
  { timeout: 240_000 },
  async () => {
    const namespace = await freshNamespace("requires");
    const group = `${namespace}.test`;
    const lab = hookLab("requires");
    const widget = { apiVersion: `${group}/v1`, kind: "Widget", metadata: { name: "w", namespace } };
    const objects = [
      {
        apiVersion: "apiextensions.k8s.io/v1",
        kind: "CustomResourceDefinition",
        name: `widgets.${group}`,
        condition: "Established",
      },
      {
        apiVersion: `${group}/v1`,
        kind: "Widget",
        name: "w",
        cel: "object.spec.size >= 2 && !has(object.spec.broken)",
      },
    ];
    module(lab, "010-front", JSON.stringify({ requires: { objects } }));
    module(lab, "020-other");
    const operator = await startOperator({ namespace, modulesDir: lab.modulesDir });
    // The status reports other words of a wait at most every 30 seconds.
    const waitsFor = (what: string): Promise<unknown> =>
      eventually(
        async () => (await operator.cli(["module", "why", "front"])).stdout.includes(`waits for ${what}`),
        what,
      );
    await eventually(
      async () => (await of(namespace, "other")).status?.state === "Ready",
      "the other one is Ready",
    );
    const { requires, requiresMet } = (await of(namespace, "front")).status ?? {};
    expect([requiresMet, ...(requires ?? [])]).toMatchObject([
      "0/2",
      { of: "object", name: `CustomResourceDefinition/widgets.${group}`, met: false },
      { name: "Widget/w", met: false, reason: "DependencyMissing" },
    ]);
    await waitsFor(`CustomResourceDefinition/widgets.${group}, which is not there and 1 more`);
    expect(await condition(namespace, "front", "Ready")).toMatch(
      /^Unknown DependencyMissing: waits for Custom/,
    );
    const graph = await operator.cli(["module", "graph"]);
    expect(graph.stdout.split("\n")).toEqual([
      `front: Pending; requires CustomResourceDefinition/widgets.${group} (is not there), ` +
        "Widget/w (is of a kind that the server does not know)",
      "other: Ready",
      "",
    ]);
    const drawn = JSON.parse((await operator.cli(["module", "graph", "-o", "json"])).stdout) as unknown;
    expect(drawn).toMatchObject([
      { module: "front", requires: [{ met: false }, { met: false }] },
      { requires: [] },
    ]);
    await apply(crd(group));
    await waitsFor("Widget/w, which is not there");
    await apply({ ...widget, spec: { size: 1 } });
    await waitsFor("Widget/w, which does not meet its expression");
    await apply({ ...widget, spec: { size: "large" } });
    await waitsFor("Widget/w, which has an expression that fails: no such overload");
    await apply({ ...widget, spec: { size: 2 } });
    await eventually(async () => (await of(namespace, "front")).status?.state === "Ready", "it runs");
    expect((await of(namespace, "front")).status?.requiresMet).toBe("2/2");
    await kubectl(["delete", `widgets.${group}`, "w", "-n", namespace]);
    await eventually(
      async () =>
        (await condition(namespace, "front", "DependencyLost")) ===
        "True DependencyMissing: it requires Widget/w, which is not there",
      "it tells the loss",
    );
    expect(await condition(namespace, "front", "Ready")).toMatch(/^True/);
  },
);

// docs/guides/migrating.md, "From numbers to requirements".
test(
  "from numbers to requirements, step by step beneath a running operator, nothing is installed anew",
  { timeout: 240_000 },
  async () => {
    const namespace = await freshNamespace("requires");
    const lab = hookLab("requires");
    module(lab, "010-back");
    module(lab, "020-front");
    lab.file(
      "modules/020-front/enabled",
      `#!/bin/sh\njq '.global.enabledModules | index("back") != null' "$VALUES_PATH" >"$MODULE_ENABLED_RESULT"\n`,
    );
    chmodSync(join(lab.modulesDir, "020-front", "enabled"), 0o755);
    const operator = await startOperator({ namespace, modulesDir: lab.modulesDir });
    await operator.waitReady();
    const cli = async (...args: string[]): Promise<string> => (await operator.cli(args)).stdout;
    const planned = async (): Promise<unknown> => JSON.parse(await cli("plan", "-o", "json"));
    const converge = async (token: string): Promise<void> => {
      const request = `reconcile.addon-operator.io/requestedAt=${token}`;
      await kubectl(["annotate", "--overwrite", "addonoperator/addon-operator", request, "-n", namespace]);
      const handled = `--for=jsonpath={.status.lastHandledReconcileAt}=${token}`;
      await kubectl(["wait", handled, "--timeout=120s", "addonoperator/addon-operator", "-n", namespace]);
    };
    const revisions = async (): Promise<unknown> => {
      const path = "jsonpath={.items[*].status.release.revision}";
      return kubectl(["get", "addonmodules", "-n", namespace, "-o", path]);
    };
    const unchanged = { install: {}, upgrade: {}, delete: {}, unchanged: { back: "inputs are the same" } };

    // 1: the requirement beside the script; the typing error is found first.
    lab.file("modules/020-front/addon.yaml", 'requires: {modules: {bakc: "*"}}');
    const lint = await operator.cli(["lint", lab.modulesDir]);
    expect([lint.code, lint.stdout]).toEqual([
      1,
      expect.stringContaining("requires.modules.bakc: module does not exist"),
    ]);
    lab.file("modules/020-front/addon.yaml", 'requires: {modules: {back: "*"}}');
    expect((await operator.cli(["lint", lab.modulesDir])).code).toBe(0);
    expect(await planned()).toMatchObject({ ...unchanged, waves: [["back"], ["front"]] });
    await converge("t1");
    expect(await cli("module", "graph")).toBe("back: Ready\nfront: Ready; requires back\n");
    await eventually(async () => (await of(namespace, "front")).status?.requiresMet === "1/1", "it is shown");

    // 2: without the script.
    rmSync(join(lab.modulesDir, "020-front", "enabled"));
    await converge("t2");
    // 3: without the number, or with another one.
    renameSync(join(lab.modulesDir, "020-front"), join(lab.modulesDir, "005-front"));
    expect(await planned()).toMatchObject({ ...unchanged, waves: [["back"], ["front"]] });
    await converge("t3");
    expect(await cli("module", "graph")).toBe("front: Ready; requires back\nback: Ready\n");
    expect(await revisions()).toBe("1 1");
    await operator.waitReady();
  },
);
