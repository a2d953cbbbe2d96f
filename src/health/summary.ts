/** The health of a release: what its objects and their Pods say, taken together. */

import { conditionOf, objectOf, objectsIn, textOf, type JsonObject } from "../model/index.ts";
import type { Finding } from "./finding.ts";
import { intAt, type HealthStatus } from "./rule.ts";

/** An object of a release, as it was found. */
export interface Patient {
  /** `namespace/Kind/name`, or `Kind/name`. */
  readonly name: string;
  /** `Kind namespace/name`, or `Kind name`. */
  readonly title: string;
  /** Undefined before its kind was listed. */
  readonly finding: Finding | undefined;
  /** Its Pod that tells the most. */
  readonly pod: NamedTrouble | undefined;
}

/** An object that is not Current. */
interface Ailment {
  readonly object: string;
  readonly status: HealthStatus;
  readonly reason: string;
  readonly message: string;
}

/** How many objects have which status. */
interface HealthCounts {
  readonly total: number;
  readonly current: number;
  readonly inProgress: number;
  readonly failed: number;
  readonly terminating: number;
  readonly unknown: number;
}

/** Whether a release is healthy, and why not. */
export interface HealthVerdict {
  readonly status: "True" | "False" | "Unknown";
  readonly reason: string;
  readonly message: string;
  /**
   * All that is unhealthy was healthy in this generation, and not for the time limit: the cause may lie outside, such as a
   * drained node, and nothing is held against the revision.
   */
  readonly isOutage?: true;
  /** On its way, but a Pod of the wanted revision crashes or cannot start: nobody should go back to this. */
  readonly isFailing?: true;
}

/** Whether a revision has proved not to work. */
export function provesBroken(verdict: Pick<HealthVerdict, "status" | "isOutage"> | undefined): boolean {
  return verdict?.status === "False" && verdict.isOutage !== true;
}

/** Whether a failed upgrade may go back to a revision of which that is known as the upgrade begins. */
export function mayBeGood(verdict: Pick<HealthVerdict, "status" | "isFailing"> | undefined): boolean {
  return verdict?.status !== "False" && verdict?.isFailing !== true;
}

/** The health of a release. */
export interface Health extends HealthVerdict {
  readonly counts: HealthCounts;
  /** What is not Current, the worst first; at most 20. */
  readonly ailments: readonly Ailment[];
}

/** The moment, and how long an object may be under way. */
export interface Patience {
  readonly now: number;
  readonly timeoutMs: number;
}

const MOST_AILMENTS = 20;

/** `lost`: it was healthy without anybody asking for anything new since. */
type Level = "ill" | "lost" | "underWay" | "unknown" | "well";

/** Healthy when all objects are Current, not healthy when one of them is ill, unknown while it may still become well. */
export function healthOf(patients: readonly Patient[], patience: Patience): Health {
  const by = { ill: [], lost: [], underWay: [], unknown: [], well: [] } as Record<Level, Patient[]>;
  for (const patient of patients) by[levelOf(patient, patience)].push(patient);
  const unhealthy = [...by.ill, ...by.lost];
  const ailing = [...unhealthy, ...by.underWay, ...by.unknown];
  return {
    ...verdict(by),
    counts: countsOf(patients),
    ailments: ailing
      .slice(0, MOST_AILMENTS)
      .map((patient) => ailmentOf(patient, unhealthy.includes(patient))),
  };
}

function levelOf({ finding, pod }: Patient, { now, timeoutMs }: Patience): Level {
  if (finding === undefined || finding.status === "Unknown") return "unknown";
  if (finding.status === "Current") return "well";
  if (isHopeless(pod) || now - finding.since >= timeoutMs) return "ill";
  if (finding.isLost) return "lost";
  return finding.status === "Failed" ? "ill" : "underWay";
}

/** A Pod of another revision says nothing about the one that is wanted. */
function isHopeless(pod: NamedTrouble | undefined): boolean {
  return pod?.isHopeless === true && pod.isWanted;
}

function verdict(by: Record<Level, readonly Patient[]>): HealthVerdict {
  const [ill] = by.ill;
  if (ill !== undefined)
    return { status: "False", reason: "Unhealthy", message: told(ill, by.ill.length, true) };
  const [lost] = by.lost;
  if (lost !== undefined) {
    const message = told(lost, by.lost.length, true);
    return { status: "False", reason: "Unhealthy", message, isOutage: true };
  }
  const [underWay] = by.underWay;
  if (underWay !== undefined) {
    const message = told(underWay, by.underWay.length);
    const isFailing = by.underWay.some(({ pod }) => pod?.isWanted === true && isBroken(pod));
    return { status: "Unknown", reason: "Progressing", message, ...(isFailing && { isFailing }) };
  }
  const [unknown] = by.unknown;
  if (unknown !== undefined)
    return { status: "Unknown", reason: reasonOf(unknown), message: told(unknown, by.unknown.length) };
  const message = `All objects are as they should be (${by.well.length})`;
  return { status: "True", reason: "Healthy", message };
}

/** When the next object has been under way for too long; Infinity where none is. */
export function dueAt(patients: readonly Patient[], patience: Patience): number {
  const ends = patients.map((patient) =>
    ["underWay", "lost"].includes(levelOf(patient, patience))
      ? (patient.finding?.since ?? Infinity) + patience.timeoutMs
      : Infinity,
  );
  return ends.reduce((a, b) => Math.min(a, b), Infinity);
}

const UNSEEN = { reason: "NotLookedAt", message: "was not looked at yet" };

