// Runs at night: faults.
import { readFileSync } from "node:fs";
import { join } from "node:path";

import { expect, test } from "vitest";

import { cluster, eventually, freshNamespace, kubeconfigOf } from "../support/cluster.ts";
import { installCrds } from "../support/crds.ts";
import { hookLab, type Lab } from "../support/hook-files.ts";
import {
  grant,
  makeTeam,
  messageOf,
  OBJECTS,
  startWithTeams,
  statusOf,
  teamModule,
  type Team,
} from "../support/tenants.ts";

// docs/guides/tenancy.md: accounts, rights and namespaces that go while a module is in force.

const { kubectl, apply } = cluster();
const GROUP = "rbac.authorization.k8s.io";

const SECRETS = { apiGroups: [""], resources: ["secrets"], verbs: ["*"] };

/** A namespace for the releases of modules of the team, so that the team's own namespace has only the objects. */
async function separateReleases(lab: Lab, team: Team, modules: readonly string[]): Promise<string> {
  const release = await freshNamespace("releases");
  await grant(release, team.account, [SECRETS]);
  for (const name of modules)
    lab.file(`modules/010-${name}/addon.yaml`, `namespace: ${release}\nserviceAccountName: ${team.id}\n`);
  return release;
}

/** A control plane and a team whose module `web` is in force, with what waits for its state and its message. */
async function webInForce(hook?: object) {
  await installCrds();
  const namespace = await freshNamespace("tenancy");
  const team = await makeTeam(namespace, "team-a");
  const lab = hookLab("tenancy");
  teamModule(lab, "web", team);
  await separateReleases(lab, team, ["web"]);
  if (hook !== undefined) lab.hook("modules/010-web/hooks/token.sh", hook, TOKEN);
  await apply({ apiVersion: "v1", kind: "ConfigMap", metadata: { name: "addon-operator", namespace } });
  const operator = await startWithTeams(namespace, lab);
  const context = operator.log;
  const isReady = () =>
    eventually(async () => (await statusOf(namespace, "web")).state === "Ready", "web is Ready", { context });
  const says = (text: string) =>
    eventually(async () => (await messageOf(namespace, "web")).includes(text), text, { context });
  const setText = (text: string) => {
    const patch = JSON.stringify({ data: { web: `text: ${text}\n` } });
    return kubectl(["patch", "configmap", "addon-operator", "-n", namespace, "--type=merge", "-p", patch]);
  };
  await isReady();
  return { namespace, team, lab, operator, isReady, says, setText };
}

/** Asks with its token, and notes which account it is. */
const TOKEN = `kubectl auth whoami -o jsonpath={.status.userInfo.username} >>"$RECORDS/account-$me"; echo >>"$RECORDS/account-$me"`;

test(
  "an account that is deleted in the middle of a run, and created again, is reported, and the module recovers",
  { timeout: 240_000 },
  async () => {
    const hook = { configVersion: "v1", beforeHelm: 1 };
    const { team, lab, isReady, says, setText } = await webInForce(hook);
    lab.hook("modules/010-web/hooks/token.sh", hook, `wait_for second; ${TOKEN}`);
    await setText("second");
    await eventually(() => lab.runs("token").length > 1, "the run has begun");
    await kubectl(["delete", "serviceaccount", "deployer", "-n", team.namespace]);
    lab.release("second");
    await says(`ServiceAccount ${team.id} does not exist; create it, or correct serviceAccountName`);
    await apply({ apiVersion: "v1", kind: "ServiceAccount", metadata: team.account });
    await isReady();
    const args = ["get", "configmap", "web", "-n", team.namespace, "-o", "jsonpath={.data.text}"];
    expect(await kubectl(args)).toBe("second");
  },
);

test(
  "an account that loses a right in the middle of a run is reported with the rule, and the module recovers",
  { timeout: 240_000 },
  async () => {
    const hook = { configVersion: "v1", beforeHelm: 1 };
    const { namespace, team, lab, operator, isReady, says, setText } = await webInForce(hook);
    lab.hook("modules/010-web/hooks/token.sh", hook, `touch "$RECORDS/started"; wait_for second`);
    await setText("second");
    await eventually(() => lab.runs("token").length > 1, "the run has begun");
    await kubectl(["delete", "rolebinding", `${team.namespace}-deployer`, "-n", team.namespace]);
    lab.release("second");
    await says(`missing rule: grant ServiceAccount ${team.id}: `);
    expect(await messageOf(namespace, "web")).toContain(`configmaps in namespace ${team.namespace}`);
    // Its dry runs act as the account, too.
    const { stdout, stderr } = await operator.cli(["module", "diff", "web"]);
    expect(stdout + stderr).toMatch(
      new RegExp(`${team.namespace}:deployer" cannot .* resource "configmaps"`),
    );
    await grant(team.namespace, team.account, [OBJECTS]);
    await isReady();
  },
);

