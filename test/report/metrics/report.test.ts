import { expect, test } from "vitest";

import type { Health } from "../../../src/kube/health/index.ts";
import { Metrics, type Report } from "../../../src/report/metrics/index.ts";
import type { Hook, KubernetesBinding, Module, ScheduleBinding } from "../../../src/base/model/index.ts";
import { State, type RemovalBlocker } from "../../../src/engine/state/index.ts";
import type { OperatorEvent } from "../../../src/report/index.ts";
import { WatchIssues } from "../../../src/config/index.ts";
import { viewOf } from "../views.ts";
import { ManualClock } from "../../support/clock.ts";
import { reportOf } from "./report-of.ts";

/** The Events that follow from what `act` reports. */
function eventsOf(act: (report: Report) => void): OperatorEvent[] {
  const { report, events } = reportOf();
  act(report);
  return events;
}

/** The same as texts, with the module if there is one. */
function textsOf(act: (report: Report) => void): string[] {
  return eventsOf(act).map(
    ({ module, reason, note }) => `${module === undefined ? "" : `${module} `}${reason}: ${note}`,
  );
}

test.each([
  ["ValuesInvalid", "ValuesInvalid"],
  ["ValuesIncomplete", "ValuesInvalid"],
  ["HookFailed", "RunFailed"],
  ["HelmFailed", "RunFailed"],
  ["ForeignRelease", "RunFailed"],
  ["Invalid", "RunFailed"],
])("a failure for the reason %s is the Event %s", (reason, event) => {
  const events = eventsOf((report) => report.failed("web", reason, "why"));
  expect(events).toEqual([{ module: "web", reason: event, note: `${reason}: why` }]);
});

test("the removal of a release without a module is an Event of the AddonOperator", () => {
  const note = "release old, which has no module directory any more, was removed";
  expect(eventsOf((report) => report.releasePurged("old"))).toEqual([
    { module: undefined, reason: "ReleaseRemoved", note },
  ]);
});

test("an Event reports who switched a module, in a sentence", () => {
  const events = eventsOf((report) => {
    report.moduleSwitched("web", { enabled: false, by: "script", reason: "ingress is disabled" });
    report.moduleSwitched("web", { enabled: true, by: "configmap" });
    report.moduleSwitched("web", { enabled: false, by: "none" });
  });
  expect(events.map(({ reason, note }) => `${reason}: ${note}`)).toEqual([
    "ModuleDisabled: Disabled by the module's enabled script: ingress is disabled",
    "ModuleEnabled: Enabled by the ConfigMap",
    "ModuleDisabled: Disabled because nothing enables it",
  ]);
});

test("a rollback on request is an Event, too", () => {
  const release = { name: "web", revision: 5 } as never;
  expect(eventsOf((report) => report.rolledBackByHand("web", release))).toEqual([
    { module: "web", reason: "RolledBack", note: "on request: release web, revision 5" },
  ]);
});

test("a rollback is an Event that says what failed and what is in force, and is counted", async () => {
  const outcome = { release: undefined, wasRecovered: false, rollbackReason: "chart 2 failed" } as const;
  const { report, events, metrics } = reportOf();
  report.moduleReleased("web", { ...outcome, action: "rolledBack" });
  report.moduleReleased("web", { ...outcome, action: "unchanged" });
  expect(events).toEqual([{ module: "web", reason: "RolledBack", note: "chart 2 failed" }]);
  expect(await metrics.renderText()).toContain('_rollbacks_total{module="web"} 1');
});

test("objects that a module took over are an Event, with the releases they came from", () => {
  const objects = ["ConfigMap/a of ns/other", "ClusterRole/b of ns/other"];
  expect(eventsOf((report) => report.tookOver("web", objects))).toEqual([
    { module: "web", reason: "ObjectsTakenOver", note: "ConfigMap/a of ns/other, ClusterRole/b of ns/other" },
  ]);
});

test("a hook that hangs is an Event that says what ends it; other long runs are none", () => {
  const binding = { type: "schedule", name: "check" } as ScheduleBinding;
  const hook = { name: "hooks/check.sh", module: "web" } as Hook;
  const events = eventsOf((report) => {
    report.runHangs("main", { kind: "hook", hook, trigger: { type: "schedule", binding } });
    report.runHangs("main", { kind: "run-module", module: "web", cause: { kind: "section" } });
  });
  const note =
    "check hook hooks/check.sh of web runs for five minutes in queue main, and blocks what waits there; restart the operator to end it, set --hook-timeout to limit such runs";
  expect(events).toEqual([{ module: "web", reason: "HookHangs", note }]);
});

