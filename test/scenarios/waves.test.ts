import { describe, expect } from "vitest";

import type { QueueMode } from "../../src/base/model/index.ts";
import { simulateStart } from "../../src/engine/plan/index.ts";
import { EngineLab } from "../support/engine-lab.ts";
import type { ModuleSpec } from "../support/engine-lab.ts";
import { requiring } from "../support/fuzz-requirements.ts";
import { random } from "../support/random.ts";
import { report } from "../support/stories.ts";

// docs/reference/commands.md, "plan": its waves are the order in which modules run.

function modulesOf(seed: number): readonly ModuleSpec[] {
  const roll = random(seed);
  const modules = Array.from({ length: 3 + Math.floor(roll() * 6) }, (_, index) => ({
    name: `m${index}`,
    order: Math.floor(roll() * 3),
    enabled: roll() < 0.9,
    // As long as all others.
    hooks: [{ name: "h", lifecycle: { beforeHelm: 1 }, act: () => ({ takes: 1000 }) }],
  }));
  return requiring(modules, seed, roll);
}

/** Modules by the second of their first run, in order. */
async function runsOf(
  modules: readonly ModuleSpec[],
  moduleQueues: QueueMode,
): Promise<{ runs: string[][]; lab: EngineLab }> {
  const lab = new EngineLab({ modules, moduleQueues, parallelModules: 100 });
  const from = lab.clock.now();
  const runs = new Map<number, string[]>();
  lab.helmFails = (name) => {
    const second = Math.floor((lab.clock.now() - from) / 1000);
    runs.set(second, [...(runs.get(second) ?? []), name]);
    return undefined;
  };
  await lab.start();
  await lab.run(60_000);
  return { runs: [...runs.values()], lab };
}

const MODES: readonly QueueMode[] = ["own", "main"];

async function runInWaves(seed: number, mode: QueueMode): Promise<void> {
  const { runs, lab } = await runsOf(modulesOf(seed), mode);
  const modules = new Map(
    [...lab.state.view.modules].map(([name, view]) => [name, { ...view, phase: "new" as const }]),
  );
  const { waves, blockedModules } = simulateStart({ ...lab.state.view, modules });
  const sorted = (names: readonly string[]): string[] => names.toSorted();
  expect(runs.map(sorted)).toEqual(waves.map(sorted));
  for (const name of blockedModules.keys()) expect(lab.state.view.modules.get(name)?.phase).toBe("new");
}

describe.each(MODES)("in the queues %s, if all take equally long", (mode) => {
  report("modules run in the waves of plan", { few: 20 }, (seed) => runInWaves(seed, mode));
});
