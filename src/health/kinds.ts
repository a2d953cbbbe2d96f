/** The kinds that kstatus has a rule for, by group. */

import { textAt } from "./fields.ts";
import { pod } from "./pod.ts";
import { CURRENT, failed, firstMissing, inProgress } from "./rule.ts";
import type { Rule } from "./rule.ts";
import { daemonSet, deployment, job, replicaSet, statefulSet } from "./workloads.ts";

/** `group/Kind`, or `Kind` in the core group; an apiVersion that is none has no kind. */
export function groupKind(apiVersion: string, kind: string): string {
  const parts = apiVersion.split("/");
  if (parts.length > 2) return "";
  const group = parts.length === 2 ? parts[0] : "";
  return group === "" ? kind : `${group}/${kind}`;
}

/** The rule of a kind, whatever the version; undefined where it has none. */
export function ruleOf(apiVersion: string, kind: string): Rule | undefined {
  return RULES.get(groupKind(apiVersion, kind));
}

/** Built-in kinds whose status says nothing of health, and those that have none: they are well once they are there. */
const WITHOUT_STATUS = new Set([
  "ConfigMap",
  "Secret",
  "ServiceAccount",
  "Endpoints",
  "LimitRange",
  "Namespace",
  "ResourceQuota",
  "batch/CronJob",
  "networking.k8s.io/NetworkPolicy",
  "networking.k8s.io/Ingress",
  "networking.k8s.io/IngressClass",
  "autoscaling/HorizontalPodAutoscaler",
]);
const GROUPS_WITHOUT_STATUS =
  /^(?:rbac\.authorization|scheduling|storage|coordination|discovery|node|admissionregistration)\.k8s\.io\//;

/** Whether the status of such an object has to be looked at; of others, the metadata say all there is. */
export function hasStatus(apiVersion: string, kind: string): boolean {
  const key = groupKind(apiVersion, kind);
  return !WITHOUT_STATUS.has(key) && !GROUPS_WITHOUT_STATUS.test(key);
}

const claim: Rule = ({ object }) => {
  const phase = textAt(object, "status.phase", "unknown");
  return firstMissing([[phase !== "Bound", "NotBound", `is not bound, but ${phase}`]]);
};

const service: Rule = ({ object }) => {
  const isUnplaced =
    textAt(object, "spec.type") === "LoadBalancer" && textAt(object, "spec.clusterIP") === "";
  return firstMissing([[isUnplaced, "NoIPAssigned", "has no cluster IP"]]);
};

const customResourceDefinition: Rule = ({ conditions }) => {
  for (const { type, status, reason, message } of conditions) {
    const isRefused = type === "NamesAccepted" && status === "False";
    const isGone = type === "Established" && status === "False" && reason !== "Installing";
    if (isRefused || isGone) return failed(reason, message || `${type} is False`);
    if (type === "Established" && status === "True") return CURRENT;
  }
  return inProgress("Installing", "is not served yet");
};

const current: Rule = () => CURRENT;

const RULES: ReadonlyMap<string, Rule> = new Map([
  ["Service", service],
  ["Pod", pod],
  ["Secret", current],
  ["ConfigMap", current],
  ["PersistentVolumeClaim", claim],
  ["apps/StatefulSet", statefulSet],
  ["apps/DaemonSet", daemonSet],
  ["extensions/DaemonSet", daemonSet],
  ["apps/Deployment", deployment],
  ["extensions/Deployment", deployment],
  ["apps/ReplicaSet", replicaSet],
  ["extensions/ReplicaSet", replicaSet],
  ["policy/PodDisruptionBudget", current],
  ["batch/CronJob", current],
  ["batch/Job", job],
  ["apiextensions.k8s.io/CustomResourceDefinition", customResourceDefinition],
]);
