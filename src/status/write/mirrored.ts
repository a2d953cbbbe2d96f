/** One mirrored object: its wanted content, its content on the server, and the next step that makes them equal. */

import { LABELS } from "../../helm/index.ts";
import type { NamedMeta, OwnerReference } from "../../kube/index.ts";
import { type Timer, digestJson, sameJson } from "../../lib/index.ts";
import { type Json, type JsonObject, objectsIn, asString } from "../../model/index.ts";
import type { AddonObject, Condition, ModuleSpec, ModuleStatus, OperatorStatus } from "../models/kinds.ts";

/** Least time between two writes of one object. */
const MIN_WRITE_INTERVAL_MS = 1000;
/** Least time between two writes of one object if only texts change. */
const MIN_TEXT_INTERVAL_MS = 30_000;

/** Identifies an object of the status mirror. */
export type ObjectId =
  | { readonly kind: "AddonModule"; readonly name: string }
  | { readonly kind: "AddonOperator"; readonly name: string };

/** An object with its wanted content, its content on the server, and the state of its writes. */
export interface MirroredObject {
  readonly id: ObjectId;
  /** The module's wanted content; undefined for the operator's object and for modules that are deleted. */
  wantedSpec: ModuleSpec | undefined;
  /** The wanted status; undefined = none (yet). */
  wantedStatus: ModuleStatus | OperatorStatus | undefined;
  /** The status that was last written, before it got its generation. */
  lastWrittenStatus: ModuleStatus | OperatorStatus | undefined;
  liveObject: StoredObject | undefined;
  /** Annotations to remove while they have these values: confirmations that have ended. */
  endedConfirmations: Readonly<Record<string, string>>;
  /** The generation for `observedGeneration`; undefined = the newest. */
  acknowledgedGeneration: number | undefined;
  lastWriteAt: number;
  /** Do not write before this time of the monotonic clock: after failures and deletions. */
  notBefore: number;
  failures: number;
  /** The module's directory is deleted, so the object must be removed. Never set before the directories are read. */
  isModuleDeleted: boolean;
  /** A user deleted the object: it is created again, but not while the operator stops. */
  isObjectDeletedByUser: boolean;
  isBeingWritten: boolean;
  isQueued: boolean;
  timer: Timer | undefined;
}

/** A mirrored object of which nothing is known yet. */
export function newMirroredObject(id: ObjectId): MirroredObject {
  return {
    id,
    wantedSpec: undefined,
    wantedStatus: undefined,
    lastWrittenStatus: undefined,
    liveObject: undefined,
    endedConfirmations: {},
    acknowledgedGeneration: undefined,
    lastWriteAt: Number.NEGATIVE_INFINITY,
    notBefore: Number.NEGATIVE_INFINITY,
    failures: 0,
    isModuleDeleted: false,
    isObjectDeletedByUser: false,
    isBeingWritten: false,
    isQueued: false,
    timer: undefined,
  };
}

/** The next write that an object needs; `patch` writes metadata and spec. */
export type NextStep = "none" | "create" | "remove" | "patch" | "status";

/** Labels and owner of this operator's AddonModules. */
export interface OwnerMarks {
  readonly labels: Readonly<Record<string, string>>;
  /** uid of the AddonOperator; undefined while there is none. */
  readonly ownerUid: string | undefined;
}

/** Finds the next write that brings the live object closer to its wanted content. The status comes last. */
export function findNextStep(mirrored: MirroredObject, marks: OwnerMarks): NextStep {
  const { liveObject, wantedStatus } = mirrored;
  if (mirrored.isModuleDeleted) {
    if (liveObject === undefined || liveObject.isTerminating) return "none";
    return isManagedByThisOperator(liveObject, marks) ? "remove" : "none";
  }
  if (wantedStatus === undefined) return "none";
  if (liveObject === undefined) return "create";
  // The operator does not write the spec of the AddonOperator.
  if (mirrored.id.kind === "AddonModule" && !hasWantedMetadataAndSpec(liveObject, mirrored, marks))
    return "patch";
  const statusPatch = buildStatusPatch(liveObject.status, buildWantedStatus(mirrored, liveObject));
  return statusPatch.length === 0 ? "none" : "status";
}

