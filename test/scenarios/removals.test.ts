import { describe, expect, it } from "vitest";

import type { OverviewRow, Overview } from "../../src/report/index.ts";
import { renderStatus } from "../../src/main/commands/operator/tables.ts";
import { EngineLab } from "../support/engine-lab.ts";
import type { ModuleSpec } from "../support/engine-lab.ts";
import { overviewOf } from "../report/views.ts";

/** What the operator reports of itself and of all modules now. */
function reported(lab: EngineLab): Overview {
  return overviewOf({ view: lab.state.view, queues: lab.queues.views() }, lab.clock.now());
}

function rowOf(lab: EngineLab, name: string): OverviewRow | undefined {
  return reported(lab).modules.find((row) => row.name === name);
}

const LOOK = { now: 0, columns: 200, paint: (_colour: string, text: string) => text };

/** Longer than any test. */
const HANGS = 3_600_000;

describe("a module that is off and waits for its removal", () => {
  it.each(["main", "own"] as const)("is not Disabled from a start on (%s)", async (moduleQueues) => {
    const hooks = [{ name: "h", lifecycle: { afterDeleteHelm: 1 } }];
    const lab = new EngineLab({
      moduleQueues,
      modules: [
        { name: "a", order: 1 },
        { name: "b", order: 2, hooks },
        { name: "c", order: 3 },
        { name: "never-on", order: 4 },
      ],
    });
    for (const name of ["a", "b", "c"]) lab.addRelease(name);
    // Only its hooks are left to run.
    const halfway = lab.releases.get("b");
    if (halfway !== undefined) lab.releases.set("b", { ...halfway, status: "uninstalled" });
    lab.uninstallTakes = HANGS;
    const seen = new Set<string>();
    lab.state.onChange(() => {
      for (const { name, state, ready } of reported(lab).modules) seen.add(`${name}: ${state}, ${ready}`);
    });
    await lab.start();
    expect([...seen].filter((each) => each.includes("Disabled"))).toEqual(["never-on: Disabled, True"]);
    expect(["a", "b", "c"].map((name) => rowOf(lab, name)?.state)).toEqual([
      "Pending",
      "Pending",
      "Deleting",
    ]);
    expect(rowOf(lab, "a")?.message).toBe("waits for the removal of c");
    lab.uninstallTakes = 0;
    await lab.run(HANGS);
    expect(["a", "b", "c"].map((name) => rowOf(lab, name)?.state)).toEqual(Array(3).fill("Disabled"));
  });
});

describe("a module that its ModuleSource does not name any more", () => {
  it.each(["main", "own"] as const)("is removed, however long that takes (%s)", async (moduleQueues) => {
    const hooks = [{ name: "h", lifecycle: { beforeDeleteHelm: 1 }, act: () => ({ takes: 60_000 }) }];
    const web = { name: "web", enabled: true, hooks };
    const lab = new EngineLab({ moduleQueues, modules: [web] });
    await lab.start();
    lab.setModules([{ ...web, removedFromSource: true }]);
    lab.uninstallTakes = 60_000;
    lab.state.record("convergeRequested", "second check");
    await lab.run(10 * 60_000);
    expect(lab.linesOf("hook web/h")).toEqual(["hook web/h: beforeDeleteHelm"]);
    expect(lab.linesOf("uninstall")).toEqual(["uninstall web"]);
    expect(rowOf(lab, "web")).toMatchObject({ state: "Disabled", ready: "True" });
  });

  it("is no invalid module if the deletion limit blocks its removal", async () => {
    const names = ["a", "b", "c", "d", "e"];
    const lab = new EngineLab({ deletionLimit: "3,50%", modules: modules(names) });
    await lab.start();
    lab.setModules(modules(names).map((module) => ({ ...module, removedFromSource: true })));
    lab.state.record("convergeRequested", "second check");
    await lab.run();
    expect(lab.linesOf("uninstall")).toEqual([]);
    expect(reported(lab)).toMatchObject({ reason: "RemovalHeld", ready: "False" });
  });
});

const modules = (names: readonly string[]): ModuleSpec[] =>
  names.map((name, at) => ({ name, order: at + 1, enabled: true }));

const moved = { global: "{ moved: true }" };

