import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { locate, tools } from "../../scripts/setup/tools.mjs";
import { environmentNames } from "../../src/config/settings/index.ts";
import { SETTINGS } from "../../src/config/settings/setting-names.ts";
import { listOwnPermissions, listWebhookPermissions, type Permission } from "../../src/kube/permissions.ts";
import { parseYaml } from "../../src/base/index.ts";
import { isJsonObject } from "../../src/base/model/index.ts";
import type { Json, JsonObject } from "../../src/base/model/index.ts";
import { CHART, MATRIX, objectsOf, render } from "./matrix.ts";
import type { Rendered } from "./matrix.ts";
import { parseSettings } from "../support/command-line.ts";

const without = locate().missing.some((tool) => ["helm", "helm3"].includes(tool));
const text = (path: string): string => readFileSync(new URL(`../../${path}`, import.meta.url), "utf8");

test.each(["addonmodules", "addonoperators", "modulesources"])(
  "the chart's CRD %s is the operator's",
  (name) => {
    expect(text(`charts/addon-operator/crds/${name}.yaml`)).toBe(text(`crds/${name}.yaml`));
  },
);

test("the chart's alerts are those of deploy/prometheus", () => {
  const rule = parseYaml(text("deploy/prometheus/alerts.yaml"), "alerts").value as { spec: JsonObject };
  expect(parseYaml(text("charts/addon-operator/rules/alerts.yaml"), "rules").value).toEqual(rule.spec);
});

test("every value of the chart is tried by some rendering", () => {
  const leaves = (value: Json, path: string): string[] =>
    isJsonObject(value) && Object.keys(value).length > 0
      ? Object.entries(value).flatMap(([key, each]) => leaves(each ?? null, `${path}.${key}`))
      : [path];
  const defaults = leaves(parseYaml(text("charts/addon-operator/values.yaml"), "values").value, "");
  const tried = Object.values(MATRIX).flatMap((values) => leaves(values, ""));
  const isTried = (leaf: string): boolean =>
    tried.some((path) => path === leaf || path.startsWith(`${leaf}.`));
  expect(defaults.filter((leaf) => !isTried(leaf))).toEqual([]);
});

test("every series of the dashboard is documented", () => {
  const metrics = text("docs/reference/metrics.md");
  const names =
    text("charts/addon-operator/dashboards/addon-operator.json").match(/addon_operator_\w+/g) ?? [];
  expect(names.length).toBeGreaterThan(10);
  for (const name of names) expect(metrics).toContain(name.replace(/_bucket$/, ""));
});

