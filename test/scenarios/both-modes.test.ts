import { isDeepStrictEqual } from "node:util";

import { describe, expect } from "vitest";

import type { QueueMode } from "../../src/base/model/index.ts";
import type { EngineLab, HookSpec } from "../support/engine-lab.ts";
import { FuzzWorld } from "../support/fuzz-world.ts";
import { random } from "../support/random.ts";
import { report } from "../support/stories.ts";
import { request } from "../support/state.ts";

const STEPS = 8;

type Roll = (limit: number) => number;

/** What people and the cluster do while nothing fails, one at a time. */
const HAPPENINGS: readonly ((lab: EngineLab, world: FuzzWorld, roll: Roll) => void)[] = [
  (lab, _, roll) => lab.edit({ [`m${roll(4)}`]: `{ x: ${roll(4)} }` }),
  (lab, _, roll) => lab.edit({ [`m${roll(4)}Enabled`]: ["true", "false", undefined][roll(3)] }),
  (lab, _, roll) => lab.edit({ global: `{ z: ${roll(3)} }` }),
  (lab, _, roll) => request(lab.state, roll(2) === 0 ? undefined : `m${roll(4)}`, `t${roll(99)}`),
  (lab, _, roll) => lab.moveRelease(`m${roll(4)}`, roll(2) === 0 ? "delete" : "rollback"),
  (lab, world, roll) => {
    const hooks = world.hooks().filter(({ spec }) => spec.kubernetes !== undefined);
    const hook = hooks[roll(Math.max(1, hooks.length))];
    if (hook === undefined) return;
    world.weather.seen.set(hook.id, roll(4));
    lab.event(hook.id, String(roll(99)));
  },
  (lab, world, roll) => {
    const hooks = world.hooks().filter(({ spec }) => spec.schedules !== undefined);
    const hook = hooks[roll(Math.max(1, hooks.length))];
    if (hook !== undefined) lab.tick(hook.id);
  },
];

/** Named queues are a pace of their own, in both modes. */
function unnamed(hook: HookSpec): HookSpec {
  return {
    ...hook,
    ...(hook.kubernetes && { kubernetes: [{}] }),
    ...(hook.schedules && { schedules: [{}] }),
  };
}

/** Some modules require the one before them, some only come after it. */
function connect(world: FuzzWorld, roll: Roll): void {
  world.globalHooks = world.globalHooks.map(unnamed);
  world.modules = world.modules.map((spec, index) => {
    const before = `m${index - 1}`;
    const module = { ...spec, hooks: (spec.hooks ?? []).map(unnamed) };
    if (index === 0) return module;
    if (roll(4) === 0) return { ...module, requires: { modules: { [before]: "*" }, objects: [] } };
    return roll(4) === 0 ? { ...module, after: [before] } : module;
  });
}

/** What became of the modules, what was done to each in which order, and what its hooks were given. */
async function story(seed: number, queues: QueueMode): Promise<unknown> {
  const world = new FuzzWorld(seed);
  const dice = random(seed + 1_000_000);
  const roll: Roll = (limit) => Math.floor(dice() * limit);
  connect(world, roll);
  const lab = world.lab({}, queues);
  lab.helmTakes = 50;
  await lab.start();
  await lab.run(60_000);
  for (let step = 0; step < STEPS; step++) {
    HAPPENINGS[roll(HAPPENINGS.length)]?.(lab, world, roll);
    await lab.run(60_000);
  }
  expect([...lab.broken, ...lab.describe()]).toEqual([]);
  const owners = ["m0", "m1", "m2", "m3", "global"];
  const of = (line: string): string => owners.find((name) => line.split(/[ /:]/).includes(name)) ?? "global";
  return {
    steps: owners.map((owner) => lab.log.filter((line) => of(line) === owner)),
    inputs: world.hooks().map(({ id }) => lab.inputs(id)),
    enabled: lab.state.view.enabledModules,
    releases: [...lab.releases.values()]
      .map(({ name, status, values }) => [name, status, values])
      .toSorted(([a = ""], [b = ""]) => (a < b ? -1 : 1)),
    phases: [...lab.state.view.modules.values()].map((each) => [each.name, each.enabled, each.phase]),
  };
}

async function sameInBoth(seed: number): Promise<void> {
  const [own, main] = [await story(seed, "own"), await story(seed, "main")];
  if (!isDeepStrictEqual(own, main)) expect(own).toEqual(main);
}

describe("where nothing fails, modules in queues of their own", () => {
  report("end the same, and do and see the same step by step, as in main", { few: 20 }, sameInBoth);
});
