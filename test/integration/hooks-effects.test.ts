import { readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { cluster, deleteNamespace, eventually, makeNamespace } from "../support/cluster.ts";
import { brief, hookLab } from "../support/hook-files.ts";
import type { Lab } from "../support/hook-files.ts";
import { launchOperator } from "../support/operator.ts";
import type { OperatorProcess } from "../support/operator.ts";

// docs/reference/hooks.md, "Order of effects": what a run leaves, in the cluster and in the operator.

interface Made {
  readonly data?: Record<string, string>;
  readonly status?: Record<string, unknown>;
}

describe("what hooks leave", () => {
  let lab: Lab;
  let ns = "";
  let operator: OperatorProcess;
  const { kubectl, apply, json } = cluster();
  const object = (kind: string, name: string) => json<Made>(["get", kind, name, "-n", ns]);
  const data = async (name: string) => (await object("configmap", name)).data;
  const is = (check: () => unknown, what: string) =>
    eventually(check as () => Promise<void>, what, {
      context: () => operator.log().slice(-4000),
    });
  const map = (name: string, content: Record<string, string>) => ({
    apiVersion: "v1",
    kind: "ConfigMap",
    metadata: { name, namespace: ns },
    data: content,
  });
  const on = (name: string) => ({
    kind: "ConfigMap",
    name,
    namespace: { nameSelector: { matchNames: [ns] } },
    nameSelector: { matchNames: [name] },
    executeHookOnSynchronization: false,
    executeHookOnEvent: ["Added"],
  });
  /** Makes the ConfigMap that a hook waits for. */
  const pull = (name: string) => kubectl(["create", "configmap", name, "-n", ns]);

  beforeAll(async () => {
    lab = hookLab("effects");
    ns = await makeNamespace("effects");
    const hook = (name: string, config: object, body?: string) =>
      lab.hook(`global-hooks/${name}.sh`, { configVersion: "v1", ...config }, body);
    const target = (operation: string, name: string, more = {}) =>
      JSON.stringify({ operation, apiVersion: "v1", kind: "ConfigMap", namespace: ns, name, ...more });
    const create = (operation: string, name: string, content: Record<string, string>) =>
      JSON.stringify({ operation, object: map(name, content) });
    const patches = [
      create("Create", "created", { a: "1" }),
      create("CreateIfNotExists", "there", { a: "changed" }),
      create("CreateIfNotExists", "was-not-there", { a: "1" }),
      create("CreateOrUpdate", "updated", { b: "2" }),
      target("Delete", "deleted-1"),
      target("DeleteInBackground", "deleted-2"),
      target("DeleteNonCascading", "deleted-3"),
      target("Delete", "never-was"),
      target("MergePatch", "there", { mergePatch: { data: { merged: "yes", a: null } } }),
      target("JSONPatch", "updated", { jsonPatch: [{ op: "add", path: "/data/c", value: "3" }] }),
      target("JQPatch", "created", { jqFilter: '.data.jq = (.data.a + "x")' }),
      target("MergePatch", "never-was", { mergePatch: { data: {} }, ignoreMissingObject: true }),
    ];
    hook(
      "patches",
      { kubernetes: [on("patches")] },
      `cat >"$KUBERNETES_PATCH_PATH" <<'END'\n${patches.join("\n")}\nEND`,
    );
    hook(
      "patches-yaml",
      { kubernetes: [on("patches-yaml")] },
      `cat >"$KUBERNETES_PATCH_PATH" <<'END'
---
operation: MergePatch
kind: Namespace
name: ${ns}
subresource: /status
mergePatch: |
  status:
    conditions: [{type: Hooked, status: "True", lastTransitionTime: "2026-01-01T00:00:00Z", reason: A, message: b}]
---
operation: CreateOrUpdate
object:
  apiVersion: v1
  kind: ConfigMap
  metadata: {name: from-yaml, namespace: ${ns}}
  data: {flag: "on"}
END`,
    );
    hook(
      "collects",
      { kubernetes: [{ ...on("collects"), allowFailure: true }] },
      `cat >"$KUBERNETES_PATCH_PATH" <<'END'
${target("MergePatch", "no-such-map", { mergePatch: {} })}
${create("CreateIfNotExists", "after-a-failure", {})}
${target("JSONPatch", "no-such-map-either", { jsonPatch: [] })}
END`,
    );
    hook(
      "checked-first",
      { kubernetes: [{ ...on("checked-first"), allowFailure: true }] },
      `cat >"$KUBERNETES_PATCH_PATH" <<'END'
${create("CreateIfNotExists", "must-not-be", {})}
{"operation":"Destroy","kind":"ConfigMap","name":"x"}
END`,
    );
    hook(
      "metrics",
      { kubernetes: [{ ...on("metrics"), executeHookOnEvent: ["Added", "Modified"] }] },
      `cat >"$METRICS_PATH" <<END
{"name":"lab_runs","add":1}
{"name":"lab_depth","action":"set","value":3.5,"labels":{"pool":"a"}}
{"name":"lab_seconds","action":"observe","value":0.7,"buckets":[0.5,1]}
{"group":"g","name":"lab_grouped","set":1,"labels":{"run":"$run"}}
END`,
    );
    hook(
      "bad-metrics",
      { kubernetes: [{ ...on("bad-metrics"), allowFailure: true }] },
      `echo '{"name":"lab_never","set":1}{"name":"lab_bad","action":"grow","value":1}' >"$METRICS_PATH"`,
    );
    hook("each-second", { schedule: [{ name: "tick", crontab: "*/1 * * * * *" }] });
    lab.hook("global-hooks/each-second-v0.sh", {
      schedule: [{ name: "incremental", crontab: "*/1 * * * * *" }, { crontab: "*/1 * * * * *" }],
    });
    hook("limited", {
      schedule: [{ crontab: "*/1 * * * * *", queue: "limited" }],
      settings: { executionMinInterval: "1h", executionBurst: 1 },
    });
    hook(
      "keeps",
      { kubernetes: [on("keeps")] },
      `echo '[{"op":"add","path":"/global/kept","value":{"by":"hook"}}]' >"$CONFIG_VALUES_JSON_PATCH_PATH"`,
    );
    hook(
      "retries",
      { kubernetes: [on("retries")] },
      `echo "try $run"; echo '{"op":"add","path":"/global/leftOver","value":"'"$run"'"}' >"$VALUES_JSON_PATCH_PATH"\n[ "$run" = 000002 ]`,
    );
    hook(
      "switches",
      { kubernetes: [on("switches")] },
      `echo '[{"op":"add","path":"/switchedEnabled","value":true}]' >"$VALUES_JSON_PATCH_PATH"`,
    );
    lab.file("modules/values.yaml", "shownEnabled: true\n");
    lab.file("modules/010-shown/Chart.yaml", "apiVersion: v2\nname: shown\nversion: 0.1.0\n");
    lab.file("modules/010-shown/values.yaml", "shown: {colour: red}\n");
    lab.file(
      "modules/010-shown/templates/map.yaml",
      "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: shown}\ndata: {colour: {{ .Values.shown.colour }}}\n",
    );
    const watched = (name: string) => ({ ...on(name), name });
    lab.hook(
      "modules/010-shown/hooks/colour.sh",
      { configVersion: "v1", kubernetes: [watched("colour")] },
      `echo '{"op":"replace","path":"/shown/colour","value":"blue"}' >"$VALUES_JSON_PATCH_PATH"`,
    );
    const snapshots = { ...on("shown"), name: "own", executeHookOnEvent: [] };
    for (const [file, binding] of [
      ["a-before", "beforeDeleteHelm"],
      ["a-after", "afterDeleteHelm"],
      ["b-around", "beforeHelm"],
      ["c-around", "afterHelm"],
    ] as const)
      lab.hook(`modules/010-shown/hooks/${file}.sh`, {
        configVersion: "v1",
        [binding]: 1,
        kubernetes: [snapshots],
      });
    lab.file("modules/020-switched/values.yaml", "switched: {}\n");
    lab.hook("modules/020-switched/hooks/started.sh", { configVersion: "v1", onStartup: 1 });
    await apply(
      map("there", { a: "1" }),
      map("updated", { a: "old" }),
      ...[1, 2, 3].map((number) => map(`deleted-${number}`, {})),
    );
    operator = await launchOperator({
      kubeconfig: cluster().kubeconfig,
      namespace: ns,
      modulesDir: lab.modulesDir,
      globalHooksDir: lab.globalHooksDir,
      env: { RETRY_DELAY_MIN: "50ms", RETRY_DELAY_MAX: "300ms", LOG_TYPE: "text" },
    });
    await operator.waitReady();
  });

  afterAll(async () => {
    await operator?.kill9();
    if (ns !== "") await deleteNamespace(ns);
    rmSync(lab.dir, { recursive: true, force: true });
  });

  test("all nine object operations", async () => {
    await pull("patches");
    await is(async () => expect(await data("created")).toEqual({ a: "1", jq: "1x" }), "the last operation");
    expect(await data("there")).toEqual({ merged: "yes" });
    expect(await data("was-not-there")).toEqual({ a: "1" });
    expect(await data("updated")).toEqual({ b: "2", c: "3" });
    const left = await kubectl(["get", "configmaps", "-n", ns, "-o", "name"]);
    expect(left).not.toContain("deleted-");
  });

  test("object patches are counted apart from the operator's own requests", async () => {
    const { body } = await operator.http("/metrics");
    const series = "addon_operator_kubernetes_client_request_result_total";
    expect(body).toMatch(
      new RegExp(`^${series}\\{.*method="PATCH".*component="object_patcher"\\} [1-9]`, "m"),
    );
    expect(body).toMatch(new RegExp(`^${series}\\{.*method="GET".*component="main"\\} [1-9]`, "m"));
  });

  test("YAML documents, a subresource, texts with YAML", async () => {
    await pull("patches-yaml");
    await is(async () => expect(await data("from-yaml")).toEqual({ flag: "on" }), "the last document");
    const { status } = await json<Made>(["get", "namespace", ns]);
    expect(status).toMatchObject({ conditions: [{ type: "Hooked" }] });
  });

  test("a failed operation is reported with all others, after the rest was tried", async () => {
    await pull("collects");
    await is(() => data("after-a-failure"), "the operation after the failed one");
    await is(() => expect(operator.log()).toMatch(/no-such-map:.*no-such-map-either/), "both are named");
  });

  test("one bad document and nothing is applied", async () => {
    await pull("checked-first");
    await is(() => expect(operator.log()).toMatch(/.operation. must be one of Create/), "the refusal");
    await expect(object("configmap", "must-not-be")).rejects.toThrow(/NotFound/);
  });

  test("metrics: counters grow over runs, a group is replaced, a bad file counts for nothing", async () => {
    const page = async () => (await operator.http("/metrics/hooks")).body;
    await pull("metrics");
    await is(
      async () => expect(await page()).toContain('lab_grouped{hook="metrics.sh",run="000000"} 1'),
      "run 1",
    );
    await kubectl(["label", "configmap", "metrics", "-n", ns, "a=b"]);
    await is(async () => expect(await page()).toContain('run="000001"} 1'), "run 2");
    const text = await page();
    expect(text).toContain('lab_runs{hook="metrics.sh"} 2\n');
    expect(text).toContain('lab_depth{hook="metrics.sh",pool="a"} 3.5\n');
    expect(text).toContain('lab_seconds_bucket{le="1",hook="metrics.sh"} 2\n');
    expect(text).not.toContain('run="000000"');
    await pull("bad-metrics");
    await is(
      () => expect(operator.log()).toMatch(/METRICS_PATH.*.action. must be one of add/),
      "the refusal",
    );
    expect(await page()).not.toContain("lab_never");
  });

  test("schedules: v1 and the two-schedule hook, each run with one context there; a rate limit holds", async () => {
    await is(() => expect(lab.runs("each-second").length).toBeGreaterThanOrEqual(2), "two ticks");
    expect(lab.runs("each-second")[0]).toEqual([{ binding: "tick", type: "Schedule" }]);
    await is(() => expect(lab.runs("each-second-v0").length).toBeGreaterThanOrEqual(2), "both schedules");
    expect(lab.runs("each-second-v0").slice(0, 2)).toEqual([
      [{ binding: "incremental" }],
      [{ binding: "schedule" }],
    ]);
    await is(() => expect(lab.runs("limited")).toHaveLength(1), "the one run of this hour");
    await is(() => expect(lab.runs("each-second").length).toBeGreaterThanOrEqual(4), "two ticks more");
    expect(lab.runs("limited")).toHaveLength(1);
  });

  test("a config patch is saved in the ConfigMap, under its key only", async () => {
    await kubectl([
      "patch",
      "configmap",
      "addon-operator",
      "-n",
      ns,
      "--type=merge",
      "-p",
      '{"data":{"other":"a: 1"}}',
    ]);
    await pull("keeps");
    await is(async () => expect(await data("addon-operator")).toHaveProperty("global"), "the key");
    const { data: content } = await object("configmap", "addon-operator");
    expect(content).toEqual({ global: "kept:\n  by: hook\n", other: "a: 1" });
  });

  test("a failed run is repeated with the same context, and leaves nothing until it succeeds", async () => {
    await pull("retries");
    await is(() => expect(lab.runs("retries")).toHaveLength(3), "three tries");
    expect(new Set(lab.contexts("retries").map(brief))).toEqual(new Set(["Added retries"]));
    await is(async () => {
      const { stdout } = await operator.cli(["global", "values", "-o", "json"]);
      expect(JSON.parse(stdout)).toMatchObject({ leftOver: "000002" });
    }, "the values of the last try");
    expect(operator.log()).toMatch(/try 000000/);
  });

  test("a values patch of an event hook runs the module", async () => {
    const colour = async () => (await data("shown"))?.["colour"];
    expect(await colour()).toBe("red");
    await pull("colour");
    await is(async () => expect(await colour()).toBe("blue"), "the chart with the new value");
    expect(lab.contexts("c-around").at(-1)).toMatchObject({
      binding: "afterHelm",
      snapshots: { own: [{ object: { metadata: { name: "shown" } } }] },
    });
  });

  test("a global hook switches a module on", async () => {
    expect(lab.runs("started")).toEqual([]);
    await pull("switches");
    await is(() => expect(lab.runs("started")).toEqual([[{ binding: "onStartup" }]]), "the module starts");
  });

  test("hooks before and after a delete still have snapshots", async () => {
    await kubectl([
      "patch",
      "configmap",
      "addon-operator",
      "-n",
      ns,
      "--type=merge",
      "-p",
      '{"data":{"shownEnabled":"false"}}',
    ]);
    await is(() => expect(lab.runs("a-after")).toHaveLength(1), "the module is deleted");
    expect(lab.contexts("a-before")).toMatchObject([
      { binding: "beforeDeleteHelm", snapshots: { own: [{ object: { metadata: { name: "shown" } } }] } },
    ]);
    expect(lab.contexts("a-after")).toMatchObject([{ binding: "afterDeleteHelm", snapshots: { own: [] } }]);
    await expect(object("configmap", "shown")).rejects.toThrow(/NotFound/);
  });

  test("a first start without a ConfigMap makes one and is no issues", () => {
    expect(operator.log()).toContain("Created an empty ConfigMap");
    expect(operator.log()).not.toContain("ConfigMapMissing");
  });

  test("temporary files are gone after the runs", async () => {
    const tmp = join(operator.dir, "tmp");
    await is(
      () => expect(readdirSync(tmp).filter((name) => name.startsWith("hook-global"))).toEqual([]),
      "no file",
    );
  });
});
