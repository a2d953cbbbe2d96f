// Runs at night: moves and limits that few changes touch.
import { expect, test } from "vitest";

import { valueAt, type Json, type JsonObject } from "../../src/base/model/index.ts";
import { objectsOf, render } from "../charts/matrix.ts";
import { cluster, eventually, freshNamespace, helmUnderTest } from "../support/cluster.ts";
import { installCrds } from "../support/crds.ts";
import { hookLab } from "../support/hook-files.ts";
import { startOperator } from "../support/operator.ts";
import { startWithTeams, statusOf, teamModule, messageOf } from "../support/tenants.ts";

// docs/guides/tenancy.md, "Give a module a ServiceAccount", and docs/guides/tenancy.md, "Who can do what".

const { kubectl, apply } = cluster();
const GROUP = "rbac.authorization.k8s.io";

test(
  "the roles of lint --rbac --role are enough for the module, and none is too many",
  { timeout: 240_000 },
  async () => {
    await installCrds();
    const [namespace, team] = [await freshNamespace("tenancy"), await freshNamespace("team-a")];
    const lab = hookLab("tenancy");
    const account = { name: "deployer", namespace: team };
    teamModule(lab, "web", { namespace: team, account, id: `${team}/deployer` });
    // The API server lets nobody grant what they do not have.
    const rbac = (kind: string, rules: object) =>
      JSON.stringify({
        apiVersion: `${GROUP}/v1`,
        kind,
        metadata: { name: "web", namespace: team },
        ...rules,
      });
    const pods = { rules: [{ apiGroups: [""], resources: ["pods"], verbs: ["get"] }] };
    const view = { roleRef: { apiGroup: GROUP, kind: "ClusterRole", name: "view" } };
    lab.file("modules/010-web/templates/role.yaml", rbac("Role", pods));
    lab.file("modules/010-web/templates/binding.yaml", rbac("RoleBinding", view));
    const names = { nameSelector: { matchNames: [team] } };
    const binding = { name: "own", kind: "Service", namespace: names };
    lab.hook("modules/010-web/hooks/look.sh", { configVersion: "v1", kubernetes: [binding] });
    const printer = await startOperator({ namespace, modulesDir: hookLab("empty").modulesDir });
    const lint = ["lint", "--rbac", "--role", `--helm-bin=${helmUnderTest()}`, `--namespace=${namespace}`];
    const { code, stdout } = await printer.cli([...lint, lab.modulesDir]);
    await printer.kill9();
    expect(code).toBe(0);
    await kubectl(["apply", "-f", "-"], stdout);

    const operator = await startWithTeams(namespace, lab);
    const context = operator.log;
    await eventually(async () => (await statusOf(namespace, "web")).state === "Ready", "web is Ready", {
      context,
    });
    expect(lab.contexts("look")).toHaveLength(1);
    const mayDo = async (verb: string, resource: string, where: string): Promise<boolean> => {
      const args = [
        "auth",
        "can-i",
        verb,
        resource,
        "-n",
        where,
        `--as=system:serviceaccount:${team}:deployer`,
      ];
      return (await kubectl(args).catch(() => "no")).trim() === "yes";
    };
    expect(await mayDo("create", "configmaps", team)).toBe(true);
    expect(await mayDo("get", "pods", team)).toBe(true);
    for (const [verb, resource, where] of [
      ["create", "configmaps", namespace],
      ["create", "pods", team],
      ["create", "services", team],
      ["get", "secrets", namespace],
      ["get", "addonmodules.addon-operator.io", namespace],
    ] as const)
      expect([verb, resource, await mayDo(verb, resource, where)]).toEqual([verb, resource, false]);
    // Without the role in its namespace, the next change is refused.
    await kubectl(["delete", "rolebinding", "web-deployer", "-n", team]);
    await kubectl(["delete", "configmap", "web", "-n", team]);
    await eventually(async () => (await messageOf(namespace, "web")).includes("forbidden"), "it is refused", {
      context,
    });
  },
);

