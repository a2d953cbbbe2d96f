import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { expect, onTestFinished, test } from "vitest";

import { buildAccountKubeconfig } from "../../../src/kube/accounts/child-kubeconfigs.ts";
import { findMissingRule, openAccountKubeconfig, RunTokens } from "../../../src/kube/index.ts";
import { silentLogger } from "../../../src/base/index.ts";
import { ScratchDir } from "../../../src/base/process/index.ts";
import { status, type FakeApi } from "../../support/fake-api.ts";
import { settle, type ManualClock } from "../../support/clock.ts";
import { until } from "../../support/until.ts";
import { fake } from "../fixture.ts";

const account = { namespace: "team-a", name: "deployer" };
const PATH = "POST /api/v1/namespaces/team-a/serviceaccounts/deployer/token";

const SECRETS = "/api/v1/namespaces/team-a/secrets";
const owner = { module: "web", account };

/** Answers to requests for Secrets and tokens, whose numbers go up. */
async function tokens() {
  const { api, client, clock } = await fake();
  let [secrets, count] = [0, 0];
  api.on(`POST ${SECRETS}`, ({ body }) => {
    const { metadata } = JSON.parse(body) as { metadata: { name: string } };
    api.on(`DELETE ${SECRETS}/${metadata.name}`, { json: {} });
    return { json: { metadata: { ...metadata, uid: `secret-${++secrets}` } } };
  });
  api.on(PATH, () => ({ json: { spec: { expirationSeconds: 600 }, status: { token: `token-${++count}` } } }));
  const warnings: (readonly [string, unknown])[] = [];
  const warn = (message: string, fields: unknown): void => void warnings.push([message, fields]);
  const logger = { ...silentLogger, warn };
  const runs = new RunTokens({ client, clock, logger, operator: "ops/addon-operator" });
  return { api, client, clock, runs, warnings };
}

const calls = (api: FakeApi): string[] =>
  api.requests.map(
    ({ method, path }) =>
      `${method} ${path
        .split("/")
        .at(-1)
        ?.replace(/-[0-9a-f]{10}$/, "")}`,
  );

const bodyOf = (api: FakeApi, path: string): unknown[] =>
  api.requests.filter((each) => `${each.method} ${each.path}` === path).map(({ body }) => JSON.parse(body));

test("the hooks of a run share one token, which is bound to a Secret that is deleted at the end", async () => {
  const { api, runs } = await tokens();
  await runs.withToken(owner, async () => {
    const hook = () => runs.withToken(owner, async (token) => (await token()).token);
    expect(await Promise.all([hook(), hook()])).toEqual(["token-1", "token-1"]);
    expect(await hook()).toBe("token-1");
    expect(calls(api)).toEqual(["POST secrets", "POST token"]);
  });
  await runs.waitForRevocations();
  expect(calls(api).slice(2)).toEqual(["DELETE addon-operator-run-web"]);
  const [request] = bodyOf(api, PATH) as { spec: { expirationSeconds: number; boundObjectRef: object } }[];
  expect(request?.spec).toMatchObject({
    expirationSeconds: 600,
    boundObjectRef: { apiVersion: "v1", kind: "Secret", uid: "secret-1" },
  });
  // Another Secret of this name stays.
  const [deletion] = api.requests.slice(2);
  expect(JSON.parse(deletion?.body ?? "")).toMatchObject({ preconditions: { uid: "secret-1" } });
  expect(await runs.withToken(owner, async (token) => (await token()).token)).toBe("token-2");
});

test("a run without hooks requests nothing, and each module has a token of its own", async () => {
  const { api, runs } = await tokens();
  await runs.withToken(owner, async () => {});
  expect(calls(api)).toEqual([]);
  const other = { module: "db", account };
  const both = [owner, other].map((each) => runs.withToken(each, async (token) => (await token()).token));
  expect(new Set(await Promise.all(both))).toEqual(new Set(["token-1", "token-2"]));
});

test("a run that fails revokes its token, too", async () => {
  const { api, runs } = await tokens();
  const failing = runs.withToken(owner, async (token) => {
    await token();
    throw new Error("the hook failed");
  });
  await expect(failing).rejects.toThrow("the hook failed");
  await runs.waitForRevocations();
  expect(calls(api).at(-1)).toBe("DELETE addon-operator-run-web");
});

