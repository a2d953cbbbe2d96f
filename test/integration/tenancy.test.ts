import { chmodSync, mkdirSync } from "node:fs";
import { expect, test } from "vitest";

import type { JsonObject } from "../../src/base/model/index.ts";
import { cluster, eventually, freshNamespace, kubeconfigOf } from "../support/cluster.ts";
import { installCrds } from "../support/crds.ts";
import { hookLab, type Lab } from "../support/hook-files.ts";
import { startOperator } from "../support/operator.ts";
import { makeTeam, openToHooks } from "../support/tenants.ts";

// docs/guides/tenancy.md, "Which boundaries hold": two accounts, each of which may do only its own.

const { kubectl, apply, json } = cluster();
const GROUP = "rbac.authorization.k8s.io";

interface ModuleFiles {
  readonly name: string;
  readonly account?: string;
  /** Where its ConfigMap is. */
  readonly target: string;
  /** Name of its ConfigMap; that of the module by default. */
  readonly map?: string;
  readonly hook?: string;
}

function addModule(lab: Lab, { name, account, target, map = name, hook }: ModuleFiles): void {
  const dir = `modules/010-${name}`;
  lab.file(`${dir}/Chart.yaml`, `apiVersion: v2\nname: ${name}\nversion: 1.0.0\n`);
  lab.file(`${dir}/values.yaml`, `${name}Enabled: true\n`);
  const [accountNamespace] = account?.split("/") ?? [];
  if (account !== undefined)
    lab.file(`${dir}/addon.yaml`, `namespace: ${accountNamespace}\nserviceAccountName: ${account}\n`);
  lab.file(
    `${dir}/templates/map.yaml`,
    `apiVersion: v1\nkind: ConfigMap\nmetadata: {name: ${map}, namespace: ${target}}\ndata: {team: ${name}}\n`,
  );
  if (hook !== undefined) lab.file(`${dir}/hooks/hook.sh`, hook);
}

const status = (namespace: string, module: string): Promise<{ status?: JsonObject }> =>
  json(["get", "addonmodule", module, "-n", namespace]);

/** Starts an operator with these modules, which may name accounts of all namespaces. */
async function start(namespace: string, lab: Lab, kubeconfig?: string) {
  const path = openToHooks(lab);
  // As an emptyDir of the kubelet: every user may write to it.
  mkdirSync(`${lab.dir}/sources`);
  chmodSync(`${lab.dir}/sources`, 0o777);
  return startOperator({
    namespace,
    ...(kubeconfig === undefined ? {} : { kubeconfig }),
    modulesDir: lab.modulesDir,
    args: [
      "--service-account-namespaces=*",
      "--module-queues=own",
      `--tmp-dir=${lab.dir}/tmp`,
      "--sources",
      `--sources-dir=${lab.dir}/sources`,
    ],
    // Hooks of the test call kubectl.
    env: { TMPDIR: "/tmp", PATH: path },
  });
}

test("a chart writes only what the account of its module may write", { timeout: 240_000 }, async () => {
  await installCrds();
  const namespace = await freshNamespace("tenancy");
  const [a, b] = [await makeTeam(namespace, "team-a"), await makeTeam(namespace, "team-b")];
  const lab = hookLab("tenancy");
  addModule(lab, { name: "good", account: `${a.namespace}/deployer`, target: a.namespace });
  addModule(lab, { name: "bad", account: `${b.namespace}/deployer`, target: a.namespace });
  addModule(lab, { name: "lost", account: `${b.namespace}/nobody`, target: b.namespace });
  const operator = await start(namespace, lab);

  const ready = ["wait", "-n", namespace, "addonmodule/good", "--for=condition=Ready", "--timeout=120s"];
  await eventually(() => kubectl(ready), "good is Ready", { context: operator.log });
  expect(await kubectl(["get", "configmap", "good", "-n", a.namespace, "-o", "name"])).toContain("good");
  expect((await status(namespace, "good")).status?.["identity"]).toMatchObject({
    serviceAccount: `${a.namespace}/deployer`,
  });
  const message = async (module: string): Promise<string> =>
    JSON.stringify((await status(namespace, module)).status?.["conditions"]);
  const rule = new RegExp(
    String.raw`missing rule: grant ServiceAccount ${b.namespace}/deployer: \w+ configmaps in namespace ${a.namespace}`,
  );
  await eventually(async () => rule.test(await message("bad")), "the missing rule", {
    context: operator.log,
  });
  const missing = `ServiceAccount ${b.namespace}/nobody does not exist`;
  await eventually(async () => (await message("lost")).includes(missing), missing, { context: operator.log });

  // Drift repair and restores act as the account, too: what it may not do any more is reported.
  await kubectl(["delete", "configmap", "good", "-n", a.namespace]);
  const restored = ["get", "configmap", "good", "-n", a.namespace, "-o", "name"];
  await eventually(() => kubectl(restored), "it is restored", { context: operator.log });
  await kubectl(["delete", "rolebinding", `${a.namespace}-deployer`, "-n", a.namespace]);
  await kubectl(["delete", "configmap", "good", "-n", a.namespace]);
  await eventually(async () => /forbidden/.test(await message("good")), "it is refused", {
    context: operator.log,
  });
});