test("what others have changed is reported with who and what, and counted; also that it was put back", () => {
  const changed = { field: "spec.replicas", manager: "kubectl", at: 0, removed: false };
  const missing = { field: "spec.paused", manager: undefined, at: undefined, removed: true };
  const title = "Deployment kube-system/web";
  const object = { object: "kube-system/Deployment/web", title, fields: [changed], isRepairDelayed: false };
  const events = textsOf((report) => {
    report.objectDrifted("web", object, false);
    report.objectDrifted("web", { ...object, fields: [missing, changed, changed] }, true);
    report.objectDrifted("web", { ...object, isRepairDelayed: true }, false);
  });
  expect(events).toEqual([
    `web Drifted: kubectl changed spec.replicas of ${title}`,
    `web Repaired: someone removed spec.paused and 2 more fields of ${title}`,
    `web Drifted: kubectl changed spec.replicas of ${title}; it was restored many times, so restores back off`,
  ]);
});

test("the Event of a held removal is for what is held, reported once until it is gone", () => {
  const off: RemovalBlocker = { action: "delete", text: "not deleted: a: the ConfigMap is missing" };
  const missing: RemovalBlocker = { action: "purge", text: "not purged: b: the ConfigMap is missing" };
  const events = textsOf((report) => {
    for (const removalBlockers of [[off], [off, missing], [missing], [off, missing]])
      report.removalsBlocked(viewOf([], { removalBlockers }));
  });
  expect(events).toEqual([
    `RemovalHeld: ${off.text}`,
    `PurgeRefused: ${missing.text}`,
    `RemovalHeld: ${off.text}`,
  ]);
});

test("a release that is not healthy is reported once, and that it is again; what is under way is not told", () => {
  const health = (status: Health["status"]) => ({ status, message: status }) as Health;
  const { True, Unknown, False } = {
    True: health("True"),
    Unknown: health("Unknown"),
    False: health("False"),
  };
  const textsAfter = (...healths: (Health | undefined)[]): string[] =>
    textsOf((report) => healths.forEach((each) => report.healthChanged("a", each)));
  expect(textsAfter(Unknown, True, Unknown, False, Unknown, False, Unknown, True, True)).toEqual([
    "a Unhealthy: False",
    "a Recovered: True",
  ]);
  expect(textsAfter(False, undefined, True)).toEqual(["a Unhealthy: False"]);
});

test("what packages below the state find out is recorded in the state, and counted", async () => {
  const clock = new ManualClock();
  const state = new State({ clock });
  const metrics = new Metrics("p_");
  const watchIssues = new WatchIssues({ state, clock });
  const listHookIssues = (module = "global") => [`issue of ${module}`];
  const { report } = reportOf({ state, metrics, watchIssues, listHookIssues });
  const web = { name: "web", valuesKey: "web", own: {}, common: {}, schemas: {}, crdFiles: [] };
  state.recordTree({ ...state.tree, modules: [web as unknown as Module] });
  report.permissionsChecked(["list pods", "get pods"]);
  report.webhookIssuesChanged(["not served"]);
  report.leaseIssueChanged("forbidden");
  report.leftoversChanged("web", ["Namespace/x"]);
  report.hookIssuesChanged(undefined);
  report.bindingIssueChanged({ module: "web" } as Hook, { name: "pods" } as KubernetesBinding, "no kind");
  report.ownWatchChanged("ConfigMap cm", new Error("cut"));
  await clock.advance(10_000);
  expect(state.view).toMatchObject({
    missingRights: ["list pods", "get pods"],
    webhookIssues: ["not served"],
    leaseIssue: "forbidden",
    issues: ["issue of global"],
    watchIssues: ["ConfigMap cm cannot be watched: cut"],
  });
  const { leftovers, issues } = state.view.modules.get("web") ?? {};
  expect({ leftovers, issues }).toEqual({ leftovers: ["Namespace/x"], issues: ["issue of web"] });
  const text = await metrics.renderText();
  for (const line of [
    "missing_rights 2",
    "webhook_registration_issues 1",
    'binding_monitor_missing_total{binding="pods"} 1',
  ])
    expect(text).toContain(`p_${line}`);
});