describe.skipIf(without)("rendering (needs helm 3 and 4 from `npm run setup`)", () => {
  test.each(Object.keys(MATRIX))("%s: as recorded, the same on helm 3 and 4", async (name) => {
    const values = MATRIX[name] ?? {};
    const objects = objectsOf(render("helm", values));
    expect(objectsOf(render("helm3", values))).toEqual(objects);
    const recorded = JSON.stringify(objects.map(shortened), null, 1);
    await expect(`${recorded}\n`).toMatchFileSnapshot(
      join("..", "fixtures", "charts", `${name.replaceAll(" ", "-")}.json`),
    );
  });

  test.each<[string, JsonObject, RegExp]>([
    ["an unknown key", { image: { pulPolicy: "Always" } }, /pulPolicy/],
    ["a word that is no choice", { operator: { purge: "some" } }, /purge/],
    ["a start that is none", { operator: { invalidConfig: "ignore" } }, /invalidConfig/],
    ["a mode of queues that is none", { operator: { moduleQueues: "some" } }, /moduleQueues/],
    ["no duration", { operator: { shutdownTimeout: "30" } }, /shutdownTimeout/],
    ["a collector without a scheme", { operator: { otlp: { endpoint: "collector:4318" } } }, /endpoint/],
    ["more than all traces", { operator: { otlp: { samplingRatio: 2 } } }, /samplingRatio/],
    ["two replicas without HA", { replicas: 2 }, /Set ha.enabled=true/],
    [
      "a lease that ends too soon",
      { ha: { enabled: true, leaseDuration: "12s" } },
      /at least 3 seconds longer/,
    ],
    ["an overlay over itself", { config: { overlay: "addon-operator" } }, /overlay must differ/],
    [
      "values for no ConfigMap",
      { config: { create: false, values: { a: {} } } },
      /requires config.create=true/,
    ],
  ])("%s is refused", (_what, values, message) => {
    for (const version of ["helm", "helm3"] as const) expect(() => render(version, values)).toThrow(message);
  });

  test.each(["helm", "helm3"] as const)("%s lint has nothing to say", (version) => {
    const said = execFileSync(tools()[version], ["lint", "--strict", CHART], { encoding: "utf8" });
    expect(said).toContain("0 chart(s) failed");
    expect(said).not.toMatch(/WARNING|ERROR/);
  });

  test("the operator understands every variable that the chart sets", () => {
    const env = environmentOf(MATRIX["ha"] ?? {});
    const known = new Set([...SETTINGS.flatMap(environmentNames), "ADDON_OPERATOR_RELEASE_NAME"]);
    expect(Object.keys(env).filter((name) => !known.has(name))).toEqual([]);
    const { settings, warnings } = parseSettings([], env);
    expect(warnings).toEqual([]);
    expect(settings).toMatchObject({
      ha: true,
      leaseDurationMs: 20_000,
      configOverlay: "secret/addon-operator-state",
    });
  });

  test.each(Object.keys(MATRIX))("the operator starts with the variables of %s", (name) => {
    expect(parseSettings([], environmentOf(MATRIX[name] ?? {})).warnings).toEqual([]);
  });

  test("the digest moves with the values and with nothing else", () => {
    const digest = (values: JsonObject): string | undefined =>
      /configDigest: (.+)/.exec(render("helm", values))?.[1];
    expect(digest({})).toMatch(/^v1-[0-9a-f]{40}$/);
    expect(digest({ port: 1234 })).toBe(digest({}));
    expect(digest({ config: { values: { aEnabled: true } } })).not.toBe(digest({}));
  });

  const asked: (readonly ["ConfigMap" | "Secret", boolean])[] = [
    ["ConfigMap", false],
    ["Secret", false],
    ["Secret", true],
  ];
  test.each(asked)(
    "the role is what the operator asks for at start: overlay %s, sources %s",
    (overlayKind, enabled) => {
      const values = { ...MATRIX["own rights"], config: { overlayKind }, sources: { enabled } };
      const role = objectsOf(render("helm", values)).find(({ kind }) => kind === "Role");
      const all = role?.["rules"] as unknown as Rule[];
      // What is granted by name is not asked for: it goes without.
      const rules = all.filter(({ resourceNames }) => resourceNames === undefined);
      const named = all.filter(({ resourceNames }) => resourceNames !== undefined);
      const old = { resources: ["configmaps"], resourceNames: ["addon-operator-state"], verbs: ["delete"] };
      expect(named).toEqual(overlayKind === "Secret" ? [{ apiGroups: [""], ...old }] : []);
      const requested = listOwnPermissions("addons", overlayKind, enabled).map(rightText);
      expect(granted(rules).toSorted()).toEqual(requested.toSorted());
    },
  );

  test("with webhooks, the roles contain what the operator asks for at start to register them", () => {
    const values = { ...MATRIX["own rights"], webhooks: { enabled: true } };
    const roles = objectsOf(render("helm", values)).filter(({ kind }) => /^(Cluster)?Role$/.test(kind));
    const requested = listWebhookPermissions("addons", { service: true, crds: [] }).map(rightText);
    const all = roles.flatMap((role) => granted(role["rules"] as unknown as Rule[]));
    expect(all).toEqual(expect.arrayContaining(requested));
  });

  test("without cluster-admin only the operator's own two CRDs can be changed", () => {
    const rbac = { clusterAdmin: false, aggregatedRoles: false };
    const roles = objectsOf(render("helm", { rbac })).filter(({ kind }) => kind === "ClusterRole");
    const crds = { apiGroups: ["apiextensions.k8s.io"], resources: ["customresourcedefinitions"] };
    const resourceNames = ["addonmodules.addon-operator.io", "addonoperators.addon-operator.io"];
    expect(roles.map((role) => role["rules"])).toEqual([
      [
        { ...crds, verbs: ["get", "list", "watch", "create"] },
        { ...crds, resourceNames, verbs: ["update", "patch"] },
      ],
    ]);
  });

  test("the token is the operator's container's alone", () => {
    const spec = podOf({ extraContainers: [{ name: "side" }], initContainers: [{ name: "init" }] });
    expect(spec.automountServiceAccountToken).toBe(false);
    const at = "/var/run/secrets/kubernetes.io/serviceaccount";
    const mounts = spec.containers.map(({ name, volumeMounts = [] }) => [
      name,
      volumeMounts.filter(({ mountPath }) => mountPath === at).map((mount) => mount.name),
    ]);
    expect(mounts).toEqual([
      ["operator", ["service-account"]],
      ["side", []],
    ]);
    const sources = spec.volumes.find(({ name }) => name === "service-account")?.projected?.sources;
    expect(sources?.flatMap((source) => Object.keys(source))).toEqual([
      "serviceAccountToken",
      "configMap",
      "downwardAPI",
    ]);
  });

  test("the page may have a port of its own, open to those that networkPolicy.uiFrom names", () => {
    const browsers = { namespaceSelector: { matchLabels: { name: "ingress" } } };
    const values = { ui: { enabled: true, port: 9116 }, networkPolicy: { uiFrom: [browsers] } };
    const objects = objectsOf(render("helm", values));
    const policy = objects.find(({ kind }) => kind === "NetworkPolicy") as unknown as {
      spec: { ingress: { ports: unknown; from: unknown[] }[] };
    };
    const [metrics, page] = policy.spec.ingress;
    expect([metrics?.ports, page?.ports]).toEqual([[{ port: "http" }], [{ port: "ui" }]]);
    expect(metrics?.from).not.toContainEqual(browsers);
    expect(page?.from.at(-1)).toEqual(browsers);
  });

  test("the port is open to the operator's own Pods, the test, and those that networkPolicy.from names", () => {
    const from = (values: JsonObject): unknown => {
      const policy = objectsOf(render("helm", values)).find(({ kind }) => kind === "NetworkPolicy");
      return (policy as unknown as { spec: { ingress: { from: unknown }[] } }).spec.ingress[0]?.from;
    };
    const pods = (name: string): JsonObject => ({
      podSelector: {
        matchLabels: {
          "app.kubernetes.io/name": name,
          ...(name === "addon-operator" ? { "app.kubernetes.io/instance": "operator" } : {}),
        },
      },
    });
    const own = [pods("addon-operator"), pods("addon-operator-test")];
    expect(from({})).toEqual(own);
    expect(from({ tests: { enabled: false } })).toEqual(own.slice(0, 1));
    const prometheus = { namespaceSelector: { matchLabels: { name: "monitoring" } } };
    expect(from({ networkPolicy: { from: [prometheus] } })).toEqual([...own, prometheus]);
  });

  test("no object of the operator itself is a chart hook", () => {
    const hooks = objectsOf(render("helm", {})).filter(
      ({ metadata }) => (metadata["annotations"] as JsonObject | undefined)?.["helm.sh/hook"] !== undefined,
    );
    expect(hooks.map(({ kind }) => kind)).toEqual(["Pod"]);
  });
});

