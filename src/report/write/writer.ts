/** Writes the wanted content of mirrored objects with limits on rate and concurrency. It is the only writer of statuses. */

import PQueue from "p-queue";

import { nextWriteTime, Timers } from "../../base/index.ts";
import { RELEASE_LABELS, managedByDigest } from "../../helm/index.ts";
import { ApiError, MANAGED_BY_OPERATOR } from "../../kube/index.ts";
import { getWriteTime, isManagedByOtherOperator, needsTextOnly, findNextStep } from "./mirrored.ts";
import type { MirroredObject, MirroredObjects, OwnerMarks, NextStep } from "./mirrored.ts";
import type { OwnObjects, StatusApi } from "./own-objects.ts";
import type { MirrorOptions } from "./mirror-options.ts";
import { type WriteBackoff, affectsAllWrites } from "./backoff.ts";

/** Writes at the same time. */
const CONCURRENCY = 6;
/** Pause after an answer that is older than what is known: etcd was restored, and the watch has not noticed it yet. */
const STALE_PAUSE_MS = 1000;

/** The status of the AddonOperator waits at most this long for those of modules. */
const LONGEST_HOLD_MS = 5000;

/** What a {@link Writer} needs from the status mirror. */
export interface WriterParts extends Pick<MirrorOptions, "clock" | "logger" | "tracer" | "report"> {
  readonly api: Pick<StatusApi, "namespace" | "operatorName" | "signal">;
  readonly mirrored: MirroredObjects;
  readonly ownObjects: Pick<OwnObjects, "writeObject" | "readObject">;
  readonly backoff: WriteBackoff;
  /** During a converge, statuses are written in bursts to save CPU. */
  readonly isConverging: () => boolean;
  /** Called when the server has answered a read or a write of an object. */
  readonly onAnswer: (mirrored: MirroredObject) => void;
  /** Called when a write has ended: watch events of the object may be recorded from now on. */
  readonly onWriteEnded: (mirrored: MirroredObject) => void;
}

/** Brings mirrored objects to their wanted content step by step, a limited number at the same time. Backs off while the server reports errors. */
export class Writer {
  readonly #parts: WriterParts;
  readonly #queue: PQueue;
  readonly #labels: Readonly<Record<string, string>>;
  readonly #warnedNames = new Set<string>();
  /** uid of the AddonOperator in the modules' owner references: "" = it cannot be created, undefined = not tried yet. */
  #ownerUid: string | undefined;
  /** The next write of an object. */
  readonly #timers: Timers<MirroredObject>;
  /** Since when the status of the AddonOperator waits for those of modules; undefined if it does not. */
  #heldSince: number | undefined;