describe.each(["main", "own"] as const)("what delays a converge is reported (%s)", (moduleQueues) => {
  it("a removal that hangs, since when, and that all wait for it", async () => {
    const lab = new EngineLab({
      moduleQueues,
      modules: [...modules(["a", "b", "nats"]), { name: "new", order: 9 }],
    });
    await lab.start();
    lab.uninstallTakes = HANGS;
    const since = `${new Date(lab.clock.now()).toISOString().slice(0, 19)}Z`;
    lab.helmWaits = { name: "Job/bye (pre-delete)", since: lab.clock.now() };
    lab.edit({ bEnabled: "false", natsEnabled: "false", newEnabled: "true", ...moved });
    await lab.run(60_000);
    expect(reported(lab)).toMatchObject({
      state: "Running",
      ready: "Unknown",
      message:
        `Converge of all modules (ConfigMap changed): waits for the removal of nats since ${since}: ` +
        `Helm has been waiting for the chart hook Job/bye (pre-delete) since ${since}`,
      converge: { phase: "modules", progress: "0/2", remaining: 2 },
    });
    expect(reported(lab).converge.waitingSeconds).toBeUndefined();
    expect(renderStatus(reported(lab), LOOK)).toContain(
      "0 of 2 done, the removal of nats has been running for 1m0s, 2 wait (",
    );
    for (const name of ["a", "b", "new"])
      expect(rowOf(lab, name)).toMatchObject({ state: "Pending", message: "waits for the removal of nats" });
  });

  it("CRDs that cannot be applied, with the error, and no module in their place", async () => {
    const lab = new EngineLab({
      moduleQueues,
      modules: [{ name: "a", order: 1, enabled: true, crds: ["refused.yaml"] }, ...modules(["b"])],
    });
    await lab.start();
    await lab.run(5000);
    expect(reported(lab)).toMatchObject({
      state: "Retrying",
      ready: "False",
      message: "First converge of all modules is blocked: the CRDs of modules failed 2 times: try later",
    });
    expect(rowOf(lab, "a")?.message).toBe("waits for the CRDs of modules (failed 2 times)");
  });

  it("a removal that fails, and a release without a module that cannot go", async () => {
    const lab = new EngineLab({ moduleQueues, modules: modules(["a", "nats"]) });
    await lab.start();
    lab.uninstallFails = () => true;
    lab.edit({ natsEnabled: "false" });
    await lab.run();
    expect(reported(lab)).toMatchObject({
      state: "Retrying",
      message: expect.stringMatching(/is blocked: the removal of nats failed 1 time: .*no uninstall$/),
    });
    lab.uninstallFails = undefined;
    await lab.run(5000);
    lab.addRelease("old");
    lab.uninstallTakes = HANGS;
    lab.state.record("convergeRequested", "t1");
    await lab.run(4000);
    expect(reported(lab).message).toContain("waits for the removal of release old since ");
  });
});

it("a failing module that an edit has switched off is not named as failing", async () => {
  const lab = new EngineLab({ modules: modules(["a", "web"]) });
  await lab.start();
  lab.helmFails = (name) => (name === "web" ? "no chart" : undefined);
  lab.edit({ web: "{ x: 1 }" });
  await lab.run();
  expect(reported(lab).message).toBe("Module web failed and is retried: no chart");
  const seen: string[] = [];
  lab.state.onChange(() => void seen.push(reported(lab).message));
  lab.edit({ webEnabled: "false" });
  await lab.run(10);
  expect(seen.filter((message) => message.includes("web failed"))).toEqual([]);
  expect(seen.at(-1)).toBe("All enabled modules are ready (1)");
});

describe.each(["main", "own"] as const)(
  "a removal that hangs, of a module that is switched on again (%s)",
  (moduleQueues) => {
    async function hanging(): Promise<EngineLab> {
      const lab = new EngineLab({ moduleQueues, modules: modules(["a", "nats"]) });
      await lab.start();
      lab.uninstallTakes = HANGS;
      lab.edit({ natsEnabled: "false" });
      await lab.run(60_000);
      expect(rowOf(lab, "nats")?.state).toBe("Deleting");
      lab.log.length = 0;
      return lab;
    }

    it("is interrupted, and the module runs", async () => {
      const lab = await hanging();
      lab.edit({ natsEnabled: "true" });
      await lab.run();
      expect(lab.linesOf("helm nats")).toEqual(["helm nats"]);
      expect(["a", "nats"].map((name) => rowOf(lab, name)?.state)).toEqual(["Ready", "Ready"]);
      expect([lab.broken, lab.quiet]).toEqual([[], true]);
    });

    it("also after another edit, and has three seconds to end by itself", async () => {
      const lab = await hanging();
      lab.edit({ aEnabled: "false" });
      await lab.run();
      expect(rowOf(lab, "nats")?.state).toBe("Deleting");
      lab.edit({ natsEnabled: "true" });
      await lab.run();
      expect(rowOf(lab, "nats")?.state).toBe("Pending");
      expect(lab.linesOf("uninstall")).toEqual(["uninstall a"]);
    });

    it("goes on where it is the script that keeps the module off", async () => {
      let on = true;
      const lab = new EngineLab({
        moduleQueues,
        modules: [{ name: "nats", enabled: true, script: () => on }, ...modules(["a"])],
      });
      await lab.start();
      on = false;
      lab.uninstallTakes = HANGS;
      lab.edit(moved);
      await lab.run(1000);
      lab.edit({ natsEnabled: "true" });
      await lab.run(60_000);
      expect(rowOf(lab, "nats")?.state).toBe("Deleting");
      expect(lab.linesOf("uninstall")).toEqual(["uninstall nats"]);
    });
  },
);
