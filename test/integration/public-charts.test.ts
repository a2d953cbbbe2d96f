// Run with helm 3 as well.
// Runs at night: compatibility.
import { randomBytes } from "node:crypto";
import { expect, onTestFinished, test } from "vitest";

import { cluster, deleteNamespace, eventually, freshNamespace } from "../support/cluster.ts";
import { hookLab } from "../support/hook-files.ts";
import type { Lab } from "../support/hook-files.ts";
import { startOperator } from "../support/operator.ts";

// docs/reference/modules.md, "Content of public charts".

const { kubectl, json, apply } = cluster();

interface Data {
  readonly data: Readonly<Record<string, string>>;
}

const configMap = (name: string, data: string, more = ""): string =>
  `apiVersion: v1\nkind: ConfigMap\nmetadata: {name: ${name}${more}}\ndata: {${data}}\n`;

/** A chart as others publish them. */
const WEB = {
  "Chart.yaml": `apiVersion: v2
name: public-chart
version: 1.0.0
dependencies: [{name: sub-part, version: 1.0.0}]
`,
  "values.yaml": "my-key: {sub-key: a}\nsub-part: {size: 1}\n",
  "templates/map.yaml": configMap(
    "{{ .Release.Name }}-{{ .Chart.Name }}",
    `mine: {{ index .Values "my-key" "sub-key" }}`,
  ),
  "templates/ca.yaml": `{{ $ca := genCA "ca" 365 }}
apiVersion: v1
kind: Secret
metadata: {name: {{ .Release.Name }}-ca}
data: {crt: {{ $ca.Cert | b64enc }}}
`,
  "templates/never.yaml": `apiVersion: apps/v1
kind: Deployment
metadata: {name: {{ .Release.Name }}-never}
spec:
  selector: {matchLabels: {a: b}}
  template:
    metadata: {labels: {a: b}}
    spec: {containers: [{name: a, image: never}]}
`,
  "templates/hook.yaml": configMap(
    "{{ .Release.Name }}-hook",
    `revision: "{{ .Release.Revision }}"`,
    `, annotations: {helm.sh/hook: "post-install,post-upgrade"}`,
  ),
  "charts/sub-part/Chart.yaml": "apiVersion: v2\nname: sub-part\nversion: 1.0.0\n",
  "charts/sub-part/templates/map.yaml": configMap(
    "{{ .Release.Name }}-sub",
    `size: "{{ .Values.size }}", zone: {{ .Values.global.zone }}`,
  ),
};

/** A chart that looks at the cluster. */
const database = (group: string): Record<string, string> => ({
  "Chart.yaml": "apiVersion: v2\nname: database\nversion: 1.0.0\n",
  "values.yaml": "size: 1\n",
  "templates/password.yaml": `{{ $old := lookup "v1" "Secret" .Release.Namespace "db-password" }}
apiVersion: v1
kind: Secret
metadata: {name: db-password, labels: {size: "{{ .Values.size }}"}}
data: {password: {{ if $old }}{{ $old.data.password }}{{ else }}{{ randAlphaNum 20 | b64enc }}{{ end }}}
`,
  "templates/late.yaml": `{{ if .Capabilities.APIVersions.Has "${group}/v1/Thing" }}
${configMap("db-late", "a: b")}{{ end }}`,
});

const crd = (group: string, description = ""): string => `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.${group}}
spec:
  group: ${group}
  scope: Namespaced
  names: {plural: things, singular: thing, kind: Thing}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, description: "${description}"}}}]
`;

function put(lab: Lab, dir: string, files: Readonly<Record<string, string>>): void {
  for (const [path, text] of Object.entries(files)) lab.file(`${dir}/${path}`, text);
}

/** Waits until a module is Ready. */
function readyIn(namespace: string, name: string): Promise<string> {
  const wait = ["wait", "-n", namespace, `addonmodule/${name}`, "--for=condition=Ready", "--timeout=1s"];
  return eventually(() => cluster().kubectl(wait), `${name} is Ready`, { timeoutMs: 60_000 });
}

