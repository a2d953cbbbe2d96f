import { expect, test } from "vitest";

import * as kube from "../../../src/kube/index.ts";
import { status } from "../../support/fake-api.ts";
import { fake } from "../fixture.ts";

const AT = { resource: kube.CONFIG_MAPS, namespace: "ops", name: "a" };
const PATH = "/api/v1/namespaces/ops/configmaps";
const MANAGER = { fieldManager: "addon-operator" };

interface Want {
  readonly method: string;
  readonly path?: string;
  readonly query: object;
  readonly type?: string;
  readonly body?: unknown;
}

test.each<[string, (client: kube.KubeClient) => Promise<unknown>, Want]>([
  ["get", (client) => kube.get(client, AT), { method: "GET", query: {} }],
  [
    "create",
    (client) =>
      kube.create(client, { resource: kube.CONFIG_MAPS, namespace: "ops" }, { body: {}, dryRun: true }),
    { method: "POST", path: PATH, query: { ...MANAGER, dryRun: "All" }, type: "application/json" },
  ],
  [
    "replace of a subresource",
    (client) =>
      kube.replace(client, { ...AT, subresource: "status" }, { body: {}, fieldValidation: "Strict" }),
    { method: "PUT", path: `${PATH}/a/status`, query: { ...MANAGER, fieldValidation: "Strict" } },
  ],
  [
    "mergePatch",
    (client) => kube.mergePatch(client, AT, { body: { data: null } }),
    { method: "PATCH", query: MANAGER, type: "application/merge-patch+json", body: { data: null } },
  ],
  [
    "jsonPatch",
    (client) => kube.jsonPatch(client, AT, { body: [] }),
    { method: "PATCH", query: MANAGER, type: "application/json-patch+json", body: [] },
  ],
  [
    "applyPatch",
    (client) => kube.serverSideApply(client, AT, { body: {} }),
    { method: "PATCH", query: { ...MANAGER, force: "false" }, type: "application/apply-patch+yaml" },
  ],
  [
    "applyPatch by force",
    (client) => kube.serverSideApply(client, AT, { body: {}, force: true }),
    { method: "PATCH", query: { ...MANAGER, force: "true" }, type: "application/apply-patch+yaml" },
  ],
])("%s", async (_, call, want) => {
  const { api, client } = await fake();
  api.on(`${want.method} ${want.path ?? `${PATH}/a`}`, { json: { kind: "ConfigMap", metadata: {} } });
  expect(await call(client)).toEqual({ kind: "ConfigMap", metadata: {} });
  const [seen] = api.requests;
  const type = seen?.headers["content-type"];
  const body: unknown = seen?.body ? JSON.parse(seen.body) : undefined;
  expect(seen?.query).toEqual(want.query);
  expect({ method: seen?.method, query: seen?.query, type, body }).toMatchObject(
    Object.fromEntries(Object.entries(want).filter(([name]) => name !== "path")),
  );
});

test.each([
  ["an object that exists", { json: { kind: "Status" } }, true],
  ["a missing object", status(404, "NotFound"), false],
] as const)("remove of %s", async (_, answer, existed) => {
  const { api, client } = await fake();
  api.on(`DELETE ${PATH}/a`, answer);
  const options = { propagationPolicy: "Foreground", preconditions: { uid: "u" } } as const;
  expect(await kube.remove(client, AT, options)).toBe(existed);
  expect(JSON.parse(api.requests[0]?.body ?? "")).toEqual({
    apiVersion: "v1",
    kind: "DeleteOptions",
    ...options,
  });
});

test("a list of metadata is asked for by the Accept header; null items are none", async () => {
  const { api, client } = await fake();
  api.on(`GET ${PATH}`, { json: { items: null, metadata: { resourceVersion: "7" } } });
  const listed = await kube.listMetadata(client, AT, { labelSelector: "x=y" });
  expect(listed).toEqual({ items: [], resourceVersion: "7" });
  expect(api.requests[0]).toMatchObject({ path: PATH, query: { labelSelector: "x=y" } });
  expect(api.requests[0]?.headers.accept).toContain("as=PartialObjectMetadataList");
});
