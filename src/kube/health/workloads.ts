/** The rules of kstatus for Pods and workloads. */

import { isJsonObject, member, type Json, type JsonObject } from "../../base/model/index.ts";
import {
  describeCount,
  CURRENT,
  createFailed,
  assessSteps,
  readGeneration,
  hasCondition,
  createInProgress,
  readInt,
  readTextField,
  UnreadableError,
  type RuleInput,
  type Assessment,
  type Rule,
  type StatusCondition,
  type Step,
} from "./rule.ts";

/** The default, which means no deadline: then the controller reports no progress. */
const NO_DEADLINE = 2 ** 31 - 1;

/** In progress until all replicas are of the current revision and available. Failed once the progress deadline is over. */
export const assessDeployment: Rule = ({ object, conditions }) => {
  const deadlineExceeded = conditions.find(
    ({ type, reason }) => type === "Progressing" && reason === "ProgressDeadlineExceeded",
  );
  const spec = readInt(object, "spec.replicas", 1);
  const all = readInt(object, "status.replicas", 0);
  const updated = readInt(object, "status.updatedReplicas", 0);
  const ready = readInt(object, "status.readyReplicas", 0);
  const available = readInt(object, "status.availableReplicas", 0);
  const count = describeCount(available, spec, "replicas available");
  if (deadlineExceeded !== undefined)
    return createFailed(deadlineExceeded.reason, `${count}, and its deadline is over`);
  const isComplete =
    readInt(object, "spec.progressDeadlineSeconds", NO_DEADLINE) === NO_DEADLINE ||
    conditions.some(
      ({ type, status, reason }) =>
        type === "Progressing" && status === "True" && reason === "NewReplicaSetAvailable",
    );
  const why = describeReplicaFailure(conditions);
  return assessSteps([
    [spec > all, "LessReplicas", `${describeCount(all, spec, "replicas exist")}${why}`],
    [spec > updated, "LessUpdated", `${describeCount(updated, spec, "replicas updated")}${why}`],
    [all > spec, "ExtraPods", describeExtra(all - spec, all > updated) + why],
    [updated > available, "LessAvailable", describeCount(available, spec, "replicas available")],
    [spec > ready, "LessReady", describeCount(ready, spec, "replicas ready")],
    [!isComplete, "ReplicaSetNotAvailable", "its new ReplicaSet is not available"],
    [!hasCondition(conditions, "Available", "True"), "DeploymentNotAvailable", "is not available"],
  ]);
};

/** Describes replicas above the wanted number. */
function describeExtra(extra: number, areOld: boolean): string {
  return areOld
    ? `old replicas stay until the new ones are available (${extra} too many)`
    : `${extra} replicas too many`;
}

/** The text `: REASON` if Pods cannot be created, for example because of a quota; otherwise empty. */
function describeReplicaFailure(conditions: readonly StatusCondition[]): string {
  const found = conditions.find(({ type, status }) => type === "ReplicaFailure" && status === "True");
  return found === undefined || found.message === "" ? "" : `: ${found.message}`;
}

/** In progress until exactly the wanted number of replicas is labelled, available and ready. */
export const assessReplicaSet: Rule = ({ object, conditions }) => {
  const spec = readInt(object, "spec.replicas", 1);
  const all = readInt(object, "status.replicas", 0);
  const labelled = readInt(object, "status.fullyLabeledReplicas", 0);
  const available = readInt(object, "status.availableReplicas", 0);
  const ready = readInt(object, "status.readyReplicas", 0);
  return assessSteps([
    [
      hasCondition(conditions, "ReplicaFailure", "True"),
      "ReplicaFailure",
      `its Pods cannot be created${describeReplicaFailure(conditions)}`,
    ],
    [spec > labelled, "LessLabelled", describeCount(labelled, spec, "replicas labelled")],
    [spec > available, "LessAvailable", describeCount(available, spec, "replicas available")],
    [spec > ready, "LessReady", describeCount(ready, spec, "replicas ready")],
    [all > spec, "ExtraPods", `${all - spec} replicas too many`],
  ]);
};

/** No partition is set. The API server's default is 0. */
const NO_PARTITION = -1;

/** In progress until all replicas are ready and of the new revision. With a partition, only the replicas above it count. */
export const assessStatefulSet: Rule = ({ object }) => {
  if (readTextField(object, "spec.updateStrategy.type") === "OnDelete") return CURRENT;
  const spec = readInt(object, "spec.replicas", 1);
  const all = readInt(object, "status.replicas", 0);
  const updated = readInt(object, "status.updatedReplicas", 0);
  const ready = readInt(object, "status.readyReplicas", 0);
  const current = readInt(object, "status.currentReplicas", 0);
  const partition = readInt(object, "spec.updateStrategy.rollingUpdate.partition", NO_PARTITION);
  const revisions = ["currentRevision", "updateRevision"].map((key) =>
    readTextField(object, `status.${key}`),
  );
  const wanted = spec - partition;
  const rollout: readonly Step[] =
    partition === NO_PARTITION
      ? [
          [spec > current, "LessCurrent", describeCount(current, spec, "replicas current")],
          [revisions[0] !== revisions[1], "RevisionMismatch", "its update is not complete"],
        ]
      : [[updated < wanted, "PartitionRollout", describeCount(updated, wanted, "replicas updated")]];
  return assessSteps([
    [spec > all, "LessReplicas", describeCount(all, spec, "replicas exist")],
    [spec > ready, "LessReady", describeCount(ready, spec, "replicas ready")],
    [all > spec, "ExtraPods", `${all - spec} replicas too many`],
    ...rollout,
  ]);
};