test("a chart keeps no object that its account may not have", { timeout: 240_000 }, async () => {
  await installCrds();
  const namespace = await freshNamespace("tenancy");
  const b = await makeTeam(namespace, "team-b");
  const lab = hookLab("tenancy");
  addModule(lab, { name: "platform", target: namespace });
  addModule(lab, { name: "greedy", account: `${b.namespace}/deployer`, target: namespace, map: "platform" });
  await apply({ apiVersion: "v1", kind: "ConfigMap", metadata: { name: "addon-operator", namespace } });
  const operator = await start(namespace, lab);
  const state = async (module: string) => (await status(namespace, module)).status?.["state"];
  const isSo = (module: string, wanted: string) => async () => (await state(module)) === wanted;
  const patience = { context: operator.log, timeoutMs: 60_000 };
  await eventually(isSo("platform", "Ready"), "platform is Ready", patience);
  await eventually(isSo("greedy", "Retrying"), "greedy is refused", patience);

  const data = { platformEnabled: "false" };
  await kubectl(["patch", "cm", "addon-operator", "-n", namespace, "-p", JSON.stringify({ data })]);
  await eventually(isSo("platform", "Disabled"), "platform is removed", { context: operator.log });
  await expect(kubectl(["get", "cm", "platform", "-n", namespace])).rejects.toThrow(/NotFound/);
});

/** Tries things that it should not be able to do; each line of its output is one that worked. */
const HOSTILE = (other: string, tmp: string) => `#!/usr/bin/env bash
if [ "\${1:-}" = --config ]; then
  kubectl get secrets -n ${other} >/dev/null 2>&1 && exit 1
  cat <<'CONFIG'
{"configVersion": "v1", "beforeHelm": 1, "kubernetes": [
  {"name": "others", "kind": "Secret", "namespace": {"nameSelector": {"matchNames": ["${other}"]}}}]}
CONFIG
  exit 0
fi
worked() { printf '%s\\n' "$@" | jq -Rnc --arg name "$1" '{operation: "CreateOrUpdate", object: {apiVersion: "v1",
  kind: "ConfigMap", metadata: {name: $name, namespace: "TEAM"}}}' >>"$KUBERNETES_PATCH_PATH"; }
kubectl get secret own -n TEAM >/dev/null && worked reads-own
kubectl get secrets -n ${other} >/dev/null 2>&1 && worked reads-others
cat ${tmp}/kube.*/*.kubeconfig >/dev/null 2>&1 && worked reads-kubeconfig-of-operator
cat /proc/$PPID/environ >/dev/null 2>&1 && worked reads-environment-of-operator
for dir in ${tmp}/*; do [ -r "$dir" ] && worked lists-temp-files; done
kill -0 $PPID 2>/dev/null && worked signals-operator
(cd ${tmp}/../sources && mv unpacked moved && mv moved unpacked) 2>/dev/null && worked has-moved-modules
jq -e '[.[].snapshots // {} | .[][]?] | length == 0' "$BINDING_CONTEXT_PATH" >/dev/null || worked watches-others
echo x >"$TMPDIR/file" && worked has-temp-dir
exit 0
`;