test("view, edit and admin may do what the guide says, and no more", { timeout: 240_000 }, async () => {
  await installCrds();
  const namespace = await freshNamespace("tenancy");
  const roles = objectsOf(render("helm", {})).filter(
    ({ kind, metadata }) =>
      kind === "ClusterRole" &&
      metadata["labels"] !== undefined &&
      /-(?:view|edit|admin)$/.test(metadata.name),
  );
  expect(roles).toHaveLength(3);
  // Their names are free for other tests on this control plane.
  await apply(
    ...roles.map((role) => ({
      ...role,
      metadata: { ...role.metadata, name: `${role.metadata.name}-${namespace}` },
    })),
  );
  const userOf = (name: string): string => `${name}-${namespace}`;
  const bind = (user: string, role: string) => ({
    apiVersion: `${GROUP}/v1`,
    kind: "RoleBinding",
    metadata: { name: user, namespace },
    roleRef: { apiGroup: GROUP, kind: "ClusterRole", name: role },
    subjects: [{ kind: "User", name: userOf(user), apiGroup: GROUP }],
  });
  const ownName = (role: string): string =>
    `${roles.find(({ metadata }) => metadata.name.endsWith(`-${role}`))?.metadata.name}-${namespace}`;
  const levels = ["view", "edit", "admin"];
  await apply(...levels.flatMap((role) => [bind(role, role), bind(`own-${role}`, ownName(role))]));
  const rights = {
    "read AddonModules": ["get", "addonmodules", "web"],
    "read AddonOperators": ["watch", "addonoperators", ""],
    "read Secrets": ["get", "secrets", "x"],
    "change the ConfigMap": ["patch", "configmaps", "addon-operator"],
    "change other ConfigMaps": ["patch", "configmaps", "other"],
    "annotate AddonModules": ["patch", "addonmodules", "web"],
    "annotate AddonOperators": ["patch", "addonoperators", "addon-operator"],
    "change statuses": ["patch", "addonmodules/status", "web"],
    "create AddonModules": ["create", "addonmodules", ""],
    "delete AddonModules": ["delete", "addonmodules", "web"],
    "change accounts": ["impersonate", "serviceaccounts", "x"],
  };
  const allowed = async (user: string): Promise<string[]> => {
    const items = Object.values(rights).map(([verb, place = "", name]) => {
      const [resource = "", subresource] = place.split("/");
      const group = resource.startsWith("addon") ? "addon-operator.io" : "";
      const resourceAttributes = { namespace, verb, group, resource, subresource, name };
      const spec = { user: userOf(user), resourceAttributes };
      return { apiVersion: "authorization.k8s.io/v1", kind: "SubjectAccessReview", spec };
    });
    const list = JSON.stringify({ apiVersion: "v1", kind: "List", items });
    const print = "jsonpath={.status.allowed}{'\\n'}";
    const answers = (await kubectl(["create", "-o", print, "-f", "-"], list)).split("\n");
    return Object.keys(rights).filter((_, index) => answers[index] === "true");
  };
  // The controller adds them to the ClusterRoles of the cluster.
  const isAggregated = async (): Promise<boolean> =>
    (await allowed("admin")).includes("annotate AddonModules");
  await eventually(isAggregated, "they are aggregated");
  const read = ["read AddonModules", "read AddonOperators"];
  const annotate = ["annotate AddonModules", "annotate AddonOperators"];
  const inEdit = ["read Secrets", "change the ConfigMap", "change other ConfigMaps"];
  expect(await allowed("view")).toEqual(read);
  expect(await allowed("edit")).toEqual([...read, ...inEdit, "change accounts"]);
  expect(await allowed("admin")).toEqual([...read, ...inEdit, ...annotate, "change accounts"]);
  // Bound by their names, they may do only what they add.
  expect(await allowed("own-view")).toEqual(read);
  expect(await allowed("own-edit")).toEqual(["change the ConfigMap"]);
  expect(await allowed("own-admin")).toEqual(annotate);
});

test(
  "the Pod fits the Pod Security level restricted, with user ids of hooks baseline",
  { timeout: 240_000 },
  async () => {
    const namespace = await freshNamespace("tenancy");
    await apply({
      apiVersion: "v1",
      kind: "ServiceAccount",
      metadata: { name: "addon-operator", namespace },
    });
    const isAccepted = async (level: string, hookUserIds: boolean): Promise<boolean> => {
      const labels = { "pod-security.kubernetes.io/enforce": level };
      await kubectl([
        "label",
        "namespace",
        namespace,
        "--overwrite",
        ...Object.entries(labels).map((each) => each.join("=")),
      ]);
      const deployment = objectsOf(render("helm", { tenancy: { hookUserIds } })).find(
        ({ kind }) => kind === "Deployment",
      );
      const { spec } = valueAt(deployment as unknown as Json, ["spec", "template"]) as { spec: JsonObject };
      const pod = { apiVersion: "v1", kind: "Pod", metadata: { name: "addon-operator", namespace }, spec };
      const create = kubectl(["create", "--dry-run=server", "-f", "-"], JSON.stringify(pod));
      return create.then(
        () => true,
        (error: unknown) => {
          expect(String(error)).toContain("violates PodSecurity");
          return false;
        },
      );
    };
    expect(await isAccepted("restricted", false)).toBe(true);
    expect(await isAccepted("restricted", true)).toBe(false);
    expect(await isAccepted("baseline", true)).toBe(true);
  },
);
