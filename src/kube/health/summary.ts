/**
 * The health of a release, summarized from its objects and their Pods. The *finding* of an object has its status by kstatus (Current is
 * healthy). A *lost* object was healthy in this generation: the cause may lie outside, such as a drained node. A Pod `isWanted` if it is of
 * the revision that its workload's spec requests.
 */

import { conditionOf, objectOf, objectsIn, asString, type JsonObject } from "../../base/model/index.ts";
import type { Finding } from "./finding.ts";
import { readInt, type HealthStatus, type Assessment } from "./rule.ts";

/** An object of a release, with its finding. */
export interface AssessedObject {
  /** `namespace/Kind/name`, or `Kind/name`. */
  readonly name: string;
  /** `Kind namespace/name`, or `Kind name`. */
  readonly title: string;
  /** Undefined before its kind was listed. */
  readonly finding: Finding | undefined;
  /** The most informative issue among its Pods. */
  readonly pod: NamedIssue | undefined;
}

interface UnhealthyObject extends Assessment {
  readonly object: string;
}

interface HealthCounts {
  readonly total: number;
  readonly current: number;
  readonly inProgress: number;
  readonly failed: number;
  readonly terminating: number;
  readonly unknown: number;
}

/** Whether a release is healthy, and why not. */
export interface HealthCondition {
  readonly status: "True" | "False" | "Unknown";
  readonly reason: string;
  readonly message: string;
  /**
   * All unhealthy objects were healthy in this generation, and their time limit is not over: the cause may lie outside, such
   * as a drained node, and does not count against the revision.
   */
  readonly isOutage?: true;
  /** In progress, but a Pod of the current revision crashes or cannot start: no target for a rollback. */
  readonly isFailing?: true;
}

/** Whether a condition proves that a revision does not work. */
export function provesBroken(condition: Pick<HealthCondition, "status" | "isOutage"> | undefined): boolean {
  return condition?.status === "False" && condition.isOutage !== true;
}

/**
 * Whether a failed upgrade may be rolled back to a revision that had this condition when the upgrade began: a rollback to a revision that
 * does not work would help nobody. A revision in progress may be a target, because its health may only not be known yet.
 */
export function mayBeRollbackTarget(
  condition: Pick<HealthCondition, "status" | "isFailing"> | undefined,
): boolean {
  return condition?.status !== "False" && condition?.isFailing !== true;
}

export interface Health extends HealthCondition {
  readonly counts: HealthCounts;
  /** Objects that are not Current, the worst first; at most 20. */
  readonly ailments: readonly UnhealthyObject[];
}

/** The current time, and how long an object may be in progress, both in ms. */
export interface Timing {
  readonly now: number;
  readonly timeoutMs: number;
}

const MAX_LISTED_OBJECTS = 20;

/** `lost`: it was healthy, and its spec has not changed since. */
type Level = "unhealthy" | "lost" | "inProgress" | "unknown" | "healthy";
type ByLevel = Record<Level, AssessedObject[]>;

/**
 * Summarizes the health of a release from its objects: True if all objects are Current, False if one of them is unhealthy or lost,
 * otherwise Unknown.
 */
export function summarizeHealth(targets: readonly AssessedObject[], timing: Timing): Health {
  const byLevel: ByLevel = { unhealthy: [], lost: [], inProgress: [], unknown: [], healthy: [] };
  for (const target of targets) byLevel[getLevel(target, timing)].push(target);
  const unhealthy = [...byLevel.unhealthy, ...byLevel.lost];
  const notReady = [...unhealthy, ...byLevel.inProgress, ...byLevel.unknown];
  return {
    ...buildCondition(byLevel),
    counts: countByStatus(targets),
    ailments: notReady
      .slice(0, MAX_LISTED_OBJECTS)
      .map((target) => toListedObject(target, unhealthy.includes(target))),
  };
}

/**
 * Classifies an object. An object that is not Current is unhealthy when its time limit is over or a Pod of its current revision will
 * not recover, lost if it was healthy before in this generation, otherwise in progress.
 */
function getLevel({ finding, pod }: AssessedObject, { now, timeoutMs }: Timing): Level {
  if (finding === undefined || finding.status === "Unknown") return "unknown";
  if (finding.status === "Current") return "healthy";
  // A Pod of another revision is going to be replaced.
  const hasBrokenPod = pod?.isPermanent === true && pod.isWanted;
  if (hasBrokenPod || now - finding.since >= timeoutMs) return "unhealthy";
  if (finding.isLost) return "lost";
  return finding.status === "Failed" ? "unhealthy" : "inProgress";
}

