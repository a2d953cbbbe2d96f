import { describe, expect, it } from "vitest";

import { conformance, kstatus, violations } from "../../support/kstatus.ts";
import { type Condition, withGeneration } from "../../../src/report/index.ts";
import { rows } from "../rows.ts";
import { T0, finished, moduleView, underWay, projectView } from "../views.ts";

const retry = { reason: "HelmFailed", message: "helm: timed out", failures: 2, since: 0 } as const;
const problem = { file: "ConfigMap addon-operator", key: "m", message: "replicas must be a number" };

describe("the table of states", () => {
  it.each(rows)("$name: $state", (row) => {
    const view = moduleView("m", row.view);
    const { status } = projectView(view, {
      now: T0,
      blocker: row.hold,
      runBlocker: row.wait,
    });
    const object = { metadata: { name: "m", generation: 4 }, status: withGeneration(status, 4) };
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
    const facts = { now: T0 } as const;
    const displayed = projectView(moduleView("m"), facts).status;
    const young = moduleView("m", { activity: "running", lastRun: underWay(T0 - 1) });
    expect(projectView(young, { ...facts, previousStatus: displayed }).status.lastRun).toEqual(
      displayed.lastRun,
    );
  });

  it("reports a long command as a whole, also to the schema of the CRD", () => {
    const patch = JSON.stringify({ versions: Array.from({ length: 60 }, (_, index) => `v1beta${index}`) });
    const remedy = `do it yourself: kubectl patch crd things --type=merge -p '${patch}' && kubectl get things`;
    const view = moduleView("m", { problem: { file: "crds/a.yaml", message: "m ".repeat(600), remedy } });
    const { status } = projectView(view, { now: T0 });
    expect(status.conditions[0]?.message).toContain(remedy);
    const object = { metadata: { name: "m", generation: 4 }, status: withGeneration(status, 4) };
    expect(violations(object)).toEqual([]);
  });

  it("reports a failure in one line without secrets", () => {
    const message =
      "cannot reach https://bob:hunter2@db/x\n-----BEGIN RSA PRIVATE KEY-----\nQUJD\n-----END RSA PRIVATE KEY-----";
    const view = moduleView("m", {
      lastRun: finished({ result: "Failed", message }),
      retry: { ...retry, message },
    });
    const { status } = projectView(view, {
      now: T0,
    });
    const text = JSON.stringify(status);
    expect(text).not.toMatch(/hunter2|QUJD|\\n/);
    expect(status.lastRun?.message).toContain("cannot reach https://");
  });

  it("keeps a transition time while the status of a condition does not change", () => {
    const previousStatus = projectView(moduleView("m"), { now: T0 }).status;
    const next = moduleView("m", { problem });
    const second = projectView(next, { now: T0 + 60_000, previousStatus }).status.conditions;
    expect(second.find(({ type }) => type === "Enabled")?.lastTransitionTime).toBe("2026-01-01T00:00:00Z");
    expect(second.find(({ type }) => type === "Ready")?.lastTransitionTime).toBe("2026-01-01T00:01:00Z");
  });
});
