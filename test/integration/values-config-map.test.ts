import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { CONFIG_MAPS, connect, mergePatch } from "../../src/kube/index.ts";
import { silentLogger } from "../../src/base/index.ts";
import { cluster, deleteNamespace, eventually, makeNamespace } from "../support/cluster.ts";
import { hookLab } from "../support/hook-files.ts";
import type { Lab } from "../support/hook-files.ts";
import { launchOperator } from "../support/operator.ts";
import type { OperatorProcess } from "../support/operator.ts";

// docs/reference/values.md, "Schemas": the consequences of invalid values, and two writers of one ConfigMap.

interface Made {
  readonly metadata: {
    readonly managedFields?: readonly { manager: string; fieldsV1: { "f:data"?: Record<string, unknown> } }[];
  };
  readonly data?: Record<string, string>;
  readonly status?: {
    readonly state?: string;
    readonly conditions?: readonly { type: string; status: string; reason: string }[];
  };
}

const ENV = { RETRY_DELAY_MIN: "50ms", RETRY_DELAY_MAX: "300ms", LOG_TYPE: "text" };
const CHART = "apiVersion: v2\nname: app\nversion: 0.1.0\n";
const template = (name: string, value: string) =>
  `apiVersion: v1\nkind: ConfigMap\nmetadata: {name: ${name}}\ndata: {value: "{{ ${value} }}"}\n`;

/** A ConfigMap that a hook waits for; each one made runs it once. */
const on = (ns: string, label: string) => ({
  kind: "ConfigMap",
  namespace: { nameSelector: { matchNames: [ns] } },
  labelSelector: { matchLabels: { pull: label } },
  executeHookOnSynchronization: false,
  executeHookOnEvent: ["Added"],
});

/** Everything the tests do with one namespace and one ConfigMap. */
function ports(place: () => { ns: string; operator: OperatorProcess }) {
  const { kubectl, json, apply } = cluster();
  const get = (kind: string, name: string) => json<Made>(["get", kind, name, "-n", place().ns]);
  const data = async (name = "addon-operator") => (await get("configmap", name)).data ?? {};
  const is = (check: () => unknown, what: string) =>
    eventually(check as () => Promise<void>, what, {
      context: () => place().operator.log().slice(-4000),
    });
  const edit = (change: Record<string, string | null>) => {
    // A large text does not fit into an argument.
    const file = join(place().operator.dir, "edit.json");
    writeFileSync(file, JSON.stringify({ data: change }));
    const target = ["configmap", "addon-operator", "-n", place().ns];
    return kubectl(["patch", ...target, "--type=merge", `--patch-file=${file}`]);
  };
  const pull = (label: string, name = `pull-${label}`) =>
    apply({
      apiVersion: "v1",
      kind: "ConfigMap",
      metadata: { name, namespace: place().ns, labels: { pull: label } },
    });
  const stalled = async () =>
    (await get("addonoperator", "addon-operator")).status?.conditions?.find(({ type }) => type === "Stalled");
  return { kubectl, json, get, data, is, edit, pull, stalled };
}