test("nothing waits for a revocation but the next token of the module, and runs that end while eight are under way", async () => {
  const { api, runs } = await tokens();
  const deleted = Promise.withResolvers<void>();
  api.on(`POST ${SECRETS}`, ({ body }) => {
    const { metadata } = JSON.parse(body) as { metadata: { name: string } };
    api.on(`DELETE ${SECRETS}/${metadata.name}`, async () => {
      await deleted.promise;
      return { json: {} };
    });
    return { json: { metadata: { ...metadata, uid: "u" } } };
  });
  const run = (module: string) => runs.withToken({ module, account }, async (token) => (await token()).token);
  const count = (call: string): number => calls(api).filter((each) => each.startsWith(call)).length;
  await run("web");
  const next = run("web");
  for (let more = 1; more <= 7; more++) await run(`more-${more}`);
  expect(count("POST secrets")).toBe(8);
  let isOver = false;
  const ninth = run("ninth").then(() => (isOver = true));
  await until(() => count("DELETE") === 9);
  expect([isOver, count("POST secrets")]).toEqual([false, 9]);
  deleted.resolve();
  await Promise.all([next, ninth]);
  await runs.waitForRevocations();
  expect([count("POST secrets"), count("DELETE")]).toEqual([10, 10]);
});

/** With the hash that distinguishes operators. */
const NAME_OF_WEB = "addon-operator-run-web-e37e6a580d";

test("a Secret that a killed operator has left is replaced, which revokes its token", async () => {
  const { api, runs } = await tokens();
  const made = { json: { metadata: { name: NAME_OF_WEB, uid: "new" } } };
  api.on(`POST ${SECRETS}`, status(409, "AlreadyExists"), made);
  api.on(`DELETE ${SECRETS}/${NAME_OF_WEB}`, { json: {} });
  expect(await runs.withToken(owner, async (token) => (await token()).token)).toBe("token-1");
  expect(calls(api).slice(0, 4)).toEqual([
    "POST secrets",
    "DELETE addon-operator-run-web",
    "POST secrets",
    "POST token",
  ]);
});

/** The Secrets of runs of these modules that a killed operator has left. */
const leftSecrets = (...modules: readonly string[]) => ({
  json: {
    kind: "SecretList",
    items: modules.map((module) => ({ metadata: { name: NAME_OF_WEB.replace("web", module) } })),
  },
});

test("Secrets that a killed operator has left are deleted, before the next run creates its own", async () => {
  const { api, runs } = await tokens();
  const deleted = Promise.withResolvers<{ json: object }>();
  api.on(`GET ${SECRETS}`, leftSecrets("web", "off"));
  api.on(`DELETE ${SECRETS}/${NAME_OF_WEB}`, () => deleted.promise);
  api.on(`DELETE ${SECRETS}/${NAME_OF_WEB.replace("web", "off")}`, { json: {} });
  runs.revokeFormer([owner, { module: "off", account }, { module: "other", account }]);
  const run = runs.withToken(owner, async (token) => (await token()).token);
  await until(() => api.requests.length === 3);
  expect(calls(api).toSorted()).toEqual([
    "DELETE addon-operator-run-off",
    "DELETE addon-operator-run-web",
    "GET secrets",
  ]);
  deleted.resolve({ json: {} });
  expect(await run).toBe("token-1");
  expect(calls(api)[3]).toBe("POST secrets");
  await runs.waitForRevocations();
});

test("all Secrets that may be left are deleted if they cannot be listed", async () => {
  const { api, runs } = await tokens();
  api.on(`GET ${SECRETS}`, status(403, "Forbidden"));
  api.on(`DELETE ${SECRETS}/${NAME_OF_WEB}`, { json: {} });
  runs.revokeFormer([owner]);
  await runs.waitForRevocations();
  expect(calls(api)).toEqual(["GET secrets", "DELETE addon-operator-run-web"]);
});

test("without rights on Secrets, the token expires by itself, which is reported once", async () => {
  const { api, runs, warnings } = await tokens();
  const message =
    'secrets is forbidden: User "system:serviceaccount:ops:op" cannot create resource "secrets" in API group "" in the namespace "team-a"';
  api.on(`POST ${SECRETS}`, status(403, "Forbidden", { message }));
  const run = () => runs.withToken(owner, async (token) => (await token()).token);
  expect([await run(), await run()]).toEqual(["token-1", "token-2"]);
  const [request] = bodyOf(api, PATH) as { spec: object }[];
  expect(request?.spec).toEqual({ expirationSeconds: 600 });
  const rule = "missing rule: grant ServiceAccount ops/op: create secrets in namespace team-a";
  expect(runs.getProblem("web")).toContain(rule);
  expect(warnings).toHaveLength(1);
  expect(JSON.stringify(warnings)).toContain(rule);
});