/** Levels that are not healthy, the worst first. */
const PROBLEM_LEVELS = ["unhealthy", "lost", "inProgress", "unknown"] as const;

/** Builds the condition of a release by the worst level that has objects. Its message names the first of these objects. */
function buildCondition(byLevel: ByLevel): HealthCondition {
  const level = PROBLEM_LEVELS.find((each) => byLevel[each].length > 0) ?? "healthy";
  const [first] = byLevel[level];
  if (level === "healthy" || first === undefined) {
    const message = `All objects are healthy (${byLevel.healthy.length})`;
    return { status: "True", reason: "Healthy", message };
  }
  const isUnhealthy = level === "unhealthy" || level === "lost";
  const message = describeTarget(first, byLevel[level].length, isUnhealthy);
  if (isUnhealthy)
    return { status: "False", reason: "Unhealthy", message, ...(level === "lost" && { isOutage: true }) };
  if (level === "unknown") return { status: "Unknown", reason: getReason(first), message };
  // The revision must not become the target of a rollback, although its time limit is not over.
  const isFailing = byLevel.inProgress.some(({ pod }) => pod?.isWanted === true && isContainerBroken(pod));
  return { status: "Unknown", reason: "Progressing", message, ...(isFailing && { isFailing }) };
}

/** Finds the time at which the next object exceeds its time limit, so that it has to be assessed again; Infinity for none. */
export function findReassessTime(targets: readonly AssessedObject[], timing: Timing): number {
  let earliest = Infinity;
  for (const target of targets) {
    const level = getLevel(target, timing);
    const mayExceed = level === "inProgress" || level === "lost";
    if (mayExceed) earliest = Math.min(earliest, (target.finding?.since ?? Infinity) + timing.timeoutMs);
  }
  return earliest;
}

const UNCHECKED = { reason: "NotLookedAt", message: "has not been checked yet" };

/** The reason of a finding for the status; an unchecked object has its own. */
function getReason({ finding }: AssessedObject): string {
  return (finding ?? UNCHECKED).reason || "Unhealthy";
}

/** E.g. `Deployment kube-system/web: 1 of 3 replicas available; Pod web-7d-x: CrashLoopBackOff: exit code 1`. */
function describeTarget(target: AssessedObject, count: number, isUnhealthy: boolean): string {
  const more = count > 1 ? ` (and ${count - 1} more)` : "";
  return `${target.title}: ${describeIssue(target, isUnhealthy)}${more}`;
}

/** Why an object is not Current, with the issue of its Pod, and the remedy if an old Pod blocks a StatefulSet. */
function describeIssue({ finding, pod }: AssessedObject, isUnhealthy: boolean): string {
  const message = finding?.message ?? UNCHECKED.message;
  if (pod === undefined) return message;
  const text = `${message}; Pod ${pod.name}: ${pod.text}`;
  return blocksRollout(finding, pod, isUnhealthy)
    ? `${text}; delete Pod ${pod.name}: its StatefulSet waits for it before it creates the next one`
    : text;
}

/** Whether a Pod of an old revision blocks an ordered StatefulSet: it will not become ready, and the controller does not replace it. */
function blocksRollout(finding: Finding | undefined, pod: NamedIssue, isUnhealthy: boolean): boolean {
  return finding?.isOrdered === true && !pod.isWanted && (isUnhealthy || isContainerBroken(pod));
}

/** An object that is not Current, as the status lists it. `isUnhealthy`: it makes the release unhealthy, so it is not only in progress. */
function toListedObject(target: AssessedObject, isUnhealthy: boolean): UnhealthyObject {
  const status = target.finding?.status ?? "Unknown";
  const message = describeIssue(target, isUnhealthy);
  return { object: target.name, status, reason: getReason(target), message };
}

/** Counts the objects by their status; an unchecked object counts as unknown. */
function countByStatus(targets: readonly AssessedObject[]): HealthCounts {
  const countWith = (status: HealthStatus): number =>
    targets.filter(({ finding }) => (finding?.status ?? "Unknown") === status).length;
  return {
    total: targets.length,
    current: countWith("Current"),
    inProgress: countWith("InProgress"),
    failed: countWith("Failed"),
    terminating: countWith("Terminating"),
    unknown: countWith("Unknown"),
  };
}

