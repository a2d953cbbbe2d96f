import { randomBytes } from "node:crypto";
import { chmodSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { create } from "tar";
import { beforeEach, describe, expect, it, onTestFinished } from "vitest";

import { tools } from "../../../scripts/setup/tools.mjs";
import { parseYaml } from "../../../src/base/index.ts";
import { runOffline } from "../../support/command-line.ts";

// docs/reference/commands.md, "Without a cluster": what lint finds in charts.

let root: string;

beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "lint-"));
  onTestFinished(() => rmSync(root, { recursive: true, force: true }));
});

function put(path: string, text: string): string {
  const file = join(root, path);
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, text);
  return file;
}

function lint(...args: string[]): Promise<{ code: number; text: string }> {
  const env = { PATH: process.env["PATH"], ADDON_OPERATOR_TMP_DIR: join(root, "tmp") };
  return runOffline("lint", ["--helm-bin", tools().helm, ...args, join(root, "modules")], env);
}

const CHART = "apiVersion: v2\nname: x\nversion: 1.0.0\n";
const MAP = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n";
const DEPLOYMENT = `apiVersion: apps/v1
kind: Deployment
metadata: {name: "{{ .Release.Name }}"}
spec:
  template:
    spec:
      containers: [{name: "{{ .Chart.Name }}", image: x}]
`;
const ALIASED = `${CHART}dependencies: [{name: nginx-proxy, version: 1.0.0, alias: nginxProxy}]\n`;

function module(template: string, files: Readonly<Record<string, string>> = {}): void {
  put("modules/010-nginx-proxy/Chart.yaml", files["Chart.yaml"] ?? CHART);
  put("modules/010-nginx-proxy/templates/x.yaml", template);
  for (const [path, text] of Object.entries(files)) put(`modules/010-nginx-proxy/${path}`, text);
}

const subChart = (template: string): Record<string, string> => ({
  "Chart.yaml": ALIASED,
  "charts/nginx-proxy/Chart.yaml": "apiVersion: v2\nname: nginx-proxy\nversion: 1.0.0\n",
  "charts/nginx-proxy/templates/x.yaml": template,
  "charts/nginx-proxy/values.yaml": "replicas: 1\n",
});

it("warns of documents of values.yaml that nobody reads, also in a sub-chart", async () => {
  const template = `${MAP}data: {a: "{{ .Values.nginxProxy.a }}{{ .Values.nginxProxy.b }}"}\n`;
  const files = subChart(`${MAP.replace("x}", "z}")}data: {r: "{{ .Values.replicas }}"}\n`);
  const laterDocument = { "charts/nginx-proxy/values.yaml": "replicas: 1\n---\nreplicas: 2\n" };
  module(template, { ...files, ...laterDocument, "values.yaml": "nginxProxy: {a: 1}\n---\n# none\n" });
  const { code, text } = await lint();
  const file = "modules/010-nginx-proxy/charts/nginx-proxy/values.yaml";
  expect(text).toBe(
    `warning: ${join(root, file)}: line 3: the document ends before this line; the rest is ignored, also with Helm 4 (write all values in one document)\n`,
  );
  expect(code).toBe(0);
});

it.each<[string, string, Readonly<Record<string, string>>, string | undefined]>([
  ["unpacked", "1.0.0", {}, undefined],
  ["unpacked", ">=0.9.0, <2.0.0", {}, undefined],
  ["unpacked", "not a range", {}, undefined],
  ["unpacked", "^2.0.0", {}, "^2.0.0, but charts/ contains 1.0.0"],
  [
    "packed, whose error helm reports",
    "~1.1.0",
    { "charts/nginx-proxy-1.2.0.tgz": "" },
    "~1.1.0, but charts/ contains 1.0.0, 1.2.0",
  ],
])("warns of a wrong version of a sub-chart: %s, %j", async (_, range, more, warning) => {
  const files = subChart(`${MAP.replace("x}", "z}")}data: {r: "{{ .Values.replicas }}"}\n`);
  const chart = { "Chart.yaml": ALIASED.replace("version: 1.0.0, alias", `version: "${range}", alias`) };
  module(`${MAP}data: {a: "{{ .Values.nginxProxy.a }}"}\n`, { ...files, ...chart, ...more });
  const { text } = await lint();
  const lines = text.split("\n").filter((line) => line.includes("but charts/"));
  const file = join(root, "modules/010-nginx-proxy/Chart.yaml");
  const remedy = "run helm dependency update, or correct dependencies";
  expect(lines).toEqual(
    warning === undefined ? [] : [`warning: ${file}: depends on nginx-proxy ${warning} (${remedy})`],
  );
});

