/** A store of objects that merges watch events and answers of the API server, whichever arrives first. */

import type { Subscription } from "./consumer.ts";
import type { WatchHub } from "./hub.ts";
import { EARLIEST, isLater, newestOf, objectKey, type WatchedObject, type WatchSpec } from "./watch-spec.ts";

/** One stored version of an object. */
interface Versioned {
  /** Empty = newer than any other. */
  readonly resourceVersion: string;
}

interface StoreOptions<T> {
  /** The stored form of an object, given its previous stored form; undefined = do not store it. */
  readonly keep: (object: WatchedObject, before: T | undefined) => T | undefined;
  /** Objects of one group can be read and listed together; default: all are in one. */
  readonly groupOf?: (value: T) => string;
}

/** Listener for changes that the watch delivers; answers go to the caller only. */
interface StoreListener<T> {
  /** An object is new, changed, or deleted (`now` is undefined), maybe unseen; also during the first list. */
  changed?(now: T | undefined, before: T | undefined, key: string): void;
  /** The first list is complete. */
  synced?(): void;
  /** The server's etcd was restored to an earlier state: versions seen so far cannot be compared any more. */
  putBack?(): void;
  /** The watch fails and is tried again; undefined = it works again. */
  issue?(error: Error | undefined): void;
}

/** A list as the server answers it. */
interface ListAnswer {
  readonly items: readonly WatchedObject[];
  readonly resourceVersion: string;
}

/**
 * The newest known version of each object of a selection, by `namespace/name`. Versions only increase, until the
 * server's etcd is restored: neither a late watch event nor a late answer brings back an older or a deleted object.
 */
export class ObjectStore<T extends Versioned> {
  readonly #keep: StoreOptions<T>["keep"];
  readonly #groupOf: (value: T) => string;
  readonly #known = new Map<string, T>();
  /** Keys of the known objects of each group. */
  readonly #groups = new Map<string, Set<string>>();
  /** Versions of lists of a group, or (undefined) of everything: an object that is neither in the list nor newer is deleted. */
  readonly #listedAt = new Map<string | undefined, string>();
  /** Tombstones: a pending answer or a lagging watch may still contain these deleted objects. */
  readonly #deletedAt = new Map<string, string>();
  /** The last version that the watch delivered. */
  #watchedAt = "";
  #requests = 0;
  /** Number of etcd restores: versions of requests sent before the last one cannot be compared. */
  #putBacks = 0;
  #isSynced = false;

  constructor({ keep, groupOf = () => "" }: StoreOptions<T>) {
    this.#keep = keep;
    this.#groupOf = groupOf;
  }

  /** The first list of the watch is complete. */
  get isSynced(): boolean {
    return this.#isSynced;
  }

  get(key: string): T | undefined {
    return this.#known.get(key);
  }

  entries(): Iterable<[key: string, value: T]> {
    return this.#known;
  }

  values(): Iterable<T> {
    return this.#known.values();
  }

  /** The groups that have objects. */
  groups(): Iterable<string> {
    return this.#groups.keys();
  }

  group(name: string): T[] {
    return [...(this.#groups.get(name) ?? [])].flatMap((key) => this.#known.get(key) ?? []);
  }

  /** Watches the selection and notifies `listener` of every change. */
  follow(hub: Pick<WatchHub, "subscribe">, spec: WatchSpec, listener: StoreListener<T> = {}): Subscription {
    let listing = new Set<string>();
    let putBacks = this.#putBacks;
    const applied = (object: WatchedObject): void => this.#applied(object, listener);
    const completed = (keys: ReadonlySet<string>, version: string): void => {
      for (const [key, value] of this.#sweep(keys, version)) listener.changed?.(undefined, value, key);
    };
    return hub.subscribe(spec, {
      begin: () => {
        listing = new Set();
        putBacks = this.#putBacks;
      },
      object: (object) => {
        listing.add(objectKey(object));
        applied(object);
      },
      synced: (version) => {
        completed(listing, version);
        if (putBacks !== this.#putBacks) this.#forgetVersions();
        listing = new Set();
        this.#isSynced = true;
        listener.synced?.();
      },
      applied,
      deleted: (object, complete) => this.#deleted(object, !complete, listener),
      relisted: completed,
      putBack: () => {
        this.#putBacks += 1;
        this.#forgetVersions();
        listener.putBack?.();
      },
      newest: () => this.#newest(),
      issue: (error) => listener.issue?.(error),
    });
  }

  /** Sends `request` for one object, records the answer and returns it; undefined = the object does not exist. */
  ask<A extends T | undefined>(key: string, request: () => Promise<A>): Promise<A> {
    return this.#asking(async () => {
      const before = this.#known.get(key);
      const answer = await request();
      if (answer !== undefined) this.#record(key, answer, false);
      // A 404 has no version, so it deletes the object only if nothing newer arrived meanwhile.
      else if (before !== undefined && before === this.#known.get(key))
        this.#remove(key, before.resourceVersion);
      return answer;
    });
  }

  /** Sends `request` and records its list of one group, or (undefined) of everything. */
  list(request: () => Promise<ListAnswer>, group?: string): Promise<void> {
    return this.#asking(async () => {
      const { items, resourceVersion } = await request();
      for (const object of items) {
        const key = objectKey(object);
        const value = this.#keep(object, this.#known.get(key));
        if (value !== undefined) this.#record(key, value, false);
      }
      this.#sweep(new Set(items.map(objectKey)), resourceVersion, group);
    });
  }

  /** Applies `change` to a known object until a newer version arrives. */
  assume(key: string, change: Partial<T>): void {
    const known = this.#known.get(key);
    if (known !== undefined) this.#set(key, { ...known, ...change });
  }

  #applied(object: WatchedObject, listener: StoreListener<T>): void {
    const key = objectKey(object);
    const before = this.#known.get(key);
    const value = this.#keep(object, before);
    this.#watched(object);
    if (value !== undefined && this.#record(key, value, true)) listener.changed?.(value, before, key);
    else if (value === undefined && before !== undefined) this.#deleted(object, false, listener);
  }

  #deleted(object: WatchedObject, isListed: boolean, listener: StoreListener<T>): void {
    const key = objectKey(object);
    const { resourceVersion = "" } = object.metadata;
    const known = this.#known.get(key);
    this.#watched(object);
    const version = known?.resourceVersion ?? "";
    // A list of the same version as the tombstone contains the replacement of the object.
    if (isOlder(resourceVersion, version) || (isListed && version !== "" && resourceVersion === version))
      return;
    this.#remove(key, resourceVersion);
    this.#forgetDeleted();
    listener.changed?.(undefined, known, key);
  }

