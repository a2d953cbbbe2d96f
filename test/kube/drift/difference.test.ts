import { describe, expect, test } from "vitest";
import {
  compareObjects,
  describeDrift,
  summarizeDrift,
  digestFieldManagers,
  withoutFields,
} from "../../../src/kube/drift/index.ts";
import { readJson, type DriftIgnore, type Json, type JsonObject } from "../../../src/base/model/index.ts";

const CONTAINER = 'k:{"name":"web"}';
const PORT = 'k:{"containerPort":80,"protocol":"TCP"}';
/** What helm's apply sets of the Deployment below. */
const SET = {
  "f:metadata": { "f:labels": { "f:app.kubernetes.io/name": {} }, "f:annotations": { "f:note": {} } },
  "f:spec": {
    "f:replicas": {},
    "f:template": {
      "f:spec": {
        "f:containers": {
          [CONTAINER]: {
            ".": {},
            "f:name": {},
            "f:image": {},
            "f:args": {},
            "f:ports": { [PORT]: { ".": {} } },
          },
        },
      },
    },
  },
};

interface EntryOf {
  readonly manager: string;
  readonly operation?: string;
  readonly subresource?: string;
  readonly time?: string;
  readonly fieldsV1: object;
}

const HELMS: EntryOf = { manager: "helm", operation: "Apply", fieldsV1: SET };

function deployment(
  change: (spec: Record<string, never>) => void = () => {},
  entries: readonly EntryOf[] = [HELMS],
) {
  const object = {
    apiVersion: "apps/v1",
    kind: "Deployment",
    metadata: {
      name: "web",
      labels: { "app.kubernetes.io/name": "web" },
      annotations: { note: "a" },
      managedFields: entries.map((entry) => ({ operation: "Update", ...entry })),
    },
    spec: {
      replicas: 2,
      template: {
        spec: {
          containers: [
            { name: "other", image: "other:1" },
            { name: "web", image: "web:1", args: ["a"], ports: [{ containerPort: 80, protocol: "TCP" }] },
          ],
        },
      },
    },
  };
  change(object as never);
  return object as unknown as JsonObject;
}

/** helm's entry without one field, given as `a.b.c` in segments. */
function lost(path: readonly string[]): EntryOf {
  const fieldsV1 = structuredClone(SET) as Json;
  const parent = path
    .slice(0, -1)
    .reduce<Json>((node, segment) => (node as JsonObject)[segment] as Json, fieldsV1);
  delete (parent as JsonObject)[path.at(-1) ?? ""];
  return { ...HELMS, fieldsV1: fieldsV1 as object };
}

/** An entry of somebody for one field. */
function held(manager: string, path: readonly string[], more: Partial<EntryOf> = {}): EntryOf {
  const fieldsV1 = path.toReversed().reduce<object>((inner, segment) => ({ [segment]: inner }), {});
  return { manager, time: "2026-01-02T03:04:05Z", fieldsV1, ...more };
}

const IMAGE = ["f:spec", "f:template", "f:spec", "f:containers", CONTAINER, "f:image"];
const REPLICAS = ["f:spec", "f:replicas"];

const TERMS = { ignore: [], isAutoscaled: false };

/** What is found of an object that others made of what helm applied. */
const found = (live: JsonObject, ignore: readonly DriftIgnore[] = [], isAutoscaled = false) =>
  compareObjects(live, deployment(), { ignore, isAutoscaled }).fields.map(({ field, manager, removed }) => [
    field,
    manager,
    removed,
  ]);

type Spec = { spec: { replicas?: number; template: { spec: { containers: Record<string, unknown>[] } } } };
const edit =
  (work: (object: Spec) => void) =>
  (object: unknown): void =>
    work(object as Spec);
const setImage = edit(({ spec }) => void (spec.template.spec.containers[1]!["image"] = "web:2"));
const scale = edit(({ spec }) => void (spec.replicas = 5));

const MARKED = { metadata: { labels: {} } };

