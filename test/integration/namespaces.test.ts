// Runs at night: moves and limits that few changes touch.
import { readFileSync, rmSync } from "node:fs";

import { extract } from "tar";
import { expect, onTestFinished, test } from "vitest";

import type { JsonObject } from "../../src/base/model/index.ts";
import { cluster, eventually, freshNamespace, kubeconfigOf } from "../support/cluster.ts";
import { installCrds } from "../support/crds.ts";
import { hookLab, type Lab } from "../support/hook-files.ts";
import { startOperator } from "../support/operator.ts";
import { grant, messageOf, OBJECTS, statusOf } from "../support/tenants.ts";

// docs/guides/tenancy.md, "Give a module a namespace".

const { kubectl, apply, json } = cluster();
const GROUP = "rbac.authorization.k8s.io";

function addModule(lab: Lab, name: string, { addon = "", target = "" } = {}): void {
  const dir = `modules/010-${name}`;
  lab.file(`${dir}/Chart.yaml`, `apiVersion: v2\nname: ${name}\nversion: 1.0.0\n`);
  lab.file(`${dir}/values.yaml`, `${name}Enabled: true\n${name}: {text: first}\n`);
  if (addon !== "") lab.file(`${dir}/addon.yaml`, addon);
  const place = target === "" ? "" : `, namespace: ${target}`;
  lab.file(
    `${dir}/templates/map.yaml`,
    `apiVersion: v1\nkind: ConfigMap\nmetadata: {name: ${name}${place}}\ndata: {at: "{{ .Release.Namespace }}", text: "{{ .Values.${name}.text }}"}\n`,
  );
}

/** A namespace with an account that may do everything there and nothing elsewhere. */
async function makeTeam(prefix: string): Promise<string> {
  const namespace = await freshNamespace(prefix);
  const account = { name: "deployer", namespace };
  await apply({ apiVersion: "v1", kind: "ServiceAccount", metadata: account });
  await grant(namespace, account, [OBJECTS]);
  return namespace;
}

const records = (namespace: string, ...more: string[]): Promise<string> =>
  kubectl(["get", "secrets", "-n", namespace, "-l", "owner=helm", "-o", "name", ...more]);

async function isReady(namespace: string, module: string, context: () => string): Promise<void> {
  const wait = ["wait", "-n", namespace, `addonmodule/${module}`, "--for=condition=Ready", "--timeout=40s"];
  await eventually(() => kubectl(wait), `${module} is Ready`, { context });
}

