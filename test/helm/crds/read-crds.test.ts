import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { beforeEach, expect, onTestFinished, test } from "vitest";

import { ensureCrds } from "../../../src/helm/index.ts";
import { connect } from "../../../src/kube/index.ts";
import { silentLogger } from "../../../src/base/index.ts";
import { ManualClock, settle } from "../../support/clock.ts";
import { FakeApi, status } from "../../support/fake-api.ts";

// docs/reference/modules.md, "CRDs that change": objects that cannot be read.

const CRD = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/things.example.org";
const THINGS = "/apis/example.org/v1/things";

const definition = (size: object): object => ({
  apiVersion: "apiextensions.k8s.io/v1",
  kind: "CustomResourceDefinition",
  metadata: { name: "things.example.org" },
  spec: {
    group: "example.org",
    names: { plural: "things", kind: "Thing" },
    scope: "Cluster",
    versions: [
      {
        name: "v1",
        served: true,
        storage: true,
        schema: { openAPIV3Schema: { type: "object", properties: { size } } },
      },
    ],
  },
  status: { storedVersions: ["v1"], conditions: [{ type: "Established", status: "True" }] },
});

let api: FakeApi;
let clock: ManualClock;
let ensure: () => Promise<string[]>;
beforeEach(async () => {
  api = await FakeApi.start();
  clock = new ManualClock(0);
  const dir = mkdtempSync(join(tmpdir(), "crds-"));
  const file = join(dir, "crd.yaml");
  writeFileSync(file, JSON.stringify(definition({ type: "string", maxLength: 2 })));
  const client = connect({ kubeConfig: api.kubeconfig(), userAgent: "test", logger: silentLogger });
  ensure = () => ensureCrds([file], { client, clock });
  onTestFinished(async () => {
    await client.close();
    await api.close();
    rmSync(dir, { recursive: true });
  });
  api.on(`GET ${CRD}`, { json: definition({ type: "string" }) });
  api.on(`PATCH ${CRD}`, { json: definition({ type: "string", maxLength: 2 }) });
});

const thing = (name: string): object => ({ metadata: { name }, size: "large" });

test("objects are read page by page, and a few of those that are hit are named", async () => {
  const page = (from: number): object[] =>
    Array.from({ length: 500 }, (_, index) => thing(`t${from + index}`));
  api.on(`GET ${THINGS}`, ({ query }) =>
    query["continue"] === undefined
      ? { json: { metadata: { continue: "more" }, items: page(0) } }
      : { json: { metadata: {}, items: page(500) } },
  );
  await expect(ensure()).rejects.toThrow(
    /Thing t0 \(\/size must .*\), t1 .*, t4 \([^)]*\) and 995 more \(fix/,
  );
  expect(api.requests.filter(({ path }) => path === THINGS).map(({ query }) => query["limit"])).toEqual([
    "500",
    "500",
  ]);
});

test("what takes longer than 30 s counts as broken", async () => {
  api.on(`GET ${THINGS}`, { hang: true });
  const ensured = ensure().catch((error: unknown) => String(error));
  const reported = "stricter schema in version v1: its objects cannot be read (not all in 30 s)";
  while (api.count(`GET ${THINGS}`) === 0) await settle();
  await clock.advance(30_000);
  expect(await ensured).toContain(reported);
});

/** Lets time pass while the operator waits before the next read. */
async function ended<T>(work: Promise<T>): Promise<T> {
  const over = work.then(
    () => true,
    () => true,
  );
  while (!(await Promise.race([over, settle().then(() => false)])))
    if (clock.timers > 1) await clock.advance(1000);
  return work;
}

test.each([409, 410, 422, 500, 503])("a read that fails once with %s is repeated", async (code) => {
  let reads = 0;
  api.on(`GET ${THINGS}`, () =>
    ++reads === 1 ? status(code, "Any") : { json: { metadata: {}, items: [] } },
  );
  expect(await ended(ensure())).toEqual(["things.example.org"]);
});

test("what the server cannot convert counts as broken, what may not be read does not", async () => {
  api.on(`GET ${THINGS}`, status(500, "conversion webhook failed"));
  await expect(ended(ensure())).rejects.toThrow("its objects cannot be read (");
  expect(api.count(`PATCH ${CRD}`)).toBe(0);
  api.on(`GET ${THINGS}`, status(403, "Forbidden"));
  expect(await ensure()).toEqual(["things.example.org"]);
});
