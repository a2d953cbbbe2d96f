/** Follows all releases: their Secrets, and health, drift and absence of their objects. */

import { NO_DRIFT, type DriftedObject } from "../../drift/index.ts";
import type { Health } from "../../health/index.ts";
import type { Release, Releases } from "../../helm/index.ts";
import { get, getMetadata, ignoreNotFound } from "../../kube/index.ts";
import type { KindFinder, KubeClient, Resource, WatchHub } from "../../kube/index.ts";
import { mapInParallel, oneLine, parseDuration } from "../../lib/index.ts";
import type { Clock, Logger, Scope, Timer } from "../../lib/index.ts";
import type { State } from "../../state/index.ts";
import { traceEvent } from "../../trace/index.ts";
import type { DriftMode } from "../../values/index.ts";
import { FollowedRelease } from "./followed-release.ts";
import { Healing, type AbsentObject } from "./healing.ts";
import { KindWatches } from "./kind-watches.ts";
import { PodWatches } from "./pod-watches.ts";
import { ReleaseDrift, type DriftPolicy } from "./release-drift.ts";
import { ReleaseHealth } from "./release-health.ts";
import { releaseObjectsOf, type ReleaseObject } from "./release-object.ts";
import { RequestLimit } from "./request-limit.ts";

/** If a failing module blocks the first converge, the objects of the other modules are watched after this time. */
const MOST_DELAY_MS = 30_000;
/** Release records that are read at the same time. */
const CONCURRENCY = 4;
const RETRY_MS = 10_000;
const READ_TIMEOUT_MS = 5000;
/** Objects named in one log line. */
const MOST_NAMED = 20;

interface FollowedReleasesOptions {
  readonly client: KubeClient;
  readonly kinds: Pick<KindFinder, "find">;
  readonly hub: WatchHub;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly state: State;
  readonly releases: Releases;
  readonly scope: Scope;
  /** How long an object may be in progress before its release is unhealthy. */
  readonly healthTimeoutMs: number;
  /** Default for modules whose ConfigMap section has no drift mode. */
  readonly drift: DriftMode;
  /** Called with each object that has drifted. */
  readonly onDrift: (module: string, object: DriftedObject, repaired: boolean) => void;
  /** Called when the health of a release changes; undefined = the release is not followed any more. */
  readonly onHealth: (module: string, health: Health | undefined) => void;
  /** Called with each object that is missing. */
  readonly onAbsent: (module: string, object: string) => void;
}

/** Records the releases of modules, and health, drift and missing objects of each. */
export class FollowedReleases {
  readonly #options: FollowedReleasesOptions;
  readonly #kinds: KindWatches;
  readonly #pods: PodWatches;
  /** Separate limits: a check of drift can take long, and a missing object must be found at once. */
  readonly #reads: RequestLimit;
  readonly #driftChecks: RequestLimit;
  /** By module. */
  readonly #followed = new Map<string, FollowedRelease>();
  /** Modules whose objects are watched after the first converge. */
  readonly #unwatchedModules = new Set<string>();
  #timer: Timer | undefined;
  /** Modules whose release records cannot be read: the objects known before stay watched. */
  readonly #unreadable = new Set<string>();
  #retryTimer: Timer | undefined;

