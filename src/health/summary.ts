/** The health of a release, summarized from its objects and their Pods. */

import { conditionOf, objectOf, objectsIn, asString, type JsonObject } from "../model/index.ts";
import type { Finding } from "./finding.ts";
import { intAt, type HealthStatus, type Assessment } from "./rule.ts";

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

/** Numbers of objects by status. */
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

/** Whether a failed upgrade may be rolled back to a revision that had this condition when the upgrade began. */
export function mayBeGood(condition: Pick<HealthCondition, "status" | "isFailing"> | undefined): boolean {
  return condition?.status !== "False" && condition?.isFailing !== true;
}

/** The health of a release. */
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

const MOST_AILMENTS = 20;

/** `lost`: it was healthy, and its spec has not changed since. */
type Level = "unhealthy" | "lost" | "inProgress" | "unknown" | "healthy";

/** True when all objects are Current, False when one of them is unhealthy or lost, otherwise Unknown. */
export function healthOf(targets: readonly AssessedObject[], timing: Timing): Health {
  const by = { unhealthy: [], lost: [], inProgress: [], unknown: [], healthy: [] } as Record<
    Level,
    AssessedObject[]
  >;
  for (const target of targets) by[levelOf(target, timing)].push(target);
  const unhealthy = [...by.unhealthy, ...by.lost];
  const notReady = [...unhealthy, ...by.inProgress, ...by.unknown];
  return {
    ...condition(by),
    counts: countsOf(targets),
    ailments: notReady
      .slice(0, MOST_AILMENTS)
      .map((target) => healthIssueOf(target, unhealthy.includes(target))),
  };
}

/** How well an object is. An object in progress becomes unhealthy when its time limit is over. */
function levelOf({ finding, pod }: AssessedObject, { now, timeoutMs }: Timing): Level {
  if (finding === undefined || finding.status === "Unknown") return "unknown";
  if (finding.status === "Current") return "healthy";
  // A Pod of another revision does not matter.
  if ((pod?.isPermanent === true && pod.isWanted) || now - finding.since >= timeoutMs) return "unhealthy";
  if (finding.isLost) return "lost";
  return finding.status === "Failed" ? "unhealthy" : "inProgress";
}

/** The condition by the worst level at which there are objects. */
function condition(by: Record<Level, readonly AssessedObject[]>): HealthCondition {
  const [unhealthy] = by.unhealthy;
  if (unhealthy !== undefined)
    return {
      status: "False",
      reason: "Unhealthy",
      message: describeTarget(unhealthy, by.unhealthy.length, true),
    };
  const [lost] = by.lost;
  if (lost !== undefined) {
    const message = describeTarget(lost, by.lost.length, true);
    return { status: "False", reason: "Unhealthy", message, isOutage: true };
  }
  const [running] = by.inProgress;
  if (running !== undefined) {
    const message = describeTarget(running, by.inProgress.length);
    const isFailing = by.inProgress.some(({ pod }) => pod?.isWanted === true && isBroken(pod));
    return { status: "Unknown", reason: "Progressing", message, ...(isFailing && { isFailing }) };
  }
  const [unknown] = by.unknown;
  if (unknown !== undefined)
    return {
      status: "Unknown",
      reason: reasonOf(unknown),
      message: describeTarget(unknown, by.unknown.length),
    };
  const message = `All objects are as they should be (${by.healthy.length})`;
  return { status: "True", reason: "Healthy", message };
}

/** When the next object will have been in progress for too long; Infinity where none is in progress. */
export function reassessAt(targets: readonly AssessedObject[], timing: Timing): number {
  const ends = targets.map((target) =>
    ["inProgress", "lost"].includes(levelOf(target, timing))
      ? (target.finding?.since ?? Infinity) + timing.timeoutMs
      : Infinity,
  );
  return ends.reduce((a, b) => Math.min(a, b), Infinity);
}

const UNSEEN = { reason: "NotLookedAt", message: "has not been checked yet" };

function reasonOf({ finding = UNSEEN }: { readonly finding?: Pick<Finding, "reason"> | undefined }): string {
  return finding.reason || "Unhealthy";
}

/** E.g. `Deployment kube-system/web: 1 of 3 replicas available; Pod web-7d-x: CrashLoopBackOff: exit code 1`. */
function describeTarget(target: AssessedObject, count: number, isUnhealthy = false): string {
  const more = count > 1 ? ` (and ${count - 1} more)` : "";
  return `${target.title}: ${messageOf(target, isUnhealthy)}${more}`;
}

