import { expect, test } from "vitest";

import { parseDocuments, namespacedKey, listObjectRefs } from "../../../src/helm/manifest/manifest.ts";
import type { ReleaseMeta } from "../../../src/helm/release/revisions.ts";
import type { Reconciler } from "../../../src/helm/types.ts";
import { retainBeforeRemoval, retainBeforeUpgrade } from "../../../src/helm/objects/retain.ts";
import { systemClock } from "../../../src/base/index.ts";
import { CONFIG_MAPS } from "../../../src/kube/index.ts";
import { keepLog, type LoggedLine } from "../../support/logged.ts";
import { fake } from "../../kube/fixture.ts";

// docs/guides/running.md, "Objects that stay after a removal".

const MANIFEST = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: shared, namespace: platform}\n";
const PATH = "/api/v1/namespaces/platform/configmaps/shared";
const USER = "system:serviceaccount:team:deployer";

test.each([
  { may: true, account: USER, stays: true },
  { may: false, account: USER, stays: false },
  { may: false, account: undefined, stays: true },
])(
  "an object that another module's chart has stays only if its account may change it: %j",
  async ({ may, account, stays }) => {
    const { api, client } = await fake();
    const logged: LoggedLine[] = [];
    const review = "POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    api.on(review, { json: { status: { allowed: may } } });
    for (const method of ["GET", "PATCH"])
      api.on(`${method} ${PATH}`, { json: { metadata: { name: "shared", uid: "u" } } });
    const objects = listObjectRefs(parseDocuments(MANIFEST));
    const meta = { name: "old", revision: 1, status: "deployed", labels: {} } as unknown as ReleaseMeta;
    const manifests: string[] = [];
    const tools = {
      client,
      namespace: "ops",
      discovery: { resolve: () => Promise.resolve(CONFIG_MAPS) },
      logger: keepLog(logged),
      store: {
        revisions: () => [meta],
        readSummary: () => Promise.resolve({ objects }),
        mapManifests: (_: ReleaseMeta, change: (manifest: string, isHook: boolean) => string) =>
          Promise.resolve(void manifests.push(change(MANIFEST, false))),
      },
      findPendingOwners: () =>
        Promise.resolve(new Map(objects.map((each) => [namespacedKey("ops", each), "new"]))),
      getIdentity: () => ({
        client: account === undefined ? client : client.impersonate(account),
        hasServiceAccount: account !== undefined,
      }),
    } as unknown as Reconciler;

    await retainBeforeUpgrade(tools, "old", { rendered: [], signal: new AbortController().signal });
    const writes = api.requests.filter(({ method }) => method === "PATCH");
    expect(writes.map(({ headers }) => headers["impersonate-user"])).toEqual(stays ? [account] : []);
    expect(manifests.map((text) => text.includes("shared"))).toEqual(stays ? [false] : []);
    expect(JSON.stringify(logged).includes("its account may not change")).toBe(!stays);
  },
);

test("a removal checks afterwards what helm was to delete: not what the chart tells it to keep", async () => {
  const { client } = await fake();
  const named = (name: string, keep = ""): object => ({
    apiVersion: "v1",
    kind: "ConfigMap",
    metadata: { name, annotations: { "helm.sh/resource-policy": keep } },
  });
  const list = (keep: string, ...items: readonly object[]): object => ({
    apiVersion: "v1",
    kind: "List",
    metadata: { annotations: { "helm.sh/resource-policy": keep } },
    items,
  });
  const documents = [
    named("one"),
    named("kept", " Keep "),
    list("", named("two"), named("kept-in-list", "keep")),
    list("keep", named("in-kept-list")),
  ];
  const manifest = documents.map((each) => JSON.stringify(each)).join("\n---\n");
  const meta = { name: "old", revision: 1, status: "deployed", labels: {} } as unknown as ReleaseMeta;
  const tools = {
    client,
    clock: systemClock,
    namespace: "ops",
    discovery: {
      resolve: () => Promise.resolve({ ...CONFIG_MAPS, verbs: ["get"] }),
      invalidate: () => {},
    },
    store: {
      refresh: () => Promise.resolve(meta),
      newestRevisions: () => [],
      get: () => meta,
      revisions: () => [meta],
      readSummary: () => Promise.resolve({ objects: listObjectRefs(parseDocuments(manifest)), hooks: [] }),
      readManifests: () => Promise.resolve([manifest]),
    },
    findPendingOwners: () => Promise.resolve(new Map()),
  } as unknown as Reconciler;
  const checked = await retainBeforeRemoval(tools, { name: "old", helm: undefined });
  expect(checked.map(({ name }) => name)).toEqual(["one", "two"]);
});
