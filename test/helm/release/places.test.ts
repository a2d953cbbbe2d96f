import { expect, test } from "vitest";

import { Places } from "../../../src/helm/release/places.ts";
import { status } from "../../support/fake-api.ts";
import { fake } from "../../kube/fixture.ts";

const PATH = "/api/v1/namespaces/ops/secrets";
const encoded = (text: string): string => Buffer.from(text).toString("base64");

async function lab() {
  const { api, client } = await fake();
  const places = new Places({ client, namespace: "ops", secret: "places" });
  const writes = () => api.requests.filter(({ method }) => method !== "GET");
  return { api, places, writes };
}

test("places are read as they were written; what is no place is left out", async () => {
  const { api, places } = await lab();
  const data = {
    web: encoded('{"namespace":"team-a","from":"ops","account":"team-a/deployer"}'),
    broken: encoded("{"),
    empty: encoded("{}"),
  };
  api.on(`GET ${PATH}/places`, { json: { data } });
  await places.read();
  expect([...places.releases()]).toEqual(["web"]);
  expect(places.get("web")).toEqual({ namespace: "team-a", from: "ops", account: "team-a/deployer" });
  expect(places.namespaces()).toEqual(["team-a", "ops"]);
});

test("the Secret is made with the first place, and written only for changes", async () => {
  const { api, places, writes } = await lab();
  await places.read();
  api.on(`POST ${PATH}`, { json: {} });
  expect(await places.set("web", { namespace: "team-a" })).toBe(true);
  expect(JSON.parse(writes().at(-1)?.body ?? "")).toMatchObject({
    metadata: { name: "places" },
    data: { web: encoded('{"namespace":"team-a"}') },
  });
  const before = writes().length;
  expect(await places.set("web", { namespace: "team-a" })).toBe(false);
  expect(writes()).toHaveLength(before);
  api.on(`PATCH ${PATH}/places`, { json: {} });
  await places.set("web", undefined);
  expect(JSON.parse(writes().at(-1)?.body ?? "")).toEqual({ data: { web: null } });
  expect(places.get("web")).toBeUndefined();
});

test("a Secret that another module has just made gets the place, too", async () => {
  const { api, places, writes } = await lab();
  api.on(`PATCH ${PATH}/places`, status(404, "NotFound"), { json: {} });
  api.on(`POST ${PATH}`, status(409, "AlreadyExists"));
  await places.set("web", { namespace: "team-a" });
  expect(writes().map(({ method }) => method)).toEqual(["PATCH", "POST", "PATCH"]);
});

test("a refused write changes nothing", async () => {
  const { api, places } = await lab();
  api.on(`PATCH ${PATH}/places`, status(403, "Forbidden"));
  await expect(places.set("web", { namespace: "team-a" })).rejects.toThrow("Forbidden");
  expect(places.get("web")).toBeUndefined();
});
