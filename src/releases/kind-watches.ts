/**
 * Watches the kinds of objects that releases contain. A finding is the assessed health of one object. A watch lacks an object that does not exist,
 * that lost helm's label, or whose kind cannot be watched: only a read from the server shows which. Its answer gives a requested finding.
 */

import { oneLine, sameJson, type CelTest, type Clock, type Logger } from "../base/index.ts";
import type { Json, JsonObject } from "../base/model/index.ts";
import { digestFieldManagers, type FieldManagers } from "../kube/drift/index.ts";
import { openWhilePermitted } from "../hooks/bindings/index.ts";
import type { AccountPermissions } from "../hooks/index.ts";
import { createFinding, createUnwatchedFinding, hasStatus, NOT_FOUND } from "../kube/health/index.ts";
import type { Finding } from "../kube/health/index.ts";
import { ObjectStore, splitKey } from "../kube/index.ts";
import type { KindFinder, Resource, Subscription, WatchHub, WatchedObject } from "../kube/index.ts";
import type { ObjectRef } from "../helm/index.ts";
import { toKindKey, type ReleaseObject } from "./object-state.ts";

export interface KindWatchesOptions {
  readonly hub: WatchHub;
  readonly kinds: Pick<KindFinder, "find">;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly accountLimitsOf?: AccountPermissions | undefined;
}

/** Listens to changes of the objects of a release. `key` is a `releaseObjectKey`. */
export interface KindListener {
  /** Any object may have been deleted or changed without an event. */
  onEventsLost(): void;
  onDeleted(key: string): void;
  /** The health finding of this object has changed; without `key`, any finding may have. */
  onFindingChanged(key?: string): void;
  onWritten(key: string): void;
  /** etcd was restored from a backup: resource versions seen before cannot be compared with later ones. */
  onEtcdRestored(): void;
}

interface ObservedObject {
  readonly resourceVersion: string;
  readonly finding: Finding;
  readonly fieldManagers: FieldManagers;
}

/** Helm labels every object that it creates; the watch of a kind leaves out all other objects, which saves memory. */
const MANAGED_BY_HELM = "app.kubernetes.io/managed-by=Helm";
/** Back-off of the search for a kind that the server does not serve yet. */
const FIND_BACKOFF = { firstMs: 10_000, maxMs: 600_000 };

/** A failing watch is retried at least every 30 s, and each failure calls the listeners, which then find that it is stale. */
const STALE_AFTER_MS = 60_000;

/** The watch of one kind in one namespace, shared by all releases. */
interface KindWatch {
  readonly key: string;
  readonly healthCheck: CelTest | undefined;
  readonly listeners: Set<KindListener>;
  store: ObjectStore<ObservedObject>;
  /** Findings of objects that the server returned although the watch lacks them. */
  readonly requestedFindings: Map<string, Finding>;
  resource: Resource | undefined;
  subscription: Subscription | undefined;
  /** Since when the kind cannot be watched (monotonic ms). */
  unwatchedSince: number | undefined;
  watchError: string | undefined;
  /** Ends the search for the kind. */
  readonly abortController: AbortController;
}

/**
 * Watches objects that helm created, with one watch per kind and namespace: whole objects if their health needs the
 * status, else metadata only. Keeps only the health finding and the field managers of each object.
 */
export class KindWatches {
  readonly #options: KindWatchesOptions;
  readonly #watches = new Map<string, KindWatch>();

  constructor(options: KindWatchesOptions) {
    this.#options = options;
  }

  /** Registers a release as `listener` of the kinds of its objects, and of no others. Opens and closes watches accordingly. */
  setWatchedObjects(listener: KindListener, objects: readonly ReleaseObject[]): void {
    for (const object of objects) {
      const key = toKindKey(object);
      const watch = this.#watches.get(key) ?? this.#openWatch(object, key);
      watch.listeners.add(listener);
    }
    const wantedKeys = new Set(objects.map(toKindKey));
    for (const [key, watch] of this.#watches) {
      if (wantedKeys.has(key)) continue;
      const wasListener = watch.listeners.delete(listener);
      if (!wasListener || watch.listeners.size > 0) continue;
      closeWatch(watch);
      this.#watches.delete(key);
    }
  }

