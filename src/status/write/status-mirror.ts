/** Writes the state into the status of AddonModules and the AddonOperator. */

import { type KnownSecrets, Timers, oneLine } from "../../lib/index.ts";
import type { KubeAccess, NamedMeta, WatchHub } from "../../kube/index.ts";
import { asString } from "../../model/index.ts";
import type { StateSnapshot } from "../../plan/index.ts";
import type { State, View } from "../../state/index.ts";
import type { Tracer } from "../../trace/index.ts";
import type { ObjectId, StoredObject, MirroredObject } from "./mirrored.ts";
import { MirroredObjects } from "./mirrored-objects.ts";
import type { HelmRelease, StatusClient } from "./objects.ts";
import { OwnObjects } from "./own-objects.ts";
import { WriteBackoff } from "./backoff.ts";
import { type Projection, Projector, type IdentityOf } from "../project/projector.ts";
import type { ModuleStatus } from "../models/kinds.ts";
import type { StatusValues } from "../project/module-status.ts";
import { Writer, type OnWrite } from "./writer.ts";

/** Settings of a {@link StatusMirror}. */
export interface MirrorOptions extends KubeAccess {
  /** Name of the AddonOperator: the ConfigMap's. */
  readonly operatorName: string;
  /** Removes secrets from every text. */
  readonly secrets: KnownSecrets;
  readonly tracer?: Pick<Tracer, "traceStatusWrite"> | undefined;
  readonly statusValues: StatusValues;
  /** Release of the operator's own chart, for the ownership marks of an AddonOperator created here. */
  readonly helmRelease?: HelmRelease | undefined;
  /** Called after each write with its result. */
  readonly onWrite?: OnWrite;
  /**
   * Called with the annotations of each object, and the answered token in its status; `module` is undefined for the
   * AddonOperator.
   */
  readonly onAnnotations: (
    module: string | undefined,
    annotations: NamedMeta["annotations"],
    answered: string | undefined,
  ) => void;
  /** As whom a module acts; without it, all act as the operator. */
  readonly identityOf?: IdentityOf;
  /** Called once per module with the run durations in its status, which a restarted operator does not know. */
  readonly onRunSeconds: (module: string, runSeconds: readonly unknown[]) => void;
  /**
   * Called when the AddonOperator's spec has changed. Resolves when the ConfigMap has been read again (quorum read) and
   * recorded: only then may the status have the new `observedGeneration`.
   */
  readonly specChanged: () => Promise<void>;
}

/** A deleted AddonOperator is created again after this time: an uninstall of the chart may be deleting the operator too. */
const RECREATE_AFTER_MS = 2000;
const RETRY_READ_MS = 5000;
/** Least and longest pause between two projections of the view. Projections may take 1/CHECK_COST of the time. */
const CHECK_MS = { min: 50, max: 2000 };
const CHECK_COST = 20;

/**
 * Keeps AddonModules and the AddonOperator in step with the view. `update` returns at once, so that work never waits for
 * writes. Never throws; API errors are logged once and retried with back-off.
 */
export class StatusMirror {
  readonly #options: MirrorOptions;
  readonly #api: StatusClient;
  readonly #projector: Projector;
  readonly #abort = new AbortController();
  readonly #backoff: WriteBackoff;
  readonly #wanted: MirroredObjects;
  readonly #writer: Writer;
  readonly #timers: Timers<"check" | "age" | "load" | "read" | "late">;
  readonly #objects: OwnObjects;
  #displayed: StateSnapshot | undefined;
  /** Start of the last projection, and the least pause until the next one. */
  #checkedAt = Number.NEGATIVE_INFINITY;
  #pauseMs = CHECK_MS.min;
  #loaded = false;
  #loading: Promise<void> | undefined;