const webhooks = (more: string): string => `apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: policy}
webhooks:
- name: all.example.com
  rules: [{apiGroups: ["*"], apiVersions: ["*"], resources: ["*/*"], operations: ["*"]}]
  ${more}
`;

it.each<[string, string, boolean]>([
  ["fails closed by default", "sideEffects: None", true],
  ["has an empty selector", "namespaceSelector: {}", true],
  ["may fail", "failurePolicy: Ignore", false],
  ["leaves namespaces out", "namespaceSelector: {matchLabels: {a: b}}", false],
  ["has conditions", 'matchConditions: [{name: a, expression: "true"}]', false],
])("lint warns about a webhook for Leases that %s: %s, %j", async (_, more, warns) => {
  module(webhooks(more));
  const { code, text } = await lint();
  expect(code).toBe(0);
  const warning = "ValidatingWebhookConfiguration policy: webhook all.example.com fails closed for Leases";
  expect(text.includes(warning)).toBe(warns);
  expect(text.includes(warning.replace("Leases", "Pods"))).toBe(warns);
});

it("lint warns of integers that the chart prints as floating-point numbers", async () => {
  const data = `data:
  id: "{{ .Values.nginxProxy.id }}"
  flag: --id={{ .Values.nginxProxy.id }}
  exact: "{{ int64 .Values.nginxProxy.id }}"
  small: "{{ .Values.nginxProxy.small }}"
  text: "a 1e+07 b"
`;
  module(`${MAP}${data}`, { "values.yaml": "nginxProxy: {id: 12345678, small: 123456}\n" });
  const { code, text } = await lint();
  const warning = (key: string): string =>
    `warning: ${join(root, "modules/010-nginx-proxy")}: renders ConfigMap x: data.${key} with the number 1.2345678e+07 (print integers of values with the function int64)\n`;
  expect(text).toBe(`${warning("id")}${warning("flag")}`);
  expect(code).toBe(0);
});

it("lint reads a text with a separator of documents behind U+2028 as helm does", async () => {
  module(`${MAP}data:\n  a: |\n    x\u2028---\n    y\n`);
  expect(await lint()).toEqual({ code: 0, text: "" });
});

describe("lint finds", () => {
  const broken: Record<string, [string, Record<string, string>, RegExp]> = {
    "a missing dependency": [
      MAP,
      { "Chart.yaml": ALIASED },
      /cannot be rendered: an error .*missing in charts.*nginx-proxy/,
    ],
    "a template error": [`${MAP}data: {a: {{ .Values.a.b.c }}}\n`, {}, /templates\/x\.yaml.*nil pointer/],
    "an unknown function": [`${MAP}data: {a: {{ nonsense }}}\n`, {}, /function "nonsense" not defined/],
    "a required value": [
      `${MAP}data: {a: {{ required "host is needed" .Values.nginxProxy.host }}}\n`,
      {},
      /host is needed/,
    ],
    "a manifest that is no YAML": ["a: [\n", {}, /YAML parse error/],
    "an object without kind": ["apiVersion: v1\nmetadata: {name: x}\n", {}, /apiVersion or kind is missing/],
    "a definition of the operator itself": [
      "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: addonmodules.addon-operator.io}\n",
      {},
      /addonmodules\.addon-operator\.io: is a definition of the operator itself, which no module may replace/,
    ],
    "an object twice": [`${MAP}---\n${MAP}`, {}, /renders ConfigMap x twice/],
    "an alias that names containers": [
      MAP.replace("x}", "z}"),
      subChart(DEPLOYMENT),
      /container name "nginxProxy" is not valid/,
    ],
    "a name with capitals": [
      MAP.replace("name: x", "name: nginxProxy"),
      {},
      /ConfigMap nginxProxy: its name is not valid/,
    ],
    "a name that YAML reads as a boolean": [
      MAP.replace("name: x", "name: y"),
      {},
      /its name is true, which is no text/,
    ],
    "a label that is no text": [
      MAP.replace("{name: x}", "{name: x, labels: {a: 1}}"),
      {},
      /the value "1" of label a/,
    ],
    "values of a sub-chart at the root": [
      MAP,
      { ...subChart(MAP.replace("x}", "z}")), "values.yaml": "replicas: 3\n" },
      /values\.yaml: replicas: nothing reads it/,
    ],
    "values under a sub-chart's name beside its alias": [
      MAP,
      { ...subChart(MAP.replace("x}", "z}")), "values.yaml": "nginx-proxy: {replicas: 3}\n" },
      /values\.yaml: nginx-proxy: nothing reads it .*alias/,
    ],
  };
  it.each(Object.entries(broken))("%s", async (_, [template, files, finding]) => {
    module(template, files);
    const { code, text } = await lint();
    expect(text).toMatch(finding);
    expect(code).toBe(1);
    expect(text).toContain("010-nginx-proxy");
  });
});

