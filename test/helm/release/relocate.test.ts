import { expect, test } from "vitest";

import { ensureNamespace, ensureLocation } from "../../../src/helm/release/relocate.ts";
import type { ReleaseLocation } from "../../../src/helm/release/release-locations.ts";
import type { Reconciler } from "../../../src/helm/types.ts";
import { silentLogger } from "../../../src/base/index.ts";
import { fake } from "../../kube/fixture.ts";
import { status } from "../../support/fake-api.ts";

const NAMESPACE = "/api/v1/namespaces/team-a";
const { signal } = new AbortController();

async function lab({
  at,
  records = [],
  isOurs = true,
}: {
  at?: ReleaseLocation;
  records?: string[];
  isOurs?: boolean;
}) {
  const { api, client } = await fake();
  api.on(`GET ${NAMESPACE}`, { json: { metadata: { name: "team-a" } } });
  const steps: string[] = [];
  let location = at;
  const store = {
    waitUntilListed: () => Promise.resolve(),
    getLocation: () => location,
    revisionsIn: (namespace: string) =>
      records.includes(namespace) ? [{ namespace, name: "web", revision: 1, status: "uninstalled" }] : [],
    refreshIn: () => Promise.resolve(),
    readManifests: () => Promise.resolve([]),
    deleteRecords: (_: string, __: unknown, namespace: string) =>
      Promise.resolve(void steps.push(`forget ${namespace}`)),
    setLocation: (_: string, next: ReleaseLocation | undefined) => {
      const { namespace = "", from, account = "" } = next ?? {};
      steps.push(from === undefined ? `at ${namespace} ${account}`.trim() : `from ${from} to ${namespace}`);
      location = next;
      return Promise.resolve();
    },
  };
  const operator = { client, namespace: "ops", namespaceLabels: { tier: "addons" } };
  const tools = { store, operator, isOurs: () => isOurs, logger: silentLogger, discovery: {} };
  const run = (namespace: string, account?: string): Promise<void> =>
    ensureLocation({ ...tools, namespace } as unknown as Reconciler, { release: "web", account, signal });
  return { api, run, steps, operator };
}

test("a release that is not installed is placed without a move, with its account", async () => {
  const { run, steps } = await lab({});
  await run("team-a", "team-a/deployer");
  expect(steps).toEqual(["at team-a team-a/deployer"]);
});

test("a release of somebody else in the operator's namespace is not moved", async () => {
  const { run, steps } = await lab({ records: ["ops"], isOurs: false });
  await run("team-a");
  expect(steps).toEqual(["at team-a"]);
});

test("a release is not moved to where there is one of its name", async () => {
  const { run, steps } = await lab({ records: ["ops", "team-a"] });
  await expect(run("team-a")).rejects.toThrow("cannot be moved from namespace ops to team-a");
  expect(steps).toEqual([]);
});

test("a module that is read again elsewhere during a move goes where it is wanted, by way of where it was wanted", async () => {
  const at = { namespace: "team-b", from: "ops" };
  const { run, steps } = await lab({ at });
  await run("team-a");
  expect(steps).toEqual(["from ops to team-b", "forget ops", "at team-b", "at team-a"]);
});

test("a move that was begun turns around", async () => {
  const { api, run, steps } = await lab({ at: { namespace: "team-a", from: "ops" }, records: ["ops"] });
  api.on("GET /api/v1/namespaces/ops", { json: { metadata: { name: "ops" } } });
  await run("ops");
  expect(steps).toEqual(["from team-a to ops", "forget team-a", "at"]);
});

test("a missing namespace is created with labels, one that is there is not touched", async () => {
  const { api, operator } = await lab({});
  await ensureNamespace({ operator }, "team-a", signal);
  expect(api.requests.map(({ method }) => method)).toEqual(["GET"]);
  api.on("POST /api/v1/namespaces", { json: {} });
  await ensureNamespace({ operator }, "team-b", signal);
  expect(JSON.parse(api.requests.at(-1)?.body ?? "")).toMatchObject({
    kind: "Namespace",
    metadata: {
      name: "team-b",
      labels: { tier: "addons", "app.kubernetes.io/managed-by": "addon-operator" },
    },
  });
});

test("a namespace that is being deleted, or may not be created, is an error that says so", async () => {
  const { api, operator } = await lab({});
  const metadata = { name: "leaving", deletionTimestamp: "2026-01-01T00:00:00Z" };
  api.on("GET /api/v1/namespaces/leaving", { json: { metadata } });
  await expect(ensureNamespace({ operator }, "leaving", signal)).rejects.toThrow("leaving is being deleted");
  api.on("POST /api/v1/namespaces", status(403, "Forbidden"));
  await expect(ensureNamespace({ operator }, "team-b", signal)).rejects.toThrow(
    "team-b does not exist and cannot be created: ",
  );
});
