import { describe, expect } from "vitest";

import { keptFromBefore, waitingForEver } from "../support/fuzz-requirements.ts";
import type { QueueMode } from "../../src/base/model/index.ts";
import { explanationCheck } from "../support/one-explanation.ts";
import { FuzzWorld } from "../support/fuzz-world.ts";
import type { EngineLab } from "../support/engine-lab.ts";
import { report } from "../support/stories.ts";
import { request } from "../support/state.ts";

const STEPS = 40;

/** One thing that may happen to an operator. */
type Happening = (world: FuzzWorld, lab: EngineLab) => void;

const HAPPENINGS: readonly Happening[] = [
  (world, lab) => fireEvent(world, lab),
  (world, lab) => fireEvent(world, lab),
  (world, lab) => {
    const hook = world.pick(world.hooks().filter((each) => each.spec.schedules !== undefined));
    if (hook !== undefined) lab.tick(hook.id);
  },
  (world, lab) => {
    const name = `m${world.below(4)}`;
    lab.edit({ [name]: world.chance(0.2) ? undefined : `{ x: ${world.below(4)} }` });
  },
  (world, lab) => {
    const flag = world.pick(["true", "false", undefined]);
    lab.edit({ [`m${world.below(4)}Enabled`]: flag });
  },
  (world, lab) => lab.edit({ global: `{ z: ${world.below(3)} }` }),
  (world, lab) => {
    const key = `m${world.below(4)}${world.pick(["Maintenance", "Protected"])}`;
    const value = key.endsWith("Protected") ? "true" : "NoResourceReconciliation";
    lab.edit({ [key]: world.chance(0.5) ? value : undefined });
  },
  (world, lab) => lab.edit({ global: world.chance(0.5) ? "{ broken" : "{}" }),
  (_world, lab) => lab.loseConfig(),
  (_world, lab) => lab.edit({}),
  (world, lab) => {
    const name = `m${world.below(4)}`;
    if (lab.state.module(name)?.release?.status !== "deployed") return;
    lab.state.recordModule(name, "objectsFoundMissing", [`ns/Service/${world.below(9)}`]);
  },
  (world, lab) => lab.moveRelease(`m${world.below(4)}`, world.chance(0.5) ? "delete" : "rollback"),
  (world, lab) =>
    request(lab.state, world.chance(0.5) ? undefined : `m${world.below(4)}`, `t${world.below(99)}`),
  (world, lab) => {
    world.modules = world.all
      .filter(() => world.chance(0.8))
      .map((module) => (world.chance(0.15) ? { ...module, problem: "half written" } : module));
    lab.setModules(world.modules);
    lab.state.record("convergeRequested", `directories ${world.below(99)}`);
  },
  (world, lab) => {
    world.weather.seen.set(`script m${world.below(4)}`, world.below(2));
    lab.state.record("convergeRequested", `script ${world.below(99)}`);
  },
  (world) => {
    world.weather.bad = world.chance(0.5) ? 0 : (world.pick([0.1, 0.3, 1]) ?? 0);
  },
  (world, lab) => {
    world.weather.slow = !world.weather.slow;
    lab.helmTakes = world.weather.slow ? world.below(4000) : 0;
  },
];

let eventNumber = 0;

function fireEvent(world: FuzzWorld, lab: EngineLab): void {
  const hook = world.pick(world.hooks().filter((each) => each.spec.kubernetes !== undefined));
  if (hook === undefined) return;
  world.weather.seen.set(hook.id, world.below(4));
  lab.event(hook.id, String(eventNumber++));
}

/** Everything comes right: good weather, a valid ConfigMap, all directories; then time enough for any back-off. */
async function calm(world: FuzzWorld, lab: EngineLab): Promise<void> {
  world.weather.bad = 0;
  world.weather.slow = false;
  lab.helmTakes = 0;
  world.modules = [...world.all];
  lab.setModules(world.modules);
  const undone = [0, 1, 2, 3].flatMap((index) => [`m${index}Maintenance`, `m${index}Protected`]);
  const valid = lab.data["global"]?.includes("broken") === true ? { global: "{}" } : {};
  lab.edit({ ...Object.fromEntries(undone.map((key) => [key, undefined])), ...valid });
  lab.state.record("convergeRequested", "calm");
  for (let minute = 0; minute < 3; minute++) await lab.run(60_000);
}

/** Without what waits for ever for what it requires, and the releases which that keeps: they are of better times. */
function outcome(lab: EngineLab): Record<string, unknown> {
  const kept = keptFromBefore(lab);
  const releases = [...lab.releases]
    .filter(([name]) => !kept.includes(name))
    .map(([name, each]) => [name, each.status, valuesOf(each.values)] as const);
  return {
    releases: releases.toSorted(([a], [b]) => (a < b ? -1 : 1)),
    enabled: lab.state.view.enabledModules,
    waiting: [...lab.state.view.modules.values()].flatMap(({ name, problem, blockedSince }) =>
      problem === undefined && blockedSince !== undefined ? [name] : [],
    ),
    states: [...lab.state.view.modules.values()]
      .filter(({ name }) => !kept.includes(name))
      .map((each) => [
        each.name,
        each.enabled,
        each.enabled ? each.phase : "-",
        each.problem?.message ?? "",
        each.retry?.message ?? "",
      ]),
  };
}

/** Without what hooks once wrote into the ConfigMap: edits may have taken it out since. */
function valuesOf(text: string): unknown {
  if (!text.startsWith("{")) return text;
  return JSON.parse(text, (key, value: unknown) => (key.startsWith("kept-") ? undefined : value));
}

function ascending(numbers: readonly number[]): boolean {
  return numbers.every((each, index) => index === 0 || each >= (numbers[index - 1] ?? 0));
}

async function story(seed: number, queues: QueueMode): Promise<void> {
  const world = new FuzzWorld(seed);
  const lab = world.lab({}, queues);
  if (world.chance(0.3)) world.weather.bad = 0.3;
  const expectOneExplanation = explanationCheck();
  await lab.start();
  for (let step = 0; step < STEPS; step++) {
    world.pick(HAPPENINGS)?.(world, lab);
    if (world.chance(0.7)) await lab.run(world.pick([0, 0, 10, 700, 5000, 40_000]) ?? 0);
    expect(lab.broken).toEqual([]);
    expectOneExplanation(lab);
  }
  await calm(world, lab);
  expect(lab.broken).toEqual([]);
  expect(lab.describe()).toEqual([]);
  for (const [hook, numbers] of world.handled)
    expect(ascending([...new Set(numbers)]), `order of ${hook}`).toBe(true);
  const settled = lab.log.length;
  await lab.run(3_600_000);
  expect(lab.log.slice(settled)).toEqual([]);
  expect(outcome(lab)["waiting"]).toEqual(waitingForEver(lab));
  const twin = world.lab({ ...lab.data }, queues);
  await twin.start();
  await twin.run(60_000);
  expect(outcome(lab)).toEqual(outcome(twin));
}

describe.each<QueueMode>(["main", "own"])(
  "the engine under random events and failures, in virtual time, with modules in %s",
  (queues) => {
    report("ends as an undisturbed start does", { few: 5 }, (seed) => story(seed, queues));
  },
);
