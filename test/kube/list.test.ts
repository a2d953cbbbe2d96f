import { expect, test } from "vitest";

import { CONFIG_MAPS, listPages } from "../../src/kube/index.ts";
import type { KubeClient, ListSpec } from "../../src/kube/index.ts";
import type { Answer } from "../support/fake-api.ts";
import { status } from "../support/fake-api.ts";
import { fake } from "./fixture.ts";

const ROUTE = "GET /api/v1/namespaces/ops/configmaps";
const SPEC: ListSpec = { resource: CONFIG_MAPS, namespace: "ops" };
const page = (items: readonly string[], more = ""): Answer => ({
  json: {
    items: items.map((name) => ({ metadata: { name } })),
    metadata: { resourceVersion: "7", continue: more },
  },
});

async function pages(client: KubeClient, spec = SPEC): Promise<unknown[]> {
  const seen: unknown[] = [];
  for await (const { items, restart, last } of listPages<{ metadata: { name: string } }>(client, spec)) {
    seen.push([items.map(({ metadata }) => metadata.name).join(), restart, last]);
  }
  return seen;
}

test("follows the continue token, and asks for a version only with the first page", async () => {
  const { api, client } = await fake();
  api.on(ROUTE, page(["a", "b"], "next"), page(["c"]));
  const seen = await pages(client, { ...SPEC, labelSelector: "x=y", resourceVersion: "0" });
  expect(seen).toEqual([
    ["a,b", false, false],
    ["c", false, true],
  ]);
  expect(api.requests.map(({ query }) => query)).toEqual([
    { limit: "500", labelSelector: "x=y", resourceVersion: "0" },
    { limit: "500", labelSelector: "x=y", continue: "next" },
  ]);
});

test("a list the server forgot starts over and says so", async () => {
  const { api, client } = await fake();
  api.on(ROUTE, page(["a"], "next"), status(410, "Expired"), page(["a"], "next"), page(["b"]));
  expect(await pages(client)).toEqual([
    ["a", false, false],
    ["a", true, false],
    ["b", false, true],
  ]);
});

test("forgotten again and again, and 410 on the first page, are errors", async () => {
  const { api, client } = await fake();
  api.on(ROUTE, ({ query }) => (query["continue"] ? status(410, "Expired") : page(["a"], "next")));
  await expect(pages(client)).rejects.toMatchObject({ status: 410 });
  api.on(ROUTE, status(410, "Expired"));
  await expect(pages(client)).rejects.toMatchObject({ status: 410 });
});

test("pages of large objects get shorter", async () => {
  const { api, client } = await fake();
  api.on(ROUTE, page(["x".repeat(8_000_000)], "next"), page(["a"]));
  await pages(client);
  expect(Number(api.requests[1]?.query["limit"])).toBeLessThan(260);
});

test("metadata only is asked for by the Accept header; null items are none", async () => {
  const { api, client } = await fake();
  api.on(ROUTE, { json: { items: null, metadata: {} } });
  expect(await pages(client, { ...SPEC, metadataOnly: true })).toEqual([["", false, true]]);
  expect(api.requests[0]?.headers.accept).toContain("as=PartialObjectMetadataList");
});
