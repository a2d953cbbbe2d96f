/**
 * Watches all releases: their Secrets, and health, drift and missing objects of each. All of it is recorded in the operator's state as facts about
 * the module. The first converge is the first reconciliation of all modules after the start.
 */

import type { Release, Releases } from "../helm/index.ts";
import { get, getMetadata, ignoreNotFound } from "../kube/index.ts";
import type { KubeClient, Resource } from "../kube/index.ts";
import { mapInParallel, oneLine, parseDuration, Timers } from "../base/index.ts";
import type { Scope } from "../base/index.ts";
import type { State } from "../engine/state/index.ts";
import type { DriftMode } from "../values/index.ts";
import { WatchedRelease } from "./watched-release.ts";
import { SelfHeal, type MissingObject } from "./self-heal.ts";
import { KindWatches, type KindWatchesOptions } from "./kind-watches.ts";
import { PodWatches } from "./pod-watches.ts";
import { ReleaseDrift, type DriftPolicy } from "./release-drift.ts";
import { ReleaseHealth } from "./release-health.ts";
import { toReleaseObjects, type ReleaseObject } from "./object-state.ts";
import { RequestLimit } from "./request-limit.ts";
import { StorageClasses } from "./storage-classes.ts";
import type { TriggerReport } from "../config/index.ts";

/** If a failing module blocks the first converge, the objects of the other modules are watched after this time. */
const MAX_WATCH_DELAY_MS = 30_000;
/** Number of release records that are read at the same time: each is unpacked in memory. */
const CONCURRENCY = 4;
const RETRY_MS = 10_000;
const READ_TIMEOUT_MS = 5000;
const MAX_LOGGED_OBJECTS = 20;

interface WatchedReleasesOptions extends KindWatchesOptions {
  readonly client: KubeClient;
  readonly state: State;
  readonly releases: Releases;
  readonly scope: Scope;
  /** How long an object may be in progress before its release is unhealthy. */
  readonly healthTimeoutMs: number;
  /** Default for modules whose ConfigMap section has no drift mode. */
  readonly drift: DriftMode;
  readonly report: Pick<TriggerReport, "objectDrifted" | "healthChanged" | "objectMissing">;
}

/** Records the releases of modules, and health, drift and missing objects of each. */
export class WatchedReleases {
  readonly #options: WatchedReleasesOptions;
  readonly #kindWatches: KindWatches;
  readonly #podWatches: PodWatches;
  readonly #storageClasses: StorageClasses;
  /** Separate limits: a check of drift can take long, and a missing object must be found at once. */
  readonly #existenceLimit: RequestLimit;
  readonly #driftCheckLimit: RequestLimit;
  readonly #watchedReleases = new Map<string, WatchedRelease>();
  /** Modules whose objects are watched after the first converge. */
  readonly #waitingModules = new Set<string>();
  /** Modules whose release records cannot be read: the objects known before stay watched. */
  readonly #unreadableModules = new Set<string>();
  readonly #timers: Timers<"start" | "retry">;

