import { expect, test } from "vitest";

import { silentLogger } from "../../../../src/base/index.ts";
import { removeLeftoverWebhooks } from "../../../../src/engine/tasks/reviews/leftover-webhooks.ts";
import { hurried } from "../../../sources/registry/artifact/lab.ts";
import { status } from "../../../support/fake-api.ts";
import { fake } from "../../../kube/fixture.ts";

const GROUP = "/apis/admissionregistration.k8s.io/v1";
const VALIDATING = `${GROUP}/validatingwebhookconfigurations`;
const CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

const listOf = (...items: object[]) => ({ json: { metadata: { resourceVersion: "1" }, items } });
const CONVERTED = {
  metadata: { name: "things.example.com", annotations: { "addon-operator.io/conversion": "own" } },
};

async function lab() {
  const { api, client } = await fake();
  const queries = new Map<string, unknown>();
  let [removals, closed] = [0, false];
  /** What is found at each look; the last one stays. */
  const found: Record<string, (object[] | "error")[]> = { [VALIDATING]: [[]], [CRDS]: [[]] };
  for (const path of [VALIDATING, `${GROUP}/mutatingwebhookconfigurations`, CRDS])
    api.on(`GET ${path}`, ({ query }) => {
      queries.set(path, query["labelSelector"]);
      const looks = found[path] ?? [[]];
      const items = (looks.length > 1 ? looks.shift() : looks[0]) ?? [];
      return items === "error" ? status(500, "InternalError") : listOf(...items);
    });
  const abort = new AbortController();
  const registrar = { flush: () => Promise.resolve(void (removals += 1)), close: () => (closed = true) };
  const run = () =>
    removeLeftoverWebhooks({
      client,
      clock: hurried,
      logger: silentLogger,
      name: "own",
      signal: abort.signal,
      makeRegistrar: () => Promise.resolve(registrar),
    });
  return { api, found, queries, run, abort, seen: () => ({ removals, closed }) };
}

test("nothing is made for an operator that has left nothing, or only others have", async () => {
  const { found, queries, run, seen } = await lab();
  found[VALIDATING] = [[{ metadata: { name: "other-hooks" } }]];
  const annotations = { "addon-operator.io/conversion": "other" };
  found[CRDS] = [[{ metadata: { name: "things.example.com", annotations } }]];
  await run();
  expect(seen()).toEqual({ removals: 0, closed: false });
  expect(queries.get(VALIDATING)).toBe("app.kubernetes.io/managed-by=addon-operator");
  expect(queries.get(CRDS)).toBe("addon-operator.io/conversion=true");
});

test("webhooks and conversions are removed until none is left, also after an error", async () => {
  const { found, run, seen } = await lab();
  found[VALIDATING] = ["error", [{ metadata: { name: "own-hooks" } }], []];
  found[CRDS] = [[CONVERTED], [CONVERTED], []];
  await run();
  expect(seen()).toEqual({ removals: 3, closed: true });
});

test("an operator that may not look gives up", async () => {
  const { api, run, seen } = await lab();
  api.on(`GET ${VALIDATING}`, status(403, "Forbidden"));
  await run();
  expect(api.requests.length).toBe(5);
  expect(seen()).toEqual({ removals: 0, closed: false });
});

test("it ends when a hook needs the webhooks", async () => {
  const { found, run, abort, seen } = await lab();
  found[CRDS] = [[CONVERTED]];
  abort.abort();
  await run();
  expect(seen()).toEqual({ removals: 0, closed: false });
});