  /** The labels mark AddonModules as those of this operator, because several operators may share a namespace. */
  constructor(parts: WriterParts) {
    const { namespace, operatorName } = parts.api;
    this.#parts = parts;
    this.#timers = new Timers(parts.clock);
    this.#queue = new PQueue({ concurrency: CONCURRENCY });
    this.#labels = {
      ...MANAGED_BY_OPERATOR,
      [RELEASE_LABELS.managedBy]: managedByDigest(namespace, operatorName),
    };
  }

  /**
   * Checks whether the object differs from its wanted content, and queues a write: at once, or by a timer when the limits
   * allow it. Callers call it after each change of the object, and it runs itself again after each write.
   */
  scheduleWrite(mirrored: MirroredObject): void {
    if (this.#isClosed) return;
    if (mirrored === this.#objects.operator) this.#updateOwnerReferences();
    if (mirrored.isBeingWritten || mirrored.isQueued) return;
    // The timer that runs writes the newer text, too. This check is cheaper than finding the next step.
    if (this.#timers.has(mirrored) && needsTextOnly(mirrored, this.#marks)) return;
    this.#timers.cancel(mirrored);
    const step = this.#findNextStep(mirrored);
    if (step === "none") return this.#onWritten(mirrored);
    const delay = this.#getWriteDelayMs(mirrored, step);
    const wait = this.#mustFollowModules(mirrored, step) ? Math.max(delay, this.#holdOperator()) : delay;
    if (wait <= 0) this.#enqueue(mirrored, step);
    // The object may need another step or none by then.
    else this.#timers.set(mirrored, wait, () => this.scheduleWrite(mirrored));
  }

  /** Milliseconds until the object may be written. During a converge, statuses are written together once a second (`nextWriteTime`) to save CPU. */
  #getWriteDelayMs(mirrored: MirroredObject, step: NextStep): number {
    const { clock, backoff, isConverging } = this.#parts;
    const now = clock.monotonic();
    const writeTime = Math.max(getWriteTime(mirrored, step), backoff.pausedUntil, now);
    return (step === "status" && isConverging() ? nextWriteTime(writeTime) : writeTime) - now;
  }

  /** Whether this write says that all is well before the AddonModules say so. Modules whose writes fail are not waited for. */
  #mustFollowModules(mirrored: MirroredObject, step: NextStep): boolean {
    const { operator, modules } = this.#objects;
    if (mirrored !== operator || step !== "status" || readState(operator) !== "Ready") return false;
    return modules
      .values()
      .some(
        (each) => each.failures === 0 && (each.isBeingWritten || each.isQueued || this.#timers.has(each)),
      );
  }

  /** Holds the status of the AddonOperator. Returns for how many milliseconds, because modules may change all the time. */
  #holdOperator(): number {
    const now = this.#parts.clock.monotonic();
    this.#heldSince ??= now;
    return this.#heldSince + LONGEST_HOLD_MS - now;
  }

  /** The object needs no write: the status of the AddonOperator may have waited for that. */
  #onWritten(mirrored: MirroredObject): void {
    const { operator } = this.#objects;
    if (mirrored === operator) this.#heldSince = undefined;
    this.#forgetDeletedModule(mirrored);
    if (this.#heldSince !== undefined) this.scheduleWrite(operator);
  }

  /** How many objects are being written or differ from their wanted content. */
  get unwrittenCount(): number {
    return this.#objects
      .listObjects()
      .filter((mirrored) => mirrored.isBeingWritten || this.#findNextStep(mirrored) !== "none").length;
  }

  /** Writes all objects that differ, without the pauses between writes. Resolves when each write is done or has failed. */
  async drain(): Promise<void> {
    for (const mirrored of this.#objects.listObjects()) {
      const step = this.#findNextStep(mirrored);
      // An object that a user deleted is not created again during a stop: the user may be uninstalling the chart of the operator.
      const isSkipped = step === "create" && mirrored.isObjectDeletedByUser;
      if (!mirrored.isBeingWritten && !mirrored.isQueued && step !== "none" && !isSkipped)
        this.#enqueue(mirrored, step);
    }
    await this.#queue.onIdle();
  }

  /** Discards queued writes and cancels all timers. */
  close(): void {
    this.#queue.clear();
    this.#timers.close();
  }

  get #objects(): MirroredObjects {
    return this.#parts.mirrored;
  }

  get #isClosed(): boolean {
    return this.#parts.api.signal.aborted;
  }

  /** The labels and the owner that this operator's AddonModules must have. */
  get #marks(): OwnerMarks {
    return { labels: this.#labels, ownerUid: this.#objects.operator.liveObject?.uid };
  }

  /**
   * The next step for an object. `none` also for a module's object that belongs to another operator (which is logged once), and
   * for a new module's object while the uid of the AddonOperator, its owner, is unknown.
   */
  #findNextStep(mirrored: MirroredObject): NextStep {
    const isModule = mirrored.id.kind === "AddonModule";
    const { liveObject } = mirrored;
    if (isModule && liveObject !== undefined && isManagedByOtherOperator(liveObject, this.#marks)) {
      // Two operators in one namespace may have modules of the same name.
      const hasModuleOfThisName = mirrored.wantedStatus !== undefined && !mirrored.isModuleDeleted;
      if (hasModuleOfThisName) this.#warnForeign(mirrored);
      return "none";
    }
    const step = findNextStep(mirrored, this.#marks);
    // An object without the uid of the AddonOperator would be written again once the uid is known.
    return step === "create" && isModule && !this.#isOwnerKnown ? "none" : step;
  }

  /** Whether modules need not wait for the AddonOperator, their owner: it exists, or there is none because its creation failed or a user deleted it. */
  get #isOwnerKnown(): boolean {
    const { liveObject, failures, isObjectDeletedByUser } = this.#objects.operator;
    return liveObject !== undefined || failures > 0 || isObjectDeletedByUser;
  }

  /** Schedules all modules if the uid of the AddonOperator has changed, because their owner references contain it. `""`: there is no AddonOperator. */
  #updateOwnerReferences(): void {
    const ownerUid = this.#isOwnerKnown ? (this.#objects.operator.liveObject?.uid ?? "") : undefined;
    if (ownerUid === this.#ownerUid) return;
    this.#ownerUid = ownerUid;
    for (const mirrored of this.#objects.modules.values()) this.scheduleWrite(mirrored);
  }

  /** Logs once per name that an AddonModule of another operator is not changed. */
  #warnForeign({ id }: MirroredObject): void {
    if (this.#warnedNames.has(id.name)) return;
    this.#warnedNames.add(id.name);
    this.#parts.logger.warn("AddonModule belongs to another operator and is left alone", { module: id.name });
  }

  /** Queues the write. The AddonOperator goes first, because modules need its uid; so do metadata and spec, because the status names their generation. */
  #enqueue(mirrored: MirroredObject, step: NextStep): void {
    mirrored.isQueued = true;
    const priority = step === "patch" || mirrored === this.#objects.operator ? 1 : 0;
    this.#queue.add(() => this.#runQueuedWrite(mirrored), { priority }).catch(() => {});
  }

  /** Writes a queued object and handles the result. Schedules another write if the object has changed during this one. */
  async #runQueuedWrite(mirrored: MirroredObject): Promise<void> {
    mirrored.isQueued = false;
    if (this.#isClosed) return;
    const { clock, backoff } = this.#parts;
    // Another write has met an error of the server meanwhile, which delays this write, too.
    if (backoff.pausedUntil > clock.monotonic()) return this.scheduleWrite(mirrored);
    mirrored.isBeingWritten = true;
    if (mirrored === this.#objects.operator) this.#heldSince = undefined;
    // A failure of this write sets a new pause.
    mirrored.notBefore = 0;
    try {
      await this.#writeInSpan(mirrored);
      this.#parts.report.statusWritten(mirrored.id.kind, "written");
      mirrored.failures = 0;
      backoff.recordSuccess();
    } catch (error) {
      this.#parts.report.statusWritten(mirrored.id.kind, "failed");
      await this.#onWriteFailed(mirrored, error);
    } finally {
      mirrored.isBeingWritten = false;
    }
    this.#parts.onWriteEnded(mirrored);
    this.scheduleWrite(mirrored);
  }

  /** Writes the object in a span of the tracer, if there is a tracer. */
  #writeInSpan(mirrored: MirroredObject): Promise<void> {
    const { tracer } = this.#parts;
    const write = (): Promise<void> => this.#write(mirrored);
    const { kind, name } = mirrored.id;
    const module = kind === "AddonModule" ? name : undefined;
    return tracer === undefined
      ? write()
      : tracer.traceStatusWrite(module, `status of ${kind} ${name}`, write);
  }

  /** Executes the steps that the object needs. The status comes last: the response to an earlier step contains the generation for `observedGeneration`. */
  async #write(mirrored: MirroredObject): Promise<void> {
    const { ownObjects, onAnswer, clock } = this.#parts;
    for (;;) {
      const step = this.#findNextStep(mirrored);
      if (step === "none") return;
      const { wantedStatus, liveObject } = mirrored;
      await ownObjects.writeObject(mirrored, step, this.#marks);
      onAnswer(mirrored);
      if (step === "status") {
        mirrored.lastWrittenStatus = wantedStatus;
        mirrored.lastWriteAt = clock.monotonic();
        return;
      }
      // The cache ignored the response, because it is older than the known object (etcd was restored). The same step at once would have the same result.
      if (mirrored.liveObject === liveObject) {
        mirrored.notBefore = clock.monotonic() + STALE_PAUSE_MS;
        return;
      }
    }
  }

  /** Removes the mirrored object of a deleted module once its object on the server is deleted. */
  #forgetDeletedModule({ isModuleDeleted, liveObject, id }: MirroredObject): void {
    if (isModuleDeleted && liveObject === undefined) this.#objects.modules.delete(id.name);
  }

  /** Delays all writes if the error concerns the server or the kind; otherwise delays only the writes of this object. */
  async #onWriteFailed(mirrored: MirroredObject, error: unknown): Promise<void> {
    if (this.#isClosed) return;
    const { ownObjects, onAnswer, clock, backoff } = this.#parts;
    mirrored.failures += 1;
    if (affectsAllWrites(error)) return void backoff.recordFailure(error);
    mirrored.notBefore = clock.monotonic() + backoff.delayForObject(error, mirrored.failures);
    if (error instanceof ApiError && [404, 409, 422].includes(error.status)) {
      // The object on the server differs from the known one: read it before the next try.
      await ownObjects.readObject(mirrored.id).then(
        () => onAnswer(mirrored),
        () => {},
      );
    }
  }
}

/** The wanted state of the AddonOperator. */
function readState({ wantedStatus }: MirroredObject): string | undefined {
  return wantedStatus !== undefined && "state" in wantedStatus ? wantedStatus.state : undefined;
}
