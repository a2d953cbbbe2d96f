import { describe, expect, it, test } from "vitest";

import { type Condition } from "../../../src/report/index.ts";
import type { ModuleView } from "../../../src/engine/state/index.ts";
import { T0, basis, finished, moduleView, release, underWay, projectView } from "../views.ts";
import { describeEnablement } from "../../../src/report/index.ts";
import { evaluateModule, isRunUnannounced } from "../../../src/report/explain/module-state.ts";

type Change = Partial<ModuleView> & { readonly hold?: string };
type Case = readonly [change: Change, state: string, message: string];

const RETRY = { reason: "HelmFailed", message: "helm: timed out", failures: 2, since: 0 } as const;
const AILS = { status: "Unknown", reason: "Progressing", message: "Pod web-0 crashes" } as const;
const WAITS = { hook: "Job/migrate (pre-upgrade)", hookSince: T0 - 30_000 };
const WAITS_TEXT =
  "Helm has been waiting for the chart hook Job/migrate (pre-upgrade) since 2025-12-31T23:59:30Z";
const PROBLEM = { file: "values.yaml", key: "m", message: "no YAML" };
const NEVER: Partial<ModuleView> = { phase: "new", release: undefined, handled: {} };

function reported({ hold, ...change }: Change): readonly [string, string] {
  const { state, message } = evaluateModule(moduleView("m", change), { now: T0, blocker: hold });
  return [state, message];
}

describe("what the MESSAGE column says", () => {
  it.each<Case>([
    [{}, "Ready", "Release m.v3 is in place"],
    [{ release: undefined }, "Ready", "Everything ran"],
    [
      { issues: ["Pods: forbidden", "Jobs: forbidden"] },
      "Ready",
      "Release m.v3 is in place; Pods: forbidden; Jobs: forbidden",
    ],
    [{ problem: PROBLEM }, "Invalid", "values.yaml: m: no YAML"],
    [{ crdWork: "Rewrites 4 of 9 objects" }, "Running", "Rewrites 4 of 9 objects"],
    [{ rollbackReason: "Rolled back" }, "RolledBack", "Rolled back"],
    [
      { rollbackReason: "Rolled back", unhealthy: AILS },
      "RolledBack",
      "Rolled back; not healthy: Pod web-0 crashes",
    ],
    [{ retry: RETRY }, "Retrying", "helm: timed out"],
    [{ enabled: false, activity: "deleting" }, "Deleting", "The release is being removed"],
    [{ enabled: false, activity: "deleting", retry: RETRY }, "Retrying", "helm: timed out"],
    // A run.
    [{ activity: "running", lastRun: undefined }, "Running", "The module is running"],
    [{ activity: "running", lastRun: underWay(T0 - 1000) }, "Running", "Running helm: ConfigMap changed"],
    [
      { activity: "running", lastRun: underWay(T0 - 1000, { step: "beforeHelm", hook: "010-a" }) },
      "Running",
      "Running beforeHelm hook 010-a: ConfigMap changed",
    ],
    [
      { activity: "running", lastRun: underWay(T0 - 40_000, WAITS) },
      "Running",
      `${WAITS_TEXT}; cause of the run: ConfigMap changed`,
    ],
    [
      { activity: "healing", missingObjects: ["n/Service/a"], lastRun: underWay(T0 - 40_000, WAITS) },
      "Running",
      `Bringing back n/Service/a: ${WAITS_TEXT}`,
    ],
    [
      { enabled: false, activity: "deleting", lastRun: underWay(T0 - 40_000, WAITS) },
      "Deleting",
      `The release is being removed: ${WAITS_TEXT}`,
    ],
    [{ activity: "running", lastRun: underWay(T0 - 999) }, "Ready", "Release m.v3 is in place"],
    // One that has just ended is not hidden, however short it was.
    [
      { activity: "running", lastRun: finished({ startedAt: T0 - 10, finishedAt: T0, step: "helm" }) },
      "Running",
      "Running helm: ConfigMap changed",
    ],
    // Objects that are gone.
    [{ missingObjects: ["n/Service/a"] }, "Pending", "Waits to bring back n/Service/a"],
    [
      { missingObjects: ["n/Service/a", "n/Service/b", "n/Service/c"] },
      "Pending",
      "Waits to bring back n/Service/a and 2 more",
    ],
    [
      { deferredObjects: ["n/Service/a"] },
      "Pending",
      "Waits to bring back n/Service/a, with growing delays because it is deleted repeatedly",
    ],
    [{ activity: "healing", missingObjects: ["n/Service/a"] }, "Running", "Bringing back n/Service/a"],
    [{ activity: "healing", missingObjects: [] }, "Running", "Bringing back missing objects"],
    // A release whose objects nobody knows.
    [
      {
        releaseReadError:
          "the release record in Secret ns/sh.helm.release.v1.m.v3 cannot be read: it is no JSON",
      },
      "Invalid",
      "the release record in Secret ns/sh.helm.release.v1.m.v3 cannot be read: it is no JSON",
    ],
    // Something is owed.
    [{ configDigest: "v1-c2" }, "Pending", "Waits for its turn"],
    [{ requestedToken: "t1" }, "Pending", "Waits for its turn"],
    [{ requestedToken: "t1", handled: basis({ token: "t1" }) }, "Ready", "Release m.v3 is in place"],
    [{ phase: "synchronization" }, "Pending", "Waits for its turn"],
    [{ ...NEVER, hold: "waits for db" }, "Pending", "waits for db"],
    // Off.
    [
      { enabled: false, release: undefined, enabledBy: "none" },
      "Disabled",
      "Disabled because nothing enables it",
    ],
    [{ enabled: false, release: undefined, phase: "new" }, "Disabled", "Disabled by the ConfigMap"],
    [{ enabled: false, release: undefined, configDigest: "v1-c2" }, "Pending", "Waits for its turn"],
    [{ enabled: false }, "Pending", "Waits to be removed"],
    [{ enabled: false, hold: "waits for db" }, "Pending", "waits for db"],
    [
      { enabled: false, release: release("m", { status: "uninstalled" }) },
      "Disabled",
      "Disabled by the ConfigMap",
    ],
    // Suspended.
    [
      { suspended: true },
      "Suspended",
      "Suspended in the ConfigMap: Helm does not run, hooks continue to run",
    ],
    [
      { suspended: true, enabled: false },
      "Suspended",
      "Disabled, but its release stays while it is suspended",
    ],
    [{ suspended: true, configDigest: "v1-c2" }, "Pending", "Waits for its turn"],
  ])("%j", (change, state, message) => {
    expect(reported(change)).toEqual([state, message]);
  });
});