/** The status to write, with the generation that it was made for. */
export function buildWantedStatus(mirrored: MirroredObject, live: StoredObject): JsonObject {
  return withGeneration(
    mirrored.wantedStatus ?? { conditions: [] },
    mirrored.acknowledgedGeneration ?? live.generation,
    live.status,
  );
}

/** Whether the label of the live object names this operator. */
function isManagedByThisOperator(live: StoredObject, marks: OwnerMarks): boolean {
  return live.labels[LABELS.managedBy] === marks.labels[LABELS.managedBy];
}

/** Whether the label of the live object names another operator. */
export function isManagedByOtherOperator(live: StoredObject, marks: OwnerMarks): boolean {
  const owner = live.labels[LABELS.managedBy];
  return owner !== undefined && owner !== marks.labels[LABELS.managedBy];
}

/** Whether spec, labels, owner and annotations of the live object are as wanted, so that only its status may differ. */
function hasWantedMetadataAndSpec(live: StoredObject, mirrored: MirroredObject, marks: OwnerMarks): boolean {
  const isLabelled = Object.entries(marks.labels).every(([key, value]) => live.labels[key] === value);
  const isOwned = marks.ownerUid === undefined || live.ownerUid === marks.ownerUid;
  const hasEndedAnnotations = findAnnotationsToRemove(live, mirrored).length > 0;
  return (
    isLabelled &&
    isOwned &&
    !hasEndedAnnotations &&
    sameJson(live.spec, mirrored.wantedSpec as unknown as JsonObject)
  );
}

/** Names of annotations to remove: confirmations that have ended, unless a user has written another value meanwhile. */
export function findAnnotationsToRemove(
  { annotations = {} }: Pick<StoredObject, "annotations">,
  { endedConfirmations }: MirroredObject,
): string[] {
  return Object.keys(endedConfirmations).filter((name) => annotations[name] === endedConfirmations[name]);
}

/** When the object may be written (monotonic ms). Pauses between writes apply only to its status. */
export function getWriteTime(mirrored: MirroredObject, need: NextStep): number {
  if (need !== "status") return mirrored.notBefore;
  const pauseMs = hasTextChangesOnly(mirrored) ? MIN_TEXT_INTERVAL_MS : MIN_WRITE_INTERVAL_MS;
  return Math.max(mirrored.notBefore, mirrored.lastWriteAt + pauseMs);
}

/** Whether only texts of the status differ, so that the write may wait. It is cheap, because it runs at each projection. */
export function needsTextOnly(mirrored: MirroredObject, marks: OwnerMarks): boolean {
  return (
    !mirrored.isModuleDeleted &&
    mirrored.liveObject !== undefined &&
    hasWantedMetadataAndSpec(mirrored.liveObject, mirrored, marks) &&
    hasTextChangesOnly(mirrored)
  );
}

/** Whether the wanted status of a module differs from the last written one only in texts. */
function hasTextChangesOnly({ id, lastWrittenStatus, wantedStatus }: MirroredObject): boolean {
  if (id.kind !== "AddonModule" || lastWrittenStatus === undefined || wantedStatus === undefined)
    return false;
  return differsInTextOnly(lastWrittenStatus as ModuleStatus, wantedStatus as ModuleStatus);
}

/**
 * The status with `observedGeneration`, also in each condition. A condition with the same status on the server keeps its
 * transition time, for example after a restart.
 */
export function withGeneration(
  status: { readonly conditions: readonly Condition[] },
  generation: number,
  live?: JsonObject,
): JsonObject {
  const displayed = objectsIn(live?.["conditions"]);
  return {
    ...status,
    observedGeneration: generation,
    conditions: status.conditions.map((condition) => {
      const before = displayed.find(({ type }) => type === condition.type);
      const since =
        before?.["status"] === condition.status ? asString(before["lastTransitionTime"]) : undefined;
      const lastTransitionTime = since ?? condition.lastTransitionTime;
      return { ...condition, lastTransitionTime, observedGeneration: generation };
    }),
  };
}

