import { execFileSync } from "node:child_process";
import { tools } from "../../scripts/setup/tools.mjs";
import { parseYaml } from "../../src/lib/index.ts";
import type { Json, JsonObject } from "../../src/model/index.ts";

export const CHART = new URL("../../charts/addon-operator", import.meta.url).pathname;

/** Values to render with, by name. */
export const MATRIX: Readonly<Record<string, JsonObject>> = {
  defaults: {},
  ha: { replicas: 2, ha: { enabled: true, leaseDuration: "20s", leaseRenewDeadline: "15s" } },
  "host network": { hostNetwork: true, replicas: 2, ha: { enabled: true }, port: 19115 },
  "own rights": {
    rbac: { clusterAdmin: false, rules: [{ apiGroups: ["apps"], resources: ["deployments"], verbs: ["*"] }] },
  },
  "no rights of its own making": {
    rbac: { clusterAdmin: false },
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
  "no ConfigMap": { config: { create: false }, addonOperator: { create: false }, service: { create: false } },
  monitoring: {
    metrics: {
      annotations: true,
      serviceMonitor: { enabled: true, labels: { release: "prometheus" } },
      podMonitor: { enabled: true },
      prometheusRule: { enabled: true },
      dashboard: { enabled: true },
    },
    networkPolicy: { enabled: true, from: [{ namespaceSelector: {} }] },
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
    modules: { dir: "/git/modules", globalHooksDir: "/git/global-hooks" },
    operator: { extraArgs: ["--hook-timeout=10m"], helmIgnoreReleases: ["a", "b"] },
    extraEnv: [{ name: "HTTPS_PROXY", value: "http://proxy" }],
    extraEnvFrom: [{ secretRef: { name: "env" } }],
    extraVolumes: [{ name: "git", emptyDir: {} }],
    extraVolumeMounts: [{ name: "git", mountPath: "/git" }],
    extraContainers: [{ name: "git-sync", image: "git-sync:4" }],
    initContainers: [{ name: "git-once", image: "git-sync:4" }],
    tmp: { medium: "Memory", sizeLimit: "256Mi" },
  },
};

export type HelmVersion = "helm" | "helm3";

/** The chart rendered with these values, tests included. Throws with helm's message. */
export function render(version: HelmVersion, values: JsonObject): string {
  const args = ["template", "operator", CHART, "-n", "addons", "--kube-version", "1.34.0", "-f", "-"];
  return execFileSync(tools()[version], args, {
    input: JSON.stringify(values),
    encoding: "utf8",
    stdio: ["pipe", "pipe", "pipe"],
  });
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
