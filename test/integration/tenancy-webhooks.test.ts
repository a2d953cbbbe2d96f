// Runs at night: moves and limits that few changes touch.
import { existsSync, readFileSync } from "node:fs";

import { expect, test } from "vitest";

import { freePorts } from "../../scripts/control-plane/ports.mjs";
import { cluster, eventually, freshNamespace } from "../support/cluster.ts";
import { installCrds } from "../support/crds.ts";
import { hookLab } from "../support/hook-files.ts";
import {
  OBJECTS,
  grant,
  makeTeam,
  messageOf,
  startWithTeams,
  statusOf,
  teamModule,
  type Team,
} from "../support/tenants.ts";

// docs/guides/tenancy.md, "Webhooks of hooks": an account limits the webhooks of its module.

const { kubectl } = cluster();

/** A hook that writes the names of the objects that it gets to a file, and denies those named `denied`. */
const script = (config: object, records: string): string => `#!/usr/bin/env bash
if [ "\${1:-}" = --config ]; then echo '${JSON.stringify({ configVersion: "v1", ...config })}'; exit 0; fi
jq -r '.[0] | .review.request.name // .binding' "$BINDING_CONTEXT_PATH" >>${records}
case "$(cat "$BINDING_CONTEXT_PATH")" in
*'"name":"denied"'*) echo '{"allowed":false,"message":"denied by ${records.split("/").at(-1)}"}';;
*'"review"'*) echo '{"allowed":true}';;
esac >"$ADMISSION_RESPONSE_PATH"
`;

const webhook = (name: string, namespace: string, resources: string[]) => ({
  name: `${name}.example.com`,
  namespace: { labelSelector: { matchLabels: { "kubernetes.io/metadata.name": namespace } } },
  rules: [{ apiGroups: [""], apiVersions: ["*"], resources, operations: ["CREATE"] }],
});

const registered = async (kind: string, operatorNamespace: string): Promise<string[]> => {
  const name = `addon-operator-${operatorNamespace}-addon-operator-hooks`;
  const path = ["-o", "jsonpath={.webhooks[*].name}", "--ignore-not-found"];
  const names = await kubectl(["get", `${kind}webhookconfiguration`, name, ...path]);
  return names.split(" ").filter(Boolean).sort();
};

