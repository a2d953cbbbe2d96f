import { expect, onTestFinished, test } from "vitest";

import { silentLogger } from "../../../src/base/index.ts";
import type { WatchConsumer, WatchedObject, WatchSpec } from "../../../src/kube/index.ts";
import { Registrar } from "../../../src/webhooks/registration/registrar.ts";
import { fake } from "../../kube/fixture.ts";

// What is registered is tested with a real API server; this is about answers that it does not give.

const NAME = "things.example.com";
const PATH = `/apis/apiextensions.k8s.io/v1/customresourcedefinitions/${NAME}`;

/** A registrar, one CRD, and its watch, which the test feeds. */
async function lab() {
  const { api, client, clock } = await fake();
  const old = { metadata: { name: NAME }, spec: {}, status: { storedVersions: ["v1"] } };
  const server = { crd: old as unknown as WatchedObject, isBehind: false };
  api.on(`GET ${PATH}`, () => ({ json: server.isBehind ? old : server.crd }));
  api.on(`PUT ${PATH}`, ({ body }) => {
    server.crd = JSON.parse(body) as WatchedObject;
    return { json: server.crd };
  });
  const watches = new Map<string, WatchConsumer>();
  const subscribe = ({ fieldSelector = "" }: WatchSpec, consumer: WatchConsumer) => {
    watches.set(fieldSelector, consumer);
    return { whenSynced: Promise.resolve(), close: () => watches.delete(fieldSelector) };
  };
  const registrar = new Registrar({
    client,
    clock,
    logger: silentLogger,
    namespace: "ops",
    name: "own",
    target: { url: "https://hooks" },
    readOwnUser: () => Promise.resolve(undefined),
    hub: { subscribe } as never,
    report: { webhookIssuesChanged: () => {} },
  });
  onTestFinished(() => registrar.close());
  registrar.registerWithCa("ca");
  const watch = () => watches.get(`metadata.name=${NAME}`);
  const conversion = (): unknown => (server.crd["spec"] as { conversion?: unknown }).conversion;
  return { clock, registrar, server, watch, conversion };
}

test("a conversion is withdrawn although an answer shows the CRD as it was before the conversion", async () => {
  const { clock, registrar, server, watch, conversion } = await lab();
  registrar.set("hook", { group: "hooks", conversions: [{ crdName: NAME, path: "/convert" }] });
  await registrar.flush();
  expect(conversion()).toMatchObject({ strategy: "Webhook" });
  void watch()?.onApplied(server.crd);
  await registrar.flush();
  registrar.remove("hook");
  server.isBehind = true;
  await registrar.flush();
  expect(conversion()).toMatchObject({ strategy: "Webhook" });
  server.isBehind = false;
  await clock.advance(10_000);
  await expect.poll(conversion).toEqual({ strategy: "None" });
  void watch()?.onApplied(server.crd);
  await registrar.flush();
  await registrar.flush();
  expect(watch()).toBeUndefined();
});

test("an annotation is removed that is left without a conversion webhook", async () => {
  const { registrar, server, watch, conversion } = await lab();
  registrar.set("hook", { group: "hooks", conversions: [{ crdName: NAME, path: "/convert" }] });
  await registrar.flush();
  server.crd = { ...server.crd, spec: { conversion: { strategy: "None" } } };
  void watch()?.onApplied(server.crd);
  registrar.remove("hook");
  await registrar.flush();
  expect(server.crd.metadata["annotations"]).toEqual({});
  void watch()?.onApplied(server.crd);
  await registrar.flush();
  await registrar.flush();
  expect([watch(), conversion()]).toEqual([undefined, { strategy: "None" }]);
});

test("a change between the read of a CRD and the beginning of its watch is not missed", async () => {
  const { clock, registrar, server, watch, conversion } = await lab();
  registrar.set("hook", { group: "hooks", conversions: [{ crdName: NAME, path: "/convert" }] });
  await registrar.flush();
  server.crd = { ...server.crd, status: { storedVersions: ["v1", "v2"] } } as WatchedObject;
  registrar.remove("hook");
  await registrar.flush();
  await clock.advance(1);
  expect(conversion()).toMatchObject({ strategy: "Webhook" });
  server.crd = { ...server.crd, status: { storedVersions: ["v1"] } } as WatchedObject;
  void watch()?.onListed(server.crd);
  void watch()?.onSynced("1");
  await clock.advance(1);
  await expect.poll(conversion).toEqual({ strategy: "None" });
});
