/** One object of the status: what it should be, what is known of it on the server, and what has to be written. */

import { LABELS } from "../../helm/index.ts";
import { type OwnerReference, isLater } from "../../kube/index.ts";
import { type Timer, digestJson, sameJson } from "../../lib/index.ts";
import { type Json, type JsonObject, objectsIn, textOf } from "../../model/index.ts";
import type { AddonObject, Condition, ModuleSpec, ModuleStatus, OperatorStatus } from "../models/kinds.ts";

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
  /** Do not write before this time of the monotonic clock: after failures and deletions. */
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
    notBefore: Number.NEGATIVE_INFINITY,
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

/** When the object may be written, by the monotonic clock: at once for a changed spec, a new or a lost object. */
export function dueAt(mirrored: MirroredObject, need: Need): number {
  if (need !== "status") return mirrored.notBefore;
  const pause = tellsWordsOnly(mirrored) ? WORDS_EVERY_MS : WRITE_EVERY_MS;
  return Math.max(mirrored.notBefore, mirrored.lastWriteAt + pause);
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

/**
 * A status with the generation it speaks of, there and in each condition. A condition whose status is on the server
 * already has had it since then, whatever came and went unwritten, as at a restart.
 */
export function stamp(
  status: { readonly conditions: readonly Condition[] },
  generation: number,
  live?: JsonObject,
): JsonObject {
  const shown = objectsIn(live?.["conditions"]);
  return {
    ...status,
    observedGeneration: generation,
    conditions: status.conditions.map((condition) => {
      const before = shown.find(({ type }) => type === condition.type);
      const since =
        before?.["status"] === condition.status ? textOf(before["lastTransitionTime"]) : undefined;
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
 * True when two statuses of a waiting module differ only in words and in the progress of helm. Such changes may
 * wait; otherwise a long reload would rewrite every waiting module each time another one has finished.
 */
export function differsInWordsOnly(from: ModuleStatus, to: ModuleStatus): boolean {
  if (from.state !== "Pending" || to.state !== "Pending") return false;
  return sameJson(besidesWords(from), besidesWords(to));
}

function besidesWords({ conditions, release: _release, requires: _requires, ...rest }: ModuleStatus): Json {
  const bare = conditions.map(({ message: _message, ...condition }) => condition);
  return { ...rest, conditions: bare } as unknown as Json;
}

/** What is known of an object on the server: enough to write differences and to notice foreign objects. */
export interface LiveObject {
  readonly uid: string;
  readonly generation: number;
  readonly resourceVersion: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly ownerUid: string | undefined;
  /** Owners that others have given it. */
  readonly otherOwners: readonly OwnerReference[];
  /** It is being deleted, and finalizers keep it. */
  readonly isGoing: boolean;
  readonly spec: JsonObject | undefined;
  readonly status: JsonObject | undefined;
  /** Digest of the status as the server stored it, which may be less than what was sent. */
  readonly statusDigest: string;
  /** Paths of the status that the server dropped when it stored it. */
  readonly dropped?: ReadonlySet<string>;
}

/** An object as an API call or a watch gave it. */
export function liveFrom(object: AddonObject): LiveObject {
  const { metadata } = object;
  const { ownerReferences = [] } = metadata;
  const status = object.status as unknown as JsonObject | undefined;
  return {
    uid: metadata.uid ?? "",
    generation: metadata.generation ?? 1,
    resourceVersion: metadata.resourceVersion ?? "",
    labels: metadata.labels ?? {},
    ownerUid: ownerReferences.find(isOperator)?.uid,
    otherOwners: ownerReferences.filter((owner) => !isOperator(owner)),
    isGoing: metadata.deletionTimestamp !== undefined,
    spec: object.spec as JsonObject | undefined,
    status,
    statusDigest: digestJson(status),
  };
}

function isOperator({ kind }: OwnerReference): boolean {
  return kind === "AddonOperator";
}

/** As {@link liveFrom}; for a status that is known already, also what the server dropped of it. */
function liveAfter(before: LiveObject | undefined, object: AddonObject): LiveObject {
  const seen = liveFrom(object);
  if (before?.uid !== seen.uid || before.statusDigest !== seen.statusDigest) return seen;
  return { ...before, ...seen, status: before.status };
}

const NUMBER = /^\d+$/;

/** Order of two resourceVersions of one kind; what is not a number counts as newer, to be safe. */
function isNewer(a: string, b: string): boolean {
  if (!NUMBER.test(a) || !NUMBER.test(b)) return a !== b;
  return isLater(a, b);
}

/** What a watch reported of an object. */
export interface Observed {
  /** undefined = it is gone. */
  readonly object: AddonObject | undefined;
  /** The version from which on that is so. */
  readonly version: string;
}

/** All objects of a kind, as a watch listed them. */
export interface Listed {
  readonly names: ReadonlySet<string>;
  /** The version that the list is true for. */
  readonly version: string;
}

/**
 * The last lists of watches: an object that is not in the list, and not newer, is gone, even if no watch reported
 * it.
 */
export class Lists {
  readonly #lists = new Map<Identity["kind"], Listed>();

  add(kind: Identity["kind"], listed: Listed): void {
    this.#lists.set(kind, listed);
  }

  /** The server was put back to an earlier state. */
  forget(kind: Identity["kind"]): void {
    this.#lists.delete(kind);
  }

  /** What is known of an object after what watches reported; the same value when that is nothing newer. */
  liveAfter({ id, live, seen }: MirroredObject): LiveObject | undefined {
    const news = this.#newest(id, seen);
    if (news === undefined) return live;
    if (live !== undefined && !isNewer(news.version, live.resourceVersion)) return live;
    return news.object === undefined ? undefined : liveAfter(live, news.object);
  }

  #newest({ kind, name }: Identity, seen: Observed | undefined): Observed | undefined {
    const list = this.#lists.get(kind);
    if (list === undefined || list.names.has(name)) return seen;
    return seen !== undefined && isNewer(seen.version, list.version)
      ? seen
      : { object: undefined, version: list.version };
  }
}