test("webhooks of hooks end where the permissions of the account end", { timeout: 240_000 }, async () => {
  await installCrds();
  const namespace = await freshNamespace("tenancy");
  const [a, b] = [await makeTeam(namespace, "team-a"), await makeTeam(namespace, "team-b")];
  const tokens = { apiGroups: [""], resources: ["serviceaccounts/token"], verbs: ["list", "watch"] };
  await grant(a.namespace, a.account, [OBJECTS, tokens]);
  const create = (kind: string[], of: Team) => kubectl(["create", ...kind, "-n", of.namespace]);
  const lab = hookLab("tenancy");
  const records = (name: string): string => `${lab.dir}/records/${name}`;
  const add = (name: string, team: Team, config: object): void => {
    teamModule(lab, name, team);
    lab.file(`modules/010-${name}/hooks/hook.sh`, script(config, records(name)));
  };
  // By default, a webhook fails closed. The Secrets of its namespace include that of the token of the hook itself.
  const policy = [webhook("policy", a.namespace, ["secrets", "serviceaccounts/token", "configmaps"])];
  add("policy", a, { beforeHelm: 1, kubernetesValidating: policy });
  add("twin", b, { kubernetesValidating: [webhook("policy", b.namespace, ["configmaps"])] });
  add("spy", a, { kubernetesValidating: [webhook("spy", b.namespace, ["secrets"])] });
  add("wide", a, { kubernetesValidating: [{ ...webhook("wide", "", ["*"]), namespace: undefined }] });
  const rbac = webhook("rbac", a.namespace, ["clusterrolebindings"]);
  const rules = rbac.rules.map((rule) => ({ ...rule, apiGroups: ["rbac.authorization.k8s.io"] }));
  add("mutator", a, { kubernetesMutating: [{ ...rbac, rules }] });
  const conversions = [{ fromVersion: "v1", toVersion: "v2" }];
  const crdName = "addonmodules.addon-operator.io";
  add("converter", a, { kubernetesCustomResourceConversion: [{ name: "c", crdName, conversions }] });
  // The answer to the expression of `requires` would tell team a what a Secret of team b contains.
  await create(["secret", "generic", "private", "--from-literal=password=right"], b);
  teamModule(lab, "oracle", a);
  const guess = {
    apiVersion: "v1",
    kind: "Secret",
    namespace: b.namespace,
    name: "private",
    cel: "'password' in object.data",
  };
  const identity = { namespace: a.namespace, serviceAccountName: a.id };
  const oracle = { ...identity, requires: { objects: [guess] } };
  lab.file("modules/010-oracle/addon.yaml", JSON.stringify(oracle));
  teamModule(lab, "reader", a);
  const source = {
    kind: "Secret",
    namespace: b.namespace,
    name: "private",
    key: "password",
    path: "/stolen",
  };
  lab.file("modules/010-reader/addon.yaml", JSON.stringify({ ...identity, valuesFrom: [source] }));
  const [port] = await freePorts(1);
  const args = [
    "--service-account-namespaces=*",
    "--module-queues=own",
    `--tmp-dir=${lab.dir}/tmp`,
    `--webhook-url=https://127.0.0.1:${port}`,
    "--webhook-listen-address=127.0.0.1",
    `--webhook-port=${port}`,
  ];
  const operator = await startWithTeams(namespace, lab, { args });
  const until = (check: () => Promise<boolean>, what: string) =>
    eventually(check, what, { timeoutMs: 90_000, context: () => operator.log().slice(-4000) });
  const isSo = (module: string, state: string) =>
    until(async () => (await statusOf(namespace, module)).state === state, `${module} is ${state}`);
  await Promise.all([
    isSo("policy", "Ready"),
    isSo("twin", "Ready"),
    isSo("mutator", "Invalid"),
    isSo("converter", "Invalid"),
  ]);
  expect(await messageOf(namespace, "converter")).toContain("may not convert custom resources");
  expect(await messageOf(namespace, "mutator")).toContain("may not change roles and their bindings");

  // Two teams use one name. Each webhook is registered for its module, and called for its namespace.
  const names = ["policy", "twin"].map((module) => `policy.example.com.${module}.modules.addon-operator.io`);
  await until(
    async () => (await registered("validating", namespace)).join() === names.join(),
    "two webhooks",
  );
  expect(await registered("mutating", namespace)).toEqual([]);
  const denial = async (of: Team) => create(["configmap", "denied"], of).then(() => "", String);
  await until(async () => (await denial(a)).includes("denied by policy"), "policy is called");
  await until(async () => (await denial(b)).includes("denied by twin"), "twin is called");

  // A Secret of team b arrives in no hook of team a, and the message names the missing permission.
  const issue = `may not list secrets in namespace ${b.namespace}`;
  await until(async () => (await messageOf(namespace, "spy")).includes(issue), issue);
  const forAll = "may not list * in all namespaces";
  await until(async () => (await messageOf(namespace, "wide")).includes(forAll), forAll);
  const noAnswer = `may not get secrets private in namespace ${b.namespace}`;
  await until(async () => (await messageOf(namespace, "oracle")).includes(noAnswer), noAnswer);
  await until(async () => (await messageOf(namespace, "reader")).includes(noAnswer), `reader: ${noAnswer}`);
  await create(["secret", "generic", "theirs"], b);
  await create(["secret", "generic", "ours"], a);
  expect([existsSync(records("spy")), existsSync(records("wide"))]).toEqual([false, false]);
  const seen = readFileSync(records("policy"), "utf8").split("\n");
  expect(seen).toContain("ours");
  expect(seen.filter((name) => name.startsWith("addon-operator-run-"))).toEqual([]);

  // The registered webhook fails closed while nothing answers. Its hook needs a token before it can answer.
  await operator.stop();
  await expect(create(["secret", "generic", "later"], a)).rejects.toThrow(/connection refused/);
  // A release record that the operator writes does not pass the webhook.
  await create(["secret", "generic", "sh.helm.release.v1.moved.v1"], a);
  const before = readFileSync(records("policy"), "utf8").length;
  await startWithTeams(namespace, lab, { args });
  const hasRun = async () => readFileSync(records("policy"), "utf8").slice(before).includes("beforeHelm");
  await until(hasRun, "policy has run again");
  await until(
    async () =>
      create(["secret", "generic", "later"], a).then(
        () => true,
        () => false,
      ),
    "it is stored",
  );
});