describe("what others changed of what helm set", () => {
  test.for<readonly [string, JsonObject, readonly unknown[]]>([
    ["nothing", deployment(), []],
    [
      "a value in an item of a list",
      deployment(setImage as never, [lost(IMAGE), held("kubectl-set", IMAGE)]),
      [['spec.template.spec.containers[name="web"].image', "kubectl-set", false]],
    ],
    [
      "replicas by hand, through the subresource",
      deployment(scale as never, [lost(REPLICAS), held("kubectl", REPLICAS, { subresource: "scale" })]),
      [["spec.replicas", "kubectl", false]],
    ],
    [
      "a field that was removed",
      deployment(edit(({ spec }) => void delete spec.replicas) as never, [lost(REPLICAS)]),
      [["spec.replicas", undefined, true]],
    ],
    [
      "the only members of a map, of which helm's entry keeps the map",
      deployment(edit((object) => void ((object as never as typeof MARKED).metadata.labels = {})) as never, [
        { ...HELMS, fieldsV1: { ...SET, "f:metadata": { ...SET["f:metadata"], "f:labels": {} } } },
      ]),
      [['metadata.labels["app.kubernetes.io/name"]', undefined, true]],
    ],
    [
      "an item that was removed, told once",
      deployment(edit(({ spec }) => void spec.template.spec.containers.pop()) as never, [
        lost(["f:spec", "f:template"]),
      ]),
      [['spec.template.spec.containers[name="web"]', undefined, true]],
    ],
    [
      "a list that counts as one",
      deployment(edit(({ spec }) => void (spec.template.spec.containers[1]!["args"] = ["a", "b"])) as never, [
        lost([...IMAGE.slice(0, -1), "f:args"]),
        held("kubectl-edit", [...IMAGE.slice(0, -1), "f:args"]),
      ]),
      [['spec.template.spec.containers[name="web"].args', "kubectl-edit", false]],
    ],
    [
      "a container and a label that the chart does not have",
      deployment(
        edit((object) => {
          object.spec.template.spec.containers.push({ name: "side", image: "side:1" });
          (object as never as { metadata: { labels: object } }).metadata.labels = {
            "app.kubernetes.io/name": "web",
            team: "blue",
          };
        }) as never,
        [HELMS, held("kubectl-label", ["f:metadata", "f:labels", "f:team"])],
      ),
      [],
    ],
    [
      "a value that is as before, in other hands",
      deployment(undefined, [lost(IMAGE), held("kubectl-set", IMAGE)]),
      [],
    ],
    ["what a webhook makes of each apply: helm alone holds it", deployment(setImage as never), []],
    [
      "everything, where the entries were wiped out",
      deployment(setImage as never, []),
      [['spec.template.spec.containers[name="web"].image', undefined, false]],
    ],
    [
      "what the module's own hooks write",
      deployment(setImage as never, [lost(IMAGE), held("addon-operator", IMAGE)]),
      [],
    ],
    [
      "the newest of those who hold it",
      deployment(setImage as never, [
        held("old", IMAGE, { time: "2025-01-01T00:00:00Z" }),
        held("new", IMAGE),
        held("older", IMAGE, { time: "no time" }),
      ]),
      [['spec.template.spec.containers[name="web"].image', "new", false]],
    ],
  ])("%s", ([, live, expected]) => {
    expect(found(live)).toEqual(expected);
  });

  test.for<readonly [string, boolean, boolean]>([
    ["kube-controller-manager", true, false],
    ["kube-controller-manager", false, true],
    ["kubectl", true, true],
  ])(
    "replicas that %s scales, with an autoscaler that targets it: %s",
    ([manager, isAutoscaled, isFound]) => {
      const scaled = [lost(REPLICAS), held(manager, REPLICAS, { subresource: "scale" })];
      const expected = isFound ? [["spec.replicas", manager, false]] : [];
      expect(found(deployment(scale as never, scaled), [], isAutoscaled)).toEqual(expected);
    },
  );

  test("a field that helm has set to nothing, which the server leaves out", () => {
    const template = { "f:spec": { "f:hostNetwork": {} } };
    const helms = { ...HELMS, fieldsV1: { "f:spec": { "f:template": template } } };
    const path = ["f:spec", "f:template", "f:spec", "f:hostNetwork"];
    const opened = edit(({ spec }) => Object.assign(spec.template.spec, { hostNetwork: true })) as never;
    const live = deployment(opened, [{ ...HELMS, fieldsV1: {} }, held("kubectl-edit", path)]);
    const reported = (object: JsonObject): unknown =>
      compareObjects(object, deployment(undefined, [helms]), TERMS).fields.map(({ field, manager }) => [
        field,
        manager,
      ]);
    expect(reported(live)).toEqual([["spec.template.spec.hostNetwork", "kubectl-edit"]]);
    expect(reported(deployment(undefined, [helms]))).toEqual([]);
  });

  test.for<readonly [string, DriftIgnore, boolean]>([
    ["the field itself", { kind: "Deployment", name: "web", paths: ["/spec/replicas"] }, true],
    ["what it lies in, of all of a kind", { kind: "Deployment", paths: ["/spec"] }, true],
    ["everything", { kind: "Deployment", paths: [""] }, true],
    ["another object", { kind: "Deployment", name: "wed", paths: [""] }, false],
    ["another kind", { kind: "StatefulSet", paths: [""] }, false],
    ["a field of which only the beginning is the same", { kind: "Deployment", paths: ["/spec/rep"] }, false],
  ])("addon.yaml may have it ignored: %s", ([, ignore, isIgnored]) => {
    const live = deployment(scale as never, [lost(REPLICAS), held("someone", REPLICAS)]);
    expect(found(live, [ignore])).toHaveLength(isIgnored ? 0 : 1);
    expect(compareObjects(live, deployment(), { ...TERMS, ignore: [ignore] }).ignored).toEqual(
      isIgnored ? [REPLICAS] : [],
    );
  });

  test("an item of a list has the pointer that it has in what is applied", () => {
    const live = deployment(setImage as never, [lost(IMAGE), held("someone", IMAGE)]);
    const paths = ["/spec/template/spec/containers/1/image"];
    expect(found(live, [{ kind: "Deployment", paths }])).toEqual([]);
  });
});

