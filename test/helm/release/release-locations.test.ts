import { expect, test } from "vitest";

import { ReleaseLocations } from "../../../src/helm/release/release-locations.ts";
import { status } from "../../support/fake-api.ts";
import { fake } from "../../kube/fixture.ts";

const PATH = "/api/v1/namespaces/ops/secrets";
const encoded = (text: string): string => Buffer.from(text).toString("base64");

async function lab() {
  const { api, client } = await fake();
  const locations = new ReleaseLocations({ client, namespace: "ops", secret: "locations" });
  const writes = () => api.requests.filter(({ method }) => method !== "GET");
  return { api, locations, writes };
}

test("locations are read as they were written; what is no location is left out", async () => {
  const { api, locations } = await lab();
  const data = {
    web: encoded('{"namespace":"team-a","from":"ops","account":"team-a/deployer"}'),
    broken: encoded("{"),
    empty: encoded("{}"),
  };
  api.on(`GET ${PATH}/locations`, { json: { metadata: {}, data } });
  await locations.read();
  expect([...locations.releaseNames()]).toEqual(["web"]);
  expect(locations.get("web")).toEqual({ namespace: "team-a", from: "ops", account: "team-a/deployer" });
  expect(locations.namespaces()).toEqual(["team-a", "ops"]);
});

test("the Secret is made with the first location, and written only for changes", async () => {
  const { api, locations, writes } = await lab();
  await locations.read();
  api.on(`POST ${PATH}`, { json: {} });
  expect(await locations.set("web", { namespace: "team-a" })).toBe(true);
  expect(JSON.parse(writes().at(-1)?.body ?? "")).toMatchObject({
    metadata: { name: "locations" },
    data: { web: encoded('{"namespace":"team-a"}') },
  });
  const before = writes().length;
  expect(await locations.set("web", { namespace: "team-a" })).toBe(false);
  expect(writes()).toHaveLength(before);
  api.on(`PATCH ${PATH}/locations`, { json: {} });
  await locations.set("web", undefined);
  expect(JSON.parse(writes().at(-1)?.body ?? "")).toEqual({ data: { web: null } });
  expect(locations.get("web")).toBeUndefined();
});

test("a Secret that another module has just made gets the location, too", async () => {
  const { api, locations, writes } = await lab();
  const absent = status(404, "NotFound");
  api.on(`PATCH ${PATH}/locations`, absent, absent, { json: {} });
  api.on(`POST ${PATH}`, status(409, "AlreadyExists"));
  await locations.set("web", { namespace: "team-a" });
  expect(writes().map(({ method }) => method)).toEqual(["PATCH", "PATCH", "POST", "PATCH"]);
});

test("a refused write changes nothing", async () => {
  const { api, locations } = await lab();
  api.on(`PATCH ${PATH}/locations`, status(403, "Forbidden"));
  await expect(locations.set("web", { namespace: "team-a" })).rejects.toThrow("Forbidden");
  expect(locations.get("web")).toBeUndefined();
});

test("a Secret that somebody deletes is made again, with all locations", async () => {
  const { api, locations, writes } = await lab();
  expect(await locations.restore()).toBe(false);
  expect(writes()).toEqual([]);
  api.on(`POST ${PATH}`, { json: {} });
  await locations.set("web", { namespace: "team-a" });
  api.on(`PATCH ${PATH}/locations`, { json: {} });
  await locations.set("db", { namespace: "team-b" });
  api.on(`GET ${PATH}/locations`, { json: { metadata: {}, data: {} } }, status(404, "NotFound"));
  expect(await locations.restore()).toBe(false);
  expect(await locations.restore()).toBe(true);
  expect(JSON.parse(writes().at(-1)?.body ?? "")).toMatchObject({
    metadata: { name: "locations" },
    data: { web: encoded('{"namespace":"team-a"}'), db: encoded('{"namespace":"team-b"}') },
  });
});
