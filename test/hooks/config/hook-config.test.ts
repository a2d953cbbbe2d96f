import { describe, expect, test } from "vitest";

import { createLifecycleBinding, type HookKind } from "../../../src/hooks/bindings/index.ts";
import { parseHookConfig } from "../../../src/hooks/index.ts";
import type { HookConfig } from "../../../src/base/model/index.ts";
import { bindingsWith } from "../build.ts";

function config(text: string, kind: HookKind = "module"): HookConfig {
  const parsed = parseHookConfig(text, kind);
  if ("errors" in parsed) throw new Error(parsed.errors.join("; "));
  return parsed.config;
}

function errors(text: string, kind: HookKind = "module"): readonly string[] {
  const parsed = parseHookConfig(text, kind);
  return "errors" in parsed ? parsed.errors : [];
}

const V1 = "configVersion: v1\n";

describe("versions", () => {
  test.each([
    ["configVersion: null\nonStartup: 1", "missing 'configVersion' value"],
    ["configVersion: 1\nonStartup: 1", "string value is expected for key 'configVersion'"],
    ['configVersion: ""\nonStartup: 1', "'configVersion' value '' is unsupported"],
    ["configVersion: v2\nonStartup: 1", "'configVersion' value 'v2' is unsupported"],
    ["", "the configuration is empty: the hook printed nothing for --config"],
    ["{}", "the configuration should have at least 1 properties"],
    ["configVersion: v1", "the configuration should have at least 2 properties"],
    ["[]", "the configuration is no object with bindings"],
    ["some text", "the configuration is no object with bindings"],
  ])("%j is refused", (text, message) => {
    expect(errors(text)).toEqual([message]);
  });

  test("text that is no YAML is an error that says so", () => {
    expect(errors("a: [")).toEqual([expect.stringMatching(/^the configuration is neither YAML nor JSON: /)]);
    expect(errors("configVersion: v1\nonStartup: 1\n  : \n")).toEqual([
      expect.stringMatching(/^the configuration is neither YAML nor JSON: line \d, column \d \(".+"\): /),
    ]);
    expect(errors("configVersion: v1\nschedule:\n- name: a\n : \n")).toEqual([
      'the configuration is neither YAML nor JSON: line 4, column 2 (":"): not a key of the map around it: check the indentation',
    ]);
  });

  test.each([
    ["v0", '{"onStartup": 10}'],
    ["v1", '{"configVersion": "v1", "onStartup": 10.0}'],
  ])("%s in JSON", (version, text) => {
    expect(config(text)).toEqual({
      version,
      bindings: bindingsWith({ lifecycle: [createLifecycleBinding("onStartup", 10)] }),
      settings: undefined,
    });
  });
});

test.each([`${V1}kubernetes: [{kind: ""}]`, `${V1}kubernetes: [{kind: " ", queue: q}]`])(
  "%j is loaded with a warning",
  (text) => {
    expect(parseHookConfig(text, "module")).toMatchObject({
      config: { bindings: { kubernetes: [{}] } },
      warnings: ["kubernetes[0].kind is empty, so that the binding cannot start"],
    });
  },
);

test("a configuration of version 0 may have an empty list of events", () => {
  expect(config("onKubernetesEvent: []")).toMatchObject({ version: "v0", bindings: bindingsWith({}) });
});

