/** Writes wanted specs and statuses with limits on rate and concurrency. */

import PQueue from "p-queue";

import { type Clock, type Logger, nextWriteTime, type Timer } from "../../lib/index.ts";
import { LABELS, managedByDigest } from "../../helm/index.ts";
import { ApiError, MANAGED_BY_OPERATOR } from "../../kube/index.ts";
import type { Tracer } from "../../trace/index.ts";
import { writeDueAt, isForeign, needsTextOnly, needOf } from "./mirrored.ts";
import type { StoredObject, MirroredObject, OwnerMarks, Need } from "./mirrored.ts";
import type { MirroredObjects } from "./mirrored-objects.ts";
import { type StatusClient, readObject, takeStep } from "./objects.ts";
import { type WriteBackoff, isShared } from "./backoff.ts";

/** Writes at the same time. */
const PARALLEL = 6;
/** Pause after an answer that is older than what is known: etcd was restored, and the watch has not noticed it yet. */
const STALE_PAUSE_MS = 1000;

/** Called after each write of an object with its result. */
export type OnWrite = (kind: MirroredObject["id"]["kind"], result: "written" | "failed") => void;

export interface WriterParts {
  readonly objects: MirroredObjects;
  readonly api: StatusClient;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly backoff: WriteBackoff;
  readonly tracer?: Pick<Tracer, "traceStatusWrite"> | undefined;
  /** During a converge, statuses are written in bursts to save CPU. */
  readonly isConverging: () => boolean;
  /** Sends a request about an object and adopts the answer. Throws what `request` throws. */
  readonly ask: (mirrored: MirroredObject, request: () => Promise<StoredObject | undefined>) => Promise<void>;
  /** Called after each write with its result. */
  readonly onWrite?: OnWrite | undefined;
  /** Called when a write has ended: now watch events of the object may be adopted. */
  readonly ended: (mirrored: MirroredObject) => void;
}

/** Brings objects to their wanted content step by step, a limited number at a time; backs off while the server reports errors. */
export class Writer {
  readonly #parts: WriterParts;
  readonly #queue: PQueue;
  readonly #labels: Readonly<Record<string, string>>;
  readonly #warned = new Set<string>();
  /** uid of the AddonOperator in the modules' owner references: "" = it cannot be created, undefined = not tried yet. */
  #owner: string | undefined;
  #probeTimer: Timer | undefined;

