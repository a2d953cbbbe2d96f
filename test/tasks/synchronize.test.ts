import { expect, test } from "vitest";

import { EngineLab } from "../support/engine-lab.ts";

test("a group in a named queue has one start-up run, as in main", async () => {
  const grouped = (queue: string) => [
    { name: "pods", group: "g", queue },
    { name: "nodes", group: "g", queue },
    { name: "alone", queue },
  ];
  const runs: string[] = [];
  const act = (hook: string) => (triggers: readonly unknown[]) => {
    runs.push(`${hook}: ${triggers.length}`);
    return {};
  };
  const lab = new EngineLab({
    globalHooks: [
      { name: "here", kubernetes: grouped("main"), act: act("here") },
      { name: "there", kubernetes: grouped("side"), act: act("there") },
    ],
  });
  await lab.start();
  expect(runs).toEqual(["here: 1", "here: 1", "there: 1", "there: 1"]);
  expect(lab.unlocked.filter((id) => id.startsWith("there")).toSorted()).toEqual([
    "there/k0",
    "there/k1",
    "there/k2",
  ]);
});

test.each([
  [true, ["hook g: sync pods", "hook g: sync pods", "hook g: beforeAll"]],
  [false, ["hook g: sync pods", "hook g: beforeAll", "hook g: sync pods"]],
])("main waits for the Synchronization of a named queue: %s", async (waitForSynchronization, order) => {
  const lab = new EngineLab({
    globalHooks: [
      {
        name: "g",
        lifecycle: { beforeAll: 1 },
        kubernetes: [{ name: "pods", queue: "side", waitForSynchronization }],
        act: (triggers, run) =>
          triggers[0]?.type === "synchronization" && run < 2 ? { fail: "not yet" } : {},
      },
    ],
  });
  await lab.start();
  expect(lab.unlocked).toEqual([]);
  await lab.run(5000);
  expect(lab.linesOf("hook")).toEqual(order);
  expect(lab.unlocked).toEqual(["g/k0"]);
});
