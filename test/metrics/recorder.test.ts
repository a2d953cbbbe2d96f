import { expect, test } from "vitest";

import type { Health } from "../../src/health/index.ts";
import { silentLogger } from "../../src/lib/index.ts";
import {
  Metrics,
  makeDriftReporter,
  makeHangReporter,
  makeHealthReporter,
  makeBlockerReporter,
  makeHelmRecorder,
  makeRecorder,
} from "../../src/metrics/index.ts";
import type { Hook, ScheduleBinding } from "../../src/model/index.ts";
import type { RemovalBlocker } from "../../src/state/index.ts";
import type { OperatorEvent } from "../../src/status/index.ts";
import type { Recorder } from "../../src/tasks/index.ts";
import { viewOf } from "../status/views.ts";

/** The Events that what `report` reports a recorder becomes. */
function eventsOf(report: (recorder: Recorder) => void): OperatorEvent[] {
  const events: OperatorEvent[] = [];
  const announce = (each: OperatorEvent): void => void events.push(each);
  const metrics = new Metrics("");
  const state = { view: { modules: new Map() } } as never;
  report(makeRecorder({ metrics, announce, logger: silentLogger, state }));
  return events;
}

test.each([
  ["ValuesInvalid", "ValuesInvalid"],
  ["ValuesIncomplete", "ValuesInvalid"],
  ["HookFailed", "RunFailed"],
  ["HelmFailed", "RunFailed"],
  ["ForeignRelease", "RunFailed"],
  ["Invalid", "RunFailed"],
])("a failure for the reason %s is the Event %s", (reason, event) => {
  const events = eventsOf((recorder) => recorder.failed("web", reason, "why"));
  expect(events).toEqual([{ module: "web", reason: event, note: `${reason}: why` }]);
});

test("the removal of a release without a module is an Event of the AddonOperator", () => {
  const note = "release old, which has no module directory any more, was removed";
  expect(eventsOf((recorder) => recorder.releasePurged("old"))).toEqual([
    { module: undefined, reason: "ReleaseRemoved", note },
  ]);
});

test("an Event reports who switched a module, in a sentence", () => {
  const events = eventsOf((recorder) => {
    recorder.moduleSwitched("web", { enabled: false, by: "script", reason: "ingress is disabled" });
    recorder.moduleSwitched("web", { enabled: true, by: "configmap" });
    recorder.moduleSwitched("web", { enabled: false, by: "none" });
  });
  expect(events.map(({ reason, note }) => `${reason}: ${note}`)).toEqual([
    "ModuleDisabled: Disabled by the module's enabled script: ingress is disabled",
    "ModuleEnabled: Enabled by the ConfigMap",
    "ModuleDisabled: Disabled because nothing enables it",
  ]);
});

test("a rollback on request is an Event, too", () => {
  const release = { name: "web", revision: 5 } as never;
  expect(eventsOf((recorder) => recorder.rolledBackByHand("web", release))).toEqual([
    { module: "web", reason: "RolledBack", note: "on request: release web, revision 5" },
  ]);
});

test("a rollback is an Event that says what failed and what is in force, and is counted", () => {
  const outcome = { release: undefined, wasRecovered: false, refusal: "chart 2 failed" } as const;
  const metrics = new Metrics("");
  const state = { view: { modules: new Map() } } as never;
  const events: OperatorEvent[] = [];
  const announce = (each: OperatorEvent): void => void events.push(each);
  const recorder = makeRecorder({ metrics, announce, logger: silentLogger, state });
  recorder.moduleReleased("web", { ...outcome, action: "rolledBack" });
  recorder.moduleReleased("web", { ...outcome, action: "unchanged" });
  expect(events).toEqual([{ module: "web", reason: "RolledBack", note: "chart 2 failed" }]);
});

