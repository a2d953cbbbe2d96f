/** Watches the kinds of objects that releases contain. */

import type { CelTest, Clock, Logger } from "../../lib/index.ts";
import type { Json, JsonObject } from "../../model/index.ts";
import { oneLine, sameJson } from "../../lib/index.ts";
import { fieldManagersOf, type FieldManagers } from "../../drift/index.ts";
import { findingOf, hasStatus, NOT_FOUND, unwatched, type Finding } from "../../health/index.ts";
import { ObjectStore, splitKey } from "../../kube/index.ts";
import type { KindFinder, Resource, Subscription, WatchHub, WatchedObject } from "../../kube/index.ts";
import type { ObjectRef } from "../../helm/index.ts";
import { kindKey, type ReleaseObject } from "./release-object.ts";

export interface KindWatchesOptions {
  readonly hub: WatchHub;
  readonly kinds: Pick<KindFinder, "find">;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** Listens to changes of the objects of a release. `key` is a `releaseObjectKey`. */
export interface KindListener {
  /** Any object may be missing. */
  missing(): void;
  deleted(key: string): void;
  /** The finding of this object has changed; without `key`, any finding may have. */
  assessed(key?: string): void;
  written(key: string): void;
  /** etcd was restored from a backup: resource versions seen before cannot be compared with later ones. */
  putBack(): void;
}

/** What the cache keeps of an object. */
interface ObservedObject {
  readonly resourceVersion: string;
  readonly finding: Finding;
  readonly fieldManagers: FieldManagers;
}

/** Helm labels every object that it creates; only these are watched. */
const MANAGED_BY_HELM = "app.kubernetes.io/managed-by=Helm";
/** Back-off of the search for a kind that the server does not serve yet. */
const FIND_BACKOFF = { firstMs: 10_000, maxMs: 600_000 };

/** The watch of one kind in one namespace, shared by all releases. */
interface KindWatch {
  readonly key: string;
  readonly check: CelTest | undefined;
  /** Releases with objects of this kind. */
  readonly users: Set<KindListener>;
  readonly present: ObjectStore<ObservedObject>;
  /** Findings of objects that the server returned although the watch lacks them. */
  readonly requested: Map<string, Finding>;
  resource: Resource | undefined;
  subscription: Subscription | undefined;
  /** Since when the kind cannot be watched (monotonic ms). */
  unwatchedSince: number | undefined;
  /** Why it cannot be watched. */
  issue: string | undefined;
  /** Ends the search for its kind. */
  readonly end: AbortController;
}

/** An object that the watch does not have. */
export interface Missing {
  readonly resource: Resource;
  /** Set while the kind cannot be watched: then the object may exist. */
  readonly unwatchedSince: number | undefined;
}

/**
 * Watches objects that helm created, with one watch per kind and namespace: whole objects if their health needs the
 * status, else metadata only. Of each object it keeps the finding and the field managers.
 */
export class KindWatches {
  readonly #options: KindWatchesOptions;
  readonly #watches = new Map<string, KindWatch>();

  constructor(options: KindWatchesOptions) {
    this.#options = options;
  }

