// Charts as people write them: helpers, optional objects, settings of Pods; and modules that contain a chart.
import { copyFileSync, mkdirSync, writeFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";

/**
 * Writes an enabled module for each chart below `dir`; returns `dir`. A chart has an `archive`, or `files`, texts by path. For a peer,
 * the chart is a sub-chart of the module's own, which all operators can install.
 */
export function writeChartModules(dir, charts, isPeer = false) {
  writeFileSync(join(dir, "values.yaml"), charts.map(({ name }) => `${camel(name)}Enabled: true\n`).join(""));
  for (const chart of charts) {
    const path = `charts/${chart.archive === undefined ? chart.name : basename(chart.archive)}`;
    const home = join(dir, `100-${chart.name}`);
    const own = isPeer ? { "Chart.yaml": wrapper(chart) } : { "addon.yaml": `chart:\n  path: ${path}\n` };
    write(home, { ...own, "values.yaml": `${camel(chart.name)}: {}\n` });
    mkdirSync(join(home, "charts"));
    if (chart.archive === undefined) write(join(home, path), chart.files);
    else copyFileSync(chart.archive, join(home, path));
  }
  return dir;
}

const camel = (name) => name.replaceAll(/-(.)/g, (_, letter) => letter.toUpperCase());

const wrapper = ({ name, version }) =>
  `${metadata({ name, version: "1.0.0" })}dependencies:\n- {name: ${name}, version: ${version}}\n`;

const metadata = ({ name, version }) => `apiVersion: v2\nname: ${name}\nversion: ${version}\n`;

function write(home, files) {
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(home, path)), { recursive: true });
    writeFileSync(join(home, path), text);
  }
}

const HELPERS = `{{- define "app.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s" (default .Release.Name .Values.nameOverride) | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- define "app.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}
{{- define "app.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{ include "app.selector" . }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- with .Values.commonLabels }}
{{ tpl (toYaml .) $ }}
{{- end }}
{{- end -}}
`;

const head = (apiVersion, kind, index) => `apiVersion: ${apiVersion}
kind: ${kind}
metadata:
  name: {{ include "app.fullname" . }}${index === undefined ? "" : `-${index}`}
  labels: {{- include "app.labels" . | nindent 4 }}
`;

export const deployment = `${head("apps/v1", "Deployment")}spec:
  replicas: {{ .Values.replicas }}
  selector:
    matchLabels: {{- include "app.selector" . | nindent 6 }}
  template:
    metadata:
      labels: {{- include "app.selector" . | nindent 8 }}
      {{- with .Values.podAnnotations }}
      annotations: {{- toYaml . | nindent 8 }}
      {{- end }}
    spec:
      securityContext: {{- toYaml .Values.podSecurityContext | nindent 8 }}
      {{- with .Values.affinity }}
      affinity: {{- tpl (toYaml .) $ | nindent 8 }}
      {{- end }}
      containers:
      - name: app
        image: "{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.Version }}"
        args: {{- range .Values.args }}
        - {{ . | quote }}
        {{- end }}
        ports:
        {{- range $name, $port := .Values.ports }}
        - {name: {{ $name }}, containerPort: {{ $port }}, protocol: TCP}
        {{- end }}
        livenessProbe: {{- toYaml .Values.probe | nindent 10 }}
        readinessProbe: {{- toYaml .Values.probe | nindent 10 }}
        resources: {{- toYaml .Values.resources | nindent 10 }}
`;

export const service = `${head("v1", "Service")}spec:
  selector: {{- include "app.selector" . | nindent 4 }}
  ports:
  {{- range $name, $port := .Values.ports }}
  - {name: {{ $name }}, port: {{ $port }}, targetPort: {{ $name }}}
  {{- end }}
`;

const configMap = (index) => `${head("v1", "ConfigMap", index)}data:
  config.yaml: |
    {{- tpl (toYaml .Values.config) . | nindent 4 }}
`;

const KINDS = [
  () => deployment,
  () => service,
  () => head("v1", "ServiceAccount"),
  (index) => `${head("rbac.authorization.k8s.io/v1", "ClusterRole", index)}rules:
- {apiGroups: [""], resources: [pods, nodes], verbs: [get, list, watch]}
`,
];

