import { describe, expect, it } from "vitest";

import { describeCause } from "../../src/base/model/index.ts";
import { EngineLab, type HookSpec } from "../support/engine-lab.ts";

describe("an edit of the ConfigMap while a module fails", () => {
  it("converges at once, although a hook's change of globals waits for a converge already", async () => {
    let broken = false;
    const lab = new EngineLab({
      globalHooks: [
        {
          name: "g",
          kubernetes: [{ queue: "side", executeOnSynchronization: false }],
          act: () => ({ values: [{ op: "add", path: "/global/seen", value: 1 }] }),
        },
      ],
      modules: [
        { name: "two", order: 1, enabled: true },
        {
          name: "one",
          order: 2,
          enabled: true,
          hooks: [{ name: "h", lifecycle: { beforeHelm: 1 }, act: () => (broken ? { fail: "never" } : {}) }],
        },
      ],
    });
    await lab.start();
    broken = true;
    lab.helmTakes = 1000;
    lab.edit({ two: "{ x: 1 }" });
    await lab.run(10);
    lab.log.length = 0;
    // Both wait for the run of two; meanwhile a hook changes globals as well.
    lab.edit({ global: "{ z: 1 }", one: "{ x: 1 }" });
    await lab.run(10);
    lab.event("g");
    await lab.run(3000);
    expect(lab.broken).toEqual([]);
    expect(lab.log).toEqual([
      "hook g: kubernetes",
      "release two v2",
      "helm two",
      "release two v3",
      "hook one/h: beforeHelm",
    ]);
  });
});

describe("edits of the ConfigMap while a module runs", () => {
  it.each([
    ["at once, in the order of modules", [{ three: "{ x: 1 }", two: "{ x: 1 }" }], ["two", "three"]],
    [
      "one after another, in the order of the edits",
      [{ three: "{ x: 1 }" }, { two: "{ x: 1 }" }],
      ["three", "two"],
    ],
  ])("run the edited modules %s", async (_, edits, expected) => {
    const names = ["one", "two", "three"];
    const lab = new EngineLab({
      modules: names.map((name, order) => ({ name, order, enabled: true })),
    });
    await lab.start();
    lab.helmTakes = 1000;
    lab.edit({ one: "{ x: 1 }" });
    await lab.run(10);
    lab.log.length = 0;
    for (const edit of edits) {
      lab.edit(edit);
      await lab.run(10);
    }
    await lab.run(5000);
    expect(lab.log.filter((line) => line.startsWith("helm"))).toEqual(expected.map((name) => `helm ${name}`));
  });
});

describe("a request for a converge while one is delayed by a failing module", () => {
  it("starts it anew, with the directories as they are now", async () => {
    const bad = { name: "h", lifecycle: { beforeHelm: 1 }, act: () => ({ fail: "never" }) };
    const lab = new EngineLab({
      modules: [
        { name: "one", order: 1, enabled: true, hooks: [bad] },
        { name: "two", order: 2, enabled: true },
      ],
    });
    await lab.start();
    lab.setModules([
      { name: "one", order: 1, enabled: true },
      { name: "two", order: 2, enabled: true },
    ]);
    lab.state.record("convergeRequested", "mended");
    await lab.run();
    expect(lab.log).toEqual([
      "hook one/h: beforeHelm",
      "helm one",
      "release one v1",
      "helm two",
      "release two v1",
      "converged",
    ]);
    expect(lab.state.view.handledToken).toBe("mended");
  });

  it("waits for one that gets on", async () => {
    const lab = new EngineLab({ modules: [{ name: "one", enabled: true }] });
    lab.helmTakes = 1000;
    await lab.start();
    lab.state.record("convergeRequested", "more");
    await lab.run(5000);
    expect(lab.log).toEqual(["helm one", "release one v1", "converged", "helm one", "converged"]);
  });
});

