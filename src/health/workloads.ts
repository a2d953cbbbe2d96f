/** The rules of kstatus for Pods and workloads. */

import { isJsonObject, member, type Json, type JsonObject } from "../model/index.ts";
import {
  describeCount,
  CURRENT,
  failed,
  firstMissing,
  generationIn,
  has,
  inProgress,
  intAt,
  textAt,
  UnreadableError,
  type Facts,
  type Assessment,
  type Rule,
  type StatusCondition,
  type Step,
} from "./rule.ts";

/** The default, which means no deadline: then the controller reports no progress. */
const NO_DEADLINE = 2 ** 31 - 1;

/** In progress until all replicas are of the current revision and available. Failed once the progress deadline is over. */
export const deployment: Rule = ({ object, conditions }) => {
  const deadlineExceeded = conditions.find(
    ({ type, reason }) => type === "Progressing" && reason === "ProgressDeadlineExceeded",
  );
  const spec = intAt(object, "spec.replicas", 1);
  const [all, updated] = [intAt(object, "status.replicas", 0), intAt(object, "status.updatedReplicas", 0)];
  const ready = intAt(object, "status.readyReplicas", 0);
  const available = intAt(object, "status.availableReplicas", 0);
  if (deadlineExceeded !== undefined)
    return failed(
      deadlineExceeded.reason,
      `${describeCount(available, spec, "replicas available")}, and its deadline is over`,
    );
  const isComplete =
    intAt(object, "spec.progressDeadlineSeconds", NO_DEADLINE) === NO_DEADLINE ||
    conditions.some(
      ({ type, status, reason }) =>
        type === "Progressing" && status === "True" && reason === "NewReplicaSetAvailable",
    );
  const why = refusal(conditions);
  return firstMissing([
    [spec > all, "LessReplicas", `${describeCount(all, spec, "replicas exist")}${why}`],
    [spec > updated, "LessUpdated", `${describeCount(updated, spec, "replicas updated")}${why}`],
    [all > spec, "ExtraPods", describeExtra(all - spec, all > updated) + why],
    [updated > available, "LessAvailable", describeCount(available, spec, "replicas available")],
    [spec > ready, "LessReady", describeCount(ready, spec, "replicas ready")],
    [!isComplete, "ReplicaSetNotAvailable", "its new ReplicaSet is not available"],
    [!has(conditions, "Available", "True"), "DeploymentNotAvailable", "is not available"],
  ]);
};

/** Describes replicas above the wanted number. */
function describeExtra(extra: number, areOld: boolean): string {
  return areOld
    ? `old replicas stay until the new ones are available (${extra} too many)`
    : `${extra} replicas too many`;
}

/** The text `: REASON` if Pods cannot be created, for example because of a quota; otherwise empty. */
function refusal(conditions: readonly StatusCondition[]): string {
  const found = conditions.find(({ type, status }) => type === "ReplicaFailure" && status === "True");
  return found === undefined || found.message === "" ? "" : `: ${found.message}`;
}

