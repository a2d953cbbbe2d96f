/**
 * Writes the state of the operator into the status of the AddonOperator and of its AddonModules. A *projection* computes the wanted
 * content of all of them from the state; a `Writer` then writes those that differ from the server. It also writes the statuses of
 * ModuleSources, which the controller of the sources computes.
 */

import { Timers, nextBurst, oneLine } from "../../base/index.ts";
import type { WatchHub } from "../../kube/index.ts";
import { asString } from "../../base/model/index.ts";
import { Loop, Pacer } from "../../runtime/index.ts";
import type { State, View } from "../../engine/state/index.ts";
import {
  MIN_WRITE_INTERVAL_MS,
  MirroredObjects,
  type MirroredObject,
  type ObjectId,
  type SourceVersion,
} from "./mirrored.ts";
import { OwnObjects } from "./own-objects.ts";
import type { StoredAddonObject } from "./stored-object.ts";
import { WriteBackoff } from "./backoff.ts";
import { type Projection, Projector } from "../project/projector.ts";
import type { SourceStatus } from "../models/kinds.ts";
import type { MirrorOptions } from "./mirror-options.ts";
import { Writer } from "./writer.ts";
import { type StateSnapshot } from "../explain/snapshot-index.ts";

/** A deleted AddonOperator is created again after this time: an uninstall of the chart may be deleting the operator too. */
const RECREATE_AFTER_MS = 2000;
const RETRY_READ_MS = 5000;
/** Longest time between two projections of the view. Many modules must not slow down the work. */
const MAX_PROJECTION_INTERVAL_MS = 2000;

/**
 * Keeps AddonModules and the AddonOperator in step with the view (what the operator knows). `update` returns at once, so that work
 * never waits for writes. Never throws; API errors are logged once and retried with back-off.
 */
export class StatusMirror {
  readonly #options: MirrorOptions;
  readonly #projector: Projector;
  readonly #abort = new AbortController();
  readonly #backoff: WriteBackoff;
  readonly #mirrored: MirroredObjects;
  readonly #writer: Writer;
  readonly #timers: Timers<"announce-run" | "discovery-wait">;
  readonly #objects: OwnObjects;
  #snapshot: StateSnapshot | undefined;
  readonly #pacer: Pacer;
  #isLoaded = false;
  /** No view was projected since the objects were read. */
  #isFirstProjection = true;
  /** Reads the objects that exist at the start. */
  readonly #loadLoop: Loop;
  /** Reads the ConfigMap again after the AddonOperator's spec has changed. */
  readonly #readLoop: Loop;