describe("an edit while hooks take longer than their period", () => {
  it("converges after the run under way, and a schedule that waits already is not added again", async () => {
    const slow = (name: string): HookSpec => ({ name, schedules: [{}], act: () => ({ takes: 700 }) });
    const lab = new EngineLab({
      globalHooks: [slow("g"), slow("k")],
      modules: [{ name: "one" }, { name: "two", enabled: true }],
    });
    lab.edit({ oneEnabled: "true" });
    await lab.start();
    const tick = async (): Promise<void> => {
      lab.tick("g");
      lab.tick("k");
      await lab.run(250);
    };
    for (let count = 0; count < 10; count++) await tick();
    expect(lab.describe().filter((line) => line.includes("schedule"))).toHaveLength(3);
    lab.log.length = 0;
    lab.edit({ oneEnabled: "false" });
    for (let count = 0; count < 8; count++) await tick();
    expect(lab.log.slice(0, 2)).toEqual(["one off", "uninstall one"]);
  });
});

describe("an edit that a run of another cause contains", () => {
  type World = { readonly lab: EngineLab; readonly causes: () => string[] };
  /** `one` runs for a second before `two`, whose helm fails as long as `x` is not 2. */
  const startWorld = async (moduleQueues: "main" | "own"): Promise<World> => {
    const names = ["one", "two"];
    const modules = names.map((name, order) => ({
      name,
      order,
      enabled: true,
      ...(name === "two" && { after: ["one"] }),
    }));
    const lab = new EngineLab({ modules, moduleQueues, config: { two: "{ x: 0 }" } });
    lab.helmTakes = 1000;
    lab.helmFails = (name) =>
      name === "two" && lab.data["two"] !== "{ x: 2 }" ? "does not work" : undefined;
    const causes: string[] = [];
    lab.state.onChange(({ modules: views }) => {
      const { lastRun } = views.get("two") ?? {};
      if (lastRun !== undefined) causes.push(`${lastRun.attempts}: ${describeCause(lastRun.cause)}`);
    });
    await lab.start();
    return { lab, causes: () => causes.filter((each, index) => each !== causes[index - 1]) };
  };

  it.each(["main", "own"] as const)("names its run before the first try (%s queues)", async (queues) => {
    const { lab, causes } = await startWorld(queues);
    lab.edit({ two: "{ x: 1 }" });
    await lab.run(20_000);
    expect(causes().slice(0, 2)).toEqual(["1: ConfigMap section changed", "2: ConfigMap section changed"]);
  });

  it.each(["main", "own"] as const)("names the retries (%s queues)", async (queues) => {
    const { lab, causes } = await startWorld(queues);
    await lab.run(5000);
    expect(causes()).toEqual(["1: start-up"]);
    lab.edit({ two: "{ x: 1 }" });
    await lab.run(20_000);
    lab.edit({ one: "{ y: 1 }", two: "{ x: 2 }" });
    await lab.run(60_000);
    expect(
      new Set(
        causes()
          .slice(1)
          .map((each) => each.replace(/^\d+: /, "")),
      ),
    ).toEqual(new Set(["ConfigMap section changed"]));
    expect(lab.state.view.modules.get("two")?.lastRun?.result).toBe("Succeeded");
  });

  it("names a run in progress that uses it, but not an edit of another module", async () => {
    const hook: HookSpec = { name: "h", lifecycle: { beforeHelm: 1 }, act: () => ({ takes: 500 }) };
    const lab = new EngineLab({
      modules: [
        { name: "one", order: 1, enabled: true, hooks: [hook] },
        { name: "two", order: 2, enabled: true, hooks: [hook] },
      ],
    });
    await lab.start();
    await lab.run(100);
    lab.edit({ one: "{ x: 1 }" });
    await lab.run(5000);
    const causes = ["one", "two"].map((name) => lab.state.view.modules.get(name)?.lastRun?.cause.kind);
    expect(causes).toEqual(["section", "start-up"]);
  });
});
