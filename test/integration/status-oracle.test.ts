// Runs at night: compatibility.
import { expect, test } from "vitest";

import { cluster, freshNamespace } from "../support/cluster.ts";
import { watchStatuses } from "../support/statuses.ts";

// What `startOperator` holds every status against must be able to fail.

const condition = (type: string, status: string) => ({
  type,
  status,
  reason: "Test",
  message: "",
  observedGeneration: 1,
  lastTransitionTime: "2026-01-01T00:00:00Z",
});

async function write(namespace: string, ...statuses: readonly object[]): Promise<void> {
  const { apply, kubectl } = cluster();
  const spec = { enabled: true, order: 1, configDigest: "x" };
  const metadata = { name: "a", namespace };
  await apply({ apiVersion: "addon-operator.io/v1alpha1", kind: "AddonModule", metadata, spec });
  for (const status of statuses) {
    const patch = JSON.stringify({ status: { observedGeneration: 1, ...status } });
    await kubectl([
      "patch",
      "amod",
      "a",
      "-n",
      namespace,
      "--subresource=status",
      "--type=merge",
      "-p",
      patch,
    ]);
  }
}

const good = { state: "Ready", conditions: [condition("Ready", "True")] };

test.each([
  [
    "Reconciling and Stalled",
    /Reconciling and Stalled are both there/,
    {
      state: "Invalid",
      conditions: ["Reconciling", "Stalled"]
        .map((type) => condition(type, "True"))
        .concat(condition("Ready", "False")),
    },
  ],
  ["no Ready", /Ready is missing/, { state: "Pending", conditions: [condition("Reconciling", "True")] }],
  [
    "Ready at rest with a condition of an older generation",
    /FAIL0009/,
    { state: "Ready", conditions: [{ ...condition("Ready", "True"), observedGeneration: 0 }] },
  ],
])("a status that breaks a rule for a moment is found: %s", async (_, message, bad) => {
  const namespace = await freshNamespace("oracle");
  const statuses = await watchStatuses(namespace);
  await write(namespace, bad, good);
  await expect(statuses.end()).rejects.toThrow(message);
});

test("good statuses pass, and all of them are seen", async () => {
  const namespace = await freshNamespace("oracle");
  const statuses = await watchStatuses(namespace);
  await write(
    namespace,
    { state: "Pending", conditions: [condition("Ready", "Unknown"), condition("Reconciling", "True")] },
    good,
  );
  await statuses.end();
  expect(statuses.seen.map(({ status }) => status?.state)).toEqual([undefined, "Pending", "Ready"]);
});
