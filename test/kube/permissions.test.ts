import { readFileSync, writeFileSync } from "node:fs";
import { expect, onTestFinished, test } from "vitest";

import {
  describePermission,
  checkConnection,
  connect,
  findMissingPermissions,
  createPermissionCheck,
  listWebhookPermissions,
} from "../../src/kube/index.ts";
import { silentLogger, systemClock } from "../../src/base/index.ts";
import type { Permission } from "../../src/kube/index.ts";
import { FakeApi, status } from "../support/fake-api.ts";
import { fake } from "./fixture.ts";

const REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";

test("names the rights that are missing, in order", async () => {
  const { api, client } = await fake();
  api.on(`POST ${REVIEWS}`, ({ body }) => {
    const { spec } = JSON.parse(body) as { spec: { resourceAttributes: Permission } };
    return { status: 201, json: { status: { allowed: spec.resourceAttributes.verb === "get" } } };
  });
  const right = (verb: string): Permission => ({ verb, group: "", resource: "pods", namespace: "ops" });
  const missing = await findMissingPermissions(client, ["get", "list", "get", "watch"].map(right));
  expect(missing.map(({ verb }) => verb)).toEqual(["list", "watch"]);
});

test.each([true, false])(
  "rights to register webhooks are checked with the own ones; Service: %s",
  async (service) => {
    const { api, client } = await fake();
    api.on(`POST ${REVIEWS}`, ({ body }) => {
      const { group, resource } = (JSON.parse(body) as { spec: { resourceAttributes: Permission } }).spec
        .resourceAttributes;
      const allowed = group !== "admissionregistration.k8s.io" && resource !== "services";
      return { status: 201, json: { status: { allowed } } };
    });
    const found: string[] = [];
    const base = {
      client,
      clock: { ...systemClock, setTimer: () => ({ cancel() {} }) },
      logger: silentLogger,
    };
    const further = () => listWebhookPermissions("ops", { service, crds: [] });
    const check = createPermissionCheck({
      ...base,
      namespace: "ops",
      overlay: undefined,
      getFurtherPermissions: further,
      settings: { sources: false },
      report: { permissionsChecked: (missing) => void found.push(...missing) },
    });
    await check();
    expect(found).toEqual([
      ...(service ? ["get services in namespace ops"] : []),
      ...["validating", "mutating"].flatMap((type) =>
        ["get", "list", "watch", "create", "update", "delete"].map(
          (verb) => `${verb} ${type}webhookconfigurations.admissionregistration.k8s.io in all namespaces`,
        ),
      ),
    ]);
  },
);

test("rights that are needed later are checked then, and each minute only once", async () => {
  const { api, client } = await fake();
  api.on(`POST ${REVIEWS}`, ({ body }) => {
    const { resource } = (JSON.parse(body) as { spec: { resourceAttributes: Permission } }).spec
      .resourceAttributes;
    return {
      status: 201,
      json: { status: { allowed: resource !== "customresourcedefinitions" } },
    };
  });
  let timers = 0;
  const setTimer = () => {
    timers += 1;
    return { cancel: () => (timers -= 1) };
  };
  const crds: string[] = [];
  const found: (readonly string[])[] = [];
  const check = createPermissionCheck({
    client,
    clock: { ...systemClock, setTimer },
    logger: silentLogger,
    namespace: "ops",
    overlay: undefined,
    getFurtherPermissions: () => listWebhookPermissions("ops", { service: false, crds }),
    settings: { sources: false },
    report: { permissionsChecked: (missing) => void found.push(missing) },
  });
  await check();
  expect([found, timers]).toEqual([[[]], 0]);
  crds.push("crontabs.example.com");
  await Promise.all([check(), check()]);
  const verbs = ["get", "list", "watch", "update"];
  const what = "customresourcedefinitions.apiextensions.k8s.io crontabs.example.com in all namespaces";
  expect([found.slice(1), timers]).toEqual([[verbs.map((verb) => `${verb} ${what}`)], 1]);
});

test.each<[Permission, string]>([
  [{ verb: "get", group: "", resource: "pods", namespace: "ops" }, "get pods in namespace ops"],
  [
    {
      verb: "update",
      group: "apps",
      resource: "deployments",
      subresource: "scale",
      namespace: "ops",
    },
    "update deployments.apps/scale in namespace ops",
  ],
])("in words %#", (right, want) => {
  expect(describePermission(right)).toBe(want);
});

test("first contact: an unreachable server and refused credentials are problems with a remedy", async () => {
  const { api, client } = await fake();
  api.on("GET /version", { json: { gitVersion: "v1.36.0" } }, status(401, "Unauthorized"));
  await checkConnection(client);
  const key = `server ${api.url}`;
  const problem = { key, message: "the server does not accept the credentials" };
  await expect(checkConnection(client)).rejects.toMatchObject({ name: "ProblemError", problems: [problem] });
  await api.close();
  const error: unknown = await checkConnection(client).catch((failure: unknown) => failure);
  expect(error).toMatchObject({
    problems: [{ key, remedy: expect.stringContaining("HTTPS_PROXY does not apply") as string }],
  });
});

test("first contact: a proxy that cannot be reached, or that refuses, is named without its password", async () => {
  const proxy = await FakeApi.start();
  const { url } = proxy;
  const address = url.replace("http://", "http://me:hunter2@");
  const { api } = await fake();
  const file = api.kubeconfig();
  const config = JSON.parse(readFileSync(file, "utf8")) as { clusters: { cluster: object }[] };
  Object.assign(config.clusters[0]?.cluster ?? {}, { server: "https://127.0.0.1:1", "proxy-url": address });
  writeFileSync(file, JSON.stringify(config));
  const client = connect({ kubeConfig: file, userAgent: "test", logger: silentLogger });
  onTestFinished(() => client.close());
  const failure = async (): Promise<string> =>
    String(await checkConnection(client).catch((error: unknown) => error));
  const refused = await failure();
  expect(refused).toContain(`cannot be reached through the proxy ${url} (proxy-url): `);
  expect(refused).not.toContain("hunter2");
  await proxy.close();
  expect(await failure()).toContain("check that the proxy runs and may connect to the API server");
  const later = await client.json({ path: "/version" }).catch(String);
  expect(later).toContain(`/version through the proxy ${url}: `);
});