describe("lifecycle bindings", () => {
  test.each([
    ["1.0", 1],
    ["1e2", 100],
    ["010", 8],
    ["0", 0],
    ["-1", -1],
    ["9007199254740991", 9_007_199_254_740_991],
  ])("onStartup: %s is order %i", (text, order) => {
    const { lifecycle } = config(`${V1}onStartup: ${text}`).bindings;
    expect(lifecycle).toMatchObject([{ name: "onStartup", order }]);
  });

  const module = { beforeHelm: 1, afterHelm: 2, beforeDeleteHelm: 3, afterDeleteHelm: 4.5 };
  const global = { beforeAll: 1, afterAll: 2 };

  test.each([
    ["module", "v0", module],
    ["module", "v1", module],
    ["global", "v0", global],
    ["global", "v1", global],
  ] as const)("%s hooks in %s", (kind, version, bindings) => {
    const text = JSON.stringify({
      ...(version === "v1" ? { configVersion: "v1" } : {}),
      onStartup: 0,
      ...bindings,
    });
    const found = config(text, kind).bindings.lifecycle.map(({ name, order }) => [name, order]);
    expect(Object.fromEntries(found)).toEqual({ onStartup: 0, ...bindings });
  });

  test("those of the other kind are refused, all of them together", () => {
    expect(errors('{"beforeAll": 1, "afterAll": 1}')).toEqual([
      "beforeAll is not allowed in a module hook, only in global hooks",
      "afterAll is not allowed in a module hook, only in global hooks",
    ]);
    expect(errors(`${V1}beforeHelm: 1\nafterDeleteHelm: 1`, "global")).toEqual([
      "beforeHelm is not allowed in a global hook, only in module hooks",
      "afterDeleteHelm is not allowed in a global hook, only in module hooks",
    ]);
  });
});

