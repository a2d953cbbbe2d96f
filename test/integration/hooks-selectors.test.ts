// Runs at night: hostile input.
import { rmSync } from "node:fs";

import { afterAll, beforeAll, describe, expect, test } from "vitest";

import { cluster, deleteNamespace, eventually, makeNamespace } from "../support/cluster.ts";
import { brief, hookLab } from "../support/hook-files.ts";
import type { Lab } from "../support/hook-files.ts";
import { launchOperator } from "../support/operator.ts";
import type { OperatorProcess } from "../support/operator.ts";

// docs/reference/hooks.md, "Kubernetes events": what the selectors select on the real API server.

/** The documented example, letter by letter. */
const LABELS_HOOK = `{
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

describe("selectors", () => {
  const { kubectl, apply } = cluster();
  let lab: Lab;
  let [home, one, two, three] = ["", "", "", ""];
  let operator: OperatorProcess;
  const service = (namespace: string, name: string, labels: Record<string, string> = {}) => ({
    apiVersion: "v1",
    kind: "Service",
    metadata: { name, namespace, labels },
    spec: { ports: [{ port: 80 }], type: name === "outside" ? "NodePort" : "ClusterIP" },
  });
  const hook = (name: string, kubernetes: object) =>
    lab.hook(`global-hooks/${name}.sh`, { configVersion: "v1", kubernetes: [kubernetes] });

  beforeAll(async () => {
    lab = hookLab("selectors");
    const made = await Promise.all(["home", "one", "two", "three"].map(makeNamespace));
    [home = "", one = "", two = "", three = ""] = made;
    await kubectl(["label", "namespace", one, two, `team=${home}`]);
    const here = { nameSelector: { matchNames: [one] } };
    const labelled = (...matchExpressions: object[]) => ({
      kind: "svc",
      namespace: here,
      labelSelector: { matchLabels: { set: "a" }, matchExpressions },
    });
    hook("not-in", labelled({ key: "tier", operator: "NotIn", values: ["x", "y"] }));
    hook("exists", labelled({ key: "tier", operator: "Exists" }));
    hook("does-not-exist", labelled({ key: "tier", operator: "DoesNotExist" }));
    const fields = (...matchExpressions: object[]) => ({
      kind: "Service",
      namespace: here,
      fieldSelector: { matchExpressions },
    });
    hook("not-equals", fields({ field: "metadata.name", operator: "!=", value: "plain" }));
    hook(
      "two-fields",
      fields(
        { field: "metadata.namespace", operator: "==", value: one },
        { field: "metadata.name", operator: "NotEquals", value: "tiered" },
      ),
    );
    hook("both", {
      kind: "Service",
      namespace: {
        nameSelector: { matchNames: [two, three] },
        labelSelector: { matchLabels: { team: home } },
      },
    });
    hook("several", { kind: "Service", namespace: { nameSelector: { matchNames: [one, two] } } });
    hook("versions-only", { kind: "Service", namespace: here, keepFullObjectsInMemory: false });
    hook("not-plain", {
      kind: "Service",
      namespace: here,
      keepFullObjectsInMemory: false,
      jqFilter: '.metadata.labels // {} | to_entries | map("\\(.key)=\\(.value)") | join(" ")',
    });
    lab.hook("global-hooks/object-name.sh", {
      onKubernetesEvent: [
        {
          kind: "service",
          objectName: "tiered",
          event: ["delete"],
          namespaceSelector: { matchNames: [one] },
        },
      ],
    });
    lab.hook("global-hooks/documented.sh", LABELS_HOOK);
    await apply(
      service(one, "plain", { set: "a" }),
      service(one, "tiered", { set: "a", tier: "x" }),
      service(one, "outside", { set: "a", tier: "z" }),
      service(one, "other"),
      service(two, "far"),
      service(three, "unselected"),
    );
    operator = await launchOperator({
      namespace: home,
      modulesDir: lab.modulesDir,
      globalHooksDir: lab.globalHooksDir,
    });
    await operator.waitReady();
  });

  afterAll(async () => {
    await operator?.kill9();
    await Promise.all([home, one, two, three].filter(Boolean).map(deleteNamespace));
    rmSync(lab.dir, { recursive: true, force: true });
  });

  test.each([
    ["not-in", "outside plain"],
    ["exists", "outside tiered"],
    ["does-not-exist", "plain"],
    ["not-equals", "other outside tiered"],
    ["two-fields", "other outside plain"],
    ["both", "far"],
    ["several", "other outside plain tiered far"],
    ["not-plain", '"" "set=a tier=z" "set=a" "set=a tier=x"'],
  ])("%s: %s", (name, objects) => {
    const [context] = lab.contexts(name);
    const words = (text: string): string[] => text.split(" ").toSorted();
    expect(words(brief(context ?? { binding: "" }))).toEqual(words(`Synchronization [${objects}]`));
  });

  test("an object that begins or ceases to match is Added or Deleted", async () => {
    await kubectl(["label", "service", "other", "-n", one, "set=a", "tier=y"]);
    await eventually(() => expect(lab.contexts("exists").map(brief)).toContain("Added other"), "it matches");
    await kubectl(["label", "service", "other", "-n", one, "tier-"]);
    await eventually(
      () => expect(lab.contexts("exists").map(brief)).toContain("Deleted other"),
      "it ceases to",
    );
    await eventually(
      () => expect(lab.contexts("does-not-exist").map(brief)).toContain("Added other"),
      "others see it come",
    );
  });

  test("without objects and filter a hook is told that something changed", async () => {
    const [first] = lab.contexts("versions-only");
    expect(first).toEqual({ binding: "kubernetes", type: "Synchronization", objects: [{}, {}, {}, {}] });
    const { length } = lab.contexts("versions-only");
    await kubectl(["annotate", "service", "plain", "-n", one, "touched=1"]);
    await eventually(() => expect(lab.contexts("versions-only").length).toBeGreaterThan(length), "an event");
    expect(lab.contexts("versions-only").at(-1)).toEqual({
      binding: "kubernetes",
      type: "Event",
      watchEvent: "Modified",
    });
  });

  test("v0: one object by its name", async () => {
    await kubectl(["delete", "service", "plain", "tiered", "-n", one]);
    const place = { resourceKind: "Service", resourceName: "tiered", resourceNamespace: one };
    await eventually(
      () =>
        expect(lab.runs("object-name")).toEqual([
          [{ binding: "onKubernetesEvent", resourceEvent: "delete", ...place }],
        ]),
      "its deletion",
    );
  });

  test("v0: the labels hook, letter by letter", async () => {
    const pod = {
      apiVersion: "v1",
      kind: "Pod",
      metadata: { name: "labelled", namespace: two, labels: { myLabel: "myLabelValue" } },
      spec: { containers: [{ name: "pause", image: "pause" }] },
    };
    await eventually(() => apply(pod), "the namespace takes Pods");
    await kubectl(["annotate", "pod", "labelled", "-n", two, "note=1"]);
    await kubectl(["label", "pod", "labelled", "-n", two, "more=1"]);
    const place = { resourceKind: "Pod", resourceName: "labelled", resourceNamespace: two };
    const binding = "Trigger on labels changes of Pods with myLabel:myLabelValue in any namespace";
    const want = [[{ binding, resourceEvent: "update", ...place }]];
    await eventually(() => expect(lab.runs("documented")).toEqual(want), "the labels changed");
    await kubectl(["delete", "pod", "labelled", "-n", two, "--force", "--grace-period=0"]);
    expect(lab.runs("documented")).toEqual(want);
  });
});