  #watched({ metadata: { resourceVersion = "" } }: WatchedObject): void {
    if (isLater(resourceVersion, this.#watchedAt)) this.#watchedAt = resourceVersion;
  }

  /** Removes and returns the objects that a list does not contain. */
  #sweep(keys: ReadonlySet<string>, version: string, group?: string): [key: string, value: T][] {
    if (isLater(version, this.#listedAt.get(group) ?? "")) this.#listedAt.set(group, version);
    const missing = [...this.#known].filter(
      ([key, value]) =>
        !keys.has(key) &&
        (group === undefined || this.#groupOf(value) === group) &&
        !isOlder(version, value.resourceVersion),
    );
    for (const [key] of missing) this.#unset(key);
    return missing;
  }

  #newest(): string {
    const known = [...this.#known.values()].map(({ resourceVersion }) => resourceVersion);
    return newestOf([...known, ...this.#deletedAt.values(), ...this.#listedAt.values()]);
  }

  #forgetVersions(): void {
    this.#listedAt.clear();
    this.#deletedAt.clear();
    this.#watchedAt = "";
    const keys = [...this.#known.keys()];
    for (const key of keys) this.assume(key, { resourceVersion: EARLIEST } as Partial<T>);
  }

  /** Stores a value; false if it changes nothing, for example an event that repeats an answer. */
  #record(key: string, value: T, isEvent: boolean): boolean {
    const { resourceVersion } = value;
    const known = this.#known.get(key)?.resourceVersion;
    if (known === undefined && this.#isDeleted(key, value)) return false;
    if (known !== undefined && isOlder(resourceVersion, known)) return false;
    if (known !== undefined && isEvent && !isNewer(resourceVersion, known)) return false;
    this.#set(key, value);
    return true;
  }

  #isDeleted(key: string, value: T): boolean {
    const { resourceVersion } = value;
    if (isOlder(resourceVersion, this.#deletedAt.get(key) ?? "")) return true;
    const lists = [this.#listedAt.get(undefined), this.#listedAt.get(this.#groupOf(value))];
    return lists.some((at) => at !== undefined && !isNewer(resourceVersion, at));
  }

  #set(key: string, value: T): void {
    this.#unset(key);
    this.#known.set(key, value);
    const group = this.#groupOf(value);
    this.#groups.set(group, (this.#groups.get(group) ?? new Set()).add(key));
  }

  #unset(key: string): void {
    const value = this.#known.get(key);
    if (value === undefined) return;
    this.#known.delete(key);
    const group = this.#groupOf(value);
    const keys = this.#groups.get(group);
    keys?.delete(key);
    if (keys?.size === 0) this.#groups.delete(group);
  }

  #remove(key: string, version: string): void {
    this.#unset(key);
    this.#deletedAt.set(key, version);
  }

  async #asking<A>(work: () => Promise<A>): Promise<A> {
    const putBacks = this.#putBacks;
    this.#requests += 1;
    try {
      return await work();
    } finally {
      if (putBacks !== this.#putBacks) this.#forgetVersions();
      this.#requests -= 1;
      this.#forgetDeleted();
    }
  }

  #forgetDeleted(): void {
    if (this.#requests > 0) return;
    for (const [key, version] of this.#deletedAt)
      if (!isLater(version, this.#watchedAt)) this.#deletedAt.delete(key);
  }
}

/** A stored complete object. */
export interface WholeObject extends Versioned {
  readonly object: WatchedObject;
}

/** `keep` for stores of complete objects. */
export function keepWhole(object: WatchedObject): WholeObject {
  return { resourceVersion: object.metadata.resourceVersion ?? "", object };
}

function isOlder(version: string, than: string): boolean {
  return version !== "" && isLater(than, version);
}

function isNewer(version: string, than: string): boolean {
  return version === "" || isLater(version, than);
}
