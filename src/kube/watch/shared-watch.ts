/** One watch that consumers of an equal spec share, and its members, each of which delivers lists and changes to its consumer. */

import { whenAll, type Failures, type Logger } from "../../lib/index.ts";
import { withoutActiveSpan } from "../../trace/index.ts";
import type { WatchConsumer, WatchObserver } from "./consumer.ts";
import { Reflector, toWatchErrorType, type ReflectorHandler, type ReflectorTools } from "./reflector.ts";
import { EARLIEST_VERSION, buildDeletedObject, describeSpec, findNewestVersion } from "./watch-spec.ts";
import { isLater, objectKey, versionOf } from "./watch-spec.ts";
import type { ObjectVersion, WatchedObject, WatchSpec } from "./watch-spec.ts";

export interface SharedWatchOptions extends ReflectorTools {
  readonly logger: Logger;
  /** Called with errors that consumers throw. */
  readonly failures: Failures;
  readonly observer: WatchObserver;
}

type ConsumerCall = (consumer: WatchConsumer) => Promise<void> | void;

/**
 * One watch and its members. It stores only the version of each object, to find changes and deletions after a new list and to deliver no
 * version twice. Members that subscribe after the first list has begun are late: the hub reads a separate list for them.
 */
export class SharedWatch implements ReflectorHandler {
  readonly spec: WatchSpec;
  readonly #options: SharedWatchOptions;
  readonly #reflector: Reflector;
  /** The last delivered version of each object. */
  readonly #knownVersions = new Map<string, ObjectVersion>();
  /** Keys of the objects that a repeated list contains, while the list is in progress. */
  #listedKeys = new Set<string>();
  #isFirstListDone = false;
  /** Resolves when the first list is complete; never if the watch is closed before. */
  readonly firstListed = Promise.withResolvers<void>();
  /** Why the watch fails and is retried; undefined = it works. */
  lastError: Error | undefined;
  readonly abortController = new AbortController();
  /** All consumers, in the order of their ranks. The array is replaced, not changed. */
  #members: readonly WatchMember[] = [];
  /** Members that receive the first list; members that subscribe after its begin get lists of their own. */
  #firstListMembers: readonly WatchMember[] = [];

