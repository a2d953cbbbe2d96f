import { expect, test } from "vitest";

import { Discovery } from "../../../src/kube/index.ts";
import { status } from "../../support/fake-api.ts";
import type { Answer } from "../../support/fake-api.ts";
import { fake } from "../fixture.ts";

const VERBS = ["get", "list", "watch"];
const resource = (plural: string, kind: string, more: object = {}): object => ({
  resource: plural,
  responseKind: { kind },
  scope: "Namespaced",
  singularResource: kind.toLowerCase(),
  verbs: VERBS,
  ...more,
});
const version = (name: string, resources: readonly object[], freshness = "Current"): object => ({
  version: name,
  freshness,
  resources,
});
const group = (name: string, ...versions: readonly object[]): object => ({ metadata: { name }, versions });
const list = (...items: readonly object[]): Answer => ({ json: { kind: "APIGroupDiscoveryList", items } });

const POD_SUBS = [{ subresource: "eviction", responseKind: { kind: "Eviction" } }];
const CORE = list(
  group(
    "",
    version("v1", [
      resource("pods", "Pod", { shortNames: ["po"], subresources: POD_SUBS }),
      resource("events", "Event", { shortNames: ["ev"] }),
      resource("namespaces", "Namespace", { scope: "Cluster", shortNames: ["ns"] }),
    ]),
  ),
);
const GROUPS = list(
  group("events.k8s.io", version("v1", [resource("events", "Event")])),
  group(
    "things.io",
    version("v2", [resource("things", "Thing")]),
    version("v1", [resource("things", "Thing")]),
  ),
  group("metrics.k8s.io", version("v1beta1", [resource("pods", "PodMetrics")], "Stale")),
);

test.each<[string, string | undefined, string | undefined]>([
  ["Pod", undefined, "/v1/pods"],
  ["pods", undefined, "/v1/pods"],
  ["POD", "v1", "/v1/pods"],
  ["po", undefined, "/v1/pods"],
  ["event", undefined, "/v1/events"],
  ["Event", "events.k8s.io/v1", "events.k8s.io/v1/events"],
  ["events.events.k8s.io", undefined, "events.k8s.io/v1/events"],
  ["Thing", undefined, "things.io/v2/things"],
  ["Thing", "things.io/v1", "things.io/v1/things"],
  ["Thing", "v1", undefined],
  ["Eviction", undefined, undefined],
  ["podmetrics", undefined, "metrics.k8s.io/v1beta1/pods"],
  ["nothing", undefined, undefined],
])("resolves %s of %s", async (kind, apiVersion, want) => {
  const { api, client, clock } = await fake();
  api.on("GET /api", CORE).on("GET /apis", GROUPS);
  const found = await new Discovery(client, clock).resolve(kind, apiVersion);
  expect(found && `${found.group}/${found.version}/${found.plural}`.replace(/^\/v1/, "/v1")).toBe(want);
});

test("a broken aggregated API keeps the kinds it had", async () => {
  const { api, client, clock } = await fake();
  const broken = list(group("metrics.k8s.io", version("v1beta1", [], "Stale")));
  api.on("GET /api", CORE).on("GET /apis", GROUPS, broken);
  const discovery = new Discovery(client, clock);
  await discovery.resolve("Pod");
  discovery.invalidate();
  expect(await discovery.resolve("PodMetrics")).toBeDefined();
  expect(await discovery.resolve("Thing")).toBeUndefined();
});

const API_SERVICES = "GET /apis/apiregistration.k8s.io/v1/apiservices";
const apiServices = (...names: string[]) => ({
  json: {
    items: names.map((name) => {
      const [apiVersion = "", service] = name.split(" ");
      const [group, version] = apiVersion.split("/");
      return { spec: { group, version, ...(service && { service: { name: service } }) } };
    }),
  },
});

test("an aggregated API that discovery does not list is unknown while its APIService exists", async () => {
  const { api, client, clock } = await fake();
  const services = apiServices("metrics.k8s.io/v1beta1 metrics", "example.org/v1");
  api.on("GET /api", CORE).on("GET /apis", list(), GROUPS, list());
  const forbidden = status(403, "Forbidden");
  api.on(API_SERVICES, services, services, forbidden, apiServices());
  const down = status(503, "ServiceUnavailable");
  api.on("GET /apis/metrics.k8s.io/v1beta1", down).on("GET /apis/example.org/v1", status(404, "NotFound"));
  const discovery = new Discovery(client, clock);
  const metrics = async () => {
    const versions = await discovery.readVersions();
    const found = versions.find(({ group }) => group === "metrics.k8s.io");
    return found && [found.isDown, found.resources?.map(({ kind }) => kind)];
  };
  expect(await metrics()).toEqual([true, undefined]);
  await expect(discovery.resolve("PodMetrics", "metrics.k8s.io/v1beta1")).rejects.toThrow("does not answer");
  expect(await metrics()).toEqual([true, ["PodMetrics"]]);
  expect(await metrics()).toEqual([true, ["PodMetrics"]]);
  expect(await metrics()).toEqual([true, ["PodMetrics"]]);
  expect(await metrics()).toBeUndefined();
});

test("questions share one reading; a missing kind is looked for again, but not at once", async () => {
  const { api, client, clock } = await fake();
  api.on("GET /api", CORE).on("GET /apis", list(), GROUPS);
  const discovery = new Discovery(client, clock);
  await Promise.all([discovery.resolve("Pod"), discovery.resolve("Event"), discovery.resolve("Namespace")]);
  expect(await discovery.resolve("Thing")).toBeUndefined();
  expect(api.count("GET /apis")).toBe(1);
  await clock.advance(2000);
  const both = await Promise.all([discovery.resolve("Thing"), discovery.resolve("Thing")]);
  expect(both.map((found) => found?.version)).toEqual(["v2", "v2"]);
  expect(api.count("GET /apis")).toBe(2);
});

test("a failed reading is tried again by the next question", async () => {
  const { api, client, clock } = await fake();
  api.on("GET /api", status(500, "InternalError"), CORE).on("GET /apis", GROUPS);
  const discovery = new Discovery(client, clock);
  await expect(discovery.resolve("Pod")).rejects.toMatchObject({ status: 500 });
  await expect(discovery.resolve("Pod")).resolves.toBeDefined();
});

test("a server that does not know aggregated discovery is reported to be too old", async () => {
  const { api, client, clock } = await fake();
  api.on("GET /api", { json: { kind: "APIVersions", versions: ["v1"] } }).on("GET /apis", GROUPS);
  await expect(new Discovery(client, clock).resolve("Pod")).rejects.toThrow(
    /Kubernetes 1.30 or later is needed/,
  );
});