test("a chart's names, dashes, globals, hooks, certificates and lookups", { timeout: 180_000 }, async () => {
  const namespace = await freshNamespace("public-charts");
  const group = `${namespace}.test`;
  const lab = hookLab("public-charts");
  lab.file("modules/values.yaml", "global: {zone: eu}\nwebAppEnabled: true\ndbEnabled: true\n");
  put(lab, "modules/010-web-app", { "addon.yaml": "chart: {path: chart}\n" });
  put(lab, "modules/010-web-app/chart", WEB);
  put(lab, "modules/020-db", { "addon.yaml": "chart: {path: chart}\n" });
  put(lab, "modules/020-db/chart", database(group));
  const operator = await startOperator({ namespace, modulesDir: lab.modulesDir });
  const data = async (name: string, kind = "configmap"): Promise<Data["data"]> =>
    (await json<Data>(["get", kind, name, "-n", namespace])).data;
  const ready = (name: string): Promise<string> => readyIn(namespace, name);
  const configure = (sections: Readonly<Record<string, string>>): Promise<void> =>
    apply({
      apiVersion: "v1",
      kind: "ConfigMap",
      metadata: { name: "addon-operator", namespace },
      data: sections,
    });
  const converge = async (token: string): Promise<void> => {
    const annotation = `reconcile.addon-operator.io/requestedAt=${token}`;
    await kubectl(["annotate", "--overwrite", "addonoperator", "--all", "-n", namespace, annotation]);
    const column = "jsonpath={.items[0].status.lastHandledReconcileAt}";
    await eventually(
      async () => expect(await kubectl(["get", "addonoperator", "-n", namespace, "-o", column])).toBe(token),
      "the reload has begun",
    );
  };

  await operator.waitReady();
  // Ready does not wait for the Pods of a Deployment that never comes up.
  await ready("web-app");
  await ready("db");
  const { status } = await json<{ status: { availableReplicas?: number } }>([
    "get",
    "deployment",
    "web-app-never",
    "-n",
    namespace,
  ]);
  expect(status.availableReplicas).toBeUndefined();
  expect(await data("web-app-public-chart")).toEqual({ mine: "a" });
  expect(await data("web-app-sub")).toEqual({ size: "1", zone: "eu" });
  expect(await data("web-app-hook")).toEqual({ revision: "1" });
  const { crt } = await data("web-app-ca", "secret");
  const { password } = await data("db-password", "secret");

  // Equal inputs: neither certificate nor password is made anew. A new kind of the server is another input.
  lab.file("crd.yaml", crd(group));
  await kubectl(["apply", "-f", `${lab.dir}/crd.yaml`]);
  await kubectl(["wait", `crd/things.${group}`, "--for=condition=Established", "--timeout=120s"]);
  // The server reports of a kind a moment after it is Established.
  const kinds = ["api-resources", "--cached=false", `--api-group=${group}`, "-o", "name"];
  await eventually(async () => expect(await kubectl(kinds)).toContain("things"), "the kind is told of");
  await converge("one");
  // The last module of the converge: the token comes back when it begins.
  await eventually(async () => expect(await data("db-late")).toEqual({ a: "b" }), "the kind is an input");
  expect(await data("web-app-ca", "secret")).toEqual({ crt });
  expect(await data("web-app-hook")).toEqual({ revision: "1" });
  expect(await data("db-password", "secret")).toEqual({ password });

  // Keys with dashes stand below the section as they are. Other inputs make another certificate; `lookup` keeps.
  await configure({
    webApp: "my-key: {sub-key: b}\nsub-part: {size: 2}\nglobal: {zone: us}\n",
    db: "size: 2\n",
  });
  await eventually(async () => {
    expect(await data("web-app-public-chart")).toEqual({ mine: "b" });
    expect(await data("web-app-sub")).toEqual({ size: "2", zone: "us" });
    expect(await data("web-app-hook")).toEqual({ revision: "2" });
    const label = "jsonpath={.metadata.labels.size}";
    expect(await kubectl(["get", "secret", "db-password", "-n", namespace, "-o", label])).toBe("2");
  }, "the sections are in force");
  expect((await data("web-app-ca", "secret"))["crt"]).not.toBe(crt);
  expect(await data("db-password", "secret")).toEqual({ password });
  await operator.stop();
});

