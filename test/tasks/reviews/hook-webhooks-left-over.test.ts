import { expect, test } from "vitest";

import { silentLogger } from "../../../src/lib/index.ts";
import { removeLeftoverWebhooks } from "../../../src/tasks/reviews/hook-webhooks.ts";
import { status } from "../../support/fake-api.ts";
import { fake } from "../../kube/fixture.ts";

const GROUP = "/apis/admissionregistration.k8s.io/v1";
const LISTS = ["validating", "mutating"].map((type) => `${GROUP}/${type}webhookconfigurations`);

test("what has the label and the name is deleted, in that version only", async () => {
  const { api, client } = await fake();
  const deleted: unknown[] = [];
  const queries: unknown[] = [];
  for (const path of LISTS) {
    api.on(`GET ${path}`, ({ query }) => {
      queries.push(query["labelSelector"]);
      const items = ["own-hooks", "other-hooks"].map((name) => ({ metadata: { name, uid: `${name} uid` } }));
      return { json: { metadata: { resourceVersion: "1" }, items } };
    });
    api.on(`DELETE ${path}/own-hooks`, ({ body }) => {
      deleted.push((JSON.parse(body) as { preconditions: unknown }).preconditions);
      return { json: {} };
    });
  }
  await removeLeftoverWebhooks({ client, logger: silentLogger }, ["own-hooks", "own-operator"]);
  expect(deleted).toEqual([{ uid: "own-hooks uid" }, { uid: "own-hooks uid" }]);
  expect(new Set(queries)).toEqual(new Set(["app.kubernetes.io/managed-by=addon-operator"]));
});

test("an operator that may not look does nothing", async () => {
  const { api, client } = await fake();
  for (const path of LISTS) api.on(`GET ${path}`, status(403, "Forbidden"));
  await removeLeftoverWebhooks({ client, logger: silentLogger }, ["own-hooks"]);
  expect(api.requests.every(({ method }) => method === "GET")).toBe(true);
});
