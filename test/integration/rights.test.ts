import { expect, test } from "vitest";

import { objectsOf, render } from "../charts/matrix.ts";
import type { Rendered } from "../charts/matrix.ts";
import type { Json, JsonObject } from "../../src/base/model/index.ts";
import { parseYaml } from "../../src/base/index.ts";
import { cluster, eventually, freshNamespace, helmUnderTest, kubeconfigOf } from "../support/cluster.ts";
import { installCrds } from "../support/crds.ts";
import { hookLab } from "../support/hook-files.ts";
import type { Lab } from "../support/hook-files.ts";
import { startOperator } from "../support/operator.ts";
import type { OperatorProcess } from "../support/operator.ts";

// docs/guides/running.md, "Permissions": the operator names what it may not do and goes on with the rest.

const { kubectl, apply, json } = cluster();
const ALL = { apiGroups: ["*"], resources: ["*"] };

function lab(): Lab {
  const made = hookLab("rights");
  made.file("modules/values.yaml", "siteEnabled: true\n");
  made.file("modules/010-site/Chart.yaml", "apiVersion: v2\nname: site\nversion: 1.0.0\n");
  made.file(
    "modules/010-site/templates/objects.yaml",
    `apiVersion: v1
kind: ConfigMap
metadata: {name: site}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: site}
rules: [{apiGroups: [batch], resources: [jobs], verbs: [create]}]
`,
  );
  const watched = {
    name: "services",
    kind: "Service",
    namespace: { nameSelector: { matchNames: ["default"] } },
  };
  made.hook("modules/010-site/hooks/services.sh", { configVersion: "v1", kubernetes: [watched] });
  return made;
}

/** Gives a ServiceAccount these rights in the whole cluster. */
async function grant(namespace: string, account: string, rules: readonly Json[]): Promise<void> {
  const name = `${namespace}-${account}`;
  const group = "rbac.authorization.k8s.io";
  await apply(
    { apiVersion: `${group}/v1`, kind: "ClusterRole", metadata: { name }, rules },
    {
      apiVersion: `${group}/v1`,
      kind: "ClusterRoleBinding",
      metadata: { name },
      roleRef: { apiGroup: group, kind: "ClusterRole", name },
      subjects: [{ kind: "ServiceAccount", name: account, namespace }],
    },
  );
}

function reported(operator: OperatorProcess, what: RegExp): Promise<unknown> {
  return eventually(() => what.test(operator.log()), String(what), { context: operator.log });
}

test("the rules of lint --rbac are enough, next to the chart's own role", { timeout: 240_000 }, async () => {
  await installCrds();
  const namespace = await freshNamespace("rights");
  const { modulesDir } = lab();
  // Any operator can print them; this one has nothing to do.
  const printer = await startOperator({ namespace, modulesDir });
  const { code, stdout } = await printer.cli(["lint", "--rbac", `--helm-bin=${helmUnderTest()}`, modulesDir]);
  await printer.kill9();
  expect(code).toBe(0);
  const { rules } = parseYaml(stdout, "rules").value as { rules: JsonObject[] };
  const values = { rbac: { clusterAdmin: false, rules }, operator: { manageCrds: false } };
  const objects = objectsOf(render("helm", values)).filter(({ kind }) => /Role|ServiceAccount/.test(kind));
  await apply(...objects.map((object) => at(namespace, object)));
  const account = objects.find(({ kind }) => kind === "ServiceAccount")?.metadata.name ?? "";

  const operator = await startOperator({
    namespace,
    modulesDir,
    kubeconfig: await kubeconfigOf(namespace, account),
    args: ["--manage-crds=false", "--config-overlay=addon-operator-state"],
  });
  await operator.waitReady();
  expect(await kubectl(["get", "role", "site", "-n", namespace, "-o", "name"])).toContain("site");
  await kubectl([
    "wait",
    "-n",
    namespace,
    "addonoperator/addon-operator",
    "--for=condition=Ready",
    "--timeout=120s",
  ]);
  const { status } = await json<{ status: JsonObject }>([
    "get",
    "addonoperator",
    "addon-operator",
    "-n",
    namespace,
  ]);
  expect(status["missingRights"]).toBeUndefined();
  expect((await operator.http("/metrics")).body).toMatch(/^addon_operator_missing_rights 0$/m);
  expect(operator.log()).not.toMatch(/forbidden|WARN.*cannot/i);
  // Secrets of other namespaces are none of its business.
  const may = [
    "auth",
    "can-i",
    "list",
    "secrets",
    "-A",
    `--as=system:serviceaccount:${namespace}:${account}`,
  ];
  await expect(kubectl(may)).rejects.toThrow(/can-i/);
});

test(
  "read-only: what is missing is named, and nothing breaks; granted later, work begins",
  { timeout: 240_000 },
  async () => {
    await installCrds();
    const namespace = await freshNamespace("rights");
    const kubeconfig = await kubeconfigOf(namespace, "reader");
    await grant(namespace, "reader", [{ ...ALL, verbs: ["get", "list", "watch"] }]);
    const operator = await startOperator({ namespace, modulesDir: lab().modulesDir, kubeconfig });

    await reported(operator, /Rights are missing.*create leases\.coordination\.k8s\.io in namespace/);
    await reported(operator, /The lease cannot be acquired.*forbidden/);
    const line = operator.lines.find((each) => each.includes("Rights are missing")) ?? "";
    for (const right of ["patch configmaps", "create secrets", "create addonmodules.addon-operator.io"])
      expect(line).toContain(`${right} in namespace ${namespace}`);
    expect(line).not.toMatch(/ (get|list|watch) /);
    expect((await operator.http("/healthz")).status).toBe(200);
    expect((await operator.http("/readyz")).status).toBe(500);
    expect((await operator.http("/metrics")).body).toMatch(/^addon_operator_missing_rights [1-9]/m);

    // It may lead now, and write nothing else.
    const leases = { apiGroups: ["coordination.k8s.io"], resources: ["leases"], verbs: ["*"] };
    await grant(namespace, "reader", [{ ...ALL, verbs: ["get", "list", "watch"] }, leases]);
    await reported(operator, /The empty ConfigMap cannot be created.*forbidden/);
    expect((await operator.http("/healthz")).status).toBe(200);

    await grant(namespace, "reader", [{ ...ALL, verbs: ["*"] }]);
    await operator.waitReady();
    const wait = ["wait", "-n", namespace, "addonmodule/site", "--timeout=120s"];
    await kubectl([...wait, "--for=condition=Ready"]);
  },
);

function at(namespace: string, object: Rendered): JsonObject {
  const moved = JSON.parse(
    JSON.stringify(object).replaceAll('"namespace":"addons"', `"namespace":"${namespace}"`),
  ) as {
    kind: string;
    metadata: { name: string };
    roleRef?: { kind: string; name: string };
  } & JsonObject;
  const rename = (name: string): string => name.replace(/^addons-/, `${namespace}-`);
  if (moved.kind.startsWith("ClusterRole")) moved.metadata.name = rename(moved.metadata.name);
  if (moved.roleRef?.kind === "ClusterRole") moved.roleRef.name = rename(moved.roleRef.name);
  return moved;
}
