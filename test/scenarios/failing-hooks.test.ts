import { describe, expect, it } from "vitest";

import { readyExitCode } from "../../src/main/commands/operator/overview.ts";
import { renderStatus, type Style } from "../../src/main/commands/operator/tables.ts";
import { dumpQueues, renderQueues } from "../../src/surface/debug/index.ts";
import { KnownSecrets } from "../../src/base/index.ts";
import { EngineLab } from "../support/engine-lab.ts";
import type { HookAct, HookSpec } from "../support/engine-lab.ts";
import { overviewOf, projectAll, whyOf } from "../report/views.ts";

/** What the hook of a test does at its next event or tick. */
const next: { act: HookAct } = { act: {} };

const check: HookSpec = {
  name: "hooks/check.sh",
  schedules: [{ name: "check" }],
  act: () => next.act,
};
const other: HookSpec = { name: "hooks/other.sh", schedules: [{ name: "other" }] };
const MINUTE = 60_000;
const web = { name: "web", enabled: true, hooks: [check, other] };
const db = { name: "db", enabled: true };

const at = (lab: EngineLab) => ({ view: lab.state.view, queues: lab.queues.views() });
const overview = (lab: EngineLab) => overviewOf(at(lab), lab.clock.now());
const projected = (lab: EngineLab) => projectAll(at(lab), lab.clock.now());

function conditions(lab: EngineLab, name?: string): string[] {
  const { operatorStatus, modules } = projected(lab);
  const status = name === undefined ? operatorStatus : modules.get(name)?.status;
  return (status?.conditions ?? []).map((each) => `${each.type}=${each.status} ${each.message}`);
}

function why(lab: EngineLab, name: string): string {
  return whyOf(at(lab), name, lab.clock.now()).join("; ");
}

it.each(["main", "own"] as const)(
  "in %s, status, conditions, why and an Event name a hook that fails, since when, and what waits behind it",
  async (moduleQueues) => {
    next.act = { fail: "exit code 1" };
    const lab = new EngineLab({ modules: [web, db], moduleQueues });
    await lab.start();
    expect(readyExitCode(overview(lab))).toBe(0);
    lab.tick("web/hooks/check.sh");
    await lab.run(0);
    const since = new Date(lab.clock.now()).toISOString().slice(0, 19);
    lab.edit({ db: "{ x: 1 }" });
    lab.tick("web/hooks/other.sh");
    lab.state.recordModule("web", "runRequested", "now");
    await lab.run(60_000);
    const queue = moduleQueues === "main" ? "main" : "module/web";
    const failing = `check hook hooks/check.sh of web fails in queue ${queue} since ${since}Z: exit code 1; behind it wait other hook hooks/other.sh of web`;
    expect(overview(lab)).toMatchObject({ state: "Retrying", ready: "False", message: failing });
    expect(readyExitCode(overview(lab))).toBe(1);
    expect(conditions(lab)).toContain(`HooksFailing=True ${failing}`);
    expect(conditions(lab, "web")).toContain(`HooksFailing=True ${failing}`);
    expect(conditions(lab, "web")[0]).toBe(`Ready=True Release web.v1 is in place; ${failing}`);
    expect(conditions(lab, "db").join()).not.toContain("HooksFailing");
    expect(why(lab, "web")).toContain(failing);
    // It does not wait for the hook: its edit went before it.
    expect(why(lab, "db")).not.toContain(failing);
    expect(lab.failures[0]).toBe(
      `web: HookFailed: hook hooks/check.sh, check, in queue ${queue}: exit code 1`,
    );

    next.act = {};
    await lab.run(60_000);
    expect([overview(lab).state, conditions(lab, "web").join().includes("Hooks")]).toEqual(["Ready", false]);
    expect(why(lab, "web")).toContain("nothing is due");
  },
);

const plain = (lab: EngineLab): Style => ({
  now: lab.clock.now(),
  columns: 200,
  paint: (_, text) => text,
});

