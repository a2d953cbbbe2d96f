import { rmSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { cluster, deleteNamespace, eventually, kubeconfigOf, makeNamespace } from "../support/cluster.ts";
import { installCrds } from "../support/crds.ts";
import { brief, hookLab } from "../support/hook-files.ts";
import type { Lab } from "../support/hook-files.ts";
import { launchOperator } from "../support/operator.ts";
import type { OperatorProcess } from "../support/operator.ts";

// docs/reference/hooks.md, "Kubernetes events": each option of a kubernetes binding, against the real API server.

const ENV = { RETRY_DELAY_MIN: "50ms", RETRY_DELAY_MAX: "300ms", LOG_TYPE: "text" };

const configMap = (
  namespace: string,
  name: string,
  more: { data?: Record<string, string>; labels?: Record<string, string> } = {},
) => ({
  apiVersion: "v1",
  kind: "ConfigMap",
  metadata: { name, namespace, ...(more.labels && { labels: more.labels }) },
  ...(more.data && { data: more.data }),
});

/** What the AddonOperator's condition Ready says. */
const summary = (namespace: string) =>
  cluster().kubectl([
    "get",
    "addonoperator",
    "addon-operator",
    "-n",
    namespace,
    "-o",
    'jsonpath={.status.conditions[?(@.type=="Ready")].message}',
  ]);

interface QueueDump {
  readonly active: readonly {
    readonly name: string;
    readonly tasks: readonly { readonly description: string }[];
  }[];
}

const v1 = (...kubernetes: object[]) => ({ configVersion: "v1", kubernetes });

describe("binding options", () => {
  let lab: Lab;
  let home = "";
  let ns = "";
  let other = "";
  let operator: OperatorProcess;
  const { kubectl, apply } = cluster();
  const briefs = (hook: string) => lab.contexts(hook).map(brief);
  const reported = (hook: string, expected: readonly string[]) =>
    eventually(() => expect(briefs(hook)).toEqual(expected), `${hook} is told ${expected.join(", ")}`, {
      context: () => operator.log().slice(-3000),
    });
  const made = (name: string, more = {}) => apply(configMap(ns, name, more));

  beforeAll(async () => {
    lab = hookLab("bindings");
    [home, ns, other] = (await Promise.all(["home", "seen", "other"].map(makeNamespace))) as [
      string,
      string,
      string,
    ];
    await kubectl(["label", "namespace", ns, `team=${ns}`]);
    await made("old", { labels: { app: "x" }, data: { x: "1" } });
    const here = { nameSelector: { matchNames: [ns] } };
    const labelled = { kind: "ConfigMap", namespace: here, labelSelector: { matchLabels: { app: "x" } } };
    const hook = (name: string, config: object | string, body?: string) =>
      lab.hook(`global-hooks/${name}.sh`, config, body);
    hook("adds", v1({ ...labelled, executeHookOnEvent: ["Added"] }));
    hook("nothing", v1({ ...labelled, executeHookOnEvent: [], name: "maps" }));
    hook("no-sync", v1({ ...labelled, executeHookOnSynchronization: false }));
    hook("aside", v1({ ...labelled, queue: "aside", waitForSynchronization: false }), "wait_for aside");
    hook("lean", v1({ ...labelled, jqFilter: ".data.x", keepFullObjectsInMemory: false }));
    hook("filtered", v1({ ...labelled, jqFilter: ".data.x" }));
    hook("allowed", v1({ ...labelled, allowFailure: true, executeHookOnSynchronization: false }), "exit 1");
    hook(
      "failing",
      v1({ ...labelled, executeHookOnSynchronization: false, executeHookOnEvent: ["Added"] }),
      '[ "$(ls "$RECORDS/$me" | wc -l)" -ge 3 ]',
    );
    hook(
      "grouped",
      v1(
        { ...labelled, name: "maps", group: "g", keepFullObjectsInMemory: false, jqFilter: ".metadata.name" },
        { kind: "Secret", name: "secrets", namespace: here, group: "g", executeHookOnEvent: [] },
      ),
    );
    hook(
      "including",
      v1(
        { ...labelled, name: "maps", includeSnapshotsFrom: ["names"], executeHookOnSynchronization: false },
        { ...labelled, name: "names", executeHookOnEvent: [], executeHookOnSynchronization: false },
      ),
    );
    hook("names", v1({ kind: "cm", namespace: here, nameSelector: { matchNames: ["old", "one"] } }));
    hook(
      "fields",
      v1({
        kind: "configmaps",
        apiVersion: "v1",
        namespace: here,
        fieldSelector: { matchExpressions: [{ field: "metadata.name", operator: "Equals", value: "one" }] },
      }),
    );
    hook(
      "expressions",
      v1({
        kind: "CONFIGMAP",
        namespace: here,
        labelSelector: { matchExpressions: [{ key: "tier", operator: "In", values: ["a", "b"] }] },
      }),
    );
    hook(
      "by-namespace",
      v1({ kind: "ServiceAccount", namespace: { labelSelector: { matchLabels: { team: ns } } } }),
    );
    hook("later", v1({ kind: "Gadget", apiVersion: `${ns}.example.com/v1`, waitForSynchronization: false }));
    hook("labels-v0", {
      onKubernetesEvent: [
        {
          name: "labels of ConfigMaps",
          kind: "configmap",
          event: ["update"],
          selector: { matchLabels: { v0: "yes" } },
          namespaceSelector: { matchNames: [ns] },
          jqFilter: ".metadata.labels",
          allowFailure: true,
        },
      ],
    });
    hook("all-v0", {
      onKubernetesEvent: [
        { kind: "configmap", selector: { matchLabels: { v0: "yes" } }, namespaceSelector: { any: true } },
      ],
    });
    operator = await launchOperator({
      kubeconfig: cluster().kubeconfig,
      namespace: home,
      modulesDir: lab.modulesDir,
      globalHooksDir: lab.globalHooksDir,
      env: ENV,
    });
    await operator.waitReady();
  });

  afterAll(async () => {
    await operator?.kill9();
    await Promise.all([home, ns, other].filter(Boolean).map(deleteNamespace));
    rmSync(lab.dir, { recursive: true, force: true });
  });

  test("a hook that need not be waited for holds nothing up, and runs in its queue", async () => {
    expect(briefs("aside")).toEqual(["Synchronization [old]"]);
    expect((await operator.http("/queue")).body).toContain("aside");
    lab.release("aside");
    await made("one", { labels: { app: "x" }, data: { x: "1" } });
    await reported("aside", ["Synchronization [old]", "Added one"]);
  });

  test("executeHookOnEvent chooses events; an empty list means snapshots only", async () => {
    await reported("adds", ["Synchronization [old]", "Added one"]);
    await kubectl(["label", "configmap", "one", "-n", ns, "more=1"]);
    await reported("no-sync", ["Added one", "Modified one"]);
    await kubectl(["delete", "configmap", "one", "-n", ns]);
    await reported("no-sync", ["Added one", "Modified one", "Deleted one"]);
    expect(briefs("adds")).toEqual(["Synchronization [old]", "Added one"]);
    expect(briefs("nothing")).toEqual(["Synchronization [old]"]);
  });

  test("a filter's equal result suppresses Modified, never Deleted", async () => {
    expect(lab.contexts("filtered").map((each) => [brief(each), each.filterResult])).toEqual([
      ["Synchronization [old]", undefined],
      ["Added one", "1"],
      ["Deleted one", "1"],
    ]);
    await kubectl(["patch", "configmap", "old", "-n", ns, "-p", '{"data":{"x":"2"}}']);
    await reported("filtered", ["Synchronization [old]", "Added one", "Deleted one", "Modified old"]);
  });

  test("without full objects a hook gets filter results only", async () => {
    await reported("lean", ['Synchronization ["1"]', 'Added "1"', 'Deleted "1"', 'Modified "2"']);
    expect(lab.contexts("lean").every((each) => each.object === undefined)).toBe(true);
  });

  test("allowFailure goes on, else the run is repeated", async () => {
    await reported("allowed", ["Added one", "Modified one", "Deleted one", "Modified old"]);
    await eventually(() => expect(lab.runs("failing").length).toBeGreaterThanOrEqual(3), "three tries");
    expect(new Set(briefs("failing"))).toEqual(new Set(["Added one"]));
    const { body } = await operator.http("/metrics");
    expect(body).toMatch(/^addon_operator_hook_allowed_errors\{[^}]*hook="allowed.sh"[^}]*\} [34]$/m);
    expect(body).toMatch(/^addon_operator_hook_errors\{[^}]*hook="failing.sh"[^}]*\} 2$/m);
  });

  test("a group gets snapshots of all its bindings", () => {
    const [first] = lab.contexts("grouped");
    expect(first).toEqual({
      binding: expect.any(String),
      type: "Group",
      groupName: "g",
      snapshots: { maps: [{ filterResult: "old" }], secrets: [] },
    });
    expect(lab.contexts("grouped").at(-1)?.snapshots).toEqual({
      maps: [{ filterResult: "old" }],
      secrets: [],
    });
  });

  test("includeSnapshotsFrom adds the state at the time of the run", () => {
    const [context] = lab.contexts("including");
    expect(Object.keys(context?.snapshots ?? {})).toEqual(["names"]);
    expect(context?.snapshots?.["names"]?.map(({ object }) => object?.metadata.name)).toContain("old");
  });

  test("objects are chosen by name, field and label expression; the kind in any spelling", async () => {
    await made("two", { labels: { tier: "b" } });
    await reported("expressions", ["Synchronization []", "Added two"]);
    expect(briefs("names")).toEqual([
      "Synchronization [old]",
      "Added one",
      "Modified one",
      "Deleted one",
      "Modified old",
    ]);
    expect(briefs("fields")).toEqual(["Synchronization []", "Added one", "Modified one", "Deleted one"]);
  });

  test("namespaces come and go with their labels", async () => {
    const names = () => [...new Set(lab.contexts("by-namespace").map(({ object }) => object?.metadata))];
    await kubectl(["label", "namespace", other, `team=${ns}`]);
    await kubectl(["create", "serviceaccount", "robot", "-n", other]);
    await eventually(
      () => expect(names()).toContainEqual(expect.objectContaining({ name: "robot", namespace: other })),
      "the new namespace is watched",
    );
    await kubectl(["label", "namespace", other, "team-"]);
    await eventually(
      () => expect(briefs("by-namespace")).toContain("Deleted robot"),
      "the namespace that left is told",
    );
  });

  test("a kind whose CRD comes later", async () => {
    expect(briefs("later")).toEqual([]);
    expect(operator.log()).toMatch(/later\.sh/);
    await eventually(
      async () => expect(await summary(home)).toMatch(/; hook later\.sh, binding kubernetes: .*Gadget/),
      "the AddonOperator says so",
    );
    await apply({
      apiVersion: "apiextensions.k8s.io/v1",
      kind: "CustomResourceDefinition",
      metadata: { name: `gadgets.${ns}.example.com` },
      spec: {
        group: `${ns}.example.com`,
        scope: "Namespaced",
        names: { plural: "gadgets", singular: "gadget", kind: "Gadget" },
        versions: [
          {
            name: "v1",
            served: true,
            storage: true,
            schema: { openAPIV3Schema: { type: "object", "x-kubernetes-preserve-unknown-fields": true } },
          },
        ],
      },
    });
    await reported("later", ["Synchronization []"]);
    await eventually(
      async () => expect(await summary(home)).not.toContain("later.sh"),
      "the AddonOperator says it no more",
    );
    await eventually(
      () =>
        apply({ apiVersion: `${ns}.example.com/v1`, kind: "Gadget", metadata: { name: "g", namespace: ns } }),
      "gadgets are served",
    );
    await reported("later", ["Synchronization []", "Added g"]);
    await kubectl(["delete", "crd", `gadgets.${ns}.example.com`, "--wait=false"]);
  });

  test("v0: the labels hook, and events without Synchronization", async () => {
    await made("v0", { labels: { v0: "yes" } });
    await eventually(() => expect(lab.contexts("all-v0")).toHaveLength(1), "add");
    await made("v0", { labels: { v0: "yes" }, data: { a: "b" } });
    await eventually(() => expect(lab.contexts("all-v0")).toHaveLength(2), "update");
    await kubectl(["label", "configmap", "v0", "-n", ns, "colour=red"]);
    await eventually(() => expect(lab.contexts("labels-v0")).toHaveLength(1), "labels changed");
    const place = { resourceNamespace: ns, resourceKind: "ConfigMap", resourceName: "v0" };
    expect(lab.runs("labels-v0")).toEqual([
      [{ binding: "labels of ConfigMaps", resourceEvent: "update", ...place }],
    ]);
    expect(lab.runs("all-v0").slice(0, 2)).toEqual([
      [{ binding: "onKubernetesEvent", resourceEvent: "add", ...place }],
      [{ binding: "onKubernetesEvent", resourceEvent: "update", ...place }],
    ]);
  });

  test("several hooks for one event run in alphabetical order", async () => {
    const before = lab.order().length;
    await made("flood", { labels: { app: "x" }, data: { x: "f" } });
    await eventually(
      () => expect(briefs("filtered")).toContain("Added flood"),
      "the last in the alphabet but two",
    );
    await eventually(() => expect(briefs("no-sync")).toContain("Added flood"), "all told");
    const order = lab
      .order()
      .slice(before)
      .filter((name) =>
        ["adds", "allowed", "filtered", "grouped", "including", "lean", "no-sync"].includes(name),
      );
    expect(order).toEqual(order.toSorted());
  });
});