  constructor(options: FollowedReleasesOptions) {
    this.#options = options;
    this.#kinds = new KindWatches(options);
    this.#pods = new PodWatches(options.hub);
    this.#reads = new RequestLimit(options.clock);
    this.#driftChecks = new RequestLimit(options.clock);
    options.scope.addRelease(() => {
      this.#timer?.cancel();
      this.#retryTimer?.cancel();
      for (const followed of this.#followed.values()) followed.close();
      for (const each of [this.#reads, this.#driftChecks, this.#pods, this.#kinds]) each.close();
    });
    options.releases.store.onChange((module) => this.check(module));
    options.state.onChange(({ boot }) => {
      if (boot === "running") this.#watchWaitingReleases();
    });
  }

  /** The watched objects of a module's release, as `namespace/Kind/name`. */
  objects(module: string): readonly string[] | undefined {
    return this.#followed.get(module)?.objects;
  }

  /** Records a module's release, and watches its current objects. */
  check(module: string): void {
    const { state, releases } = this.#options;
    state.recordModule(module, "observed", { release: releases.observed.get(module) });
    // During a run objects are created and deleted: the end of the run counts.
    if (state.module(module)?.run.activity !== "none") return;
    if (state.view.boot === "running") void this.#watchObjects(module);
    else this.#watchLater(module);
  }

  /** Watches the releases that waited for the end of the first converge. */
  #watchWaitingReleases(): void {
    if (this.#unwatchedModules.size === 0) return;
    this.#timer?.cancel();
    this.#timer = undefined;
    const modules = [...this.#unwatchedModules];
    this.#unwatchedModules.clear();
    void mapInParallel(CONCURRENCY, modules, (module) => this.#watchObjects(module));
  }

  /** Reading all records at once would delay the first converge, before whose end no object is restored. */
  #watchLater(module: string): void {
    this.#unwatchedModules.add(module);
    this.#timer ??= this.#options.clock.setTimer(MOST_DELAY_MS, () => this.#watchWaitingReleases());
  }

  /** Reads a module's release record and follows its objects. Never fails: a failed read is repeated later. */
  async #watchObjects(module: string): Promise<void> {
    const { releases, state } = this.#options;
    const observed = releases.observed.get(module);
    const revision = observed?.revision;
    try {
      const refs = (await releases.observed.readLastingRefs(module)) ?? [];
      const checks = state.module(module)?.module.health?.checks;
      const objects = await releaseObjectsOf(refs, observed?.namespace ?? "", checks);
      this.#unreadable.delete(module);
      this.#recordUnread(module, undefined);
      const release = releases.observed.get(module);
      // The event of a newer revision starts another read.
      if (release?.revision === revision) this.#follow(module, release, objects);
    } catch (error) {
      this.#retryLater(module, error);
    }
  }

  /** Records the release as it was read, and follows its objects. Forgets a module that has no release or is disabled. */
  #follow(module: string, release: Release | undefined, objects: readonly ReleaseObject[]): void {
    const { state, healthTimeoutMs } = this.#options;
    // The record has more than the labels of the Secret, and was read only now.
    state.recordModule(module, "observed", { release });
    const record = state.module(module);
    if (release === undefined || record?.enabled !== true) return this.#forget(module);
    // An entry without a name ignores all objects of its kind.
    const { ignore = [], timeout = "" } = record.module.health ?? {};
    const followed = this.#followed.get(module) ?? this.#createFollowed(module);
    this.#followed.set(module, followed);
    followed.follow({
      objects,
      revision: release.revision,
      counts: ({ kind, name }) => !ignore.some((each) => each.kind === kind && (each.name ?? name) === name),
      timeoutMs: parseDuration(timeout) ?? healthTimeoutMs,
    });
  }

  /** Stops to follow: the module has no release any more, or is disabled. */
  #forget(module: string): void {
    const followed = this.#followed.get(module);
    if (followed === undefined) return;
    followed.close();
    this.#followed.delete(module);
    const { state, onHealth } = this.#options;
    state.recordModule(module, "observed", { deferred: [], drift: NO_DRIFT, health: undefined });
    onHealth(module, undefined);
  }

  /** Makes the analyzers of a module's release. What they find is recorded in the state. */
  #createFollowed(module: string): FollowedRelease {
    const { clock, logger, state, releases, onDrift, onHealth } = this.#options;
    const kinds = this.#kinds;
    const healing = new Healing({
      kinds,
      clock,
      exists: (resource, object) => this.#exists(resource, object),
      limit: this.#reads,
      mayReport: () => this.#isSettled(module),
      onAbsent: (absent) => this.#recordAbsent(module, absent),
      onDeferred: (deferred) => this.#recordDeferred(module, deferred),
    });
    const health = new ReleaseHealth({
      kinds,
      clock,
      pods: this.#pods,
      onHealth: (found) => {
        state.recordModule(module, "observed", { health: found });
        onHealth(module, found);
      },
    });
    const drift = new ReleaseDrift({
      module,
      kinds,
      limit: this.#driftChecks,
      clock,
      logger,
      policy: () => this.#policyOf(module),
      recorded: (signal) => releases.readRecordedObjects(module, signal),
      mayCheck: () => this.#isSettled(module) && releases.observed.get(module)?.status === "deployed",
      onDrift: (drift) => state.recordModule(module, "observed", { drift }),
      onFound: (object, repaired) => onDrift(module, object, repaired),
    });
    return new FollowedRelease({ kinds, clock, analyzers: { healing, drift, health } });
  }

