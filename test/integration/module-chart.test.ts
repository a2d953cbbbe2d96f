// Run with helm 3 as well.
// Runs at night: compatibility.
import { mkdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { create } from "tar";
import { expect, test } from "vitest";

import { cluster, eventually, freshNamespace } from "../support/cluster.ts";
import { hookLab } from "../support/hook-files.ts";
import type { Lab } from "../support/hook-files.ts";
import { startOperator } from "../support/operator.ts";

// docs/reference/addon-yaml.md: a public chart as it is.

const { kubectl, json } = cluster();

const crd = (plural: string, group: string): string => `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: ${plural}.${group}}
spec:
  group: ${group}
  scope: Namespaced
  names: {plural: ${plural}, singular: ${plural.slice(0, -1)}, kind: ${plural}}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]
`;

/** A chart as others publish them: its name has a dash, values stand at the root, a strict schema, a sub-chart. */
function publicChart(lab: Lab, { group, version, at }: { group: string; version: string; at: string }): void {
  const files: Record<string, string> = {
    "Chart.yaml": `apiVersion: v2
name: public-web
version: ${version}
dependencies: [{name: extras, version: 1.0.0, condition: extras.enabled}]
`,
    "values.yaml": "replicas: 1\ngreeting: hello\nextras: {enabled: true}\nglobal: {zone: none}\n",
    "values.schema.json": JSON.stringify({
      additionalProperties: false,
      properties: { replicas: { type: "integer" }, greeting: {}, extras: {}, global: {} },
    }),
    "crds/a.yaml": crd("webs", group),
    "templates/map.yaml": `apiVersion: v1
kind: ConfigMap
metadata: {name: {{ .Release.Name }}-{{ .Chart.Name }}}
data: {replicas: "{{ .Values.replicas }}", greeting: "{{ .Values.greeting }}", zone: "{{ .Values.global.zone }}", version: {{ .Chart.Version }}}
`,
    "charts/extras/Chart.yaml": "apiVersion: v2\nname: extras\nversion: 1.0.0\n",
    "charts/extras/crds/b.yaml": crd("extras", group),
    "charts/extras/templates/map.yaml": `apiVersion: v1
kind: ConfigMap
metadata: {name: {{ .Release.Name }}-extras}
data: {zone: "{{ .Values.global.zone }}"}
`,
  };
  for (const [path, text] of Object.entries(files)) lab.file(`${at}/${path}`, text);
}

interface ConfigMap {
  readonly data: Readonly<Record<string, string>>;
}

test(
  "a public chart with a dash in its name runs as it is, packed or not",
  { timeout: 240_000 },
  async () => {
    const namespace = await freshNamespace("public-chart");
    const group = `${namespace}.test`;
    const lab = hookLab("public-chart");
    lab.file("modules/values.yaml", "global: {zone: eu}\n");
    lab.file("modules/010-web-app/values.yaml", "webAppEnabled: true\nwebApp: {replicas: 2}\n");
    lab.file("modules/010-web-app/addon.yaml", "chart: {path: web.tgz, values: root}\n");
    const pack = (): void => {
      const file = join(lab.modulesDir, "010-web-app/web.tgz");
      create({ gzip: true, sync: true, file, cwd: join(lab.dir, "src") }, ["public-web"]);
    };
    publicChart(lab, { group, version: "1.0.0", at: "src/public-web" });
    pack();
    lab.file("modules/020-broken/addon.yaml", "chart: {path: web, valeus: root}\n");
    lab.file("modules/020-broken/values.yaml", "brokenEnabled: true\n");
    publicChart(lab, { group: `off.${group}`, version: "1.0.0", at: "modules/030-plain-web/vendor" });
    lab.file("modules/030-plain-web/addon.yaml", "chart: {path: vendor}\n");
    lab.file(
      "modules/030-plain-web/values.yaml",
      "plainWebEnabled: true\nplainWeb: {extras: {enabled: false}}\n",
    );
    const tmp = join(lab.dir, "tmp");
    mkdirSync(tmp);
    const operator = await startOperator({
      namespace,
      modulesDir: lab.modulesDir,
      args: [`--tmp-dir=${tmp}`],
    });
    const data = async (name: string): Promise<ConfigMap["data"]> =>
      (await json<ConfigMap>(["get", "configmap", name, "-n", namespace])).data;
    const ready = (name: string): Promise<string> =>
      kubectl(["wait", "-n", namespace, `addonmodule/${name}`, "--for=condition=Ready", "--timeout=120s"]);

    await operator.waitReady();
    await ready("web-app");
    expect(await data("web-app-public-web")).toEqual({
      replicas: "2",
      greeting: "hello",
      zone: "eu",
      version: "1.0.0",
    });
    expect(await data("web-app-extras")).toEqual({ zone: "eu" });
    await ready("plain-web");
    const crds = await kubectl([
      "get",
      "crds",
      "-o",
      "name",
      `webs.${group}`,
      `extras.${group}`,
      `webs.off.${group}`,
    ]);
    expect(crds.trim().split("\n")).toHaveLength(3);
    await expect(kubectl(["get", "crd", `extras.off.${group}`])).rejects.toThrow("not found");
    // Read from helm's record, which is looked at after the run.
    await eventually(async () => {
      const { status } = await json<{ status: object }>(["get", "addonmodule", "web-app", "-n", namespace]);
      expect(status).toMatchObject({ release: { chartVersion: "1.0.0" } });
    }, "the chart's version is told");
    const broken = await json<{ status: object }>(["get", "addonmodule", "broken", "-n", namespace]);
    expect(JSON.stringify(broken.status)).toContain("chart.valeus: is no key of addon.yaml");

    // The ConfigMap's section is the chart's root values, too.
    const patchSection = (key: string, text: string): Promise<string> => {
      const patch = JSON.stringify({ data: { [key]: text } });
      return kubectl(["patch", "configmap", "addon-operator", "-n", namespace, "--type=merge", "-p", patch]);
    };
    await patchSection("webApp", "greeting: hi\nglobal: {zone: us}\n");
    await eventually(
      async () => expect(await data("web-app-public-web")).toMatchObject({ greeting: "hi", zone: "us" }),
      "the chart has its values",
    );

    // A chart is exchanged beside the operator, and the old one removed: nothing fails, a person learns what to do.
    publicChart(lab, { group: `off.${group}`, version: "3.0.0", at: "src/next" });
    const wanted = ["plain-web", "--yes", "--chart", join(lab.dir, "src/next")];
    const taken = await operator.cli(["upgrade-chart", ...wanted, `--modules-dir=${lab.modulesDir}`]);
    expect(taken.stdout).toContain("request a converge");
    rmSync(join(lab.modulesDir, "030-plain-web/vendor"), { recursive: true });
    const rendered = await operator.cli(["module", "render", "plain-web"]);
    expect(rendered.stdout + rendered.stderr).toMatch(/vendor: the chart in force is missing.*converge with/);
    await patchSection("plainWeb", "greeting: hi\nextras: {enabled: false}\n");
    await eventually(
      async () =>
        expect(await data("plain-web-public-web")).toMatchObject({ greeting: "hi", version: "3.0.0" }),
      "an edit takes the chart that lies there now",
    );

    // Another archive is taken up by the next converge, its CRDs with it.
    rmSync(join(lab.dir, "src"), { recursive: true });
    publicChart(lab, { group, version: "2.0.0", at: "src/public-web" });
    lab.file(
      "src/public-web/crds/a.yaml",
      crd("webs", group).replace(
        "served: true,",
        "served: true, additionalPrinterColumns: [{name: x, type: string, jsonPath: .x}],",
      ),
    );
    pack();
    const token = "reconcile.addon-operator.io/requestedAt=now";
    await kubectl(["annotate", "addonoperator", "--all", "-n", namespace, token]);
    await eventually(async () => {
      const { status: now } = await json<{ status: object }>([
        "get",
        "addonmodule",
        "web-app",
        "-n",
        namespace,
      ]);
      expect(now).toMatchObject({ release: { chartVersion: "2.0.0" } });
    }, "the new archive is in force");
    const column = `jsonpath={.spec.versions[0].additionalPrinterColumns[0].name}`;
    expect(await kubectl(["get", "crd", `webs.${group}`, "-o", column])).toBe("x");
    await operator.stop();
  },
);