  /** Starts nothing: the first `update` begins to read the objects. */
  constructor(options: MirrorOptions) {
    const { client, namespace, operatorName, helmRelease, clock, logger } = options;
    this.#options = options;
    this.#timers = new Timers(clock);
    this.#pacer = new Pacer({
      clock,
      act: () => this.#projectAndWrite(),
      maxIntervalMs: MAX_PROJECTION_INTERVAL_MS,
      // During a converge, statuses are written together once a second: a projection before that would be in vain.
      align: (at) => (this.#isConverging ? nextBurst(at) : at),
    });
    const api = { client, namespace, operatorName, helmRelease, signal: this.#abort.signal };
    this.#projector = new Projector(options.statusValues, options.secrets, options.actors);
    this.#backoff = new WriteBackoff(clock, logger);
    this.#objects = new OwnObjects(api);
    this.#mirrored = new MirroredObjects(operatorName, clock);
    this.#loadLoop = this.#createLoadLoop();
    this.#readLoop = this.#createReadLoop();
    this.#writer = new Writer({
      ...options,
      api,
      mirrored: this.#mirrored,
      ownObjects: this.#objects,
      backoff: this.#backoff,
      isConverging: () => this.#isConverging,
      onAnswer: (mirrored) => this.#recordAnswer(mirrored),
      onWriteEnded: (mirrored) => this.#recordWatchedObject(mirrored),
    });
  }

  #createLoadLoop(): Loop {
    return new Loop({
      clock: this.#options.clock,
      run: () => this.#loadObjects(),
      retry: (error) => this.#backoff.recordFailure(error),
      // The back-off logs errors.
      onError: () => {},
    });
  }

  #createReadLoop(): Loop {
    const { clock, logger } = this.#options;
    return new Loop({
      clock,
      run: () => this.#acknowledge(),
      retry: RETRY_READ_MS,
      onError: (error) => logger.warn("Cannot read the ConfigMap again", { error: oneLine(error) }),
    });
  }

  /** Mirrors the state: writes it now and after each change. */
  followState(state: Pick<State, "view" | "onChange">, queues: { views(): StateSnapshot["queues"] }): void {
    // A getter, because reading the queues costs time: of several quick changes only the last one is projected.
    const update = (view: View): void =>
      this.update({
        view,
        get queues() {
          return queues.views();
        },
      });
    state.onChange(update);
    update(state.view);
  }

  /** Sets the state to write. The first change is written at once, later ones at most once a second per object. */
  update(snapshot: StateSnapshot): void {
    if (this.#isClosed) return;
    this.#snapshot = snapshot;
    if (!this.#isLoaded) this.#loadLoop.trigger();
    this.#pacer.trigger();
  }

  /** Watches the objects, reverts manual edits and reports annotations. Returns a function that ends the watches. */
  watch(hub: Pick<WatchHub, "subscribe">): () => void {
    return this.#objects.watchObjects(hub, (id, now) => {
      if (this.#isClosed) return;
      const mirrored = this.#mirrored.getOrCreate(id);
      if (now !== undefined) this.#reportAnnotations(mirrored, now);
      if (this.#isLoaded) this.#recordWatchedObject(mirrored);
    });
  }

  /** Watches the ModuleSources and reverts manual edits of their statuses. Returns a function that ends the watch. */
  watchSources(hub: Pick<WatchHub, "subscribe">): () => void {
    const onChange = (id: ObjectId, now: StoredAddonObject | undefined): void => {
      if (this.#isClosed) return;
      this.#recordWatchedObject(this.#mirrored.getOrCreate(id));
      if (now === undefined) this.#mirrored.sources.delete(id.name);
    };
    return this.#objects.watchObjects(hub, onChange, ["ModuleSource"]);
  }

  /** Sets the status of a ModuleSource, which describes this version of the source. Writes it if it differs. */
  setSourceStatus(name: string, version: SourceVersion, status: SourceStatus): void {
    this.#writer.scheduleWrite(this.#mirrored.setWantedSource(name, version, status));
  }

  /** uid of a module's object, or of the AddonOperator; undefined while there is none. */
  uidOf(module: string | undefined): string | undefined {
    const mirrored = module === undefined ? this.#mirrored.operator : this.#mirrored.modules.get(module);
    return mirrored?.liveObject?.uid;
  }

  /** The content that all objects are to have at this moment, whether they are written or not. */
  project(snapshot: StateSnapshot): Projection {
    return this.#projector.project(snapshot, this.#options.clock.now());
  }

  /** Number of objects whose wanted content is not written yet. Projects the last view first, and schedules the writes. */
  unwritten(): number {
    if (this.#snapshot === undefined) return 0;
    // Until the objects are read, each may differ: the AddonOperator and all modules.
    if (!this.#isLoaded) return 1 + this.#snapshot.view.modules.size;
    this.#projectAndWrite();
    return this.#writer.unwrittenCount;
  }

  /** Writes everything that is not written yet; resolves when each write is done or has failed once. */
  async flush(): Promise<void> {
    if (this.#isClosed || this.#snapshot === undefined) return;
    if (!this.#isLoaded) await this.#loadLoop.flush().catch(() => {});
    if (!this.#isLoaded) return;
    this.#projectAndWrite();
    await this.#writer.drain();
  }

  /** Ends all work, including calls in progress. Idempotent. */
  close(): void {
    this.#abort.abort();
    this.#writer.close();
    this.#loadLoop.close();
    this.#readLoop.close();
    this.#timers.close();
    this.#pacer.cancel();
  }

  get #isClosed(): boolean {
    return this.#abort.signal.aborted;
  }

  get #isConverging(): boolean {
    return this.#snapshot !== undefined && this.#snapshot.view.converge.phase !== "idle";
  }

  /** Records the cached object after an answer of the server. The cache may have a newer one, from a watch event. */
  #recordAnswer(mirrored: MirroredObject): void {
    const live = this.#objects.get(mirrored.id);
    if (live !== undefined) this.#reportAnnotations(mirrored, live);
    this.#recordLiveObject(mirrored, live);
  }

  /** Reads the objects that exist at the start, then schedules writes of all that differ. During a pause, returns the rest of it. */
  async #loadObjects(): Promise<number | void> {
    if (this.#isLoaded) return;
    const pauseMs = this.#backoff.pausedUntil - this.#options.clock.monotonic();
    if (pauseMs > 0) return pauseMs;
    for (const [id, live] of await this.#objects.loadObjects())
      this.#recordObjectAtStart(this.#mirrored.getOrCreate(id), live);
    this.#isLoaded = true;
    this.#backoff.recordSuccess();
    // The objects of an earlier process are not written yet, and a projection of all of them would delay the first converge.
    if (this.#mirrored.operator.liveObject !== undefined) this.#pacer.postpone(MIN_WRITE_INTERVAL_MS);
    else this.#projectAndWrite();
  }

  /** Records an object that exists at the start, and restores from it what this process does not know. */
  #recordObjectAtStart(mirrored: MirroredObject, live: StoredAddonObject): void {
    this.#reportAnnotations(mirrored, live);
    const runSeconds = live.status?.["runSeconds"];
    if (mirrored.id.kind === "AddonModule" && Array.isArray(runSeconds))
      this.#options.report.runSecondsRead(mirrored.id.name, runSeconds);
    this.#recordLiveObject(mirrored, live);
    // The object counts as just written, so that the pause between two writes delays its first one: a restart does not write all objects at once.
    mirrored.lastWriteAt = this.#options.clock.monotonic();
  }

  /**
   * Records the cached object after a watch event, and schedules a write if it differs from the wanted content. Does nothing
   * during a write: the writer calls it again when the write has ended.
   */
  #recordWatchedObject(mirrored: MirroredObject): void {
    const live = this.#objects.get(mirrored.id);
    if (mirrored.isBeingWritten || live === mirrored.liveObject) return;
    this.#recordLiveObject(mirrored, live);
    // A user may have created the object of a module that does not exist: the next projection finds out and removes it.
    const isUnknownModule = mirrored.id.kind === "AddonModule" && mirrored.wantedStatus === undefined;
    if (isUnknownModule && !mirrored.isModuleDeleted) this.#pacer.trigger();
    this.#writer.scheduleWrite(mirrored);
  }

  /**
   * Reports the annotations of an object, by which users request runs and confirm removals, and, when the object is first seen, the
   * token that an earlier process has handled. In an object that was seen before, only a user can have changed that token.
   */
  #reportAnnotations({ id, liveObject }: MirroredObject, { annotations, status }: StoredAddonObject): void {
    // The controller of the sources reads theirs.
    if (id.kind === "ModuleSource") return;
    const module = id.kind === "AddonModule" ? id.name : undefined;
    const isFirstSeen = liveObject === undefined;
    const handledToken = isFirstSeen ? asString(status?.["lastHandledReconcileAt"]) : undefined;
    this.#options.annotations.handleAnnotations(module, annotations, handledToken);
  }

  /**
   * Records the object as it is on the server. A new generation of the AddonOperator means that a user has changed its spec. Its
   * status names the new `observedGeneration` only after `#acknowledge`.
   */
  #recordLiveObject(mirrored: MirroredObject, live: StoredAddonObject | undefined): void {
    const before = mirrored.liveObject;
    mirrored.liveObject = live;
    if (live === undefined) return this.#recordDeletion(mirrored, before);
    mirrored.isObjectDeletedByUser = false;
    if (mirrored !== this.#mirrored.operator) return;
    const isNewObject = before?.uid !== live.uid;
    if (isNewObject) mirrored.acknowledgedGeneration = live.generation;
    else if (before.generation !== live.generation) this.#readLoop.trigger();
  }

  /**
   * Records that a user deleted an object that is still wanted: it is created again, but not while the operator stops (`drain`). The
   * AddonOperator is created only after a pause: an uninstall may be deleting the operator, too.
   */
  #recordDeletion(mirrored: MirroredObject, before: StoredAddonObject | undefined): void {
    const wasDeletedByUser = before !== undefined && !mirrored.isModuleDeleted;
    if (!wasDeletedByUser) return;
    mirrored.isObjectDeletedByUser = true;
    if (mirrored === this.#mirrored.operator)
      mirrored.notBefore = this.#options.clock.monotonic() + RECREATE_AFTER_MS;
  }

  /**
   * Acknowledges a new generation of the AddonOperator in `observedGeneration`, once the ConfigMap has been read again: whoever
   * edits both and waits for the generation must not see the state of the older ConfigMap. Throws if it cannot be read.
   */
  async #acknowledge(): Promise<void> {
    const { operator } = this.#mirrored;
    const generation = operator.liveObject?.generation;
    await this.#options.config.refresh();
    if (generation === undefined || operator.liveObject?.generation !== generation || this.#isClosed) return;
    // First projects the content that was just read, so that no older status gets the new generation.
    this.#projectAndWrite();
    operator.acknowledgedGeneration = generation;
    this.#writer.scheduleWrite(operator);
  }

  /** Projects the view and schedules writes of the objects that changed, or of all objects at the first time. */
  #projectAndWrite(): void {
    const snapshot = this.#snapshot;
    if (snapshot === undefined || !this.#isLoaded || this.#isClosed) return;
    this.#pacer.measure(() => this.#writeChanges(snapshot));
  }

  #writeChanges(snapshot: StateSnapshot): void {
    const projection = this.#tryToProject(snapshot);
    if (projection === undefined) return;
    const changed = this.#mirrored.setWanted(projection, snapshot.view);
    const { discoveryWaitMs } = this.#mirrored;
    if (discoveryWaitMs > 0)
      this.#timers.set("discovery-wait", discoveryWaitMs, () => this.#projectAndWrite());
    for (const mirrored of this.#isFirstProjection ? this.#mirrored.listObjects() : changed)
      this.#writer.scheduleWrite(mirrored);
    this.#isFirstProjection = false;
    const { expiresAt } = projection.explanation;
    if (expiresAt === Infinity) return;
    // A young run is not displayed yet. The status must display it later even if nothing else changes.
    const waitMs = Math.max(1, expiresAt - this.#options.clock.now());
    this.#timers.set("announce-run", waitMs, () => this.#pacer.trigger());
  }

  /** As `project`. Logs an error and returns undefined: an error of the status must not stop the work of the operator. */
  #tryToProject(snapshot: StateSnapshot): Projection | undefined {
    try {
      return this.project(snapshot);
    } catch (error) {
      this.#options.logger.error("Cannot show the state", { error: oneLine(error) });
      return undefined;
    }
  }
}