  constructor(options: MirrorOptions) {
    const { client, namespace, operatorName, helmRelease, clock, logger } = options;
    this.#options = options;
    this.#timers = new Timers(clock);
    this.#api = { client, namespace, operatorName, helmRelease, signal: this.#abort.signal };
    this.#projector = new Projector(options.statusValues, options.secrets, options.identityOf);
    this.#backoff = new WriteBackoff(clock, logger);
    this.#objects = new OwnObjects(this.#api);
    this.#wanted = new MirroredObjects(operatorName, clock);
    this.#writer = new Writer({
      objects: this.#wanted,
      api: this.#api,
      clock,
      logger,
      backoff: this.#backoff,
      tracer: options.tracer,
      onWrite: options.onWrite,
      isConverging: () => this.#displayed !== undefined && this.#displayed.view.converge.phase !== "idle",
      ask: (mirrored, request) => this.#request(mirrored, request),
      ended: (mirrored) => this.#handleWatched(mirrored),
    });
  }

  /** Writes the state, now and after each change. */
  follow(state: Pick<State, "view" | "onChange">, queues: { views(): StateSnapshot["queues"] }): void {
    const show = (view: View): void => this.update(view, queues.views());
    state.onChange(show);
    show(state.view);
  }

  /** Sets what to write. The first change is written at once, later ones at most once a second per object. */
  update(view: View, queues: StateSnapshot["queues"]): void {
    if (this.#closed) return;
    this.#displayed = { view, queues };
    this.#startLoading();
    this.#checkSoon();
  }

  /** Watches the objects, reverts manual edits and reports annotations. Returns a function that ends this. */
  watch(hub: Pick<WatchHub, "subscribe">): () => void {
    return this.#objects.follow(hub, (id, now) => {
      if (this.#closed) return;
      const mirrored = this.#mirrored(id);
      if (now !== undefined) this.#reportAnnotations(mirrored, now);
      this.#handleWatched(mirrored);
    });
  }

  /** uid of a module's object, or of the AddonOperator; undefined while there is none. */
  uidOf(module: string | undefined): string | undefined {
    return (module === undefined ? this.#wanted.operator : this.#wanted.modules.get(module))?.live?.uid;
  }

  /** The status of a module as it is to be written; undefined while there is none. */
  statusOf(module: string): ModuleStatus | undefined {
    return this.#wanted.modules.get(module)?.status as ModuleStatus | undefined;
  }

  /** Number of objects that differ from the last view. */
  unwritten(): number {
    if (this.#displayed === undefined) return 0;
    if (!this.#loaded) return 1 + this.#displayed.view.modules.size;
    this.#check();
    return this.#writer.unwritten;
  }

  /** Writes everything that is not written yet; resolves when each write is done or has failed once. */
  async flush(): Promise<void> {
    if (this.#closed || this.#displayed === undefined) return;
    this.#startLoading();
    await this.#loading;
    if (!this.#loaded) return;
    this.#check();
    await this.#writer.drain();
  }

  /** Ends all work, including calls in progress. Idempotent. */
  close(): void {
    this.#abort.abort();
    this.#writer.close();
    this.#timers.close();
  }

  get #closed(): boolean {
    return this.#abort.signal.aborted;
  }

  #mirrored({ kind, name }: ObjectId): MirroredObject {
    return kind === "AddonModule" ? this.#wanted.module(name) : this.#wanted.operator;
  }

  /** Sends a request about an object (a write or a read), then adopts what the server answered. */
  async #request(mirrored: MirroredObject, request: () => Promise<StoredObject | undefined>): Promise<void> {
    const answer = await this.#objects.request(mirrored.id, request);
    if (answer !== undefined) this.#reportAnnotations(mirrored, answer);
    this.#adopt(mirrored, this.#objects.get(mirrored.id));
  }

  #startLoading(): void {
    if (this.#loaded || this.#loading !== undefined || this.#backoff.until > this.#options.clock.monotonic())
      return;
    this.#loading = this.#load().finally(() => void (this.#loading = undefined));
  }

  async #load(): Promise<void> {
    try {
      await this.#objects.load();
      for (const [id, live] of this.#objects.all()) this.#adoptInitial(this.#mirrored(id), live);
      this.#loaded = true;
      this.#backoff.succeeded();
      this.#check(true);
    } catch (error) {
      if (this.#closed) return;
      this.#timers.set("load", this.#backoff.failed(error), () => this.#startLoading());
    }
  }

  /** Adopts an object that existed at the start. */
  #adoptInitial(mirrored: MirroredObject, live: StoredObject): void {
    this.#reportAnnotations(mirrored, live);
    const { runSeconds } = mirrored.id.kind === "AddonModule" ? (live.status ?? {}) : {};
    if (Array.isArray(runSeconds)) this.#options.onRunSeconds(mirrored.id.name, runSeconds);
    this.#adopt(mirrored, live);
    // Counts as just written, so a restart that finds all as it was writes nothing at once.
    mirrored.lastWriteAt = this.#options.clock.monotonic();
  }

  /** Adopts what a watch reported, but not before the first list and not during a write. */
  #handleWatched(mirrored: MirroredObject): void {
    const live = this.#objects.get(mirrored.id);
    if (!this.#loaded || mirrored.busy || live === mirrored.live) return;
    this.#adopt(mirrored, live);
    // The object may belong to a deleted module.
    if (mirrored.status === undefined && !mirrored.missing) this.#checkSoon();
    this.#writer.consider(mirrored);
  }

  #reportAnnotations({ id }: MirroredObject, { annotations, status }: StoredObject): void {
    const module = id.kind === "AddonModule" ? id.name : undefined;
    this.#options.onAnnotations(module, annotations, asString(status?.["lastHandledReconcileAt"]));
  }

  /** Records the content on the server. A changed spec of the AddonOperator (a new generation) must be acknowledged. */
  #adopt(mirrored: MirroredObject, live: StoredObject | undefined): void {
    const before = mirrored.live;
    mirrored.live = live;
    if (live === undefined) return this.#recordDeletion(mirrored, before);
    mirrored.deleted = false;
    if (mirrored !== this.#wanted.operator) return;
    if (before?.uid !== live.uid) mirrored.acknowledged = live.generation;
    else if (before.generation !== live.generation) this.#acknowledge(live.generation);
  }

  /** Records that the object was deleted although it is still wanted. */
  #recordDeletion(mirrored: MirroredObject, before: StoredObject | undefined): void {
    if (before === undefined || mirrored.missing) return;
    mirrored.deleted = true;
    if (mirrored === this.#wanted.operator)
      mirrored.notBefore = this.#options.clock.monotonic() + RECREATE_AFTER_MS;
  }

  /** Acknowledges a new generation of the AddonOperator once the ConfigMap has been read again. */
  #acknowledge(generation: number): void {
    const { operator } = this.#wanted;
    const isNewest = (): boolean => operator.live?.generation === generation && !this.#closed;
    this.#options.specChanged().then(
      () => {
        if (!isNewest()) return;
        this.#check();
        operator.acknowledged = generation;
        this.#writer.consider(operator);
      },
      (error: unknown) => {
        this.#options.logger.warn("Cannot read the ConfigMap again", { error: oneLine(error) });
        const retry = (): void => void (isNewest() && this.#acknowledge(generation));
        this.#timers.set("read", RETRY_READ_MS, retry);
      },
    );
  }

  /** Schedules a projection. The pause since the last one keeps its share of CPU time low. */
  #checkSoon(): void {
    if (this.#timers.has("check")) return;
    const wait = Math.max(0, this.#checkedAt + this.#pauseMs - this.#options.clock.monotonic());
    this.#timers.set("check", wait, () => this.#check());
  }

  /** Projects the view and writes the statuses that changed, or at first all. */
  #check(isFirst = false): void {
    if (this.#displayed === undefined || !this.#loaded || this.#closed) return;
    const { clock } = this.#options;
    const startedAt = clock.monotonic();
    this.#checkedAt = startedAt;
    const projection = this.#project(this.#displayed);
    if (projection === undefined) return;
    const changed = this.#wanted.setWanted(projection, this.#displayed.view);
    const { undecidedMs } = this.#wanted;
    if (undecidedMs > 0) this.#timers.set("late", undecidedMs, () => this.#check());
    for (const mirrored of isFirst ? this.#wanted.all() : changed) this.#writer.consider(mirrored);
    const costMs = clock.monotonic() - startedAt;
    this.#pauseMs = Math.min(CHECK_MS.max, Math.max(CHECK_MS.min, CHECK_COST * costMs));
    const { checkAgainAt } = projection;
    if (checkAgainAt !== undefined)
      this.#timers.set("age", Math.max(1, checkAgainAt - clock.now()), () => this.#check());
  }

  /** Never throws: an error of the projection costs the status, not the work. */
  #project(displayed: StateSnapshot): Projection | undefined {
    try {
      return this.#projector.project(displayed, this.#options.clock.now());
    } catch (error) {
      this.#options.logger.error("Cannot show the state", { error: oneLine(error) });
      return undefined;
    }
  }
}