test("a refused token is requested again by the next hook, and a deleted account is named", async () => {
  const { api, runs } = await tokens();
  const run = () => runs.withToken(owner, async (token) => (await token()).token);
  api.on(PATH, status(403, "Forbidden", { message: "no tokens here" }), {
    json: { status: { token: "good" } },
  });
  await runs.withToken(owner, async (token) => {
    await expect(token()).rejects.toThrow("no tokens here");
    expect((await token()).token).toBe("good");
  });
  api.on(PATH, status(404, "NotFound"));
  await expect(run()).rejects.toThrow("ServiceAccount team-a/deployer does not exist");
  // The namespace is deleted.
  api.on(`POST ${SECRETS}`, status(404, "NotFound"));
  await expect(run()).rejects.toThrow("ServiceAccount team-a/deployer does not exist");
});

test("the token of a long run is renewed until the run ends", async () => {
  const { api, client, clock, runs } = await tokens();
  const root = mkdtempSync(join(tmpdir(), "access-"));
  onTestFinished(() => rmSync(root, { recursive: true, force: true }));
  const scratch = await ScratchDir.open(root, "hook");
  const errors: unknown[] = [];
  const request = { account, namespace: "team-a", onError: (error: unknown) => void errors.push(error) };
  await runs.withToken(owner, async (token) => {
    const { path, close } = await openAccountKubeconfig({ client, clock, token }, request, scratch);
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
    expect(bodyOf(api, PATH)).toHaveLength(3);
    expect(bodyOf(api, `POST ${SECRETS}`)).toHaveLength(1);
    expect(readFileSync(file, "utf8")).toBe("token-2");
  });
});

test("the kubeconfig of an account has nothing of the operator's credentials", () => {
  const own = {
    clusters: [{ name: "c", cluster: { server: "https://api", "certificate-authority-data": "Q0E=" } }],
    users: [{ name: "admin", user: { token: "hunter2", "client-key-data": "a2V5" } }],
  };
  const text = buildAccountKubeconfig(JSON.stringify(own), {
    account,
    namespace: "team-a",
    tokenFile: "/run/token",
  });
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
  [
    'roles.rbac.authorization.k8s.io "web" is forbidden: user "system:serviceaccount:team-a:deployer" (groups=["system:serviceaccounts" "system:authenticated"]) is attempting to grant RBAC permissions not currently held:\n{APIGroups:[""], Resources:["pods"], Verbs:["get"]}',
    'grant ServiceAccount team-a/deployer what the role grants: {APIGroups:[""], Resources:["pods"], Verbs:["get"]}',
  ],
])("the missing rule in %j", (text, rule) => {
  expect(findMissingRule(text)).toBe(rule);
});

test.each(["after a run", "of an operator that was killed"])(
  "a revocation %s that fails is repeated, for ten seconds at most",
  async (when) => {
    const { api, clock, runs, warnings } = await tokens();
    const revoke = async (): Promise<void> => {
      if (when === "after a run") await runs.withToken(owner, async (token) => void (await token()));
      else runs.revokeFormer([owner]);
    };
    // The first run shows the path of the Secret.
    await runs.withToken(owner, async (token) => void (await token()));
    await runs.waitForRevocations();
    const { path = "" } = api.requests.find(({ method }) => method === "DELETE") ?? {};
    let failures = 2;
    const answer = () => (failures-- > 0 ? status(500, "InternalError") : { json: {} });
    api.on(`POST ${SECRETS}`, ({ body }) => {
      api.on(`DELETE ${path}`, answer);
      return { json: { metadata: { ...(JSON.parse(body) as { metadata: object }).metadata, uid: "new" } } };
    });
    api.on(`DELETE ${path}`, answer);
    api.on(`GET ${SECRETS}`, leftSecrets("web"));
    const before = api.count(`DELETE ${path}`);
    await revoke();
    await passWhile(clock, runs.waitForRevocations());
    expect(api.count(`DELETE ${path}`) - before).toBe(3);
    expect(warnings).toEqual([]);
    failures = 99;
    const begin = clock.monotonic();
    await revoke();
    await passWhile(clock, runs.waitForRevocations());
    expect(clock.monotonic() - begin).toBeLessThan(10_000);
    expect(warnings).toHaveLength(when === "after a run" ? 1 : 0);
  },
);

/** Lets time pass while something waits for it. */
async function passWhile(clock: ManualClock, work: Promise<void>): Promise<void> {
  const over = work.then(() => true);
  while (!(await Promise.race([over, settle().then(() => false)])))
    if (clock.timers > 0) await clock.advance(500);
}