interface PodSpec {
  readonly automountServiceAccountToken?: boolean;
  readonly containers: readonly {
    readonly name: string;
    readonly env: readonly { readonly name: string; readonly value?: string }[];
    readonly volumeMounts?: readonly { readonly name: string; readonly mountPath: string }[];
  }[];
  readonly volumes: readonly {
    readonly name: string;
    readonly projected?: { readonly sources: readonly object[] };
  }[];
}

function podOf(values: JsonObject): PodSpec {
  const deployment = objectsOf(render("helm", values)).find(({ kind }) => kind === "Deployment");
  return (deployment as unknown as { spec: { template: { spec: PodSpec } } }).spec.template.spec;
}

function environmentOf(values: JsonObject): Record<string, string> {
  const variables = podOf(values).containers[0]?.env ?? [];
  return Object.fromEntries(variables.map(({ name, value }) => [name, value ?? "from-the-pod"]));
}

/** Texts that other tests compare whole are left out of the record. */
function shortened(object: Rendered): JsonObject {
  if (object.kind === "PrometheusRule") return { ...object, spec: "deploy/prometheus/alerts.yaml" };
  if (!object.metadata.name.endsWith("-dashboard")) return object;
  return { ...object, data: "dashboards/addon-operator.json" };
}

type Rule = Record<"apiGroups" | "resources" | "verbs" | "resourceNames", string[]>;

function granted(rules: readonly Rule[]): string[] {
  return rules.flatMap(({ apiGroups, resources, verbs }) =>
    apiGroups.flatMap((group) =>
      resources.flatMap((resource) => verbs.map((verb) => `${verb} ${group}/${resource}`)),
    ),
  );
}

function rightText({ verb, group, resource, subresource }: Permission): string {
  return `${verb} ${group}/${resource}${subresource === undefined ? "" : `/${subresource}`}`;
}
