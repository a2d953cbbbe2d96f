import { describe, expect, test } from "vitest";

import { allowsFailure, combine, compactFlood, type QueuedHook } from "../../src/hooks/index.ts";
import type { Hook, HookTrigger } from "../../src/model/index.ts";
import { event, hookWith, kubernetes, schedule, sync, tick } from "./build.ts";

const TEXT = `
configVersion: v1
beforeHelm: 1
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
const HOOKS: Record<string, Hook> = {
  h1: hookWith(TEXT, "h1"),
  h2: hookWith(TEXT, "h2"),
  h3: hookWith(TEXT, "h3"),
};

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
  L: () => ({ type: "lifecycle", binding: "beforeHelm" }),
};

/** `h1:E` is a hook task; anything else is another kind of task. */
function queueOf(text: string): (QueuedHook | undefined)[] {
  return text.split(" ").map((word) => {
    const [name = "", kind = ""] = word.split(":");
    const hook = HOOKS[name];
    const make = MADE[kind];
    return hook === undefined || make === undefined ? undefined : { hook, triggers: [make(hook)] };
  });
}

function shown(triggers: readonly HookTrigger[]): string {
  return triggers
    .map((trigger) => {
      if (trigger.type === "lifecycle") return "L";
      if (trigger.binding.group !== undefined) return trigger.binding.group === "pods" ? "G" : "H";
      return trigger.type === "synchronization" ? "Y" : trigger.binding.name;
    })
    .join(" ");
}

describe("combining (hook-contract §2.7)", () => {
  test.each([
    ["h1:E h1:E h1:S h1:E h2:E h1:E", "E E S E", 4],
    ["h1:E h2:E h3:S", "E", 1],
    ["h1:Ge h1:Ge h1:Gs h1:E h2:E h1:E", "G E", 4],
    ["h1:Gy h1:Gy2 h1:Gs h1:E h1:Gs h1:S h1:Ge enable h1:E", "G E G S G", 7],
    ["h1:Y h1:E h1:E", "Y", 1],
    ["h1:Gy h1:Y h1:Gy2", "G", 1],
    ["h1:E h1:Y", "E", 1],
    ["h1:L h1:E", "L", 1],
    ["h1:E h1:L", "E", 1],
    ["h1:Gs h1:Hs h1:Ge", "G H G", 3],
    ["h1:E", "E", 1],
    ["enable h1:E", "", 0],
  ])("%s", (queue, want, taken) => {
    const combined = combine(queueOf(queue));
    expect(shown(combined.triggers)).toBe(want);
    expect(combined.taken).toBe(taken);
  });

  test("version 0 runs once for each event", () => {
    const hook = hookWith("onKubernetesEvent: [{kind: pod}]");
    const task = { hook, triggers: [event(kubernetes(hook, "onKubernetesEvent"))] };
    expect(combine([task, task])).toEqual({ triggers: task.triggers, taken: 1 });
  });

  test("a run may fail only when each of its triggers may", () => {
    const triggers = (text: string) => combine(queueOf(text)).triggers;
    expect(allowsFailure(triggers("h1:F h1:F"))).toBe(true);
    expect(allowsFailure(triggers("h1:F h1:E"))).toBe(false);
    expect(allowsFailure(triggers("h1:L"))).toBe(false);
    expect(allowsFailure([])).toBe(false);
  });
});

describe("compaction of floods", () => {
  test("the tasks of one hook become one, wherever they stand; of each group the last stays", () => {
    const queue = queueOf("h1:E h2:E h1:Ge h1:S h2:E h1:Gs h1:E h2:E");
    const [h1, ...rest] = compactFlood(queue, 4);
    expect(rest).toEqual([]);
    expect(h1).toMatchObject({ into: 0, absorbed: [2, 3, 5, 6] });
    expect(shown(h1?.triggers ?? [])).toBe("E S G E");
  });

  test("a task that runs alone is not crossed", () => {
    const found = compactFlood(queueOf("h1:E h1:E h1:L h1:E h1:E x"), 2);
    expect(found.map(({ into, absorbed }) => [into, ...absorbed])).toEqual([
      [0, 1],
      [3, 4],
    ]);
  });

  test("a short queue is left alone", () => {
    expect(compactFlood(queueOf("h1:E h1:E h1:E"))).toEqual([]);
  });
});
