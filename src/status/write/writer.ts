/** Sets what is wanted of the objects of the status, and writes them, bounded in rate and number. */

import PQueue from "p-queue";

import { type Clock, type Logger, nextBurst, type Timer } from "../../lib/index.ts";
import { LABELS, managedByDigest } from "../../helm/index.ts";
import { ApiError, MADE_HERE } from "../../kube/index.ts";
import type { View } from "../../state/index.ts";
import type { Tracer } from "../../trace/index.ts";
import type { ModuleSpec } from "../models/kinds.ts";
import type { Projection } from "../project/projector.ts";
import { dueAt, isForeign, movesWordsOnly, needOf, newMirroredObject } from "./mirrored.ts";
import type { LiveObject, MirroredObject, OwnerMarks, Need } from "./mirrored.ts";
import { type StatusClient, readObject, takeStep } from "./objects.ts";
import { type WriteBackoff, isShared } from "./backoff.ts";

/** Writes at the same time. */
const PARALLEL = 6;
/** A module that discovery has not looked at is shown after this time, so that a long start can be followed. */
const UNDECIDED_MS = 2000;

/** Told how a write of an object ended. */
export type OnWrite = (kind: MirroredObject["id"]["kind"], result: "written" | "failed") => void;

/** What a {@link Writer} works with. */
export interface WriterParts {
  readonly api: StatusClient;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly backoff: WriteBackoff;
  readonly tracer?: Pick<Tracer, "status"> | undefined;
  /** A reload is under way: statuses are written in bursts, so as not to slow it down. */
  readonly isReloading: () => boolean;
  /** Takes over what is known of an object after a call or a watch event. */
  readonly adopt: (mirrored: MirroredObject, live: LiveObject | undefined) => void;
  /** Told of each write how it ended. */
  readonly onWrite?: OnWrite | undefined;
  /** A write has ended: what watches reported of the object meanwhile may be taken over. */
  readonly ended: (mirrored: MirroredObject) => void;
}

/**
 * Brings objects to what is wanted of them: one step after the other, a limited number at a time, with pauses
 * while the server has problems.
 */
export class Writer {
  readonly operator: MirroredObject;
  readonly modules = new Map<string, MirroredObject>();
  readonly #parts: WriterParts;
  readonly #queue: PQueue;
  readonly #labels: Readonly<Record<string, string>>;
  readonly #warned = new Set<string>();
  /** uid of the AddonOperator that modules refer to: "" = it cannot be made, undefined = not tried yet. */
  #owner: string | undefined;
  #undecidedUntil: number | undefined;
  #asking: Timer | undefined;