/** Why a Pod is not ready. */
interface PodIssue {
  /** E.g. `CrashLoopBackOff: exit code 1`. */
  readonly text: string;
  /** More informative issues have higher ranks. */
  readonly rank: number;
  /** It was retried so often that it will not recover by itself. */
  readonly isPermanent: boolean;
}

export interface NamedIssue extends PodIssue {
  readonly name: string;
  /** The Pod is of the revision that its workload's spec requests. */
  readonly isWanted: boolean;
}

/** A container that crashed more often than this is expected never to start. */
const MOST_RESTARTS = 3;
/** Ranks of issues, see `PodIssue.rank`. */
const RANK = { crashes: 5, refused: 4, ended: 3, unscheduled: 2, unready: 1, starts: 0 };

/** Whether a container does not run, rather than a Pod that is only not ready yet. */
function isContainerBroken({ rank }: PodIssue): boolean {
  return rank >= RANK.ended;
}

/** Finds the most informative reason why a Pod is not ready; undefined if it is ready, has succeeded, or has no status yet. */
export function findPodIssue(pod: JsonObject): PodIssue | undefined {
  const status = objectOf(pod["status"]);
  if (status["phase"] === "Succeeded" || conditionOf(pod, "Ready", "True") !== undefined) return undefined;
  const keys = ["initContainerStatuses", "containerStatuses"];
  const containers = keys.flatMap((key) => objectsIn(status[key]));
  const issues = [...containers.flatMap(findContainerIssues), ...findPodLevelIssues(pod, status)];
  return issues.toSorted((a, b) => b.rank - a.rank)[0];
}

/** Finds out why a container does not run, as a list of at most one issue; empty if it runs or has succeeded. */
function findContainerIssues(container: JsonObject): PodIssue[] {
  const state = objectOf(container["state"]);
  const waiting = objectOf(state["waiting"]);
  const reason = asString(waiting["reason"]) ?? "";
  if (reason === "CrashLoopBackOff") {
    const end = describeExit(objectOf(objectOf(container["lastState"])["terminated"]));
    const isPermanent = readInt(container, "restartCount", 0) > MOST_RESTARTS;
    return [{ text: [reason, ...end].join(": "), rank: RANK.crashes, isPermanent }];
  }
  // Such as `ErrImagePull`, `ImagePullBackOff`, `InvalidImageName`, `CreateContainerConfigError`.
  if (/Err|BackOff|Invalid|Never/.test(reason))
    return [createIssue(reason, waiting["message"], RANK.refused)];
  const [end] = describeExit(objectOf(state["terminated"]));
  if (end !== undefined) return [createIssue(end, undefined, RANK.ended)];
  // It waits for a volume, a network, or earlier containers; the Pod's Events say which.
  return reason === "" ? [] : [createIssue(reason, waiting["message"], RANK.starts)];
}

/** Describes the exit code of a container, as a list of one text; empty if it succeeded or has not ended. */
function describeExit(terminated: JsonObject): string[] {
  const { exitCode, reason } = terminated;
  if (typeof exitCode !== "number" || exitCode === 0) return [];
  // The reason `Error` says no more than the exit code, in contrast to `OOMKilled`.
  const why = typeof reason === "string" && reason !== "Error" ? ` (${reason})` : "";
  return [`exit code ${exitCode}${why}`];
}

/** The issue of the Pod as a whole: it has failed, has no node, or runs but is not ready. Empty without an issue. */
function findPodLevelIssues(pod: JsonObject, status: JsonObject): PodIssue[] {
  if (status["phase"] === "Failed")
    return [createIssue(asString(status["reason"]) ?? "Failed", status["message"], RANK.ended)];
  const unscheduled = conditionOf(pod, "PodScheduled", "False");
  if (unscheduled !== undefined) {
    const reason = asString(unscheduled["reason"]) ?? "Unschedulable";
    return [createIssue(reason, unscheduled["message"], RANK.unscheduled)];
  }
  const unready = conditionOf(pod, "Ready", "False");
  // A pending Pod is never ready; its containers say what they wait for.
  const isRunningUnready = unready !== undefined && status["phase"] === "Running";
  return isRunningUnready ? [createIssue("not ready", unready["message"], RANK.unready)] : [];
}

/** An issue of a Pod that may pass, with its message if there is one. */
function createIssue(reason: string, message: unknown, rank: number): PodIssue {
  const why = asString(message) ?? "";
  return { text: why === "" ? reason : `${reason}: ${why}`, rank, isPermanent: false };
}