test(
  "a namespace that terminates is reported, and the module recovers when it is there again",
  { timeout: 240_000 },
  async () => {
    const { namespace, team, isReady, says, setText } = await webInForce();
    const held = {
      apiVersion: "v1",
      kind: "ConfigMap",
      metadata: { name: "held", namespace: team.namespace, finalizers: ["example.com/held"] },
    };
    await apply(held);
    await kubectl(["delete", "namespace", team.namespace, "--wait=false"]);
    await setText("second");
    await says(`ServiceAccount ${team.id} does not exist`);
    const patch = JSON.stringify({ metadata: { finalizers: null } });
    await kubectl(["patch", "configmap", "held", "-n", team.namespace, "--type=merge", "-p", patch]);
    await kubectl(["wait", "--for=delete", `namespace/${team.namespace}`, "--timeout=120s"]);
    await apply({ apiVersion: "v1", kind: "Namespace", metadata: { name: team.namespace } });
    await apply({ apiVersion: "v1", kind: "ServiceAccount", metadata: team.account });
    await grant(team.namespace, team.account, [OBJECTS]);
    await isReady();
    expect((await statusOf(namespace, "web")).identity?.serviceAccount).toBe(team.id);
  },
);

test(
  "a TokenRequest that is refused fails modules with hooks alone, and names the rule",
  { timeout: 240_000 },
  async () => {
    await installCrds();
    const namespace = await freshNamespace("tenancy");
    const team = await makeTeam(namespace, "team-a");
    const lab = hookLab("tenancy");
    teamModule(lab, "quiet", team);
    teamModule(lab, "asking", team);
    lab.hook("modules/010-asking/hooks/token.sh", { configVersion: "v1", beforeHelm: 1 }, TOKEN);
    const kubeconfig = await kubeconfigOf(namespace, "operator");
    // Everything except serviceaccounts/token, and Secrets in the namespace of the team.
    const core = "configmaps events namespaces pods serviceaccounts services endpoints".split(" ");
    const release = await separateReleases(lab, team, ["quiet", "asking"]);
    for (const each of [namespace, release]) await grant(each, { name: "operator", namespace }, [SECRETS]);
    const groups = ["addon-operator.io", "apiextensions.k8s.io", "coordination.k8s.io", "events.k8s.io"];
    const rules = [
      { apiGroups: [""], resources: core, verbs: ["*"] },
      { apiGroups: groups, resources: ["*"], verbs: ["*"] },
    ];
    await apply(
      { apiVersion: `${GROUP}/v1`, kind: "ClusterRole", metadata: { name: namespace }, rules },
      {
        apiVersion: `${GROUP}/v1`,
        kind: "ClusterRoleBinding",
        metadata: { name: namespace },
        roleRef: { apiGroup: GROUP, kind: "ClusterRole", name: namespace },
        subjects: [{ kind: "ServiceAccount", name: "operator", namespace }],
      },
    );
    const operator = await startWithTeams(namespace, lab, { kubeconfig, admin: cluster().kubeconfig });
    const context = operator.log;
    await eventually(async () => (await statusOf(namespace, "quiet")).state === "Ready", "quiet is Ready", {
      context,
    });
    const rule = `missing rule: grant ServiceAccount ${namespace}/operator: create serviceaccounts/token in namespace ${team.namespace}`;
    await eventually(async () => (await messageOf(namespace, "asking")).includes(rule), rule, { context });
    await grant(team.namespace, { name: "operator", namespace }, [
      { apiGroups: [""], resources: ["serviceaccounts/token"], verbs: ["create"] },
    ]);
    await eventually(async () => (await statusOf(namespace, "asking")).state === "Ready", "asking is Ready", {
      context,
    });
    // Its token cannot be bound to a Secret.
    const unbound = `tokens of its hooks stay valid after the run, for up to ten minutes: `;
    const missing = `create secrets in namespace ${team.namespace})`;
    const { message } = (await statusOf(namespace, "asking")).identity ?? {};
    expect(message).toMatch(new RegExp(`${unbound}.*${missing.replace(")", "\\)")}`));
    expect(context()).toContain("Tokens of hooks stay valid after the run");
  },
);

