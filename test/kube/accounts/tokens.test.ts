import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { expect, onTestFinished, test } from "vitest";

import { kubeconfigOf } from "../../../src/kube/accounts/access.ts";
import { AccountTokens, missingRule, openAccess } from "../../../src/kube/index.ts";
import { Scratch } from "../../../src/process/index.ts";
import { status } from "../../support/fake-api.ts";
import { until } from "../../support/until.ts";
import { fake } from "../fixture.ts";

const account = { namespace: "team-a", name: "deployer" };
const PATH = "POST /api/v1/namespaces/team-a/serviceaccounts/deployer/token";

async function tokens() {
  const { api, client, clock } = await fake();
  let count = 0;
  api.on(PATH, () => ({ json: { spec: { expirationSeconds: 600 }, status: { token: `token-${++count}` } } }));
  return { api, client, clock, tokens: new AccountTokens({ client, clock }) };
}

test("runs share a token for half of its lifetime", async () => {
  const { api, clock, tokens: all } = await tokens();
  expect((await all.of(account)).token).toBe("token-1");
  await clock.advance(299_000);
  expect((await all.of(account)).token).toBe("token-1");
  await clock.advance(2000);
  expect((await all.of(account)).token).toBe("token-2");
  expect(api.requests.map(({ body }) => (JSON.parse(body) as { spec: unknown }).spec)).toEqual([
    { expirationSeconds: 600 },
    { expirationSeconds: 600 },
  ]);
});

test("a refused or forgotten token is requested again, and a deleted account is named", async () => {
  const { api, tokens: all } = await tokens();
  await all.of(account);
  all.forget(account);
  expect((await all.of(account)).token).toBe("token-2");
  all.forget(account);
  api.on(PATH, status(404, "NotFound"));
  await expect(all.of(account)).rejects.toThrow("ServiceAccount team-a/deployer does not exist");
  api.on(PATH, status(403, "Forbidden", { message: "no tokens here" }));
  await expect(all.of(account)).rejects.toThrow("no tokens here");
});

test("the token of a long run is renewed until the run ends", async () => {
  const { api, client, clock, tokens: all } = await tokens();
  const root = mkdtempSync(join(tmpdir(), "access-"));
  onTestFinished(() => rmSync(root, { recursive: true, force: true }));
  const scratch = await Scratch.open(root, "hook");
  const errors: unknown[] = [];
  const request = { account, namespace: "team-a", onError: (error: unknown) => void errors.push(error) };
  const { path, close } = await openAccess({ client, clock, tokens: all }, request, scratch);
  const { users, contexts } = JSON.parse(readFileSync(path, "utf8")) as Record<
    string,
    { user?: { tokenFile: string } }[]
  >;
  const file = users?.[0]?.user?.tokenFile ?? "";
  expect(contexts).toMatchObject([{ context: { namespace: "team-a" } }]);
  expect(readFileSync(file, "utf8")).toBe("token-1");
  await clock.advance(301_000);
  await until(() => readFileSync(file, "utf8") === "token-2");
  // The next renewal is planned once the file is written.
  await until(() => (clock.nextTimerAt ?? 0) - clock.monotonic() > 200_000);
  api.on(PATH, status(403, "Forbidden"));
  await clock.advance(301_000);
  await until(() => errors.length === 1);
  close();
  await clock.advance(3_600_000);
  expect(api.requests).toHaveLength(3);
  expect(readFileSync(file, "utf8")).toBe("token-2");
});

test("the kubeconfig of an account has nothing of the operator's credentials", () => {
  const own = {
    clusters: [{ name: "c", cluster: { server: "https://api", "certificate-authority-data": "Q0E=" } }],
    users: [{ name: "admin", user: { token: "hunter2", "client-key-data": "a2V5" } }],
  };
  const text = kubeconfigOf(JSON.stringify(own), { account, namespace: "team-a", tokenFile: "/run/token" });
  expect(JSON.parse(text)).toMatchObject({
    clusters: [{ cluster: { server: "https://api", "certificate-authority-data": "Q0E=" } }],
    users: [{ user: { tokenFile: "/run/token" } }],
  });
  expect(text).not.toMatch(/hunter2|a2V5|admin/);
});

test.each([
  [
    'Error: configmaps "x" is forbidden: User "system:serviceaccount:team-a:deployer" cannot create resource "configmaps" in API group "" in the namespace "team-b"',
    "grant ServiceAccount team-a/deployer: create configmaps in namespace team-b",
  ],
  [
    'serviceaccounts "x" is forbidden: User "operator" cannot impersonate resource "serviceaccounts" in API group "" in the namespace "team-a"',
    "grant user operator: impersonate serviceaccounts in namespace team-a",
  ],
  [
    'User "a" cannot list resource "deployments" in API group "apps" at the cluster scope',
    "grant user a: list deployments.apps in the whole cluster",
  ],
  ["connection refused", undefined],
])("the missing rule in %j", (text, rule) => {
  expect(missingRule(text)).toBe(rule);
});