test("a flood of 600 events drains in a few runs", async () => {
  const lab = hookLab("flood");
  const [home, ns] = (await Promise.all(["home", "flood"].map(makeNamespace))) as [string, string];
  const here = { nameSelector: { matchNames: [ns] } };
  lab.hook(
    "global-hooks/flood.sh",
    v1({
      kind: "ConfigMap",
      namespace: here,
      queue: "flood",
      jqFilter: ".metadata.name",
      keepFullObjectsInMemory: false,
    }),
    '[ "$run" != 000001 ] || wait_for flood',
  );
  const operator = await launchOperator({
    kubeconfig: cluster().kubeconfig,
    namespace: home,
    modulesDir: lab.modulesDir,
    globalHooksDir: lab.globalHooksDir,
    env: ENV,
  });
  try {
    await operator.waitReady();
    const items = Array.from({ length: 300 }, (_, index) => configMap(ns, `map-${index}`));
    const list = JSON.stringify({ apiVersion: "v1", kind: "List", items });
    await cluster().kubectl(["create", "-f", "-"], list);
    await cluster().kubectl(["delete", "configmap", "-n", ns, "--all", "--wait=false"]);
    // How many runs it takes is not to depend on how fast the API server tells of them.
    await eventually(async () => {
      const dump = JSON.parse((await operator.http("/queue?output=json")).body) as QueueDump;
      const tasks = dump.active.find(({ name }) => name === "flood")?.tasks ?? [];
      const contexts = tasks.map(({ description }) => / in (\d+) contexts/.exec(description)?.[1] ?? 1);
      expect(contexts.reduce<number>((sum, each) => sum + Number(each), 0)).toBeGreaterThanOrEqual(600);
    }, "all events wait");
    lab.release("flood");
    const seen = () =>
      lab.contexts("flood").filter(({ filterResult }) => String(filterResult).startsWith("map-"));
    await eventually(() => expect(seen()).toHaveLength(600), "all events are delivered");
    expect(lab.runs("flood").length).toBeLessThanOrEqual(8);
    for (const { filterResult } of seen().slice(0, 20)) {
      const reported = seen().filter((each) => each.filterResult === filterResult);
      expect(reported.map(({ watchEvent }) => watchEvent)).toEqual(["Added", "Deleted"]);
    }
  } finally {
    await operator.kill9();
    await Promise.all([home, ns].map(deleteNamespace));
    rmSync(lab.dir, { recursive: true, force: true });
  }
});