/** One operation of RFC 6902. */
export type PatchStep =
  | { readonly op: "add" | "test"; readonly path: string; readonly value: Json }
  | { readonly op: "remove"; readonly path: string };

/**
 * The patch that turns the status on the server (`from`, undefined = none) into the wanted one, one operation for
 * each top-level field. A JSON patch, because a merge patch cannot set a value to null.
 */
export function buildStatusPatch(from: JsonObject | undefined, to: JsonObject): PatchStep[] {
  if (from === undefined) return [{ op: "add", path: "/status", value: to }];
  const steps: PatchStep[] = [];
  for (const key of Object.keys(from)) {
    if (to[key] === undefined) steps.push({ op: "remove", path: `/status/${key}` });
  }
  for (const [key, value] of Object.entries(to)) {
    if (value !== undefined && !sameJson(from[key], value))
      steps.push({ op: "add", path: `/status/${key}`, value });
  }
  return steps;
}

/**
 * Whether two statuses of a waiting module differ only in texts and in the progress of helm. Such writes may wait; otherwise a
 * long converge would write every waiting module each time another module finishes.
 */
export function differsInTextOnly(from: ModuleStatus, to: ModuleStatus): boolean {
  if (from.state !== "Pending" || to.state !== "Pending") return false;
  return sameJson(withoutText(from), withoutText(to));
}

/** The status without the fields that may wait: messages, progress of the release, texts of requirements. */
function withoutText({ conditions, release: _release, requires: _requires, ...rest }: ModuleStatus): Json {
  const bare = conditions.map(({ message: _message, ...condition }) => condition);
  return { ...rest, conditions: bare } as unknown as Json;
}

/** The cached part of an object on the server. */
export interface StoredObject {
  readonly uid: string;
  readonly generation: number;
  readonly resourceVersion: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: NamedMeta["annotations"];
  readonly ownerUid: string | undefined;
  /** Owner references that others have set. */
  readonly otherOwners: readonly OwnerReference[];
  /** It is being deleted, and finalizers keep it. */
  readonly isTerminating: boolean;
  readonly spec: JsonObject | undefined;
  readonly status: JsonObject | undefined;
  /** Digest of the status as the server stored it, which may be less than what was sent. */
  readonly statusDigest: string;
  /** Paths of the status that the server dropped when it stored it. */
  readonly dropped?: ReadonlySet<string>;
}

/** Reduces an object from an API call or a watch to the part that is cached. */
export function toStoredObject(object: AddonObject): StoredObject {
  const { metadata } = object;
  const { ownerReferences = [] } = metadata;
  const status = object.status as unknown as JsonObject | undefined;
  return {
    uid: metadata.uid ?? "",
    generation: metadata.generation ?? 1,
    resourceVersion: metadata.resourceVersion ?? "",
    labels: metadata.labels ?? {},
    annotations: metadata.annotations,
    ownerUid: ownerReferences.find(isOperator)?.uid,
    otherOwners: ownerReferences.filter((owner) => !isOperator(owner)),
    isTerminating: metadata.deletionTimestamp !== undefined,
    spec: object.spec as JsonObject | undefined,
    status,
    statusDigest: digestJson(status),
  };
}

function isOperator({ kind }: OwnerReference): boolean {
  return kind === "AddonOperator";
}

/**
 * As {@link toStoredObject}, for an object that may be cached already. If the status on the server is unchanged since the last
 * write, the result keeps the status that was sent and the dropped paths, so that dropped fields are not written again.
 */
export function updateStoredObject(before: StoredObject | undefined, object: AddonObject): StoredObject {
  const current = toStoredObject(object);
  if (before?.uid !== current.uid || before.statusDigest !== current.statusDigest) return current;
  return { ...before, ...current, status: before.status };
}
