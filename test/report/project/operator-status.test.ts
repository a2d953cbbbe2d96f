import { describe, expect, it } from "vitest";

import { OVERFULL_WARNING } from "../../../src/base/index.ts";
import type { ModuleView, View } from "../../../src/engine/state/index.ts";
import { withGeneration } from "../../../src/report/index.ts";
import { conformance, kstatus, violations } from "../../support/kstatus.ts";
import { T0, moduleView, underWay, viewOf, projectOperatorView } from "../views.ts";
import type { Hook, Task } from "../../../src/base/model/index.ts";
import type { TaskView } from "../../../src/engine/queue/index.ts";
import { lifecycle } from "../../hooks/build.ts";

const HOOK: TaskView<Task> = {
  task: { kind: "hook", hook: { name: "x" } as Hook, trigger: lifecycle("afterAll") },
  count: 1,
  running: false,
  failures: 1,
  failingSince: T0,
  message: "no",
  nextAt: undefined,
};
const HOOK_FAILS = "afterAll hook x fails in queue main since 2026-01-01T00:00:00Z: no";

interface Row {
  readonly name: string;
  readonly modules?: readonly ModuleView[];
  readonly view?: (view: View) => Partial<View>;
  readonly state: string;
  readonly ready: "True" | "False" | "Unknown";
  readonly reason: string;
  readonly kstatus: "Current" | "InProgress" | "Failed";
}

const good = moduleView("a");
const off = moduleView("b", { enabled: false, release: undefined });
const failing = moduleView("c", {
  retry: { reason: "HookFailed", message: "boom", failures: 1, since: 0 },
});
const broken = moduleView("d", { problem: { file: "d/values.yaml", message: "bad" } });
const away = (flag: boolean) =>
  moduleView("s", {
    enabled: false,
    release: undefined,
    flag,
    problem: { file: "ModuleSource p", message: "no answer", retriedAs: "SourceUnavailable" },
  });
const unhealthy = (status: "Unknown" | "False") =>
  moduleView("i", {
    unhealthy: { status, reason: "Progressing", message: "Deployment n/web: is not there" },
  });
const blocked = (() => {
  const view = moduleView("w", { blockedSince: T0 });
  return { ...view, module: { ...view.module, requires: { modules: { none: "*" } } } };
})();
const withoutValues = moduleView("v", {
  blockedSince: T0,
  missingValues: ["Secret n/db, which does not exist"],
});
const awaiting = (name: string, predecessor: string) => {
  const view = moduleView(name, { phase: "new", blockedSince: T0 });
  return { ...view, module: { ...view.module, after: [predecessor] } };
};
const running = (name: string, change: Partial<ModuleView> = {}) =>
  moduleView(name, { activity: "running", lastRun: underWay(T0 - 5000), ...change });
const config = (condition: "invalid" | "missing") => (view: View) => ({
  config: { ...view.config, condition, problems: [{ file: "ConfigMap c", message: `is ${condition}` }] },
});
const phase = (view: View) => ({
  converge: { ...view.converge, phase: "modules" as const, remaining: ["d"] },
});
const deletionLimit = (confirmed: boolean) => () => ({
  deletionLimit: {
    modules: ["b", "e"],
    covers: ["b 1", "e 1"],
    moves: [],
    isExceeded: true,
    removed: 0,
    installed: 3,
    token: "7",
    confirmed,
  },
});
const up = { state: "Ready", ready: "True", reason: "Ready", kstatus: "Current" } as const;
const busy = { state: "Running", ready: "Unknown", reason: "Progressing", kstatus: "InProgress" } as const;
const down = { state: "Retrying", ready: "False", reason: "ModulesFailing", kstatus: "InProgress" } as const;
const waits = {
  state: "Pending",
  ready: "Unknown",
  reason: "ModulesBlocked",
  kstatus: "InProgress",
} as const;
const ill = {
  state: "Unhealthy",
  ready: "False",
  reason: "ModulesUnhealthy",
  kstatus: "InProgress",
} as const;
const bad = { state: "Invalid", ready: "False", kstatus: "Failed" } as const;

