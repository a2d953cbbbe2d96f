/** Judges an object by its own status, by the rules of kstatus. */

import type { JsonObject } from "../model/index.ts";
import {
  conditionsOf,
  CURRENT,
  failed,
  firstMissing,
  generationIn,
  inProgress,
  memberOf,
  textAt,
  UnreadableError,
  type Judgement,
  type Rule,
  type StatusCondition,
} from "./rule.ts";
import { daemonSet, deployment, job, pod, replicaSet, statefulSet } from "./workloads.ts";

/**
 * What kstatus (`sigs.k8s.io/cli-utils` 0.37) makes of an object; the messages are our own. Where the library answers
 * with an error, the status is Unknown. Never throws, whatever the object holds. `now` is in ms since the epoch.
 */
export function judgeObject(object: JsonObject, now: number): Judgement {
  try {
    return judge(object, now);
  } catch (error) {
    if (!(error instanceof UnreadableError)) throw error;
    return { status: "Unknown", reason: "Unreadable", message: error.message };
  }
}

/** The first rule that applies: deletion, generation, standard conditions, the kind's own, Ready. */
function judge(object: JsonObject, now: number): Judgement {
  const early = terminating(object) ?? unobserved(object);
  if (early !== undefined) return early;
  const conditions = conditionsOf(object);
  const standard = standardCondition(conditions);
  if (standard !== undefined) return standard;
  const rule = RULES.get(kindOf(object));
  return rule === undefined ? byReady(conditions) : rule({ object, conditions, now });
}

function terminating(object: JsonObject): Judgement | undefined {
  const since = memberOf(object["metadata"], "deletionTimestamp", "metadata");
  if (since === undefined || since === "") return undefined;
  if (typeof since !== "string") throw new UnreadableError("metadata.deletionTimestamp is no text");
  return { status: "Terminating", reason: "Terminating", message: "is being deleted" };
}

/** Ahead of the generation counts as well: it is of another object, or of a restored one. */
function unobserved(object: JsonObject): Judgement | undefined {
  const generation = generationIn(object, "metadata", "generation");
  if (generation === undefined) return undefined;
  const observed = generationIn(object, "status", "observedGeneration");
  if (observed === undefined || observed === generation) return undefined;
  const message = `its controller has seen generation ${observed}, not ${generation}`;
  return inProgress("LatestGenerationNotObserved", message);
}

function standardCondition(conditions: readonly StatusCondition[]): Judgement | undefined {
  const found = conditions.find(
    ({ type, status }) => status === "True" && (type === "Reconciling" || type === "Stalled"),
  );
  if (found === undefined) return undefined;
  return found.type === "Stalled" ? failed(found.reason, told(found)) : inProgress(found.reason, told(found));
}

function byReady(conditions: readonly StatusCondition[]): Judgement {
  const ready = conditions.find(
    ({ type, status }) => type === "Ready" && ["True", "False", "Unknown"].includes(status),
  );
  if (ready === undefined || ready.status === "True") return CURRENT;
  return inProgress(ready.reason, told(ready));
}

function told({ type, status, reason, message }: StatusCondition): string {
  return message || `${type} is ${status}${reason === "" ? "" : ` (${reason})`}`;
}

/** `group/Kind`, or `Kind` in the core group; an apiVersion that is none has no kind. */
export function groupKind(apiVersion: string, kind: string): string {
  const parts = apiVersion.split("/");
  if (parts.length > 2) return "";
  const group = parts.length === 2 ? parts[0] : "";
  return group === "" ? kind : `${group}/${kind}`;
}

/** The same of an object. */
export function kindOf(object: JsonObject): string {
  return groupKind(textAt(object, "apiVersion"), textAt(object, "kind"));
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

/** The kinds that kstatus has a rule for, whatever the version. */
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