test(
  "teams that may do nothing in each other's namespace have their releases",
  { timeout: 240_000 },
  async () => {
    await installCrds();
    const namespace = await freshNamespace("namespaces");
    const [a, b] = [await makeTeam("team-a"), await makeTeam("team-b")];
    const lab = hookLab("namespaces");
    const addonOf = (team: string): string => `namespace: ${team}\nserviceAccountName: deployer\n`;
    addModule(lab, "ours", { addon: addonOf(a) });
    addModule(lab, "theirs", { addon: addonOf(b) });
    addModule(lab, "greedy", { addon: addonOf(b), target: a });
    const args = ["--service-account-namespaces=team-*", "--module-queues=own", "--drift=repair"];
    const operator = await startOperator({ namespace, modulesDir: lab.modulesDir, args });
    for (const module of ["ours", "theirs"]) await isReady(namespace, module, operator.log);

    expect(await records(a)).toContain("sh.helm.release.v1.ours.v1");
    expect(await records(b)).toContain("sh.helm.release.v1.theirs.v1");
    expect(await records(namespace)).toBe("");
    const { release } = (await statusOf(namespace, "ours")) as { release?: JsonObject };
    expect(release).toMatchObject({ name: "ours", namespace: a });
    const asB = `--as=system:serviceaccount:${b}:deployer`;
    expect(await records(b, asB)).toContain("theirs");
    await expect(records(a, asB)).rejects.toThrow(/forbidden/);
    await expect(records(namespace, asB)).rejects.toThrow(/forbidden/);
    const rule = `missing rule: grant ServiceAccount ${b}/deployer: `;
    await eventually(async () => (await messageOf(namespace, "greedy")).includes(rule), rule, {
      context: operator.log,
    });

    // What the chart leaves without a namespace is restored and repaired there.
    const at = ["get", "configmap", "ours", "-n", a, "-o", "jsonpath={.data.at}"];
    await kubectl(["delete", "configmap", "ours", "-n", a]);
    await eventually(async () => (await kubectl(at)) === a, "it is restored", { context: operator.log });
    await kubectl(["patch", "configmap", "ours", "-n", a, "-p", '{"data":{"at":"elsewhere"}}']);
    await eventually(async () => (await kubectl(at)) === a, "it is repaired", { context: operator.log });

    // So do the commands work there.
    const text = ["get", "configmap", "ours", "-n", a, "-o", "jsonpath={.data.text}"];
    const configure = (data: object): Promise<string> =>
      kubectl(["patch", "cm", "addon-operator", "-n", namespace, "-p", JSON.stringify({ data })]);
    await configure({ ours: "text: second\n" });
    await eventually(async () => (await kubectl(text)) === "second", "its edit", { context: operator.log });
    expect(await operator.cli(["module", "rollback", "ours"])).toMatchObject({ code: 0 });
    await eventually(async () => (await kubectl(text)) === "first", "the rollback", {
      context: operator.log,
    });
    expect(await records(a)).toContain("sh.helm.release.v1.ours.v3");
    const saysWhy = (command: readonly string[], said: string): Promise<unknown> =>
      eventually(async () => (await operator.cli(command)).stdout.includes(said), said, {
        context: operator.log,
      });
    const why = ["module", "why", "ours"];
    const addonWhy = ["addon", "why", "ours", "-n", namespace];
    for (const command of [why, addonWhy]) await saysWhy(command, "was rolled back by hand, to revision 1");
    await configure({ oursMaintenance: "NoResourceReconciliation" });
    await saysWhy(why, "suspended");
    await kubectl(["delete", "configmap", "ours", "-n", a]);
    for (const command of [why, addonWhy]) await saysWhy(command, `missing objects: ${a}/ConfigMap/ours`);
    const file = `${lab.dir}/bundle.tgz`;
    expect(await operator.cli(["bundle", file])).toMatchObject({ code: 0, stderr: "" });
    await extract({ file, cwd: lab.dir, strip: 1 });
    const modules = JSON.parse(readFileSync(`${lab.dir}/modules.json`, "utf8")) as JsonObject[];
    expect(modules.find(({ name }) => name === "ours")).toMatchObject({
      release: { namespace: a, revision: 3 },
      absent: [`${a}/ConfigMap/ours`],
    });
    expect(await records(namespace)).toBe("");
  },
);