test(
  "a hook does only what its account may, and is isolated where the operator says so",
  { timeout: 240_000 },
  async () => {
    await installCrds();
    const namespace = await freshNamespace("tenancy");
    const [a, b] = [await makeTeam(namespace, "team-a"), await makeTeam(namespace, "team-b")];
    const secret = { apiVersion: "v1", kind: "Secret", metadata: { name: "own", namespace: a.namespace } };
    await apply(secret, { ...secret, metadata: { name: "theirs", namespace: b.namespace } });
    const lab = hookLab("tenancy");
    const tmp = `${lab.dir}/tmp`;
    const account = `${a.namespace}/deployer`;
    const hook = HOSTILE(b.namespace, tmp).replaceAll("TEAM", a.namespace);
    addModule(lab, { name: "hostile", account, target: a.namespace, hook });
    addModule(lab, { name: "quiet", account, target: a.namespace });
    const operator = await start(namespace, lab);
    for (const module of ["hostile", "quiet"]) {
      const ready = [
        "wait",
        "-n",
        namespace,
        `addonmodule/${module}`,
        "--for=condition=Ready",
        "--timeout=120s",
      ];
      await eventually(() => kubectl(ready), `${module} is Ready`, { context: operator.log });
    }

    const { items } = await json<{ items: { metadata: { name: string } }[] }>([
      "get",
      "configmaps",
      "-n",
      a.namespace,
    ]);
    const worked = items
      .map(({ metadata }) => metadata.name)
      .filter((name) => /^(reads|lists|has|signals|watches)-/.test(name));
    const identity = (await status(namespace, "hostile")).status?.["identity"] as JsonObject;
    const byFiles = [
      "has-moved-modules",
      "lists-temp-files",
      "reads-environment-of-operator",
      "reads-kubeconfig-of-operator",
      "signals-operator",
    ];
    const others = identity["hooksIsolated"] === true ? [] : byFiles;
    expect(worked.toSorted()).toEqual(["has-temp-dir", "reads-own", ...others].toSorted());
    const issue = `may not list secrets in namespace ${b.namespace}`;
    expect(JSON.stringify((await status(namespace, "hostile")).status)).toContain(issue);
    // One token for all runs of its hooks, none for the module without hooks.
    const { body } = await operator.http("/metrics");
    const requests = /_count\{[^\n]*serviceaccounts\/\{name\}\/token"[^\n]*\} (\d+)/.exec(body)?.[1];
    expect(requests).toBe("1");
  },
);

test(
  "an operator that may not impersonate the account says which rule is missing",
  { timeout: 240_000 },
  async () => {
    await installCrds();
    const namespace = await freshNamespace("tenancy");
    const a = await makeTeam(namespace, "team-a");
    const own = { name: "operator", namespace };
    const verbs = ["get", "list", "watch", "create", "update", "patch", "delete"];
    await apply(
      { apiVersion: "v1", kind: "ServiceAccount", metadata: own },
      {
        apiVersion: `${GROUP}/v1`,
        kind: "ClusterRole",
        metadata: { name: namespace },
        rules: [{ apiGroups: ["*"], resources: ["*"], verbs }],
      },
      {
        apiVersion: `${GROUP}/v1`,
        kind: "ClusterRoleBinding",
        metadata: { name: namespace },
        roleRef: { apiGroup: GROUP, kind: "ClusterRole", name: namespace },
        subjects: [{ kind: "ServiceAccount", ...own }],
      },
    );
    const lab = hookLab("tenancy");
    addModule(lab, { name: "good", account: `${a.namespace}/deployer`, target: a.namespace });
    const operator = await start(namespace, lab, await kubeconfigOf(namespace, "operator"));
    const rule = `missing rule: grant the operator: impersonate serviceaccounts in namespace ${a.namespace}`;
    const said = async (): Promise<boolean> =>
      JSON.stringify((await status(namespace, "good")).status).includes(rule);
    await eventually(said, rule, { context: operator.log });
  },
);