test("a kind that RBAC forbids is reported in log, metric and status; the rest works", async () => {
  await installCrds();
  const lab = hookLab("rbac");
  const home = await makeNamespace("home");
  const { apply, kubectl } = cluster();
  const kubeconfig = await kubeconfigOf(home, "limited");
  const subjects = [{ kind: "ServiceAccount", name: "limited", namespace: home }];
  const group = "rbac.authorization.k8s.io";
  await apply({
    apiVersion: `${group}/v1`,
    kind: "RoleBinding",
    metadata: { name: "limited", namespace: home },
    roleRef: { apiGroup: group, kind: "ClusterRole", name: "cluster-admin" },
    subjects,
  });
  const here = { nameSelector: { matchNames: [home] } };
  lab.hook("global-hooks/forbidden.sh", v1({ kind: "Node", name: "nodes" }));
  lab.hook(
    "global-hooks/works.sh",
    v1({ kind: "Secret", name: "secrets", namespace: here, labelSelector: { matchLabels: { mine: "1" } } }),
  );
  const operator = await launchOperator({
    kubeconfig,
    namespace: home,
    modulesDir: lab.modulesDir,
    globalHooksDir: lab.globalHooksDir,
    env: ENV,
  });
  try {
    await eventually(
      () => expect(lab.contexts("works").map(brief)).toEqual(["Synchronization []"]),
      "the other hook runs",
      {
        context: () => operator.log().slice(-3000),
      },
    );
    await kubectl(["create", "secret", "generic", "one", "-n", home]);
    await kubectl(["label", "secret", "one", "-n", home, "mine=1"]);
    await eventually(
      () => expect(lab.contexts("works").map(brief)).toContain("Added one"),
      "and gets events",
    );
    expect(operator.log()).toMatch(
      /forbidden\.sh.*(forbidden|cannot list)|(forbidden|cannot list).*forbidden\.sh/i,
    );
    const { body } = await operator.http("/metrics");
    expect(body).toMatch(/^addon_operator_binding_monitor_missing_total\{binding="nodes"\} 1$/m);
    await eventually(
      async () =>
        expect(await summary(home)).toMatch(
          /^All enabled modules are ready \(0\); hook forbidden\.sh, binding nodes: .*(forbidden|cannot list)/,
        ),
      "the AddonOperator is Ready and says so",
    );
  } finally {
    await operator.kill9();
    await deleteNamespace(home);
    rmSync(lab.dir, { recursive: true, force: true });
  }
});