it.each(["web", undefined])("ticks that are dropped are visible in status and why: %s", async (module) => {
  next.act = { takes: MINUTE };
  const hooks = module === undefined ? { globalHooks: [check] } : {};
  const lab = new EngineLab({ modules: [module === undefined ? db : web], ...hooks });
  await lab.start();
  const tick = (): void => lab.tick(module === undefined ? "hooks/check.sh" : "web/hooks/check.sh");
  tick();
  await lab.run(100);
  tick();
  expect(JSON.stringify(overview(lab))).not.toContain("dropped");
  tick();
  expect(JSON.stringify(overview(lab))).toContain("1 tick was dropped: check hook hooks/check.sh");
  tick();
  const dropped = `2 ticks were dropped: check hook hooks/check.sh${module === undefined ? "" : " of web"} waits in queue main already`;
  const { warnings = [], modules } = overview(lab);
  expect([warnings[0], modules[0]?.warnings?.[0]]).toContain(dropped);
  expect(module === undefined ? renderStatus(overview(lab), plain(lab)) : why(lab, module)).toContain(
    dropped,
  );
  next.act = {};
  await lab.run(2 * MINUTE);
  expect(JSON.stringify(overview(lab))).not.toContain("dropped");
});

describe("a hook that hangs", () => {
  it.each(["main", "own"] as const)(
    "in %s, is reported after five minutes with what waits behind it, and does not stop restores",
    async (moduleQueues) => {
      const lab = new EngineLab({ modules: [web, db], moduleQueues });
      next.act = {};
      await lab.start();
      next.act = { takes: 60 * MINUTE };
      lab.tick("web/hooks/check.sh");
      await lab.run(100);
      const since = new Date(lab.clock.now() - 100).toISOString().slice(0, 19);
      lab.tick("web/hooks/other.sh");
      await lab.run(5 * MINUTE - 200);
      expect([readyExitCode(overview(lab)), why(lab, "web").includes("hangs")]).toEqual([0, false]);
      lab.state.recordModule("web", "objectsFoundMissing", ["ConfigMap/a"]);
      await lab.run(100);
      const queue = moduleQueues === "main" ? "main" : "module/web";
      const hangs = `check hook hooks/check.sh of web hangs in queue ${queue} since ${since}Z; behind it wait other hook hooks/other.sh of web, web; restart the operator to end it, set --hook-timeout to limit such runs`;
      expect(overview(lab)).toMatchObject({ state: "Retrying", ready: "False", message: hangs });
      expect(readyExitCode(overview(lab))).toBe(1);
      expect(conditions(lab)).toContain(`HooksFailing=True ${hangs}`);
      expect(conditions(lab, "web")).toContain(`HooksFailing=True ${hangs}`);
      expect(why(lab, "web")).toContain(hangs);
      expect(why(lab, "db")).toContain("nothing is due");
      expect(lab.linesOf("restore web")).toEqual(["restore web: ConfigMap/a"]);
      const dump = renderQueues(
        dumpQueues(lab.queues.views(), { now: lab.clock.now(), secrets: new KnownSecrets() }),
      );
      expect(dump).toContain("running for 5m0s");
      next.act = {};
      await lab.run(60 * MINUTE);
      expect([overview(lab).state, conditions(lab, "web").join().includes("Hooks")]).toEqual([
        "Ready",
        false,
      ]);
    },
  );

  it("in a queue of its own, is reported once something waits behind it", async () => {
    const side: HookSpec = { ...check, schedules: [{ name: "check", queue: "side" }] };
    const lab = new EngineLab({ modules: [{ ...web, hooks: [side] }] });
    next.act = { takes: 60 * MINUTE };
    await lab.start();
    lab.tick("web/hooks/check.sh");
    await lab.run(10 * MINUTE);
    expect(readyExitCode(overview(lab))).toBe(0);
    lab.tick("web/hooks/check.sh");
    await lab.run(100);
    expect(overview(lab).message).toMatch(/hangs in queue side since .*; behind it wait check hook/);
  });

  it("in a converge, is named by the operator", async () => {
    const before: HookSpec = { name: "before", lifecycle: { beforeAll: 1 }, act: () => next.act };
    const lab = new EngineLab({ modules: [web], globalHooks: [before] });
    next.act = { takes: 60 * MINUTE };
    await lab.start();
    expect(overview(lab).message).not.toContain("beforeAll");
    await lab.run(5 * MINUTE);
    expect(overview(lab)).toMatchObject({ state: "Running", ready: "Unknown" });
    expect(overview(lab).message).toMatch(
      /: waits for beforeAll hook before since .*Z; restart the operator/,
    );
  });
});

