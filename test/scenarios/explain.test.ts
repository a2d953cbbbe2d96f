import { describe, expect, it } from "vitest";

import { dumpQueues, renderQueues } from "../../src/surface/debug/index.ts";
import { explain } from "../../src/report/index.ts";
import { KnownSecrets } from "../../src/base/index.ts";
import { EngineLab } from "../support/engine-lab.ts";
import type { HookSpec } from "../support/engine-lab.ts";
import { blockerOf, whyOf } from "../report/views.ts";

function evidence(lab: EngineLab) {
  return { view: lab.state.view, queues: lab.queues.views() };
}

function hold(lab: EngineLab, name: string): string | undefined {
  return blockerOf(evidence(lab), name);
}

function why(lab: EngineLab, name: string): string[] {
  return whyOf(evidence(lab), name, lab.clock.now());
}

const queueList = (lab: EngineLab): string[] =>
  dumpQueues(lab.queues.views(), { now: lab.clock.now(), secrets: new KnownSecrets() }).active.flatMap(
    ({ name, status, tasks }) => [`${name}: ${status}`, ...tasks.map((task) => task.description)],
  );

const at = (lab: EngineLab, ms: number): string => new Date(lab.clock.now() + ms).toISOString().slice(11, 19);

const failing: HookSpec = {
  name: "010-discover",
  lifecycle: { beforeAll: 1 },
  act: () => ({ fail: "exit code 1: no such host" }),
};

describe("everything that does not run now has a reason in words", () => {
  it("a module that waits for a failing beforeAll hook, and when that is tried next", async () => {
    const lab = new EngineLab({ globalHooks: [failing], modules: [{ name: "web", enabled: true }] });
    await lab.start();
    for (const ms of [5000, 6000, 7000]) await lab.run(ms);
    expect(hold(lab, "web")).toBe("waits for beforeAll hook 010-discover (failed 4 times)");
    expect(why(lab, "web")).toContain(
      `beforeAll hook 010-discover failed: exit code 1: no such host; next try ${at(lab, 9000)}`,
    );
    expect(queueList(lab)).toEqual([
      "main: sleep after fail, 9s left",
      "hook 010-discover: beforeAll; failed 4 times: exit code 1: no such host; next try in 9s",
      "converge of all modules: start-up",
    ]);
  });

  it("a module that an edit switches on or off while a converge is blocked", async () => {
    let fails = false;
    const hook: HookSpec = { ...failing, act: () => (fails ? { fail: "no such host" } : {}) };
    const lab = new EngineLab({
      globalHooks: [hook],
      modules: [{ name: "web", enabled: true }, { name: "db" }],
    });
    await lab.start();
    fails = true;
    lab.edit({ webEnabled: "false", dbEnabled: "true" });
    await lab.run();
    const blocker = "waits for beforeAll hook 010-discover (failed 1 time)";
    const { modules } = explain(evidence(lab), lab.clock.now());
    expect(modules.get("web")).toMatchObject({ state: "Pending", message: blocker, reasons: [blocker] });
    expect(why(lab, "web")[0]).toBe(
      "Enabled by the module's own values.yaml; a newer setting disables it in the next converge",
    );
    expect(why(lab, "db")[0]).toBe(
      "Disabled because nothing enables it; a newer setting enables it in the next converge",
    );
    expect(hold(lab, "db")).toBe(blocker);
    fails = false;
    await lab.run(5000);
    expect(why(lab, "web")).toEqual(["Disabled by the ConfigMap"]);
  });

  it("a module whose own hook fails, and the one behind it", async () => {
    const lab = new EngineLab({
      modules: [
        { name: "web", order: 1, enabled: true, hooks: [{ ...failing, lifecycle: { beforeHelm: 1 } }] },
        { name: "db", order: 2, enabled: true },
      ],
    });
    await lab.start();
    const error = "hook 010-discover: exit code 1: no such host; next try";
    expect(hold(lab, "web")).toBe("will be retried (failed 1 time)");
    expect(hold(lab, "db")).toBe("waits for web (failed 1 time)");
    expect(why(lab, "web").join()).toMatch(new RegExp(`HookFailed\\): ${error} \\S+T${at(lab, 5000)}Z`));
    expect(why(lab, "db")).toContain(`web failed: ${error} ${at(lab, 5000)}`);
    expect(lab.state.view.modules.get("web")?.lastRun).toMatchObject({
      step: "beforeHelm",
      hook: "010-discover",
      message: "exit code 1: no such host",
    });
  });

  it("modules that wait for discovery: a script fails", async () => {
    const lab = new EngineLab({
      modules: [
        {
          name: "web",
          enabled: true,
          script: () => {
            throw new Error("no jq");
          },
        },
        { name: "db", enabled: true },
      ],
    });
    await lab.start();
    expect(hold(lab, "db")).toBe("waits for the enabled script of web (failed 1 time)");
    expect(why(lab, "db")).toContain(
      `the converge (start-up) failed: enabled script of web failed: Error: no jq; next try ${at(lab, 5000)}`,
    );
    expect(why(lab, "web").join()).toMatch(/failed 1 time since \S+Z \(ScriptFailed\): Error: no jq/);
  });

  it("a run under way, what waits behind it, and rest", async () => {
    const lab = new EngineLab({
      modules: [
        { name: "web", order: 1, enabled: true },
        { name: "db", order: 2, enabled: true },
      ],
    });
    await lab.start();
    lab.helmTakes = 1000;
    lab.edit({ web: "{ x: 1 }", db: "{ x: 1 }" });
    await lab.run();
    const [first, second] = lab.log.at(-1) === "helm web" ? ["web", "db"] : ["db", "web"];
    expect(hold(lab, first)).toBeUndefined();
    expect(why(lab, first)).toContain("running: step helm");
    expect(hold(lab, second)).toBe(`waits for ${first}`);
    await lab.run(1000);
    await lab.run(1000);
    expect(hold(lab, "web")).toBeUndefined();
    expect(why(lab, "web")).toEqual([
      "Enabled by the module's own values.yaml",
      "nothing is due: the last run used the current state",
    ]);
    expect(
      renderQueues(dumpQueues(lab.queues.views(), { now: lab.clock.now(), secrets: new KnownSecrets() })),
    ).toContain("no tasks to handle");
  });

  it("deletes that are held for want of the ConfigMap", async () => {
    const lab = new EngineLab({ modules: [{ name: "web", enabled: true }] });
    await lab.start();
    lab.loseConfig();
    await lab.run();
    expect(hold(lab, "web")).toBe("nothing is deleted or purged while the ConfigMap is missing");
  });
});
