import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { create } from "tar";
import { beforeEach, expect, it, onTestFinished } from "vitest";

import { tools } from "../../../scripts/setup/tools.mjs";
import { runOffline } from "../../support/command-line.ts";

// docs/reference/modules.md, "The directories": what else modules for Deckhouse hold.

let root: string;
let dir: string;

beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "deckhouse-"));
  dir = join(root, "modules/300-web-proxy");
  onTestFinished(() => rmSync(root, { recursive: true, force: true }));
  for (const [path, text] of Object.entries(MODULE)) put(path, text);
  put("hooks/web-hooks/on-start", "#!/bin/sh\necho 'configVersion: v1\nonStartup: 1'\n", 0o755);
  put("enabled", "#!/bin/sh\nexit 1\n", 0o755);
  // Nothing of this is a hook, whatever its rights.
  for (const path of ["images/web/start.sh", "webhooks/check.sh", "hooks/lib/common.sh"])
    put(path, "#!/bin/sh\nexit 1\n", 0o755);
  put("../../lib/Chart.yaml", "apiVersion: v2\nname: lib\nversion: 1.2.3\ntype: library\n");
  const helper = `{{- define "lib_rules" -}}{{ required "no rules" (.Files.Get "monitoring/rules/web.yaml") | trim }}{{- end }}\n`;
  put("../../lib/templates/_monitoring.tpl", helper);
  mkdirSync(join(dir, "charts"));
  const file = join(dir, "charts/lib-1.2.3.tgz");
  create({ gzip: true, sync: true, file, cwd: root, portable: true }, ["lib"]);
});

function put(path: string, text: string, mode = 0o644): void {
  const file = join(dir, path);
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, text);
  chmodSync(file, mode);
}

const crd = (kind: string): string => `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: ${kind.toLowerCase()}s.example.org}
spec:
  group: example.org
  scope: Namespaced
  names: {kind: ${kind}, plural: ${kind.toLowerCase()}s}
  versions:
    - name: v1
      served: true
      storage: true
      schema: {openAPIV3Schema: {type: object}}
`;

const MODULE: Readonly<Record<string, string>> = {
  "Chart.yaml": "name: web-proxy\nversion: 0.0.1\ndependencies:\n- name: lib\n  version: '*'\n",
  "module.yaml":
    "name: web-proxy\nweight: 300\nnamespace: d8-web-proxy\nrequirements: {deckhouse: '>= 1.61'}\nsubsystems: [web]\n",
  ".helmignore":
    "crds\ndocs\nenabled\nhooks\nimages\nlib\nMakefile\nopenapi\n*.md\nrelease.yaml\nwerf*.yaml\n.*\nmodule.yaml\n",
  ".namespace": "d8-web-proxy\n",
  "oss.yaml": "- name: proxy\n  link: https://example.org\n",
  "werf.yaml": "project: web-proxy\n---\n{{ broken\n",
  Makefile: "all:\n",
  "changelog.yaml": "features: []\n",
  "docs/README.md": "# Web proxy\n",
  "images/web/Dockerfile": "FROM scratch\n",
  "lib/go/common/a.go": "package common\n",
  "hooks/batch/go.mod": "module hooks\n",
  "hooks/batch/main.go": "package main\n",
  "hooks/batch/sub/hook.go": "package sub\n",
  "monitoring/rules/web.yaml": "- name: web\n",
  "openapi/config-values.yaml": "type: object\nproperties: {replicas: {type: integer, default: 1}}\n",
  "openapi/doc-ru-config-values.yaml": "properties: {replicas: {description: [}}\n",
  "openapi/values.yaml": "x-extend: {schema: config-values.yaml}\ntype: object\n",
  "crds/web.yaml": crd("Web"),
  "crds/doc-ru-web.yaml": "spec: {versions: [{name: v1, schema: {}}]}\n",
  "templates/map.yaml": `apiVersion: v1
kind: ConfigMap
metadata: {name: rules, namespace: d8-web-proxy}
data:
  rules: {{ include "lib_rules" . | quote }}
  replicas: {{ .Values.webProxy.replicas | quote }}
`,
};

function lint(...args: string[]): Promise<{ code: number; text: string }> {
  const env = { PATH: process.env["PATH"], ADDON_OPERATOR_TMP_DIR: join(root, "tmp") };
  return runOffline("lint", ["--helm-bin", tools().helm, ...args, join(root, "modules")], env);
}

it("a module for Deckhouse is taken as it is, with its packed library and its files", async () => {
  expect(await lint()).toEqual({ code: 0, text: "" });
  rmSync(join(dir, "monitoring"), { recursive: true });
  expect((await lint()).text).toContain("no rules");
});

it("so is one without Chart.yaml, whose templates make the chart", async () => {
  rmSync(join(dir, "Chart.yaml"));
  rmSync(join(dir, "charts"), { recursive: true });
  put(
    "templates/_monitoring.tpl",
    '{{- define "lib_rules" }}{{ .Files.Get "monitoring/rules/web.yaml" }}{{ end }}\n',
  );
  expect(await lint()).toEqual({ code: 0, text: "" });
});

it("its .helmignore does not keep its CRDs from the operator", async () => {
  const rules = async (): Promise<string> => (await lint("--rbac")).text;
  expect(await rules()).toContain("customresourcedefinitions");
  put("crds/web.yaml", crd("Web").replace("apiextensions.k8s.io/v1", "apiextensions.k8s.io/v1beta1"));
  const { code, text } = await lint();
  expect([code, text]).toEqual([1, expect.stringMatching(/^.*crds\/web\.yaml: /)]);
});

it("a hook that ignores --config reaches no cluster: lint names none", async () => {
  const seen = join(root, "seen");
  const script = `#!/bin/sh\necho "$KUBECONFIG|$KUBERNETES_SERVICE_HOST" >>${seen}\necho 'configVersion: v1'\n`;
  put("hooks/careless.sh", script, 0o755);
  const env = {
    PATH: process.env["PATH"],
    KUBECONFIG: "/home/me/.kube/config",
    KUBERNETES_SERVICE_HOST: "10.0.0.1",
  };
  await runOffline("lint", ["--helm-bin", tools().helm, join(root, "modules")], env);
  await runOffline("lint", ["--rbac", "--helm-bin", tools().helm, join(root, "modules")], env);
  expect(readFileSync(seen, "utf8")).toBe("/dev/null|\n/dev/null|\n");
});
