/** A store of what a consumer keeps of the objects of a watch, which also contains answers that are ahead of the watch. */

import type { Subscription } from "./consumer.ts";
import type { WatchHub } from "./hub.ts";
import { EARLIEST_VERSION, findNewestVersion, isNewer, isOlder, objectKey } from "./watch-spec.ts";
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
  /** Keep the last known version of each deleted object, for `getLastKnown`. */
  readonly keepsDeleted?: boolean;
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

type OnChange<T> = NonNullable<StoreListener<T>["onChange"]>;

interface ListAnswer {
  readonly items: readonly WatchedObject[];
  readonly resourceVersion: string;
}

/** An object whose stored state, or absence, is from an answer that the watch has not reached yet. */
interface AnsweredObject<T> {
  /** The watch reaches the answer with this version. */
  readonly version: string;
  /** What the watch has delivered last. */
  readonly watched: T | undefined;
}

/**
 * What a consumer keeps of each object of a selection, by `namespace/name`. The watch decides which version applies (`SharedWatch`). An answer to a
 * request counts only while it is ahead of the watch: a late answer brings back neither an older nor a deleted object, and a late event does not
 * hide the answer.
 */
export class ObjectStore<T extends Versioned> {
  readonly #toStored: StoreOptions<T>["toStored"];
  readonly #groupOf: (value: T) => string;
  readonly #objects = new Map<string, T>();
  /** Keys of the known objects of each group. */
  readonly #keysByGroup = new Map<string, Set<string>>();
  /** The last known versions of deleted objects, if they are kept. */
  readonly #deleted: Map<string, T> | undefined;
  /** Objects of which an answer is ahead of the watch. */
  readonly #answered = new Map<string, AnsweredObject<T>>();
  /** Versions of the last lists, by group, or (undefined) of everything: an object that is neither stored nor newer is deleted. */
  readonly #listVersions = new Map<string | undefined, string>();
  /** Versions of deletions that the watch delivered while requests were pending, whose answers may still contain the objects. */
  readonly #recentDeletions = new Map<string, string>();
  /** The newest version in an answer. */
  #newestAnswer = "";
  #pendingRequests = 0;
  /** Number of etcd restores: versions in answers to requests that were sent before the last one cannot be compared. */
  #etcdRestores = 0;
  #isSynced = false;

  constructor({ toStored, groupOf = () => "", keepsDeleted = false }: StoreOptions<T>) {
    this.#toStored = toStored;
    this.#groupOf = groupOf;
    this.#deleted = keepsDeleted ? new Map() : undefined;
  }

  /** The first list of the watch is complete. */
  get isSynced(): boolean {
    return this.#isSynced;
  }

  get(key: string): T | undefined {
    return this.#objects.get(key);
  }

