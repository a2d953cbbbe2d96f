/** What is kept of an object of a release: its judgement, not the object. */

import type { CelTest } from "../lib/index.ts";
import { plainLine } from "../lib/index.ts";
import { conditionOf, objectOf, type JsonObject } from "../model/index.ts";
import { groupKind, judgeObject, kindOf } from "./judge.ts";
import { isWorkload, ownPodsOf, type OwnPods } from "./own-pods.ts";
import { judgeRollout } from "./rollout.ts";
import { count, CURRENT, inProgress, intAt, PAUSED, textAt, type Judgement } from "./rule.ts";

/** A judgement with what is needed to tell an object under way from one that is ill. */
export interface Finding extends Judgement {
  /** Of its spec; undefined where the object has none. */
  readonly generation: number | undefined;
  /** The last generation in which it was Current; a Job only settles by its end. */
  readonly settled: number | undefined;
  /** Since when it has not been Current in this generation, by the monotonic clock. */
  readonly since: number;
  /**
   * It was Current in this generation and has failed since, or is a Deployment with fewer Pods now than its strategy
   * allows: a loss, not a rollout.
   */
  readonly isLost: boolean;
  /** Where a workload is not Current: which Pods are its own. */
  readonly pods: OwnPods | undefined;
  /** A StatefulSet that waits for each Pod before it replaces it. */
  readonly isOrdered: boolean;
}

/** The moment, what was found of an object before, and what judges it instead of the rules. */
interface Look {
  /** By the monotonic clock. */
  readonly now: number;
  /** Milliseconds since the epoch, to compare with times that the server gives objects. */
  readonly wall: number;
  readonly before?: Finding | undefined;
  readonly check?: CelTest | undefined;
}

const MOST_SAID = 500;

/** What is found of an object. */
export function findingOf(object: JsonObject, { now, wall, before, check }: Look): Finding {
  const { status, reason, message } = leftAlone(object) ?? checked(object, wall, check);
  // What objects say of themselves may be long, and meant for a terminal.
  const judged = { status, reason: plainLine(reason, MOST_SAID), message: plainLine(message, MOST_SAID) };
  const generation = intAt(object, "metadata.generation", 0) || undefined;
  const settled = settles(object, judged) ? generation : before?.settled;
  if (judged.status === "Current") return { ...BARE, ...judged, generation, settled, since: now };
  const wasWell = generation !== undefined && settled === generation;
  return {
    ...judged,
    generation,
    settled,
    since: judged.reason === PAUSED ? Infinity : sinceOf(generation, now, before),
    isLost: wasWell && (judged.status === "Failed" || isUnavailable(object)),
    pods: ownPodsOf(object),
    isOrdered: isOrdered(object),
  };
}

/** A check takes the place of all rules but one: what is being deleted is. */
function checked(object: JsonObject, wall: number, check: CelTest | undefined): Judgement {
  const judged = judgeObject(object, wall);
  if (judged.status === "Terminating") return judged;
  if (check === undefined) return judgeRollout(object) ?? withRemedy(object, judged);
  const { isMet, why } = check(object);
  if (isMet) return CURRENT;
  return inProgress("CheckNotMet", why === undefined ? "does not meet its check" : `has a check that ${why}`);
}

function withRemedy(object: JsonObject, judged: Judgement): Judgement {
  if (judged.status !== "Unknown") return judged;
  const [kind, apiVersion] = [textAt(object, "kind"), textAt(object, "apiVersion")];
  const remedy = `add to health.checks in addon.yaml what makes a ${kind} of ${apiVersion} healthy`;
  return { ...judged, message: `${judged.message}; ${remedy}` };
}

function sinceOf(generation: number | undefined, now: number, before: Finding | undefined): number {
  return before === undefined ||
    before.status === "Current" ||
    before.reason === PAUSED ||
    before.generation !== generation
    ? now
    : before.since;
}

const BARE = { generation: undefined, settled: undefined, isLost: false, pods: undefined, isOrdered: false };

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

/** By the rules a Job that runs is Current, although it may still fail. */
function settles(object: JsonObject, { status }: Judgement): boolean {
  return status === "Current" && (kindOf(object) !== "batch/Job" || hasEnded(object));
}

function hasEnded(object: JsonObject): boolean {
  return ["Complete", "Failed"].some((type) => conditionOf(object, type, "True") !== undefined);
}

function isUnavailable(object: JsonObject): boolean {
  return kindOf(object) === "apps/Deployment" && conditionOf(object, "Available", "False") !== undefined;
}

/** Whether objects of that kind make Pods, which tell why they are not well. */
export function makesPods(apiVersion: string, kind: string): boolean {
  return isWorkload(groupKind(apiVersion, kind));
}

function isOrdered(object: JsonObject): boolean {
  return kindOf(object) === "apps/StatefulSet" && textAt(object, "spec.podManagementPolicy") !== "Parallel";
}
