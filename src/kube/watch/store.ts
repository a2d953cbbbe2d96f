/** A store of objects that merges watch events and answers of the API server, whichever arrives first. */

import type { Subscription } from "./consumer.ts";
import { Deletions } from "./deletions.ts";
import type { WatchHub } from "./hub.ts";
import { EARLIEST_VERSION, findNewestVersion, isLater, isNewer, isOlder, objectKey } from "./watch-spec.ts";
import type { WatchedObject, WatchSpec } from "./watch-spec.ts";

interface Versioned {
  /** Empty = newer than any other version. */
  readonly resourceVersion: string;
}

interface StoreOptions<T> {
  /** Converts an object into its stored form; `before` is the previous one. Undefined = do not store the object. */
  readonly toStored: (object: WatchedObject, before: T | undefined) => T | undefined;
  /** Objects of one group can be read and listed together; default: all are in one. */
  readonly groupOf?: (value: T) => string;
}

/** Listener for changes that the watch delivers; answers go to the caller only. */
interface StoreListener<T> {
  /** An object is new, changed, or deleted (`now` is undefined). Also called during the first list, and for changes that only a repeated list shows. */
  onChange?(now: T | undefined, before: T | undefined, key: string): void;
  onSynced?(): void;
  /** The server's etcd was restored to an earlier state: versions seen so far cannot be compared any more. */
  onEtcdRestored?(): void;
  /** The watch fails and is retried; undefined = it works again. */
  onError?(error: Error | undefined): void;
}

interface ListAnswer {
  readonly items: readonly WatchedObject[];
  readonly resourceVersion: string;
}

/**
 * The newest known version of each object of a selection, by `namespace/name`. Versions only increase, until the
 * server's etcd is restored: neither a late watch event nor a late answer brings back an older or a deleted object.
 */
export class ObjectStore<T extends Versioned> {
  readonly #toStored: StoreOptions<T>["toStored"];
  readonly #groupOf: (value: T) => string;
  readonly #objects = new Map<string, T>();
  /** Keys of the known objects of each group. */
  readonly #keysByGroup = new Map<string, Set<string>>();
  readonly #deletions = new Deletions();
  /** Objects that an answer 404 removed, which a server that is behind may send: a check of the watch brings them back. */
  readonly #missingByAnswer = new Map<string, T>();
  /** The last version that the watch delivered: it reports no change up to this version any more. */
  #lastWatchVersion = "";
  #pendingRequests = 0;
  /** Number of etcd restores: versions of requests sent before the last one cannot be compared. */
  #etcdRestores = 0;
  #isSynced = false;

  constructor({ toStored, groupOf = () => "" }: StoreOptions<T>) {
    this.#toStored = toStored;
    this.#groupOf = groupOf;
  }

  /** The first list of the watch is complete. */
  get isSynced(): boolean {
    return this.#isSynced;
  }

  get(key: string): T | undefined {
    return this.#objects.get(key);
  }

  entries(): Iterable<[key: string, value: T]> {
    return this.#objects;
  }

  values(): Iterable<T> {
    return this.#objects.values();
  }

  /** The groups that have objects. */
  groupNames(): Iterable<string> {
    return this.#keysByGroup.keys();
  }

