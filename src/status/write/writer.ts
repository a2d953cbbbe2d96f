/** Writes the objects of the status, bounded in rate and number. */

import PQueue from "p-queue";

import { type Clock, type Logger, digest, nextBurst } from "../../lib/index.ts";
import { ApiError, ConnectionError } from "../../kube/index.ts";
import {
  type MirroredObject,
  type Marks,
  type Need,
  dueAt,
  isForeign,
  movesWordsOnly,
  needOf,
  newMirroredObject,
} from "./mirrored.ts";
import type { LiveObject } from "./live.ts";
import { type Home, readObject, takeStep } from "../project/objects.ts";
import type { Patience } from "./patience.ts";

/** What a {@link Writer} works with. */
export interface WriterParts {
  readonly home: Home;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly patience: Patience;
  /** Writes at the same time. */
  readonly parallel: number;
  /** A reload is under way: statuses are written in bursts, so as not to slow it down. */
  readonly isReloading: () => boolean;
  /** Takes over what is known of an object after a call or a watch event. */
  readonly adopt: (entry: MirroredObject, known: LiveObject | undefined) => void;
  /** A write is done: what watches reported of the object meanwhile may be taken over. */
  readonly settled: (entry: MirroredObject) => void;
}

/**
 * Brings objects to what their entries want: one step after the other, a limited number at a time, with pauses
 * while the server has problems.
 */
export class Writer {
  readonly operator: MirroredObject;
  readonly modules = new Map<string, MirroredObject>();
  readonly #parts: WriterParts;
  readonly #queue: PQueue;
  readonly #labels: Readonly<Record<string, string>>;
  readonly #warned = new Set<string>();
  /** uid of the AddonOperator that modules refer to: "" = there is none to be had, undefined = not tried yet. */
  #owner: string | undefined;

