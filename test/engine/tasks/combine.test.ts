import { describe, expect, test } from "vitest";

import { allowsFailure, buildHookTask } from "../../../src/hooks/bindings/index.ts";
import type { HookRunResult } from "../../../src/hooks/index.ts";
import { silentLogger } from "../../../src/base/index.ts";
import type { Hook, HookTrigger, Task } from "../../../src/base/model/index.ts";
import { Queues } from "../../../src/engine/queue/index.ts";
import { State } from "../../../src/engine/state/index.ts";
import { runTask } from "../../../src/engine/tasks/index.ts";
import type { Ports } from "../../../src/engine/tasks/index.ts";
import { Tracer } from "../../../src/base/trace/index.ts";
import { event, hookWith, kubernetes, lifecycle, schedule, sync, tick } from "../../hooks/build.ts";
import { ManualClock, settle } from "../../support/clock.ts";

const TEXT = `
configVersion: v1
beforeAll: 1
schedule:
- {name: S, crontab: "* * * * *"}
- {name: G-schedule, crontab: "* * * * *", group: pods}
- {name: H-schedule, crontab: "* * * * *", group: other}
kubernetes:
- {name: E, kind: Pod}
- {name: F, kind: Pod, allowFailure: true}
- {name: G, kind: Pod, group: pods}
- {name: G2, kind: Pod, group: pods}
`;
const V0 = "onKubernetesEvent: [{kind: pod}]";

const HOOKS: Record<string, Hook> = {
  ...Object.fromEntries(["h1", "h2", "h3"].map((name) => [name, hookWith(TEXT, name, "global")])),
  old: hookWith(V0, "old", "global"),
};

/** E, F: events; S: schedule; Y: Synchronization; G, H: of a group, by s(chedule), e(vent), y(Synchronization). */
const MADE: Record<string, (hook: Hook) => HookTrigger> = {
  E: (hook) => event(kubernetes(hook, "E")),
  F: (hook) => event(kubernetes(hook, "F")),
  S: (hook) => tick(schedule(hook, "S")),
  Y: (hook) => sync(kubernetes(hook, "E")),
  Gs: (hook) => tick(schedule(hook, "G-schedule")),
  Hs: (hook) => tick(schedule(hook, "H-schedule")),
  Ge: (hook) => event(kubernetes(hook, "G")),
  Gy: (hook) => sync(kubernetes(hook, "G")),
  Gy2: (hook) => sync(kubernetes(hook, "G2")),
  L: () => lifecycle("beforeAll"),
  V: (hook) => event(kubernetes(hook, "onKubernetesEvent")),
};

/** `h1:E` is a hook task; `x` is another kind of task. */
function taskOf(word: string): Task {
  const [name = "", kind = ""] = word.split(":");
  const hook = HOOKS[name];
  const make = MADE[kind];
  if (hook === undefined || make === undefined) return { kind: "ensure-crds", modules: [] };
  return buildHookTask(hook, make(hook));
}

function displayed(triggers: readonly HookTrigger[]): string {
  return triggers
    .map((trigger) => {
      if (trigger.type === "lifecycle") return "L";
      if (trigger.binding.group !== undefined) return trigger.binding.group === "pods" ? "G" : "H";
      return trigger.type === "synchronization" ? "Y" : trigger.binding.name;
    })
    .join(" ");
}

const NOTHING: HookRunResult = {
  result: undefined,
  output: { configPatchText: "", valuesPatchText: "", metrics: [], objects: [], answers: {} },
};

interface Run {
  readonly hook: string;
  readonly contexts: string;
  /** Places in the queue at its start, its own among them. */
  readonly left: number;
}

