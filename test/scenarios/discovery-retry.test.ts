import { describe, expect, it } from "vitest";

import { EngineLab, SCRIPT_TIMEOUT_MS, ScriptHangs } from "../support/engine-lab.ts";
import { projectView, whyOf } from "../report/views.ts";

const broken = (): boolean => {
  throw new Error("no such file");
};

describe("a discovery that is tried again", () => {
  it("reads the directories again, but does not repeat beforeAll", async () => {
    const lab = new EngineLab({
      globalHooks: [{ name: "g", lifecycle: { beforeAll: 1 } }],
      modules: [
        { name: "one", enabled: true },
        { name: "two", enabled: true, script: broken },
      ],
    });
    await lab.start();
    await lab.run(5000);
    expect(lab.log).toEqual(["hook g: beforeAll"]);
    lab.setModules([{ name: "one", enabled: true }]);
    await lab.run(5000);
    expect(lab.log).toEqual(["hook g: beforeAll", "helm one", "release one v1", "converged"]);
  });
});

describe("an enabled script that fails where modules have their own queues", () => {
  /** Whether the script of the module `web` answers, and what. */
  const answer: { now: boolean | undefined } = { now: undefined };
  const script = (): boolean => {
    if (answer.now === undefined) throw new Error("it answered True");
    return answer.now;
  };
  const start = async (now: boolean | undefined): Promise<EngineLab> => {
    answer.now = now;
    const modules = [
      { name: "web", enabled: true, script },
      { name: "db", enabled: true },
    ];
    const lab = new EngineLab({ moduleQueues: "own", modules });
    await lab.start();
    await lab.run(1000);
    return lab;
  };
  const web = (lab: EngineLab) => lab.state.view.modules.get("web");

  it("delays only its module, which is Retrying until the script answers", async () => {
    const lab = await start(undefined);
    expect(lab.log).toEqual(["helm db", "release db v1", "converged"]);
    expect(web(lab)).toMatchObject({ enabled: false, retry: { reason: "ScriptFailed", failures: 1 } });
    expect(projectView(web(lab)!, { now: lab.clock.now() }).status).toMatchObject({
      state: "Retrying",
      conditions: expect.arrayContaining([
        expect.objectContaining({ type: "Ready", status: "False", reason: "ScriptFailed" }),
      ]),
    });
    await lab.run(60_000);
    expect(web(lab)?.retry?.failures).toBeGreaterThan(3);
    expect(lab.log).toEqual(["helm db", "release db v1", "converged"]);
    answer.now = true;
    await lab.run(40_000);
    expect(lab.releases.has("web")).toBe(true);
    expect(web(lab)).toMatchObject({ enabled: true, problem: undefined, retry: undefined });
    expect(lab.broken).toEqual([]);
  });

  it("is not said to have decided anything before its first answer", async () => {
    const lab = await start(undefined);
    const decision = (): string | undefined =>
      whyOf({ view: lab.state.view, queues: lab.queues.views() }, "web", lab.clock.now())[0];
    const unknown =
      "Its enabled script fails, so it is unknown whether the module is enabled; until it answers: ";
    expect(decision()).toBe(`${unknown}Disabled: its enabled script has not answered yet`);
    answer.now = true;
    await lab.run(40_000);
    answer.now = undefined;
    lab.edit({ global: "{ z: 1 }" });
    await lab.run(1000);
    expect(decision()).toBe(`${unknown}Enabled by the module's own values.yaml`);
  });

  it("keeps the last answer: an edit of another module runs, and nothing is removed", async () => {
    const lab = await start(true);
    answer.now = undefined;
    lab.edit({ dbEnabled: "true", global: "{ z: 1 }", db: "{ x: 1 }" });
    await lab.run(10_000);
    expect(web(lab)).toMatchObject({ enabled: true, problem: { retriedAs: "ScriptFailed" } });
    expect(lab.releases.get("db")?.revision).toBe(2);
    expect(lab.releases.get("web")?.revision).toBe(1);
    const about = (level: string) =>
      lab.logged.filter((line) => line[0] === level && line[2]?.["module"] === "web").map((line) => line[1]);
    expect([about("error"), about("warn")]).toEqual([[], ["Module has a problem, retrying"]]);
    expect(lab.failures).toEqual(["web: ScriptFailed"]);
    answer.now = false;
    await lab.run(40_000);
    expect(lab.log).toContain("uninstall web");
    expect(lab.broken).toEqual([]);
  });

  it("does not block main if it fails right before the removal of its module", async () => {
    const lab = await start(true);
    answer.now = false;
    let calls = 0;
    lab.onRefresh = () => {
      if (calls++ === 0) answer.now = undefined;
    };
    lab.edit({ global: "{ z: 1 }" });
    await lab.run(20_000);
    expect(lab.releases.has("web")).toBe(true);
    expect(lab.releases.get("db")?.revision).toBe(2);
    expect(web(lab)).toMatchObject({ problem: { retriedAs: "ScriptFailed" } });
    answer.now = false;
    await lab.run(40_000);
    expect(lab.releases.has("web")).toBe(false);
  });
});

describe.each(["main", "own"] as const)(
  "an enabled script that hangs, with --module-queues=%s,",
  (moduleQueues) => {
    it("delays the other modules once, until its time limit, and is tried in the background", async () => {
      let hangs = true;
      let calls = 0;
      const script = (): boolean => {
        calls += 1;
        if (hangs) throw new ScriptHangs("no answer for 120 s");
        return true;
      };
      const modules = [
        { name: "web", enabled: true, script },
        { name: "db", enabled: true },
      ];
      const lab = new EngineLab({ moduleQueues, modules });
      await lab.start();
      await lab.run(SCRIPT_TIMEOUT_MS + 1000);
      const release = (name: string) => lab.releases.get(name)?.revision;
      expect(release("db")).toBe(1);
      const web = () => lab.state.view.modules.get("web");
      expect(web()).toMatchObject({
        enabled: false,
        retry: { reason: "ScriptFailed" },
        problem: { retriedAs: "ScriptFailed", message: expect.stringContaining("no answer for 120 s") },
      });
      for (const revision of [2, 3]) {
        const callsBefore = calls;
        lab.edit({ global: `{ z: ${revision} }`, db: `{ x: ${revision} }` });
        await lab.run(5000);
        expect(release("db")).toBe(revision);
        expect(calls - callsBefore).toBeLessThanOrEqual(1);
      }
      await lab.run(10 * 60_000);
      expect(calls).toBeGreaterThan(3);
      hangs = false;
      await lab.run(SCRIPT_TIMEOUT_MS + 60_000);
      expect(release("web")).toBe(1);
      expect(web()).toMatchObject({ enabled: true, problem: undefined, retry: undefined });
      expect(lab.broken).toEqual([]);
    });
  },
);
