/**
 * What is stored about an object of a release, its *finding*: the assessment by kstatus (Current is healthy), not the object. `settled` is
 * the last generation in which the object was Current, `since` the time from which its time limit counts. An object that was Current in
 * this generation has a *loss* when it fails, in contrast to a rollout that does not succeed.
 */

import { plainLine, type CelTest } from "../../base/index.ts";
import { conditionOf, objectOf, type JsonObject } from "../../base/model/index.ts";
import { assessObject, groupKindOf, assessRollout } from "./assess.ts";
import { describeOwnPods, type OwnPods } from "./own-pods.ts";
import {
  describeCount,
  CURRENT,
  createInProgress,
  isObserved,
  readInt,
  PAUSED,
  readTextField,
  type Assessment,
} from "./rule.ts";

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
  /** The class of a PersistentVolumeClaim for which no volume is being created: the class may wait for the first Pod. */
  readonly unusedClass: string | undefined;
}

/** The time, the previous finding, and the check of `addon.yaml` that replaces the rules. */
interface FindingContext {
  /** By the monotonic clock. */
  readonly now: number;
  /** Milliseconds since the epoch, to compare with times that the server gives objects. */
  readonly wall: number;
  readonly before?: Finding | undefined;
  readonly check?: CelTest | undefined;
}

const MAX_TEXT = 500;

/**
 * Assesses an object, and adds the facts that the previous finding (`before`) and its own spec contribute. `now` is the monotonic time,
 * `wall` the time in ms since the epoch, `check` the test of `addon.yaml` that replaces the rules.
 */
export function createFinding(object: JsonObject, { now, wall, before, check }: FindingContext): Finding {
  const { status, reason, message } =
    assessStoppedObject(object) ?? assessByCheckOrRules(object, wall, check);
  // Texts in a status may be long and may contain terminal control characters.
  const assessment = { status, reason: plainLine(reason, MAX_TEXT), message: plainLine(message, MAX_TEXT) };
  const generation = readInt(object, "metadata.generation", 0) || undefined;
  const settled = hasReachedGoal(object, assessment) ? generation : before?.settled;
  if (assessment.status === "Current")
    return { ...NO_DETAILS, ...assessment, generation, settled, since: now };
  const wasCurrent = generation !== undefined && settled === generation;
  return {
    ...assessment,
    generation,
    settled,
    // A paused rollout waits for a user, so it never exceeds its time limit.
    since: assessment.reason === PAUSED ? Infinity : computeSince(generation, now, before),
    isLost: wasCurrent && (assessment.status === "Failed" || isUnavailable(object)),
    pods: describeOwnPods(object),
    isOrdered: isOrdered(object),
    unusedClass: findUnusedClass(object, assessment),
  };
}

/** Assesses an object by its check in `addon.yaml`, or else by the rules. An object being deleted is always Terminating. */
function assessByCheckOrRules(object: JsonObject, wall: number, check: CelTest | undefined): Assessment {
  const assessment = assessObject(object, wall);
  if (assessment.status === "Terminating") return assessment;
  if (check === undefined) return assessRollout(object) ?? withRemedy(object, assessment);
  const { isMet, why } = check(object);
  if (isMet) return CURRENT;
  const message = why === undefined ? "does not meet its check" : `has a check that ${why}`;
  return createInProgress("CheckNotMet", message);
}

/** Adds to the message of an Unknown assessment how a user can define the health of the kind. Returns any other unchanged. */
function withRemedy(object: JsonObject, assessment: Assessment): Assessment {
  if (assessment.status !== "Unknown") return assessment;
  const [kind, apiVersion] = [readTextField(object, "kind"), readTextField(object, "apiVersion")];
  const remedy = `add to health.checks in addon.yaml what makes a ${kind} of ${apiVersion} healthy`;
  return { ...assessment, message: `${assessment.message}; ${remedy}` };
}

/**
 * When an object stopped being Current, from which its time limit counts: now, unless the previous finding was in progress already
 * in this generation. A resumed rollout starts again, because a paused one has no time limit.
 */
function computeSince(generation: number | undefined, now: number, before: Finding | undefined): number {
  if (before === undefined || before.status === "Current" || before.reason === PAUSED) return now;
  return before.generation === generation ? before.since : now;
}

/** The details of an object that is Current or unknown. */
const NO_DETAILS = {
  generation: undefined,
  settled: undefined,
  isLost: false,
  pods: undefined,
  isOrdered: false,
  unusedClass: undefined,
};

/** The finding for a missing object. It never becomes unhealthy, because the next run restores the object. */
export const NOT_FOUND: Finding = {
  ...NO_DETAILS,
  ...createInProgress("NotFound", "is not there"),
  since: Infinity,
};

/** Creates the finding for an object whose kind cannot be watched, so that its health is unknown. */
export function createUnwatchedFinding(why: string): Finding {
  const message = `cannot be watched: ${why}`;
  return { ...NO_DETAILS, status: "Unknown", reason: "NotWatched", message, since: 0 };
}