  constructor(parts: WriterParts) {
    const { namespace, operatorName } = parts.home;
    this.#parts = parts;
    this.#queue = new PQueue({ concurrency: parts.parallel });
    this.operator = newMirroredObject({ kind: "AddonOperator", name: operatorName });
    this.#labels = {
      "app.kubernetes.io/managed-by": "addon-operator",
      "addon-operator.io/managed-by": digest(`${namespace}/${operatorName}`),
    };
  }

  /** The entry of a module; made where there is none. */
  module(name: string): MirroredObject {
    let entry = this.modules.get(name);
    if (entry === undefined) {
      entry = newMirroredObject({ kind: "AddonModule", name });
      this.modules.set(name, entry);
    }
    return entry;
  }

  /** All entries, the AddonOperator first: modules carry a reference to it. */
  entries(): MirroredObject[] {
    return [this.operator, ...this.modules.values()];
  }

  /** Queues the entry when something has to be done to it, now or as soon as it may be written. */
  consider(entry: MirroredObject): void {
    if (this.#closed) return;
    if (entry === this.operator) this.#shareOwner();
    if (entry.busy || entry.queued) return;
    if (entry.timer !== undefined && movesWordsOnly(entry, this.#marks)) return;
    entry.timer?.cancel();
    entry.timer = undefined;
    const need = this.#needOf(entry);
    if (need === "none") return this.#dropGone(entry);
    const wait = this.#waitMs(entry, need);
    if (wait <= 0) this.#enqueue(entry, need);
    else entry.timer = this.#parts.clock.setTimer(wait, () => this.#reconsider(entry));
  }

  #waitMs(entry: MirroredObject, need: Need): number {
    const { clock, patience, isReloading } = this.#parts;
    const now = clock.now();
    const due = Math.max(dueAt(entry, need), patience.until, now);
    return (need === "status" && isReloading() ? nextBurst(due) : due) - now;
  }

  #reconsider(entry: MirroredObject): void {
    entry.timer = undefined;
    this.consider(entry);
  }

  /** How many entries have something to be written. */
  get unwritten(): number {
    return this.entries().filter((entry) => entry.busy || this.#needOf(entry) !== "none").length;
  }

  /** Writes everything that differs without waiting for its turn; resolves when all of it is done or has failed. */
  async drain(): Promise<void> {
    for (const entry of this.entries()) {
      const need = this.#needOf(entry);
      // A deleted object is not created again during a stop: its chart may be going too.
      const isLeft = need === "create" && entry.deleted;
      if (!entry.busy && !entry.queued && need !== "none" && !isLeft) this.#enqueue(entry, need);
    }
    await this.#queue.onIdle();
  }

  /** Ends all waiting. */
  close(): void {
    this.#queue.clear();
    for (const entry of this.entries()) entry.timer?.cancel();
  }

  get #closed(): boolean {
    return this.#parts.home.signal.aborted;
  }

  get #marks(): Marks {
    return { labels: this.#labels, ownerUid: this.operator.known?.uid };
  }

  #needOf(entry: MirroredObject): Need {
    if (entry.known !== undefined && isForeign(entry.known, this.#marks) && entry !== this.operator) {
      if (entry.status !== undefined && !entry.gone) this.#warnForeign(entry);
      return "none";
    }
    const need = needOf(entry, this.#marks);
    // Until the uid of the AddonOperator is known (or there is none to be had), a module would be written twice.
    return need === "create" && entry !== this.operator && !this.#isOwnerTried ? "none" : need;
  }

  get #isOwnerTried(): boolean {
    const { known, failures, deleted } = this.operator;
    return known !== undefined || failures > 0 || deleted;
  }

  /** Modules carry a reference to the AddonOperator: they are written again when it is another one. */
  #shareOwner(): void {
    const owner = this.#isOwnerTried ? (this.operator.known?.uid ?? "") : undefined;
    if (owner === this.#owner) return;
    this.#owner = owner;
    for (const entry of this.modules.values()) this.consider(entry);
  }

  #warnForeign({ id }: MirroredObject): void {
    if (this.#warned.has(id.name)) return;
    this.#warned.add(id.name);
    this.#parts.logger.warn("AddonModule belongs to another operator and is left alone", { module: id.name });
  }

  #enqueue(entry: MirroredObject, need: Need): void {
    entry.queued = true;
    const priority = need === "patch" || entry === this.operator ? 1 : 0;
    this.#queue.add(() => this.#run(entry), { priority }).catch(() => {});
  }

  async #run(entry: MirroredObject): Promise<void> {
    entry.queued = false;
    if (this.#closed) return;
    const { clock, patience } = this.#parts;
    // Problems that another write met meanwhile delay this one too.
    if (patience.until > clock.now()) return this.consider(entry);
    entry.busy = true;
    try {
      await this.#write(entry);
      this.#succeeded(entry);
    } catch (error) {
      await this.#failed(entry, error);
    } finally {
      entry.busy = false;
    }
    this.#parts.settled(entry);
    this.consider(entry);
  }

  #succeeded(entry: MirroredObject): void {
    entry.failures = 0;
    entry.notBefore = 0;
    this.#parts.patience.succeeded();
  }

  /** Object first, then its status: the answer to the first says which generation the second speaks of. */
  async #write(entry: MirroredObject): Promise<void> {
    const { home, adopt, clock } = this.#parts;
    for (let need = this.#needOf(entry); need !== "none"; need = this.#needOf(entry)) {
      const { status } = entry;
      adopt(entry, await takeStep(home, entry, { need, marks: this.#marks }));
      if (need !== "status") continue;
      entry.written = status;
      entry.lastWriteAt = clock.now();
      return;
    }
  }

  #dropGone({ gone, known, id }: MirroredObject): void {
    if (gone && known === undefined) this.modules.delete(id.name);
  }

  async #failed(entry: MirroredObject, error: unknown): Promise<void> {
    if (this.#closed) return;
    const { home, adopt, clock, patience } = this.#parts;
    entry.failures += 1;
    if (isShared(error)) {
      patience.failed(error);
      return;
    }
    entry.notBefore = clock.now() + patience.alone(error, entry.failures);
    if (error instanceof ApiError && [404, 409, 422].includes(error.status)) {
      // The object is not what was expected: read it before the next try.
      await readObject(home, entry.id).then(
        (known) => adopt(entry, known),
        () => {},
      );
    }
  }
}

/** Errors that every other write would meet as well: no answer, a missing kind, a server with problems. */
function isShared(error: unknown): boolean {
  if (error instanceof ConnectionError) return true;
  if (!(error instanceof ApiError)) return false;
  return isMissingKind(error) || error.status === 429 || error.status >= 500;
}

/** 404 for the kind, not for an object of it: that answer names no object. */
function isMissingKind(error: ApiError): boolean {
  return error.status === 404 && error.details?.["name"] === undefined;
}
