import { describe, expect, it } from "vitest";

import { collectWarnings } from "../../src/engine/state/index.ts";
import { EngineLab } from "../support/engine-lab.ts";
import { projectView, whyOf } from "../report/views.ts";

const GOOD = { name: "good", order: 2, enabled: true };
const WEB = {
  name: "web",
  enabled: true,
  section: { size: 1 },
  hooks: [{ name: "h", lifecycle: { beforeHelm: 1 }, schedules: [{}] }],
};

/** State and message that `kubectl get addonmodules -o wide` shows. */
function displayed(lab: EngineLab, name: string): (string | undefined)[] {
  const module = lab.state.view.modules.get(name);
  if (module === undefined) return [];
  const { status } = projectView(module, {
    now: lab.clock.now(),
  });
  return [status.state, status.conditions.find(({ type }) => type === "Stalled")?.message];
}

function readyMessage(lab: EngineLab, name: string): string | undefined {
  const module = lab.state.view.modules.get(name);
  if (module === undefined) return undefined;
  const { status } = projectView(module, {
    now: lab.clock.now(),
  });
  return status.conditions.find(({ type }) => type === "Ready")?.message;
}

async function converge(lab: EngineLab, token: string): Promise<void> {
  lab.state.record("convergeRequested", token);
  await lab.run();
}

describe("files of a module that break while the operator runs", () => {
  it("its last good content stays in force; the module is Invalid and says which file", async () => {
    const lab = new EngineLab({ modules: [WEB, GOOD] });
    await lab.start();
    lab.log.length = 0;
    lab.setModules([{ ...WEB, problem: "no YAML" }, GOOD]);
    await converge(lab, "broken");
    expect(displayed(lab, "web")).toEqual(["Invalid", expect.stringMatching(/values\.yaml.*no YAML/)]);
    expect(displayed(lab, "good")[0]).toBe("Ready");
    expect(lab.state.values.mergedSection("web").values).toEqual({ size: 1 });
    expect([...lab.releases.keys()]).toEqual(["web", "good"]);
    expect(lab.log).toEqual(["helm good", "converged"]);

    lab.setModules([{ ...WEB, section: { size: 2 } }, GOOD]);
    await converge(lab, "mended");
    expect(displayed(lab, "web")).toEqual(["Ready", undefined]);
    expect(lab.releases.get("web")?.revision).toBe(2);
  });
});

describe("a new directory", () => {
  it("is on or off as its flags say, at the next converge", async () => {
    const lab = new EngineLab({ modules: [GOOD], config: { askedEnabled: "true" } });
    await lab.start();
    lab.log.length = 0;
    lab.setModules([GOOD, { name: "asked" }, { name: "on", enabled: true }, { name: "off" }]);
    await lab.run();
    expect(lab.log).toEqual([]);
    await converge(lab, "new");
    expect(lab.state.view.enabledModules.toSorted()).toEqual(["asked", "good", "on"]);
    expect([...lab.releases.keys()].toSorted()).toEqual(["asked", "good", "on"]);
  });
});

describe("a chart that is removed from the directory of its module", () => {
  it("is reported with the remedy after the next converge", async () => {
    const lab = new EngineLab({ modules: [WEB, GOOD] });
    await lab.start();
    lab.setModules([{ ...WEB, chart: "none" }, GOOD]);
    await converge(lab, "without");
    const warning = /no chart any more, and its release web stays as it is: put Chart\.yaml/;
    const reasons = () => {
      return whyOf({ view: lab.state.view, queues: [] }, "web", lab.clock.now()).join("\n");
    };
    expect(reasons()).toMatch(warning);
    expect(readyMessage(lab, "web")).toMatch(warning);
    expect(readyMessage(lab, "good")).not.toMatch(warning);
    const view = lab.state.view.modules.get("web");
    const problem = { file: "ModuleSource platform", message: "its content is not on disk" };
    expect(view && collectWarnings(view)).toHaveLength(1);
    expect(view && collectWarnings({ ...view, problem })).toEqual([]);
    lab.log.length = 0;
    lab.state.recordModule("web", "objectsFoundMissing", ["default/ConfigMap/one"]);
    await lab.run();
    expect(lab.log).toEqual([]);
    lab.setModules([WEB, GOOD]);
    await converge(lab, "again");
    expect(reasons()).not.toMatch(warning);
  });
});
