import { describe, expect, it } from "vitest";

import { EngineLab } from "../support/engine-lab.ts";
import type { HookSpec } from "../support/engine-lab.ts";

const LONG_WAIT = 600_000;

async function readyLab(): Promise<EngineLab> {
  const lab = new EngineLab({
    modules: [
      { name: "one", order: 1, enabled: true },
      { name: "two", order: 2, enabled: true },
    ],
  });
  await lab.start();
  lab.log.length = 0;
  return lab;
}

describe("runs that an edit overtakes", () => {
  it("a short run ends by itself and runs once more", async () => {
    const lab = await readyLab();
    lab.helmTakes = 1000;
    lab.edit({ one: "x: 1" });
    await lab.run(500);
    lab.edit({ one: "x: 2" });
    await lab.run(5000);
    expect(lab.log).toEqual(["helm one", "release one v2", "helm one", "release one v3"]);
    expect(lab.quiet).toBe(true);
  });

  it("a helm wait is ended three seconds after its run began", async () => {
    const lab = await readyLab();
    lab.helmTakes = LONG_WAIT;
    lab.edit({ one: "x: 1" });
    await lab.run(1000);
    lab.edit({ one: "x: 2" });
    await lab.run(1000);
    expect(lab.log).toEqual(["helm one"]);
    lab.helmTakes = 0;
    await lab.run(1000);
    expect(lab.log).toEqual(["helm one", "helm one", "release one v2"]);
    expect(lab.quiet).toBe(true);
  });

  it.each<readonly [string, (lab: EngineLab) => void]>([
    ["a request", (lab) => lab.state.recordModule("one", "runRequested", "token")],
    ["an absent object", (lab) => lab.state.recordModule("one", "objectsFoundMissing", ["Secret/x"])],
  ])("so is one of a run that nothing in the ConfigMap asked for, but %s", async (_, ask) => {
    const lab = await readyLab();
    lab.helmTakes = LONG_WAIT;
    ask(lab);
    await lab.run(1000);
    lab.edit({ one: "x: 1" });
    lab.helmTakes = 0;
    await lab.run(2000);
    expect(lab.log).toEqual(["helm one", "helm one", "release one v2"]);
    expect(lab.state.view.modules.get("one")?.lastRun?.attempts).toBe(1);
    expect([lab.failures, lab.quiet]).toEqual([[], true]);
  });

  it("the back-off of such a run that fails ends too", async () => {
    const lab = await readyLab();
    lab.helmFails = () => "not now";
    lab.state.recordModule("one", "runRequested", "token");
    await lab.run();
    lab.helmFails = undefined;
    lab.edit({ one: "x: 1" });
    await lab.run();
    expect(lab.log).toEqual(["helm one fails", "helm one", "release one v2"]);
  });

  it("what begins with the edit is no part of that, whether it is a new run or the next try of one", async () => {
    const lab = await readyLab();
    lab.helmTakes = LONG_WAIT;
    lab.edit({ one: "x: 1" });
    await lab.run(10_000);
    expect(lab.log).toEqual(["helm one"]);
    lab.edit({ one: "x: 2" });
    lab.helmTakes = 0;
    lab.helmFails = () => "not now";
    await lab.run(1000);
    lab.helmFails = undefined;
    lab.helmTakes = LONG_WAIT;
    lab.log.length = 0;
    lab.edit({ one: "x: 3" });
    await lab.run(10_000);
    expect(lab.log).toEqual(["helm one"]);
  });

  it("a helm wait of a module that is switched off is ended, the rest is left alone", async () => {
    const lab = await readyLab();
    lab.helmTakes = LONG_WAIT;
    lab.edit({ one: "x: 1" });
    await lab.run(10_000);
    lab.helmTakes = 0;
    lab.edit({ oneEnabled: "false" });
    await lab.run();
    expect([...lab.releases.keys()]).toEqual(["two"]);
    expect(lab.quiet).toBe(true);
  });

  it("one that is edited while its beforeHelm hooks run goes on with the edit, however long helm waits", async () => {
    const hook = { name: "h", lifecycle: { beforeHelm: 1 }, act: () => ({ takes: 1000 }) };
    const lab = new EngineLab({ modules: [{ name: "one", enabled: true, hooks: [hook] }] });
    await lab.start();
    await lab.run(500);
    lab.helmTakes = 60_000;
    lab.edit({ one: "x: 1" });
    await lab.run(LONG_WAIT);
    expect(lab.linesOf("helm")).toEqual(["helm one"]);
    expect(JSON.parse(lab.releases.get("one")?.values ?? "")).toMatchObject({ one: { x: 1 } });
  });

  it("no other hook is begun", async () => {
    const hook = (name: string): HookSpec => ({
      name,
      lifecycle: { beforeHelm: 1 },
      act: (_, run) => ({ takes: run === 1 ? 10_000 : 0 }),
    });
    const lab = new EngineLab({ modules: [{ name: "one", enabled: true, hooks: [hook("b"), hook("a")] }] });
    await lab.start();
    lab.edit({ oneEnabled: "false" });
    await lab.run(3000);
    expect([lab.linesOf("hook"), lab.quiet]).toEqual([["hook one/a: beforeHelm"], true]);
  });

  it("a short one that ends when its reload began anew is no progress of the new one", async () => {
    const lab = await readyLab();
    const left: number[] = [];
    lab.onEnd = () => void left.push(lab.state.view.converge.remaining.length);
    lab.helmTakes = 1000;
    lab.edit({ global: "x: 1" });
    await lab.run(500);
    lab.edit({ global: "x: 2" });
    await lab.run(10_000);
    expect([Math.min(...left), left.at(-1)]).toEqual([0, 0]);
  });

  it("an edit of another module does not end a helm wait", async () => {
    const lab = await readyLab();
    lab.helmTakes = LONG_WAIT;
    lab.edit({ one: "x: 1" });
    await lab.run(10_000);
    lab.edit({ two: "x: 1" });
    await lab.run(10_000);
    expect(lab.log).toEqual(["helm one"]);
  });

  it("any number of edits during runs is no livelock", async () => {
    const lab = await readyLab();
    lab.helmTakes = 1000;
    for (let edit = 0; edit < 20; edit++) {
      lab.edit({ one: `x: ${edit}` });
      await lab.run(900);
    }
    await lab.run(10_000);
    expect(lab.failures).toEqual([]);
    expect(lab.quiet).toBe(true);
  });
});
