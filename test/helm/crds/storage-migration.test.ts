import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { beforeEach, expect, onTestFinished, test } from "vitest";

import { ensureCrds } from "../../../src/helm/index.ts";
import { connect } from "../../../src/kube/index.ts";
import { silentLogger } from "../../../src/base/index.ts";
import { ManualClock } from "../../support/clock.ts";
import { FakeApi } from "../../support/fake-api.ts";
import { until } from "../../support/until.ts";

// docs/reference/modules.md, "CRDs that change": objects that are migrated.

const CRD = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/things.example.org";
const THINGS = "/apis/example.org/v2/things";
const MIGRATIONS = "/apis/storagemigration.k8s.io/v1beta1/storageversionmigrations";
const MIGRATION = `${MIGRATIONS}/things.example.org-3`;

const definition = (versions: readonly string[], stored: string): object => ({
  apiVersion: "apiextensions.k8s.io/v1",
  kind: "CustomResourceDefinition",
  metadata: { name: "things.example.org", generation: stored === "v1" ? 2 : 3 },
  spec: {
    group: "example.org",
    names: { plural: "things", kind: "Thing" },
    scope: "Cluster",
    versions: versions.map((name) => ({ name, served: true, storage: name === stored })),
  },
  status: { storedVersions: ["v1"], conditions: [{ type: "Established", status: "True" }] },
});

let api: FakeApi;
let clock: ManualClock;
let reported: string[];
let ensure: (confirmed?: string) => Promise<string[]>;
beforeEach(async () => {
  api = await FakeApi.start();
  clock = new ManualClock(0);
  reported = [];
  const dir = mkdtempSync(join(tmpdir(), "crds-"));
  const file = join(dir, "crd.yaml");
  writeFileSync(file, JSON.stringify(definition(["v2"], "v2")));
  const client = connect({ kubeConfig: api.kubeconfig(), userAgent: "test", logger: silentLogger });
  ensure = (confirmed) =>
    ensureCrds([file], { client, clock, confirmed, onProgress: (text) => reported.push(text) });
  onTestFinished(async () => {
    await client.close();
    await api.close();
    rmSync(dir, { recursive: true });
  });
  api.on(`GET ${CRD}`, { json: definition(["v1", "v2"], "v1") });
  api.on(`PATCH ${CRD}`, { json: definition(["v1", "v2"], "v2") });
  const items = [{ metadata: { name: "one" } }];
  for (const version of ["v1", "v2"])
    api.on(`GET ${THINGS.replace("v2", version)}`, { json: { metadata: {}, items } });
});

/** The API server has these versions of StorageVersionMigration, and no migration yet. */
function serve(...versions: readonly string[]): void {
  const json = { kind: "APIGroup", versions: versions.map((version) => ({ version })) };
  api.on("GET /apis/storagemigration.k8s.io", { json });
  api.on(`GET ${MIGRATION}`, { status: 404, json: { kind: "Status", code: 404, reason: "NotFound" } });
  api.on(`POST ${MIGRATIONS}`, { status: 201, json: {} });
  api.on(`DELETE ${MIGRATION}`, { json: {} });
}

/** The migration has come to this. */
function reach(type: string, message = ""): void {
  api.on(`GET ${MIGRATION}`, {
    json: { metadata: {}, status: { conditions: [{ type, status: "True", message }] } },
  });
}

/** Begins the change, confirmed; resolves when the migration was created. */
async function begin(): Promise<Promise<string[]>[]> {
  const refusal = await ensure().catch(String);
  const ensured = ensure(/confirm-crds=([0-9a-f]+)/.exec(String(refusal))?.[1]);
  ensured.catch(() => {});
  await until(() => api.count(`PATCH ${CRD}`) === 2 && clock.timers > 0);
  const body = api.requests.filter(({ method }) => method === "PATCH")[1]?.body ?? "";
  expect(JSON.parse(body)).toMatchObject({ spec: { versions: [{ storage: false }, { storage: true }] } });
  await clock.advance(4999);
  expect(api.count(`GET ${MIGRATION}`)).toBe(0);
  await clock.advance(1);
  await until(() => api.count(`POST ${MIGRATIONS}`) === 1 && clock.timers > 0);
  return [ensured];
}

test("objects go into the new version by a migration of the cluster, once all API servers know how", async () => {
  serve("v1beta1", "v1alpha1");
  const [ensured] = await begin();
  const created = JSON.parse(api.requests.find(({ method }) => method === "POST")?.body ?? "") as object;
  expect(created).toEqual({
    apiVersion: "storagemigration.k8s.io/v1beta1",
    kind: "StorageVersionMigration",
    metadata: { name: "things.example.org-3" },
    spec: { resource: { group: "example.org", resource: "things" } },
  });
  const wait =
    "Waits for StorageVersionMigration things.example.org-3: objects of things.example.org go into version v2";
  expect(reported).toEqual([wait]);
  reach("Running");
  await clock.advance(1000);
  await until(() => clock.timers > 0);
  expect(api.count(`DELETE ${MIGRATION}`)).toBe(0);
  reach("Succeeded");
  api.on(`PATCH ${CRD}`, { json: definition(["v2"], "v2") });
  await clock.advance(1000);
  expect(await ensured).toEqual(["things.example.org"]);
  expect(api.count(`DELETE ${MIGRATION}`)).toBe(1);
  // Nothing but the definition and the migration is written.
  const written = api.requests.filter(({ method }) => method !== "GET").map(({ path }) => path.split("?")[0]);
  expect(new Set(written)).toEqual(new Set([CRD, MIGRATIONS, MIGRATION]));
});

test("a migration that fails is removed, and its message is the error", async () => {
  serve("v1beta1");
  const [ensured] = await begin();
  reach("Failed", "conversion webhook is down");
  await clock.advance(1000);
  await expect(ensured).rejects.toThrow("things.example.org-3 has failed: conversion webhook is down");
  expect(api.count(`DELETE ${MIGRATION}`)).toBe(1);
});

test("a migration that nobody does is an error after ten minutes", async () => {
  serve("v1beta1");
  const [ensured] = await begin();
  reach("Running");
  await clock.advance(601_000);
  await expect(ensured).rejects.toThrow("does kube-controller-manager run with --feature-gates=");
});

test.each([[["v1alpha1"]], [[]]])(
  "a cluster that serves %j: the change is refused with the commands",
  async (versions) => {
    if (versions.length > 0) serve(...versions);
    const refusal = String(await ensure().catch(String));
    expect(refusal).toContain(
      "things.example.org drops version v1, in which objects are stored: Thing one; this cluster does not serve StorageVersionMigration, which brings objects into version v2",
    );
    expect(refusal).not.toContain("confirm-crds");
    expect(refusal).toContain(
      `kubectl patch crd things.example.org --type=json -p '[{"op":"replace","path":"/spec/versions/0/storage","value":false},{"op":"replace","path":"/spec/versions/1/storage","value":true}]' && sleep 5 && kubectl get things.v2.example.org -o json | kubectl replace -f - && kubectl patch crd things.example.org --subresource=status --type=merge -p '{"status":{"storedVersions":["v2"]}}'`,
    );
    expect(api.requests.filter(({ method }) => method !== "GET")).toEqual([]);
  },
);
