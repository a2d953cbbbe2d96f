/**
 * A *mirrored object* is an AddonModule, the AddonOperator or a ModuleSource with its wanted content, its content on the server as last seen (the
 * *live object*), and the state of its writes. Functions here find the next write that makes both equal. *Marks* are the labels and
 * the owner by which an operator recognizes its AddonModules: several operators may share a namespace.
 */

import { RELEASE_LABELS } from "../../helm/index.ts";
import { type Clock, sameJson } from "../../base/index.ts";
import type { Json, JsonObject } from "../../base/model/index.ts";
import type { ModuleView, View } from "../../engine/state/index.ts";
import type { AddonObject, ModuleSpec, ModuleStatus, OperatorStatus, SourceStatus } from "../models/kinds.ts";
import type { ModuleProjection } from "../project/module-status.ts";
import type { Projection } from "../project/projector.ts";
import { withGeneration, type StoredAddonObject } from "./stored-object.ts";

/** Least time between two writes of one object. */
export const MIN_WRITE_INTERVAL_MS = 1000;
/** Least time between two writes of one object if only texts change: of many modules together, at most five are written in a second. */
const MIN_TEXT_INTERVAL_MS = { min: 30_000, perModule: 200 };
/** A text that stays the same for this long is written earlier: with many modules later, so that a converge writes few of them in a second. */
const STABLE_TEXT_MS = { min: 3000, perModule: 50 };
/** How long modules without an object wait for the first discovery. After it they get an object without its decision. */
const DISCOVERY_WAIT_MS = 2000;
const NO_CONFIRMATIONS = {};

/** Identifies an object of the status mirror. */
export interface ObjectId {
  readonly kind: AddonObject["kind"];
  readonly name: string;
}

type Status = ModuleStatus | OperatorStatus | SourceStatus;

/** Which version of a ModuleSource a status describes. */
export type SourceVersion = Pick<StoredAddonObject, "uid" | "generation">;

/** One AddonModule, the AddonOperator, or one ModuleSource. */
export class MirroredObject {
  readonly id: ObjectId;
  /** The module's wanted content; undefined for the operator's object and for modules that are deleted. */
  wantedSpec: ModuleSpec | undefined;
  /** The wanted status; undefined = none (yet). */
  wantedStatus: Status | undefined;
  /** The status that was last written, before it got its generation. */
  lastWrittenStatus: Status | undefined;
  liveObject: StoredAddonObject | undefined;
  /** Annotations to remove while they have these values: confirmations that have ended. */
  endedConfirmations: Readonly<Record<string, string>> = NO_CONFIRMATIONS;
  /** The generation for `observedGeneration`; undefined = the newest. */
  acknowledgedGeneration: number | undefined;
  /** The uid of the ModuleSource that the wanted status describes: a user may create it again. */
  describedUid: string | undefined;
  lastWriteAt = -Infinity;
  /** From this time of the monotonic clock on, the wanted texts count as stable. */
  textIsStableAt = -Infinity;
  /** Least time between two writes if only texts change. */
  textIntervalMs = 0;
  /** Do not write before this time of the monotonic clock: after failures and deletions. */
  notBefore = -Infinity;
  failures = 0;
  /** The module's directory is deleted, so the object must be removed. Never set before the directories are read. */
  isModuleDeleted = false;
  /** A user deleted the object: it is created again, but not while the operator stops. */
  isObjectDeletedByUser = false;
  isBeingWritten = false;
  isQueued = false;

  constructor(id: ObjectId) {
    this.id = id;
  }
}

/** One write of an object; `patch` writes metadata and spec. */
export type WriteStep = "create" | "remove" | "patch" | "status";
/** The next write that an object needs. */
export type NextStep = WriteStep | "none";

/** Labels and owner of this operator's AddonModules. */
export interface OwnerMarks {
  readonly labels: Readonly<Record<string, string>>;
  /** uid of the AddonOperator; undefined while there is none. */
  readonly ownerUid: string | undefined;
}

