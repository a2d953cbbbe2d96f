import { execFileSync } from "node:child_process";
import { tools } from "../../scripts/setup/tools.mjs";
import { parseYaml } from "../../src/base/index.ts";
import type { Json, JsonObject } from "../../src/base/model/index.ts";

export const CHART = new URL("../../charts/addon-operator", import.meta.url).pathname;

/** Values to render with, by name. */
export const MATRIX: Readonly<Record<string, JsonObject>> = {
  defaults: {},
  ha: { replicas: 2, ha: { enabled: true, leaseDuration: "20s", leaseRenewDeadline: "15s" } },
  "host network": { hostNetwork: true, replicas: 2, ha: { enabled: true }, port: 19115 },
  "own rights": {
    rbac: { clusterAdmin: false, rules: [{ apiGroups: ["apps"], resources: ["deployments"], verbs: ["*"] }] },
  },
  tenancy: {
    rbac: { clusterAdmin: false },
    tenancy: {
      namespaceTemplate: "team-{name}",
      namespaceLabels: { team: "yes", tier: "addons" },
      namespaces: ["team-a", "team-b"],
      serviceAccountNamespaces: ["team-*"],
      webhookModules: ["policy"],
      hookUserIds: true,
    },
  },
  sources: {
    rbac: { clusterAdmin: false },
    sources: {
      enabled: true,
      keys: { "ci.pub": "-----BEGIN PUBLIC KEY-----\n-----END PUBLIC KEY-----\n" },
      unsignedCharts: ["https://charts.example.org", "oci://registry.example.com/charts"],
      maxBytes: 1000000000,
      volume: { persistentVolumeClaim: { claimName: "sources" } },
    },
    operator: { manageCrds: false },
  },
  "every account": { rbac: { clusterAdmin: false }, tenancy: { namespaces: ["team-a", "*"] } },
  "no rights of its own making": {
    rbac: { clusterAdmin: false, aggregatedRoles: false },
    operator: { manageCrds: false },
    serviceAccount: { create: false, name: "given" },
  },
  configured: {
    config: {
      values: {
        global: { project: "shop", text: "two\nlines" },
        fooEnabled: true,
        barEnabled: "false",
        foo: { a: [1, 2], yes: "yes" },
        bar: ["x"],
      },
      keep: true,
      overlay: "",
    },
  },
  "overlay in a ConfigMap": { config: { overlayKind: "ConfigMap" }, rbac: { clusterAdmin: false } },
  "no ConfigMap": { config: { create: false }, addonOperator: { create: false }, service: { create: false } },
  webhooks: {
    webhooks: { enabled: true, port: 10443, failurePolicy: "Ignore", concurrency: 4, certSecret: "given" },
    rbac: { clusterAdmin: false },
    operator: { manageCrds: false },
    networkPolicy: { webhookFrom: [{ ipBlock: { cidr: "10.0.0.0/28" } }] },
  },
  "webhooks with cert-manager": {
    webhooks: { enabled: true, certManager: { enabled: true, issuerRef: { name: "ca", kind: "Issuer" } } },
  },
  monitoring: {
    metrics: {
      annotations: true,
      serviceMonitor: { enabled: true, labels: { release: "prometheus" } },
      podMonitor: { enabled: true },
      prometheusRule: { enabled: true },
      dashboard: { enabled: true },
    },
    networkPolicy: { enabled: true, from: [{ namespaceSelector: {} }], uiFrom: [{ namespaceSelector: {} }] },
    ui: { enabled: true, port: 9116 },
    docsUrl: "https://docs.example.com/addons/",
  },
  everything: {
    commonLabels: { team: "platform" },
    podLabels: { zone: "a" },
    podAnnotations: { note: "1" },
    nodeSelector: { disk: "ssd" },
    tolerations: [{ operator: "Exists" }],
    priorityClassName: "system-cluster-critical",
    image: { repository: "example.com/addons", digest: `sha256:${"a".repeat(64)}` },
    imagePullSecrets: [{ name: "pull" }],
    modules: { dir: "/git/modules", globalHooksDir: "/git/global-hooks", watch: true },
    operator: {
      extraArgs: ["--hook-timeout=10m"],
      helmIgnoreReleases: ["a", "b"],
      otlp: {
        endpoint: "http://collector.monitoring:4318",
        samplingRatio: 0.1,
        headersSecret: { name: "collector", key: "token" },
        insecure: true,
      },
    },
    extraEnv: [{ name: "HTTPS_PROXY", value: "http://proxy" }],
    extraEnvFrom: [{ secretRef: { name: "env" } }],
    extraVolumes: [{ name: "git", emptyDir: {} }],
    extraVolumeMounts: [{ name: "git", mountPath: "/git" }],
    extraContainers: [{ name: "git-sync", image: "git-sync:4" }],
    initContainers: [{ name: "git-once", image: "git-sync:4" }],
    tmp: { medium: "Memory", sizeLimit: "256Mi" },
    serviceAccount: { annotations: { "example.com/role": "addons" } },
    service: { annotations: { note: "2" } },
    dnsPolicy: "Default",
    affinity: {
      nodeAffinity: {
        requiredDuringSchedulingIgnoredDuringExecution: {
          nodeSelectorTerms: [{ matchExpressions: [{ key: "disk", operator: "In", values: ["ssd"] }] }],
        },
      },
    },
    topologySpreadConstraints: [
      { maxSkew: 1, topologyKey: "zone", whenUnsatisfiable: "DoNotSchedule", labelSelector: {} },
    ],
  },
  tuned: {
    nameOverride: "addons",
    fullnameOverride: "shop-addons",
    image: { tag: "2", pullPolicy: "Always" },
    replicas: 3,
    ha: { enabled: true, leaseRetryPeriod: "5s" },
    config: { name: "shop-addons" },
    ui: { enabled: true },
    operator: {
      logLevel: "debug",
      logType: "text",
      helmTimeout: "5m",
      helmHistoryMax: 3,
      invalidConfig: "stop",
      moduleQueues: "own",
      drift: "repair",
      ready: "applied",
      onFailure: "rollback",
      purge: "off",
      statusValues: "none",
      shutdownTimeout: "1m",
      listenAddress: "::",
      otlp: { endpoint: "https://collector.example.com" },
    },
    metrics: {
      serviceMonitor: { enabled: true, interval: "1m" },
      podMonitor: { enabled: true, interval: "1m", labels: { release: "prometheus" } },
      prometheusRule: { enabled: true, labels: { release: "prometheus" } },
      dashboard: { enabled: true, labels: { grafana_dashboard: "yes" } },
    },
    podDisruptionBudget: { minAvailable: 2 },
    resources: { requests: { cpu: "1", memory: "1Gi" }, limits: { memory: "2Gi" } },
    podSecurityContext: {
      runAsNonRoot: false,
      runAsUser: 2000,
      runAsGroup: 2000,
      fsGroup: 2000,
      seccompProfile: { type: "Unconfined" },
    },
    securityContext: {
      allowPrivilegeEscalation: true,
      readOnlyRootFilesystem: false,
      capabilities: { drop: ["NET_RAW"] },
    },
    terminationGracePeriodSeconds: 90,
    progressDeadlineSeconds: 600,
    minReadySeconds: 5,
    startupProbe: { periodSeconds: 2, failureThreshold: 30 },
    livenessProbe: { periodSeconds: 20, timeoutSeconds: 5, failureThreshold: 3 },
    readinessProbe: { periodSeconds: 5, timeoutSeconds: 5, failureThreshold: 2 },
  },
  "nothing of its own": {
    rbac: { create: false },
    podDisruptionBudget: { enabled: false },
    replicas: 2,
    ha: { enabled: true },
    tests: { enabled: false },
  },
};

export type HelmVersion = "helm" | "helm3";

/** What was rendered already: the chart stays the same, and each rendering takes a process. */
const rendered = new Map<string, string>();

/** The chart rendered with these values, tests included. Throws with helm's message. */
export function render(version: HelmVersion, values: JsonObject): string {
  const input = JSON.stringify(values);
  const key = `${version} ${input}`;
  const args = ["template", "operator", CHART, "-n", "addons", "--kube-version", "1.34.0", "-f", "-"];
  const text =
    rendered.get(key) ??
    execFileSync(tools()[version], args, { input, encoding: "utf8", stdio: ["pipe", "pipe", "pipe"] });
  rendered.set(key, text);
  return text;
}

export interface Rendered extends JsonObject {
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly namespace?: string } & JsonObject;
}

/** The objects of a rendering, in order of kind and name: the helms sort their documents differently. */
export function objectsOf(text: string): Rendered[] {
  const key = ({ kind, metadata }: Rendered): string => `${kind}/${metadata.name}`;
  return text
    .split(/^---$/m)
    .filter((part) => /^kind:/m.test(part))
    .map((part) => parseYaml(part, "chart").value as Json as Rendered)
    .toSorted((a, b) => (key(a) < key(b) ? -1 : 1));
}