/**
 * The assessment of an object that a user has stopped: a suspended Job or a paused Deployment is Current, and a DaemonSet whose Pods a user
 * replaces. A Deployment that is paused during a rollout is in progress. Returns undefined where the usual rules apply.
 */
function assessStoppedObject(object: JsonObject): Assessment | undefined {
  if (readTextField(object, "metadata.deletionTimestamp") !== "") return undefined;
  const spec = objectOf(object["spec"]);
  switch (groupKindOf(object)) {
    case "batch/Job":
      return spec["suspend"] === true && !hasEnded(object) ? CURRENT : undefined;
    case "apps/DaemonSet":
      return hasOnlyOldPods(object) ? CURRENT : undefined;
    case "apps/Deployment":
      return spec["paused"] === true ? assessPausedDeployment(object) : undefined;
    default:
      return undefined;
  }
}

function assessPausedDeployment(object: JsonObject): Assessment | undefined {
  // A pause does not excuse a Deployment that has lost Pods.
  if (isUnavailable(object)) return undefined;
  const updated = readInt(object, "status.updatedReplicas", 0);
  const wanted = readInt(object, "spec.replicas", 1);
  const count = describeCount(updated, wanted, "replicas updated");
  if (updated < wanted) return createInProgress(PAUSED, `its rollout is paused: ${count}`);
  // Until its controller has observed the spec, the count may be that of an earlier one.
  return isObserved(object) ? CURRENT : undefined;
}

/** Whether all Pods of a DaemonSet are ready, and those of an older revision stay until a user deletes them (OnDelete). */
function hasOnlyOldPods(object: JsonObject): boolean {
  const count = (key: string): number => readInt(object, `status.${key}`, 0);
  const wanted = readInt(object, "status.desiredNumberScheduled", -1);
  const isOnDelete = readTextField(object, "spec.updateStrategy.type") === "OnDelete";
  const areReady = wanted >= 0 && count("numberAvailable") >= wanted && count("numberReady") >= wanted;
  return isOnDelete && isObserved(object) && areReady;
}

const SELECTED_NODE = "volume.kubernetes.io/selected-node";
const PROVISIONERS = [
  "volume.kubernetes.io/storage-provisioner",
  "volume.beta.kubernetes.io/storage-provisioner",
];

/** The class of a PersistentVolumeClaim that is pending, but for which neither a node is chosen nor a volume is being created. */
function findUnusedClass(object: JsonObject, { reason }: Assessment): string | undefined {
  if (groupKindOf(object) !== "PersistentVolumeClaim" || reason !== "NotBound") return undefined;
  const annotations = objectOf(objectOf(object["metadata"])["annotations"]);
  const isInUse = [SELECTED_NODE, ...PROVISIONERS].some((name) => annotations[name] !== undefined);
  const isPending = readTextField(object, "status.phase") === "Pending";
  return isPending && !isInUse ? readTextField(object, "spec.storageClassName") || undefined : undefined;
}

/** Reason of a claim whose class cannot be read. */
export const CLASS_UNKNOWN = "ClassUnknown";

/** When volumes of a class are bound. `why`: the class cannot be read. */
export type VolumeBinding = { readonly isLate: boolean } | { readonly why: string };

/**
 * Completes the finding of a claim with the binding mode of its class: a claim that waits for its first Pod is Current, and one whose
 * class is unknown is Unknown. Returns any other finding unchanged.
 */
export function applyVolumeBinding(finding: Finding, binding: VolumeBinding | undefined): Finding {
  const { unusedClass } = finding;
  if (unusedClass === undefined) return finding;
  if (binding === undefined) return { ...finding, since: Infinity };
  if ("why" in binding) {
    const message = `${finding.message}; whether it waits for its first Pod is unknown, because StorageClass ${unusedClass} cannot be read: ${binding.why}`;
    return { ...finding, status: "Unknown", reason: CLASS_UNKNOWN, message };
  }
  return binding.isLate ? { ...finding, ...CURRENT } : finding;
}

/** Whether an object has reached its goal in this generation. A running Job is Current by the rules, but may still fail. */
function hasReachedGoal(object: JsonObject, { status }: Assessment): boolean {
  return status === "Current" && (groupKindOf(object) !== "batch/Job" || hasEnded(object));
}

/** Whether a Job has succeeded or failed. */
function hasEnded(object: JsonObject): boolean {
  return ["Complete", "Failed"].some((type) => conditionOf(object, type, "True") !== undefined);
}

/** Whether a Deployment has fewer Pods than its strategy allows. */
function isUnavailable(object: JsonObject): boolean {
  return groupKindOf(object) === "apps/Deployment" && conditionOf(object, "Available", "False") !== undefined;
}

/** Whether a StatefulSet waits for each Pod before it handles the next (OrderedReady, the default): a broken Pod blocks the others. */
function isOrdered(object: JsonObject): boolean {
  const isParallel = readTextField(object, "spec.podManagementPolicy") === "Parallel";
  return groupKindOf(object) === "apps/StatefulSet" && !isParallel;
}
