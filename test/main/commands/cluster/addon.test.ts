import { expect, it, onTestFinished } from "vitest";

import { run } from "../../../support/command-line.ts";
import { FakeApi, status } from "../../../support/fake-api.ts";

const GROUP = "/apis/addon-operator.io/v1alpha1";

const OPERATOR = { metadata: { name: "addon-operator", namespace: "ops", uid: "u" } };

it("why explains the modules that a module waits for, as far as the user may read them", async () => {
  const api = await FakeApi.start();
  onTestFinished(() => api.close());
  api.on(`GET ${GROUP}/addonoperators`, { json: { metadata: {}, items: [OPERATOR] } });
  const add = (name: string, waitsFor: string, reason: string) =>
    api.on(`GET ${GROUP}/namespaces/ops/addonmodules/${name}`, {
      json: { metadata: { name }, spec: { enabled: true }, status: { waitsFor, reasons: [reason] } },
    });
  add("web", "db", "waits for db");
  add("db", "dns", "waits for dns");
  api.on(`GET ${GROUP}/namespaces/ops/addonmodules/dns`, status(403, "Forbidden"));
  add("shop", "Secret ops/values", "waits for Secret ops/values");
  const why = (name: string) =>
    run(["addon", "why", name, `--kube-config=${api.kubeconfig()}`], { printError: () => {} });
  expect(await why("web")).toMatchObject({
    code: 0,
    text: "web: Pending: \nwaits for db\ndb: waits for dns\n",
  });
  expect(await why("shop")).toMatchObject({ code: 0, text: expect.stringContaining("ops/values\n") });
  expect(api.requests.filter(({ path }) => path.includes("values"))).toEqual([]);
});

it("why -o json prints the reasons as data, and nothing else on the standard output", async () => {
  const api = await FakeApi.start();
  onTestFinished(() => api.close());
  const message = 'invalid values: replicas: must be "integer"';
  const conditions = [{ type: "Ready", status: "False", reason: "Invalid", message }];
  api.on(`GET ${GROUP}/addonoperators`, { json: { metadata: {}, items: [OPERATOR] } });
  api.on(`GET ${GROUP}/namespaces/ops/addonmodules/web`, {
    json: { metadata: { name: "web", namespace: "ops" }, status: { state: "Invalid", message, conditions } },
  });
  const where = `--kube-config=${api.kubeconfig()}`;
  const text = await run(["addon", "why", "web", where], { printError: () => {} });
  const data = await run(["addon", "why", "web", "-o", "json", where], { printError: () => {} });
  expect([text.code, data.code]).toEqual([0, 0]);
  expect(text.text).toContain(message);
  const { module, reasons } = JSON.parse(data.text) as { module: string; reasons: string[] };
  expect(module).toBe("web");
  expect(`${reasons.join("\n")}\n`).toBe(text.text);
});