describe("values from the ConfigMap and from hooks", () => {
  let lab: Lab;
  let ns = "";
  let operator: OperatorProcess;
  const { kubectl, data, get, is, edit, pull, stalled } = ports(() => ({ ns, operator }));
  const runs = () => lab.runs("app-runs").length;

  beforeAll(async () => {
    lab = hookLab("values");
    ns = await makeNamespace("values");
    lab.file("modules/values.yaml", "appEnabled: true\n");
    lab.file("modules/010-app/Chart.yaml", CHART);
    lab.file("modules/010-app/templates/map.yaml", template("app", ".Values.app.size"));
    const properties = "properties:\n  size: {type: integer, default: 1}\n  kept: {type: string}\n";
    lab.file("modules/010-app/openapi/config-values.yaml", `type: object\n${properties}`);
    lab.file(
      "modules/010-app/openapi/values.yaml",
      "x-extend: {schema: config-values.yaml}\ntype: object\nproperties: {extra: {type: string}}\n",
    );
    lab.hook("modules/010-app/hooks/app-runs.sh", { configVersion: "v1", beforeHelm: 1 });
    const patching = (name: string, variable: string, patch: unknown) =>
      lab.hook(
        `modules/010-app/hooks/${name}.sh`,
        { configVersion: "v1", kubernetes: [{ ...on(ns, name), allowFailure: name.startsWith("bad") }] },
        `echo '${JSON.stringify(patch)}' >"$${variable}"`,
      );
    const add = (key: string, value: unknown) => ({ op: "add", path: `/app/${key}`, value });
    patching("bad-values", "VALUES_JSON_PATCH_PATH", add("size", "big"));
    patching("bad-config", "CONFIG_VALUES_JSON_PATCH_PATH", add("unknown", 1));
    patching("bad-huge", "CONFIG_VALUES_JSON_PATCH_PATH", add("kept", "x".repeat(200)));
    patching("good-config", "CONFIG_VALUES_JSON_PATCH_PATH", add("kept", "by hook"));
    lab.file("modules/020-needy/Chart.yaml", CHART);
    lab.file("modules/020-needy/templates/map.yaml", template("needy", ".Values.needy.token"));
    lab.file(
      "modules/020-needy/openapi/values.yaml",
      "type: object\nx-required-for-helm: [token]\nproperties: {token: {type: string}}\n",
    );
    lab.hook(
      "modules/020-needy/hooks/fills.sh",
      { configVersion: "v1", kubernetes: [{ ...on(ns, "fills"), queue: "aside" }] },
      `echo '{"op":"add","path":"/needy/token","value":"filled"}' >"$VALUES_JSON_PATCH_PATH"`,
    );
    await kubectl(["create", "configmap", "addon-operator", "-n", ns, "--from-literal=app=size: 2"]);
    operator = await launchOperator({
      kubeconfig: cluster().kubeconfig,
      namespace: ns,
      modulesDir: lab.modulesDir,
      globalHooksDir: lab.globalHooksDir,
      env: ENV,
    });
    await operator.waitReady();
  });

  afterAll(async () => {
    await operator?.kill9();
    if (ns !== "") await deleteNamespace(ns);
    rmSync(lab.dir, { recursive: true, force: true });
  });

  test("an invalid change: the whole last good content stays in force, flags included, and it is reported", async () => {
    expect((await data("app"))["value"]).toBe("2");
    const before = runs();
    await edit({ app: "size: large", needyEnabled: "true" });
    await is(
      async () => expect(await stalled()).toMatchObject({ status: "True", reason: "ConfigMapInvalid" }),
      "Stalled",
    );
    await is(async () => {
      const events = await kubectl(["get", "events", "-n", ns, "-o", "json"]);
      expect(events).toContain('"ConfigMapInvalid"');
    }, "the Event");
    // It grows for as long as the ConfigMap cannot be used.
    expect((await operator.http("/metrics")).body).toMatch(
      /^addon_operator_config_values_errors_total [1-9]\d*$/m,
    );
    expect(operator.log()).toMatch(/app.*size.*integer/);
    expect((await get("addonmodule", "needy")).status?.state).toBe("Disabled");
    expect(runs()).toBe(before);
  });

  test("a config patch meanwhile is written where its own key parses", async () => {
    const before = runs();
    await pull("good-config");
    await is(() => expect(runs()).toBe(before + 1), "it is in force as well: the module runs");
    await is(async () => {
      expect((await data())["app"]).toBe("size: large\nkept: by hook\n");
    }, "the patch is written, as its own key parses");
    expect((await data("app"))["value"]).toBe("2");
  });

  test("mended: what differs from the last good content runs, once", async () => {
    const before = runs();
    await edit({ app: "size: 3\nkept: by hook", needyEnabled: null });
    await is(async () => expect((await data("app"))["value"]).toBe("3"), "the new value");
    await is(async () => expect(await stalled()).toBeUndefined(), "no longer stalled");
    expect(runs()).toBe(before + 1);
  });

  test("invalid patches are hook failures that name path and rule", async () => {
    for (const name of ["bad-values", "bad-config"]) await pull(name);
    await is(() => expect(operator.log()).toMatch(/bad-values.*size/), "the values patch is refused");
    await is(() => expect(operator.log()).toMatch(/bad-config.*unknown/), "the config patch is refused");
    expect((await data())["app"]).not.toContain("unknown");
    expect((await data("app"))["value"]).toBe("3");
  });

  test("a config patch beyond 1 MiB is refused with key and size", async () => {
    await edit({ ballast: "y".repeat(1024 * 1024 - 100) });
    await pull("bad-huge");
    await is(() => expect(operator.log()).toMatch(/bad-huge.*app.*\d{7}/), "the refusal");
    await edit({ ballast: null });
  });

  test("our writes own exactly one key", async () => {
    await edit({ app: "size: 3" });
    await pull("good-config", "again");
    await is(async () => expect((await data())["app"]).toContain("by hook"), "the patch");
    const path = `/api/v1/namespaces/${ns}/configmaps/addon-operator`;
    const { metadata } = JSON.parse(await kubectl(["get", "--raw", path])) as Made;
    const ours = metadata.managedFields?.filter(({ manager }) => manager === "addon-operator");
    expect(ours?.flatMap(({ fieldsV1 }) => Object.keys(fieldsV1["f:data"] ?? {}))).toEqual(["f:app"]);
  });

  test("values that helm requires: the module waits until a hook fills them in", async () => {
    await edit({ needyEnabled: "true" });
    await is(async () => {
      const { status } = await get("addonmodule", "needy");
      expect(status?.conditions).toContainEqual(expect.objectContaining({ reason: "ValuesIncomplete" }));
    }, "ValuesIncomplete");
    await expect(get("configmap", "needy")).rejects.toThrow(/NotFound/);
    await pull("fills");
    await is(async () => expect((await data("needy"))["value"]).toBe("filled"), "the chart");
  });
});

