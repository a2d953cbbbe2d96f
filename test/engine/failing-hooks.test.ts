import { expect, it } from "vitest";

import { codeOf } from "../../src/commands/asking/overview.ts";
import { KnownSecrets } from "../../src/lib/index.ts";
import { explainModule } from "../../src/plan/index.ts";
import { overviewOf } from "../../src/status/index.ts";
import { Projector } from "../../src/status/project/projector.ts";
import { EngineLab } from "../support/engine-lab.ts";
import type { HookAct, HookSpec } from "../support/engine-lab.ts";

/** What the hook of a test does at its next event or tick. */
const next: { act: HookAct } = { act: {} };

const check: HookSpec = {
  name: "hooks/check.sh",
  schedules: [{ name: "check" }],
  act: () => next.act,
};
const other: HookSpec = { name: "hooks/other.sh", schedules: [{ name: "other" }] };
const web = { name: "web", enabled: true, hooks: [check, other] };
const db = { name: "db", enabled: true };

const at = (lab: EngineLab) => ({ view: lab.state.view, queues: lab.queues.views() });
const overview = (lab: EngineLab) => overviewOf(at(lab), lab.clock.now());
const projected = (lab: EngineLab) =>
  new Projector("none", new KnownSecrets()).project(at(lab), lab.clock.now());

function conditions(lab: EngineLab, name?: string): string[] {
  const { operator, modules } = projected(lab);
  const status = name === undefined ? operator.status : modules.get(name)?.status;
  return (status?.conditions ?? []).map((each) => `${each.type}=${each.status} ${each.message}`);
}

function why(lab: EngineLab, name: string): string {
  const module = lab.state.view.modules.get(name);
  return module === undefined ? "no module" : explainModule(module, at(lab)).join("; ");
}

it.each(["main", "own"] as const)(
  "in %s, status, conditions, why and an Event name a hook that fails, since when, and what waits behind it",
  async (moduleQueues) => {
    next.act = { fail: "exit code 1" };
    const lab = new EngineLab({ modules: [web, db], moduleQueues });
    await lab.start();
    expect(codeOf(overview(lab))).toBe(0);
    lab.tick("web/hooks/check.sh");
    await lab.run(0);
    const since = new Date(lab.clock.now()).toISOString().slice(0, 19);
    lab.edit({ db: "{ x: 1 }" });
    lab.tick("web/hooks/other.sh");
    lab.state.recordRequest("web", "now");
    await lab.run(60_000);
    const queue = moduleQueues === "main" ? "main" : "module/web";
    const failing = `check hook hooks/check.sh of web fails in queue ${queue} since ${since}Z: exit code 1; behind it wait other hook hooks/other.sh of web`;
    expect(overview(lab)).toMatchObject({ state: "Retrying", ready: "False", message: failing });
    expect(codeOf(overview(lab))).toBe(1);
    expect(conditions(lab)).toContain(`HooksFailing=True ${failing}`);
    expect(conditions(lab, "web")).toContain(`HooksFailing=True ${failing}`);
    expect(conditions(lab, "web")[0]).toBe(`Ready=True Release web.v1 is in place; ${failing}`);
    expect(conditions(lab, "db").join()).not.toContain("HooksFailing");
    expect(why(lab, "web")).toContain(failing);
    expect(why(lab, "db").includes(failing)).toBe(moduleQueues === "main");
    expect(lab.failures[0]).toBe(
      `web: HookFailed: hook hooks/check.sh, check, in queue ${queue}: exit code 1`,
    );

    next.act = {};
    await lab.run(60_000);
    expect([overview(lab).state, conditions(lab, "web").join().includes("Hooks")]).toEqual(["Ready", false]);
    expect(why(lab, "web")).toContain("nothing is owed");
  },
);

it("names a failing global hook, and a run that waits behind it", async () => {
  next.act = { fail: "exit code 1" };
  const late: HookSpec = {
    name: "late",
    schedules: [{ queue: "side" }],
    act: () => ({ values: { op: "add", path: "/db/x", value: 1 } }),
  };
  const lab = new EngineLab({ modules: [{ ...db, hooks: [late] }], globalHooks: [check] });
  await lab.start();
  lab.tick("hooks/check.sh");
  await lab.run(0);
  lab.tick("db/late");
  await lab.run(100);
  expect(overview(lab).message).toMatch(
    /^check hook hooks\/check.sh fails in queue main since .*Z: exit code 1; behind it wait db$/,
  );
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
