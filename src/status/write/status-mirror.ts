/** Keeps AddonModules and the AddonOperator as the state says. */

import { type KnownSecrets, Timers, oneLine } from "../../lib/index.ts";
import { EARLIEST, type KubeAccess, type NamedMeta } from "../../kube/index.ts";
import type { Moment } from "../../plan/index.ts";
import type { State, View } from "../../state/index.ts";
import type { Tracer } from "../../trace/index.ts";
import { Lists, liveFrom } from "./mirrored.ts";
import type { Identity, Listed, LiveObject, MirroredObject } from "./mirrored.ts";
import { type HelmRelease, type StatusClient, listObjects } from "./objects.ts";
import { WriteBackoff } from "./backoff.ts";
import { type Projection, Projector } from "../project/projector.ts";
import type { AddonObject, ModuleStatus } from "../models/kinds.ts";
import type { StatusValues } from "../project/module-status.ts";
import { Writer, type OnWrite } from "./writer.ts";

/** Settings of a {@link StatusMirror}. */
export interface MirrorOptions extends KubeAccess {
  /** Name of the AddonOperator: the ConfigMap's. */
  readonly operatorName: string;
  /** Removes secrets from every text. */
  readonly secrets: KnownSecrets;
  readonly tracer?: Pick<Tracer, "status"> | undefined;
  /** `--status-values`. */
  readonly statusValues: StatusValues;
  /** Release of the operator's own chart, for the ownership marks of an AddonOperator created here. */
  readonly helmRelease?: HelmRelease | undefined;
  /** Told of each write how it ended. */
  readonly onWrite?: OnWrite;
  /**
   * Called with the annotations of each object that is seen, and the request that its status says was answered; `module` is
   * undefined for the AddonOperator.
   */
  readonly annotated: (
    module: string | undefined,
    annotations: NamedMeta["annotations"],
    answered: string | undefined,
  ) => void;
  /** Called once with what the status of a module keeps of its runs: an operator that has just begun knows of none. */
  readonly remembers: (module: string, runSeconds: readonly unknown[]) => void;
  /**
   * Called when somebody changed the AddonOperator's spec. Resolves when the ConfigMap has been read again (quorum
   * read) and recorded: only then may the status speak of the new generation.
   */
  readonly specChanged: () => Promise<void>;
}

/** A deleted AddonOperator is created again after this time: its chart may be going, and the operator with it. */
const OPERATOR_BACK_MS = 2000;
const READ_AGAIN_MS = 5000;
/** Least and longest time between two looks at the view; looks may take a twentieth of the time. */
const LOOK_MS = { min: 50, max: 500 };
const LOOK_COST = 20;

/**
 * Keeps AddonModules and the AddonOperator as the view says. Work never waits for it: `update` only takes notes.
 * Never throws; API errors are logged once and tried again with growing delays.
 */
export class StatusMirror {
  readonly #options: MirrorOptions;
  readonly #api: StatusClient;
  readonly #projector: Projector;
  readonly #abort = new AbortController();
  readonly #backoff: WriteBackoff;
  readonly #writer: Writer;
  readonly #timers: Timers<"look" | "age" | "load" | "read" | "late">;
  readonly #lists = new Lists();
  #shown: Moment | undefined;
  /** When the last look at the view began, and the least time until the next. */
  #lookedAt = Number.NEGATIVE_INFINITY;
  #pauseMs = LOOK_MS.min;
  #loaded = false;
  #loading: Promise<void> | undefined;