test("objects that a module took over are an Event, with the releases they came from", () => {
  const events: OperatorEvent[] = [];
  const announce = (each: OperatorEvent): void => void events.push(each);
  const metrics = new Metrics("");
  const state = { view: { modules: new Map() } } as never;
  const recorder = makeHelmRecorder({ metrics, announce, state });
  recorder.tookOver("web", ["ConfigMap/a of ns/other", "ClusterRole/b of ns/other"]);
  expect(events).toEqual([
    { module: "web", reason: "ObjectsTakenOver", note: "ConfigMap/a of ns/other, ClusterRole/b of ns/other" },
  ]);
});

test("a hook that hangs is an Event that says what ends it; other long runs are none", () => {
  const events: OperatorEvent[] = [];
  const report = makeHangReporter({ announce: (each) => void events.push(each), logger: silentLogger });
  const binding = { type: "schedule", name: "check" } as ScheduleBinding;
  const hook = { name: "hooks/check.sh", module: "web" } as Hook;
  report("main", { kind: "hook", hook, trigger: { type: "schedule", binding } });
  report("main", { kind: "run-module", module: "web", cause: { kind: "section" } });
  const note =
    "check hook hooks/check.sh of web runs for five minutes in queue main, and blocks what waits there; restart the operator to end it, set --hook-timeout to limit such runs";
  expect(events).toEqual([{ module: "web", reason: "HookHangs", note }]);
});

test("what others have changed is reported with who and what, and counted; also that it was put back", () => {
  const events: string[] = [];
  const announce = ({ module, reason, note }: OperatorEvent): void =>
    void events.push(`${module} ${reason}: ${note}`);
  const metrics = new Metrics("");
  const report = makeDriftReporter({ announce, logger: silentLogger, metrics });
  const changed = { field: "spec.replicas", manager: "kubectl", at: 0, removed: false };
  const missing = { field: "spec.paused", manager: undefined, at: undefined, removed: true };
  const title = "Deployment kube-system/web";
  const object = { object: "kube-system/Deployment/web", title, fields: [changed], isRepairDelayed: false };
  report("web", object, false);
  report("web", { ...object, fields: [missing, changed, changed] }, true);
  report("web", { ...object, isRepairDelayed: true }, false);
  expect(events).toEqual([
    `web Drifted: kubectl changed spec.replicas of ${title}`,
    `web Repaired: someone removed spec.paused and 2 more fields of ${title}`,
    `web Drifted: kubectl changed spec.replicas of ${title}; it was restored many times, so restores back off`,
  ]);
});

test("the Event of a held removal is for what is held, reported once until it is gone", () => {
  const events: string[] = [];
  const announce = ({ reason, note }: OperatorEvent): void => void events.push(`${reason}: ${note}`);
  const report = makeBlockerReporter({ announce, logger: silentLogger });
  const off: RemovalBlocker = { action: "delete", text: "not deleted: a: the ConfigMap is missing" };
  const missing: RemovalBlocker = { action: "purge", text: "not purged: b: the ConfigMap is missing" };
  report(viewOf([], { removalBlockers: [off] }));
  report(viewOf([], { removalBlockers: [off, missing] }));
  report(viewOf([], { removalBlockers: [missing] }));
  report(viewOf([], { removalBlockers: [off, missing] }));
  expect(events).toEqual([
    `RemovalHeld: ${off.text}`,
    `PurgeRefused: ${missing.text}`,
    `RemovalHeld: ${off.text}`,
  ]);
});

test("a release that is not healthy is reported once, and that it is again; what is under way is not told", () => {
  const events: string[] = [];
  const announce = ({ module, reason, note }: OperatorEvent): void =>
    void events.push(`${module ?? ""}: ${reason}: ${note}`);
  const report = makeHealthReporter({ announce });
  const health = (status: Health["status"]) => ({ status, message: status }) as Health;
  const { True, Unknown, False } = {
    True: health("True"),
    Unknown: health("Unknown"),
    False: health("False"),
  };
  for (const each of [Unknown, True, Unknown, False, Unknown, False, Unknown, True, True]) report("a", each);
  expect(events.splice(0)).toEqual(["a: Unhealthy: False", "a: Recovered: True"]);
  for (const each of [False, undefined, True]) report("b", each);
  expect(events).toEqual(["b: Unhealthy: False"]);
});
