import { expect, test } from "vitest";

import type { Health } from "../../src/health/index.ts";
import { silentLogger } from "../../src/lib/index.ts";
import {
  Metrics,
  driftTeller,
  healthTeller,
  holdTeller,
  makeHelmRecorder,
  makeRecorder,
} from "../../src/metrics/index.ts";
import type { Hold } from "../../src/state/index.ts";
import type { OperatorEvent } from "../../src/status/index.ts";
import type { Recorder } from "../../src/tasks/index.ts";
import { viewOf } from "../status/views.ts";

/** The Events that what `tell` tells a recorder becomes. */
function eventsOf(tell: (recorder: Recorder) => void): OperatorEvent[] {
  const events: OperatorEvent[] = [];
  const announce = (each: OperatorEvent): void => void events.push(each);
  const metrics = new Metrics("");
  const state = { view: { modules: new Map() } } as never;
  tell(makeRecorder({ metrics, announce, logger: silentLogger, state }));
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

test("an Event tells who switched a module, in a sentence", () => {
  const events = eventsOf((recorder) => {
    recorder.switched("web", { enabled: false, by: "script", reason: "ingress is disabled" });
    recorder.switched("web", { enabled: true, by: "configmap" });
    recorder.switched("web", { enabled: false, by: "none" });
  });
  expect(events.map(({ reason, note }) => `${reason}: ${note}`)).toEqual([
    "ModuleDisabled: Switched off by the module's enabled script: ingress is disabled",
    "ModuleEnabled: Switched on by the ConfigMap",
    "ModuleDisabled: Off because nothing switches it on",
  ]);
});

test("a rollback is an Event that says what failed and what is in force, and is counted", () => {
  const outcome = { release: undefined, recovered: false, refused: "chart 2 failed" } as const;
  const metrics = new Metrics("");
  const state = { view: { modules: new Map() } } as never;
  const events: OperatorEvent[] = [];
  const announce = (each: OperatorEvent): void => void events.push(each);
  const recorder = makeRecorder({ metrics, announce, logger: silentLogger, state });
  recorder.released("web", { ...outcome, action: "rolledBack" });
  recorder.released("web", { ...outcome, action: "unchanged" });
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

test("what others have changed is told with who and what, and counted; also that it was put back", () => {
  const events: string[] = [];
  const announce = ({ module, reason, note }: OperatorEvent): void =>
    void events.push(`${module} ${reason}: ${note}`);
  const metrics = new Metrics("");
  const tell = driftTeller({ announce, logger: silentLogger, metrics });
  const changed = { field: "spec.replicas", manager: "kubectl", at: 0, removed: false };
  const gone = { field: "spec.paused", manager: undefined, at: undefined, removed: true };
  const title = "Deployment kube-system/web";
  const object = { object: "kube-system/Deployment/web", title, fields: [changed], isContested: false };
  tell("web", object, false);
  tell("web", { ...object, fields: [gone, changed, changed] }, true);
  tell("web", { ...object, isContested: true }, false);
  expect(events).toEqual([
    `web Drifted: kubectl changed spec.replicas of ${title}`,
    `web Repaired: somebody removed spec.paused and 2 more fields of ${title}`,
    `web Drifted: kubectl changed spec.replicas of ${title}; it was put back many times, and is now less and less often`,
  ]);
});

test("the Event of a held removal is for what is held, told once until it is gone", () => {
  const events: string[] = [];
  const announce = ({ reason, note }: OperatorEvent): void => void events.push(`${reason}: ${note}`);
  const tell = holdTeller({ announce, logger: silentLogger });
  const off: Hold = { of: "delete", text: "not deleted: a: the ConfigMap is missing" };
  const gone: Hold = { of: "purge", text: "not purged: b: the ConfigMap is missing" };
  tell(viewOf([], { holds: [off] }));
  tell(viewOf([], { holds: [off, gone] }));
  tell(viewOf([], { holds: [gone] }));
  tell(viewOf([], { holds: [off, gone] }));
  expect(events).toEqual([
    `RemovalHeld: ${off.text}`,
    `PurgeRefused: ${gone.text}`,
    `RemovalHeld: ${off.text}`,
  ]);
});

test("a release that is not healthy is told once, and that it is again; what is under way is not told", () => {
  const events: string[] = [];
  const announce = ({ module, reason, note }: OperatorEvent): void =>
    void events.push(`${module ?? ""}: ${reason}: ${note}`);
  const tell = healthTeller({ announce });
  const health = (status: Health["status"]) => ({ status, message: status }) as Health;
  const { True, Unknown, False } = {
    True: health("True"),
    Unknown: health("Unknown"),
    False: health("False"),
  };
  for (const each of [Unknown, True, Unknown, False, Unknown, False, Unknown, True, True]) tell("a", each);
  expect(events.splice(0)).toEqual(["a: Unhealthy: False", "a: Recovered: True"]);
  for (const each of [False, undefined, True]) tell("b", each);
  expect(events).toEqual(["b: Unhealthy: False"]);
});
