import { describe, expect, it } from "vitest";

import { conformance, kstatus, violations } from "../support/kstatus.ts";
import type { ModuleView } from "../../src/state/index.ts";
import { type Condition, projectModule, stamp } from "../../src/status/index.ts";
import { T0, finished, moduleView, underWay } from "./views.ts";

/** One row of the table of states (design: Resources; docs/STATUS.md). */
interface Row {
  readonly name: string;
  readonly view: Partial<ModuleView>;
  readonly boot?: "loading" | "converging";
  readonly state: string;
  readonly ready: "True" | "False" | "Unknown";
  readonly other: "Reconciling" | "Stalled" | undefined;
  readonly kstatus: "Current" | "InProgress" | "Failed";
  readonly reason: string;
}

const never = {
  phase: "new",
  lastRun: undefined,
  release: undefined,
  handledConfigDigest: undefined,
} as const;
const retry = { reason: "HelmFailed", message: "helm: timed out", failures: 2, nextAt: T0 + 7000 } as const;
const problem = { file: "ConfigMap addon-operator", key: "m", message: "replicas must be a number" };
const waits = { state: "Pending", ready: "Unknown", other: "Reconciling", kstatus: "InProgress" } as const;
const works = { state: "Running", ready: "Unknown", other: "Reconciling", kstatus: "InProgress" } as const;
const rests = { state: "Ready", ready: "True", other: undefined, kstatus: "Current" } as const;
const fails = { state: "Retrying", ready: "False", other: "Reconciling", kstatus: "InProgress" } as const;
const broken = {
  state: "Invalid",
  ready: "False",
  other: "Stalled",
  kstatus: "Failed",
  reason: "Invalid",
} as const;
const off = { state: "Disabled", ready: "True", other: undefined, kstatus: "Current" } as const;
const held = { state: "Suspended", ready: "True", other: undefined, kstatus: "Current" } as const;

const rows: readonly Row[] = [
  { name: "never ran", view: never, boot: "converging", ...waits, reason: "Pending" },
  { name: "configuration moved", view: { configDigest: "v1-c2" }, ...waits, reason: "Pending" },
  { name: "run asked for", view: { requestedToken: "t1" }, ...waits, reason: "Pending" },
  { name: "hold", view: { ...never, hold: "Waits for module a" }, ...waits, reason: "Pending" },
  { name: "object missing", view: { absent: ["n/Service/s"] }, ...waits, reason: "ObjectsMissing" },
  { name: "off, not removed yet", view: { enabled: false }, ...waits, reason: "Pending" },
  {
    name: "running for a second",
    view: { activity: "running", lastRun: underWay(T0 - 1000) },
    ...works,
    reason: "Progressing",
  },
  {
    name: "running for less",
    view: { activity: "running", lastRun: underWay(T0 - 999) },
    ...rests,
    reason: "Ready",
  },
  {
    name: "healing",
    view: { activity: "healing", absent: ["n/Service/s"] },
    ...works,
    ready: "True",
    reason: "Healing",
  },
  { name: "ready", view: {}, ...rests, reason: "Ready" },
  ...(["HookFailed", "HelmFailed", "ScriptFailed", "ValuesIncomplete", "Unstable", "ApiFailed"] as const).map(
    (reason): Row => ({ name: reason, view: { retry: { ...retry, reason } }, ...fails, reason }),
  ),
  {
    name: "a retry for less than a second",
    view: { retry: { ...retry, nextAt: undefined }, activity: "running", lastRun: underWay(T0 - 10) },
    ...fails,
    reason: "HelmFailed",
  },
  {
    name: "failing removal",
    view: { enabled: false, activity: "deleting", retry },
    ...fails,
    reason: "HelmFailed",
  },
  { name: "broken", view: { problem }, ...broken },
  {
    name: "broken although running",
    view: { problem, activity: "running", lastRun: underWay(T0 - 9000) },
    ...broken,
  },
  { name: "disabled", view: { enabled: false, release: undefined }, ...off, reason: "Disabled" },
  {
    name: "deleting",
    view: { enabled: false, activity: "deleting" },
    ...waits,
    state: "Deleting",
    reason: "Deleting",
  },
  { name: "suspended", view: { suspended: true }, ...held, reason: "Suspended" },
  {
    name: "suspended, objects missing",
    view: { suspended: true, absent: ["n/S/s"] },
    ...held,
    reason: "Suspended",
  },
  { name: "suspended and off", view: { suspended: true, enabled: false }, ...held, reason: "Suspended" },
];

describe("the table of states", () => {
  it.each(rows)("$name: $state", (row) => {
    const view = moduleView("m", row.view);
    const { status } = projectModule(view, {
      now: T0,
      boot: row.boot ?? "running",
      before: new Map(),
      lastRunBefore: undefined,
      shown: {},
    });
    const object = { metadata: { name: "m", generation: 4 }, status: stamp(status, 4) };
    const of = new Map<string, Condition>(status.conditions.map((condition) => [condition.type, condition]));
    expect(status.state).toBe(row.state);
    expect(of.get("Ready")).toMatchObject({ status: row.ready, reason: row.reason });
    const there = (["Reconciling", "Stalled", "Suspended"] as const).filter(
      (type) => of.get(type)?.status === "True",
    );
    expect(there).toEqual([
      ...(row.other === undefined ? [] : [row.other]),
      ...(view.suspended ? ["Suspended"] : []),
    ]);
    expect(of.get("Enabled")?.status).toBe(view.enabled ? "True" : "False");
    expect(kstatus(object)).toBe(row.kstatus);
    expect(violations(object)).toEqual([]);
    const isAtRest = ["Ready", "Disabled", "Invalid"].includes(row.state);
    expect(isAtRest ? conformance(object) : []).toEqual([]);
  });

  it("keeps the run shown before while a young one is hidden", () => {
    const facts = { now: T0, boot: "running", before: new Map(), shown: {} } as const;
    const shown = projectModule(moduleView("m"), { ...facts, lastRunBefore: undefined }).status.lastRun;
    const young = moduleView("m", { activity: "running", lastRun: underWay(T0 - 1) });
    expect(projectModule(young, { ...facts, lastRunBefore: shown }).status.lastRun).toEqual(shown);
  });

  it("tells a failure in one line without secrets", () => {
    const message =
      "cannot reach https://bob:hunter2@db/x\n-----BEGIN RSA PRIVATE KEY-----\nQUJD\n-----END RSA PRIVATE KEY-----";
    const view = moduleView("m", {
      lastRun: finished({ result: "Failed", message }),
      retry: { ...retry, message },
    });
    const { status } = projectModule(view, {
      now: T0,
      boot: "running",
      before: new Map(),
      lastRunBefore: undefined,
      shown: {},
    });
    const text = JSON.stringify(status);
    expect(text).not.toMatch(/hunter2|QUJD|\\n/);
    expect(status.lastRun?.message).toContain("cannot reach https://");
  });

  it("keeps a transition time while the status of a condition does not change", () => {
    const facts = { boot: "running", lastRunBefore: undefined, shown: {} } as const;
    const first = projectModule(moduleView("m"), { ...facts, now: T0, before: new Map() }).status.conditions;
    const before = new Map(first.map((condition) => [condition.type, condition]));
    const next = moduleView("m", { problem });
    const second = projectModule(next, { ...facts, now: T0 + 60_000, before }).status.conditions;
    expect(second.find(({ type }) => type === "Enabled")?.lastTransitionTime).toBe("2026-01-01T00:00:00Z");
    expect(second.find(({ type }) => type === "Ready")?.lastTransitionTime).toBe("2026-01-01T00:01:00Z");
  });
});
