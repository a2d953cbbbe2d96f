/** What is stored about an object of a release: its assessment, not the object. */

import type { CelTest } from "../lib/index.ts";
import { plainLine } from "../lib/index.ts";
import { conditionOf, objectOf, type JsonObject } from "../model/index.ts";
import { assessObject, kindOf } from "./assess.ts";
import { ownPodsOf, type OwnPods } from "./own-pods.ts";
import { assessRollout } from "./rollout.ts";
import { describeCount, CURRENT, inProgress, intAt, PAUSED, textAt, type Assessment } from "./rule.ts";

/** An assessment, with the facts that distinguish an object in progress from an unhealthy one. */
export interface Finding extends Assessment {
  /** `metadata.generation`; undefined where the object has none. */
  readonly generation: number | undefined;
  /** The last generation in which it was Current; for a Job, the one in which it ended. */
  readonly settled: number | undefined;
  /** When it stopped being Current in this generation, by the monotonic clock. */
  readonly since: number;
  /**
   * It was Current in this generation and has failed since, or is a Deployment with fewer Pods now than its strategy
   * allows: a loss, not a rollout.
   */
  readonly isLost: boolean;
  /** How to find the Pods of a workload that is not Current. */
  readonly pods: OwnPods | undefined;
  /** A StatefulSet that replaces its Pods one at a time. */
  readonly isOrdered: boolean;
}

/** The time, the previous finding, and the check of `addon.yaml` that replaces the rules. */
interface Check {
  /** By the monotonic clock. */
  readonly now: number;
  /** Milliseconds since the epoch, to compare with times that the server gives objects. */
  readonly wall: number;
  readonly before?: Finding | undefined;
  readonly check?: CelTest | undefined;
}

const MAX_TEXT = 500;

/** Assesses an object. */
export function findingOf(object: JsonObject, { now, wall, before, check }: Check): Finding {
  const { status, reason, message } = stoppedOnPurpose(object) ?? checked(object, wall, check);
  // Texts in a status may be long and may contain terminal control characters.
  const assessment = { status, reason: plainLine(reason, MAX_TEXT), message: plainLine(message, MAX_TEXT) };
  const generation = intAt(object, "metadata.generation", 0) || undefined;
  const settled = settles(object, assessment) ? generation : before?.settled;
  if (assessment.status === "Current") return { ...NO_FACTS, ...assessment, generation, settled, since: now };
  const wasWell = generation !== undefined && settled === generation;
  return {
    ...assessment,
    generation,
    settled,
    // A paused rollout waits for a user, so it never exceeds its time limit.
    since: assessment.reason === PAUSED ? Infinity : sinceOf(generation, now, before),
    isLost: wasWell && (assessment.status === "Failed" || isUnavailable(object)),
    pods: ownPodsOf(object),
    isOrdered: isOrdered(object),
  };
}

/** Assesses an object by its check in `addon.yaml`, or else by the rules. An object being deleted is always Terminating. */
function checked(object: JsonObject, wall: number, check: CelTest | undefined): Assessment {
  const assessment = assessObject(object, wall);
  if (assessment.status === "Terminating") return assessment;
  if (check === undefined) return assessRollout(object) ?? withRemedy(object, assessment);
  const { isMet, why } = check(object);
  if (isMet) return CURRENT;
  return inProgress("CheckNotMet", why === undefined ? "does not meet its check" : `has a check that ${why}`);
}

/** Adds to an Unknown assessment how a user can define the health of this kind. */
function withRemedy(object: JsonObject, assessment: Assessment): Assessment {
  if (assessment.status !== "Unknown") return assessment;
  const [kind, apiVersion] = [textAt(object, "kind"), textAt(object, "apiVersion")];
  const remedy = `add to health.checks in addon.yaml what makes a ${kind} of ${apiVersion} healthy`;
  return { ...assessment, message: `${assessment.message}; ${remedy}` };
}

/** When the object stopped being Current: now, unless the previous finding was already in progress in this generation. */
function sinceOf(generation: number | undefined, now: number, before: Finding | undefined): number {
  return before === undefined ||
    before.status === "Current" ||
    before.reason === PAUSED ||
    before.generation !== generation
    ? now
    : before.since;
}

const NO_FACTS = {
  generation: undefined,
  settled: undefined,
  isLost: false,
  pods: undefined,
  isOrdered: false,
};

/** The finding for a missing object. It never becomes unhealthy, because it is restored. */
export const NOT_FOUND: Finding = { ...NO_FACTS, ...inProgress("NotFound", "is not there"), since: Infinity };

/** The finding for an object whose kind cannot be watched. */
export function unwatched(why: string): Finding {
  return {
    ...NO_FACTS,
    status: "Unknown",
    reason: "NotWatched",
    message: `cannot be watched: ${why}`,
    since: 0,
  };
}

/**
 * The assessment of an object that a user has stopped: a suspended Job or a paused Deployment is Current. A Deployment that
 * is paused during a rollout is in progress. Returns undefined where the usual rules apply.
 */
function stoppedOnPurpose(object: JsonObject): Assessment | undefined {
  if (textAt(object, "metadata.deletionTimestamp") !== "") return undefined;
  const spec = objectOf(object["spec"]);
  const kind = kindOf(object);
  if (kind === "batch/Job" && spec["suspend"] === true && !hasEnded(object)) return CURRENT;
  if (kind !== "apps/Deployment" || spec["paused"] !== true || isUnavailable(object)) return undefined;
  const [updated, wanted] = [intAt(object, "status.updatedReplicas", 0), intAt(object, "spec.replicas", 1)];
  if (updated < wanted)
    return inProgress(PAUSED, `its rollout is paused: ${describeCount(updated, wanted, "replicas updated")}`);
  const isObserved = intAt(object, "status.observedGeneration", 0) >= intAt(object, "metadata.generation", 0);
  return isObserved ? CURRENT : undefined;
}

/** Whether an object has reached its goal in this generation. A running Job is Current by the rules, but may still fail. */
function settles(object: JsonObject, { status }: Assessment): boolean {
  return status === "Current" && (kindOf(object) !== "batch/Job" || hasEnded(object));
}

/** Whether a Job has succeeded or failed. */
function hasEnded(object: JsonObject): boolean {
  return ["Complete", "Failed"].some((type) => conditionOf(object, type, "True") !== undefined);
}

/** Whether a Deployment has fewer Pods than its strategy allows. */
function isUnavailable(object: JsonObject): boolean {
  return kindOf(object) === "apps/Deployment" && conditionOf(object, "Available", "False") !== undefined;
}

/** Whether a StatefulSet replaces its Pods one at a time. */
function isOrdered(object: JsonObject): boolean {
  return kindOf(object) === "apps/StatefulSet" && textAt(object, "spec.podManagementPolicy") !== "Parallel";
}
