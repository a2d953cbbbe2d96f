/** The kinds that kstatus has a rule for, by group. */

import { textAt } from "./fields.ts";
import { pod } from "./pod.ts";
import { CURRENT, failed, firstMissing, inProgress } from "./rule.ts";
import type { Rule } from "./rule.ts";
import { daemonSet, deployment, job, replicaSet, statefulSet } from "./workloads.ts";

/** The rule of a kind, whatever the version; undefined where it has none. */
export function ruleOf(apiVersion: string, kind: string): Rule | undefined {
  const parts = apiVersion.split("/");
  if (parts.length > 2) return undefined;
  const group = parts.length === 2 ? parts[0] : "";
  return RULES.get(group === "" ? kind : `${group}/${kind}`);
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