  /** Watches the kinds of these objects for `user`, and no others. */
  follow(user: KindListener, objects: readonly ReleaseObject[]): void {
    for (const object of objects) {
      const key = kindKey(object);
      (this.#watches.get(key) ?? this.#openWatch(object, key)).users.add(user);
    }
    const wanted = new Set(objects.map(kindKey));
    for (const [key, watch] of this.#watches) {
      if (wanted.has(key) || !watch.users.delete(user) || watch.users.size > 0) continue;
      endWatch(watch);
      this.#watches.delete(key);
    }
  }

  /** The health finding of an object; undefined before the first list. It stays while the server cannot be reached. */
  finding(object: ReleaseObject): Finding | undefined {
    const watch = this.#watches.get(kindKey(object));
    if (watch === undefined) return undefined;
    const found = observedObject(watch, object)?.finding ?? watch.requested.get(storeKey(watch, object));
    if (found !== undefined) return found;
    if (watch.issue !== undefined) return unwatched(watch.issue);
    return watch.present.isSynced ? NOT_FOUND : undefined;
  }

  /** The field managers of an object; undefined while the watch does not have it. */
  fieldManagers(object: ReleaseObject): FieldManagers | undefined {
    const watch = this.#watches.get(kindKey(object));
    return watch && observedObject(watch, object)?.fieldManagers;
  }

  /** Whether the health of the object needs more than its metadata. */
  needsWhole(object: ReleaseObject): boolean {
    return object.check !== undefined || hasStatus(object.apiVersion, object.kind);
  }

  /** Records the server's answer to a read of an object; undefined = not found. */
  recordAnswer(object: ReleaseObject, found: JsonObject | undefined): void {
    const watch = this.#watches.get(kindKey(object));
    if (watch === undefined) return;
    const key = storeKey(watch, object);
    const before = watch.requested.get(key);
    if (found === undefined) watch.requested.delete(key);
    else
      watch.requested.set(
        key,
        findingOf(found, { ...timesOfNow(this.#options.clock), before, check: watch.check }),
      );
    this.#notifyAssessed(watch, object.name);
  }

  /** A reference to the object: without a namespace if its kind is cluster-scoped. */
  objectRefOf(object: ReleaseObject): ObjectRef {
    const isClusterWide = this.#watches.get(kindKey(object))?.resource?.namespaced === false;
    return isClusterWide ? { ...object, namespace: undefined } : object;
  }

  /** How to query the server for an object that may be missing. Undefined if the watch has it, or was not listed yet. */
  missing(object: ReleaseObject): Missing | undefined {
    const watch = this.#watches.get(kindKey(object));
    if (watch?.resource === undefined) return undefined;
    const { resource, unwatchedSince, present } = watch;
    if (unwatchedSince === undefined && (!present.isSynced || observedObject(watch, object) !== undefined))
      return undefined;
    return { resource, unwatchedSince };
  }

  close(): void {
    for (const watch of this.#watches.values()) endWatch(watch);
    this.#watches.clear();
  }

  /** Creates the watch of the object's kind. Watching begins when the kind is found on the server, maybe much later. */
  #openWatch(object: ReleaseObject, key: string): KindWatch {
    const watch: KindWatch = {
      key,
      check: object.check?.test,
      users: new Set(),
      present: new ObjectStore({ keep: (each, before) => this.#observe(each, before, object.check?.test) }),
      requested: new Map(),
      resource: undefined,
      subscription: undefined,
      unwatchedSince: undefined,
      issue: undefined,
      end: new AbortController(),
    };
    this.#watches.set(key, watch);
    void this.#findKindAndSubscribe(object, watch);
    return watch;
  }

  /** Waits until the server knows the kind, then watches its objects. Ends when no release uses the kind any more. */
  async #findKindAndSubscribe(object: ReleaseObject, watch: KindWatch): Promise<void> {
    const { signal } = watch.end;
    const onMissing = (): void => this.#setIssue(watch, "the server does not know its kind");
    const resource = await this.#options.kinds.find(object, { signal, onMissing, pace: FIND_BACKOFF });
    if (resource === undefined || signal.aborted) return;
    watch.resource = resource;
    watch.issue = undefined;
    if (resource.verbs.includes("watch")) this.#subscribe(object, watch, resource);
    else this.#recordUnwatchable(watch);
  }

  /** Watches the objects of the kind, and reports changes to the releases. */
  #subscribe(object: ReleaseObject, watch: KindWatch, resource: Resource): void {
    const namespace = resource.namespaced ? object.namespace : undefined;
    const metadataOnly = !this.needsWhole(object);
    const spec = {
      resource,
      namespace,
      labelSelector: MANAGED_BY_HELM,
      metadataOnly,
      keepManagedFields: true,
    };
    watch.subscription = watch.present.follow(this.#options.hub, spec, {
      changed: (now, before, key) => {
        watch.requested.delete(key);
        if (!watch.present.isSynced) return;
        const { name } = splitKey(key);
        if (now === undefined) return this.#notifyMissing(watch, name);
        if (before === undefined || !isSameFinding(before.finding, now.finding))
          this.#notifyAssessed(watch, name);
        for (const user of watch.users) user.written(`${watch.key}/${name}`);
      },
      synced: () => {
        this.#recordWatchable(watch);
        this.#notifyMissing(watch);
      },
      putBack: () => {
        for (const user of watch.users) user.putBack();
      },
      issue: (error) => {
        if (error === undefined) this.#recordWatchable(watch);
        else this.#recordUnwatchable(watch, error);
      },
    });
  }

  /** What the cache keeps of an object. The finding depends on the previous one: it says since when the state lasts. */
  #observe(
    object: WatchedObject,
    before: ObservedObject | undefined,
    check: CelTest | undefined,
  ): ObservedObject {
    const finding = findingOf(object, { ...timesOfNow(this.#options.clock), before: before?.finding, check });
    const { resourceVersion = "" } = object.metadata;
    return { resourceVersion, finding, fieldManagers: fieldManagersOf(object) };
  }

  #recordWatchable(watch: KindWatch): void {
    watch.unwatchedSince = undefined;
    this.#setIssue(watch, undefined);
  }

  /** Records that objects of the kind may exist unseen: the releases have to query the server for them. */
  #recordUnwatchable(watch: KindWatch, error?: Error): void {
    const { logger, clock } = this.#options;
    const why = error === undefined ? "the server does not offer it" : oneLine(error);
    if (error !== undefined)
      logger.warn("Release objects cannot be watched", { kind: watch.resource?.kind, error: why });
    watch.unwatchedSince ??= clock.monotonic();
    this.#setIssue(watch, why);
    this.#notifyMissing(watch);
  }

  #setIssue(watch: KindWatch, issue: string | undefined): void {
    if (watch.issue === issue) return;
    watch.issue = issue;
    this.#notifyAssessed(watch);
  }

  /** Notifies the releases that one object was deleted, or (without `name`) that any object may be missing. */
  #notifyMissing(watch: KindWatch, name?: string): void {
    for (const user of watch.users)
      if (name === undefined) user.missing();
      else user.deleted(`${watch.key}/${name}`);
    this.#notifyAssessed(watch, name);
  }

  #notifyAssessed(watch: KindWatch, name?: string): void {
    for (const user of watch.users) user.assessed(name && `${watch.key}/${name}`);
  }
}

function observedObject(watch: KindWatch, object: ReleaseObject): ObservedObject | undefined {
  return watch.present.get(storeKey(watch, object));
}

function storeKey({ resource }: KindWatch, { namespace, name }: ReleaseObject): string {
  return `${resource?.namespaced === false ? "" : namespace}/${name}`;
}

/** Whether the health of a release stays the same with the new finding. */
function isSameFinding(before: Finding, now: Finding): boolean {
  return (
    COMPARED_FIELDS.every((key) => before[key] === now[key]) &&
    sameJson(asJson(before.pods), asJson(now.pods))
  );
}

function asJson(pods: Finding["pods"]): Json {
  return (pods ?? null) as unknown as Json;
}

/** The fields of a finding that the health of a release depends on. */
const COMPARED_FIELDS = ["status", "reason", "message", "generation", "isLost"] as const;

function timesOfNow(clock: Clock): { readonly now: number; readonly wall: number } {
  return { now: clock.monotonic(), wall: clock.now() };
}

function endWatch(watch: KindWatch): void {
  watch.subscription?.close();
  watch.end.abort();
}
