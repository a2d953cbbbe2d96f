import { expect, it, onTestFinished } from "vitest";

import {
  answerEdit,
  createAdmitPath,
  editWebhooks,
  type AdmissionOptions,
} from "../../../src/surface/admit/index.ts";
import { ClientWorkBudgets, parseLimit } from "../../../src/base/index.ts";
import type { Limit } from "../../../src/base/index.ts";
import type { Json, JsonObject } from "../../../src/base/model/index.ts";
import type { AdmissionRequest } from "../../../src/webhooks/index.ts";
import { EngineLab } from "../../support/engine-lab.ts";

const OWN = "system:serviceaccount:ops:addon-operator";
const MANAGER = "addon-operator";

async function admission(slowChecks = new ClientWorkBudgets()) {
  const lab = new EngineLab({ modules: [{ name: "a" }], config: { aEnabled: "true" } });
  await lab.start();
  onTestFinished(() => lab.engine.stop());
  let asked = 0;
  const options: AdmissionOptions = {
    state: lab.state,
    observed: lab.observed,
    clock: lab.clock,
    deleteBrake: parseLimit("3,50%") as Limit,
    name: "addon-operator",
    namespace: "ops",
    slowChecks,
    readOwnUser: () => Promise.resolve((asked++, OWN)),
    redactDeep: <T extends Json>(value: T) =>
      JSON.parse(JSON.stringify(value).replaceAll("hunter2", "***")) as T,
  };
  const answer = (change: Partial<AdmissionRequest> = {}, client = "10.0.0.1") => {
    const { signal } = new AbortController();
    return answerEdit({ ...requestOf(), ...change } as AdmissionRequest, { signal, client }, options);
  };
  return { answer, asked: () => asked };
}

const configMap = (data: JsonObject): JsonObject => ({ metadata: { name: "addon-operator" }, data });
const as = (username: string, fieldManager: string): Partial<AdmissionRequest> => ({
  userInfo: { username },
  options: { fieldManager },
});

/** An edit that is refused. */
function requestOf(): AdmissionRequest {
  return {
    uid: "1",
    operation: "UPDATE",
    kind: { group: "", version: "v1", kind: "ConfigMap" },
    resource: {},
    ...as("kubernetes-admin", "kubectl-edit"),
    name: "addon-operator",
    namespace: "ops",
    object: configMap({ aEnabled: "hunter2" }),
    oldObject: configMap({ aEnabled: "true" }),
  } as AdmissionRequest;
}

const addonModule = {
  kind: { group: "addon-operator.io", version: "v1alpha1", kind: "AddonModule" },
  name: "a",
};
const annotated = (annotations: JsonObject): JsonObject => ({ metadata: { annotations } });

it.each<readonly [string, Partial<AdmissionRequest>, boolean]>([
  ["a wrong edit of the ConfigMap", {}, false],
  ["its creation with wrong content", { oldObject: null, operation: "CREATE" }, false],
  ["another ConfigMap", { name: "other" }, true],
  ["a ConfigMap of this name elsewhere", { namespace: "other" }, true],
  ["another kind", { kind: { kind: "Secret" } }, true],
  ["the operator's own write", as(OWN, MANAGER), true],
  ["a write of a hook as the operator's user", as(OWN, "kubectl-patch"), false],
  ["a write of another user as our field manager", as("mallory", MANAGER), false],
  ["a user without a name", { userInfo: {}, options: { fieldManager: MANAGER } }, false],
  [
    "a malformed request for a run",
    {
      ...addonModule,
      object: annotated({ "reconcile.addon-operator.io/requestedAt": "ä" }),
      oldObject: null,
    },
    false,
  ],
  ["an AddonModule without annotations", { ...addonModule, object: {}, oldObject: {} }, true],
  ["data that is no map", { object: { data: ["x"] } }, true],
  ["data that is no text", { object: { data: { aEnabled: { deep: 1 } } } }, true],
  ["no object at all", { object: null, oldObject: null }, true],
])("%s: allowed or not", async (_, change, isAllowed) => {
  const { answer } = await admission();
  expect((await answer(change)).allowed).toBe(isAllowed);
});

it("asks for its own user only if a write may be its own", async () => {
  const { answer, asked } = await admission();
  await answer();
  expect(asked()).toBe(0);
  await answer(as("other", MANAGER));
  expect(asked()).toBe(1);
});

it("quotes no secrets", async () => {
  const { answer } = await admission();
  const { warnings } = await answer({ object: configMap({ hunter2: "x", aEnabled: "true" }) });
  expect(warnings).toEqual(["***: this key matches no module and has no effect"]);
});

it("asks the API server about nothing but the ConfigMap and changed annotations, and blocks nothing while it is down", () => {
  const path = createAdmitPath();
  const webhooks = editWebhooks({ name: "addon-operator", namespace: "ops", path });
  for (const each of webhooks)
    expect(each).toMatchObject({
      path,
      type: "validating",
      failurePolicy: "Ignore",
      timeoutSeconds: 2,
      sideEffects: "None",
      coversOwnNamespace: true,
      namespaceSelector: { matchLabels: { "kubernetes.io/metadata.name": "ops" } },
    });
});

it("is called at a path that nobody can guess, and that Kubernetes accepts", () => {
  const paths = [createAdmitPath(), createAdmitPath()];
  expect(new Set(paths).size).toBe(2);
  for (const path of paths) expect(path).toMatch(/^\/admit\/[0-9a-f]{32}$/);
});

it("checks no more edits of a client while its slow checks have used up their processor time", async () => {
  const slowChecks = new ClientWorkBudgets();
  const { answer } = await admission(slowChecks);
  expect((await answer()).allowed).toBe(false);
  slowChecks.of("10.0.0.1").spend(2000);
  const warnings = ["the edit is not checked, because recent checks took too long"];
  expect(await answer()).toMatchObject({ allowed: true, warnings });
  expect((await answer({}, "10.0.0.2")).allowed).toBe(false);
});