describe("by default ignored is", () => {
  const object = (kind: string, fields: object, value: object): JsonObject =>
    ({
      kind,
      metadata: { name: "x", managedFields: [{ manager: "helm", operation: "Apply", fieldsV1: fields }] },
      ...value,
    }) as unknown as JsonObject;
  const at = (path: readonly string[]) =>
    path.toReversed().reduce<object>((inner, segment) => ({ [segment]: inner }), {});
  const put = (path: readonly string[], value: unknown) =>
    path.toReversed().reduce<unknown>((inner, segment) => ({ [segment.slice(2)]: inner }), value) as object;

  const PSA = ["f:metadata", "f:labels"];
  test.for<readonly [string, readonly string[], object, string, boolean]>([
    ["ConfigMap", ["f:data", "f:a"], {}, "x", false],
    ["MutatingWebhookConfiguration", ["f:webhook", "f:caBundle"], {}, "x", true],
    ["ClusterRole", ["f:rules"], { aggregationRule: {} }, "x", true],
    ["ClusterRole", ["f:rules"], {}, "x", false],
    ["PersistentVolumeClaim", ["f:spec", "f:resources", "f:requests", "f:storage"], {}, "x", true],
    ["ServiceAccount", ["f:secrets"], {}, "x", true],
    ["Certificate", ["f:status", "f:a"], {}, "x", true],
    ["Deployment", ["f:spec", "f:resources"], {}, "vpa-updater", true],
    ["Deployment", ["f:spec", "f:resources"], {}, "x", false],
    ["Deployment", ["f:metadata", "f:annotations", "f:deployment.kubernetes.io/revision"], {}, "x", true],
    ["Rule", ["f:metadata", "f:annotations", "f:prometheus-operator-validated"], {}, "x", true],
    ["Secret", ["f:metadata", "f:annotations", "f:helm.sh/resource-policy"], {}, "x", true],
    ["Secret", ["f:metadata", "f:annotations", "f:note"], {}, "x", false],
    ["Service", ["f:metadata", "f:annotations", "f:cloud.google.com/neg-status"], {}, "glbc", true],
    ["Service", ["f:metadata", "f:annotations", "f:cloud.google.com/neg"], {}, "kubectl", false],
    ["Namespace", ["f:metadata", "f:annotations", "f:openshift.io/sa.scc.mcs"], {}, "x", true],
    [
      "Namespace",
      ["f:metadata", "f:annotations", "f:lifecycle.cattle.io/create.namespace-auth"],
      {},
      "x",
      true,
    ],
    ["Namespace", ["f:metadata", "f:labels", "f:field.cattle.io/projectId"], {}, "x", true],
    ["Namespace", ["f:metadata", "f:labels", "f:notcattle.io/a"], {}, "x", false],
    ["Namespace", [...PSA, "f:pod-security.kubernetes.io/warn"], {}, "cluster-policy-controller", true],
    ["Namespace", [...PSA, "f:pod-security.kubernetes.io/warn"], {}, "kubectl-label", false],
    ["ValidatingWebhookConfiguration", ["f:webhook", "f:failurePolicy"], {}, "pilot-discovery", true],
    ["ValidatingWebhookConfiguration", ["f:webhook", "f:failurePolicy"], {}, "kubectl-edit", false],
  ])("%s %j %j changed by %s: %s", ([kind, path, more, manager, isIgnored]) => {
    const { metadata, ...rest } = put(path, "a") as JsonObject;
    const applied = object(kind, at(path), { ...more, ...rest });
    Object.assign(applied["metadata"] as JsonObject, metadata);
    const live = structuredClone(applied);
    const holder = path
      .slice(0, -1)
      .reduce<JsonObject>((node, each) => node[each.slice(2)] as JsonObject, live);
    holder[path.at(-1)?.slice(2) ?? ""] = "b";
    (live["metadata"] as JsonObject)["managedFields"] = [
      { manager, operation: "Update", fieldsV1: at(path) as never },
    ];
    expect(compareObjects(live, applied, TERMS).fields).toHaveLength(isIgnored ? 0 : 1);
  });
});

