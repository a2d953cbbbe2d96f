import { describe, expect, test } from "vitest";

import { createFinding } from "../../../src/kube/health/index.ts";
import { compileCel } from "../../../src/base/index.ts";
import type { JsonObject } from "../../../src/base/model/index.ts";

const NOW = Date.UTC(2026, 0, 1);

const deployment = (spec: JsonObject, status: JsonObject = {}, generation = 1): JsonObject => ({
  apiVersion: "apps/v1",
  kind: "Deployment",
  metadata: { name: "web", generation },
  spec: { replicas: 1, progressDeadlineSeconds: 600, selector: { matchLabels: { app: "web" } }, ...spec },
  status: { observedGeneration: generation, ...status },
});

const condition = (type: string, status: string, reason = "") => ({ type, status, reason });
const counts = (replicas: number) => ({
  replicas,
  updatedReplicas: replicas,
  readyReplicas: replicas,
  availableReplicas: replicas,
});
const COMPLETE = condition("Progressing", "True", "NewReplicaSetAvailable");
const PAUSED = condition("Progressing", "Unknown", "DeploymentPaused");
const AVAILABLE = condition("Available", "True");
const LOST = condition("Available", "False");

const job = (spec: JsonObject, ...conditions: JsonObject[]): JsonObject => ({
  apiVersion: "batch/v1",
  kind: "Job",
  metadata: { name: "j" },
  spec,
  status: { conditions },
});

const daemonSet = (
  type: string,
  [wanted, updated, ready]: readonly [wanted: number, updated: number, ready: number],
): JsonObject => ({
  apiVersion: "apps/v1",
  kind: "DaemonSet",
  metadata: { name: "d", generation: 2 },
  spec: { updateStrategy: { type } },
  status: {
    observedGeneration: 2,
    desiredNumberScheduled: wanted,
    currentNumberScheduled: wanted,
    updatedNumberScheduled: updated,
    numberAvailable: ready,
    numberReady: ready,
  },
});

const statefulSet = (spec: JsonObject): JsonObject => ({
  apiVersion: "apps/v1",
  kind: "StatefulSet",
  metadata: { name: "s", generation: 1 },
  spec,
  status: { observedGeneration: 1, replicas: 0, currentRevision: "a", updateRevision: "a" },
});

const withConditions = (
  apiVersion: string,
  kind: string,
  ...conditions: readonly (readonly [type: string, status: string])[]
): JsonObject => ({
  apiVersion,
  kind,
  metadata: { name: "x" },
  status: { conditions: conditions.map(([type, status]) => condition(type, status)) },
});

