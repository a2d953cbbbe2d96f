/**
 * Assesses an object from its own status, by the rules of kstatus. Its status by these rules is Current (healthy), InProgress, Failed,
 * Terminating or Unknown.
 */

import type { JsonObject } from "../../base/model/index.ts";
import {
  readConditions,
  CURRENT,
  createFailed,
  assessSteps,
  readGeneration,
  createInProgress,
  getMember,
  readTextField,
  UnreadableError,
  type Assessment,
  type Rule,
  type StatusCondition,
  readInt,
  PAUSED,
} from "./rule.ts";
import {
  assessDaemonSet,
  assessDeployment,
  assessJob,
  assessPod,
  assessReplicaSet,
  assessStatefulSet,
} from "./workloads.ts";

/**
 * Computes the status that kstatus (`sigs.k8s.io/cli-utils` 0.37) gives an object, because tools such as Flux report the same, with our own
 * messages. Where the library returns an error, the status is Unknown. Never throws. `now` is in ms since the epoch.
 */
export function assessObject(object: JsonObject, now: number): Assessment {
  try {
    return assessByRules(object, now);
  } catch (error) {
    if (!(error instanceof UnreadableError)) throw error;
    return { status: "Unknown", reason: "Unreadable", message: error.message };
  }
}

/** Assesses an object by the first rule that applies: deletion, generation, standard conditions, the rule of its kind, Ready. */
function assessByRules(object: JsonObject, now: number): Assessment {
  const early = assessDeletion(object) ?? assessGeneration(object);
  if (early !== undefined) return early;
  const conditions = readConditions(object);
  const standard = assessStandardConditions(conditions);
  if (standard !== undefined) return standard;
  const rule = RULES.get(groupKindOf(object));
  return rule === undefined ? assessReadyCondition(conditions) : rule({ object, conditions, now });
}

/** The assessment of an object that is being deleted; undefined for any other object. */
function assessDeletion(object: JsonObject): Assessment | undefined {
  const deletionTime = getMember(object["metadata"], "deletionTimestamp", "metadata");
  if (deletionTime === undefined || deletionTime === "") return undefined;
  if (typeof deletionTime !== "string") throw new UnreadableError("metadata.deletionTimestamp is no text");
  return { status: "Terminating", reason: "Terminating", message: "is being deleted" };
}

/**
 * The assessment of an object whose controller has not observed its current generation; undefined if it has. A larger
 * observed generation is also wrong: it was written for another object, or before this one was restored.
 */
function assessGeneration(object: JsonObject): Assessment | undefined {
  const generation = readGeneration(object, "metadata", "generation");
  if (generation === undefined) return undefined;
  const observed = readGeneration(object, "status", "observedGeneration");
  if (observed === undefined || observed === generation) return undefined;
  const message = `its controller has seen generation ${observed}, not ${generation}`;
  return createInProgress("LatestGenerationNotObserved", message);
}

/** The assessment by a true condition `Reconciling` or `Stalled`; undefined without one. */
function assessStandardConditions(conditions: readonly StatusCondition[]): Assessment | undefined {
  const condition = conditions.find(
    ({ type, status }) => status === "True" && (type === "Reconciling" || type === "Stalled"),
  );
  if (condition === undefined) return undefined;
  return condition.type === "Stalled"
    ? createFailed(condition.reason, describeCondition(condition))
    : createInProgress(condition.reason, describeCondition(condition));
}

/** The assessment by the condition `Ready`. An object without that condition is Current. */
function assessReadyCondition(conditions: readonly StatusCondition[]): Assessment {
  const ready = conditions.find(
    ({ type, status }) => type === "Ready" && ["True", "False", "Unknown"].includes(status),
  );
  if (ready === undefined || ready.status === "True") return CURRENT;
  return createInProgress(ready.reason, describeCondition(ready));
}

/** The message of a condition; without one, its type, status and reason. */
function describeCondition({ type, status, reason, message }: StatusCondition): string {
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
export function groupKindOf(object: JsonObject): string {
  return groupKind(readTextField(object, "apiVersion"), readTextField(object, "kind"));
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

/** A PersistentVolumeClaim is Current once it is bound to a volume. */
const assessVolumeClaim: Rule = ({ object }) => {
  const phase = readTextField(object, "status.phase", "unknown");
  return assessSteps([[phase !== "Bound", "NotBound", `is not bound, but ${phase}`]]);
};

/** A Service is Current, except one of type LoadBalancer without a cluster IP. */
const assessService: Rule = ({ object }) => {
  const isLoadBalancer = readTextField(object, "spec.type") === "LoadBalancer";
  const lacksIp = isLoadBalancer && readTextField(object, "spec.clusterIP") === "";
  return assessSteps([[lacksIp, "NoIPAssigned", "has no cluster IP"]]);
};

/** Current once the definition is established. Failed if its names are refused or it is no longer served. */
const assessCrd: Rule = ({ conditions }) => {
  for (const { type, status, reason, message } of conditions) {
    const isRefused = type === "NamesAccepted" && status === "False";
    const isDeleted = type === "Established" && status === "False" && reason !== "Installing";
    if (isRefused || isDeleted) return createFailed(reason, message || `${type} is False`);
    if (type === "Established" && status === "True") return CURRENT;
  }
  return createInProgress("Installing", "is not served yet");
};

/** For kinds that are healthy once they exist. */
const alwaysCurrent: Rule = () => CURRENT;

/** The rules of kstatus by kind, for all versions. */
const RULES: ReadonlyMap<string, Rule> = new Map([
  ["Service", assessService],
  ["Pod", assessPod],
  ["Secret", alwaysCurrent],
  ["ConfigMap", alwaysCurrent],
  ["PersistentVolumeClaim", assessVolumeClaim],
  ["apps/StatefulSet", assessStatefulSet],
  ["apps/DaemonSet", assessDaemonSet],
  ["extensions/DaemonSet", assessDaemonSet],
  ["apps/Deployment", assessDeployment],
  ["extensions/Deployment", assessDeployment],
  ["apps/ReplicaSet", assessReplicaSet],
  ["extensions/ReplicaSet", assessReplicaSet],
  ["policy/PodDisruptionBudget", alwaysCurrent],
  ["batch/CronJob", alwaysCurrent],
  ["batch/Job", assessJob],
  ["apiextensions.k8s.io/CustomResourceDefinition", assessCrd],
]);

/** Assesses a Rollout of Argo by `status.phase`; undefined for other kinds, and for a Rollout that is being deleted. */
export function assessRollout(object: JsonObject): Assessment | undefined {
  if (
    groupKindOf(object) !== "argoproj.io/Rollout" ||
    readTextField(object, "metadata.deletionTimestamp") !== ""
  )
    return undefined;
  // A Rollout has its observed generation as text.
  const generation = String(readInt(object, "metadata.generation", 0));
  const observed = readTextField(object, "status.observedGeneration", "none");
  const notObserved = `its controller has seen generation ${observed}, not ${generation}`;
  if (observed !== generation) return createInProgress("LatestGenerationNotObserved", notObserved);
  const phase = readTextField(object, "status.phase", "Progressing");
  const message = readTextField(object, "status.message", `its phase is ${phase}`);
  if (phase === "Healthy") return CURRENT;
  if (phase === "Degraded") return createFailed(phase, message);
  return createInProgress(phase === "Paused" ? PAUSED : phase, message);
}