it("status and why say since when a module fails", async () => {
  const lab = new EngineLab({ modules: [db] });
  lab.helmFails = () => "no quota";
  const since = `${new Date(lab.clock.now()).toISOString().slice(0, 19)}Z`;
  await lab.start();
  await lab.run(MINUTE);
  expect(overview(lab).modules[0]).toMatchObject({ state: "Retrying", failingSince: since });
  expect(why(lab, "db")).toMatch(new RegExp(`failed \\d times since ${since} \\(HelmFailed\\): .*no quota`));
});

it("a module that cannot be loaded at the start counts, and is named", async () => {
  const broken = { name: "bad", enabled: true, problem: "no such key" };
  const lab = new EngineLab({ modules: [db, broken, { name: "off", problem: "no such key" }] });
  await lab.start();
  expect(overview(lab)).toMatchObject({ state: "Invalid", ready: "False" });
  expect(overview(lab).message).toBe("Module bad requires action: values.yaml: no such key");
  expect(projected(lab).operatorStatus.modules?.summary).toBe("1/2");
  expect(why(lab, "bad")).toMatch(/^Disabled: its files cannot be read; requires action/);

  const after = new EngineLab({ modules: [broken] });
  after.addRelease("bad");
  await after.start();
  const reason = "Enabled because its release is in place: its files cannot be read";
  expect(why(after, "bad")).toMatch(new RegExp(`^${reason}; requires action`));
  expect(conditions(after, "bad")).toContain(`Enabled=True ${reason}`);
});

it("a freeze defers actions, and reports what is wrong all the same", async () => {
  const lab = new EngineLab({ modules: [web, db] });
  await lab.start();
  lab.edit({ maintenance: "NoResourceReconciliation" });
  await lab.run(100);
  expect(readyExitCode(overview(lab))).toBe(0);
  lab.state.recordModule("web", "objectsFoundMissing", ["ConfigMap/a"]);
  await lab.run(MINUTE);
  expect([lab.linesOf("restore"), lab.linesOf("helm web").length]).toEqual([[], 1]);
  expect(conditions(lab, "web")[0]).toMatch(
    /^Ready=False Suspended in .*; Waits to bring back ConfigMap\/a$/,
  );
  expect([readyExitCode(overview(lab)), overview(lab).state]).toEqual([1, "Invalid"]);
});

it("the duration of a converge is measured by the monotonic clock", async () => {
  next.act = { takes: 7000 };
  const before: HookSpec = { name: "before", lifecycle: { beforeAll: 1 }, act: () => next.act };
  const lab = new EngineLab({ modules: [db], globalHooks: [before] });
  await lab.start();
  lab.clock.setWall(-3_600_000);
  await lab.run(7000);
  expect(lab.reported).toContain("converged: 7 s");
  const { startedAt = 0, finishedAt } = lab.state.view.converge;
  expect(finishedAt).toBe(startedAt + 7000);
});

it("names a failing global hook, and a run that waits behind it", async () => {
  next.act = { fail: "exit code 1" };
  const late: HookSpec = {
    name: "late",
    schedules: [{ queue: "side" }],
    act: () => ({ values: { op: "add", path: "/db/x", value: 1 } }),
  };
  const lab = new EngineLab({
    modules: [
      { ...db, hooks: [late] },
      { name: "web", enabled: true },
    ],
    globalHooks: [check],
  });
  await lab.start();
  lab.tick("hooks/check.sh");
  await lab.run(0);
  lab.tick("db/late");
  await lab.run(100);
  expect(overview(lab).message).toMatch(
    /^check hook hooks\/check.sh fails in queue main since .*Z: exit code 1; behind it wait db$/,
  );
  expect(why(lab, "db")).toContain("check hook hooks/check.sh fails in queue main");
  expect(why(lab, "web")).toContain("nothing is due");
  expect(lab.failures).toEqual([
    "operator: HookFailed: hook hooks/check.sh, check, in queue main: exit code 1",
  ]);
});

it("a hook whose failure is allowed is not told", async () => {
  next.act = { fail: "exit code 1" };
  const lab = new EngineLab({
    modules: [{ ...web, hooks: [{ ...check, schedules: [{ allowFailure: true }] }] }],
  });
  await lab.start();
  lab.tick("web/hooks/check.sh");
  await lab.run(100);
  expect([overview(lab).state, lab.failures]).toEqual(["Ready", []]);
});