  /** Returns an object, or its last known version if it was deleted. */
  getLastKnown(key: string): T | undefined {
    return this.#objects.get(key) ?? this.#deleted?.get(key);
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
    const onChange: OnChange<T> = (...change) => listener.onChange?.(...change);
    // This watch has delivered nothing yet.
    for (const [key, { resourceVersion }] of this.#objects)
      this.#answered.set(key, { version: resourceVersion, watched: undefined });
    const applied = (object: WatchedObject): void => this.#handleApplied(object, onChange);
    return hub.subscribe(spec, {
      onListed: applied,
      onApplied: applied,
      onDeleted: (object, isLastState) => this.#handleDeleted(object, isLastState, onChange),
      onSynced: (version) => {
        this.#discardAnswers(version, onChange);
        if (this.#isSynced) return;
        this.#isSynced = true;
        listener.onSynced?.();
      },
      onEtcdRestored: () => {
        this.#etcdRestores += 1;
        this.#forgetVersions();
        listener.onEtcdRestored?.();
      },
      getNewestVersion: () => this.#newestAnswer,
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
      if (answer !== undefined) this.#recordAnswer(key, answer);
      // A 404 has no version, so it deletes the object only if nothing newer arrived meanwhile.
      else if (before !== undefined && before === this.#objects.get(key))
        this.#setAnswer(key, undefined, before.resourceVersion);
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
        if (value !== undefined) this.#recordAnswer(key, value);
      }
      this.#recordList(resourceVersion, group);
      this.#newestAnswer = findNewestVersion([this.#newestAnswer, resourceVersion]);
      const listedKeys = new Set(items.map(objectKey));
      for (const [key, value] of this.#objects) {
        const isInGroup = group === undefined || this.#groupOf(value) === group;
        if (isInGroup && !listedKeys.has(key) && !isOlder(resourceVersion, value.resourceVersion))
          this.#setAnswer(key, undefined, resourceVersion);
      }
    });
  }

  /** Changes the stored object in advance, as a write of the caller will change it in the cluster. A newer version from the server replaces it. */
  assumeChange(key: string, change: Partial<T>): void {
    const stored = this.#objects.get(key);
    if (stored !== undefined) this.#setObject(key, { ...stored, ...change });
  }

  /** Stores an object that the watch delivered, unless an answer has shown this version or is ahead of it. */
  #handleApplied(object: WatchedObject, onChange: OnChange<T>): void {
    const key = objectKey(object);
    const { resourceVersion = "" } = object.metadata;
    const before = this.#objects.get(key);
    let answerVersion = this.#answered.get(key)?.version ?? "";
    const isKnown = before !== undefined && !isNewer(resourceVersion, before.resourceVersion);
    if (isKnown && !isOlder(resourceVersion, answerVersion)) {
      this.#answered.delete(key);
      return;
    }
    const value = this.#toStored(object, before);
    const mayBeUnlisted = before === undefined && value !== undefined && answerVersion === "";
    if (mayBeUnlisted) answerVersion = this.#findListVersion(this.#groupOf(value));
    if (isOlder(resourceVersion, answerVersion)) {
      this.#answered.set(key, { version: answerVersion, watched: value });
      return;
    }
    this.#answered.delete(key);
    this.#changeObject(key, value, onChange);
  }

  /** Removes an object that the watch or (not `isLastState`) a repeated list reports as deleted, unless an answer is ahead of that. */
  #handleDeleted(object: WatchedObject, isLastState: boolean, onChange: OnChange<T>): void {
    const key = objectKey(object);
    const { resourceVersion = "" } = object.metadata;
    if (this.#pendingRequests > 0) this.#recentDeletions.set(key, resourceVersion);
    const answered = this.#answered.get(key);
    // A repeated list reports the deletion of a replaced object with the version of its replacement, which the answer contains.
    const isReplaced = !isLastState && resourceVersion === answered?.version;
    const isAnswerAhead =
      answered !== undefined && (isReplaced || isOlder(resourceVersion, answered.version));
    if (isAnswerAhead && this.#objects.has(key)) {
      this.#answered.set(key, { ...answered, watched: undefined });
      return;
    }
    this.#answered.delete(key);
    const before = this.#objects.get(key);
    this.#setObject(key, undefined);
    onChange(undefined, before, key);
  }

  /** Discards answers that are not newer than `version`, at which the server had exactly what the watch has delivered. */
  #discardAnswers(version: string, onChange: OnChange<T>): void {
    this.#recordList(version, undefined);
    for (const [key, answered] of this.#answered) {
      if (isOlder(version, answered.version)) continue;
      this.#answered.delete(key);
      this.#changeObject(key, answered.watched, onChange);
    }
  }