test(
  "namespaces by a template are created, and stay when their releases go",
  { timeout: 180_000 },
  async () => {
    await installCrds();
    const namespace = await freshNamespace("namespaces");
    const [plain, gone] = [`${namespace}-plain`, `${namespace}-gone`];
    onTestFinished(async () => void (await kubectl(["delete", "namespace", plain, gone, "--wait=false"])));
    await apply({ apiVersion: "v1", kind: "ConfigMap", metadata: { name: "addon-operator", namespace } });
    const lab = hookLab("namespaces");
    for (const module of ["plain", "gone"]) addModule(lab, module);
    // The chart contains the namespace that the operator creates for its release.
    lab.file(
      "modules/010-gone/templates/namespace.yaml",
      "apiVersion: v1\nkind: Namespace\nmetadata: {name: {{ .Release.Namespace }}, labels: {team: a}}\n",
    );
    const args = [
      `--module-namespace-template=${namespace}-{name}`,
      "--module-namespace-labels=tier=addons",
      "--delete-brake=off",
    ];
    const first = await startOperator({ namespace, modulesDir: lab.modulesDir, args });
    for (const module of ["plain", "gone"]) await isReady(namespace, module, first.log);
    const { metadata } = await json<{ metadata: { labels: JsonObject } }>(["get", "namespace", plain]);
    expect(metadata.labels).toMatchObject({
      tier: "addons",
      "app.kubernetes.io/managed-by": "addon-operator",
    });
    expect(await kubectl(["get", "configmap", "plain", "-n", plain, "-o", "jsonpath={.data.at}"])).toBe(
      plain,
    );

    await kubectl([
      "patch",
      "cm",
      "addon-operator",
      "-n",
      namespace,
      "-p",
      '{"data":{"plainEnabled":"false"}}',
    ]);
    await eventually(async () => (await records(plain)) === "", "its records go", { context: first.log });
    await first.stop();
    expect(await kubectl(["get", "configmap", "-n", plain, "-l", "app.kubernetes.io/managed-by=Helm"])).toBe(
      "",
    );
    expect(await records(gone)).toContain("sh.helm.release.v1.gone.v1");

    // Nothing but the operator's Secret says now where the other one is.
    rmSync(`${lab.modulesDir}/010-gone`, { recursive: true });
    const second = await startOperator({ namespace, modulesDir: lab.modulesDir });
    await eventually(async () => (await records(gone)) === "", "it is purged", { context: second.log });
    expect(await kubectl(["get", "configmap", "-n", gone, "-l", "app.kubernetes.io/managed-by=Helm"])).toBe(
      "",
    );
    expect(await kubectl(["get", "namespace", plain, "-o", "name"])).toContain(plain);
    const { metadata: kept } = await json<{ metadata: JsonObject }>(["get", "namespace", gone]);
    expect(kept).toMatchObject({ labels: { team: "a" } });
    expect(kept).not.toHaveProperty("deletionTimestamp");
  },
);

test("a namespace that cannot be used is named with what is missing", { timeout: 120_000 }, async () => {
  await installCrds();
  const namespace = await freshNamespace("namespaces");
  const leaving = await freshNamespace("namespaces-leaving");
  const held = { name: "held", namespace: leaving, finalizers: ["example.com/held"] };
  await apply({ apiVersion: "v1", kind: "ConfigMap", metadata: held });
  await kubectl(["delete", "namespace", leaving, "--wait=false"]);
  const own = { name: "operator", namespace };
  const verbs = ["get", "list", "watch", "create", "update", "patch", "delete"];
  await apply(
    { apiVersion: "v1", kind: "ServiceAccount", metadata: own },
    {
      apiVersion: `${GROUP}/v1`,
      kind: "ClusterRole",
      metadata: { name: namespace },
      rules: [
        { apiGroups: ["", "apps"], resources: ["configmaps", "secrets"], verbs },
        { apiGroups: [""], resources: ["namespaces"], verbs: ["get"] },
        { apiGroups: ["addon-operator.io", "events.k8s.io", "coordination.k8s.io"], resources: ["*"], verbs },
        { apiGroups: ["apiextensions.k8s.io"], resources: ["customresourcedefinitions"], verbs },
      ],
    },
    {
      apiVersion: `${GROUP}/v1`,
      kind: "ClusterRoleBinding",
      metadata: { name: namespace },
      roleRef: { apiGroup: GROUP, kind: "ClusterRole", name: namespace },
      subjects: [{ kind: "ServiceAccount", ...own }],
    },
  );
  const lab = hookLab("namespaces");
  addModule(lab, "late", { addon: `namespace: ${leaving}\n` });
  addModule(lab, "new", { addon: `namespace: ${namespace}-new\n` });
  addModule(lab, "wrong", { addon: "namespace: Not_A_Name\n" });
  const kubeconfig = await kubeconfigOf(namespace, "operator");
  const args = ["--module-queues=own"];
  const operator = await startOperator({ namespace, kubeconfig, modulesDir: lab.modulesDir, args });
  onTestFinished(async () => {
    const patch = ["patch", "configmap", "held", "-n", leaving, "--type=merge"];
    await kubectl([...patch, "-p", '{"metadata":{"finalizers":null}}']);
  });
  const messages = {
    late: `namespace ${leaving} is being deleted`,
    new: `missing rule: grant ServiceAccount ${namespace}/operator: create namespaces in the whole cluster`,
    wrong: "namespace: ",
  };
  for (const [module, message] of Object.entries(messages))
    await eventually(async () => (await messageOf(namespace, module)).includes(message), message, {
      context: operator.log,
    });
});