  /** The stored objects of one group. */
  groupObjects(name: string): T[] {
    return [...(this.#keysByGroup.get(name) ?? [])].flatMap((key) => this.#objects.get(key) ?? []);
  }

  /**
   * Stores what `spec` selects from now on, and notifies `listener` of every change. The store may contain objects before the first list
   * is complete, from answers: the ones that the list lacks are removed.
   */
  watch(hub: Pick<WatchHub, "subscribe">, spec: WatchSpec, listener: StoreListener<T> = {}): Subscription {
    let listedKeys = new Set<string>();
    let restoresAtListStart = this.#etcdRestores;
    const applied = (object: WatchedObject): void => this.#handleApplied(object, listener);
    const removeUnlisted = (keys: ReadonlySet<string>, version: string): void => {
      for (const [key, value] of this.#removeUnlisted(keys, version))
        listener.onChange?.(undefined, value, key);
    };
    return hub.subscribe(spec, {
      onListStart: () => {
        listedKeys = new Set();
        restoresAtListStart = this.#etcdRestores;
      },
      onListed: (object) => {
        listedKeys.add(objectKey(object));
        applied(object);
      },
      onSynced: (version) => {
        removeUnlisted(listedKeys, version);
        // The etcd was restored while the list was read: its first objects may have versions of the lost state.
        if (restoresAtListStart !== this.#etcdRestores) this.#resetVersions();
        listedKeys = new Set();
        this.#isSynced = true;
        listener.onSynced?.();
      },
      onApplied: applied,
      onDeleted: (object, complete) => this.#handleDeleted(object, !complete, listener),
      onRelisted: (keys, version) => {
        removeUnlisted(keys, version);
        for (const [key, value] of this.#restoreListed(keys, version))
          listener.onChange?.(value, undefined, key);
      },
      onEtcdRestored: () => {
        this.#etcdRestores += 1;
        this.#resetVersions();
        listener.onEtcdRestored?.();
      },
      getNewestVersion: () => this.#getNewestVersion(),
      onError: (error) => listener.onError?.(error),
    });
  }

  /**
   * Sends `request`, which reads or writes the object, records the answer and returns it; undefined = the object does not
   * exist. Use this for every request, so that a late answer cannot bring back an older version.
   */
  fetchObject<A extends T | undefined>(key: string, request: () => Promise<A>): Promise<A> {
    return this.#trackRequest(async () => {
      const before = this.#objects.get(key);
      const answer = await request();
      if (answer !== undefined) this.#storeIfNewer(key, answer, false);
      // A 404 has no version, so it deletes the object only if nothing newer arrived meanwhile.
      else if (before !== undefined && before === this.#objects.get(key)) {
        this.#removeWithTombstone(key, before.resourceVersion);
        this.#missingByAnswer.set(key, before);
      }
      return answer;
    });
  }

  /** Sends `request` and records its list of one group, or (undefined) of everything. */
  fetchList(request: () => Promise<ListAnswer>, group?: string): Promise<void> {
    return this.#trackRequest(async () => {
      const { items, resourceVersion } = await request();
      for (const object of items) {
        const key = objectKey(object);
        const value = this.#toStored(object, this.#objects.get(key));
        if (value !== undefined) this.#storeIfNewer(key, value, false);
      }
      this.#removeUnlisted(new Set(items.map(objectKey)), resourceVersion, group);
    });
  }

  /** Changes the stored object in advance, as a write of the caller will change it in the cluster. A newer version from the server replaces it. */
  assumeChange(key: string, change: Partial<T>): void {
    const stored = this.#objects.get(key);
    if (stored !== undefined) this.#setObject(key, { ...stored, ...change });
  }

  /** Stores an object that the watch delivered, unless a newer version is known; notifies the listener of the change. */
  #handleApplied(object: WatchedObject, listener: StoreListener<T>): void {
    const key = objectKey(object);
    const before = this.#objects.get(key);
    const value = this.#toStored(object, before);
    this.#advanceWatchVersion(object);
    // The object is not to be stored, or not any more.
    if (value === undefined) {
      if (before !== undefined) this.#handleDeleted(object, false, listener);
      return;
    }
    const isStored = this.#storeIfNewer(key, value, true);
    if (isStored) listener.onChange?.(value, before, key);
  }