function reasonOf({ finding = UNSEEN }: { readonly finding?: Pick<Finding, "reason"> | undefined }): string {
  return finding.reason || "Unhealthy";
}

/** E.g. `Deployment kube-system/web: 1 of 3 replicas available; Pod web-7d-x: CrashLoopBackOff: exit code 1`. */
function told(patient: Patient, count: number, isIll = false): string {
  const more = count > 1 ? ` (and ${count - 1} more)` : "";
  return `${patient.title}: ${messageOf(patient, isIll)}${more}`;
}

function messageOf({ finding, pod }: Patient, isIll: boolean): string {
  const message = finding?.message ?? UNSEEN.message;
  if (pod === undefined) return message;
  const text = `${message}; Pod ${pod.name}: ${pod.text}`;
  return isInTheWay(finding, pod, isIll)
    ? `${text}; delete Pod ${pod.name}: its StatefulSet waits for it before it makes another one`
    : text;
}

/** A Pod of a revision that is not wanted any more, and that will not become ready: nobody replaces it. */
function isInTheWay(finding: Finding | undefined, pod: NamedTrouble, isIll: boolean): boolean {
  return finding?.isOrdered === true && !pod.isWanted && (isIll || isBroken(pod));
}

function ailmentOf(patient: Patient, isIll: boolean): Ailment {
  const status = patient.finding?.status ?? "Unknown";
  return { object: patient.name, status, reason: reasonOf(patient), message: messageOf(patient, isIll) };
}

function countsOf(patients: readonly Patient[]): HealthCounts {
  const of = (status: HealthStatus): number =>
    patients.filter(({ finding }) => (finding?.status ?? "Unknown") === status).length;
  return {
    total: patients.length,
    current: of("Current"),
    inProgress: of("InProgress"),
    failed: of("Failed"),
    terminating: of("Terminating"),
    unknown: of("Unknown"),
  };
}

/** What keeps a Pod from being ready. */
interface PodTrouble {
  /** E.g. `CrashLoopBackOff: exit code 1`. */
  readonly text: string;
  /** The more it tells, the higher. */
  readonly rank: number;
  /** It has been tried often enough: it will not come right by itself. */
  readonly isHopeless: boolean;
}

/** The trouble of a Pod, and its name. */
export interface NamedTrouble extends PodTrouble {
  readonly name: string;
  /** The Pod is of the revision that its workload's spec asks for. */
  readonly isWanted: boolean;
}

/** A container that crashed more often than this is not going to start. */
const MOST_RESTARTS = 3;
/** How much each finding tells. */
const RANK = { crashes: 5, refused: 4, ended: 3, unscheduled: 2, unready: 1, starts: 0 };

/** Whether it tells of a container that does not run, and not only of a Pod that is not ready yet. */
function isBroken({ rank }: PodTrouble): boolean {
  return rank >= RANK.ended;
}

/** Undefined where a Pod is ready, has succeeded, or says nothing yet. */
export function podTrouble(pod: JsonObject): PodTrouble | undefined {
  const status = objectOf(pod["status"]);
  if (status["phase"] === "Succeeded" || conditionOf(pod, "Ready", "True") !== undefined) return undefined;
  const containers = [
    ...objectsIn(status["initContainerStatuses"]),
    ...objectsIn(status["containerStatuses"]),
  ];
  const troubles = [...containers.flatMap(containerTrouble), ...podItself(pod, status)];
  return troubles.toSorted((a, b) => b.rank - a.rank)[0];
}

function containerTrouble(container: JsonObject): PodTrouble[] {
  const state = objectOf(container["state"]);
  const waiting = objectOf(state["waiting"]);
  const reason = textOf(waiting["reason"]) ?? "";
  if (reason === "CrashLoopBackOff") {
    const end = endOf(objectOf(objectOf(container["lastState"])["terminated"]));
    const isHopeless = intAt(container, "restartCount", 0) > MOST_RESTARTS;
    return [{ text: [reason, ...end].join(": "), rank: RANK.crashes, isHopeless }];
  }
  if (/Err|BackOff|Invalid|Never/.test(reason)) return [trouble(reason, waiting["message"], RANK.refused)];
  const [end] = endOf(objectOf(state["terminated"]));
  if (end !== undefined) return [trouble(end, undefined, RANK.ended)];
  // It waits for a volume, a network, or the containers before it: events of the Pod say which.
  return reason === "" ? [] : [trouble(reason, waiting["message"], RANK.starts)];
}

/** How a container ended, unless it succeeded. */
function endOf(terminated: JsonObject): string[] {
  const { exitCode, reason } = terminated;
  if (typeof exitCode !== "number" || exitCode === 0) return [];
  const why = typeof reason === "string" && reason !== "Error" ? ` (${reason})` : "";
  return [`exit code ${exitCode}${why}`];
}

function podItself(pod: JsonObject, status: JsonObject): PodTrouble[] {
  if (status["phase"] === "Failed")
    return [trouble(textOf(status["reason"]) ?? "Failed", status["message"], RANK.ended)];
  const unscheduled = conditionOf(pod, "PodScheduled", "False");
  if (unscheduled !== undefined)
    return [
      trouble(textOf(unscheduled["reason"]) ?? "Unschedulable", unscheduled["message"], RANK.unscheduled),
    ];
  const unready = conditionOf(pod, "Ready", "False");
  return unready === undefined || status["phase"] !== "Running"
    ? []
    : [trouble("not ready", unready["message"], RANK.unready)];
}

function trouble(reason: string, message: unknown, rank: number): PodTrouble {
  const why = textOf(message) ?? "";
  return { text: why === "" ? reason : `${reason}: ${why}`, rank, isHopeless: false };
}