describe("what does not fit is reported together", () => {
  test.each<[string, string[]]>([
    [`onStartup: "1"`, ['onStartup must be of type integer: "string"']],
    ["onStartup: 1.5", ['onStartup must be of type integer: "number"']],
    ["onStartup: 9007199254740993", ['onStartup must be of type integer: "number"']],
    ["onStartup: 1e300", ['onStartup must be of type integer: "number"']],
    ["onStartup: true", ['onStartup must be of type integer: "boolean"']],
    ["onStartup: null", ['onStartup must be of type integer: "null"']],
    [`schedule: {}`, ['schedule must be of type array: "object"']],
    [`schedule: []`, ["schedule should have at least 1 items"]],
    [`schedule: [{}]`, ["schedule[0].crontab is required"]],
    [
      `schedule: [{crontab: 5, name: yes}]`,
      [
        'schedule[0].crontab must be of type string: "integer" (quote it)',
        'schedule[0].name must be of type string: "boolean" (quote it)',
      ],
    ],
    [`schedule: [{crontab: bad}]`, ["schedule[0].crontab is invalid: Expected 5 or 6 fields, found 1: bad"]],
    [
      `schedule: [{crontab: CRON_TZ=UTC 0 3 * * *}]`,
      ["schedule[0].crontab is invalid: write TZ=, not CRON_TZ=: CRON_TZ=UTC 0 3 * * *"],
    ],
    [`x: 1\nz: 2`, ["x is a forbidden property", "z is a forbidden property"]],
    [`kubernetes: [{kind: Pod, mode: old}]`, ["kubernetes[0].mode is a forbidden property"]],
    [`kubernetes: [{name: x}]`, ["kubernetes[0].kind is required"]],
    [
      `kubernetes: [{kind: Pod, executeHookOnEvent: [Added, Gone]}]`,
      ["kubernetes[0].executeHookOnEvent[1] should be one of [Added Modified Deleted]"],
    ],
    [
      `kubernetes: [{kind: Pod, nameSelector: {matchNames: [1]}}]`,
      ['kubernetes[0].nameSelector.matchNames[0] must be of type string: "integer" (quote it)'],
    ],
    [
      `kubernetes: [{kind: Pod, nameSelector: [x]}]`,
      ['kubernetes[0].nameSelector must be of type object: "array"'],
    ],
    [
      `kubernetes: [{kind: Pod, apiVersion: v1/12/wqe}]`,
      ['kubernetes[0].apiVersion is invalid: "v1/12/wqe" is neither "version" nor "group/version"'],
    ],
    [
      `kubernetes: [{kind: Pod, labelSelector: {matchExpressions: [{key: a, operator: In}]}}]`,
      ["kubernetes[0].labelSelector.matchExpressions[0].values must not be empty for operator In"],
    ],
    [
      `kubernetes: [{kind: Pod, labelSelector: {matchExpressions: [{key: a, operator: Exists, values: [b]}]}}]`,
      ["kubernetes[0].labelSelector.matchExpressions[0].values must be empty for operator Exists"],
    ],
    [
      `kubernetes: [{kind: Pod, labelSelector: {matchExpressions: [{key: a}]}}]`,
      ["kubernetes[0].labelSelector.matchExpressions[0].operator is required"],
    ],
    [
      `kubernetes: [{kind: Pod, labelSelector: {matchLabels: {"a b": c}}}]`,
      ['kubernetes[0].labelSelector.matchLabels is invalid: "a b" is no label key'],
    ],
    [
      `kubernetes: [{kind: Pod, labelSelector: {}}]`,
      ["kubernetes[0].labelSelector should have at least 1 properties"],
    ],
    [
      `kubernetes: [{kind: Pod, fieldSelector: {matchExpressions: [{field: metadata.name, operator: "=", value: x}]}, nameSelector: {matchNames: [x]}}]`,
      ["kubernetes[0]: fieldSelector on metadata.name and nameSelector cannot be used together"],
    ],
    [
      `kubernetes: [{kind: Pod, fieldSelector: {matchExpressions: [{field: a, operator: In, value: b}]}}]`,
      [
        "kubernetes[0].fieldSelector.matchExpressions[0].operator should be one of [= == Equals != NotEquals]",
      ],
    ],
    [
      `kubernetes: [{kind: Pod, includeSnapshotsFrom: [x]}]`,
      ["kubernetes[0].includeSnapshotsFrom is invalid: 'x' binding name not found"],
    ],
    [
      `kubernetes: [{kind: Pod}, {kind: Pod}]\nschedule: [{crontab: "* * * * *", includeSnapshotsFrom: [kubernetes]}]`,
      ["schedule[0].includeSnapshotsFrom is invalid: there are 2 'kubernetes' binding names"],
    ],
    [
      `settings: {executionMinInterval: soon, executionBurst: -1}`,
      [
        'settings.executionMinInterval is invalid: "soon" is no duration like 3s, 500ms, 1m30s',
        "settings.executionBurst is invalid: -1 is no whole number from 0 on",
      ],
    ],
    [
      `settings: {executionMinInterval: 1s, executionMinPeriod: 1s}`,
      ["settings.executionMinPeriod is another word for executionMinInterval: give only one"],
    ],
    [
      `kubernetesValidating: [{name: x}]\nkubernetesMutating: []\nkubernetesCustomResourceConversion: [{name: x}]`,
      [
        "kubernetesMutating should have at least 1 items",
        "kubernetesCustomResourceConversion[0].crdName is required",
        "kubernetesCustomResourceConversion[0].conversions is required",
      ],
    ],
    [
      `onKubernetesEvent: [{kind: pod}]`,
      ["onKubernetesEvent is a forbidden property with configVersion: v1, use kubernetes"],
    ],
  ])("%s", (text, messages) => {
    expect(errors(V1 + text)).toEqual(messages);
  });

  test.each<[string, string[]]>([
    ["kubernetes: [{kind: Pod}]", ["kubernetes is a forbidden property without configVersion: v1"]],
    [
      "onKubernetesEvent: [{kind: pod, event: [add, change]}]",
      ["onKubernetesEvent[0].event: event 'change' is unsupported, use add, update, delete"],
    ],
    ["onKubernetesEvent: [{}]", ["onKubernetesEvent[0].kind is required"]],
  ])("v0: %s", (text, messages) => {
    expect(errors(text)).toEqual(messages);
  });
});