  constructor(options: WatchedReleasesOptions) {
    this.#options = options;
    this.#timers = new Timers(options.clock);
    this.#kindWatches = new KindWatches(options);
    this.#podWatches = new PodWatches(options.hub);
    this.#storageClasses = new StorageClasses(options);
    this.#existenceLimit = new RequestLimit(options.clock);
    this.#driftCheckLimit = new RequestLimit(options.clock);
    options.scope.addRelease(() => {
      this.#timers.close();
      for (const watchedRelease of this.#watchedReleases.values()) watchedRelease.close();
      for (const each of [this.#existenceLimit, this.#driftCheckLimit, this.#podWatches, this.#kindWatches])
        each.close();
    });
    options.releases.store.onChange((module) => this.recordRelease(module));
    options.state.onChange(({ boot, modules }) => {
      if (boot === "running") this.#watchWaitingReleases();
      // A module whose directory returns has a new record, for which the findings must be recorded again.
      for (const module of this.#watchedReleases.keys()) if (!modules.has(module)) this.#stopWatching(module);
    });
  }

  /** Names of the watched objects of a module's release, as `namespace/Kind/name`. */
  getObjectNames(module: string): readonly string[] | undefined {
    return this.#watchedReleases.get(module)?.objectNames;
  }

  /** The release of a module may have changed: records it, and watches its current objects. */
  recordRelease(module: string): void {
    const { state, releases } = this.#options;
    state.recordModule(module, "releaseObserved", releases.observed.get(module));
    // A run creates and deletes objects: the objects are read after its end.
    if (state.module(module)?.run.activity !== "none") return;
    const isFirstConvergeDone = state.view.boot === "running";
    if (isFirstConvergeDone) void this.#watchObjects(module);
    else this.#watchLater(module);
  }

  /** Watches the releases that waited for the end of the first converge. */
  #watchWaitingReleases(): void {
    if (this.#waitingModules.size === 0) return;
    this.#timers.cancel("start");
    const modules = [...this.#waitingModules];
    this.#waitingModules.clear();
    void mapInParallel(CONCURRENCY, modules, (module) => this.#watchObjects(module));
  }

  /** Watches a release after the first converge (or MAX_WATCH_DELAY_MS): reading all release records before would delay the converge. */
  #watchLater(module: string): void {
    this.#waitingModules.add(module);
    this.#timers.setUnlessRunning("start", MAX_WATCH_DELAY_MS, () => this.#watchWaitingReleases());
  }

  /** Reads a module's release record and watches its objects. Never fails: a failed read is repeated later. */
  async #watchObjects(module: string): Promise<void> {
    const { releases, state } = this.#options;
    const observed = releases.observed.get(module);
    const revision = observed?.revision;
    try {
      // Without objects that may delete themselves, such as hooks of helm.
      const refs = (await releases.observed.readLastingRefs(module)) ?? [];
      const objects = await toReleaseObjects(refs, observed?.namespace ?? "", state.module(module)?.module);
      this.#unreadableModules.delete(module);
      this.#recordReadError(module, undefined);
      const release = releases.observed.get(module);
      // The event of a newer revision starts another read.
      if (release?.revision === revision) this.#watchRelease(module, release, objects);
    } catch (error) {
      this.#retryLater(module, error);
    }
  }

  /** Records the release and watches its objects. Ends the watch of a module that has no release or is disabled. */
  #watchRelease(module: string, release: Release | undefined, objects: readonly ReleaseObject[]): void {
    const { state, healthTimeoutMs } = this.#options;
    // Records it again: now it has the content of the release record, not only the labels of the Secret.
    state.recordModule(module, "releaseObserved", release);
    const record = state.module(module);
    if (release === undefined || record?.enabled !== true) return this.#stopWatching(module);
    const { ignore = [], timeout = "" } = record.module.health ?? {};
    const watchedRelease = this.#watchedReleases.get(module) ?? this.#createWatchedRelease(module);
    this.#watchedReleases.set(module, watchedRelease);
    watchedRelease.watchRevision({
      objects,
      revision: release.revision,
      // An entry of `ignore` without a name ignores all objects of its kind.
      countsForHealth: ({ kind, name }) =>
        !ignore.some((each) => each.kind === kind && (each.name ?? name) === name),
      timeoutMs: parseDuration(timeout) ?? healthTimeoutMs,
    });
  }

  /** Ends the watch of a module's objects, and forgets the findings: the module has no release any more, is disabled, or is missing. */
  #stopWatching(module: string): void {
    const watchedRelease = this.#watchedReleases.get(module);
    if (watchedRelease === undefined) return;
    watchedRelease.close();
    this.#watchedReleases.delete(module);
    const { state, report } = this.#options;
    state.recordModule(module, "releaseUnwatched");
    report.healthChanged(module, undefined);
  }

  /** Creates the analyzers of a module's release. They record their findings in the state. */
  #createWatchedRelease(module: string): WatchedRelease {
    const { clock, logger, state, releases, report } = this.#options;
    const kinds = this.#kindWatches;
    const selfHeal = new SelfHeal({
      kinds,
      clock,
      checkExists: (resource, object) => this.#checkExists(resource, object),
      limit: this.#existenceLimit,
      mayReport: () => this.#isSettled(module),
      onMissing: (missing) => this.#recordMissing(module, missing),
      // A run restores them only after their back-off, since they keep disappearing.
      onDeferred: (deferred) => {
        state.recordModule(module, "objectsDeferred", this.#selectCreated(module, deferred));
      },
    });
    const health = new ReleaseHealth({
      classes: this.#storageClasses,
      kinds,
      clock,
      pods: this.#podWatches,
      onHealth: (releaseHealth) => {
        state.recordModule(module, "healthAssessed", releaseHealth);
        report.healthChanged(module, releaseHealth);
        // A revision that stays healthy is labelled good: a rollback may go back to it.
        const record = state.module(module);
        if (record !== undefined) releases.goodRevisions.recordHealth(record.module, record.health);
      },
    });
    const drift = new ReleaseDrift({
      module,
      kinds,
      limit: this.#driftCheckLimit,
      clock,
      logger,
      getPolicy: () => this.#getDriftPolicy(module),
      readRecordedObjects: (signal) => releases.readRecordedObjects(module, signal),
      mayCheck: () => this.#isSettled(module) && releases.observed.get(module)?.status === "deployed",
      onDrift: (drift) => state.recordModule(module, "driftObserved", drift),
      onFound: (object, isRepaired) => report.objectDrifted(module, object, isRepaired),
    });
    return new WatchedRelease({ kinds, clock, analyzers: { selfHeal, drift, health } });
  }

  /** Reads an object from the server and returns whether it exists. Records the answer for the health of the object, too. */
  async #checkExists(resource: Resource, object: ReleaseObject): Promise<boolean> {
    const read = this.#kindWatches.needsWholeObject(object) ? get : getMetadata;
    const { namespace, name } = object;
    const answer = read(this.#options.client, { resource, namespace, name }, { timeoutMs: READ_TIMEOUT_MS });
    const liveObject = await answer.catch(ignoreNotFound);
    this.#kindWatches.recordAnswer(object, liveObject);
    return liveObject !== undefined;
  }

  /** Warns once that a release cannot be read, and reads all unreadable releases again after RETRY_MS. */
  #retryLater(module: string, error: unknown): void {
    const { logger } = this.#options;
    const message = "A release cannot be read; the objects known before stay watched";
    if (!this.#unreadableModules.has(module)) logger.warn(message, { module, error: oneLine(error) });
    this.#unreadableModules.add(module);
    // An API error may end by itself; a broken record needs a user.
    if (error instanceof SyntaxError) this.#recordReadError(module, error.message);
    this.#timers.setUnlessRunning("retry", RETRY_MS, () => {
      void mapInParallel(CONCURRENCY, [...this.#unreadableModules], (each) => this.#watchObjects(each));
    });
  }

  /** Records why the release record of a module cannot be read; undefined = it can. */
  #recordReadError(module: string, releaseReadError: string | undefined): void {
    const { state } = this.#options;
    if (state.module(module)?.releaseReadError !== releaseReadError)
      state.recordModule(module, "releaseObjectsRead", releaseReadError);
  }

  /** Returns how drift of a module is handled. Drift of a suspended module is only reported, never repaired. */
  #getDriftPolicy(name: string): DriftPolicy {
    const { state, drift: defaultMode } = this.#options;
    const record = state.view.modules.get(name);
    const mode = record?.driftMode ?? defaultMode;
    const ignore = record?.module.drift?.ignore ?? [];
    return { mode: mode === "repair" && record?.suspended === true ? "warn" : mode, ignore };
  }

