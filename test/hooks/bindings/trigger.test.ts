import { describe, expect, test } from "vitest";

import { renderContext, type Snapshots } from "../../../src/hooks/bindings/index.ts";
import type { Hook, HookTrigger, SnapshotItem } from "../../../src/base/model/index.ts";
import { event, hookWith, kubernetes, lifecycle, schedule, sync, tick } from "../build.ts";

const ITEMS: Record<string, readonly SnapshotItem[]> = {
  pods: [{ object: { kind: "Pod" }, filterResult: null }, { filterResult: ["x"] }],
  "kubernetes[0]": [{ object: { kind: "Pod" } }],
};
const source: Snapshots = {
  byBindingName: (name) => ITEMS[name] ?? [],
  byBindingId: (id) => ITEMS[id] ?? [],
};

function rendered(hook: Hook, triggers: readonly HookTrigger[], snapshots = source): string {
  return [...renderContext({ config: hook.config, triggers, snapshots })].join("");
}

const HOOK = hookWith(`
configVersion: v1
onStartup: 1
beforeHelm: 1
schedule:
- {name: plain, crontab: "* * * * *"}
- {name: seeing, crontab: "* * * * *", includeSnapshotsFrom: [pods, none]}
- {name: grouped, crontab: "* * * * *", group: g}
kubernetes:
- {name: pods, kind: Pod}
- {name: none, kind: Node, includeSnapshotsFrom: [pods]}
- {name: member, kind: Secret, group: g}
`);
const PODS = '[{"filterResult":null,"object":{"kind":"Pod"}},{"filterResult":["x"]}]';
const OBJECT = '{"kind":"Pod","metadata":{"name":"p"}}';
const k = (name: string) => kubernetes(HOOK, name);
const s = (name: string) => schedule(HOOK, name);