describe("kubernetes", () => {
  test("those that name no queue run in the one that is given", () => {
    const text = `${V1}onStartup: 1\nkubernetes: [{kind: po}, {kind: po, queue: main, waitForSynchronization: false}]\nschedule: [{crontab: "* * * * *"}]`;
    const parsed = parseHookConfig(text, "module", "module/web");
    const { bindings } = (parsed as { config: HookConfig }).config;
    expect(Object.values(bindings).flatMap((each) => each.map(({ queue }) => queue))).toEqual([
      "module/web",
      "module/web",
      "module/web",
      "main",
    ]);
    expect(bindings.kubernetes.map((each) => each.waitForSynchronization)).toEqual([true, false]);
  });

  test("defaults", () => {
    expect(config(`${V1}kubernetes: [{kind: po}]`).bindings.kubernetes).toEqual([
      {
        type: "kubernetes",
        id: "kubernetes[0]",
        name: "kubernetes",
        allowFailure: false,
        queue: "main",
        group: undefined,
        includeSnapshotsFrom: [],
        apiVersion: undefined,
        kind: "po",
        events: ["Added", "Modified", "Deleted"],
        executeOnSynchronization: true,
        waitForSynchronization: true,
        keepFullObjects: true,
        jqFilter: undefined,
        names: undefined,
        labelSelector: undefined,
        fieldSelector: undefined,
        namespaces: undefined,
        namespaceLabels: undefined,
      },
    ]);
  });

  test("everything given", () => {
    const text = `${V1}
kubernetes:
- name: pods
  apiVersion: v1
  kind: Pod
  executeHookOnEvent: []
  executeHookOnSynchronization: false
  waitForSynchronization: false
  keepFullObjectsInMemory: false
  jqFilter: .metadata.labels
  allowFailure: true
  queue: pods
  includeSnapshotsFrom: [pods]
  resynchronizationPeriod: 1h
  nameSelector: {matchNames: [a, b]}
  labelSelector:
    matchLabels: {app: ""}
    matchExpressions:
    - {key: tier, operation: In, values: [cache]}
    - {key: x.y/z, operator: DoesNotExist}
  fieldSelector:
    matchExpressions:
    - {field: status.phase, operator: Equals, value: Running}
    - {field: spec.x, operator: NotEquals, value: "a,b=c"}
  namespace:
    nameSelector: {matchNames: [default]}
    labelSelector: {matchLabels: {a: b}}
`;
    expect(config(text).bindings.kubernetes[0]).toMatchObject({
      name: "pods",
      apiVersion: "v1",
      events: [],
      executeOnSynchronization: false,
      waitForSynchronization: false,
      keepFullObjects: false,
      jqFilter: ".metadata.labels",
      allowFailure: true,
      queue: "pods",
      includeSnapshotsFrom: ["pods"],
      names: ["a", "b"],
      labelSelector: {
        matchLabels: { app: "" },
        matchExpressions: [
          { key: "tier", operator: "In", values: ["cache"] },
          { key: "x.y/z", operator: "DoesNotExist" },
        ],
      },
      fieldSelector: String.raw`status.phase=Running,spec.x!=a\,b\=c`,
      namespaces: ["default"],
      namespaceLabels: { matchLabels: { a: "b" } },
    });
  });

  test("watchEvent counts where executeHookOnEvent is absent; empty name lists match all", () => {
    const [first, second] = config(`${V1}
kubernetes:
- {kind: Pod, name: a, watchEvent: [Deleted], nameSelector: {matchNames: []}}
- {kind: Pod, name: b, watchEvent: [Deleted], executeHookOnEvent: [Added]}
`).bindings.kubernetes;
    expect(first).toMatchObject({ events: ["Deleted"], names: undefined });
    expect(second).toMatchObject({ events: ["Added"] });
  });

  test("a group adds the snapshots of its kubernetes bindings to all of its members", () => {
    const { kubernetes, schedule } = config(`${V1}
schedule: [{crontab: "* * * * *", group: g, includeSnapshotsFrom: [c]}, {crontab: "* * * * *", name: nightly, group: empty}]
kubernetes: [{kind: Pod, name: a, group: g}, {kind: Pod, name: b, group: g, includeSnapshotsFrom: [b]}, {kind: Pod, name: c}]
`).bindings;
    expect(schedule.map((each) => each.includeSnapshotsFrom)).toEqual([["c", "a", "b"], []]);
    expect(kubernetes.map((each) => each.includeSnapshotsFrom)).toEqual([["a", "b"], ["b", "a"], []]);
  });

  test("warnings: equal names, a switch without effect, keys given twice", () => {
    const parsed = parseHookConfig(
      `${V1}kubernetes: [{kind: Pod, waitForSynchronization: false}, {kind: Node}]\nonStartup: 1\nonStartup: 2`,
      "global",
    );
    expect(parsed).toMatchObject({
      config: { bindings: { lifecycle: [{ name: "onStartup", order: 2 }] } },
      warnings: [
        expect.stringContaining("onStartup"),
        "kubernetes[0].waitForSynchronization: false has no effect without a queue of its own",
        "there are several kubernetes bindings named 'kubernetes': the hook cannot distinguish them; give each a name",
      ],
    });
  });
});

