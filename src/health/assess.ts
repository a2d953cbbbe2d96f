/** Assesses an object from its own status, by the rules of kstatus. */

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
  type Assessment,
  type Rule,
  type StatusCondition,
} from "./rule.ts";
import { daemonSet, deployment, job, pod, replicaSet, statefulSet } from "./workloads.ts";

/**
 * Computes the status that kstatus (`sigs.k8s.io/cli-utils` 0.37) gives an object, with our own messages. Where the library
 * returns an error, the status is Unknown. Never throws. `now` is in ms since the epoch.
 */
export function assessObject(object: JsonObject, now: number): Assessment {
  try {
    return assessByRules(object, now);
  } catch (error) {
    if (!(error instanceof UnreadableError)) throw error;
    return { status: "Unknown", reason: "Unreadable", message: error.message };
  }
}

/** The first rule that applies: deletion, generation, standard conditions, the kind's own, Ready. */
function assessByRules(object: JsonObject, now: number): Assessment {
  const early = terminating(object) ?? unobserved(object);
  if (early !== undefined) return early;
  const conditions = conditionsOf(object);
  const standard = standardCondition(conditions);
  if (standard !== undefined) return standard;
  const rule = RULES.get(kindOf(object));
  return rule === undefined ? byReady(conditions) : rule({ object, conditions, now });
}

/** The assessment of an object that is being deleted; undefined for any other object. */
function terminating(object: JsonObject): Assessment | undefined {
  const since = memberOf(object["metadata"], "deletionTimestamp", "metadata");
  if (since === undefined || since === "") return undefined;
  if (typeof since !== "string") throw new UnreadableError("metadata.deletionTimestamp is no text");
  return { status: "Terminating", reason: "Terminating", message: "is being deleted" };
}

/**
 * The assessment of an object whose controller has not observed its current generation; undefined if it has. A larger
 * observed generation is also wrong: it was written for another object, or before this one was restored.
 */
function unobserved(object: JsonObject): Assessment | undefined {
  const generation = generationIn(object, "metadata", "generation");
  if (generation === undefined) return undefined;
  const observed = generationIn(object, "status", "observedGeneration");
  if (observed === undefined || observed === generation) return undefined;
  const message = `its controller has seen generation ${observed}, not ${generation}`;
  return inProgress("LatestGenerationNotObserved", message);
}

/** The assessment by a true condition `Reconciling` or `Stalled`; undefined without one. */
function standardCondition(conditions: readonly StatusCondition[]): Assessment | undefined {
  const found = conditions.find(
    ({ type, status }) => status === "True" && (type === "Reconciling" || type === "Stalled"),
  );
  if (found === undefined) return undefined;
  return found.type === "Stalled"
    ? failed(found.reason, describe(found))
    : inProgress(found.reason, describe(found));
}

/** The assessment by the condition `Ready`. An object without that condition is Current. */
function byReady(conditions: readonly StatusCondition[]): Assessment {
  const ready = conditions.find(
    ({ type, status }) => type === "Ready" && ["True", "False", "Unknown"].includes(status),
  );
  if (ready === undefined || ready.status === "True") return CURRENT;
  return inProgress(ready.reason, describe(ready));
}

function describe({ type, status, reason, message }: StatusCondition): string {
  return message || `${type} is ${status}${reason === "" ? "" : ` (${reason})`}`;
}

/** `group/Kind`, or `Kind` in the core group; empty where the apiVersion is invalid. */
export function groupKind(apiVersion: string, kind: string): string {
  const parts = apiVersion.split("/");
  if (parts.length > 2) return "";
  const group = parts.length === 2 ? parts[0] : "";
  return group === "" ? kind : `${group}/${kind}`;
}

/** `groupKind` of an object. */
export function kindOf(object: JsonObject): string {
  return groupKind(textAt(object, "apiVersion"), textAt(object, "kind"));
}

/** Built-in kinds without a status, or whose status says nothing about health: they are healthy once they exist. */
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

/** Whether the status of objects of a kind matters for their health; for other kinds, the metadata suffices. */
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

/** Current once the definition is established. Failed if its names are refused or it is no longer served. */
const customResourceDefinition: Rule = ({ conditions }) => {
  for (const { type, status, reason, message } of conditions) {
    const isRefused = type === "NamesAccepted" && status === "False";
    const isDeleted = type === "Established" && status === "False" && reason !== "Installing";
    if (isRefused || isDeleted) return failed(reason, message || `${type} is False`);
    if (type === "Established" && status === "True") return CURRENT;
  }
  return inProgress("Installing", "is not served yet");
};

/** For kinds that are healthy once they exist. */
const alwaysCurrent: Rule = () => CURRENT;

/** The rules of kstatus by kind, for all versions. */
const RULES: ReadonlyMap<string, Rule> = new Map([
  ["Service", service],
  ["Pod", pod],
  ["Secret", alwaysCurrent],
  ["ConfigMap", alwaysCurrent],
  ["PersistentVolumeClaim", claim],
  ["apps/StatefulSet", statefulSet],
  ["apps/DaemonSet", daemonSet],
  ["extensions/DaemonSet", daemonSet],
  ["apps/Deployment", deployment],
  ["extensions/Deployment", deployment],
  ["apps/ReplicaSet", replicaSet],
  ["extensions/ReplicaSet", replicaSet],
  ["policy/PodDisruptionBudget", alwaysCurrent],
  ["batch/CronJob", alwaysCurrent],
  ["batch/Job", job],
  ["apiextensions.k8s.io/CustomResourceDefinition", customResourceDefinition],
]);
