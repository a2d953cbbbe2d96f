/** One object of the status: what it should be, what it is, and what has to be written. */

import { LABELS } from "../../helm/index.ts";
import { sameJson, type Timer } from "../../lib/index.ts";
import type { JsonObject } from "../../model/index.ts";
import { differsInWordsOnly, statusPatch } from "./difference.ts";
import { type LiveObject, type Observed, stamp } from "./live.ts";
import type { ModuleSpec, ModuleStatus, OperatorStatus } from "../models/kinds.ts";

/**
 * Least time between two writes of one object, in milliseconds, unless a digest changed; and between two writes
 * that change words only.
 */
const WRITE_EVERY_MS = 1000;
const WORDS_EVERY_MS = 30_000;

/** Which object it is. */
export type Identity =
  | { readonly kind: "AddonModule"; readonly name: string }
  | { readonly kind: "AddonOperator"; readonly name: string };

/** One object: what it should be, what is known of it, and when it may be written. */
export interface MirroredObject {
  readonly id: Identity;
  /** The module's wanted content; undefined for the operator's object and for modules that are gone. */
  spec: ModuleSpec | undefined;
  /** The wanted status; undefined = none (yet). */
  status: ModuleStatus | OperatorStatus | undefined;
  /** The status that was last written, before it got its generation. */
  written: ModuleStatus | OperatorStatus | undefined;
  live: LiveObject | undefined;
  /** The generation the status may speak of; undefined = the newest. */
  acknowledged: number | undefined;
  lastWriteAt: number;
  /** Do not write before this time, ms since the epoch: after failures and deletions. */
  notBefore: number;
  failures: number;
  /** The module's directory is gone, so the object has to go; never set before the directories were read. */
  gone: boolean;
  /** Somebody deleted the object: it is created again, but not while the operator stops. */
  deleted: boolean;
  /** What a watch reported while a write, or the first list, was under way. */
  seen: Observed | undefined;
  busy: boolean;
  queued: boolean;
  timer: Timer | undefined;
}

/** A mirrored object of which nothing is known yet. */
export function newMirroredObject(id: Identity): MirroredObject {
  return {
    id,
    spec: undefined,
    status: undefined,
    written: undefined,
    live: undefined,
    acknowledged: undefined,
    lastWriteAt: Number.NEGATIVE_INFINITY,
    notBefore: 0,
    failures: 0,
    gone: false,
    deleted: false,
    seen: undefined,
    busy: false,
    queued: false,
    timer: undefined,
  };
}

/** The next step for an object. */
export type Need = "none" | "create" | "remove" | "patch" | "status";

/** Identity of our AddonModules on the server. */
export interface OwnerMarks {
  readonly labels: Readonly<Record<string, string>>;
  /** uid of the AddonOperator; undefined while there is none. */
  readonly ownerUid: string | undefined;
}

/** The next step that brings the object on the server to what is wanted. */
export function needOf(mirrored: MirroredObject, marks: OwnerMarks): Need {
  const { live, status } = mirrored;
  if (mirrored.gone) return live === undefined || live.isGoing || !isOurs(live, marks) ? "none" : "remove";
  if (status === undefined) return "none";
  if (live === undefined) return "create";
  if (mirrored.id.kind === "AddonModule" && !hasMarks(live, mirrored, marks)) return "patch";
  return statusPatch(live.status, wantedStatus(mirrored, live)).length === 0 ? "none" : "status";
}

/** The status to write, with its generation. */
export function wantedStatus(mirrored: MirroredObject, live: LiveObject): JsonObject {
  return stamp(mirrored.status ?? { conditions: [] }, mirrored.acknowledged ?? live.generation, live.status);
}

/** Whether this operator made the object. */
function isOurs(live: LiveObject, marks: OwnerMarks): boolean {
  return live.labels[LABELS.managedBy] === marks.labels[LABELS.managedBy];
}

/** Whether another operator made the object. */
export function isForeign(live: LiveObject, marks: OwnerMarks): boolean {
  const owner = live.labels[LABELS.managedBy];
  return owner !== undefined && owner !== marks.labels[LABELS.managedBy];
}

function hasMarks(live: LiveObject, mirrored: MirroredObject, marks: OwnerMarks): boolean {
  const labelled = Object.entries(marks.labels).every(([key, value]) => live.labels[key] === value);
  const owned = marks.ownerUid === undefined || live.ownerUid === marks.ownerUid;
  return labelled && owned && sameJson(live.spec, mirrored.spec as unknown as JsonObject);
}

/** When the object may be written, ms since the epoch: at once for a changed spec, a new or a lost object. */
export function dueAt(mirrored: MirroredObject, need: Need): number {
  return Math.max(mirrored.notBefore, need === "status" ? mirrored.lastWriteAt + pause(mirrored) : 0);
}

function pause(mirrored: MirroredObject): number {
  return tellsWordsOnly(mirrored) ? WORDS_EVERY_MS : WRITE_EVERY_MS;
}

/** Whether only words have to be written; found out cheaply, since it is asked at every look. */
export function movesWordsOnly(mirrored: MirroredObject, marks: OwnerMarks): boolean {
  return (
    !mirrored.gone &&
    mirrored.live !== undefined &&
    hasMarks(mirrored.live, mirrored, marks) &&
    tellsWordsOnly(mirrored)
  );
}

function tellsWordsOnly({ id, written, status }: MirroredObject): boolean {
  if (id.kind !== "AddonModule" || written === undefined || status === undefined) return false;
  return differsInWordsOnly(written as ModuleStatus, status as ModuleStatus);
}