const rows: readonly Row[] = [
  { name: "no module", modules: [], ...up },
  { name: "all enabled ready", modules: [good, off], ...up },
  { name: "starting", view: () => ({ boot: "onStartup" }), ...busy, state: "Pending" },
  { name: "first reload", view: () => ({ boot: "converging" }), ...busy },
  { name: "a reload", view: phase, ...busy },
  { name: "asked for", view: () => ({ requestedToken: "t" }), ...busy, state: "Pending" },
  {
    name: "a module runs",
    modules: [good, running("r")],
    ...busy,
  },
  { name: "a module heals", modules: [moduleView("h", { activity: "healing" })], ...up },
  {
    name: "a module fails",
    modules: [good, failing, broken],
    ...down,
  },
  {
    name: "a module fails in a reload",
    modules: [good, failing],
    view: phase,
    ...down,
  },
  { name: "a module that is switched on has no content yet", modules: [good, away(true)], ...down },
  { name: "a module that nothing switches on has no content", modules: [good, away(false)], ...up },
  { name: "only a person can help", modules: [good, broken], ...bad, reason: "ModulesInvalid" },
  { name: "a module is not healthy yet", modules: [good, unhealthy("Unknown")], ...busy },
  {
    name: "a module is not healthy",
    modules: [good, unhealthy("False")],
    ...ill,
  },
  {
    name: "a module is not healthy, another requires action",
    modules: [broken, unhealthy("False")],
    ...bad,
    reason: "ModulesInvalid",
  },
  { name: "a module waits for what it requires", modules: [good, blocked], ...waits },
  { name: "a module waits for a Secret with values", modules: [good, withoutValues], ...waits },
  { name: "a module waits, another is not healthy", modules: [unhealthy("False"), blocked], ...ill },
  {
    name: "a module waits, another runs",
    modules: [good, blocked, running("r")],
    ...busy,
  },
  {
    name: "a broken module that is switched off",
    modules: [good, { ...broken, enabled: false, flag: false }],
    ...up,
  },
  {
    name: "a broken module that its unreadable values.yaml may switch on",
    modules: [good, { ...broken, enabled: false, flag: false, isFlagUnknown: true }],
    ...bad,
    reason: "ModulesInvalid",
  },
  {
    name: "a broken module that is switched on, and never was on",
    modules: [good, { ...broken, enabled: false }],
    ...bad,
    reason: "ModulesInvalid",
  },
  {
    name: "a removal is held",
    modules: [good, off],
    view: deletionLimit(false),
    ...bad,
    reason: "RemovalHeld",
  },
  {
    name: "the move of a release is held",
    modules: [good, { ...broken, name: "e" }],
    view: deletionLimit(false),
    ...bad,
    reason: "RemovalHeld",
  },
  { name: "a held removal was confirmed", modules: [good, off], view: deletionLimit(true), ...up },
  {
    name: "ConfigMap invalid",
    modules: [failing],
    view: config("invalid"),
    ...bad,
    reason: "ConfigMapInvalid",
  },
  {
    name: "ModuleSources that cannot be read",
    modules: [failing],
    view: (view) => ({ ...view, sourcesProblem: "The ModuleSources cannot be read: no right" }),
    ...bad,
    reason: "SourcesUnreadable",
  },
  { name: "ConfigMap missing", view: config("missing"), ...bad, reason: "ConfigMapMissing" },
];