/** The real queue and the real task of a hook run, over hooks that only note what they were reported. */
async function runsOf(words: string): Promise<Run[]> {
  const runs: Run[] = [];
  const clock = new ManualClock();
  const unlocked: string[] = [];
  const queues: Queues<Task> = new Queues<Task>({
    clock,
    bounds: { minMs: 1, maxMs: 1 },
    random: () => 0,
    run: (batch, context) => runTask(ports, batch, context),
  });
  const state = new State({ clock });
  state.recordGlobalHooks(Object.values(HOOKS));
  // Only what a run of a global hook reaches.
  const ports = {
    state,
    queues,
    clock,
    logger: silentLogger,
    tracer: new Tracer({ clock }),
    watches: {
      watchGeneration: () => 1,
      snapshots: () => ({ byBindingName: () => [], byBindingId: () => [] }),
      unlock: (_: Hook, ids: readonly string[]) => void unlocked.push(...ids),
    },
    restoreChart: () => Promise.resolve(),
    releases: { ensureCrds: () => Promise.resolve() },
    report: { hookRun: () => {} },
    applyObjects: () => Promise.resolve(),
    hookMetrics: { apply: () => {} },
    runHook: ({ hook, triggers }: { hook: Hook; triggers: readonly HookTrigger[] }) => {
      const left = queues.views()[0]?.tasks.length ?? 0;
      runs.push({ hook: hook.name, contexts: displayed(triggers), left });
      return Promise.resolve(NOTHING);
    },
  } as unknown as Ports;
  for (const word of words.split(" ")) queues.offer("main", taskOf(word));
  await settle();
  expect(queues.views()[0]?.length).toBe(0);
  return runs;
}

describe("combining", () => {
  test.each([
    ["h1:E h1:E h1:S h1:E h2:E h1:E", "E E S E", 3],
    ["h1:E h2:E h3:S", "E", 3],
    ["h1:Ge h1:Ge h1:Gs h1:E h2:E h1:E", "G E", 3],
    ["h1:Gy h1:Gy2 h1:Gs h1:E h1:Ge h1:S h1:Ge x h1:E", "G E G S G", 3],
    // A second tick of a binding is dropped while the first waits.
    ["h1:E h1:Gs h1:E h1:Gs h1:S h1:S", "E G E S", 1],
    ["h1:Y h1:E h1:E", "Y", 3],
    ["h1:Gy h1:Y h1:Gy2", "G Y G", 1],
    ["h1:Y h1:Y h1:E", "Y Y", 2],
    ["h1:Y h1:Gy h1:Gy2", "Y G", 1],
    ["h1:Y h2:Y h1:Y", "Y", 3],
    ["h1:E h1:Y", "E", 2],
    ["h1:L h1:E", "L", 2],
    ["h1:E h1:L", "E", 2],
    ["h1:Gs h1:Hs h1:Ge", "G H G", 1],
    ["h1:E", "E", 1],
    ["old:V old:V", "onKubernetesEvent", 2],
  ])("%s", async (words, contexts, left) => {
    const [first] = await runsOf(words);
    expect(first).toMatchObject({ contexts, left });
  });

  test("a run may fail only when each of its triggers may", () => {
    const triggers = (words: string) =>
      words.split(" ").map((word) => (MADE[word] as (hook: Hook) => HookTrigger)(HOOKS["h1"] as Hook));
    expect(allowsFailure(triggers("F F"))).toBe(true);
    expect(allowsFailure(triggers("F E"))).toBe(false);
    expect(allowsFailure(triggers("L"))).toBe(false);
    expect(allowsFailure([])).toBe(false);
  });
});

describe("a flood", () => {
  const times = (count: number, words: string): string =>
    Array.from({ length: count }, () => words).join(" ");

  test("the tasks of one hook become one, wherever they stand; of each group the last stays", async () => {
    const runs = await runsOf(`x ${times(120, "h1:E h2:E h1:Ge h3:E")} h1:S`);
    const [h1, h2] = runs;
    expect(h1?.hook).toBe("h1");
    expect(h1?.contexts.replaceAll("E ", "")).toBe("G");
    expect(h1?.contexts.split("E ").length).toBeGreaterThan(50);
    expect(h2?.contexts.split(" ").length).toBeGreaterThan(50);
    expect(runs.length).toBeLessThan(100);
    const all = runs.flatMap(({ contexts }) => contexts.split(" "));
    expect(all.filter((each) => each === "E")).toHaveLength(360);
    expect(all.filter((each) => each === "S")).toHaveLength(1);
  });

  test("a task that runs alone is not overtaken by its hook's others", async () => {
    const runs = await runsOf(`x ${times(80, "h1:E h2:E")} h1:Y ${times(80, "h1:E h2:E")}`);
    const h1 = runs.filter(({ hook }) => hook === "h1").map(({ contexts }) => contexts);
    expect(h1.indexOf("Y")).toBe(1);
    expect(h1[0]?.split(" ")).toHaveLength(80);
  });

  test("a short queue is left as it is", async () => {
    const runs = await runsOf(`x ${times(40, "h1:E h2:E")}`);
    expect(runs).toHaveLength(80);
  });
});
