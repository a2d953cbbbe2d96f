/** The health of a release: what its objects say, taken together. */

import type { Finding } from "./finding.ts";
import { isBroken } from "./pod-trouble.ts";
import type { NamedTrouble } from "./pod-trouble.ts";
import type { HealthStatus } from "./rule.ts";

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

type Level = "ill" | "underWay" | "unknown" | "well";

/** Healthy when all objects are Current, not healthy when one of them is ill, unknown while it may still become well. */
export function healthOf(patients: readonly Patient[], patience: Patience): Health {
  const by = { ill: [], underWay: [], unknown: [], well: [] } as Record<Level, Patient[]>;
  for (const patient of patients) by[levelOf(patient, patience)].push(patient);
  const ailing = [...by.ill, ...by.underWay, ...by.unknown];
  return {
    ...verdict(by),
    counts: countsOf(patients),
    ailments: ailing.slice(0, MOST_AILMENTS).map((patient) => ailmentOf(patient, by.ill.includes(patient))),
  };
}

function levelOf({ finding, pod }: Patient, { now, timeoutMs }: Patience): Level {
  if (finding === undefined || finding.status === "Unknown") return "unknown";
  if (finding.status === "Current") return "well";
  // What was well without anybody asking for anything new since is a loss, not a rollout.
  if (finding.status === "Failed" || finding.isLost || pod?.isHopeless === true) return "ill";
  return now - finding.since >= timeoutMs ? "ill" : "underWay";
}

function verdict(by: Record<Level, readonly Patient[]>): HealthVerdict {
  const [ill] = by.ill;
  if (ill !== undefined)
    return { status: "False", reason: "Unhealthy", message: told(ill, by.ill.length, true) };
  const [underWay] = by.underWay;
  if (underWay !== undefined)
    return { status: "Unknown", reason: "Progressing", message: told(underWay, by.underWay.length) };
  const [unknown] = by.unknown;
  if (unknown !== undefined)
    return { status: "Unknown", reason: reasonOf(unknown), message: told(unknown, by.unknown.length) };
  const message = `All objects are as they should be (${by.well.length})`;
  return { status: "True", reason: "Healthy", message };
}

/** When the next object has been under way for too long; Infinity where none is. */
export function dueAt(patients: readonly Patient[], patience: Patience): number {
  const ends = patients.map((patient) =>
    levelOf(patient, patience) === "underWay"
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
  if (finding?.makes === undefined || pod.revision === undefined || pod.revision === finding.makes)
    return false;
  return isIll || isBroken(pod);
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