describe("the selector of a webhook", () => {
  const hook = 'k:{"name":"a.example.org"}';
  const [expression, added] = ["mine", "control-plane"].map((key) => ({ key, operator: "DoesNotExist" }));
  const configuration = (manager: string, namespaceSelector: object): JsonObject =>
    ({
      kind: "ValidatingWebhookConfiguration",
      metadata: {
        name: "x",
        managedFields: [
          {
            manager,
            operation: "Apply",
            fieldsV1: { "f:webhooks": { [hook]: { "f:namespaceSelector": {} } } },
          },
        ],
      },
      webhooks: [{ name: "a.example.org", namespaceSelector }],
    }) as unknown as JsonObject;
  const chart = { matchLabels: { a: "b" }, matchExpressions: [expression] };

  test.for<readonly [string, string, object, boolean]>([
    ["additions of AKS", "admissionsenforcer", { ...chart, matchExpressions: [expression, added] }, false],
    ["additions of others", "kubectl-edit", { ...chart, matchExpressions: [expression, added] }, true],
    ["a removal", "admissionsenforcer", { ...chart, matchExpressions: [added] }, true],
    ["a changed label", "admissionsenforcer", { ...chart, matchLabels: { a: "c" } }, true],
  ])("has drifted by %s of %s: %j: %s", ([, manager, selector, isDrift]) => {
    const { fields } = compareObjects(configuration(manager, selector), configuration("helm", chart), TERMS);
    expect(fields).toHaveLength(isDrift ? 1 : 0);
  });
});

describe("what is no entry, and very large ones", () => {
  test("are read without harm", () => {
    const entries = [
      null,
      1,
      {},
      { manager: 5 },
      { manager: "a", fieldsV1: [] },
      { manager: "b", fieldsV1: {} },
    ];
    const live = deployment(setImage as never);
    (live["metadata"] as JsonObject)["managedFields"] = entries as never;
    expect(found(live)).toHaveLength(1);
    (live["metadata"] as JsonObject)["managedFields"] = "none";
    expect(found(live)).toHaveLength(1);
    // Where nobody is known to hold anything, a look reports.
    expect(digestFieldManagers({}).others).not.toBe("");
  });

  test("are compared up to a bound", () => {
    const names = Array.from({ length: 20_000 }, (_, index) => `key${index}`);
    const data = (value: string) => Object.fromEntries(names.map((name) => [name, value]));
    const fieldsV1 = { "f:data": Object.fromEntries(names.map((name) => [`f:${name}`, {}])) };
    const managedFields = [{ manager: "helm", operation: "Apply", fieldsV1 }];
    const applied = { kind: "ConfigMap", metadata: { managedFields }, data: data("a") };
    const live = { kind: "ConfigMap", metadata: {}, data: data("b") };
    expect(compareObjects(live, applied, TERMS).fields).toHaveLength(5000);
    expect(
      describeDrift(
        summarizeDrift([
          {
            object: "o",
            title: "ConfigMap o",
            fields: compareObjects(live, applied, TERMS).fields,
            isRepairDelayed: false,
          },
        ]),
      ),
    ).toBe("someone changed data.key0 and 19 more fields of ConfigMap o");
  });

  test.for(["k:no json", "k:[]", "k:{}", "v:{", "i:x", "i:99", "x", "f:"])(
    "a segment %j leads nowhere",
    (segment) => {
      const fieldsV1 = { "f:spec": { "f:template": { "f:spec": { "f:containers": { [segment]: {} } } } } };
      const applied = deployment(undefined, [{ ...HELMS, fieldsV1 }]);
      expect(compareObjects(deployment(setImage as never, []), applied, TERMS).fields).toEqual([]);
    },
  );
});

