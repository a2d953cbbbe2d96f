import { expect, it, onTestFinished } from "vitest";

import { run } from "../../../support/command-line.ts";
import { FakeApi, status as forbidden, type Answer } from "../../../support/fake-api.ts";

const GROUP = "/apis/addon-operator.io/v1alpha1";
const SOURCES = `${GROUP}/namespaces/ops/modulesources`;
const DIGEST = `sha256:${"b".repeat(64)}`;

const condition = (type: string, [status, reason]: readonly [string, string], message: string) => ({
  type,
  status,
  reason,
  message,
});

const READY = {
  summary: "2/2",
  waiting: 1,
  lastCheck: "2026-11-24T12:00:00Z",
  modules: [
    {
      name: "web",
      version: "1.4.2",
      digest: `sha256:${"a".repeat(64)}`,
      verifiedBy: "ci.pub",
      next: {
        version: "1.5.0",
        digest: DIGEST,
        since: "2026-11-24T11:00:00Z",
        held: "1.5.0 waits for approval",
      },
    },
    { name: "db", version: "2.0.0", verifiedBy: "ci.pub" },
  ],
  conditions: [condition("Ready", ["True", "Ready"], "All")],
};
const AWAY = {
  summary: "0/1",
  modules: [{ name: "dns", error: "no\u001b[31m answer" }],
  conditions: [
    condition("Ready", ["False", "CheckFailed"], "dns: no answer"),
    condition("Reachable", ["False", "NoAnswer"], "The registry did not answer"),
  ],
};

const source = (name: string, status: object) => ({ metadata: { name, namespace: "ops" }, spec: {}, status });
const list = (...items: readonly object[]): Answer => ({ json: { metadata: {}, items } });

/** A cluster with these sources, and the command `source` for it. */
async function cluster(...sources: readonly object[]) {
  const api = await FakeApi.start();
  onTestFinished(() => api.close());
  api.on(
    `GET ${GROUP}/addonoperators`,
    list({ metadata: { name: "addon-operator", namespace: "ops", uid: "u" } }),
  );
  api.on(`GET ${SOURCES}`, list(...sources));
  const patched = (): readonly unknown[] =>
    api.requests
      .filter(({ method }) => method === "PATCH")
      .map(({ path, body }) => [path.replace(`${GROUP}/namespaces/ops/`, ""), JSON.parse(body)]);
  const call = (...words: readonly string[]) => run(["source", ...words, "--kube-config", api.kubeconfig()]);
  return { api, call, patched };
}

it("list -o json prints the status of each source", async () => {
  const { call } = await cluster(source("platform", READY), source("edge", AWAY));
  const { code, text } = await call("list", "-o", "json");
  expect({ code, data: JSON.parse(text) as unknown }).toEqual({
    code: 1,
    data: [
      { namespace: "ops", name: "platform", ...READY },
      { namespace: "ops", name: "edge", ...AWAY },
    ],
  });
  await expect(call("list", "-o", "yaml")).rejects.toThrow('-o: "yaml" is not accepted; use text or json');
});

it("list prints sources, what waits and why, and ends with 1 unless all are Ready", async () => {
  const { call } = await cluster(source("platform", READY), source("edge", AWAY));
  expect(await call("list")).toEqual({
    code: 1,
    text: [
      "platform: Ready, 2/2 modules, 1 waiting, last check 2026-11-24T12:00:00Z",
      "  web 1.4.2 (ci.pub); next 1.5.0: 1.5.0 waits for approval",
      "  db 2.0.0 (ci.pub)",
      "edge: CheckFailed, 0/1 modules, 0 waiting, last check never; The registry did not answer",
      "  dns none; no\\u001b[31m answer",
      "",
    ].join("\n"),
  });
  const { call: callReady } = await cluster(source("platform", READY));
  expect((await callReady("list")).code).toBe(0);
});

it("approve annotates the module with what waits, and with nothing else", async () => {
  const { api, call, patched } = await cluster(source("platform", READY));
  api.on(`PATCH ${GROUP}/namespaces/ops/addonmodules/web`, { json: {} });
  await expect(call("approve", "web", "1.6.0")).rejects.toThrow("1.5.0 waits for the module web, not 1.6.0");
  await expect(call("approve", "db")).rejects.toThrow("nothing waits for the module db");
  expect(patched()).toEqual([]);
  expect(await call("approve", "web", "1.5.0")).toEqual({ code: 0, text: `approved: web 1.5.0@${DIGEST}\n` });
  const annotations = { "addon-operator.io/approve": `1.5.0@${DIGEST}` };
  expect(patched()).toEqual([["addonmodules/web", { metadata: { annotations } }]]);
});

it("sync requests a check and waits until the operator has handled it", async () => {
  const { api, call, patched } = await cluster();
  let token: string | undefined;
  let lists = 0;
  api.on(`PATCH ${SOURCES}/platform`, ({ body }) => {
    const { metadata } = JSON.parse(body) as { metadata: { annotations: Record<string, string> } };
    token = metadata.annotations["reconcile.addon-operator.io/requestedAt"];
    return { json: {} };
  });
  api.on(`GET ${SOURCES}`, () => {
    lists += 1;
    const handled = lists > 2 ? { lastHandledReconcileAt: token } : {};
    return list(source("platform", { ...READY, ...handled }), source("edge", AWAY));
  });
  await expect(call("sync", "other")).rejects.toThrow("there is no ModuleSource other");
  const { code, text } = await call("sync", "platform");
  expect({ code, first: text.split("\n")[0] }).toEqual({
    code: 0,
    first: "platform: Ready, 2/2 modules, 1 waiting, last check 2026-11-24T12:00:00Z",
  });
  expect(text).not.toContain("edge");
  expect(patched()).toHaveLength(1);
});

it("sync ends with 1 if newer versions cannot be looked up, and list names why a spec is invalid", async () => {
  let token: string | undefined;
  const text = "web: registry h: 401; check the credentials";
  const failed = condition("CheckFailed", ["True", "CheckFailed"], text);
  const { api, call } = await cluster();
  api.on(`PATCH ${SOURCES}/platform`, ({ body }) => {
    const { metadata } = JSON.parse(body) as { metadata: { annotations: Record<string, string> } };
    token = metadata.annotations["reconcile.addon-operator.io/requestedAt"];
    return { json: {} };
  });
  const conditions = [...READY.conditions, failed];
  api.on(`GET ${SOURCES}`, () =>
    list(source("platform", { ...READY, conditions, lastHandledReconcileAt: token })),
  );
  expect(await call("sync", "platform")).toMatchObject({
    code: 1,
    text: expect.stringContaining(text) as string,
  });
  const invalid = condition("Ready", ["False", "Invalid"], "spec.interval: is no duration");
  api.on(`GET ${SOURCES}`, list(source("platform", { ...READY, conditions: [invalid] })));
  expect((await call("list")).text).toContain(
    "platform: Invalid, 2/2 modules, 1 waiting, last check 2026-11-24T12:00:00Z; spec.interval: is no duration\n",
  );
});

it("says that there is no source, no operator, or no right", async () => {
  const { api, call } = await cluster();
  await expect(call("list")).rejects.toThrow("there is no ModuleSource in the namespace ops");
  api.on(`GET ${SOURCES}`, forbidden(403, "Forbidden"));
  await expect(call("list")).rejects.toThrow("list and patch on modulesources");
  api.on(`GET ${GROUP}/addonoperators`, list());
  await expect(call("list")).rejects.toThrow("no AddonOperator found");
});