test("the role view reads ConfigMaps and no Secrets", async () => {
  const { rules } = await cluster().json<{ rules: { resources: string[]; verbs: string[] }[] }>([
    "get",
    "clusterrole",
    "view",
  ]);
  const readable = rules.filter(({ verbs }) => verbs.includes("get")).flatMap(({ resources }) => resources);
  expect(readable).toContain("configmaps");
  expect(readable).not.toContain("secrets");
});

describe("two writers", () => {
  test("three hundred edits race a hook's patches: nothing is lost", async () => {
    const lab = hookLab("race");
    const ns = await makeNamespace("race");
    const { kubectl, json } = cluster();
    lab.file("modules/values.yaml", "appEnabled: true\n");
    lab.file("modules/010-app/values.yaml", "app: {}\n");
    lab.hook(
      "modules/010-app/hooks/writes.sh",
      {
        configVersion: "v1",
        kubernetes: [
          { ...on(ns, "race"), queue: "race", jqFilter: ".metadata.name", keepFullObjectsInMemory: false },
        ],
      },
      `jq -c '{op:"add",path:("/app/"+.[].filterResult),value:1}' "$BINDING_CONTEXT_PATH" >"$CONFIG_VALUES_JSON_PATCH_PATH"`,
    );
    const map = (name: string, more = {}) => ({
      apiVersion: "v1",
      kind: "ConfigMap",
      metadata: { name, namespace: ns, ...more },
    });
    await kubectl(["create", "-f", "-"], JSON.stringify(map("addon-operator")));
    const operator = await launchOperator({
      kubeconfig: cluster().kubeconfig,
      namespace: ns,
      modulesDir: lab.modulesDir,
      globalHooksDir: lab.globalHooksDir,
      env: ENV,
    });
    try {
      await operator.waitReady();
      const client = connect({ kubeConfig: cluster().kubeconfig, userAgent: "edits", logger: silentLogger });
      onTestFinished(() => client.close());
      const target = { resource: CONFIG_MAPS, namespace: ns, name: "addon-operator" };
      const write = async (part: number): Promise<void> => {
        for (let index = 0; index < 75; index++) {
          await mergePatch(client, target, { body: { data: { [`edit-${part}-${index}`]: "x" } } });
        }
      };
      const pulls = Array.from({ length: 40 }, (_, index) =>
        map(`pull${index}`, { labels: { pull: "race" } }),
      );
      await Promise.all([
        ...[0, 1, 2, 3].map(write),
        kubectl(["create", "-f", "-"], JSON.stringify({ apiVersion: "v1", kind: "List", items: pulls })),
      ]);
      await eventually(
        async () => {
          const { data = {} } = await json<Made>(["get", "configmap", "addon-operator", "-n", ns]);
          const written = new Set((data["app"] ?? "").match(/pull\d+/g));
          expect(written.size).toBe(40);
          expect(Object.keys(data).filter((key) => key.startsWith("edit-"))).toHaveLength(300);
        },
        "all patches of the hook and all edits",
        { context: () => operator.log().slice(-3000) },
      );
    } finally {
      await operator.kill9();
      await deleteNamespace(ns);
      rmSync(lab.dir, { recursive: true, force: true });
    }
  });

  const kinds = ["configmap", "secret"] as const;
  test.each(kinds)("an overlay (%s) takes what hooks write, and comes back when deleted", async (kind) => {
    const lab = hookLab("overlay");
    const ns = await makeNamespace("overlay");
    let operator: OperatorProcess | undefined;
    const { kubectl, data, edit, pull, is } = ports(() => ({ ns, operator: operator as OperatorProcess }));
    lab.file("modules/values.yaml", "appEnabled: true\n");
    lab.file("modules/010-app/Chart.yaml", CHART);
    lab.file("modules/010-app/values.yaml", "app: {a: 0, b: 0}\n");
    lab.file(
      "modules/010-app/templates/map.yaml",
      template("app", 'printf \\"%v %v\\" .Values.app.a .Values.app.b').replaceAll('\\"', "`"),
    );
    lab.hook(
      "modules/010-app/hooks/writes.sh",
      { configVersion: "v1", kubernetes: [on(ns, "now")] },
      `echo '{"op":"add","path":"/app/b","value":"hook"}' >"$CONFIG_VALUES_JSON_PATCH_PATH"`,
    );
    await kubectl(["create", "configmap", "addon-operator", "-n", ns, "--from-literal=app=a: user"]);
    try {
      operator = await launchOperator({
        kubeconfig: cluster().kubeconfig,
        namespace: ns,
        modulesDir: lab.modulesDir,
        globalHooksDir: lab.globalHooksDir,
        args: [`--config-overlay=${kind}/written`],
        env: ENV,
      });
      await operator.waitReady();
      await pull("now");
      const written = kind === "configmap" ? "b: hook\n" : Buffer.from("b: hook\n").toString("base64");
      const overlay = async (): Promise<unknown> =>
        (await cluster().json<{ data: unknown }>(["get", kind, "written", "-n", ns])).data;
      await is(async () => expect(await overlay()).toEqual({ app: written }), "the overlay");
      await is(async () => expect((await data("app"))["value"]).toBe("user hook"), "both layers");
      expect(await data()).toEqual({ app: "a: user" });
      await edit({ app: "a: user\nb: user" });
      await pull("now", "again");
      await is(async () => expect(lab.runs("writes")).toHaveLength(2), "a second run");
      expect((await data("app"))["value"]).toBe("user hook");
      await kubectl(["delete", kind, "written", "-n", ns]);
      await is(async () => expect(await overlay()).toEqual({ app: written }), "the overlay is back");
    } finally {
      await operator?.kill9();
      await deleteNamespace(ns);
      rmSync(lab.dir, { recursive: true, force: true });
    }
  });
});