test("each of two teams acts as its own account only", { timeout: 240_000 }, async () => {
  await installCrds();
  const namespace = await freshNamespace("tenancy");
  const [a, b] = [await makeTeam(namespace, "team-a"), await makeTeam(namespace, "team-b")];
  const lab = hookLab("tenancy");
  teamModule(lab, "first", a);
  teamModule(lab, "second", b);
  const config = { configVersion: "v1", beforeHelm: 1 };
  for (const name of ["first", "second"]) lab.hook(`modules/010-${name}/hooks/${name}.sh`, config, TOKEN);
  // A chart that writes outside of its namespace.
  const data = { first: `target: ${b.namespace}\n` };
  await apply({ apiVersion: "v1", kind: "ConfigMap", metadata: { name: "addon-operator", namespace }, data });
  const operator = await startWithTeams(namespace, lab);
  const context = operator.log;
  await eventually(async () => (await statusOf(namespace, "second")).state === "Ready", "second is Ready", {
    context,
  });
  const rule = `missing rule: grant ServiceAccount ${a.id}: `;
  await eventually(async () => (await messageOf(namespace, "first")).includes(rule), rule, { context });
  expect(await messageOf(namespace, "first")).toMatch(
    new RegExp(String.raw`${a.id}: \w+ configmaps in namespace ${b.namespace}`),
  );
  const accountsOf = (name: string): Set<string> =>
    new Set(
      readFileSync(join(lab.dir, "records", `account-${name}`), "utf8")
        .trim()
        .split("\n"),
    );
  const user = (team: Team): Set<string> => new Set([`system:serviceaccount:${team.namespace}:deployer`]);
  expect([accountsOf("first"), accountsOf("second")]).toEqual([user(a), user(b)]);
  await expect(kubectl(["get", "configmap", "first", "-n", b.namespace])).rejects.toThrow(/NotFound/);
});

test(
  "an account of a namespace that is not allowed makes its module alone Invalid",
  { timeout: 240_000 },
  async () => {
    await installCrds();
    const namespace = await freshNamespace("tenancy");
    const [a, b] = [await makeTeam(namespace, "team-a"), await makeTeam(namespace, "team-b")];
    const lab = hookLab("tenancy");
    teamModule(lab, "first", a);
    teamModule(lab, "second", b);
    const operator = await startWithTeams(namespace, lab, {
      args: ["--service-account-namespaces=team-a-*"],
    });
    const is = (name: string, state: string) =>
      eventually(async () => (await statusOf(namespace, name)).state === state, `${name} is ${state}`, {
        context: operator.log,
      });
    await is("first", "Ready");
    await is("second", "Invalid");
    expect(await messageOf(namespace, "second")).toContain(
      "allow the namespace with --service-account-namespaces",
    );
  },
);

test(
  "CRDs of a module are applied as its account, and those that it may not apply hold up no other module",
  { timeout: 240_000 },
  async () => {
    await installCrds();
    const namespace = await freshNamespace("tenancy");
    const team = await makeTeam(namespace, "team-a");
    const lab = hookLab("tenancy");
    for (const name of ["greedy", "other"]) teamModule(lab, name, team);
    const group = `${team.namespace}.example.com`;
    const crd = {
      apiVersion: "apiextensions.k8s.io/v1",
      kind: "CustomResourceDefinition",
      metadata: { name: `geese.${group}` },
      spec: {
        group,
        scope: "Namespaced",
        names: { kind: "Goose", plural: "geese" },
        versions: [
          { name: "v1", served: true, storage: true, schema: { openAPIV3Schema: { type: "object" } } },
        ],
      },
    };
    lab.file("modules/010-greedy/crds/goose.yaml", JSON.stringify(crd));
    const operator = await startWithTeams(namespace, lab);
    const context = operator.log;
    await eventually(async () => (await statusOf(namespace, "other")).state === "Ready", "other is Ready", {
      context,
    });
    const text = `ServiceAccount ${team.id} may not apply CRDs`;
    await eventually(async () => (await messageOf(namespace, "greedy")).includes(text), text, { context });
    await expect(kubectl(["get", "crd", `geese.${group}`])).rejects.toThrow(/NotFound/);
  },
);