  /** Stores the answer of a request that shows an object, unless a newer version or the deletion of the object is known. */
  #recordAnswer(key: string, value: T): void {
    const { resourceVersion } = value;
    this.#newestAnswer = findNewestVersion([this.#newestAnswer, resourceVersion]);
    const known = this.#objects.get(key)?.resourceVersion ?? this.#answered.get(key)?.version;
    const isOutdated =
      known === undefined
        ? this.#isKnownDeleted(key, resourceVersion, this.#groupOf(value))
        : isOlder(resourceVersion, known);
    if (!isOutdated) this.#setAnswer(key, value, resourceVersion);
    else if (known === undefined) this.#recordDeleted(key, value);
  }

  /** Records a version of a deleted object. Answers and events arrive in any order: of two versions, the later one stays. */
  #recordDeleted(key: string, value: T): void {
    const isOutdated = isOlder(value.resourceVersion, this.#deleted?.get(key)?.resourceVersion ?? "");
    if (!isOutdated) this.#deleted?.set(key, value);
  }

  /** Stores what an answer of `version` shows: an object, or (undefined) that it does not exist. */
  #setAnswer(key: string, value: T | undefined, version: string): void {
    const answered = this.#answered.get(key);
    const watched = answered === undefined ? this.#objects.get(key) : answered.watched;
    const isAhead = value === undefined || version !== watched?.resourceVersion;
    if (isAhead) this.#answered.set(key, { version, watched });
    else this.#answered.delete(key);
    this.#setObject(key, value);
  }

  /** Whether an object that is not stored was deleted after `version`: the watch said so, or a later list lacks it. */
  #isKnownDeleted(key: string, version: string, group: string): boolean {
    const listVersion = this.#findListVersion(group);
    if (listVersion !== "" && !isNewer(version, listVersion)) return true;
    return isOlder(version, this.#recentDeletions.get(key) ?? "");
  }

  /** The version of the newest list that contains a group; "" if there is none. */
  #findListVersion(group: string): string {
    return findNewestVersion([this.#listVersions.get(undefined) ?? "", this.#listVersions.get(group) ?? ""]);
  }

  /** Records a list as of `version`, of one group or (undefined) of everything. */
  #recordList(version: string, group: string | undefined): void {
    this.#listVersions.set(group, findNewestVersion([version, this.#listVersions.get(group) ?? ""]));
  }

  /** After an etcd restore: any version that the server sends from now on supersedes the stored ones. */
  #forgetVersions(): void {
    this.#listVersions.clear();
    this.#recentDeletions.clear();
    this.#newestAnswer = "";
    for (const [key, { watched }] of this.#answered)
      this.#answered.set(key, { version: EARLIEST_VERSION, watched });
    for (const objects of [this.#objects, this.#deleted])
      for (const [key, value] of objects ?? [])
        objects?.set(key, { ...value, resourceVersion: EARLIEST_VERSION });
  }

  /** Stores or (undefined) removes an object, and reports the change, if it is one. */
  #changeObject(key: string, value: T | undefined, onChange: OnChange<T>): void {
    const before = this.#objects.get(key);
    if (value === before) return;
    this.#setObject(key, value);
    onChange(value, before, key);
  }

  /** Stores an object in place of the one with its key; undefined removes it. */
  #setObject(key: string, value: T | undefined): void {
    const before = this.#objects.get(key);
    const group = value && this.#groupOf(value);
    const groupBefore = before && this.#groupOf(before);
    if (group !== groupBefore && groupBefore !== undefined) this.#removeFromGroup(key, groupBefore);
    if (group !== undefined)
      this.#keysByGroup.set(group, (this.#keysByGroup.get(group) ?? new Set()).add(key));
    if (value !== undefined) return void this.#objects.set(key, value);
    this.#objects.delete(key);
    if (before !== undefined) this.#recordDeleted(key, before);
  }

  #removeFromGroup(key: string, group: string): void {
    const keys = this.#keysByGroup.get(group);
    keys?.delete(key);
    if (keys?.size === 0) this.#keysByGroup.delete(group);
  }

  /** Runs a request and records its answer by `work`. After a restore of the etcd meanwhile, the answer may have a version of the lost state. */
  async #trackRequest<A>(work: () => Promise<A>): Promise<A> {
    const restoresBefore = this.#etcdRestores;
    this.#pendingRequests += 1;
    try {
      return await work();
    } finally {
      if (restoresBefore !== this.#etcdRestores) this.#forgetVersions();
      this.#pendingRequests -= 1;
      if (this.#pendingRequests === 0) this.#recentDeletions.clear();
    }
  }
}

/** The `toStored` of stores that keep only which objects exist, and in which version. */
export function toStoredVersion({ metadata: { resourceVersion = "" } }: WatchedObject): Versioned {
  return { resourceVersion };
}

/** The stored form that keeps the whole object. */
export interface StoredObject extends Versioned {
  readonly object: WatchedObject;
}

/** The `toStored` of stores that keep whole objects. */
export function toStoredObject(object: WatchedObject): StoredObject {
  return { resourceVersion: object.metadata.resourceVersion ?? "", object };
}