/** In progress until the current Pod is ready and available on each wanted node. */
export const assessDaemonSet: Rule = ({ object }) => {
  const isUnseen =
    readGeneration(object, "metadata", "generation") === undefined ||
    readGeneration(object, "status", "observedGeneration") === undefined;
  const number = (key: string, otherwise = 0): number => readInt(object, `status.${key}`, otherwise);
  const wanted = number("desiredNumberScheduled", -1);
  const current = number("currentNumberScheduled");
  const updated = number("updatedNumberScheduled");
  const [available, ready] = [number("numberAvailable"), number("numberReady")];
  return assessSteps([
    [isUnseen, "NoObservedGeneration", "its controller has not seen it yet"],
    [wanted === -1, "NoDesiredNumber", "its controller has not counted its nodes yet"],
    [wanted > current, "LessCurrent", describeCount(current, wanted, "Pods scheduled")],
    [wanted > updated, "LessUpdated", describeCount(updated, wanted, "Pods updated")],
    [wanted > available, "LessAvailable", describeCount(available, wanted, "Pods available")],
    [wanted > ready, "LessReady", describeCount(ready, wanted, "Pods ready")],
  ]);
};

/** A running Job is Current; of its Complete and Failed conditions, the first one counts. */
export const assessJob: Rule = ({ object, conditions }) => {
  const end = conditions.find(
    ({ type, status }) => status === "True" && (type === "Complete" || type === "Failed"),
  );
  if (end?.type === "Complete") return CURRENT;
  if (end !== undefined) return createFailed("JobFailed", end.message || end.reason || "has failed");
  return assessSteps([
    [readTextField(object, "status.startTime") === "", "JobNotStarted", "has not started"],
  ]);
};

/** A Pod that has ended is Current, whether it succeeded or failed. */
export const assessPod: Rule = (facts) => {
  const phase = readTextField(facts.object, "status.phase");
  if (phase === "Succeeded" || phase === "Failed") return CURRENT;
  if (phase === "Running") return assessRunningPod(facts);
  if (phase === "Pending") return assessPendingPod(facts);
  if (phase === "") return createInProgress("PodNotObserved", "has not been checked yet");
  throw new UnreadableError(`status.phase is ${phase}`);
};

/** A running Pod is Current when it is ready. It has failed when one of its containers crashes again and again. */
function assessRunningPod({ object, conditions }: RuleInput): Assessment {
  if (hasCondition(conditions, "Ready", "True")) return CURRENT;
  const crashing = findCrashLoopingContainers(object);
  if (crashing.length === 0) return createInProgress("PodRunningNotReady", "runs, but is not ready");
  return createFailed("ContainerCrashLooping", `crashes again and again: ${crashing.join(", ")}`);
}

/** How long a Pod may wait for a node before it counts as unschedulable. */
const SCHEDULE_WINDOW_MS = 15_000;

/** A pending Pod is in progress. It has failed when no node has accepted it for a while. */
function assessPendingPod({ object, conditions, now }: RuleInput): Assessment {
  const unscheduled = conditions.find(({ type, status }) => type === "PodScheduled" && status === "False");
  if (unscheduled?.reason !== "Unschedulable") return createInProgress("PodPending", "is pending");
  const created = parseTime(readTextField(object, "metadata.creationTimestamp"));
  if (now - SCHEDULE_WINDOW_MS < created) return createInProgress("PodNotScheduled", "has no node yet");
  return createFailed("PodUnschedulable", unscheduled.message || "no node takes it");
}

/** Parses a time in RFC 3339 to ms since the epoch; an invalid time counts as long ago. */
function parseTime(text: string): number {
  const isTime = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)$/.test(text);
  const time = isTime ? Date.parse(text) : NaN;
  return Number.isNaN(time) ? -Infinity : time;
}

/** The names of the containers of a Pod that are in CrashLoopBackOff. As kstatus, throws UnreadableError for a member of a wrong type, null included. */
function findCrashLoopingContainers({ status }: JsonObject): string[] {
  const list = isJsonObject(status) ? member(status, "containerStatuses") : undefined;
  if (list === undefined) return [];
  if (!Array.isArray(list)) throw new UnreadableError("status.containerStatuses is no list");
  return list.flatMap((each) => {
    const container = requireObject(each);
    if (!Object.hasOwn(container, "name")) return [];
    const name = requireText(container["name"]);
    const state = Object.hasOwn(container, "state") ? requireObject(container["state"]) : {};
    const waiting = Object.hasOwn(state, "waiting") ? requireObject(state["waiting"]) : {};
    const reason = Object.hasOwn(waiting, "reason") ? requireText(waiting["reason"]) : "";
    return reason === "CrashLoopBackOff" ? [name] : [];
  });
}

function requireObject(value: Json | undefined): JsonObject {
  if (!isJsonObject(value)) throw new UnreadableError("status.containerStatuses cannot be read");
  return value;
}

function requireText(value: Json | undefined): string {
  if (typeof value !== "string") throw new UnreadableError("status.containerStatuses cannot be read");
  return value;
}