/** Finds the next write that brings the live object closer to its wanted content; `none` if no write is needed. The status comes last. */
export function findNextStep(mirrored: MirroredObject, marks: OwnerMarks): NextStep {
  const { liveObject, wantedStatus } = mirrored;
  if (mirrored.isModuleDeleted) {
    if (liveObject === undefined || liveObject.isTerminating) return "none";
    const isOurs = liveObject.labels[RELEASE_LABELS.managedBy] === marks.labels[RELEASE_LABELS.managedBy];
    return isOurs ? "remove" : "none";
  }
  // Nothing is projected yet.
  if (wantedStatus === undefined) return "none";
  // A ModuleSource is of a user: only its status is written.
  if (mirrored.id.kind === "ModuleSource" && liveObject?.uid !== mirrored.describedUid) return "none";
  if (liveObject === undefined) return "create";
  // The operator does not write the specs of the other kinds.
  if (mirrored.id.kind === "AddonModule" && !hasWantedMetadataAndSpec(liveObject, mirrored, marks))
    return "patch";
  return sameJson(liveObject.status, buildWantedStatus(mirrored, liveObject)) ? "none" : "status";
}

/** The wanted status as it is written: with `observedGeneration`, which is the newest generation unless a new one must be acknowledged first. */
export function buildWantedStatus(mirrored: MirroredObject, live: StoredAddonObject): JsonObject {
  return withGeneration(
    mirrored.wantedStatus ?? { conditions: [] },
    mirrored.acknowledgedGeneration ?? live.generation,
    live.status,
  );
}

/** Whether the label of the live object names another operator. An object without the label gets that of this operator. */
export function isManagedByOtherOperator(live: StoredAddonObject, marks: OwnerMarks): boolean {
  const owner = live.labels[RELEASE_LABELS.managedBy];
  return owner !== undefined && owner !== marks.labels[RELEASE_LABELS.managedBy];
}

