import { expect, test } from "vitest";

import type { ModuleView, View } from "../../../src/engine/state/index.ts";
import { renderStatus } from "../../../src/main/commands/operator/tables.ts";
import { T0, moduleView, queueOf, release, underWay, viewOf, overviewOf, projectView } from "../views.ts";

const requiring = (name: string, on: string) => {
  const view = moduleView(name, { phase: "new", lastRun: undefined, release: undefined, blockedSince: T0 });
  return { ...view, module: { ...view.module, chartVersion: "2.0.0", requires: { modules: { [on]: "*" } } } };
};

test("there is a row for each module, in their order, with what is known of it", () => {
  const modules = [moduleView("web"), moduleView("off", { enabled: false, release: undefined })];
  const { modules: rows, ...operator } = overviewOf({ view: viewOf(modules), queues: [] }, T0);
  expect(operator).toMatchObject({
    state: "Ready",
    ready: "True",
    message: "All enabled modules are ready (1)",
    converge: { phase: "idle" },
  });
  expect(rows).toEqual([
    {
      name: "web",
      order: 10,
      enabled: true,
      state: "Ready",
      reason: "Ready",
      ready: "True",
      healthy: "Unknown",
      message: "Release web.v3 is in place",
      drifted: 0,
      chartVersion: "1.2.0",
      lastRun: {
        cause: "ConfigMap changed",
        startedAt: "2025-12-31T23:59:55Z",
        seconds: 2,
        step: "afterHelm",
        attempts: 1,
        result: "Succeeded",
      },
    },
    expect.objectContaining({ name: "off", enabled: false, state: "Disabled" }),
  ]);
});

test("how long runs usually take is the middle one of the last, and told of the converge where it is known of all that wait", () => {
  const one = moduleView("one", { runSeconds: [9, 2, 1] });
  const two = moduleView("two", { runSeconds: [4, 2] });
  const runs = moduleView("runs", { activity: "running", lastRun: underWay(T0 - 8000) });
  const record = { ...viewOf([]).converge, phase: "modules" as const, remaining: ["one", "two", "runs"] };
  const of = (...modules: ModuleView[]) =>
    overviewOf({ view: viewOf(modules, { converge: record }), queues: queueOf("runs", "one", "two") }, T0);
  const { modules, converge } = of(one, two, runs);
  expect(modules.map(({ usualSeconds }) => usualSeconds)).toEqual([2, 3, undefined]);
  expect(converge).toMatchObject({ progress: "0/3", waitingSeconds: 5 });
  expect(of(one, moduleView("two"), runs).converge).not.toHaveProperty("waitingSeconds");
});

test("the version is that of an update which creates no revision", () => {
  const web = moduleView("web", { leftVersion: "1.3.0" });
  expect(overviewOf({ view: viewOf([web]), queues: [] }, T0).modules[0]?.chartVersion).toBe("1.3.0");
  const { status } = projectView(web, { now: T0 });
  expect(status.release).toMatchObject({ revision: 3, chartVersion: "1.3.0" });
});

test("a run under way counts its seconds, and has no result yet", () => {
  const lastRun = underWay(T0 - 4000);
  const [row] = overviewOf(
    { view: viewOf([moduleView("web", { activity: "running", lastRun })]), queues: queueOf("web") },
    T0,
  ).modules;
  expect(row).toMatchObject({ state: "Running", lastRun: { seconds: 4, step: "helm" } });
  expect(row?.lastRun).not.toHaveProperty("result");
});

test("what a module waits for is named", () => {
  const db = moduleView("db", { retry: { reason: "HelmFailed", message: "no", failures: 2, since: 0 } });
  const { modules } = overviewOf({ view: viewOf([db, requiring("web", "db")]), queues: [] }, T0);
  expect(modules[0]).toMatchObject({ state: "Retrying", ready: "False", message: "no" });
  expect(modules[1]).toMatchObject({
    state: "Pending",
    waitsFor: "db",
    message: expect.stringContaining("waits for db, which is not Ready"),
    chartVersion: "2.0.0",
  });
});

test("health and drift are reported", () => {
  const web = moduleView("web", {
    release: release("web", { chartVersion: "1.3.0" }),
    drift: { count: 3, objects: [] },
    health: { status: "False", reason: "Failed", message: "no Pod", counts: {}, ailments: [] } as never,
    unhealthy: { status: "False", reason: "Failed", message: "no Pod" },
  });
  expect(overviewOf({ view: viewOf([web]), queues: [] }, T0).modules[0]).toMatchObject({
    state: "Unhealthy",
    healthy: "False",
    drifted: 3,
    message: "no Pod",
  });
});

test("status reports of bindings that cannot work and scripts that are not executable, which leave Ready as it is", () => {
  const idle = "/m/web/hooks/a.sh: is not executable and will not run";
  const { module } = moduleView("web");
  const web = moduleView("web", {
    issues: ["hook h.sh, binding pods: there is no kind Pods"],
    module: { ...module, notExecutableWarnings: [idle] },
  });
  const off = moduleView("off", { enabled: false, release: undefined, issues: ["hook x: old"] });
  const tree = {
    notExecutableWarnings: ["/hooks/b.sh: is not executable and will not run"],
  } as unknown as View["tree"];
  const overview = overviewOf({ view: viewOf([web, off], { tree }), queues: [] }, T0);
  expect([overview.ready, overview.modules[1]?.warnings]).toEqual(["True", undefined]);
  const text = renderStatus(overview, { now: T0, columns: 200, paint: (_, plain) => plain });
  expect(text).toContain("All enabled modules are ready (1); /hooks/b.sh: is not executable");
  expect(text).toContain(
    `web: Ready: Release web.v3 is in place; hook h.sh, binding pods: there is no kind Pods; ${idle}`,
  );
});