  /** Whether the server has the object. The watch of its kind learns the answer, too. */
  async #exists(resource: Resource, object: ReleaseObject): Promise<boolean> {
    const read = this.#kinds.needsWhole(object) ? get : getMetadata;
    const { namespace, name } = object;
    const target = { resource, namespace, name };
    const found = await read(this.#options.client, target, { timeoutMs: READ_TIMEOUT_MS }).catch(
      ignoreNotFound,
    );
    this.#kinds.recordAnswer(object, found);
    return found !== undefined;
  }

  /** Warns once that a release cannot be read, and reads all unreadable releases again after RETRY_MS. */
  #retryLater(module: string, error: unknown): void {
    const { clock, logger } = this.#options;
    if (!this.#unreadable.has(module))
      logger.warn("A release cannot be read; the objects known before stay watched", {
        module,
        error: oneLine(error),
      });
    this.#unreadable.add(module);
    // An API error may end by itself; a broken record needs a user.
    if (error instanceof SyntaxError) this.#recordUnread(module, error.message);
    this.#retryTimer ??= clock.setTimer(RETRY_MS, () => {
      this.#retryTimer = undefined;
      void mapInParallel(CONCURRENCY, [...this.#unreadable], (each) => this.#watchObjects(each));
    });
  }

  #recordUnread(module: string, unread: string | undefined): void {
    const { state } = this.#options;
    if (state.module(module)?.unread !== unread) state.recordModule(module, "observed", { unread });
  }

  /** Drift of a suspended module is only reported. */
  #policyOf(name: string): DriftPolicy {
    const { state, drift } = this.#options;
    const view = state.view.modules.get(name);
    const mode = view?.driftMode ?? drift;
    const ignore = view?.module.drift?.ignore ?? [];
    return { mode: mode === "repair" && view?.suspended === true ? "warn" : mode, ignore };
  }

  /**
   * Whether objects of the release may be assessed. False during a run, and until the objects of its revision are known: an
   * object that an upgrade removes is not missing, and a write by helm is no drift.
   */
  #isSettled(module: string): boolean {
    const { state, releases } = this.#options;
    const isIdle = state.module(module)?.run.activity === "none";
    return isIdle && this.#followed.get(module)?.revision === releases.observed.get(module)?.revision;
  }

  /** Records missing objects, so that a run restores them. Objects that were never created are only logged. */
  #recordAbsent(module: string, absent: readonly AbsentObject[]): void {
    const { state, logger, onAbsent } = this.#options;
    const missing = this.#createdObjects(module, absent);
    const neverCreated = absent.map(({ name }) => name).filter((name) => !missing.includes(name));
    if (neverCreated.length > 0)
      logger.warn("Objects of a release were never created", { module, ...shorten(neverCreated) });
    if (missing.length === 0) return;
    for (const object of missing) onAbsent(module, object);
    logger.warn("Objects of a release are missing", { module, ...shorten(missing) });
    // Objects that were reported before may still wait for a run.
    traceEvent("deleted object", { module, object: missing[0], objects: missing.length }, () =>
      state.recordModule(module, "objectsMissing", missing),
    );
  }

  #recordDeferred(module: string, deferred: readonly AbsentObject[]): void {
    const names = this.#createdObjects(module, deferred);
    this.#options.state.recordModule(module, "observed", { deferred: names });
  }

  /** Names of the objects that existed; in a deployed release, all have. */
  #createdObjects(module: string, objects: readonly AbsentObject[]): string[] {
    const isDeployed = this.#options.releases.observed.get(module)?.status === "deployed";
    return objects.filter(({ existed }) => existed || isDeployed).map(({ name }) => name);
  }
}

function shorten(objects: readonly string[]): { objects: readonly string[]; more?: number } {
  if (objects.length <= MOST_NAMED) return { objects };
  return { objects: objects.slice(0, MOST_NAMED), more: objects.length - MOST_NAMED };
}