  /**
   * Whether objects of the release may be assessed. False during a run, and until the objects of its revision are known: an
   * object that an upgrade removes is not missing, and a write by helm is no drift.
   */
  #isSettled(module: string): boolean {
    const { state, releases } = this.#options;
    const isIdle = state.module(module)?.run.activity === "none";
    return isIdle && this.#watchedReleases.get(module)?.revision === releases.observed.get(module)?.revision;
  }

  /** Records missing objects, so that a run restores them. Objects that were never created are only logged. */
  #recordMissing(module: string, found: readonly MissingObject[]): void {
    const { state, logger, report } = this.#options;
    const missing = this.#selectCreated(module, found);
    const neverCreated = found.map(({ name }) => name).filter((name) => !missing.includes(name));
    if (neverCreated.length > 0)
      logger.warn("Objects of a release were never created", { module, ...limitNames(neverCreated) });
    if (missing.length === 0) return;
    for (const object of missing) report.objectMissing(module, object);
    logger.warn("Objects of a release are missing", { module, ...limitNames(missing) });
    // The state adds them to the objects that wait for a run already.
    state.beginEvent("deleted object", { module, object: missing[0], objects: missing.length });
    state.recordModule(module, "objectsFoundMissing", missing);
  }

  /** Returns the names of the objects that have existed; in a deployed release, all have. A failed install may have created only some of its objects. */
  #selectCreated(module: string, objects: readonly MissingObject[]): string[] {
    const isDeployed = this.#options.releases.observed.get(module)?.status === "deployed";
    return objects.filter(({ hasExisted }) => hasExisted || isDeployed).map(({ name }) => name);
  }
}

/** Limits the names in a log line, and counts the others. */
function limitNames(objects: readonly string[]): { objects: readonly string[]; more?: number } {
  if (objects.length <= MAX_LOGGED_OBJECTS) return { objects };
  return { objects: objects.slice(0, MAX_LOGGED_OBJECTS), more: objects.length - MAX_LOGGED_OBJECTS };
}
