/** One mirrored object: its wanted content, its content on the server, and the next step between the two. */

import { LABELS } from "../../helm/index.ts";
import type { NamedMeta, OwnerReference } from "../../kube/index.ts";
import { type Timer, digestJson, sameJson } from "../../lib/index.ts";
import { type Json, type JsonObject, objectsIn, asString } from "../../model/index.ts";
import type { AddonObject, Condition, ModuleSpec, ModuleStatus, OperatorStatus } from "../models/kinds.ts";

/**
 * Least time between two writes of one object, in milliseconds; the second for writes that change only texts.
 */
const WRITE_EVERY_MS = 1000;
const TEXT_EVERY_MS = 30_000;

export type ObjectId =
  | { readonly kind: "AddonModule"; readonly name: string }
  | { readonly kind: "AddonOperator"; readonly name: string };

/** An object with its wanted content, its content on the server, and the state of its writes. */
export interface MirroredObject {
  readonly id: ObjectId;
  /** The module's wanted content; undefined for the operator's object and for modules that are deleted. */
  spec: ModuleSpec | undefined;
  /** The wanted status; undefined = none (yet). */
  status: ModuleStatus | OperatorStatus | undefined;
  /** The status that was last written, before it got its generation. */
  written: ModuleStatus | OperatorStatus | undefined;
  live: StoredObject | undefined;
  /** Annotations to remove while they have these values: confirmations that have ended. */
  ended: Readonly<Record<string, string>>;
  /** The generation for `observedGeneration`; undefined = the newest. */
  acknowledged: number | undefined;
  lastWriteAt: number;
  /** Do not write before this time of the monotonic clock: after failures and deletions. */
  notBefore: number;
  failures: number;
  /** The module's directory is deleted, so the object must be removed. Never set before the directories are read. */
  missing: boolean;
  /** A user deleted the object: it is created again, but not while the operator stops. */
  deleted: boolean;
  busy: boolean;
  queued: boolean;
  timer: Timer | undefined;
}

/** A mirrored object of which nothing is known yet. */
export function newMirroredObject(id: ObjectId): MirroredObject {
  return {
    id,
    spec: undefined,
    status: undefined,
    written: undefined,
    live: undefined,
    ended: {},
    acknowledged: undefined,
    lastWriteAt: Number.NEGATIVE_INFINITY,
    notBefore: Number.NEGATIVE_INFINITY,
    failures: 0,
    missing: false,
    deleted: false,
    busy: false,
    queued: false,
    timer: undefined,
  };
}

/** The next step for an object. */
export type Need = "none" | "create" | "remove" | "patch" | "status";

/** Labels and owner of this operator's AddonModules. */
export interface OwnerMarks {
  readonly labels: Readonly<Record<string, string>>;
  /** uid of the AddonOperator; undefined while there is none. */
  readonly ownerUid: string | undefined;
}

/** The next step that brings the object on the server to what is wanted. */
export function needOf(mirrored: MirroredObject, marks: OwnerMarks): Need {
  const { live, status } = mirrored;
  if (mirrored.missing)
    return live === undefined || live.isTerminating || !isOurs(live, marks) ? "none" : "remove";
  if (status === undefined) return "none";
  if (live === undefined) return "create";
  if (mirrored.id.kind === "AddonModule" && !hasMarks(live, mirrored, marks)) return "patch";
  return statusPatch(live.status, wantedStatus(mirrored, live)).length === 0 ? "none" : "status";
}

/** The status to write, with its generation. */
export function wantedStatus(mirrored: MirroredObject, live: StoredObject): JsonObject {
  return withGeneration(
    mirrored.status ?? { conditions: [] },
    mirrored.acknowledged ?? live.generation,
    live.status,
  );
}

/** Whether this operator made the object. */
function isOurs(live: StoredObject, marks: OwnerMarks): boolean {
  return live.labels[LABELS.managedBy] === marks.labels[LABELS.managedBy];
}

/** Whether another operator made the object. */
export function isForeign(live: StoredObject, marks: OwnerMarks): boolean {
  const owner = live.labels[LABELS.managedBy];
  return owner !== undefined && owner !== marks.labels[LABELS.managedBy];
}

/** Whether spec, labels, owner and annotations on the server are as wanted, so that only the status may differ. */
function hasMarks(live: StoredObject, mirrored: MirroredObject, marks: OwnerMarks): boolean {
  const isLabelled = Object.entries(marks.labels).every(([key, value]) => live.labels[key] === value);
  const isOwned = marks.ownerUid === undefined || live.ownerUid === marks.ownerUid;
  const hasEndedAnnotations = endedAnnotations(live, mirrored).length > 0;
  return (
    isLabelled &&
    isOwned &&
    !hasEndedAnnotations &&
    sameJson(live.spec, mirrored.spec as unknown as JsonObject)
  );
}

/** The names of annotations to remove: confirmations that have ended and are still on the object. */
export function endedAnnotations(
  { annotations = {} }: Pick<StoredObject, "annotations">,
  { ended }: MirroredObject,
): string[] {
  return Object.keys(ended).filter((name) => annotations[name] === ended[name]);
}

/** When the object may be written (monotonic ms): at once, unless only its status changes. */
export function writeDueAt(mirrored: MirroredObject, need: Need): number {
  if (need !== "status") return mirrored.notBefore;
  const pause = hasTextChangesOnly(mirrored) ? TEXT_EVERY_MS : WRITE_EVERY_MS;
  return Math.max(mirrored.notBefore, mirrored.lastWriteAt + pause);
}

/** Whether only texts must be written. Cheap, because it runs at each projection. */
export function needsTextOnly(mirrored: MirroredObject, marks: OwnerMarks): boolean {
  return (
    !mirrored.missing &&
    mirrored.live !== undefined &&
    hasMarks(mirrored.live, mirrored, marks) &&
    hasTextChangesOnly(mirrored)
  );
}

function hasTextChangesOnly({ id, written, status }: MirroredObject): boolean {
  if (id.kind !== "AddonModule" || written === undefined || status === undefined) return false;
  return differsInTextOnly(written as ModuleStatus, status as ModuleStatus);
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
export function statusPatch(from: JsonObject | undefined, to: JsonObject): PatchStep[] {
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
 * True if two statuses of a waiting module differ only in texts and in the progress of helm. Such writes may wait;
 * otherwise a long converge would write every waiting module each time another one finishes.
 */
export function differsInTextOnly(from: ModuleStatus, to: ModuleStatus): boolean {
  if (from.state !== "Pending" || to.state !== "Pending") return false;
  return sameJson(withoutText(from), withoutText(to));
}

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

/** Reduces an object of an API call or a watch to its cached part. */
export function liveFrom(object: AddonObject): StoredObject {
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
 * As {@link liveFrom}, for an object that is cached already. If the status on the server is unchanged, it keeps the status
 * that was sent and the list of dropped paths, so that dropped fields are not written again.
 */
export function liveAfter(before: StoredObject | undefined, object: AddonObject): StoredObject {
  const current = liveFrom(object);
  if (before?.uid !== current.uid || before.statusDigest !== current.statusDigest) return current;
  return { ...before, ...current, status: before.status };
}