describe("decided for releases", () => {
  test.each<[string, string, JsonObject]>([
    ["a Job that is suspended", "Current", job({ suspend: true }, condition("Suspended", "True"))],
    ["a Job that is suspended and has failed", "Failed", job({ suspend: true }, condition("Failed", "True"))],
    ["a Job that has not started", "InProgress", job({})],
    [
      "a CronJob that is suspended",
      "Current",
      { apiVersion: "batch/v1", kind: "CronJob", spec: { suspend: true } },
    ],
    ["a DaemonSet without nodes", "Current", daemonSet("RollingUpdate", [0, 0, 0])],
    ["a DaemonSet whose Pods a user replaces", "Current", daemonSet("OnDelete", [2, 1, 2])],
    ["such a DaemonSet, one of whose Pods is not ready", "InProgress", daemonSet("OnDelete", [2, 1, 1])],
    ["a DaemonSet that is replacing its Pods", "InProgress", daemonSet("RollingUpdate", [2, 1, 2])],
    [
      "a StatefulSet whose Pods a user replaces",
      "Current",
      statefulSet({ updateStrategy: { type: "OnDelete" } }),
    ],
    ["a StatefulSet with 0 replicas", "Current", statefulSet({ replicas: 0 })],
    [
      "a HorizontalPodAutoscaler without metrics",
      "Current",
      withConditions(
        "autoscaling/v2",
        "HorizontalPodAutoscaler",
        ["ScalingActive", "False"],
        ["AbleToScale", "True"],
      ),
    ],
    [
      "an Ingress without an address",
      "Current",
      { apiVersion: "networking.k8s.io/v1", kind: "Ingress", status: { loadBalancer: {} } },
    ],
    [
      "a Gateway without an address",
      "Current",
      withConditions(
        "gateway.networking.k8s.io/v1",
        "Gateway",
        ["Accepted", "True"],
        ["Programmed", "False"],
      ),
    ],
    [
      "a Service that waits for its load balancer",
      "Current",
      {
        apiVersion: "v1",
        kind: "Service",
        spec: { type: "LoadBalancer", clusterIP: "10.0.0.1" },
        status: { loadBalancer: {} },
      },
    ],
    [
      "a PodDisruptionBudget of nothing",
      "Current",
      withConditions("policy/v1", "PodDisruptionBudget", ["DisruptionAllowed", "False"]),
    ],
    [
      "a Deployment with 0 replicas",
      "Current",
      deployment({ replicas: 0 }, { conditions: [COMPLETE, AVAILABLE] }),
    ],
    [
      "a Deployment that is paused",
      "Current",
      deployment({ paused: true }, { ...counts(1), conditions: [PAUSED, AVAILABLE] }),
    ],
    [
      "a Deployment that is paused in the middle of a rollout",
      "InProgress",
      deployment({ paused: true, replicas: 3 }, { replicas: 4, conditions: [PAUSED, AVAILABLE] }),
    ],
    [
      "a Deployment that is paused and lost its Pods",
      "InProgress",
      deployment({ paused: true }, { conditions: [PAUSED, LOST] }),
    ],
    [
      "an HPA that has no metrics",
      "Current",
      {
        apiVersion: "autoscaling/v2",
        kind: "HorizontalPodAutoscaler",
        status: { conditions: [condition("ScalingActive", "False", "FailedGetResourceMetric")] },
      },
    ],
    [
      "a PDB that allows nothing",
      "Current",
      {
        apiVersion: "policy/v1",
        kind: "PodDisruptionBudget",
        metadata: { generation: 1 },
        status: { observedGeneration: 1, conditions: [condition("DisruptionAllowed", "False")] },
      },
    ],
    [
      "a paused Deployment of another group",
      "InProgress",
      {
        apiVersion: "example.com/v1",
        kind: "Deployment",
        spec: { paused: true },
        status: { conditions: [condition("Ready", "False")] },
      },
    ],
    [
      "what is being deleted, though suspended",
      "Terminating",
      { ...job({ suspend: true }), metadata: { deletionTimestamp: "2026-01-01T00:00:00Z" } },
    ],
  ])("%s is %s", (_, status, object) => {
    expect(createFinding(object, { wall: NOW, now: NOW }).status).toBe(status);
  });
});

test("an object is under way since it is not Current in this generation", () => {
  const wellOne = deployment({}, { ...counts(1), conditions: [COMPLETE, AVAILABLE] });
  const well = createFinding(wellOne, { wall: NOW, now: NOW });
  expect(well).toMatchObject({ status: "Current", generation: 1, settled: 1, pods: undefined });
  const lost = createFinding(deployment({}, { conditions: [LOST] }), {
    wall: NOW,
    now: NOW + 10,
    before: well,
  });
  expect(lost).toMatchObject({ settled: 1, since: NOW + 10, isLost: true });
  expect(lost.pods?.selector).toEqual({ matchLabels: { app: "web" } });
  const still = createFinding(deployment({}, { replicas: 1, conditions: [LOST] }), {
    wall: NOW,
    now: NOW + 20,
    before: lost,
  });
  expect(still.since).toBe(NOW + 10);
  const anew = createFinding(deployment({}, { conditions: [LOST] }, 2), {
    wall: NOW,
    now: NOW + 30,
    before: still,
  });
  expect(anew).toMatchObject({ generation: 2, settled: 1, since: NOW + 30, isLost: false });
});