  /**
   * Returns the health finding of an object, from the watch or else from an answer; undefined before the first list. For a minute after the watch
   * has failed, the finding stays, but its time limit does not run; then it is unknown.
   */
  getFinding(object: ReleaseObject): Finding | undefined {
    const watch = this.#watches.get(toKindKey(object));
    if (watch === undefined) return undefined;
    const watchedFinding = getObservedObject(watch, object)?.finding;
    if (watchedFinding !== undefined) return this.#markIfStale(watch, watchedFinding);
    const finding = watch.requestedFindings.get(toStoreKey(watch, object));
    if (finding !== undefined) return finding;
    if (watch.watchError !== undefined) return createUnwatchedFinding(watch.watchError);
    return watch.store.isSynced ? NOT_FOUND : undefined;
  }

  /** A finding from a watch that has failed since: an object that cannot be seen may be healthy by now, or unhealthy. */
  #markIfStale({ unwatchedSince, watchError }: KindWatch, finding: Finding): Finding {
    if (unwatchedSince === undefined || watchError === undefined) return finding;
    const isStale = this.#options.clock.monotonic() - unwatchedSince >= STALE_AFTER_MS;
    return isStale ? createUnwatchedFinding(watchError) : { ...finding, since: Infinity };
  }

  /** Returns the field managers of an object; undefined while the watch does not have the object. */
  getFieldManagers(object: ReleaseObject): FieldManagers | undefined {
    const watch = this.#watches.get(toKindKey(object));
    return watch && getObservedObject(watch, object)?.fieldManagers;
  }

  /** Whether the health of the object needs more than its metadata. */
  needsWholeObject(object: ReleaseObject): boolean {
    return object.check !== undefined || hasStatus(object.apiVersion, object.kind);
  }

  /** Records the server's answer to a read of an object that the watch lacks; undefined = not found. */
  recordAnswer(object: ReleaseObject, found: JsonObject | undefined): void {
    const watch = this.#watches.get(toKindKey(object));
    if (watch === undefined) return;
    const key = toStoreKey(watch, object);
    const findings = watch.requestedFindings;
    if (found === undefined) findings.delete(key);
    else findings.set(key, this.#assess(watch, found, findings.get(key)));
    this.#notifyFindingChanged(watch, object.name);
  }

  /** Returns a reference to the object: without a namespace if the kind is cluster-scoped, which the manifest does not show. */
  toObjectRef(object: ReleaseObject): ObjectRef {
    const isClusterWide = this.#watches.get(toKindKey(object))?.resource?.namespaced === false;
    return isClusterWide ? { ...object, namespace: undefined } : object;
  }

  /**
   * Returns how to query the server for an object that the watch lacks; undefined if the watch has it, or has not listed its kind
   * yet. `unwatchedSince` is set while the kind cannot be watched: then the object may exist, even if an earlier watch had it.
   */
  findUnseen(object: ReleaseObject) {
    const watch = this.#watches.get(toKindKey(object));
    if (watch?.resource === undefined) return undefined;
    const { resource, unwatchedSince, store } = watch;
    const isWatched = unwatchedSince === undefined;
    const isSeen = getObservedObject(watch, object) !== undefined;
    return isWatched && (isSeen || !store.isSynced) ? undefined : { resource, unwatchedSince };
  }

  close(): void {
    for (const watch of this.#watches.values()) closeWatch(watch);
    this.#watches.clear();
  }

  /** Creates the watch of the object's kind. Watching begins when the kind is found on the server, maybe much later. */
  #openWatch(object: ReleaseObject, key: string): KindWatch {
    const healthCheck = object.check?.test;
    const watch: KindWatch = {
      key,
      healthCheck,
      listeners: new Set(),
      store: this.#createStore(healthCheck),
      requestedFindings: new Map(),
      resource: undefined,
      subscription: undefined,
      unwatchedSince: undefined,
      watchError: undefined,
      abortController: new AbortController(),
    };
    this.#watches.set(key, watch);
    void this.#findKindAndSubscribe(object, watch);
    return watch;
  }

  #createStore(healthCheck: CelTest | undefined): ObjectStore<ObservedObject> {
    return new ObjectStore({
      toStored: (each: WatchedObject, before) => ({
        resourceVersion: each.metadata.resourceVersion ?? "",
        finding: this.#assess({ healthCheck }, each, before?.finding),
        fieldManagers: digestFieldManagers(each),
      }),
    });
  }

  /** Waits until the server knows the kind, then watches its objects. Ends when no release uses the kind any more. */
  async #findKindAndSubscribe(object: ReleaseObject, watch: KindWatch): Promise<void> {
    const { signal } = watch.abortController;
    const onMissing = (): void => this.#setWatchError(watch, "the server does not know its kind");
    const search = { signal, onMissing, pollInterval: FIND_BACKOFF };
    const resource = await this.#options.kinds.find(object, search);
    if (resource === undefined || signal.aborted) return;
    const check = this.#createPermissionCheck(object, resource);
    if (check === undefined) this.#startWatching(object, watch, resource);
    else await this.#watchWhilePermitted({ object, watch, resource }, check);
  }

  #startWatching(object: ReleaseObject, watch: KindWatch, resource: Resource): void {
    watch.resource = resource;
    watch.watchError = undefined;
    if (resource.verbs.includes("watch")) this.#subscribe(object, watch, resource);
    else this.#recordUnwatchable(watch);
  }

  /** A check whether the account of the module may get the objects; undefined if the operator may read them for the module. */
  #createPermissionCheck(
    { guard, namespace }: ReleaseObject,
    { group, plural, namespaced }: Resource,
  ): (() => Promise<void>) | undefined {
    if (guard === undefined || (namespaced && namespace === guard.namespace)) return undefined;
    const permission = { verb: "get", group, resource: plural, namespace: namespaced ? namespace : "" };
    return async () => this.#options.accountLimitsOf?.(guard.module)?.assertPermitted([permission]);
  }

  /** Watches the objects while the account of the module may get them. Until then, nothing about them is known. */
  async #watchWhilePermitted(
    { object, watch, resource }: { object: ReleaseObject; watch: KindWatch; resource: Resource },
    check: () => Promise<void>,
  ): Promise<void> {
    const { signal } = watch.abortController;
    const close = (): void => {
      watch.subscription?.close();
      watch.store = this.#createStore(watch.healthCheck);
      watch.requestedFindings.clear();
      watch.resource = undefined;
      watch.unwatchedSince = undefined;
    };
    const open = (): void => this.#startWatching(object, watch, resource);
    const onRefused = (error: Error): void => this.#setWatchError(watch, oneLine(error));
    const { clock } = this.#options;
    await openWhilePermitted({ check, clock, signal }, { open, close, onRefused });
  }

  /** Watches the objects of the kind, and reports changes to the releases. */
  #subscribe(object: ReleaseObject, watch: KindWatch, resource: Resource): void {
    const spec = {
      resource,
      namespace: resource.namespaced ? object.namespace : undefined,
      labelSelector: MANAGED_BY_HELM,
      metadataOnly: !this.needsWholeObject(object),
      keepManagedFields: true,
    };
    watch.subscription = watch.store.watch(this.#options.hub, spec, {
      onChange: (now, before, key) => {
        // The event is newer than an answer.
        watch.requestedFindings.delete(key);
        // The end of the first list notifies of all objects at once.
        if (!watch.store.isSynced) return;
        const { name } = splitKey(key);
        if (now === undefined) return this.#notifyMissing(watch, name);
        if (before === undefined || !isSameFinding(before.finding, now.finding))
          this.#notifyFindingChanged(watch, name);
        for (const listener of watch.listeners) listener.onWritten(`${watch.key}/${name}`);
      },
      onSynced: () => {
        this.#recordWatchable(watch);
        this.#notifyMissing(watch);
      },
      onEtcdRestored: () => {
        for (const listener of watch.listeners) listener.onEtcdRestored();
      },
      onError: (error) => {
        if (error === undefined) this.#recordWatchable(watch);
        else this.#recordUnwatchable(watch, error);
      },
    });
  }

  /** Assesses the health of an object. The finding depends on the one before, which shows since when the health is the same. */
  #assess(
    { healthCheck }: Pick<KindWatch, "healthCheck">,
    object: JsonObject,
    before: Finding | undefined,
  ): Finding {
    const { clock } = this.#options;
    // Durations need the monotonic clock; times in statuses need the wall clock.
    return createFinding(object, { now: clock.monotonic(), wall: clock.now(), before, check: healthCheck });
  }

  /** The watch works (again). */
  #recordWatchable(watch: KindWatch): void {
    watch.unwatchedSince = undefined;
    this.#setWatchError(watch, undefined);
  }

  /** Records that the kind cannot be watched, for good (without `error`) or now: the releases have to query the server for its objects. */
  #recordUnwatchable(watch: KindWatch, error?: Error): void {
    const { logger, clock } = this.#options;
    const reason = error === undefined ? "the server does not offer it" : oneLine(error);
    if (error !== undefined)
      logger.warn("Release objects cannot be watched", { kind: watch.resource?.kind, error: reason });
    watch.unwatchedSince ??= clock.monotonic();
    this.#setWatchError(watch, reason);
    this.#notifyMissing(watch);
  }

  /** Records why the kind cannot be watched (undefined = it can); the findings of its objects depend on it. */
  #setWatchError(watch: KindWatch, error: string | undefined): void {
    if (watch.watchError === error) return;
    watch.watchError = error;
    this.#notifyFindingChanged(watch);
  }

  /** Notifies the releases that one object was deleted, or (without `name`) that any object may have been. */
  #notifyMissing(watch: KindWatch, name?: string): void {
    for (const listener of watch.listeners) {
      if (name === undefined) listener.onEventsLost();
      else listener.onDeleted(`${watch.key}/${name}`);
    }
    this.#notifyFindingChanged(watch, name);
  }

  /** Notifies the releases that the finding of one object, or (without `name`) of any object, has changed. */
  #notifyFindingChanged(watch: KindWatch, name?: string): void {
    for (const listener of watch.listeners) listener.onFindingChanged(name && `${watch.key}/${name}`);
  }
}

function getObservedObject(watch: KindWatch, object: ReleaseObject): ObservedObject | undefined {
  return watch.store.get(toStoreKey(watch, object));
}

/** Key of an object in the store of its watch, as `objectKey`: cluster-scoped objects have an empty namespace. */
function toStoreKey({ resource }: KindWatch, { namespace, name }: ReleaseObject): string {
  return `${resource?.namespaced === false ? "" : namespace}/${name}`;
}

/** The fields of a finding, besides `pods`, that the health of a release depends on. */
const COMPARED_FIELDS = ["status", "reason", "message", "generation", "isLost", "unusedClass"] as const;

/** Whether two findings lead to the same health of a release: most changes of an object do not, and cause no work. */
function isSameFinding(before: Finding, now: Finding): boolean {
  if (!COMPARED_FIELDS.every((key) => before[key] === now[key])) return false;
  return sameJson(before.pods as unknown as Json, now.pods as unknown as Json);
}

/** Ends the watch, or the search for its kind. */
function closeWatch(watch: KindWatch): void {
  watch.subscription?.close();
  watch.abortController.abort();
}
