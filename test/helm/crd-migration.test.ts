import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { beforeEach, expect, onTestFinished, test } from "vitest";

import { ensureCrds } from "../../src/helm/index.ts";
import { connect } from "../../src/kube/index.ts";
import { silentLogger } from "../../src/lib/index.ts";
import { ManualClock, settle } from "../support/clock.ts";
import { FakeApi } from "../support/fake-api.ts";

// docs/MODULES.md, "CRDs that change": objects that are written anew.

const CRD = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/things.example.org";
const THINGS = "/apis/example.org/v2/things";
const OBJECTS = 1200;

const definition = (versions: readonly string[], stored: string): object => ({
  apiVersion: "apiextensions.k8s.io/v1",
  kind: "CustomResourceDefinition",
  metadata: { name: "things.example.org" },
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
let told: string[];
/** Writes of objects that are not answered. */
let open: (() => void)[];
let ensure: (confirmed?: string) => Promise<string[]>;
beforeEach(async () => {
  api = await FakeApi.start();
  clock = new ManualClock(0);
  told = [];
  open = [];
  const dir = mkdtempSync(join(tmpdir(), "crds-"));
  const file = join(dir, "crd.yaml");
  writeFileSync(file, JSON.stringify(definition(["v2"], "v2")));
  const client = connect({ kubeConfig: api.kubeconfig(), userAgent: "test", logger: silentLogger });
  ensure = (confirmed) => ensureCrds([file], { client, clock, confirmed, tell: (text) => told.push(text) });
  onTestFinished(async () => {
    await client.close();
    await api.close();
    rmSync(dir, { recursive: true });
  });
  const items = Array.from({ length: OBJECTS }, (_, index) => ({ metadata: { name: `t${index}` } }));
  api.on(`GET ${CRD}`, { json: definition(["v1", "v2"], "v1") });
  for (const path of [CRD, `${CRD}/status`]) api.on(`PATCH ${path}`, { json: definition(["v2"], "v2") });
  for (const version of ["v1", "v2"])
    api.on(`GET ${THINGS.replace("v2", version)}`, { json: { metadata: {}, items } });
  for (const { metadata } of items)
    api.on(`PATCH ${THINGS}/${metadata.name}`, async () => {
      await new Promise<void>((answer) => {
        open.push(answer);
      });
      return { json: { metadata } };
    });
});

const until = async (holds: () => boolean): Promise<void> => {
  while (!holds()) await settle();
};
const writes = (): number => api.requests.filter(({ path }) => path.startsWith(`${THINGS}/`)).length;

test("objects are written anew some at a time, once all API servers know how, and it is told how far that is", async () => {
  const refusal = await ensure().catch(String);
  const ensured = ensure(/confirm-crds=([0-9a-f]+)/.exec(String(refusal))?.[1]);
  await until(() => api.count(`PATCH ${CRD}`) === 2 && clock.timers > 0);
  const body = api.requests.filter(({ method }) => method === "PATCH")[1]?.body ?? "";
  expect(JSON.parse(body)).toMatchObject({ spec: { versions: [{ storage: false }, { storage: true }] } });
  await clock.advance(4999);
  expect(api.count(`GET ${THINGS}`)).toBe(0);
  await clock.advance(1);
  await until(() => open.length === 12);
  expect(writes()).toBe(12);
  expect(told).toEqual(["Rewrites 0 of 1,200 objects of things.example.org in v2"]);

  for (let done = 0; done < OBJECTS; done++) {
    await until(() => open.length > 0);
    if (done === 400) await clock.advance(3000);
    open.shift()?.();
  }
  expect(await ensured).toEqual(["things.example.org"]);
  expect(writes()).toBe(OBJECTS);
  expect(told.slice(1)).toEqual([
    expect.stringMatching(/^Rewrites (39\d|40\d) of 1,200 objects of things\.example\.org in v2$/),
  ]);
  expect(api.count(`PATCH ${CRD}/status`)).toBe(1);
});
