/** What is kept of an object of a release: its judgement, not the object. */

import type { CelTest } from "../lib/index.ts";
import { plainLine } from "../lib/index.ts";
import { conditionOf, isJsonObject, objectOf } from "../model/index.ts";
import type { JsonObject, LabelSelector } from "../model/index.ts";
import { count, CURRENT, inProgress, intAt, textAt, type Judgement } from "./rule.ts";
import { groupKind, judgeObject, kindOf } from "./judge.ts";

/** A judgement with what is needed to tell an object under way from one that is ill. */
export interface Finding extends Judgement {
  /** Of its spec; undefined where the object has none. */
  readonly generation: number | undefined;
  /** The last generation in which it was Current. */
  readonly settled: number | undefined;
  /** Since when it has not been Current in this generation, in ms since the epoch. */
  readonly since: number;
  /** A Deployment that was Current in this generation and has fewer Pods now than its strategy allows. */
  readonly isLost: boolean;
  /** Where a workload is not Current: which Pods are its own. */
  readonly pods: LabelSelector | undefined;
  /** Where a StatefulSet is not Current that waits for each Pod before it replaces it: the revision of the Pods it makes. */
  readonly makes: string | undefined;
}

/** The moment, what was found of an object before, and what judges it instead of the rules. */
interface Look {
  /** Milliseconds since the epoch. */
  readonly now: number;
  readonly before?: Finding | undefined;
  readonly check?: CelTest | undefined;
}

const MOST_SAID = 500;

/** What is found of an object. */
export function findingOf(object: JsonObject, { now, before, check }: Look): Finding {
  const { status, reason, message } = leftAlone(object) ?? checked(object, now, check);
  // What objects say of themselves may be long, and meant for a terminal.
  const judged = { status, reason: plainLine(reason, MOST_SAID), message: plainLine(message, MOST_SAID) };
  const generation = intAt(object, "metadata.generation", 0) || undefined;
  if (judged.status === "Current") return { ...BARE, ...judged, generation, settled: generation, since: now };
  const settled = before?.settled;
  const since = judged.reason === PAUSED ? Infinity : sinceOf(generation, now, before);
  const wasWell = generation !== undefined && settled === generation;
  const isLost = wasWell && isUnavailable(object);
  return { ...judged, generation, settled, since, isLost, pods: podsOf(object), makes: madeBy(object) };
}

/** A check takes the place of all rules but one: what is being deleted is. */
function checked(object: JsonObject, now: number, check: CelTest | undefined): Judgement {
  const judged = judgeObject(object, now);
  if (check === undefined || judged.status === "Terminating") return judged;
  const { isMet, why } = check(object);
  if (isMet) return CURRENT;
  return inProgress("CheckNotMet", why === undefined ? "does not meet its check" : `has a check that ${why}`);
}

function sinceOf(generation: number | undefined, now: number, before: Finding | undefined): number {
  return before === undefined ||
    before.status === "Current" ||
    before.reason === PAUSED ||
    before.generation !== generation
    ? now
    : before.since;
}

const BARE = { generation: undefined, settled: undefined, isLost: false, pods: undefined, makes: undefined };

/** Of an object that is not there: it is brought back, however long that takes. */
export const NOT_FOUND: Finding = { ...BARE, ...inProgress("NotFound", "is not there"), since: Infinity };

/** Of an object whose kind cannot be watched. */
export function unwatched(why: string): Finding {
  return { ...BARE, status: "Unknown", reason: "NotWatched", message: `cannot be watched: ${why}`, since: 0 };
}

/**
 * What was stopped on purpose is as it should be: a Job that is suspended, a Deployment that is paused, unless a rollout
 * stands still in it.
 */
function leftAlone(object: JsonObject): Judgement | undefined {
  if (textAt(object, "metadata.deletionTimestamp") !== "") return undefined;
  const spec = objectOf(object["spec"]);
  const kind = kindOf(object);
  if (kind === "batch/Job" && spec["suspend"] === true && !hasEnded(object)) return CURRENT;
  if (kind !== "apps/Deployment" || spec["paused"] !== true || isUnavailable(object)) return undefined;
  const [updated, wanted] = [intAt(object, "status.updatedReplicas", 0), intAt(object, "spec.replicas", 1)];
  if (updated < wanted)
    return inProgress(PAUSED, `its rollout is paused: ${count(updated, wanted, "replicas updated")}`);
  const isSeen = intAt(object, "status.observedGeneration", 0) >= intAt(object, "metadata.generation", 0);
  return isSeen ? CURRENT : undefined;
}

/** However long it lasts, it is not ill: somebody is to resume it. */
const PAUSED = "RolloutPaused";

function hasEnded(object: JsonObject): boolean {
  return ["Complete", "Failed"].some((type) => conditionOf(object, type, "True") !== undefined);
}

function isUnavailable(object: JsonObject): boolean {
  return kindOf(object) === "apps/Deployment" && conditionOf(object, "Available", "False") !== undefined;
}

const WORKLOADS = new Set([
  "apps/Deployment",
  "apps/StatefulSet",
  "apps/DaemonSet",
  "apps/ReplicaSet",
  "batch/Job",
]);

/** Whether objects of that kind make Pods, which tell why they are not well. */
export function makesPods(apiVersion: string, kind: string): boolean {
  return WORKLOADS.has(groupKind(apiVersion, kind));
}

/** The selector of a workload, which the server has checked. */
function podsOf(object: JsonObject): LabelSelector | undefined {
  const selector = objectOf(object["spec"])["selector"];
  return WORKLOADS.has(kindOf(object)) && isJsonObject(selector) ? (selector as LabelSelector) : undefined;
}

function madeBy(object: JsonObject): string | undefined {
  if (kindOf(object) !== "apps/StatefulSet" || textAt(object, "spec.podManagementPolicy") === "Parallel")
    return undefined;
  return textAt(object, "status.updateRevision") || undefined;
}