/** Whether spec, labels, owner and annotations of the live object are as wanted, so that only its status may differ. */
function hasWantedMetadataAndSpec(
  live: StoredAddonObject,
  mirrored: MirroredObject,
  marks: OwnerMarks,
): boolean {
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

/** Names of annotations to remove: a user's confirmations (for example of a removal) that have ended, unless a user has written another value meanwhile. */
export function findAnnotationsToRemove(
  { annotations = {} }: Pick<StoredAddonObject, "annotations">,
  { endedConfirmations }: MirroredObject,
): string[] {
  return Object.keys(endedConfirmations).filter((name) => annotations[name] === endedConfirmations[name]);
}

/** When the next step of the object may be written (monotonic ms). Pauses between writes apply only to its status. */
export function getWriteTime(mirrored: MirroredObject, step: NextStep): number {
  if (step !== "status") return mirrored.notBefore;
  const { notBefore, lastWriteAt, textIsStableAt, textIntervalMs } = mirrored;
  const earliest = Math.max(notBefore, lastWriteAt + MIN_WRITE_INTERVAL_MS);
  if (!hasTextChangesOnly(mirrored)) return earliest;
  return Math.max(earliest, Math.min(lastWriteAt + textIntervalMs, textIsStableAt));
}

/** Whether the object needs a write only because texts of its status differ, so that the write may wait. */
export function needsTextOnly(mirrored: MirroredObject, marks: OwnerMarks): boolean {
  return (
    !mirrored.isModuleDeleted &&
    mirrored.liveObject !== undefined &&
    hasWantedMetadataAndSpec(mirrored.liveObject, mirrored, marks) &&
    hasTextChangesOnly(mirrored)
  );
}

/** Whether the wanted status of a module differs from the last written one only in texts; never for the AddonOperator. */
function hasTextChangesOnly({ id, lastWrittenStatus, wantedStatus }: MirroredObject): boolean {
  if (id.kind !== "AddonModule" || lastWrittenStatus === undefined || wantedStatus === undefined)
    return false;
  return differsInTextOnly(lastWrittenStatus as ModuleStatus, wantedStatus as ModuleStatus);
}

/**
 * Whether two statuses of a waiting module differ only in texts and in the progress of helm. Such writes may wait; otherwise a
 * long converge would write every waiting module each time another module finishes.
 */
export function differsInTextOnly(before: ModuleStatus, after: ModuleStatus): boolean {
  if (before.state !== "Pending" || after.state !== "Pending") return false;
  return sameJson(withoutText(before), withoutText(after));
}

/** The status without the fields that may wait: messages, reasons, progress of the release, texts of requirements. */
function withoutText(status: ModuleStatus): Json {
  const { conditions, release: _release, requires: _requires, reasons: _reasons, ...otherFields } = status;
  const withoutMessages = conditions.map(({ message: _message, ...condition }) => condition);
  return { ...otherFields, conditions: withoutMessages } as unknown as Json;
}

/** All mirrored objects: the AddonOperator and the AddonModules of one operator, and the ModuleSources. */
export class MirroredObjects {
  readonly operator: MirroredObject;
  readonly modules = new Map<string, MirroredObject>();
  readonly sources = new Map<string, MirroredObject>();
  readonly #clock: Clock;
  #discoveryWaitEndsAt: number | undefined;

  constructor(operatorName: string, clock: Clock) {
    this.operator = new MirroredObject({ kind: "AddonOperator", name: operatorName });
    this.#clock = clock;
  }

  /** The mirrored object with this id; that of a module or source is created at first use. */
  getOrCreate(id: ObjectId): MirroredObject {
    if (id.kind === "AddonOperator") return this.operator;
    const objects = id.kind === "AddonModule" ? this.modules : this.sources;
    const mirrored = objects.get(id.name) ?? new MirroredObject(id);
    objects.set(id.name, mirrored);
    return mirrored;
  }

  /** All mirrored objects, the AddonOperator first: modules carry a reference to it. */
  listObjects(): MirroredObject[] {
    return [this.operator, ...this.modules.values(), ...this.sources.values()];
  }

  /** Sets the wanted status of a ModuleSource. Returns its mirrored object. */
  setWantedSource(name: string, { uid, generation }: SourceVersion, status: SourceStatus): MirroredObject {
    const mirrored = this.getOrCreate({ kind: "ModuleSource", name });
    mirrored.wantedStatus = status;
    mirrored.describedUid = uid;
    mirrored.acknowledgedGeneration = generation;
    return mirrored;
  }

  /** Sets the wanted content of the operator and of modules, but only of the AddonOperator before the modules are loaded. Returns the objects that may need a write, the AddonOperator last: it waits for modules. */
  setWanted(projection: Projection, view: View): MirroredObject[] {
    this.operator.wantedStatus = projection.operatorStatus;
    // Nothing is known of modules yet: after a refused start their objects keep the last status.
    if (view.boot === "loading") return [this.operator];
    const changed: MirroredObject[] = [];
    for (const [name, wanted] of projection.modules) {
      const mirrored = this.getOrCreate({ kind: "AddonModule", name });
      if (this.#setWantedModule(mirrored, wanted, view.modules.get(name))) changed.push(mirrored);
    }
    for (const [name, mirrored] of this.modules) {
      if (mirrored.isModuleDeleted || projection.modules.has(name)) continue;
      // The module is not in the tree any more, so its object must be removed.
      mirrored.wantedStatus = undefined;
      mirrored.isModuleDeleted = true;
      changed.push(mirrored);
    }
    return [...changed, this.operator];
  }

  /** Sets the wanted content of a module's object. Returns false if it is unchanged, or must not be written yet. */
  #setWantedModule(
    mirrored: MirroredObject,
    { spec, status }: ModuleProjection,
    view: ModuleView | undefined,
  ): boolean {
    const { isDiscovered, endedConfirmations: ended = NO_CONFIRMATIONS } = view ?? {};
    // The projector returns the same object again while nothing has changed.
    if (mirrored.wantedStatus === status && mirrored.endedConfirmations === ended) return false;
    const wantedSpec = isDiscovered === false ? this.#getSpecBeforeDiscovery(mirrored, spec) : spec;
    if (wantedSpec === undefined) return false;
    const scale = ({ min, perModule }: typeof STABLE_TEXT_MS): number =>
      Math.max(min, perModule * this.modules.size);
    mirrored.textIsStableAt = this.#clock.monotonic() + scale(STABLE_TEXT_MS);
    mirrored.textIntervalMs = scale(MIN_TEXT_INTERVAL_MS);
    mirrored.wantedSpec = wantedSpec;
    mirrored.wantedStatus = status;
    mirrored.endedConfirmations = ended;
    mirrored.isModuleDeleted = false;
    return true;
  }

  /** How long modules without an object still wait for the first discovery, in milliseconds; 0 if none waits. */
  get discoveryWaitMs(): number {
    return this.#discoveryWaitEndsAt === undefined ? 0 : this.#discoveryWaitEndsAt - this.#clock.monotonic();
  }

  /**
   * The spec of a module of which discovery has not decided yet whether it is enabled: the spec on the server if there is one. Else
   * undefined (do not write yet) until the wait for discovery is over: discovery would change the spec a second later.
   */
  #getSpecBeforeDiscovery({ liveObject }: MirroredObject, spec: ModuleSpec): ModuleSpec | undefined {
    if (liveObject?.spec !== undefined) return liveObject.spec as unknown as ModuleSpec;
    this.#discoveryWaitEndsAt ??= this.#clock.monotonic() + DISCOVERY_WAIT_MS;
    return this.discoveryWaitMs <= 0 ? spec : undefined;
  }
}