  constructor(parts: WriterParts) {
    const { namespace, operatorName } = parts.api;
    this.#parts = parts;
    this.#queue = new PQueue({ concurrency: PARALLEL });
    this.#labels = {
      ...MANAGED_BY_OPERATOR,
      [LABELS.managedBy]: managedByDigest(namespace, operatorName),
    };
  }

  /** Queues the object if it must be written, now or as soon as it may be. */
  consider(mirrored: MirroredObject): void {
    if (this.#closed) return;
    if (mirrored === this.#objects.operator) this.#updateOwnerReferences();
    if (mirrored.busy || mirrored.queued) return;
    if (mirrored.timer !== undefined && needsTextOnly(mirrored, this.#marks)) return;
    mirrored.timer?.cancel();
    mirrored.timer = undefined;
    const need = this.#needOf(mirrored);
    if (need === "none") return this.#dropDeleted(mirrored);
    const wait = this.#waitMs(mirrored, need);
    if (wait <= 0) this.#enqueue(mirrored, need);
    else mirrored.timer = this.#parts.clock.setTimer(wait, () => this.#reconsider(mirrored));
  }

  #reconsider(mirrored: MirroredObject): void {
    mirrored.timer = undefined;
    this.consider(mirrored);
  }

  /** Milliseconds until the object may be written. Status writes during a converge are collected into bursts. */
  #waitMs(mirrored: MirroredObject, need: Need): number {
    const { clock, backoff, isConverging } = this.#parts;
    const now = clock.monotonic();
    const due = Math.max(writeDueAt(mirrored, need), backoff.until, now);
    return (need === "status" && isConverging() ? nextWriteTime(due) : due) - now;
  }

  /** How many objects have something to be written. */
  get unwritten(): number {
    return this.#objects.all().filter((mirrored) => mirrored.busy || this.#needOf(mirrored) !== "none")
      .length;
  }

  /** Writes everything that differs without waiting for its turn; resolves when all of it is done or has failed. */
  async drain(): Promise<void> {
    for (const mirrored of this.#objects.all()) {
      const need = this.#needOf(mirrored);
      // A deleted object is not created again during a stop: the chart may be uninstalled.
      const isSkipped = need === "create" && mirrored.deleted;
      if (!mirrored.busy && !mirrored.queued && need !== "none" && !isSkipped) this.#enqueue(mirrored, need);
    }
    await this.#queue.onIdle();
  }

  /** Ends all waiting. */
  close(): void {
    this.#queue.clear();
    this.#probeTimer?.cancel();
    for (const mirrored of this.#objects.all()) mirrored.timer?.cancel();
  }

  get #objects(): MirroredObjects {
    return this.#parts.objects;
  }

  get #closed(): boolean {
    return this.#parts.api.signal.aborted;
  }

  get #marks(): OwnerMarks {
    return { labels: this.#labels, ownerUid: this.#objects.operator.live?.uid };
  }

  /** The next step for an object. An object of another operator needs none. */
  #needOf(mirrored: MirroredObject): Need {
    if (
      mirrored.live !== undefined &&
      isForeign(mirrored.live, this.#marks) &&
      mirrored !== this.#objects.operator
    ) {
      if (mirrored.status !== undefined && !mirrored.missing) this.#warnForeign(mirrored);
      return "none";
    }
    const need = needOf(mirrored, this.#marks);
    // Without the uid of the AddonOperator, a module would be written twice.
    return need === "create" && mirrored !== this.#objects.operator && !this.#isOwnerDecided ? "none" : need;
  }

  /** Whether the AddonOperator exists, or cannot be created now. */
  get #isOwnerDecided(): boolean {
    const { live, failures, deleted } = this.#objects.operator;
    return live !== undefined || failures > 0 || deleted;
  }

  /** Writes all modules again if the AddonOperator was created again: their owner references contain its uid. */
  #updateOwnerReferences(): void {
    const owner = this.#isOwnerDecided ? (this.#objects.operator.live?.uid ?? "") : undefined;
    if (owner === this.#owner) return;
    this.#owner = owner;
    for (const mirrored of this.#objects.modules.values()) this.consider(mirrored);
  }

  #warnForeign({ id }: MirroredObject): void {
    if (this.#warned.has(id.name)) return;
    this.#warned.add(id.name);
    this.#parts.logger.warn("AddonModule belongs to another operator and is left alone", { module: id.name });
  }

  #enqueue(mirrored: MirroredObject, need: Need): void {
    mirrored.queued = true;
    const priority = need === "patch" || mirrored === this.#objects.operator ? 1 : 0;
    this.#queue.add(() => this.#run(mirrored), { priority }).catch(() => {});
  }

  /** Writes a queued object, then considers what has changed during the write. */
  async #run(mirrored: MirroredObject): Promise<void> {
    mirrored.queued = false;
    if (this.#closed) return;
    const { clock, backoff } = this.#parts;
    // Problems that another write met meanwhile delay this one too.
    if (backoff.until > clock.monotonic()) return this.consider(mirrored);
    mirrored.busy = true;
    mirrored.notBefore = 0;
    try {
      await this.#traced(mirrored);
      this.#succeeded(mirrored);
    } catch (error) {
      this.#parts.onWrite?.(mirrored.id.kind, "failed");
      await this.#failed(mirrored, error);
    } finally {
      mirrored.busy = false;
    }
    this.#parts.ended(mirrored);
    this.consider(mirrored);
  }

  #traced(mirrored: MirroredObject): Promise<void> {
    const { tracer } = this.#parts;
    const write = (): Promise<void> => this.#write(mirrored);
    const { kind, name } = mirrored.id;
    const module = kind === "AddonModule" ? name : undefined;
    return tracer === undefined
      ? write()
      : tracer.traceStatusWrite(module, `status of ${kind} ${name}`, write);
  }

  #succeeded(mirrored: MirroredObject): void {
    this.#parts.onWrite?.(mirrored.id.kind, "written");
    mirrored.failures = 0;
    this.#parts.backoff.succeeded();
  }

  /** Writes the object first, then its status: the first response contains the generation for `observedGeneration`. */
  async #write(mirrored: MirroredObject): Promise<void> {
    const { api, ask, clock } = this.#parts;
    for (let need = this.#needOf(mirrored); need !== "none"; need = this.#needOf(mirrored)) {
      const { status, live } = mirrored;
      const step = { need, marks: this.#marks };
      await ask(mirrored, () => takeStep(api, mirrored, step));
      if (need === "status") {
        mirrored.written = status;
        mirrored.lastWriteAt = clock.monotonic();
        return;
      }
      // The response brought nothing new, so another try at once would be the same.
      if (mirrored.live === live) return void (mirrored.notBefore = clock.monotonic() + STALE_PAUSE_MS);
    }
  }

  /** Forgets a deleted module once its object is deleted on the server. */
  #dropDeleted({ missing, live, id }: MirroredObject): void {
    if (missing && live === undefined) this.#objects.modules.delete(id.name);
  }

  /** Probes the server, and ends a pause that it requested once it answers. */
  #probeSoon(): void {
    const { api, clock, backoff } = this.#parts;
    const { probeInMs } = backoff;
    if (probeInMs === undefined || this.#probeTimer !== undefined) return;
    this.#probeTimer = clock.setTimer(probeInMs, async () => {
      const answers = await readObject(api, this.#objects.operator.id).then(
        () => true,
        () => false,
      );
      this.#probeTimer = undefined;
      if (!answers || this.#closed) return;
      backoff.answered();
      for (const mirrored of this.#objects.all()) this.consider(mirrored);
    });
  }

  /** Delays all writes if the error concerns the server; otherwise only the writes of this object. */
  async #failed(mirrored: MirroredObject, error: unknown): Promise<void> {
    if (this.#closed) return;
    const { api, ask, clock, backoff } = this.#parts;
    mirrored.failures += 1;
    if (isShared(error)) {
      backoff.failed(error);
      this.#probeSoon();
      return;
    }
    mirrored.notBefore = clock.monotonic() + backoff.delayForObject(error, mirrored.failures);
    if (error instanceof ApiError && [404, 409, 422].includes(error.status)) {
      // The object is not what was expected: read it before the next try.
      await ask(mirrored, () => readObject(api, mirrored.id)).catch(() => {});
    }
  }
}