  constructor(parts: WriterParts) {
    const { namespace, operatorName } = parts.api;
    this.#parts = parts;
    this.#queue = new PQueue({ concurrency: PARALLEL });
    this.operator = newMirroredObject({ kind: "AddonOperator", name: operatorName });
    this.#labels = {
      ...MADE_HERE,
      [LABELS.managedBy]: managedByDigest(namespace, operatorName),
    };
  }

  /** The mirrored object of a module, made at first use. */
  module(name: string): MirroredObject {
    let mirrored = this.modules.get(name);
    if (mirrored === undefined) {
      mirrored = newMirroredObject({ kind: "AddonModule", name });
      this.modules.set(name, mirrored);
    }
    return mirrored;
  }

  /** All mirrored objects, the AddonOperator first: modules carry a reference to it. */
  all(): MirroredObject[] {
    return [this.operator, ...this.modules.values()];
  }

  /** Sets what is wanted of each object; returns those that change by it. A directory not read yet removes nothing. */
  want(projection: Projection, view: View): MirroredObject[] {
    const changed = [this.operator];
    this.operator.status = projection.operator.status;
    for (const [name, { spec, status }] of projection.modules) {
      const mirrored = this.module(name);
      if (mirrored.status === status) continue;
      const shown = view.modules.get(name)?.decided === false ? this.#undecided(mirrored, spec) : spec;
      if (shown === undefined) continue;
      Object.assign(mirrored, { spec: shown, status, gone: false });
      changed.push(mirrored);
    }
    if (view.boot === "loading") return changed;
    for (const [name, mirrored] of this.modules) {
      if (mirrored.gone || projection.modules.has(name)) continue;
      Object.assign(mirrored, { status: undefined, gone: true });
      changed.push(mirrored);
    }
    return changed;
  }

  /** How long modules without an object still wait for discovery, in milliseconds. */
  get undecidedMs(): number {
    return this.#undecidedUntil === undefined ? 0 : this.#undecidedUntil - this.#parts.clock.monotonic();
  }

  /**
   * Before discovery a module keeps its spec, and one without an object waits for a moment: else every start would
   * write what the next second overwrites. undefined = not to be shown yet.
   */
  #undecided({ live }: MirroredObject, spec: ModuleSpec): ModuleSpec | undefined {
    if (live?.spec !== undefined) return live.spec as unknown as ModuleSpec;
    this.#undecidedUntil ??= this.#parts.clock.monotonic() + UNDECIDED_MS;
    return this.undecidedMs <= 0 ? spec : undefined;
  }

  /** Queues the object when something has to be done to it, now or as soon as it may be written. */
  consider(mirrored: MirroredObject): void {
    if (this.#closed) return;
    if (mirrored === this.operator) this.#shareOwner();
    if (mirrored.busy || mirrored.queued) return;
    if (mirrored.timer !== undefined && movesWordsOnly(mirrored, this.#marks)) return;
    mirrored.timer?.cancel();
    mirrored.timer = undefined;
    const need = this.#needOf(mirrored);
    if (need === "none") return this.#dropGone(mirrored);
    const wait = this.#waitMs(mirrored, need);
    if (wait <= 0) this.#enqueue(mirrored, need);
    else mirrored.timer = this.#parts.clock.setTimer(wait, () => this.#reconsider(mirrored));
  }

  #waitMs(mirrored: MirroredObject, need: Need): number {
    const { clock, backoff, isReloading } = this.#parts;
    const now = clock.monotonic();
    const due = Math.max(dueAt(mirrored, need), backoff.until, now);
    return (need === "status" && isReloading() ? nextBurst(due) : due) - now;
  }

  #reconsider(mirrored: MirroredObject): void {
    mirrored.timer = undefined;
    this.consider(mirrored);
  }

  /** How many objects have something to be written. */
  get unwritten(): number {
    return this.all().filter((mirrored) => mirrored.busy || this.#needOf(mirrored) !== "none").length;
  }

  /** Writes everything that differs without waiting for its turn; resolves when all of it is done or has failed. */
  async drain(): Promise<void> {
    for (const mirrored of this.all()) {
      const need = this.#needOf(mirrored);
      // A deleted object is not created again during a stop: its chart may be going too.
      const isLeft = need === "create" && mirrored.deleted;
      if (!mirrored.busy && !mirrored.queued && need !== "none" && !isLeft) this.#enqueue(mirrored, need);
    }
    await this.#queue.onIdle();
  }

  /** Ends all waiting. */
  close(): void {
    this.#queue.clear();
    this.#asking?.cancel();
    for (const mirrored of this.all()) mirrored.timer?.cancel();
  }

  get #closed(): boolean {
    return this.#parts.api.signal.aborted;
  }

  get #marks(): OwnerMarks {
    return { labels: this.#labels, ownerUid: this.operator.live?.uid };
  }

  #needOf(mirrored: MirroredObject): Need {
    if (mirrored.live !== undefined && isForeign(mirrored.live, this.#marks) && mirrored !== this.operator) {
      if (mirrored.status !== undefined && !mirrored.gone) this.#warnForeign(mirrored);
      return "none";
    }
    const need = needOf(mirrored, this.#marks);
    // Until the uid of the AddonOperator is known (or it cannot be made), a module would be written twice.
    return need === "create" && mirrored !== this.operator && !this.#isOwnerTried ? "none" : need;
  }

  get #isOwnerTried(): boolean {
    const { live, failures, deleted } = this.operator;
    return live !== undefined || failures > 0 || deleted;
  }

  /** Modules carry a reference to the AddonOperator: they are written again when it is another one. */
  #shareOwner(): void {
    const owner = this.#isOwnerTried ? (this.operator.live?.uid ?? "") : undefined;
    if (owner === this.#owner) return;
    this.#owner = owner;
    for (const mirrored of this.modules.values()) this.consider(mirrored);
  }

  #warnForeign({ id }: MirroredObject): void {
    if (this.#warned.has(id.name)) return;
    this.#warned.add(id.name);
    this.#parts.logger.warn("AddonModule belongs to another operator and is left alone", { module: id.name });
  }

  #enqueue(mirrored: MirroredObject, need: Need): void {
    mirrored.queued = true;
    const priority = need === "patch" || mirrored === this.operator ? 1 : 0;
    this.#queue.add(() => this.#run(mirrored), { priority }).catch(() => {});
  }

  async #run(mirrored: MirroredObject): Promise<void> {
    mirrored.queued = false;
    if (this.#closed) return;
    const { clock, backoff } = this.#parts;
    // Problems that another write met meanwhile delay this one too.
    if (backoff.until > clock.monotonic()) return this.consider(mirrored);
    mirrored.busy = true;
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
    return tracer === undefined ? write() : tracer.status(module, `status of ${kind} ${name}`, write);
  }

  #succeeded(mirrored: MirroredObject): void {
    this.#parts.onWrite?.(mirrored.id.kind, "written");
    mirrored.failures = 0;
    mirrored.notBefore = 0;
    this.#parts.backoff.succeeded();
  }

  /** Object first, then its status: the answer to the first says which generation the second speaks of. */
  async #write(mirrored: MirroredObject): Promise<void> {
    const { api, adopt, clock } = this.#parts;
    for (let need = this.#needOf(mirrored); need !== "none"; need = this.#needOf(mirrored)) {
      const { status } = mirrored;
      adopt(mirrored, await takeStep(api, mirrored, { need, marks: this.#marks }));
      if (need !== "status") continue;
      mirrored.written = status;
      mirrored.lastWriteAt = clock.monotonic();
      return;
    }
  }

  #dropGone({ gone, live, id }: MirroredObject): void {
    if (gone && live === undefined) this.modules.delete(id.name);
  }

  /** A pause that the server asked for ends once it answers a read. */
  #askSoon(): void {
    const { api, clock, backoff } = this.#parts;
    const { askInMs } = backoff;
    if (askInMs === undefined || this.#asking !== undefined) return;
    this.#asking = clock.setTimer(askInMs, async () => {
      const answers = await readObject(api, this.operator.id).then(
        () => true,
        () => false,
      );
      this.#asking = undefined;
      if (!answers || this.#closed) return;
      backoff.answered();
      for (const mirrored of this.all()) this.consider(mirrored);
    });
  }

  async #failed(mirrored: MirroredObject, error: unknown): Promise<void> {
    if (this.#closed) return;
    const { api, adopt, clock, backoff } = this.#parts;
    mirrored.failures += 1;
    if (isShared(error)) {
      backoff.failed(error);
      this.#askSoon();
      return;
    }
    mirrored.notBefore = clock.monotonic() + backoff.alone(error, mirrored.failures);
    if (error instanceof ApiError && [404, 409, 422].includes(error.status)) {
      // The object is not what was expected: read it before the next try.
      await readObject(api, mirrored.id).then(
        (live) => adopt(mirrored, live),
        () => {},
      );
    }
  }
}