describe("AddonOperator", () => {
  it.each(rows)("$name: $state", (row) => {
    const view = viewOf(row.modules ?? [good]);
    const status = projectOperatorView({ ...view, ...row.view?.(view) });
    const object = { metadata: { name: "o", generation: 1 }, status: withGeneration(status, 1) };
    expect(status.state).toBe(row.state);
    expect(status.conditions[0]).toMatchObject({ type: "Ready", status: row.ready, reason: row.reason });
    expect(kstatus(object)).toBe(row.kstatus);
    expect(violations(object)).toEqual([]);
    const isAtRest = row.ready === "True" || row.kstatus === "Failed";
    expect(isAtRest ? conformance(object) : []).toEqual([]);
  });

  it.each([
    ["missing", { invalidConfig: "stop" }, true, ""],
    [
      "invalid",
      { invalidConfig: "stop" },
      true,
      /stays in force until then, but not over a restart: .*=stop\)$/,
    ],
    ["invalid", { invalidConfig: "last-good" }, true, /stays in force until then, also over restarts$/],
    ["invalid", { invalidConfig: "stop" }, false, /does not start with an invalid ConfigMap .*=stop\)$/],
    ["invalid", { invalidConfig: "last-good" }, false, /does not start: no content .*=last-good\)$/],
  ] as const)("says of a ConfigMap that is %s what is wrong and in force: %o, %s", (...row) => {
    const [condition, change, isInForce, consequence] = row;
    const view = viewOf([good], change);
    const seen = config(condition)({ ...view, config: { ...view.config, isInForce } });
    const status = projectOperatorView({ ...view, ...seen });
    const message = status.conditions[0]?.message ?? "";
    expect(message).toMatch(new RegExp(`^ConfigMap c: is ${condition}(; |$)`));
    expect(message).toMatch(consequence);
  });

  it("reports what stands in the way of global hooks and webhooks beside any state, and changes none", () => {
    const issues = ["hook a.sh, binding pods: forbidden", "hook b.sh, binding nodes: no kind"];
    const ready = (modules: readonly ModuleView[], change: Partial<View>) =>
      projectOperatorView(viewOf(modules, change)).conditions[0];
    for (const modules of [[good], [good, failing]]) {
      const quiet = ready(modules, {});
      const message = [quiet?.message, ...issues].join("; ");
      expect(ready(modules, { issues })).toEqual({ ...quiet, message });
      const unregistered = `${quiet?.message}; webhooks: Service ops/hooks does not exist`;
      expect(ready(modules, { webhookIssues: ["Service ops/hooks does not exist"] })).toEqual({
        ...quiet,
        message: unregistered,
      });
      const hidden = `${quiet?.message}; ${OVERFULL_WARNING}`;
      expect(ready(modules, { hidesWords: true })).toEqual({ ...quiet, message: hidden });
    }
  });

  it("is Retrying while it cannot write its Lease, also at the start", () => {
    const leaseIssue = "The Lease x cannot be written: failed calling webhook; kubectl delete it";
    const ready = (change: Partial<View>, ...modules: readonly ModuleView[]) =>
      projectOperatorView(viewOf(modules, { leaseIssue, ...change })).conditions[0];
    const retrying = { status: "False", reason: "LeaseFailed", message: leaseIssue };
    expect(ready({ boot: "loading" })).toMatchObject(retrying);
    expect(ready({}, good)).toMatchObject(retrying);
    expect(ready({}, failing)?.message).toContain(leaseIssue);
  });

  it("is not Ready while it cannot watch its own objects, and says so in any state", () => {
    const watchIssues = ["ConfigMap addon-operator cannot be watched: forbidden"];
    const status = (modules: readonly ModuleView[]) => projectOperatorView(viewOf(modules, { watchIssues }));
    const [message] = watchIssues;
    const ready = { type: "Ready", status: "False", reason: "WatchFailed", message };
    expect(status([good])).toMatchObject({ state: "Retrying", conditions: [ready, {}] });
    expect(status([failing])).toMatchObject({
      state: "Retrying",
      conditions: [{ reason: "ModulesFailing" }, {}],
    });
    expect(status([failing]).conditions[0]?.message).toContain(message);
  });

  it.each<[string, readonly ModuleView[], Partial<View>, string]>([
    ["two modules run", [running("r"), running("s")], {}, "Module r is in progress (and 1 more)"],
    [
      "one runs, and one waits until it has run",
      [awaiting("b", "r"), running("r", { phase: "new" })],
      {},
      "Module r is in progress (and 1 more)",
    ],
    [
      "one waits for another, whose run is about to begin",
      [awaiting("b", "n"), moduleView("n", { phase: "new" })],
      {},
      "Module b is Pending (and 1 more): waits for n, which runs before it (since 2026-01-01T00:00:00Z)",
    ],
    [
      "two modules fail",
      [failing, { ...failing, name: "e" }],
      {},
      "Module c failed and is retried (and 1 more): boom",
    ],
    [
      "a removal fails",
      [good, { ...failing, enabled: false, flag: false }],
      {},
      "Module c is disabled, but its removal failed and is retried: boom",
    ],
    [
      "a module fails that is about to be removed",
      [good, { ...failing, flag: false }],
      {},
      "Module c is in progress",
    ],
    [
      "a module waits",
      [good, blocked],
      {},
      "Module w waits for a requirement: waits for none, which does not exist (since 2026-01-01T00:00:00Z)",
    ],
    ["a user requested a converge", [good], { requestedToken: "t" }, "Waits for the requested converge"],
    [
      "global values are missing",
      [good],
      { boot: "waiting", missingGlobals: ["Secret ops/globals"] },
      "Global values are in Secret ops/globals",
    ],
    ["the operator starts", [good], { boot: "waiting" }, "Reading modules and configuration"],
    [
      "the ModuleSources cannot be read",
      [good],
      { sourcesProblem: "no permission" },
      "no permission; modules of ModuleSources stay as they are, and none is removed",
    ],
  ])("the message says why it is not Ready if %s", (...row) => {
    const [, modules, change, message] = row;
    expect(projectOperatorView(viewOf(modules, change)).conditions[0]?.message).toBe(message);
  });

  it.each<[string, ModuleView, string, string]>([
    ["in place of a message that all is well", good, "HooksFailing", HOOK_FAILS],
    ["before what is in progress", running("r"), "HooksFailing", `${HOOK_FAILS}; Module r is in progress`],
    [
      "behind what is worse",
      failing,
      "ModulesFailing",
      `Module c failed and is retried: boom; ${HOOK_FAILS}`,
    ],
  ])("names failing hooks %s", (...row) => {
    const [, module, reason, message] = row;
    const status = projectOperatorView(viewOf([module]), [{ name: "main", length: 1, tasks: [HOOK] }]);
    expect(status).toMatchObject({ state: "Retrying" });
    expect(status.conditions[0]).toMatchObject({ status: "False", reason, message });
  });

  it("describes a failing hook once that blocks a converge", () => {
    const view = viewOf([good]);
    const status = projectOperatorView({ ...view, ...phase(view) }, [
      { name: "main", length: 1, tasks: [HOOK] },
    ]);
    expect(status.conditions[0]?.message).toBe(
      "Converge of all modules (start-up) is blocked: afterAll hook x failed 1 time: no",
    );
    expect(status.conditions.at(-1)).toMatchObject({ type: "HooksFailing", message: HOOK_FAILS });
  });

  it("lists keys of the ConfigMap that match no module, and says so beside any state", () => {
    const view = viewOf([good]);
    const unknownKeys = ["webb (did you mean web?)", "old"];
    const check = { ...view, config: { ...view.config, unknownKeys } };
    const status = projectOperatorView(check);
    expect(status.observedConfig?.unknownKeys).toEqual(unknownKeys);
    expect(status.conditions[0]).toMatchObject({ status: "True", reason: "Ready" });
    expect(status.conditions[0]?.message).toBe(
      "All enabled modules are ready (1); keys of the ConfigMap that match no module: webb (did you mean web?), old",
    );
  });

  it("says first that all modules are suspended, in a condition, too", () => {
    const view = viewOf([good]);
    const frozen = { ...view, config: { ...view.config, isFrozen: true } };
    const { conditions } = projectOperatorView(frozen);
    expect(conditions.map(({ type, status }) => [type, status])).toEqual([
      ["Ready", "True"],
      ["Suspended", "True"],
    ]);
    expect(conditions[0]?.message).toMatch(
      /^All modules are suspended: maintenance is set in the ConfigMap.*; All enabled modules are ready \(1\)$/,
    );
  });

  it("reports the rights that are missing and why removals are delayed", () => {
    const missingRights = ["create leases.coordination.k8s.io in namespace ns"];
    const view = viewOf([good], {
      missingRights,
      removalBlockers: [{ action: "purge", text: "not purged: a" }],
    });
    const status = projectOperatorView(view);
    expect(status).toMatchObject({ missingRights, holds: ["not purged: a"] });
  });

  it("counts modules that wait for what they require", () => {
    const wait = (on: string) => {
      const view = moduleView(`waits-${on}`, { blockedSince: T0 });
      return { ...view, module: { ...view.module, requires: { modules: { [on]: "*" } } } };
    };
    const status = projectOperatorView(
      viewOf([good, off, wait("b"), wait("none"), wait("a"), withoutValues]),
    );
    expect(status.modules).toMatchObject({ blocked: 3, progressing: 3 });
  });

  it("counts modules that are not healthy, and those that are not yet", () => {
    const view = viewOf([good, unhealthy("False"), { ...unhealthy("Unknown"), name: "j" }]);
    const status = projectOperatorView(view);
    expect(status.modules).toMatchObject({ ready: 1, progressing: 1, unhealthy: 1, retrying: 0 });
  });

  it("counts modules and reports the progress of a converge", () => {
    const view = viewOf([good, off, failing, broken]);
    const status = projectOperatorView({ ...view, ...phase(view) });
    expect(status.modules).toEqual({
      summary: "1/3",
      total: 4,
      enabled: 3,
      ready: 1,
      progressing: 0,
      retrying: 1,
      unhealthy: 0,
      invalid: 1,
      disabled: 1,
      suspended: 0,
      blocked: 0,
    });
    expect(status.converge).toMatchObject({ phase: "modules", progress: "2/3", remaining: 1 });
    expect(status.converge?.finishedAt).toBeUndefined();
  });
});

it("a removal that is held names the command that confirms it, for this AddonOperator", () => {
  const operator = { name: "addons", namespace: "infra" };
  const view = viewOf([good, off], { ...deletionLimit(false)(), operator });
  const status = projectOperatorView(view);
  const command =
    "kubectl annotate --overwrite -n infra addonoperator/addons addon-operator.io/confirm-delete=7";
  expect(status.conditions[0]?.message).toContain(command);
  // Also while something else is more urgent.
  const problem = { file: "a", message: "broken" };
  const broken = viewOf([moduleView("web", { problem }), off], { ...deletionLimit(false)(), operator });
  const { message } = projectOperatorView(broken).conditions[0] ?? {};
  expect(message).toMatch(/^Module web requires action.*broken/);
  expect(message).toContain(command);
});
