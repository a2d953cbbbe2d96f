import { expect, it, onTestFinished } from "vitest";

import { run } from "../../support/command-line.ts";
import { FakeApi } from "../../support/fake-api.ts";

const GROUP = "/apis/addon-operator.io/v1alpha1";

it("why -o json prints the reasons as data, and nothing else on the standard output", async () => {
  const api = await FakeApi.start();
  onTestFinished(() => api.close());
  const operator = { metadata: { name: "addon-operator", namespace: "ops", uid: "u" } };
  const message = 'invalid values: replicas: must be "integer"';
  const conditions = [{ type: "Ready", status: "False", reason: "Invalid", message }];
  api.on(`GET ${GROUP}/addonoperators`, { json: { metadata: {}, items: [operator] } });
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