  constructor(options: MirrorOptions) {
    const { client, namespace, operatorName, helmRelease, clock, logger } = options;
    this.#options = options;
    this.#timers = new Timers(clock);
    this.#api = { client, namespace, operatorName, helmRelease, signal: this.#abort.signal };
    this.#projector = new Projector(options.statusValues, options.secrets);
    this.#backoff = new WriteBackoff(clock, logger);
    this.#writer = new Writer({
      api: this.#api,
      clock,
      logger,
      backoff: this.#backoff,
      tracer: options.tracer,
      onWrite: options.onWrite,
      isReloading: () => this.#shown !== undefined && this.#shown.view.reload.phase !== "idle",
      adopt: (mirrored, live) => this.#adopt(mirrored, live),
      ended: (mirrored) => this.#notice(mirrored),
    });
  }

  /** Shows what the state says, now and each time that it changes. */
  follow(state: Pick<State, "view" | "onChange">, queues: { views(): Moment["queues"] }): void {
    const show = (view: View): void => this.update(view, queues.views());
    state.onChange(show);
    show(state.view);
  }

  /** Notes what is known now; the first change is written at once, later ones at most once a second per object. */
  update(view: View, queues: Moment["queues"]): void {
    if (this.#closed) return;
    this.#shown = { view, queues };
    this.#startLoading();
    this.#lookSoon();
  }

  /** An own object as a watch reports it: edits by hand are undone, annotations passed on. */
  onObserved(object: AddonObject): void {
    const mirrored = this.#mirroredOf(object);
    if (mirrored === undefined) return;
    this.#tellAnnotations(mirrored, object);
    this.#see(mirrored, object, object);
  }

  /** An own object that a watch reports as deleted: it is created again while it is wanted. */
  onDeleted(object: AddonObject): void {
    const mirrored = this.#mirroredOf(object);
    if (mirrored !== undefined) this.#see(mirrored, object, undefined);
  }

  /** A watch listed all objects of a kind. */
  onListed(kind: Identity["kind"], listed: Listed): void {
    if (this.#closed) return;
    this.#lists.add(kind, listed);
    for (const mirrored of this.#writer.all()) if (mirrored.id.kind === kind) this.#notice(mirrored);
  }

  /** The server was put back to an earlier state: what the next list shows counts, whatever was known. */
  onPutBack(kind: Identity["kind"]): void {
    this.#lists.forget(kind);
    for (const mirrored of this.#writer.all()) {
      if (mirrored.id.kind !== kind) continue;
      mirrored.seen = undefined;
      if (mirrored.live !== undefined) mirrored.live = { ...mirrored.live, resourceVersion: EARLIEST };
    }
  }

  /** uid of a module's object, or of the AddonOperator; undefined while there is none. */
  uidOf(module: string | undefined): string | undefined {
    return (module === undefined ? this.#writer.operator : this.#writer.modules.get(module))?.live?.uid;
  }

  /** The status of a module as it is to be written; undefined while there is none. */
  statusOf(module: string): ModuleStatus | undefined {
    return this.#writer.modules.get(module)?.status as ModuleStatus | undefined;
  }

  /** How many objects are not yet as the last view says, which may not have been looked at. */
  unwritten(): number {
    if (this.#shown === undefined) return 0;
    if (!this.#loaded) return 1 + this.#shown.view.modules.size;
    this.#look();
    return this.#writer.unwritten;
  }

  /** Writes everything that is not written yet, now; resolves when that is done or has failed once. */
  async flush(): Promise<void> {
    if (this.#closed || this.#shown === undefined) return;
    this.#startLoading();
    await this.#loading;
    if (!this.#loaded) return;
    this.#look();
    await this.#writer.drain();
  }

  /** Ends all work, also calls under way. Idempotent. */
  close(): void {
    this.#abort.abort();
    this.#writer.close();
    this.#timers.close();
  }

  get #closed(): boolean {
    return this.#abort.signal.aborted;
  }

  /** The mirrored object of what was seen; undefined = someone else's AddonOperator, or too late. */
  #mirroredOf({ kind, metadata: { name } }: AddonObject): MirroredObject | undefined {
    if (this.#closed) return undefined;
    if (kind === "AddonModule") return this.#writer.module(name);
    return name === this.#api.operatorName ? this.#writer.operator : undefined;
  }

  #startLoading(): void {
    if (this.#loaded || this.#loading !== undefined || this.#backoff.until > this.#options.clock.monotonic())
      return;
    this.#loading = this.#load().finally(() => void (this.#loading = undefined));
  }

  async #load(): Promise<void> {
    try {
      const operators = await listObjects(this.#api, "AddonOperator");
      const modules = await listObjects(this.#api, "AddonModule");
      for (const object of [...operators, ...modules]) this.#takeIn(object);
      this.#loaded = true;
      for (const mirrored of this.#writer.all()) this.#catchUp(mirrored);
      this.#backoff.succeeded();
      this.#look(true);
    } catch (error) {
      if (this.#closed) return;
      this.#timers.set("load", this.#backoff.failed(error), () => this.#startLoading());
    }
  }

  /** An object that was there at the start: differences are based on it. */
  #takeIn(object: AddonObject): void {
    const mirrored = this.#mirroredOf(object);
    if (mirrored === undefined) return;
    this.#tellAnnotations(mirrored, object);
    const { runSeconds } = object.kind === "AddonModule" ? (object.status ?? {}) : {};
    if (Array.isArray(runSeconds)) this.#options.remembers(mirrored.id.name, runSeconds);
    this.#adopt(mirrored, liveFrom(object));
    // Counts as just written, so a restart that finds all as it was writes nothing at once.
    mirrored.lastWriteAt = this.#options.clock.monotonic();
  }

  /** `object` is undefined where the watch reported its last state. */
  #see(mirrored: MirroredObject, { metadata }: AddonObject, object: AddonObject | undefined): void {
    mirrored.seen = { object, version: metadata.resourceVersion ?? "" };
    this.#notice(mirrored);
  }

  #notice(mirrored: MirroredObject): void {
    if (!mirrored.busy && this.#catchUp(mirrored)) this.#writer.consider(mirrored);
  }

  /** Takes over what watches reported; false = nothing new. The list at the start is the base: until then it waits. */
  #catchUp(mirrored: MirroredObject): boolean {
    if (!this.#loaded) return false;
    const live = this.#lists.liveAfter(mirrored);
    mirrored.seen = undefined;
    if (live === mirrored.live) return false;
    this.#adopt(mirrored, live);
    // An object without a module that was looked at may belong to a module that is gone.
    if (mirrored.status === undefined && !mirrored.gone) this.#lookSoon();
    return true;
  }

  #tellAnnotations({ id }: MirroredObject, { metadata, status }: AddonObject): void {
    const module = id.kind === "AddonModule" ? id.name : undefined;
    this.#options.annotated(module, metadata.annotations, status?.lastHandledReconcileAt);
  }

  /** Takes over what is known of an object, and finds out whether the status may speak of its new generation. */
  #adopt(mirrored: MirroredObject, live: LiveObject | undefined): void {
    const before = mirrored.live;
    mirrored.live = live;
    if (live === undefined) return this.#lose(mirrored, before);
    mirrored.deleted = false;
    if (mirrored !== this.#writer.operator) return;
    if (before?.uid !== live.uid) mirrored.acknowledged = live.generation;
    else if (before.generation !== live.generation) this.#acknowledge(live.generation);
  }

  /** It is gone; if it is still wanted, somebody else deleted it. */
  #lose(mirrored: MirroredObject, before: LiveObject | undefined): void {
    if (before === undefined || mirrored.gone) return;
    mirrored.deleted = true;
    if (mirrored === this.#writer.operator)
      mirrored.notBefore = this.#options.clock.monotonic() + OPERATOR_BACK_MS;
  }

  /** Somebody changed the AddonOperator's spec: its status follows when the ConfigMap has been read again. */
  #acknowledge(generation: number): void {
    const { operator } = this.#writer;
    const isNewest = (): boolean => operator.live?.generation === generation && !this.#closed;
    this.#options.specChanged().then(
      () => {
        if (!isNewest()) return;
        this.#look();
        operator.acknowledged = generation;
        this.#writer.consider(operator);
      },
      (error: unknown) => {
        this.#options.logger.warn("Cannot read the ConfigMap again", { error: oneLine(error) });
        const again = (): void => void (isNewest() && this.#acknowledge(generation));
        this.#timers.set("read", READ_AGAIN_MS, again);
      },
    );
  }

  #lookSoon(): void {
    if (this.#timers.has("look")) return;
    const wait = Math.max(0, this.#lookedAt + this.#pauseMs - this.#options.clock.monotonic());
    this.#timers.set("look", wait, () => this.#look());
  }

  /** Computes the statuses of the view and looks at those that changed, or at all. */
  #look(isFirst = false): void {
    if (this.#shown === undefined || !this.#loaded || this.#closed) return;
    const { clock } = this.#options;
    const startedAt = clock.monotonic();
    this.#lookedAt = startedAt;
    const projection = this.#project(this.#shown);
    if (projection === undefined) return;
    const changed = this.#writer.want(projection, this.#shown.view);
    const { undecidedMs } = this.#writer;
    if (undecidedMs > 0) this.#timers.set("late", undecidedMs, () => this.#look());
    for (const mirrored of isFirst ? this.#writer.all() : changed) this.#writer.consider(mirrored);
    const costMs = clock.monotonic() - startedAt;
    this.#pauseMs = Math.min(LOOK_MS.max, Math.max(LOOK_MS.min, LOOK_COST * costMs));
    const again = projection.lookAgainAt;
    if (again !== undefined) this.#timers.set("age", Math.max(1, again - clock.now()), () => this.#look());
  }

  /** A view that cannot be shown costs its status, never the work. */
  #project(shown: Moment): Projection | undefined {
    try {
      return this.#projector.project(shown, this.#options.clock.now());
    } catch (error) {
      this.#options.logger.error("Cannot show the state", { error: oneLine(error) });
      return undefined;
    }
  }
}