describe("v1", () => {
  test.each<[string, HookTrigger, string]>([
    ["onStartup", lifecycle("onStartup"), '{"binding":"onStartup"}'],
    [
      "beforeHelm carries all snapshots",
      lifecycle("beforeHelm"),
      `{"binding":"beforeHelm","snapshots":{"member":[],"none":[],"pods":${PODS}}}`,
    ],
    ["schedule", tick(s("plain")), '{"binding":"plain","type":"Schedule"}'],
    [
      "schedule with snapshots",
      tick(s("seeing")),
      `{"binding":"seeing","snapshots":{"none":[],"pods":${PODS}},"type":"Schedule"}`,
    ],
    [
      "schedule of a group",
      tick(s("grouped")),
      '{"binding":"grouped","groupName":"g","snapshots":{"member":[]},"type":"Group"}',
    ],
    [
      "Synchronization",
      sync(k("pods")),
      '{"binding":"pods","objects":[{"object":{"kind":"Pod"}}],"type":"Synchronization"}',
    ],
    [
      "Synchronization of nothing, with snapshots",
      sync(k("none")),
      `{"binding":"none","objects":[],"snapshots":{"pods":${PODS}},"type":"Synchronization"}`,
    ],
    [
      "Synchronization of a group",
      sync(k("member")),
      '{"binding":"member","groupName":"g","snapshots":{"member":[]},"type":"Group"}',
    ],
    [
      "Event",
      event(k("pods"), "Modified"),
      `{"binding":"pods","filterResult":{"a":1},"object":${OBJECT},"type":"Event","watchEvent":"Modified"}`,
    ],
    [
      "Event of a group",
      event(k("member")),
      '{"binding":"member","groupName":"g","snapshots":{"member":[]},"type":"Group"}',
    ],
  ])("%s", (_, trigger, want) => {
    expect(rendered(HOOK, [trigger])).toBe(`[${want}]\n`);
  });

  test("a lifecycle context of a hook without kubernetes bindings has empty snapshots", () => {
    const hook = hookWith("configVersion: v1\nafterHelm: 1");
    expect(rendered(hook, [lifecycle("afterHelm")])).toBe('[{"binding":"afterHelm","snapshots":{}}]\n');
  });

  test("all contexts of a run see the same snapshot, though it changes meanwhile", () => {
    let reads = 0;
    const moving: Snapshots = { byBindingName: () => [{ filterResult: ++reads }], byBindingId: () => [] };
    const text = rendered(HOOK, [tick(s("seeing")), event(k("none")), tick(s("seeing"))], moving);
    const contexts = JSON.parse(text) as { snapshots: Record<string, unknown> }[];
    expect(contexts.map((each) => JSON.stringify(each.snapshots.pods))).toEqual(
      Array.from({ length: 3 }, () => JSON.stringify(contexts[0]?.snapshots.pods)),
    );
    expect(reads).toBe(2);
  });

  test("an object that is kept as text is written as it is, and not parsed", () => {
    const object = { kind: "Pod", metadata: { name: "ü😀", annotations: { a: '"\\' } } };
    const item = {
      objectText: Buffer.from(JSON.stringify(object)),
      filterResult: 1,
      get object(): never {
        throw new Error("parsed");
      },
    };
    const kept: Snapshots = { byBindingName: () => [item], byBindingId: () => [item, item] };
    const moved = { type: "event", binding: k("pods") } as const;
    const place = { watchEvent: "Modified", kind: "Pod", namespace: "ns", name: "p" } as const;
    const text = rendered(
      HOOK,
      [sync(k("pods")), tick(s("seeing")), { ...moved, event: { ...place, item } }],
      kept,
    );
    const want = { filterResult: 1, object };
    expect(JSON.parse(text)).toEqual([
      { binding: "pods", type: "Synchronization", objects: [want, want] },
      { binding: "seeing", type: "Schedule", snapshots: { none: [want], pods: [want] } },
      { binding: "pods", type: "Event", watchEvent: "Modified", ...want },
    ]);
  });

  test("a large Synchronization comes in small pieces", () => {
    const items = Array.from({ length: 2000 }, (_, i) => ({ object: { n: i, text: "x".repeat(1000) } }));
    const large: Snapshots = { byBindingName: () => [], byBindingId: () => items };
    const input = { config: HOOK.config, triggers: [sync(k("pods"))], snapshots: large };
    const pieces = [...renderContext(input)];
    expect(Math.max(...pieces.map((piece) => piece.length))).toBeLessThan(70_000);
    expect(JSON.parse(pieces.join(""))).toEqual([
      { binding: "pods", objects: items, type: "Synchronization" },
    ]);
  });
});

describe("contexts of version 0", () => {
  const hook = hookWith(
    '{"onStartup": 1, "beforeHelm": 2, "schedule": [{"name": "incremental", "crontab": "* 2 */3 * * *"}, {"crontab": "* 59 23 * * *"}], "onKubernetesEvent": [{"kind": "pod"}]}',
  );
  test.each<[HookTrigger, string]>([
    [lifecycle("onStartup"), '[{"binding":"onStartup"}]'],
    [lifecycle("beforeHelm"), '[{"binding":"beforeHelm"}]'],
    [tick(schedule(hook, "incremental")), '[{"binding":"incremental"}]'],
    [tick(schedule(hook, "schedule")), '[{"binding":"schedule"}]'],
    [
      event(kubernetes(hook, "onKubernetesEvent"), "Modified"),
      '[{"binding":"onKubernetesEvent","resourceEvent":"update","resourceKind":"Pod","resourceName":"p","resourceNamespace":"ns"}]',
    ],
    [
      event(kubernetes(hook, "onKubernetesEvent"), "Deleted"),
      '[{"binding":"onKubernetesEvent","resourceEvent":"delete","resourceKind":"Pod","resourceName":"p","resourceNamespace":"ns"}]',
    ],
  ])("%#", (trigger, want) => {
    expect(rendered(hook, [trigger])).toBe(`${want}\n`);
  });
});