/** Why an object is not Current, with the issue of its Pod, and the remedy if an old Pod blocks a StatefulSet. */
function messageOf({ finding, pod }: AssessedObject, isUnhealthy: boolean): string {
  const message = finding?.message ?? UNSEEN.message;
  if (pod === undefined) return message;
  const text = `${message}; Pod ${pod.name}: ${pod.text}`;
  return blocksRollout(finding, pod, isUnhealthy)
    ? `${text}; delete Pod ${pod.name}: its StatefulSet waits for it before it makes another one`
    : text;
}

/** Whether a Pod of an old revision blocks an ordered StatefulSet: it will not become ready, and the controller does not replace it. */
function blocksRollout(finding: Finding | undefined, pod: NamedIssue, isUnhealthy: boolean): boolean {
  return finding?.isOrdered === true && !pod.isWanted && (isUnhealthy || isBroken(pod));
}

function healthIssueOf(target: AssessedObject, isUnhealthy: boolean): UnhealthyObject {
  const status = target.finding?.status ?? "Unknown";
  return { object: target.name, status, reason: reasonOf(target), message: messageOf(target, isUnhealthy) };
}

function countsOf(targets: readonly AssessedObject[]): HealthCounts {
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
function isBroken({ rank }: PodIssue): boolean {
  return rank >= RANK.ended;
}

/** The most informative issue of a Pod; undefined where it is ready, has succeeded, or has no status yet. */
export function podIssue(pod: JsonObject): PodIssue | undefined {
  const status = objectOf(pod["status"]);
  if (status["phase"] === "Succeeded" || conditionOf(pod, "Ready", "True") !== undefined) return undefined;
  const containers = [
    ...objectsIn(status["initContainerStatuses"]),
    ...objectsIn(status["containerStatuses"]),
  ];
  const issues = [...containers.flatMap(containerIssue), ...podItself(pod, status)];
  return issues.toSorted((a, b) => b.rank - a.rank)[0];
}

/** Why a container does not run. Empty if it runs or has succeeded. */
function containerIssue(container: JsonObject): PodIssue[] {
  const state = objectOf(container["state"]);
  const waiting = objectOf(state["waiting"]);
  const reason = asString(waiting["reason"]) ?? "";
  if (reason === "CrashLoopBackOff") {
    const end = endOf(objectOf(objectOf(container["lastState"])["terminated"]));
    const isPermanent = intAt(container, "restartCount", 0) > MOST_RESTARTS;
    return [{ text: [reason, ...end].join(": "), rank: RANK.crashes, isPermanent }];
  }
  if (/Err|BackOff|Invalid|Never/.test(reason)) return [issue(reason, waiting["message"], RANK.refused)];
  const [end] = endOf(objectOf(state["terminated"]));
  if (end !== undefined) return [issue(end, undefined, RANK.ended)];
  // It waits for a volume, a network, or earlier containers; the Pod's Events say which.
  return reason === "" ? [] : [issue(reason, waiting["message"], RANK.starts)];
}

/** How a container ended, unless it succeeded. */
function endOf(terminated: JsonObject): string[] {
  const { exitCode, reason } = terminated;
  if (typeof exitCode !== "number" || exitCode === 0) return [];
  const why = typeof reason === "string" && reason !== "Error" ? ` (${reason})` : "";
  return [`exit code ${exitCode}${why}`];
}

/** The issue of the Pod as a whole: it has failed, has no node, or runs but is not ready. Empty without an issue. */
function podItself(pod: JsonObject, status: JsonObject): PodIssue[] {
  if (status["phase"] === "Failed")
    return [issue(asString(status["reason"]) ?? "Failed", status["message"], RANK.ended)];
  const unscheduled = conditionOf(pod, "PodScheduled", "False");
  if (unscheduled !== undefined)
    return [
      issue(asString(unscheduled["reason"]) ?? "Unschedulable", unscheduled["message"], RANK.unscheduled),
    ];
  const unready = conditionOf(pod, "Ready", "False");
  return unready === undefined || status["phase"] !== "Running"
    ? []
    : [issue("not ready", unready["message"], RANK.unready)];
}

function issue(reason: string, message: unknown, rank: number): PodIssue {
  const why = asString(message) ?? "";
  return { text: why === "" ? reason : `${reason}: ${why}`, rank, isPermanent: false };
}
