import { describe, expect, it } from "vitest";

import { EngineLab } from "../support/engine-lab.ts";
import type { HookAct, HookSpec, ModuleSpec } from "../support/engine-lab.ts";
import { whyOf } from "../report/views.ts";

const MINUTE = 60_000;

/** What the hook of a test does at its next Synchronization, event or tick. */
const next: { act: HookAct } = { act: {} };

const watching = (queue: string): HookSpec => ({
  name: "w",
  kubernetes: [{ queue }],
  act: () => next.act,
});

const own = (
  modules: readonly ModuleSpec[],
  more: Partial<ConstructorParameters<typeof EngineLab>[0]> = {},
) =>
  new EngineLab({
    modules: modules.map((each) => ({ enabled: true, ...each })),
    moduleQueues: "own",
    globalHooks: [{ name: "g", lifecycle: { afterAll: 1 } }],
    ...more,
  });

const later: readonly ModuleSpec[] = [
  { name: "later", order: 2 },
  { name: "last", order: 3 },
];

function why(lab: EngineLab, name: string): string {
  return whyOf({ view: lab.state.view, queues: lab.queues.views() }, name, lab.clock.now()).join("; ");
}

describe("a Synchronization in a named queue", () => {
  it("that fails delays nobody but its module, needs no slot, and is reported", async () => {
    next.act = { fail: "no pods" };
    const lab = own([{ name: "one", hooks: [watching("side")] }, ...later], { parallelModules: 1 });
    await lab.start();
    await lab.run(100);
    expect([...lab.releases.keys()]).toEqual(["later", "last"]);
    expect([lab.converges, lab.state.view.modules.get("one")?.activity]).toEqual([1, "none"]);
    expect(lab.state.view.modules.get("one")?.retry).toMatchObject({
      reason: "HookFailed",
      message: "hook w: its Synchronization in queue side failed: no pods",
    });
    next.act = {};
    await lab.run(5000);
    expect([lab.releases.has("one"), lab.broken, lab.describe()]).toEqual([true, [], []]);
  });

  it("that another module's hook keeps waiting delays nobody else either", async () => {
    const failing: HookSpec = {
      name: "f",
      kubernetes: [{ queue: "side" }],
      act: ([first]) => (first?.type === "event" ? next.act : {}),
    };
    const lab = own([{ name: "first", order: 0, hooks: [failing] }]);
    await lab.start();
    next.act = { fail: "no" };
    lab.event("first/f");
    await lab.run(100);
    const one = { name: "one", enabled: true, hooks: [{ ...watching("side"), act: () => ({}) }] };
    const first = { name: "first", enabled: true, order: 0, hooks: [failing] };
    lab.setModules([first, one, ...later.map((each) => ({ ...each, enabled: true }))]);
    lab.state.record("convergeRequested", "look");
    await lab.run(100);
    expect([...lab.releases.keys()]).toEqual(["first", "later", "last"]);
    expect(lab.state.view.modules.get("one")?.retry?.message).toBe(
      "hook w: its Synchronization waits in queue side for hook first/f: kubernetes, which failed: no",
    );
    next.act = {};
    await lab.run(MINUTE);
    expect([lab.releases.has("one"), lab.describe()]).toEqual([true, []]);
  });

  it("that hangs needs no slot, delays larger numbers for five minutes, and is reported", async () => {
    next.act = { takes: 60 * MINUTE };
    const free: ModuleSpec = { name: "free", order: 9, requires: { modules: {}, objects: [] } };
    const lab = own([{ name: "one", hooks: [watching("side")] }, ...later, free], { parallelModules: 1 });
    await lab.start();
    await lab.run(4 * MINUTE);
    expect([...lab.releases.keys()]).toEqual(["free"]);
    expect(why(lab, "one")).toContain("waits for the Synchronization of w in queue side");
    expect(why(lab, "later")).toContain("waits for the first run of one");
    await lab.run(MINUTE);
    expect([...lab.releases.keys()]).toEqual(["free", "later", "last"]);
    expect([lab.converges, lab.linesOf("hook g: afterAll").length]).toEqual([1, 1]);
    await lab.run(60 * MINUTE);
    expect([lab.releases.has("one"), lab.broken, lab.describe()]).toEqual([true, [], []]);
  });
});

it("a first run that hangs delays larger numbers, and those that come after it, for five minutes", async () => {
  const hangs: HookSpec = { name: "h", lifecycle: { beforeHelm: 1 }, act: () => ({ takes: 60 * MINUTE }) };
  const lab = own([{ name: "one", hooks: [hangs] }, ...later, { name: "after", order: 0, after: ["one"] }]);
  await lab.start();
  await lab.run(5 * MINUTE - 1);
  expect([...lab.releases.keys()]).toEqual([]);
  await lab.run(1);
  expect([...lab.releases.keys()].toSorted()).toEqual(["after", "last", "later"]);
  expect(lab.converges).toBe(1);
});

describe.each([
  ["fails", { fail: "no" }, 0],
  ["hangs", { takes: 60 * MINUTE }, 5 * MINUTE],
] as const)("a hook of a module that has run, in its queue, that %s", (_what, act, limit) => {
  it("delays no first run, and the converge ends", async () => {
    next.act = {};
    const ready: ModuleSpec = { name: "one", enabled: true, order: 1, hooks: [watching("module/one")] };
    const lab = own([ready]);
    await lab.start();
    next.act = act;
    lab.event("one/w");
    await lab.run(100);
    lab.setModules([ready, ...later.map((each) => ({ ...each, enabled: true }))]);
    lab.state.record("convergeRequested", "look");
    await lab.run(100);
    expect([...lab.releases.keys()]).toEqual(["one", "later", "last"]);
    await lab.run(limit);
    expect([lab.converges, lab.linesOf("hook g: afterAll").length]).toEqual([2, 2]);
    expect(lab.state.view.converge.phase).toBe("idle");
    next.act = {};
    await lab.run(90 * MINUTE);
    expect([lab.linesOf("helm one").length, lab.broken, lab.describe()]).toEqual([2, [], []]);
  });
});