test(
  "a chart that needs what is not there yet gets it from another module, its retry, or by hand",
  { timeout: 180_000 },
  async () => {
    const namespace = await freshNamespace("needing-charts");
    const group = `${namespace}.test`;
    const elsewhere = `${namespace}-elsewhere`;
    onTestFinished(() => deleteNamespace(elsewhere));
    const lab = hookLab("needing-charts");
    lab.file(
      "modules/values.yaml",
      "webEnabled: true\nawayEnabled: true\nkindsEnabled: true\nuserEnabled: true\n",
    );
    const thing = (name: string): string =>
      `apiVersion: ${group}/v1\nkind: Thing\nmetadata: {name: ${name}}\n`;
    // Its kinds come with a sub-chart that is off at first.
    put(lab, "modules/010-web/chart", {
      "Chart.yaml":
        "apiVersion: v2\nname: web\nversion: 1.0.0\ndependencies: [{name: kinds, version: 1.0.0, condition: kinds.enabled}]\n",
      "values.yaml": "kinds: {enabled: false}\n",
      "templates/map.yaml": configMap("web", "a: b"),
      "charts/kinds/Chart.yaml": "apiVersion: v2\nname: kinds\nversion: 1.0.0\n",
      "charts/kinds/crds/crd.yaml": crd(`sub.${group}`),
      "charts/kinds/templates/thing.yaml": thing("sub").replace(group, `sub.${group}`),
    });
    put(lab, "modules/020-away/chart", {
      "Chart.yaml": "apiVersion: v2\nname: away\nversion: 1.0.0\n",
      "templates/map.yaml": configMap("away", "a: b", `, namespace: ${elsewhere}`),
    });
    // The chart that brings a kind in its templates stands before the one that uses it.
    put(lab, "modules/030-user/chart", {
      "Chart.yaml": "apiVersion: v2\nname: user\nversion: 1.0.0\n",
      "templates/thing.yaml": thing("user"),
    });
    put(lab, "modules/025-kinds/chart", {
      "Chart.yaml": "apiVersion: v2\nname: kinds\nversion: 1.0.0\n",
      "templates/crd.yaml": crd(group),
    });
    for (const name of ["010-web", "020-away", "025-kinds", "030-user"])
      lab.file(`modules/${name}/addon.yaml`, "chart: {path: chart}\n");
    const operator = await startOperator({ namespace, modulesDir: lab.modulesDir });
    const ready = (name: string): Promise<string> => readyIn(namespace, name);
    const says = (name: string, text: string): Promise<void> =>
      eventually(
        async () =>
          expect(await kubectl(["get", "addonmodule", name, "-n", namespace, "-o", "json"])).toContain(text),
        `${name} says ${text}`,
      );

    await says("away", "not found");
    await kubectl(["create", "namespace", elsewhere]);
    await ready("away");
    await ready("user");
    await ready("web");

    await apply({
      apiVersion: "v1",
      kind: "ConfigMap",
      metadata: { name: "addon-operator", namespace },
      data: { web: "kinds: {enabled: true}\n" },
    });
    // Helm fails, as the kind is not there; the retry applies the CRDs of the module again.
    await eventually(
      () => expect(operator.log()).toMatch(/Module run failed.*module=web.*no matches for kind/),
      "web lacks a kind",
    );
    await eventually(
      () => kubectl(["get", `things.sub.${group}`, "sub", "-n", namespace]),
      "the sub-chart's object is there",
    );
    await ready("web");
    await kubectl(["delete", "crd", `things.${group}`, `things.sub.${group}`, "--wait=false"]);
  },
);

test(
  "CRDs that are too large for a release are reported, and come from the module's crds",
  { timeout: 240_000 },
  async () => {
    const namespace = await freshNamespace("large-crds");
    const group = `${namespace}.test`;
    const lab = hookLab("large-crds");
    lab.file("modules/values.yaml", "largeEnabled: true\n");
    lab.file("modules/010-large/addon.yaml", "chart: {path: chart}\n");
    lab.file("modules/010-large/chart/Chart.yaml", "apiVersion: v2\nname: large\nversion: 1.0.0\n");
    // What is random does not become smaller when it is packed.
    const large = crd(group, randomBytes(500_000).toString("base64"));
    lab.file("modules/010-large/chart/templates/crd.yaml", large);
    lab.file("modules/010-large/chart/templates/map.yaml", configMap("large", "a: b"));
    const operator = await startOperator({ namespace, modulesDir: lab.modulesDir });
    await eventually(
      async () =>
        expect(await kubectl(["get", "addonmodule", "large", "-n", namespace, "-o", "json"])).toMatch(
          /Too long|may not be more than|too large/i,
        ),
      "the module says what is wrong",
    );
    lab.file("modules/010-large/crds/crd.yaml", large);
    lab.file("modules/010-large/chart/templates/crd.yaml", "");
    await kubectl([
      "annotate",
      "addonoperator",
      "--all",
      "-n",
      namespace,
      "reconcile.addon-operator.io/requestedAt=now",
    ]);
    await kubectl(["wait", "-n", namespace, "addonmodule/large", "--for=condition=Ready", "--timeout=120s"]);
    expect(await kubectl(["get", "crd", `things.${group}`, "-o", "name"])).toContain(`things.${group}`);
    await kubectl(["delete", "crd", `things.${group}`, "--wait=false"]);
    await operator.stop();
  },
);
