import { expect, test } from "vitest";

import { findPodIssue } from "../../../src/kube/health/index.ts";
import type { JsonObject } from "../../../src/base/model/index.ts";

const waiting = (reason: string, more: JsonObject = {}): JsonObject => ({
  state: { waiting: { reason, ...more } },
});
const crashing = (terminated: JsonObject, restartCount = 1): JsonObject => ({
  ...waiting("CrashLoopBackOff"),
  restartCount,
  lastState: { terminated },
});
const running = (...containerStatuses: JsonObject[]): JsonObject => ({ phase: "Running", containerStatuses });
const not = (type: string, reason: string, message: string): JsonObject => ({
  conditions: [{ type, status: "False", reason, message }],
});

test.each<[string | undefined, JsonObject]>([
  [undefined, {}],
  [undefined, { phase: "Succeeded" }],
  [undefined, { phase: "Running", conditions: [{ type: "Ready", status: "True" }] }],
  ["ContainerCreating", { phase: "Pending", containerStatuses: [waiting("ContainerCreating")] }],
  ["CrashLoopBackOff: exit code 1", running(crashing({ exitCode: 1, reason: "Error" }))],
  ["CrashLoopBackOff: exit code 137 (OOMKilled)", running(crashing({ exitCode: 137, reason: "OOMKilled" }))],
  ["CrashLoopBackOff", running(crashing({ exitCode: 0, reason: "Completed" }))],
  ["exit code 2", running({ state: { terminated: { exitCode: 2, reason: "Error" } } })],
  ["ImagePullBackOff: no such image", running(waiting("ImagePullBackOff", { message: "no such image" }))],
  [
    "CreateContainerConfigError",
    { phase: "Pending", containerStatuses: [waiting("CreateContainerConfigError")] },
  ],
  [
    "CrashLoopBackOff: exit code 3",
    {
      phase: "Pending",
      initContainerStatuses: [crashing({ exitCode: 3 })],
      containerStatuses: [waiting("PodInitializing")],
    },
  ],
  [
    "CrashLoopBackOff: exit code 1",
    running(waiting("ImagePullBackOff"), crashing({ exitCode: 1 }), {
      state: { terminated: { exitCode: 9 } },
    }),
  ],
  ["Unschedulable: 0/3 nodes", { phase: "Pending", ...not("PodScheduled", "Unschedulable", "0/3 nodes") }],
  ["Evicted: low on memory", { phase: "Failed", reason: "Evicted", message: "low on memory" }],
  [
    "not ready: containers: [web]",
    { phase: "Running", ...not("Ready", "ContainersNotReady", "containers: [web]") },
  ],
  // Nothing of these is as the API has it.
  [undefined, { phase: 5, containerStatuses: { state: 1 }, conditions: "x" }],
  [undefined, running({ state: null, lastState: [] }, waiting(""))],
])("reports %j", (text, status) => {
  expect(findPodIssue({ status })?.text).toBe(text);
});

test("a container that crashed more than three times is not going to start", () => {
  const hopeless = (restarts: number) =>
    findPodIssue({ status: running(crashing({ exitCode: 1 }, restarts)) })?.isPermanent;
  expect([hopeless(1), hopeless(3), hopeless(4)]).toEqual([false, false, true]);
});