/** In progress until exactly the wanted number of replicas is labelled, available and ready. */
export const replicaSet: Rule = ({ object, conditions }) => {
  const spec = intAt(object, "spec.replicas", 1);
  const all = intAt(object, "status.replicas", 0);
  const labelled = intAt(object, "status.fullyLabeledReplicas", 0);
  const available = intAt(object, "status.availableReplicas", 0);
  const ready = intAt(object, "status.readyReplicas", 0);
  return firstMissing([
    [
      has(conditions, "ReplicaFailure", "True"),
      "ReplicaFailure",
      `its Pods cannot be created${refusal(conditions)}`,
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
export const statefulSet: Rule = ({ object }) => {
  if (textAt(object, "spec.updateStrategy.type") === "OnDelete") return CURRENT;
  const spec = intAt(object, "spec.replicas", 1);
  const [all, updated] = [intAt(object, "status.replicas", 0), intAt(object, "status.updatedReplicas", 0)];
  const ready = intAt(object, "status.readyReplicas", 0);
  const current = intAt(object, "status.currentReplicas", 0);
  const partition = intAt(object, "spec.updateStrategy.rollingUpdate.partition", NO_PARTITION);
  const revisions = ["currentRevision", "updateRevision"].map((key) => textAt(object, `status.${key}`));
  const wanted = spec - partition;
  const rollout: readonly Step[] =
    partition === NO_PARTITION
      ? [
          [spec > current, "LessCurrent", describeCount(current, spec, "replicas current")],
          [revisions[0] !== revisions[1], "RevisionMismatch", "its update is not complete"],
        ]
      : [[updated < wanted, "PartitionRollout", describeCount(updated, wanted, "replicas updated")]];
  return firstMissing([
    [spec > all, "LessReplicas", describeCount(all, spec, "replicas exist")],
    [spec > ready, "LessReady", describeCount(ready, spec, "replicas ready")],
    [all > spec, "ExtraPods", `${all - spec} replicas too many`],
    ...rollout,
  ]);
};

/** In progress until the current Pod is ready and available on each wanted node. */
export const daemonSet: Rule = ({ object }) => {
  const isUnseen =
    generationIn(object, "metadata", "generation") === undefined ||
    generationIn(object, "status", "observedGeneration") === undefined;
  const number = (key: string, otherwise = 0): number => intAt(object, `status.${key}`, otherwise);
  const wanted = number("desiredNumberScheduled", -1);
  const current = number("currentNumberScheduled");
  const updated = number("updatedNumberScheduled");
  const [available, ready] = [number("numberAvailable"), number("numberReady")];
  return firstMissing([
    [isUnseen, "NoObservedGeneration", "its controller has not seen it yet"],
    [wanted === -1, "NoDesiredNumber", "its controller has not counted its nodes yet"],
    [wanted > current, "LessCurrent", describeCount(current, wanted, "Pods scheduled")],
    [wanted > updated, "LessUpdated", describeCount(updated, wanted, "Pods updated")],
    [wanted > available, "LessAvailable", describeCount(available, wanted, "Pods available")],
    [wanted > ready, "LessReady", describeCount(ready, wanted, "Pods ready")],
  ]);
};

/** A running Job is Current; of its Complete and Failed conditions, the first one counts. */
export const job: Rule = ({ object, conditions }) => {
  const end = conditions.find(
    ({ type, status }) => status === "True" && (type === "Complete" || type === "Failed"),
  );
  if (end?.type === "Complete") return CURRENT;
  if (end !== undefined) return failed("JobFailed", end.message || end.reason || "has failed");
  return firstMissing([[textAt(object, "status.startTime") === "", "JobNotStarted", "has not started"]]);
};

/** A Pod that has ended is Current, whether it succeeded or failed. */
export const pod: Rule = (facts) => {
  const phase = textAt(facts.object, "status.phase");
  if (phase === "Succeeded" || phase === "Failed") return CURRENT;
  if (phase === "Running") return runningPod(facts);
  if (phase === "Pending") return pendingPod(facts);
  if (phase === "") return inProgress("PodNotObserved", "has not been checked yet");
  throw new UnreadableError(`status.phase is ${phase}`);
};

/** A running Pod is Current when it is ready. It has failed when one of its containers crashes again and again. */
function runningPod({ object, conditions }: Facts): Assessment {
  if (has(conditions, "Ready", "True")) return CURRENT;
  const crashing = crashLooping(object);
  if (crashing.length === 0) return inProgress("PodRunningNotReady", "runs, but is not ready");
  return failed("ContainerCrashLooping", `crashes again and again: ${crashing.join(", ")}`);
}

/** How long a Pod may wait for a node before it counts as unschedulable. */
const SCHEDULE_WINDOW_MS = 15_000;

/** A pending Pod is in progress. It has failed when no node has accepted it for a while. */
function pendingPod({ object, conditions, now }: Facts): Assessment {
  const unscheduled = conditions.find(({ type, status }) => type === "PodScheduled" && status === "False");
  if (unscheduled?.reason !== "Unschedulable") return inProgress("PodPending", "is pending");
  const created = timeOf(textAt(object, "metadata.creationTimestamp"));
  if (now - SCHEDULE_WINDOW_MS < created) return inProgress("PodNotScheduled", "has no node yet");
  return failed("PodUnschedulable", unscheduled.message || "no node takes it");
}

/** A time in RFC 3339, in ms since the epoch; long ago where it is none. */
function timeOf(text: string): number {
  const isTime = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)$/.test(text);
  const time = isTime ? Date.parse(text) : NaN;
  return Number.isNaN(time) ? -Infinity : time;
}

/** Names of containers in CrashLoopBackOff. */
function crashLooping({ status }: JsonObject): string[] {
  const list = isJsonObject(status) ? member(status, "containerStatuses") : undefined;
  if (list === undefined) return [];
  if (!Array.isArray(list)) throw new UnreadableError("status.containerStatuses is no list");
  return list.flatMap((each) => {
    const container = readable(each);
    if (!Object.hasOwn(container, "name")) return [];
    const name = readableText(container["name"]);
    const state = Object.hasOwn(container, "state") ? readable(container["state"]) : {};
    const waiting = Object.hasOwn(state, "waiting") ? readable(state["waiting"]) : {};
    const reason = Object.hasOwn(waiting, "reason") ? readableText(waiting["reason"]) : "";
    return reason === "CrashLoopBackOff" ? [name] : [];
  });
}

/** A value that must be an object. Throws UnreadableError. */
function readable(value: Json | undefined): JsonObject {
  if (!isJsonObject(value)) throw new UnreadableError("status.containerStatuses cannot be read");
  return value;
}

function readableText(value: Json | undefined): string {
  if (typeof value !== "string") throw new UnreadableError("status.containerStatuses cannot be read");
  return value;
}
