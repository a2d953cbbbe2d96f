import { describe, expect, it } from "vitest";

import { evaluateModule } from "../../src/report/explain/module-state.ts";
import { EngineLab, type HookAct, type HookSpec, type ModuleSpec } from "../support/engine-lab.ts";

// docs/reference/hooks.md, "Batch hooks": the readiness probe of a module.

const PROBE = { name: "readiness", queue: "readiness/one", allowFailure: true };
const probe = (act: (run: number) => HookAct, name = "probe"): HookSpec => ({
  name,
  item: "ready",
  schedules: [PROBE],
  act: (_, run) => act(run),
});
const one = (...hooks: HookSpec[]): ModuleSpec => ({
  name: "one",
  order: 1,
  enabled: true,
  chart: "none",
  hooks,
});
const labOf = (...modules: ModuleSpec[]): EngineLab => new EngineLab({ modules, ready: "healthy" });

function stateOf(lab: EngineLab): readonly (string | undefined)[] {
  const view = lab.state.view.modules.get("one");
  if (view === undefined) return [];
  const evaluation = evaluateModule(view, { now: lab.clock.now() });
  return [evaluation.state, evaluation.ready, evaluation.reason, evaluation.message];
}

async function tick(lab: EngineLab): Promise<void> {
  lab.tick("one/probe");
  await lab.run(1);
}

describe("a module with a readiness probe", () => {
  it("is Progressing until the first answer, Unhealthy while it fails, Ready when it succeeds", async () => {
    const answers: HookAct[] = [{ fail: "exit code 1: no leader" }, { fail: "exit code 1: no leader" }, {}];
    const lab = labOf(one(probe((run) => answers[run - 1] ?? {})));
    await lab.start();
    expect(stateOf(lab)).toEqual([
      "Progressing",
      "Unknown",
      "Progressing",
      "Waits for the first readiness probe by probe",
    ]);
    await tick(lab);
    const failing = [
      "Unhealthy",
      "False",
      "ReadinessProbeFailed",
      "The readiness probe by probe fails: exit code 1: no leader; where it cannot work in this cluster, set health.readinessProbe: false in addon.yaml",
    ];
    expect(stateOf(lab)).toEqual(failing);
    await lab.run(60_000);
    expect(lab.linesOf("hook one/probe")).toHaveLength(1);
    await tick(lab);
    expect(stateOf(lab)).toEqual(failing);
    await tick(lab);
    expect(stateOf(lab).slice(0, 2)).toEqual(["Ready", "True"]);
    expect(lab.linesOf("hook one/probe")).toHaveLength(3);
  });

  it("that takes long or fails for ever blocks neither main nor runs of its module, and does not pile up", async () => {
    const slow = probe(() => ({ fail: "never", takes: 30_000 }));
    const lab = labOf(one(slow, { name: "h", lifecycle: { beforeHelm: 1 }, schedules: [{ name: "tock" }] }));
    await lab.start();
    for (const _ of [1, 2, 3, 4]) await tick(lab);
    lab.tick("one/h");
    lab.edit({ one: "{a: 1}" });
    await lab.run(10_000);
    const ran = ["beforeHelm", "tock", "beforeHelm"].map((binding) => `hook one/h: ${binding}`);
    expect(lab.linesOf("hook one/h").toSorted()).toEqual(ran.toSorted());
    await lab.run(100_000);
    // The one under way, and one for the ticks that came meanwhile.
    expect(lab.linesOf("hook one/probe")).toHaveLength(2);
    expect(stateOf(lab)[0]).toBe("Unhealthy");
  });

  it("that is switched off and on again waits for a new answer", async () => {
    const lab = labOf(one(probe(() => ({ fail: "no" }))));
    await lab.start();
    await tick(lab);
    lab.edit({ oneEnabled: "false" });
    await lab.run(10_000);
    expect(stateOf(lab)[0]).toBe("Disabled");
    lab.edit({ oneEnabled: "true" });
    await lab.run(10_000);
    expect(stateOf(lab)[0]).toBe("Progressing");
  });

  it("keeps those that require it waiting until it succeeds", async () => {
    const requires = { modules: { one: "*" } };
    const hooks = [{ name: "h", lifecycle: { beforeHelm: 1 } }];
    const two: ModuleSpec = { name: "two", order: 2, enabled: true, chart: "none", requires, hooks };
    const lab = labOf(one(probe((run) => (run === 1 ? { fail: "no" } : {}))), two);
    await lab.start();
    await tick(lab);
    expect(lab.linesOf("hook two/h")).toEqual([]);
    await tick(lab);
    await lab.run(10_000);
    expect(lab.linesOf("hook two/h")).toHaveLength(1);
  });

  it("with a second probe requires action", async () => {
    const lab = labOf(
      one(
        probe(() => ({})),
        probe(() => ({}), "probe2"),
      ),
    );
    await lab.start();
    expect(lab.state.view.modules.get("one")?.problem).toMatchObject({
      key: "readiness",
      message: expect.stringMatching(/^has a readiness probe, and so has .*probe$/),
    });
  });

  it("is Ready without it where addon.yaml leaves it out", async () => {
    const failing = one(probe(() => ({ fail: "no matches for kind" })));
    const lab = labOf({ ...failing, health: { readinessProbe: false } });
    await lab.start();
    await tick(lab);
    expect(stateOf(lab).slice(0, 2)).toEqual(["Ready", "True"]);
    expect(lab.linesOf("hook one/probe")).toEqual([]);
  });

  it("is Unhealthy also where Ready means applied", async () => {
    const lab = new EngineLab({ modules: [one(probe(() => ({ fail: "no" })))] });
    await lab.start();
    await tick(lab);
    expect(stateOf(lab)[0]).toBe("Unhealthy");
  });
});