describe("whose the fields are", () => {
  const base = deployment(undefined, [HELMS, held("a", IMAGE)]);
  const version = (object: JsonObject, resourceVersion: string, generation?: number): JsonObject => ({
    ...object,
    metadata: { ...(object["metadata"] as JsonObject), resourceVersion, generation },
  });

  test("does not change with the status, nor with the time of another's write", () => {
    const status = { ...held("kubelet", ["f:status"]), subresource: "status" };
    const later = { ...held("a", IMAGE), time: "2026-02-02T00:00:00Z" };
    const [before, now] = [
      digestFieldManagers(version(base, "1", 1)),
      digestFieldManagers(version(deployment(undefined, [HELMS, later, status]), "2", 1)),
    ];
    expect(now).toMatchObject({ helm: before.helm, others: before.others });
    expect(now.otherWrites).not.toBe(before.otherWrites);
    expect(
      digestFieldManagers(version(deployment(undefined, [HELMS, held("a", IMAGE), status]), "2", 1))
        .otherWrites,
    ).toBe(before.otherWrites);
  });

  test("changes when helm loses a field, and when helm writes", () => {
    const before = digestFieldManagers(base).helm;
    expect(digestFieldManagers(deployment(undefined, [lost(IMAGE), held("a", IMAGE)])).helm).not.toBe(before);
    expect(
      digestFieldManagers(deployment(undefined, [{ ...HELMS, time: "2026-01-01T00:00:00Z" }])).helm,
    ).not.toBe(before);
  });

  test("where there is no generation, each version is a move", () => {
    expect(digestFieldManagers(version(base, "1")).otherWrites).not.toBe(
      digestFieldManagers(version(base, "2")).otherWrites,
    );
  });
});

test("an edit of the last digits of a large integer is drift, and a repair keeps the digits", () => {
  const id = ["f:spec", "f:id"];
  const withId = (text: string): JsonObject => {
    const object = deployment(undefined, [HELMS, held("a", id)]);
    return { ...object, spec: { ...(object["spec"] as JsonObject), id: readJson(text) } };
  };
  const applied = withId("1234567890123456789");
  const ssa = { ...HELMS, operation: "Apply", fieldsV1: { "f:spec": { "f:id": {} } } };
  (applied["metadata"] as JsonObject)["managedFields"] = [ssa];
  const fieldsOf = (live: JsonObject) =>
    compareObjects(live, applied, { ignore: [], isAutoscaled: false }).fields.map(({ field }) => field);
  expect(fieldsOf(withId("1234567890123456790"))).toEqual(["spec.id"]);
  expect(fieldsOf(withId("1234567890123456789"))).toEqual([]);
  expect(JSON.stringify(withoutFields(applied, [IMAGE]))).toContain('"id":1234567890123456789');
});

test("a repair leaves out what is ignored, and nothing else", () => {
  const left = withoutFields(deployment(), [
    REPLICAS,
    IMAGE,
    ["f:spec", "f:none", "f:x"],
    ["f:metadata", "f:labels", "f:app.kubernetes.io/name"],
  ]);
  const text = JSON.parse(JSON.stringify(left)) as ReturnType<typeof JSON.parse>;
  expect(text.spec).toEqual({
    template: {
      spec: {
        containers: [
          { name: "other", image: "other:1" },
          { name: "web", args: ["a"], ports: [{ containerPort: 80, protocol: "TCP" }] },
        ],
      },
    },
  });
  expect(text.metadata).toMatchObject({ name: "web", labels: {} });
});