  constructor(spec: WatchSpec, options: SharedWatchOptions) {
    this.spec = spec;
    this.#options = options;
    this.#reflector = new Reflector(spec, options, this);
    // Members that subscribe in the same microtask share the first list.
    withoutActiveSpan(() => queueMicrotask(() => void this.#reflector.run()));
  }

  /** Members that still need a list of their own, once the first list is complete. */
  get lateMembers(): readonly WatchMember[] {
    return this.#members.filter((member) => !member.isLive);
  }

  /** Adds a consumer behind those of its rank. It receives the first list, or is a late member if that has begun. */
  add(member: WatchMember): void {
    const rank = member.consumer.rank ?? "";
    const index = this.#members.findIndex((other) => (other.consumer.rank ?? "") > rank);
    this.#members = this.#members.toSpliced(index < 0 ? this.#members.length : index, 0, member);
    if (this.lastError !== undefined) member.reportError(this.lastError);
  }

  /** Removes a consumer; true if it was the last one. */
  remove(member: WatchMember): boolean {
    member.close();
    this.#members = this.#members.filter((other) => other !== member);
    return this.#members.length === 0;
  }

  close(): void {
    this.abortController.abort();
    this.#reflector.close();
    for (const member of this.#members) member.close();
  }

  /** A list begins: the first one, that one again after a failure, or a repeated list that finds missed changes. */
  onListStart(): void {
    this.#listedKeys = new Set();
    if (this.#isFirstListDone) {
      this.#options.observer.onRelist(this.spec);
      return;
    }
    this.#knownVersions.clear();
    this.#firstListMembers = this.#members;
    for (const member of this.#firstListMembers) member.startList();
  }

  /** Delivers one object of the first list; one of a repeated list only if it differs from the known version. */
  onListed(object: WatchedObject): Promise<void> | undefined {
    const key = objectKey(object);
    const { uid, resourceVersion } = versionOf(object);
    if (!this.#isFirstListDone) {
      this.#knownVersions.set(key, { uid, resourceVersion });
      return whenAll(this.#firstListMembers.map((member) => member.deliverListed(object)));
    }
    this.#listedKeys.add(key);
    const knownVersion = this.#knownVersions.get(key);
    if (knownVersion === undefined || knownVersion.uid === uid) return this.onApplied(object);
    // The object was deleted and created again unseen: the members get both events.
    const deletion = this.#deliverMissedDeletion(key, knownVersion.uid, resourceVersion);
    return whenAll([deletion, this.onApplied(object)]);
  }

  /** The list is complete. Known objects that a repeated list lacks were deleted unseen. */
  async onListComplete(version: string): Promise<void> {
    if (!this.#isFirstListDone) return this.#completeFirstList(version);
    for (const [key, { uid }] of this.#knownVersions)
      if (!this.#listedKeys.has(key)) await this.#deliverMissedDeletion(key, uid, version);
    const listedKeys = this.#listedKeys;
    this.#listedKeys = new Set();
    this.onCompared(listedKeys, version);
  }

  /** Reports all keys to consumers that know objects from other sources than this watch, too. */
  onCompared(keys: ReadonlySet<string>, version: string): void {
    for (const member of this.#members)
      void member.deliverComparison(version, (consumer) => consumer.onRelisted?.(keys, version));
  }

  /** Changes are delivered from now on, and late members get their lists. */
  async #completeFirstList(version: string): Promise<void> {
    await Promise.all(this.#firstListMembers.map((member) => member.completeList(version)));
    // Not before the await: the list for late members would be one for these members, too.
    this.#isFirstListDone = true;
    this.#firstListMembers = [];
    this.firstListed.resolve();
  }

  /** Delivers a deletion that only a repeated list shows; `version` is that of the list. */
  #deliverMissedDeletion(key: string, uid: string, version: string): Promise<void> | undefined {
    this.#knownVersions.delete(key);
    const object = buildDeletedObject(this.spec, key, { uid, resourceVersion: version });
    return this.#deliverToAll(version, (consumer) => consumer.onDeleted(object, false));
  }

  /** Delivers a new or changed object, unless this version or a later one was delivered before. */
  onApplied(object: WatchedObject): Promise<void> | undefined {
    const key = objectKey(object);
    const knownVersion = this.#knownVersions.get(key);
    const newVersion = versionOf(object);
    const isSameObject = knownVersion?.uid === newVersion.uid;
    if (isSameObject && !isLater(newVersion.resourceVersion, knownVersion.resourceVersion)) return undefined;
    this.#knownVersions.set(key, newVersion);
    return this.#deliverToAll(newVersion.resourceVersion, (consumer) => consumer.onApplied(object));
  }

  /** Delivers a deletion that the watch reported, unless the object is unknown. */
  onDeleted(object: WatchedObject): Promise<void> | undefined {
    const { resourceVersion } = versionOf(object);
    const known = this.#knownVersions.get(objectKey(object));
    // A late event, of an object that was deleted before the known one was created.
    if (known === undefined || isLater(known.resourceVersion, resourceVersion)) return undefined;
    this.#knownVersions.delete(objectKey(object));
    return this.#deliverToAll(resourceVersion, (consumer) => consumer.onDeleted(object, true));
  }

  #deliverToAll(version: string, act: ConsumerCall): Promise<void> | undefined {
    return whenAll(this.#members.map((member) => member.deliverChange(version, act)));
  }

  hasVersion(object: WatchedObject): boolean {
    return this.#knownVersions.get(objectKey(object))?.resourceVersion === versionOf(object).resourceVersion;
  }

  countKnown(): number {
    return this.#knownVersions.size;
  }

  onEventsLost(): void {
    const message = "A watch has lost events, such as by a proxy in between; its objects are listed again";
    this.#options.logger.warn(message, { watch: describeSpec(this.spec) });
  }

  getNewestVersion(): string {
    return findNewestVersion(this.#members.map(({ consumer }) => consumer.getNewestVersion?.() ?? ""));
  }

  /** The server's etcd was restored: keeps the known objects, but the next list delivers each of them again. */
  onEtcdRestored(): void {
    const message = "The API server was put back to an earlier state; its objects are listed again";
    this.#options.logger.warn(message, { watch: describeSpec(this.spec) });
    for (const [key, { uid }] of this.#knownVersions)
      this.#knownVersions.set(key, { uid, resourceVersion: EARLIEST_VERSION });
    for (const member of this.#members) member.handleEtcdRestored();
  }

  onFailure(error: unknown): void {
    this.#options.observer.onFailure(toWatchErrorType(error));
  }

  /** Reports to all members that the watch fails, or (undefined) that it works again. */
  onError(error: Error | undefined): void {
    const watch = describeSpec(this.spec);
    if (error !== undefined && error.message !== this.lastError?.message)
      this.#options.logger.debug("A watch does not work", { watch, error: error.message });
    this.lastError = error;
    for (const member of this.#members) member.reportError(error);
  }
}

/** Back-pressure: the watch waits while a consumer has this many pending promises. */
const MAX_PENDING_PROMISES = 64;

/**
 * Delivers a list and then the changes to one consumer. A member that joins a running watch gets a list of its own; changes
 * that the watch reports meanwhile are buffered, and dropped if the list contains them.
 */
export class WatchMember {
  readonly consumer: WatchConsumer;
  readonly whenSynced = Promise.withResolvers<void>();
  /** The version of the member's list: it contains all changes up to this version. */
  #listVersion = "";
  /** The list is complete: changes are delivered at once. */
  isLive = false;
  /** The etcd was restored: versions can no longer show which changes the list contains. */
  #isEtcdRestored = false;
  #isClosed = false;
  #hasReportedError = false;
  #bufferedChanges: { readonly version: string; readonly act: ConsumerCall }[] = [];
  readonly #failures: Failures;
  readonly #pendingPromises = new Set<Promise<void>>();

  constructor(consumer: WatchConsumer, failures: Failures) {
    this.consumer = consumer;
    this.#failures = failures;
  }

  /** A list begins, maybe again after a failure. */
  startList(): void {
    this.#callConsumer((each) => each.onListStart?.());
  }

  /** Delivers one object of the list. Resolves when the consumer is ready for more; undefined = at once. */
  deliverListed(object: WatchedObject): Promise<void> | undefined {
    this.#callConsumer((each) => each.onListed(object));
    return this.#waitIfBusy(MAX_PENDING_PROMISES);
  }

  /** The member's list is complete as of `version`: delivers the buffered changes that are later; new ones follow. */
  async completeList(version: string): Promise<void> {
    // All calls for the list end before `onSynced`.
    await this.#waitIfBusy(1);
    if (this.#isClosed) return;
    // Versions from before and after a restore of the etcd cannot be compared: then no change is dropped.
    if (!this.#isEtcdRestored) this.#listVersion = version;
    this.isLive = true;
    this.#callConsumer((each) => each.onSynced(version));
    this.whenSynced.resolve();
    // Do not await: a new change must not be delivered between the buffered ones.
    for (const change of this.#bufferedChanges.splice(0)) void this.deliverChange(change.version, change.act);
  }

  /**
   * Delivers a change; buffers it until the list is complete, and drops it if its `version` shows that the list contains
   * it. Resolves when the consumer is ready for more; undefined = at once.
   */
  deliverChange(version: string, act: ConsumerCall): Promise<void> | undefined {
    if (!this.isLive) return void this.#bufferedChanges.push({ version, act });
    const isInList = this.#listVersion !== "" && !isLater(version, this.#listVersion);
    if (isInList) return undefined;
    this.#callConsumer(act);
    return this.#waitIfBusy(MAX_PENDING_PROMISES);
  }

  /** Delivers a list as a change; one of the version of the member's own list, too, which an answer may have contradicted meanwhile. */
  deliverComparison(version: string, act: ConsumerCall): Promise<void> | undefined {
    if (!this.isLive || version !== this.#listVersion) return this.deliverChange(version, act);
    this.#callConsumer(act);
    return this.#waitIfBusy(MAX_PENDING_PROMISES);
  }

  /** The server's etcd was restored: the versions of buffered changes and of the list in progress cannot be compared any more. */
  handleEtcdRestored(): void {
    this.#isEtcdRestored = true;
    this.#listVersion = "";
    this.#bufferedChanges = [];
    this.#callConsumer((each) => each.onEtcdRestored?.());
  }

  /** Reports an error of the watch, or (undefined) that it works again, which is reported only after an error. */
  reportError(error: Error | undefined): void {
    if (error === undefined && !this.#hasReportedError) return;
    this.#hasReportedError = error !== undefined;
    this.#callConsumer((each) => each.onError?.(error));
  }

  /** Ends all calls of the consumer. */
  close(): void {
    this.#isClosed = true;
    this.#bufferedChanges = [];
  }

  /**
   * Calls the consumer, unless it is closed, and counts the promise that it returns until that settles. Reports its errors, which must
   * neither stop the watch nor reach other consumers.
   */
  #callConsumer(act: ConsumerCall): void {
    if (this.#isClosed) return;
    const report = (error: unknown): void => this.#failures.report("watch", error);
    try {
      const answer: unknown = act(this.consumer);
      // A consumer typed `void` may still return a value.
      if (!(answer instanceof Promise)) return;
      const settled: Promise<void> = answer
        .catch(report)
        .then(() => void this.#pendingPromises.delete(settled));
      this.#pendingPromises.add(settled);
    } catch (error) {
      report(error);
    }
  }

  /**
   * Back-pressure: returns a promise that resolves when fewer than `limit` promises of the consumer are pending. Undefined if they are fewer
   * already, so that callers need not await: a promise per event would be slow.
   */
  #waitIfBusy(limit: number): Promise<void> | undefined {
    return this.#pendingPromises.size < limit ? undefined : this.#waitUntilBelow(limit);
  }

  async #waitUntilBelow(limit: number): Promise<void> {
    while (this.#pendingPromises.size >= limit && !this.#isClosed) await Promise.race(this.#pendingPromises);
  }
}