test("a module that waits for a requirement names its missing objects", () => {
  const wait = { awaitedName: "db", reason: "DependencyNotReady", message: "waits for db" } as const;
  const { message } = evaluateModule(moduleView("m", { missingObjects: ["n/Service/a"] }), {
    now: T0,
    runBlocker: wait,
  });
  expect(message).toBe("waits for db; missing: n/Service/a");
});

describe("a young run", () => {
  it("is hidden while it goes on, for less than a second", () => {
    const hidden = (change: Partial<ModuleView>) => isRunUnannounced(moduleView("m", change), T0);
    const young = underWay(T0 - 999);
    expect(hidden({ activity: "running", lastRun: young })).toBe(true);
    expect(hidden({ activity: "running", lastRun: underWay(T0 - 1000) })).toBe(false);
    expect(hidden({ activity: "deleting", lastRun: young })).toBe(false);
    expect(hidden({ activity: "running", lastRun: undefined })).toBe(false);
  });

  it("makes progress, whether its step is known or not", () => {
    for (const lastRun of [undefined, underWay(T0 - 1000)]) {
      const { reason } = evaluateModule(moduleView("m", { activity: "running", lastRun }), { now: T0 });
      expect(reason).toBe("Progressing");
    }
  });
});

describe("Ready of a module whose helm is left alone", () => {
  it.each<readonly [Partial<ModuleView>, string]>([
    [{}, "True"],
    [{ lastRun: finished({ result: "Failed" }) }, "False"],
    [{ lastRun: undefined }, "True"],
    [{ enabled: false, lastRun: finished({ result: "Failed" }) }, "True"],
  ])("%j: %s", (change, ready) => {
    const facts = {
      now: T0,
    } as const;
    const { conditions } = projectView(moduleView("m", { suspended: true, ...change }), facts).status;
    expect(conditions.find(({ type }) => type === "Ready")?.status).toBe(ready);
  });
});

describe("conditions beside Ready", () => {
  const beside = (change: Partial<ModuleView>): Partial<Condition> | undefined => {
    const facts = {
      now: T0,
    } as const;
    const { conditions } = projectView(moduleView("m", change), facts).status;
    return conditions.find(({ type }) => type === "Reconciling" || type === "Stalled");
  };

  it.each<readonly [Partial<ModuleView>, Partial<Condition>]>([
    [
      { problem: PROBLEM },
      {
        type: "Stalled",
        reason: "Invalid",
        message: "values.yaml: m: no YAML (docs/guides/on-call.md#a-module-is-invalid)",
      },
    ],
    [{ retry: RETRY }, { type: "Reconciling", reason: "ProgressingWithRetry", message: "helm: timed out" }],
    [{ requestedToken: "t1" }, { type: "Reconciling", reason: "Progressing", message: "Waits for its turn" }],
  ])("%j", (change, expected) => {
    expect(beside(change)).toMatchObject({ ...expected, status: "True" });
  });
});

describe("why a module is on or off", () => {
  it.each<readonly [Partial<ModuleView>, string]>([
    [{ enabledBy: "values" }, "Enabled by values.yaml of the modules directory"],
    [{ enabledBy: "module-values" }, "Enabled by the module's own values.yaml"],
    [{ enabledBy: "hook" }, "Enabled by a global hook"],
    [{ enabledBy: "configmap" }, "Enabled by the ConfigMap"],
    [
      { enabled: false, enabledBy: "script", enabledReason: "no GPU here" },
      "Disabled by the module's enabled script: no GPU here",
    ],
  ])("%j", (change, text) => {
    expect(describeEnablement(moduleView("m", change))).toBe(text);
  });
});

describe("a healing", () => {
  const unhealthy = (status: "False" | "Unknown") => ({ status, reason: "Unhealthy", message: "no Pods" });
  it.each<[string, Partial<ModuleView>, string]>([
    ["of a module that is well", {}, "True"],
    ["after a failure", { retry: RETRY }, "False"],
    ["of a release that was rolled back", { rollbackReason: "Rolled back to chart 1.0.0" }, "False"],
    ["of a release that is not healthy", { unhealthy: unhealthy("False") }, "False"],
    ["of a release that may become healthy", { unhealthy: unhealthy("Unknown") }, "Unknown"],
    ["while another object is in a back-off", { deferredObjects: ["n/Service/b"] }, "Unknown"],
  ])("%s leaves Ready as it was", (_what, change, ready) => {
    const view = moduleView("m", { activity: "healing", missingObjects: ["n/Service/a"], ...change });
    expect(evaluateModule(view, { now: T0 }).ready).toBe(ready);
  });
});