  /** Removes an object that the watch or (`isListed`) a repeated list reports as deleted, unless a newer version is known. */
  #handleDeleted(object: WatchedObject, isListed: boolean, listener: StoreListener<T>): void {
    const key = objectKey(object);
    const { resourceVersion = "" } = object.metadata;
    const stored = this.#objects.get(key);
    this.#advanceWatchVersion(object);
    const storedVersion = stored?.resourceVersion ?? "";
    // A repeated list reports the deletion of a replaced object with the version of its replacement, which is stored already.
    const isReplaced = isListed && storedVersion !== "" && resourceVersion === storedVersion;
    if (isOlder(resourceVersion, storedVersion) || isReplaced) return;
    this.#removeWithTombstone(key, resourceVersion);
    this.#dropOldTombstones();
    listener.onChange?.(undefined, stored, key);
  }

  #advanceWatchVersion({ metadata: { resourceVersion = "" } }: WatchedObject): void {
    if (isLater(resourceVersion, this.#lastWatchVersion)) this.#lastWatchVersion = resourceVersion;
  }

  /** Removes and returns the objects (of one group, if given) that a list as of `version` does not contain, except newer ones. */
  #removeUnlisted(keys: ReadonlySet<string>, version: string, group?: string): [key: string, value: T][] {
    this.#deletions.recordList(version, group);
    const unlisted = [...this.#objects].filter(
      ([key, value]) =>
        !keys.has(key) &&
        (group === undefined || this.#groupOf(value) === group) &&
        !isOlder(version, value.resourceVersion),
    );
    for (const [key] of unlisted) this.#unsetObject(key);
    return unlisted;
  }

  /** Stores and returns the objects that an answer removed although the watch, which has delivered them, still lists them. */
  #restoreListed(keys: ReadonlySet<string>, version: string): [key: string, value: T][] {
    const listed = [...this.#missingByAnswer].filter(([key]) => keys.has(key));
    // A list that is older than an object says nothing about it.
    for (const [key, { resourceVersion }] of this.#missingByAnswer)
      if (!isOlder(version, resourceVersion)) this.#missingByAnswer.delete(key);
    for (const [key, value] of listed) this.#setObject(key, value);
    return listed;
  }

  /** The newest version that an event or an answer has shown. */
  #getNewestVersion(): string {
    const storedVersions = [...this.#objects.values()].map(({ resourceVersion }) => resourceVersion);
    return findNewestVersion([...storedVersions, ...this.#deletions.versions()]);
  }

  /** After an etcd restore: any version that the server sends from now on supersedes the stored ones. */
  #resetVersions(): void {
    this.#deletions.clear();
    this.#lastWatchVersion = "";
    const keys = [...this.#objects.keys()];
    for (const key of keys) this.assumeChange(key, { resourceVersion: EARLIEST_VERSION } as Partial<T>);
  }

  /**
   * Stores a value, unless a newer version or the deletion of the object is known. Returns whether it was stored; an event of the stored
   * version is not, because an answer has shown it before.
   */
  #storeIfNewer(key: string, value: T, isEvent: boolean): boolean {
    const { resourceVersion } = value;
    const storedVersion = this.#objects.get(key)?.resourceVersion;
    const isOutdated =
      storedVersion === undefined
        ? this.#deletions.isKnownDeleted(key, resourceVersion, this.#groupOf(value))
        : isOlder(resourceVersion, storedVersion) || (isEvent && !isNewer(resourceVersion, storedVersion));
    if (!isOutdated) this.#setObject(key, value);
    return !isOutdated;
  }

  /** Stores an object in place of the one with its key. */
  #setObject(key: string, value: T): void {
    this.#unsetObject(key);
    this.#objects.set(key, value);
    const group = this.#groupOf(value);
    this.#keysByGroup.set(group, (this.#keysByGroup.get(group) ?? new Set()).add(key));
  }

  /** Removes an object from the store, and its key from the group. */
  #unsetObject(key: string): void {
    this.#missingByAnswer.delete(key);
    const value = this.#objects.get(key);
    if (value === undefined) return;
    this.#objects.delete(key);
    const group = this.#groupOf(value);
    const keys = this.#keysByGroup.get(group);
    keys?.delete(key);
    if (keys?.size === 0) this.#keysByGroup.delete(group);
  }

  /** Removes an object, and remembers the version of its deletion. */
  #removeWithTombstone(key: string, version: string): void {
    this.#unsetObject(key);
    this.#deletions.recordDeletion(key, version);
  }

  /**
   * Runs a request and records its answer by `work`. Keeps tombstones until then. After a restore of the etcd meanwhile, the answer may have a
   * version of the lost state, so stored versions are reset.
   */
  async #trackRequest<A>(work: () => Promise<A>): Promise<A> {
    const restoresBefore = this.#etcdRestores;
    this.#pendingRequests += 1;
    try {
      return await work();
    } finally {
      if (restoresBefore !== this.#etcdRestores) this.#resetVersions();
      this.#pendingRequests -= 1;
      this.#dropOldTombstones();
    }
  }

  /** Drops tombstones that neither a pending answer nor the watch can contradict any more. */
  #dropOldTombstones(): void {
    if (this.#pendingRequests === 0) this.#deletions.dropOldTombstones(this.#lastWatchVersion);
  }
}

/** The stored form that keeps the whole object. */
export interface StoredObject extends Versioned {
  readonly object: WatchedObject;
}

/** The `toStored` of stores that keep whole objects. */
export function toStoredObject(object: WatchedObject): StoredObject {
  return { resourceVersion: object.metadata.resourceVersion ?? "", object };
}
