import { expect, test } from "vitest";

import { ApiError, ConnectionError } from "../../../src/kube/index.ts";
import { explainWebhookObstacle } from "../../../src/kube/leader/webhook-obstacle.ts";
import { status, type Answer } from "../../support/fake-api.ts";
import { fake } from "../fixture.ts";

const CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1";
const VALIDATING = `${CONFIGURATIONS}/validatingwebhookconfigurations`;
const MUTATING = `${CONFIGURATIONS}/mutatingwebhookconfigurations`;
const failed = (message: string): ApiError =>
  new ApiError({ status: 500, reason: "InternalError", message: `Internal error occurred: ${message}` });
const CALL = failed('failed calling webhook "a.example.com": failed to call webhook: connection refused');

const list = (...webhooks: readonly string[]) => ({
  json: {
    kind: "List",
    items: webhooks.map((name) => ({
      metadata: { name: `of-${name}` },
      webhooks: [{ name: "other" }, { name }],
    })),
  },
});

test.each<[string, [Answer, Answer], string]>([
  [
    "a validating webhook",
    [list("a.example.com"), list()],
    "of ValidatingWebhookConfiguration of-a.example.com must",
  ],
  [
    "a mutating webhook",
    [list("b.example.com"), list("a.example.com")],
    "kubectl delete mutatingwebhookconfiguration of-a",
  ],
  [
    "one that was deleted just now",
    [list(), list()],
    "find the configuration with this webhook: kubectl get",
  ],
  [
    "one that the operator may not read",
    [status(403, "Forbidden"), status(403, "Forbidden")],
    'grep -B20 "name: a.example.com"',
  ],
])("names %s", async (_, [validating, mutating], text) => {
  const { api, client } = await fake();
  api.on(`GET ${VALIDATING}`, validating).on(`GET ${MUTATING}`, mutating);
  expect(await explainWebhookObstacle(client, CALL, 2000)).toContain(text);
});

test("a webhook that denies is named, too, and nothing is asked about another error", async () => {
  const { api, client } = await fake();
  api.on(`GET ${VALIDATING}`, list("a.example.com"));
  const denied = failed('admission webhook "a.example.com" denied the request: no');
  expect(await explainWebhookObstacle(client, denied, 2000)).toContain("of-a.example.com");
  const before = api.requests.length;
  expect(await explainWebhookObstacle(client, failed("etcd is slow"), 2000)).toBeUndefined();
  expect(
    await explainWebhookObstacle(client, new ConnectionError("ECONNREFUSED", 'webhook "x"'), 2000),
  ).toBeUndefined();
  expect(api.requests).toHaveLength(before);
});
