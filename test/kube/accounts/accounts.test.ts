import { expect, test } from "vitest";

import { Accounts } from "../../../src/kube/index.ts";
import { status } from "../../support/fake-api.ts";
import { fake } from "../fixture.ts";

async function accounts(...allowed: string[]) {
  const { api, client } = await fake();
  return {
    api,
    client,
    accounts: new Accounts({
      client,
      allowed,
      operatorNamespace: "ops",
      namespaceOf: ({ namespace }) => namespace ?? "ops",
      configuredNamespaceOf: () => "ops",
    }),
  };
}

test("a module acts as an account of the namespace that the operator gives it, or as the operator", async () => {
  const { accounts: rules } = await accounts();
  expect(rules.resolveAccount({ name: "web", serviceAccountName: "deployer" })).toEqual({
    namespace: "ops",
    name: "deployer",
  });
  const own = { name: "db", namespace: "team-a", serviceAccountName: "team-a/deployer" };
  expect(rules.findProblem(own, "")?.message).toContain("gives it namespace ops");
  const { accounts: ofTeams } = await accounts("team-*");
  expect(ofTeams.resolveAccount({ ...own, serviceAccountName: "deployer" })).toEqual({
    namespace: "team-a",
    name: "deployer",
  });
  expect(rules.resolveAccount({ name: "plain" })).toBeUndefined();
  expect(rules.getKnownAccount("web")).toEqual({ namespace: "ops", name: "deployer" });
  const users = ["system:serviceaccount:ops:deployer", "system:serviceaccount:ops:plain", "plain"];
  expect(users.map((user) => rules.isAccountUser(user))).toEqual([true, false, false]);
});

test("an account that a broken file may name is not the operator, unless the file was read before", async () => {
  const { accounts: rules } = await accounts();
  const file = "/modules/web/addon.yaml";
  const broken = { name: "web", accountIsUnknown: true };
  const refusal =
    "web: its addon.yaml cannot be read, so it is not known as whom the module acts (correct the file)";
  expect(rules.findProblem(broken, file)).toBeUndefined();
  expect(() => rules.getKnownAccount("web")).toThrow(refusal);
  expect(() => rules.resolveAccount(broken)).toThrow(refusal);
  const deployer = { namespace: "ops", name: "deployer" };
  expect(rules.resolveAccount({ name: "web", serviceAccountName: "deployer" })).toEqual(deployer);
  expect(rules.findProblem(broken, file)).toBeUndefined();
  expect([rules.resolveAccount(broken), rules.getKnownAccount("web")]).toEqual([deployer, deployer]);
  rules.resolveAccount({ name: "db" });
  expect(rules.resolveAccount({ name: "db", accountIsUnknown: true })).toBeUndefined();
});

test.each([
  [[], "team-b", false],
  [["team-b"], "team-b", true],
  [["team-*"], "team-b", true],
  [["team-*"], "ateam-b", false],
  [["*-b-*"], "team-b", false],
  [["t*-b*x"], "t-b-x", true],
  [["a*a"], "a", false],
  [["*"], "kube-system", true],
])("with %j allowed, an account of %s: %s", async (allowed, namespace, isAllowed) => {
  const { accounts: rules } = await accounts(...allowed);
  const module = { name: "web", namespace: "team", serviceAccountName: `${namespace}/admin` };
  const fault = rules.findProblem(module, "/modules/web/addon.yaml");
  expect(fault?.remedy?.includes("--service-account-namespaces") ?? "allowed").toBe(
    isAllowed ? "allowed" : true,
  );
  expect(fault?.file).toBe(isAllowed ? undefined : "/modules/web/addon.yaml");
});

test("a release with an account must be outside the operator's namespace, and the account counts nevertheless", async () => {
  const { accounts: rules } = await accounts("*");
  const module = { name: "web", serviceAccountName: "team-a/deployer" };
  for (const namespace of [undefined, "ops"])
    expect(rules.findProblem({ ...module, namespace }, "addon.yaml")).toMatchObject({
      file: "addon.yaml",
      key: "namespace",
      remedy: "set namespace in addon.yaml, or --module-namespace-template",
    });
  // Nothing is removed with the permissions of the operator.
  expect(rules.getKnownAccount("web")).toEqual({ namespace: "team-a", name: "deployer" });
  expect(rules.findProblem({ ...module, namespace: "team-a" }, "addon.yaml")).toBeUndefined();
  expect(rules.findProblem({ ...module, chart: "none" }, "addon.yaml")).toBeUndefined();
  expect(rules.findProblem({ name: "plain" }, "addon.yaml")).toBeUndefined();
});

test("requests of a client act as a user", async () => {
  const { api, client } = await accounts();
  api.on("GET /api/v1/namespaces/ops/configmaps/a", { json: {} });
  await client
    .impersonate("system:serviceaccount:ops:web")
    .json({ path: "/api/v1/namespaces/ops/configmaps/a" });
  await client.json({ path: "/api/v1/namespaces/ops/configmaps/a" });
  const users = api.requests.map(({ headers }) => headers["impersonate-user"]);
  expect(users).toEqual(["system:serviceaccount:ops:web", undefined]);
});

test("a deleted account is an error that names it, although impersonation would work", async () => {
  const { api, accounts: rules } = await accounts();
  const path = "GET /api/v1/namespaces/ops/serviceaccounts/web";
  api.on(path, { json: { metadata: { name: "web" } } });
  api.on("GET /version", { json: {} });
  const account = { namespace: "ops", name: "web" };
  await rules.assertUsable(account);
  api.on("GET /version", status(403, "Forbidden"));
  await expect(rules.assertUsable(account)).rejects.toThrow("impersonate serviceaccounts in namespace ops");
  api.on(path, status(404, "NotFound"));
  await expect(rules.assertUsable(account)).rejects.toThrow("ServiceAccount ops/web does not exist");
});