describe("lint finds what makes a module Invalid:", () => {
  const OLD =
    "apiVersion: apiextensions.k8s.io/v1beta1\nkind: CustomResourceDefinition\nmetadata: {name: a.b}\n";
  const NO_CRD =
    /contains an object that is no CustomResourceDefinition of apiextensions\.k8s\.io\/v1 \(move/;
  const broken: Record<string, [Record<string, string>, RegExp]> = {
    "a CRD of an old version": [{ "crds/a.yaml": OLD }, NO_CRD],
    "something else among CRDs": [{ "crds/a.yaml": MAP }, NO_CRD],
    "a CRD that is no YAML": [{ "crds/a.yaml": "a: [\n" }, NO_CRD],
    "a CRD of a public chart's sub-chart": [
      {
        "addon.yaml": "chart: {path: public}\n",
        "public/Chart.yaml": CHART,
        "public/charts/sub/Chart.yaml": CHART.replace("name: x", "name: sub"),
        "public/charts/sub/crds/a.yaml": OLD,
      },
      NO_CRD,
    ],
    "values that the schema does not allow": [
      {
        "openapi/config-values.yaml": "type: object\nproperties: {size: {type: integer}}\n",
        "values.yaml": "nginxProxy: {size: large}\n",
      },
      /values\.yaml.*\/size.*integer/,
    ],
    "a link to nothing in a chart": [
      { "templates/lost.yaml": "→" },
      /templates\/lost\.yaml: is a link to nothing/,
    ],
  };
  it.each(Object.entries(broken))("%s", async (_, [files, finding]) => {
    for (const [path, text] of Object.entries(files))
      if (text === "→") {
        const at = put(`modules/010-nginx-proxy/${path}`, "");
        rmSync(at);
        symlinkSync("nowhere", at);
      } else put(`modules/010-nginx-proxy/${path}`, text);
    if (files["addon.yaml"] === undefined) module(MAP);
    const { code, text } = await lint();
    expect(text.split("\n")).toEqual([expect.stringMatching(finding), ""]);
    expect(code).toBe(1);
  });

  it("among CRDs, which unknown fields are not applied; files that --crd-filters names do not count", async () => {
    module(MAP);
    const text = `apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: a.b}\n`;
    const file = put(
      "modules/010-nginx-proxy/crds/sub/a.yaml",
      `# a\n---\n${text}x-doc-default: 1\nspec: {x-a: 2}\n`,
    );
    put("modules/010-nginx-proxy/crds/sub/doc-ru-a.yaml", "spec: {}\n");
    expect(await lint()).toEqual({
      code: 0,
      text: `warning: ${file}: has fields that no CustomResourceDefinition has, which are not applied: x-a, x-doc-default\n`,
    });
  });

  it("nothing in a sub-chart that is off", async () => {
    const sub = { name: "sub", version: "1.0.0", condition: "sub.enabled" };
    module(MAP);
    put("modules/020-other/addon.yaml", "chart: {path: public}\n");
    put("modules/020-other/public/Chart.yaml", `${CHART}dependencies: ${JSON.stringify([sub])}\n`);
    put("modules/020-other/public/values.yaml", "sub: {enabled: false}\n");
    put("sub/Chart.yaml", CHART.replace("name: x", "name: sub"));
    put("sub/crds/a.yaml", OLD);
    mkdirSync(join(root, "modules/020-other/public/charts"));
    symlinkSync(join(root, "sub"), join(root, "modules/020-other/public/charts/sub"));
    expect(await lint()).toEqual({ code: 0, text: "" });
    put("modules/020-other/values.yaml", "other: {sub: {enabled: true}}\n");
    expect((await lint()).text).toMatch(NO_CRD);
  });
});

describe("lint is content with", () => {
  it("a chart that needs what only the ConfigMap gives, when it is given", async () => {
    module(`${MAP}data: {a: {{ required "needed" .Values.nginxProxy.host }}, b: {{ .Values.global.b }}}\n`);
    const values = put("values.yaml", "global: {b: c}\nnginxProxy: {host: example}\n");
    expect(await lint("--values", values)).toEqual({ code: 0, text: "" });
  });

  it("a chart that needs what a hook supplies only as a note, unless no values could help", async () => {
    const needs = `${MAP}data: {a: "{{ required "no address" .Values.nginxProxy.address }}"}\n`;
    const schema = {
      "openapi/values.yaml": "x-required-for-helm: [address]\nproperties: {address: {type: string}}\n",
    };
    module(needs, schema);
    expect(await lint()).toEqual({
      code: 0,
      text: expect.stringMatching(
        /^note: \S+nginx-proxy: its chart is not checked because .*missing property `address`: set nginxProxy\.address in --values FILE/,
      ),
    });
    expect((await lint("--rbac")).code).toBe(1);
    const values = put("values.yaml", "nginxProxy: {address: a}\n");
    expect(await lint("--values", values)).toEqual({ code: 0, text: "" });
    module(`${needs}{{ end }}\n`, schema);
    expect(await lint()).toMatchObject({ code: 1, text: expect.stringContaining("cannot be rendered") });
    module(`{{ fail "no" }}`, { ...schema, "values.yaml": "nginxProxy: {address: 1}\n" });
    expect(await lint()).toMatchObject({ code: 1, text: expect.stringContaining("cannot be rendered") });
  });

  it("a chart that needs what valuesFrom supplies only as a note, until the values are in the file", async () => {
    const needs = `${MAP}data: {a: "{{ .Values.nginxProxy.auth.password }}"}\n`;
    const source = { kind: "Secret", name: "web-auth", key: "password", path: "/auth/password" };
    module(needs, { "addon.yaml": JSON.stringify({ valuesFrom: [source] }) });
    expect(await lint()).toEqual({
      code: 0,
      text: expect.stringMatching(
        /nginx-proxy: its chart is not checked because valuesFrom supplies values that it may need: Secret web-auth \(\/auth\/password\): set them in --values FILE\n$/,
      ),
    });
    const values = put("values.yaml", "nginxProxy: {auth: {password: a}}\n");
    expect(await lint("--values", values)).toEqual({ code: 0, text: "" });
    put("values.yaml", "nginxProxy: {auth: {password: a}}\n");
    module(`${needs}{{ fail "no" }}`, {
      "addon.yaml": JSON.stringify({ valuesFrom: [{ ...source, path: undefined }] }),
    });
    expect((await lint()).code).toBe(0);
    expect((await lint("--values", values)).code).toBe(1);
  });

  it("defaults of the chart at the root that its templates read, also by another chart's helper", async () => {
    const template = `${MAP}data: {a: "{{ .Values.size }}", b: "{{ include "helper" . }}"}\n`;
    const helper = '{{ define "helper" }}{{ .Values.nameOverride }}{{ end }}';
    module(template, {
      ...subChart(MAP.replace("x}", "z}")),
      "charts/nginx-proxy/templates/_helpers.tpl": helper,
      "values.yaml":
        "size: 3\nnameOverride: n\nnginxProxy: {replicas: 2}\nnginxProxyEnabled: true\nglobal: {}\n",
    });
    expect(await lint()).toEqual({ code: 0, text: "" });
  });

  it("names that only RBAC allows", async () => {
    module(
      "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: 'system:Reader'}\n",
    );
    expect(await lint()).toEqual({ code: 0, text: "" });
  });
});

it("lint warns of what server-side apply rejects, unless the module applies in the client", async () => {
  const pod = (more: string): string =>
    `apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: a, image: x, ${more}}]}\n---\n`;
  const service = `apiVersion: v1\nkind: Service\nmetadata: {name: s}\nspec: {ports: [{name: a, port: 80}, {name: b, port: 80, protocol: TCP}]}\n---\n`;
  const template = pod(
    "env: [{name: A}, {name: A}, {name: B}], ports: [{containerPort: 1}, {containerPort: 1, protocol: UDP}], $patch: replace",
  );
  module(service + template);
  const remedy =
    "which server-side apply rejects (correct the chart, or set helm: {apply: client} in addon.yaml)";
  const { code, text } = await lint();
  expect(code).toBe(0);
  expect(
    text
      .replaceAll(/^warning: \S+: renders /gm, "")
      .trim()
      .split("\n"),
  ).toEqual([
    `Service s: ports has two items 80/TCP, ${remedy}`,
    `Pod p: container a: env has two items A, ${remedy}`,
    `Pod p: contains $patch, ${remedy}`,
  ]);
  module(service + template, { "addon.yaml": "helm: {apply: client}\n" });
  expect(await lint()).toEqual({ code: 0, text: "" });
});

it("lint renders charts for the version of Kubernetes that it is given", async () => {
  const chart = `${CHART}kubeVersion: ">=1.99.0-0"\n`;
  module(`${MAP}data: {minor: "{{ .Capabilities.KubeVersion.Minor }}"}\n`, { "Chart.yaml": chart });
  expect((await lint()).text).toMatch(
    /requires kubeVersion: >=1\.99\.0-0 which is incompatible with Kubernetes (v1\.\S+) \(Helm assumes \1 without a cluster: check the chart with addon-operator lint --kube-version VERSION DIR\)/,
  );
  expect((await lint("--kube-version", "1.98.0")).text).toMatch(
    /incompatible with Kubernetes v1\.98\.0 \(name the version of your cluster in --kube-version, or correct kubeVersion in Chart\.yaml\)/,
  );
  expect(await lint("--kube-version", "1.99.0")).toEqual({ code: 0, text: "" });
});

it("lint says that it renders nothing without helm", async () => {
  module("a: [\n");
  const env = { PATH: "/nowhere", ADDON_OPERATOR_TMP_DIR: join(root, "tmp") };
  const { code, text } = await runOffline("lint", [join(root, "modules")], env);
  expect(text).toBe(
    "warning: helm: charts are not rendered: there is no such helm binary (install helm 3 or 4, or set --helm-bin)\n",
  );
  expect(code).toBe(0);
});

it("lint --rbac includes the right to bind roles that the chart does not contain", async () => {
  const group = "rbac.authorization.k8s.io";
  const binding = (kind: string, name: string): string =>
    `---\napiVersion: ${group}/v1\nkind: RoleBinding\nmetadata: {name: ${name}}\nroleRef: {apiGroup: ${group}, kind: ${kind}, name: ${name}}\n`;
  const own = `---\napiVersion: ${group}/v1\nkind: Role\nmetadata: {name: own}\nrules: []\n`;
  const sum = `---\napiVersion: ${group}/v1\nkind: ClusterRole\nmetadata: {name: sum}\naggregationRule: {}\n`;
  module(`${own}${sum}${binding("Role", "own")}${binding("ClusterRole", "view")}`);
  const { code, text } = await lint("--rbac");
  expect(code).toBe(0);
  const { rules } = parseYaml(text, "stdout").value as { rules: { verbs: string[] }[] };
  expect(rules.filter(({ verbs }) => verbs.includes("bind"))).toEqual([
    { apiGroups: [group], resources: ["clusterroles"], verbs: ["bind"], resourceNames: ["view"] },
  ]);
  expect(rules).toContainEqual({ apiGroups: [group], resources: ["clusterroles"], verbs: ["escalate"] });
});

it("lint --rbac includes the right to watch Secrets and ConfigMaps with values by their names", async () => {
  module(MAP, { "addon.yaml": "valuesFrom: [{kind: Secret, name: a}, {kind: ConfigMap, name: b}]\n" });
  const { rules } = parseYaml((await lint("--rbac")).text, "stdout").value as { rules: unknown };
  const verbs = ["get", "list", "watch"];
  expect(rules).toContainEqual({ apiGroups: [""], resources: ["secrets"], resourceNames: ["a"], verbs });
  expect(rules).toContainEqual({ apiGroups: [""], resources: ["configmaps"], resourceNames: ["b"], verbs });
});

it("lint --rbac includes the right to watch Pods of workloads", async () => {
  const verbs = ["get", "list", "watch"];
  const rulesFor = async (template: string): Promise<unknown> => {
    module(template);
    return (parseYaml((await lint("--rbac")).text, "stdout").value as { rules: unknown }).rules;
  };
  expect(await rulesFor(DEPLOYMENT)).toContainEqual({ apiGroups: [""], resources: ["pods"], verbs });
  expect(await rulesFor(MAP)).not.toContainEqual({ apiGroups: [""], resources: ["pods"], verbs });
});

it("lint --rbac takes groups and plurals from CRDs of sub-charts, and includes the right to create them", async () => {
  const names = "spec: {group: example.org, names: {kind: Goose, plural: geese}}";
  module("apiVersion: example.org/v1\nkind: Goose\nmetadata: {name: one}\n", {
    ...subChart(MAP),
    "charts/nginx-proxy/crds/geese.yaml": `apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: geese.example.org}\n${names}\n`,
  });
  const { code, text } = await lint("--rbac");
  expect(code).toBe(0);
  const { rules } = parseYaml(text, "stdout").value as { rules: { resources: string[] }[] };
  expect(rules.flatMap(({ resources }) => resources)).toEqual([
    "configmaps",
    "customresourcedefinitions",
    "geese",
  ]);
});

describe("lint of a chart that reads global.enabledModules", () => {
  const READS = `${MAP}data: {on: {{ required "a list" .Values.global.enabledModules | join "," | quote }}}\n`;
  const REMEDY = "set --chart-enabled-modules here and for the operator";

  it("warns where charts do not get it, and renders with it where they do", async () => {
    module(READS);
    const { code, text } = await lint();
    expect(code).toBe(1);
    expect(text).toContain("cannot be rendered");
    expect(text).toContain(
      `warning: ${join(root, "modules/010-nginx-proxy")}: its chart reads global.enabledModules, which charts do not get (${REMEDY})`,
    );
    expect(await lint("--chart-enabled-modules")).toEqual({ code: 0, text: "" });
  });

  it("warns of a library that reads it, and of no comment", async () => {
    module(`${MAP}{{- /* enabledModules */}}\n# enabledModules\n`);
    expect(await lint()).toEqual({ code: 0, text: "" });
    const helpers =
      '{{- define "on" }}{{ has "vpa" (.Values.global.enabledModules | default list) }}{{ end }}\n';
    put("lib/Chart.yaml", "apiVersion: v2\nname: lib\nversion: 1.0.0\ntype: library\n");
    put("lib/templates/_helpers.tpl", helpers);
    const file = join(root, "modules/010-nginx-proxy/charts/lib-1.0.0.tgz");
    mkdirSync(dirname(file));
    create({ gzip: true, sync: true, file, cwd: root, portable: true }, ["lib"]);
    module(`${MAP}data: {vpa: {{ include "on" . | quote }}}\n`, {
      "Chart.yaml": `${CHART}dependencies: [{name: lib, version: 1.0.0}]\n`,
    });
    expect(await lint()).toMatchObject({
      code: 0,
      text: expect.stringMatching(/^warning: .*enabledModules/),
    });
  });
});

describe("lint of a chart that addon.yaml names", () => {
  const place = (values: string): void => {
    put("modules/010-web-app/addon.yaml", "chart: {path: public}\n");
    put("modules/010-web-app/values.yaml", values);
    put("modules/010-web-app/public/Chart.yaml", CHART);
    put("modules/010-web-app/public/values.yaml", "name: web\n");
    put("modules/010-web-app/public/templates/x.yaml", MAP.replace("x}", "{{ required `x` .Values.name }}}"));
  };

  it("renders it with the section as root values", async () => {
    place("webApp: {name: other}\n");
    expect(await lint()).toEqual({ code: 0, text: "" });
    place("webApp: {name: null}\n");
    expect((await lint()).text).toContain("cannot be rendered: execution error");
  });

  it("a key beside section and flag is read by nobody", async () => {
    place("webApp: {}\nwebAppEnabled: true\nname: other\n");
    const { code, text } = await lint();
    expect([code, text]).toEqual([1, expect.stringContaining("values.yaml: name: nothing reads it")]);
  });

  it("reports a section that is a list", async () => {
    place("webApp: [1]\n");
    const { code, text } = await lint();
    expect([code, text]).toEqual([
      1,
      expect.stringMatching(/values\.yaml: webApp: is a list \(the values of its chart are a map\)/),
    ]);
  });

  it("finds what is wrong with addon.yaml", async () => {
    place("webApp: {}\n");
    put("modules/010-web-app/addon.yaml", "chart: {path: public, root: true}\n");
    const { code, text } = await lint();
    expect([code, text]).toEqual([
      1,
      expect.stringContaining("addon.yaml: chart.root: is no key of addon.yaml"),
    ]);
  });
});

it("lint reports a release record larger than a Secret, until the CRDs are moved out of the chart", async () => {
  // What is random does not become smaller when it is packed.
  const data = `data: {x: ${randomBytes(600_000).toString("base64")}}\n`;
  module(MAP + data);
  expect((await lint()).text).toContain(
    "(list files that no template reads in .helmignore, or split the chart)",
  );
  const large = data.replace("data: ", "annotations: ").trim();
  const crd = `apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: x, ${large}}\n`;
  module(crd);
  const { code, text } = await lint();
  expect([code, text]).toEqual([
    1,
    expect.stringMatching(
      /helm's release record would have 1\.\d MiB, but a Secret has a limit of 1 MiB \(move large CRDs/,
    ),
  ]);
  put("modules/010-nginx-proxy/.helmignore", "/crds/\n");
  put("modules/010-nginx-proxy/crds/x.yaml", crd);
  put("modules/010-nginx-proxy/templates/x.yaml", MAP);
  expect(await lint()).toEqual({ code: 0, text: "" });
});

it("lint of one module reads no other, but knows their names", async () => {
  module(MAP);
  put("modules/020-other/addon.yaml", "chart: {path: none}\n");
  put("modules/030-nginx-proxy-enabled/templates/x.yaml", MAP);
  const env = { PATH: process.env["PATH"], ADDON_OPERATOR_TMP_DIR: join(root, "tmp") };
  const one = (name: string) =>
    runOffline("lint", ["--helm-bin", tools().helm, join(root, "modules", name)], env);
  expect(await one("010-nginx-proxy")).toEqual({ code: 0, text: "" });
  const { code, text } = await one("030-nginx-proxy-enabled");
  expect([code, text]).toEqual([1, expect.stringContaining('is a flag of module "nginx-proxy"')]);
});

it("lint --rbac --role prints account, roles and bindings of a module with an account, by namespace", async () => {
  put("modules/values.yaml", "");
  put("modules/010-x/Chart.yaml", CHART);
  const required = "[{apiVersion: v1, kind: Secret, namespace: team-b, name: ca}]";
  put("modules/010-x/addon.yaml", `serviceAccountName: team-a/deployer\nrequires: {objects: ${required}}\n`);
  const elsewhere = "apiVersion: v1\nkind: Service\nmetadata: {name: x, namespace: team-b}\n";
  const wide = "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: x}\n";
  put("modules/010-x/templates/all.yaml", [MAP, elsewhere, wide].join("---\n"));
  const { code, text } = await lint("--rbac", "--role");
  expect(code).toBe(0);
  type Printed = {
    kind: string;
    metadata: { name: string; namespace?: string };
    rules?: { resources: string[] }[];
  };
  const objects = text
    .split(/^---\n/m)
    .filter(Boolean)
    .map((each) => parseYaml(each, "stdout").value as unknown as Printed);
  const all = objects.map(({ kind, metadata: { name, namespace = "" }, rules = [] }) =>
    [kind, namespace, name, ...rules.flatMap(({ resources }) => resources)].join(" ").trim(),
  );
  expect(all).toEqual([
    "ServiceAccount team-a deployer",
    "Role team-b x-deployer services secrets",
    "RoleBinding team-b x-deployer",
    "Role addon-operator x-deployer configmaps secrets",
    "RoleBinding addon-operator x-deployer",
    "ClusterRole  team-a-x-deployer priorityclasses",
    "ClusterRoleBinding  team-a-x-deployer",
  ]);
  // The operator itself only reads the objects.
  const own = (parseYaml((await lint("--rbac")).text, "stdout").value as { rules: { verbs: string[] }[] })
    .rules;
  expect(
    own.flatMap(({ verbs }) => verbs).filter((verb) => !["get", "list", "watch"].includes(verb)),
  ).toEqual([]);
});

it("lint --rbac --role prints what roles in a chart grant and what webhooks of hooks need", async () => {
  put("modules/values.yaml", "");
  put("modules/010-x/Chart.yaml", CHART);
  put("modules/010-x/addon.yaml", "namespace: team-a\nserviceAccountName: deployer\n");
  const role = (kind: string, rules: string) =>
    `apiVersion: rbac.authorization.k8s.io/v1\nkind: ${kind}\nmetadata: {name: x}\n${rules}\n`;
  put(
    "modules/010-x/templates/roles.yaml",
    [
      role("Role", 'rules: [{apiGroups: [""], resources: [pods], verbs: [get]}]'),
      role("RoleBinding", "roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}"),
    ].join("---\n"),
  );
  const hook = put(
    "modules/010-x/hooks/hook.sh",
    `#!/bin/sh
echo '{configVersion: v1, kubernetesMutating: [{name: a.example.com, rules: [{apiGroups: [""], apiVersions: ["*"],
  resources: [services/status], operations: [UPDATE]}], namespace: {labelSelector: {matchLabels: {kubernetes.io/metadata.name: team-b}}}}]}'
`,
  );
  chmodSync(hook, 0o755);
  const { code, text } = await lint("--rbac", "--role");
  expect(code).toBe(0);
  const roles = text
    .split(/^---\n/m)
    .filter(Boolean)
    .map((each) => parseYaml(each, "stdout").value as { kind: string; rules?: unknown[]; metadata: object })
    .filter(({ kind }) => kind === "Role");
  const inNamespace = (namespace: string) =>
    roles.find(({ metadata }) => "namespace" in metadata && metadata.namespace === namespace)?.rules;
  expect(inNamespace("team-a")).toContainEqual({ apiGroups: [""], resources: ["pods"], verbs: ["get"] });
  expect(inNamespace("team-a")).toContainEqual({
    apiGroups: ["rbac.authorization.k8s.io"],
    resources: ["clusterroles"],
    verbs: ["bind"],
    resourceNames: ["view"],
  });
  expect(inNamespace("team-b")).toEqual([
    { apiGroups: [""], resources: ["services/status"], verbs: ["list", "update", "watch"] },
  ]);
});

it("lint --rbac names charts that cannot be rendered in a comment, and ends with 1", async () => {
  module(`${MAP}data: {a: {{ nonsense }}}\n`);
  const { code, text } = await lint("--rbac");
  expect(code).toBe(1);
  expect(text).toMatch(/^# not covered: .*010-nginx-proxy.*"nonsense" not defined/m);
  expect(parseYaml(text, "stdout").value).toHaveProperty("rules");
});