const VALUES = {
  replicas: 1,
  image: { repository: "registry.example.org/app", tag: "" },
  args: ["--web.listen-address=:9100", "--log.level=info"],
  ports: { http: 9100, metrics: 9101 },
  podAnnotations: { "example.org/scrape": "true" },
  podSecurityContext: { runAsNonRoot: true, runAsUser: 65534 },
  probe: { httpGet: { path: "/", port: "http" } },
  resources: { requests: { cpu: "10m", memory: "32Mi" } },
  config: { modules: { default: { prober: "{{ .Release.Name }}", timeout: "5s" } } },
};

/** The files of a chart, where `templates` are texts by file name; `values` replace those of all generated charts. */
export function filesOfChart({ name, version }, templates, values = {}) {
  const named = Object.entries(templates).map(([file, text]) => [`templates/${file}`, text]);
  return {
    "Chart.yaml": metadata({ name, version }),
    "values.yaml": `${JSON.stringify({ ...VALUES, ...values }, undefined, 2)}\n`,
    "templates/_helpers.tpl": HELPERS,
    ...Object.fromEntries(named),
  };
}

/** As `helm create` writes it: a hook that only `helm test` runs. */
const connectionTest = `${head("v1", "Pod", "test")}  annotations:
    "helm.sh/hook": test
spec:
  containers: [{name: wget, image: busybox, command: [wget]}]
  restartPolicy: Never
`;

const README = "What this chart installs, and how to set it up: https://helm.sh/docs/intro/\n";

/**
 * A chart with that many templates (with helpers), objects and CRDs, of about that many KiB. Templates without an object are for objects
 * that nobody has enabled; half of what is missing in size is their text, the other half a README.
 */
export function chartFiles({ name, version, templates, objects, crds, kib }) {
  const texts = Array.from({ length: objects }, (_, index) => (KINDS[index] ?? configMap)(index));
  for (let index = 0; index < crds; index += 1) texts.push(crd(`${name}-${index}`, (kib * 1024) / crds));
  const unused = Math.max(0, templates - 1 - texts.length);
  const missing = Math.max(0, kib * 1024 - crds * 1024 * kib - (objects + 1) * 1000);
  const shared = unused === 0 ? 0 : Math.floor(missing / 2 / unused / configMap(0).length);
  for (let index = 0; index < unused; index += 1)
    texts.push(
      `{{- if and .Values.feature${index} (.Capabilities.APIVersions.Has "${API}") }}\n${`${configMap(`f${index}`)}---\n`.repeat(1 + shared)}{{- end }}\n`,
    );
  const files = Object.fromEntries(texts.map((text, index) => [`object-${index}.yaml`, text]));
  const readme = README.repeat(Math.max(1, Math.floor(missing / 2 / README.length)));
  const tests = { "templates/tests/connection.yaml": connectionTest };
  return { ...filesOfChart({ name, version }, files), ...tests, "README.md": readme };
}

/** The API of objects that a chart installs only where it is served. */
const API = "monitoring.coreos.com/v1";

/** A definition of about `bytes`, most of it descriptions, as generators write them. */
function crd(name, bytes) {
  const kind = name.replaceAll(/(?:^|-)(.)/g, (_, letter) => letter.toUpperCase());
  const plural = `${kind.toLowerCase()}s`;
  const description = "What this field does, and what its default is. ".repeat(3);
  const field = (index) => `                field${index}:
                  description: ${description}
                  properties:
                    name:
                      description: ${description}
                      type: string
                    size:
                      anyOf: [{type: integer}, {type: string}]
                      x-kubernetes-int-or-string: true
                  type: object
`;
  const fields = Array.from({ length: Math.ceil(bytes / field(100).length) }, (_, index) => field(index));
  return `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: ${plural}.bench.example.org
spec:
  group: bench.example.org
  names: {kind: ${kind}, listKind: ${kind}List, plural: ${plural}, singular: ${kind.toLowerCase()}}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
${fields.join("")}`;
}