test("a check takes the place of the rules; what is being deleted is not asked", async () => {
  const check = await compileCel("object.status.phase == 'Done'");
  const found = (object: JsonObject) => {
    const { status, message } = createFinding(object, { wall: NOW, now: NOW, check });
    return [status, message];
  };
  const failed = [condition("Stalled", "True"), condition("Ready", "False")];
  expect(found({ kind: "Backup", status: { phase: "Done", conditions: failed } })).toEqual(["Current", ""]);
  expect(found({ kind: "Backup", status: { phase: "At work" } })).toEqual([
    "InProgress",
    "does not meet its check",
  ]);
  expect(found({ kind: "Backup" })).toEqual(["InProgress", "has a check that fails: No such key: status"]);
  const metadata = { deletionTimestamp: "2026-01-01T00:00:00Z" };
  expect(found({ metadata, status: { phase: "Done" } })[0]).toBe("Terminating");
});

test("what has failed after it was Current is a loss, but for a Job, which is Current while it runs", () => {
  const thing = (...conditions: JsonObject[]): JsonObject => ({
    apiVersion: "example.com/v1",
    kind: "Thing",
    metadata: { generation: 1 },
    status: { observedGeneration: 1, conditions },
  });
  const find = (object: JsonObject, before?: JsonObject) =>
    createFinding(object, {
      wall: NOW,
      now: NOW,
      before: before && createFinding(before, { wall: NOW, now: NOW }),
    });
  const stalled = thing(condition("Stalled", "True"));
  expect(find(stalled)).toMatchObject({ status: "Failed", isLost: false });
  expect(find(stalled, thing(condition("Ready", "True")))).toMatchObject({ status: "Failed", isLost: true });
  const running = job({}, condition("SuccessCriteriaMet", "False"));
  const begun = { ...running, metadata: { generation: 1 }, status: { startTime: "2026-01-01T00:00:00Z" } };
  const ended = { ...begun, status: { conditions: [condition("Failed", "True")] } };
  expect(find(begun).status).toBe("Current");
  expect(find(ended, begun)).toMatchObject({ status: "Failed", isLost: false });
});

describe("a Rollout of Argo, which writes the generation it has seen as text", () => {
  const rollout = (status: JsonObject, metadata: JsonObject = {}): JsonObject => ({
    apiVersion: "argoproj.io/v1alpha1",
    kind: "Rollout",
    metadata: { name: "web", generation: 3, ...metadata },
    status,
  });
  test.each<[string, string, JsonObject]>([
    ["Current", "", rollout({ observedGeneration: "3", phase: "Healthy" })],
    ["InProgress", "LatestGenerationNotObserved", rollout({ observedGeneration: "2", phase: "Healthy" })],
    ["InProgress", "LatestGenerationNotObserved", rollout({})],
    ["InProgress", "Progressing", rollout({ observedGeneration: "3", phase: "Progressing" })],
    ["Failed", "Degraded", rollout({ observedGeneration: "3", phase: "Degraded", message: "aborted" })],
    ["Terminating", "Terminating", rollout({}, { deletionTimestamp: "2026-01-01T00:00:00Z" })],
  ])("%s %s", (status, reason, object) => {
    expect(createFinding(object, { wall: NOW, now: NOW })).toMatchObject({ status, reason });
  });

  test("is not unhealthy while it is paused, however long that takes", () => {
    const paused = rollout({ observedGeneration: "3", phase: "Paused", message: "CanaryPauseStep" });
    expect(createFinding(paused, { wall: NOW, now: NOW })).toMatchObject({
      reason: "RolloutPaused",
      since: Infinity,
    });
  });
});