test.each([
  ["settings: {}", { minIntervalMs: 0, burst: 1 }],
  ["settings: {executionMinInterval: 3s}", { minIntervalMs: 3000, burst: 1 }],
  ["settings: {executionMinPeriod: 1m30s, executionBurst: 4}", { minIntervalMs: 90_000, burst: 4 }],
  ["settings: {executionBurst: 0}", { minIntervalMs: 0, burst: 1 }],
])("%s", (text, settings) => {
  expect(config(V1 + text).settings).toEqual(settings);
});

describe("documented configurations, literally", () => {
  test("the labels hook", () => {
    const text = `{
  "onKubernetesEvent": [
    {
      "name": "Trigger on labels changes of Pods with myLabel:myLabelValue in any namespace",
      "kind": "pod",
      "event": ["update"],
      "selector": {
        "matchLabels": {
          "myLabel": "myLabelValue"
        }
      },
      "namespaceSelector": {
        "any": true
      },
      "jqFilter": ".metadata.labels",
      "allowFailure": true
    }
  ]
}`;
    expect(config(text)).toMatchObject({
      version: "v0",
      bindings: {
        kubernetes: [
          {
            id: "onKubernetesEvent[0]",
            name: "Trigger on labels changes of Pods with myLabel:myLabelValue in any namespace",
            kind: "pod",
            events: ["Modified"],
            labelSelector: { matchLabels: { myLabel: "myLabelValue" } },
            namespaces: undefined,
            jqFilter: ".metadata.labels",
            allowFailure: true,
            queue: "main",
            executeOnSynchronization: false,
          },
        ],
      },
    });
  });

  test("the syntax overview, with a value for each placeholder", () => {
    const text = `{
  "onKubernetesEvent": [
    {
      "name": "BINDING_NAME",
      "kind": "ConfigMap",
      "selector": {
        "matchLabels": {
          "myLabel": "myLabelValue",
          "someKey": "someValue",
        },
        "matchExpressions": [
          {
            "key": "tier",
            "operation": "In",
            "values": ["cache"],
          },
        ],
      },
      "namespaceSelector": {
        "matchNames": ["somenamespace", "proj-production", "proj-stage"],
        "any": false,
      },
      "jqFilter": ".metadata.labels",
      "allowFailure": true,
      "disableDebug": true,
    },
    {"name":"monitor Pods", "kind": "pod", "anything": "else"},
  ]
}`;
    const [first, second] = config(text).bindings.kubernetes;
    expect(first).toMatchObject({
      events: ["Added", "Modified", "Deleted"],
      namespaces: ["somenamespace", "proj-production", "proj-stage"],
      labelSelector: { matchExpressions: [{ key: "tier", operator: "In", values: ["cache"] }] },
    });
    expect(second).toMatchObject({ name: "monitor Pods", namespaces: undefined, labelSelector: undefined });
  });

  test("the two-schedule hook", () => {
    const text = `{
  "schedule": [
    {
      "name": "incremental",
      "crontab": "* 2 */3 * * *",
      "allowFailure": true
    },
    {
      "crontab": "* 59 23 * * *",
      "allowFailure": false
    }
  ]
}`;
    expect(config(text).bindings.schedule).toMatchObject([
      { name: "incremental", crontab: "* 2 */3 * * *", allowFailure: true },
      { name: "schedule", crontab: "* 59 23 * * *", allowFailure: false },
    ]);
  });
});