test(
  "a new template moves no claim, and nothing of a protected module, before a person confirms",
  { timeout: 240_000 },
  async () => {
    await installCrds();
    const namespace = await freshNamespace("namespaces");
    const targets = ["kept", "data", "plain"].map((name) => `${namespace}-${name}`);
    onTestFinished(async () => {
      await kubectl(["delete", "namespace", ...targets, "--wait=false", "--ignore-not-found"]);
    });
    const data = { keptProtected: "true" };
    await apply({
      apiVersion: "v1",
      kind: "ConfigMap",
      metadata: { name: "addon-operator", namespace },
      data,
    });
    const lab = hookLab("namespaces");
    for (const module of ["kept", "data", "plain"]) addModule(lab, module);
    for (const module of ["kept", "data"])
      lab.file(
        `modules/010-${module}/templates/claim.yaml`,
        `apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: ${module}}\nspec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Mi}}}\n`,
      );
    const first = await startOperator({ namespace, modulesDir: lab.modulesDir });
    for (const module of ["kept", "data", "plain"]) await isReady(namespace, module, first.log);
    const claims = (): Promise<string> =>
      kubectl(["get", "pvc", "-n", namespace, "-o", "jsonpath={.items[*].metadata.uid}"]);
    const uids = await claims();
    await first.stop();

    const args = [`--module-namespace-template=${namespace}-{name}`, "--delete-brake=off"];
    const second = await startOperator({ namespace, modulesDir: lab.modulesDir, args });
    const context = { context: second.log };
    const statusNow = async () =>
      (await json<{ status?: JsonObject }>(["get", "addonoperator", "addon-operator", "-n", namespace]))
        .status;
    const text = `not moved: data from namespace ${namespace} to ${namespace}-data, which deletes the data in PersistentVolumeClaim/data`;
    const hold = await eventually(
      async () => {
        const { holds = [] } = ((await statusNow()) ?? {}) as { holds?: readonly string[] };
        return holds.find((each) => each.startsWith(text)) ?? false;
      },
      "the hold",
      context,
    );
    await eventually(async () => (await records(`${namespace}-plain`)) !== "", "the other moves", context);
    const protectedText = `the module is protected, but its release would move from namespace ${namespace}`;
    await eventually(async () => (await messageOf(namespace, "kept")).includes(protectedText), "it", context);
    await eventually(
      async () => JSON.stringify((await statusNow())?.["conditions"]).includes("ModulesInvalid"),
      "the protected module needs a user",
      context,
    );
    const plan = await second.cli(["plan"]);
    expect(plan.stdout).toContain(text);
    await eventually(
      async () => {
        const path = "jsonpath={.items[?(@.reason=='RemovalHeld')].note}";
        const get = ["get", "events.events.k8s.io", "-n", namespace, "-o", path];
        return (await kubectl(get)).includes("not moved: data");
      },
      "the Event",
      context,
    );
    expect(await claims()).toBe(uids);

    // The command that the hold names.
    const [, command = ""] = / confirm: kubectl (.*)$/.exec(hold) ?? [];
    await kubectl(command.split(" "));
    await isReady(namespace, "data", second.log);
    await eventually(async () => (await claims()) !== uids, "the claim is deleted", context);
    expect(await kubectl(["get", "pvc", "-n", `${namespace}-data`, "-o", "name"])).toContain("/data");
    expect(await kubectl(["get", "pvc", "-n", namespace, "-o", "name"])).toContain("/kept");
    expect(await records(namespace)).toContain("kept");
  },
);
