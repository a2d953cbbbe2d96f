import { expect, test } from "vitest";

import type { KubernetesBinding } from "../../../src/base/model/index.ts";
import { EngineLab } from "../../support/engine-lab.ts";
import type { HookSpec, ModuleSpec } from "../../support/engine-lab.ts";

test("bindings of one queue have one start-up run with one context of each group, in a named queue as in main", async () => {
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
  expect(runs).toEqual(["here: 2", "there: 2"]);
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

const pods = (change: Partial<KubernetesBinding> = {}): Partial<KubernetesBinding> => ({
  name: "pods",
  ...change,
});
const one = (...hooks: HookSpec[]): ModuleSpec => ({ name: "one", enabled: true, hooks });

test.each<readonly [string, Partial<HookSpec>, readonly string[]]>([
  [
    "a group in two queues: one each",
    { kubernetes: [pods({ group: "g" }), { name: "nodes", group: "g", queue: "side" }] },
    ["hook one/h: sync pods", "hook one/h: sync nodes"],
  ],
  [
    "two groups: one with a context each",
    { kubernetes: [pods({ group: "g" }), { name: "nodes", group: "f" }] },
    ["hook one/h: sync pods sync nodes"],
  ],
  [
    "three of a group: one, with one context",
    { kubernetes: [pods({ group: "g" }), { name: "nodes", group: "g" }, { name: "maps", group: "g" }] },
    ["hook one/h: sync maps"],
  ],
  [
    "one that is not asked for between two that are: one",
    { kubernetes: [pods(), { name: "nodes", executeOnSynchronization: false }, { name: "maps" }] },
    ["hook one/h: sync pods sync maps"],
  ],
  ["version 0: none", { version: "v0", kubernetes: [pods()] }, []],
  ["not asked for, in main: none", { kubernetes: [pods({ executeOnSynchronization: false })] }, []],
  [
    "not asked for, in a named queue: none",
    { kubernetes: [pods({ executeOnSynchronization: false, queue: "side" })] },
    [],
  ],
])("runs for Synchronization of %s; events follow", async (_, spec, runs) => {
  const lab = new EngineLab({ modules: [one({ name: "h", ...spec })] });
  await lab.start();
  expect(lab.linesOf("hook")).toEqual(runs);
  lab.event("one/h");
  await lab.run();
  expect(lab.linesOf("hook")).toEqual([...runs, "hook one/h: pods"]);
});

test("a global hook without Synchronization in a named queue is not asked again at a converge", async () => {
  const kubernetes = [pods({ executeOnSynchronization: false, queue: "side" })];
  const lab = new EngineLab({ globalHooks: [{ name: "g", kubernetes }] });
  await lab.start();
  expect(lab.unlocked).toEqual(["g/k0"]);
  lab.state.record("convergeRequested", "look");
  await lab.run();
  expect([lab.converges, lab.unlocked]).toEqual([2, ["g/k0"]]);
});

test("a binding that cannot be listed yet is left for later; its hook's others are not", async () => {
  const lab = new EngineLab({ modules: [one({ name: "h", kubernetes: [pods(), { name: "odd" }] })] });
  lab.unlisted.add("k1");
  await lab.start();
  expect(lab.linesOf("hook")).toEqual(["hook one/h: sync pods"]);
  expect(lab.unlocked).toEqual(["one/h/k0"]);
  expect(lab.converges).toBe(1);
});

test("what succeeded in a first run that failed later is not repeated by its retry", async () => {
  const lab = new EngineLab({
    modules: [
      one(
        { name: "a", kubernetes: [pods()] },
        { name: "b", kubernetes: [pods()], act: (_, run) => (run === 1 ? { fail: "not yet" } : {}) },
      ),
    ],
  });
  await lab.start();
  await lab.run(5000);
  expect(lab.linesOf("hook")).toEqual(["a", "b", "b"].map((name) => `hook one/${name}: sync pods`));
});

test("of a global hook with bindings in two queues, only the run that failed is repeated", async () => {
  const act = (_: unknown, run: number) => (run === 2 ? { fail: "not yet" } : {});
  const kubernetes = [pods(), { name: "nodes", queue: "side" }];
  const lab = new EngineLab({ globalHooks: [{ name: "g", kubernetes, act }] });
  await lab.start();
  await lab.run(5000);
  expect(lab.linesOf("hook")).toEqual(["pods", "nodes", "nodes"].map((name) => `hook g: sync ${name}`));
});

test("a run for several bindings that fails is repeated for all of them", async () => {
  const act = (_: unknown, run: number) => (run === 1 ? { fail: "not yet" } : {});
  const lab = new EngineLab({ globalHooks: [{ name: "g", kubernetes: [pods(), { name: "nodes" }], act }] });
  await lab.start();
  expect(lab.unlocked).toEqual([]);
  await lab.run(5000);
  expect(lab.linesOf("hook")).toEqual(["hook g: sync pods sync nodes", "hook g: sync pods sync nodes"]);
  expect(lab.unlocked).toEqual(["g/k0", "g/k1"]);
});

test("objects that cannot be listed fail the run, which says so", async () => {
  const lab = new EngineLab({ modules: [one({ name: "h", kubernetes: [pods()] })] });
  lab.watchFails = "no API server";
  await lab.start();
  expect(lab.state.view.modules.get("one")?.retry).toMatchObject({
    reason: "ApiFailed",
    message: "no API server",
  });
  lab.watchFails = undefined;
  await lab.run(5000);
  expect([lab.linesOf("hook"), lab.linesOf("helm")]).toEqual([["hook one/h: sync pods"], ["helm one"]]);
});

test("one that fails for ever in a named queue keeps no module from being switched off, nor the next one", async () => {
  const lab = new EngineLab({
    modules: [
      one({ name: "h", kubernetes: [pods({ queue: "side" })], act: () => ({ fail: "never" }) }),
      { name: "two", order: 2, enabled: true },
    ],
  });
  await lab.start();
  expect(lab.state.view.modules.get("one")?.lastRun).toMatchObject({
    step: "synchronization",
    result: "Failed",
    message: "its Synchronization in queue side failed: never",
  });
  await lab.run(10_000);
  lab.edit({ oneEnabled: "false" });
  await lab.run();
  expect([lab.converges, lab.linesOf("helm"), lab.quiet]).toEqual([1, ["helm two"], true]);
});

test("no other one is begun once its module's run was overtaken by an edit", async () => {
  const runs: string[] = [];
  const hook = (name: string, takes: number): HookSpec => ({
    name,
    kubernetes: [pods()],
    act: (_, run) => (runs.push(name), run === 1 ? { takes } : {}),
  });
  const lab = new EngineLab({ modules: [one(hook("a", 10_000), hook("b", 0))] });
  await lab.start();
  lab.edit({ oneEnabled: "false" });
  await lab.run(3000);
  expect([runs, lab.quiet, lab.broken]).toEqual([["a"], true, []]);
});
