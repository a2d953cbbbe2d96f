/** One watch that consumers of an equal spec share, and its members, each of which delivers lists and changes to its consumer. */

import { whenAll, type Failures, type Logger } from "../../base/index.ts";
import { Loop } from "../../runtime/index.ts";
import { withoutActiveSpan } from "../../base/trace/index.ts";
import { ApiError } from "../api-errors.ts";
import type { WatchConsumer, WatchObserver } from "./consumer.ts";
import { listObjects } from "./list.ts";
import { Reflector, classifyError, computeRetryDelay, toWatchErrorType } from "./reflector.ts";
import type { ReflectorHandler, ReflectorTools } from "./reflector.ts";
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
 * One watch and its members. It decides which version of an object applies: it stores the version of each object, to find changes and deletions after
 * a new list and to deliver no version twice. Members store what they need of the objects. Members that subscribe after the first list has begun are
 * late, and get a list of their own: it contains all that exists when they subscribe, which the watch may not have reached.
 */
export class SharedWatch implements ReflectorHandler {
  readonly spec: WatchSpec;
  readonly #options: SharedWatchOptions;
  readonly #reflector: Reflector;
  /** The last delivered version of each object. */
  #knownVersions = new Map<string, ObjectVersion>();
  /** Keys of the objects that a repeated list contains, while the list is in progress. */
  #listedKeys = new Set<string>();
  /** The first list, until it is complete. */
  #firstList: InitialList | undefined;
  /** Why the watch fails and is retried; undefined = it works. */
  lastError: Error | undefined;
  /** All consumers, in the order of their ranks. The array is replaced, not changed. */
  #members: readonly WatchMember[] = [];
  /** Undefined before the first late member. */
  #lateLists: LateLists | undefined;

  constructor(spec: WatchSpec, options: SharedWatchOptions) {
    this.spec = spec;
    this.#options = options;
    this.#firstList = new InitialList(spec);
    this.#reflector = new Reflector(spec, options, this);
    // Members that subscribe in the same microtask share the first list.
    withoutActiveSpan(() => queueMicrotask(() => void this.#reflector.run()));
  }

  /** Members that have no list yet. */
  get lateMembers(): readonly WatchMember[] {
    return this.#members.filter((member) => !member.isLive);
  }

  /** Adds a consumer behind those of its rank. It receives the first list, or is a late member if that has begun. */
  add(member: WatchMember): void {
    const rank = member.consumer.rank ?? "";
    const index = this.#members.findIndex((other) => (other.consumer.rank ?? "") > rank);
    this.#members = this.#members.toSpliced(index < 0 ? this.#members.length : index, 0, member);
    if (this.lastError !== undefined) member.reportError(this.lastError);
    this.#listForLateMembers();
  }

  /** Removes a consumer; true if it was the last one. */
  remove(member: WatchMember): boolean {
    member.close();
    this.#members = this.#members.filter((other) => other !== member);
    return this.#members.length === 0;
  }

  close(): void {
    this.#reflector.close();
    this.#lateLists?.close();
    for (const member of this.#members) member.close();
    this.#members = [];
  }

  /** A list begins: the first one, that one again after a failure, or a repeated list that finds missed changes. */
  onListStart(): void {
    this.#listedKeys = new Set();
    if (this.#firstList === undefined) return this.#options.observer.onRelist(this.spec);
    // A part of a list has no version that would show whether the etcd was restored since.
    if (this.#firstList.hasDelivered) for (const member of this.#members) member.handleEtcdRestored();
    this.#firstList.start(this.#members);
  }

  /** Delivers one object of the first list; one of a repeated list only if it differs from the known version. */
  onListed(object: WatchedObject): Promise<void> | undefined {
    if (this.#firstList !== undefined) return this.#firstList.deliver(object);
    const key = objectKey(object);
    const { uid, resourceVersion } = versionOf(object);
    this.#listedKeys.add(key);
    const knownVersion = this.#knownVersions.get(key);
    if (knownVersion === undefined || knownVersion.uid === uid) return this.onApplied(object);
    // The object was deleted and created again unseen: the members get both events.
    const deletion = this.#deliverMissedDeletion(key, knownVersion.uid, resourceVersion);
    return whenAll([deletion, this.onApplied(object)]);
  }

  /** The list is complete. Known objects that a repeated list lacks were deleted unseen. */
  async onListComplete(version: string): Promise<void> {
    if (this.#firstList !== undefined) return this.#completeFirstList(this.#firstList, version);
    for (const [key, { uid }] of this.#knownVersions)
      if (!this.#listedKeys.has(key)) await this.#deliverMissedDeletion(key, uid, version);
    this.#listedKeys = new Set();
    this.onCompared(version);
  }

  /** Consumers have exactly the objects of the server. */
  onCompared(version: string): void {
    for (const member of this.#members) void member.deliverSynced(version);
  }

  /** Changes are delivered from now on, and late members get their lists. */
  async #completeFirstList(list: InitialList, version: string): Promise<void> {
    await list.complete(version);
    this.#knownVersions = list.versions;
    // Not before the await: the list for late members would be one for these members, too.
    this.#firstList = undefined;
    this.#listForLateMembers();
  }

  /** Lists for late members if there are any and the first list is complete. */
  #listForLateMembers(): void {
    if (this.#firstList !== undefined || this.lateMembers.length === 0) return;
    this.#lateLists ??= new LateLists(this, this.#options);
    this.#lateLists.request();
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

  /** The server's etcd was restored: the reflector lists again, and delivers each known object again. A list for late members begins again. */
  onEtcdRestored(): void {
    const message = "The API server was put back to an earlier state; its objects are listed again";
    this.#options.logger.warn(message, { watch: describeSpec(this.spec) });
    for (const [key, { uid }] of this.#knownVersions)
      this.#knownVersions.set(key, { uid, resourceVersion: EARLIEST_VERSION });
    for (const member of this.#members) member.handleEtcdRestored();
    this.#lateLists?.beginAgain();
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

/**
 * A list that gives new members all objects. If it fails and begins again, what only an earlier attempt contained is reported as
 * deleted.
 */
class InitialList {
  /** Receive the list. */
  members: readonly WatchMember[] = [];
  /** The objects of the attempt in progress. */
  versions = new Map<string, ObjectVersion>();
  readonly #spec: WatchSpec;
  /** The objects of earlier attempts. */
  readonly #earlier = new Map<string, ObjectVersion>();

  constructor(spec: WatchSpec) {
    this.#spec = spec;
  }

  /** Whether the attempt in progress, or the last one, has delivered objects. */
  get hasDelivered(): boolean {
    return this.versions.size > 0;
  }

  start(members: readonly WatchMember[]): void {
    for (const [key, version] of this.versions) this.#earlier.set(key, version);
    this.versions = new Map();
    this.members = members;
  }

  deliver(object: WatchedObject): Promise<void> | undefined {
    this.versions.set(objectKey(object), versionOf(object));
    return whenAll(this.members.map((member) => member.deliverInList((each) => each.onListed(object))));
  }

  /** The list is complete as of `version`: the members receive changes from now on, unless `signal` is aborted before they are ready. */
  async complete(version: string, signal?: AbortSignal): Promise<void> {
    for (const [key, { uid }] of this.#earlier) {
      if (this.versions.has(key)) continue;
      const object = buildDeletedObject(this.#spec, key, { uid, resourceVersion: version });
      await whenAll(
        this.members.map((member) => member.deliverInList((each) => each.onDeleted(object, false))),
      );
    }
    await Promise.all(this.members.map((member) => member.completeList(version, signal)));
  }

  /** Frees the memory of a complete list. */
  clear(): void {
    this.members = [];
    this.versions = new Map();
    this.#earlier.clear();
  }
}

/** Lists for the late members of a watch: one list for all that wait, again after a failure. */
class LateLists {
  readonly #watch: SharedWatch;
  readonly #options: SharedWatchOptions;
  readonly #list: InitialList;
  readonly #loop: Loop;
  /** Ends the attempt in progress. */
  #attempt = new AbortController();
  #failures = 0;

  constructor(watch: SharedWatch, options: SharedWatchOptions) {
    this.#watch = watch;
    this.#options = options;
    this.#list = new InitialList(watch.spec);
    this.#loop = new Loop({
      clock: options.clock,
      run: (signal) => this.#deliverList(signal),
      retry: (error, failures) => computeRetryDelay(classifyError(error), failures, options.random()),
      onError: (error) => this.#handleError(error),
    });
  }

  /** Lists now, or after the list in progress; a retry that is due later serves the new members, too. */
  request(): void {
    // The loop handles the error.
    if (!this.#loop.isScheduled) this.#loop.flush().catch(() => {});
  }

  /** The etcd was restored: a list in progress has versions of the lost state. */
  beginAgain(): void {
    const message = "the etcd was restored";
    this.#attempt.abort(new ApiError({ status: 410, reason: "Expired", message }));
  }

  close(): void {
    this.#loop.close();
  }

  /** Delivers one list to the late members. Throws if the list fails or has to begin again. */
  async #deliverList(closeSignal: AbortSignal): Promise<void> {
    const members = this.#watch.lateMembers;
    if (members.length === 0) return;
    this.#attempt = new AbortController();
    const signal = AbortSignal.any([closeSignal, this.#attempt.signal]);
    // Lists of several pages may have expired before they were complete.
    const options = { ...this.#options, unpaged: this.#failures > 1, signal };
    this.#list.start(members);
    const version = await listObjects(this.#watch.spec, options, (object) => {
      signal.throwIfAborted();
      return this.#list.deliver(object);
    });
    await this.#list.complete(version, signal);
    signal.throwIfAborted();
    this.#list.clear();
    this.#failures = 0;
    // Clears errors of earlier tries, unless the watch itself fails.
    if (this.#watch.lastError === undefined) for (const member of members) member.reportError(undefined);
  }

  /** Reports that a list failed. A list that expires before its last page is no error: it is repeated. */
  #handleError(error: Error): void {
    this.#failures += 1;
    if (classifyError(error).kind === "expired") return;
    for (const member of this.#list.members) member.reportError(error);
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
  #isClosed = false;
  #hasReportedError = false;
  #bufferedChanges: { readonly version: string; readonly act: ConsumerCall }[] = [];
  readonly #failures: Failures;
  readonly #pendingPromises = new Set<Promise<void>>();

  constructor(consumer: WatchConsumer, failures: Failures) {
    this.consumer = consumer;
    this.#failures = failures;
  }

  /** Delivers what the member's list shows. Resolves when the consumer is ready for more; undefined = at once. */
  deliverInList(act: ConsumerCall): Promise<void> | undefined {
    this.#callConsumer(act);
    return this.#waitIfBusy(MAX_PENDING_PROMISES);
  }

  /** The member's list is complete as of `version`: delivers the buffered changes that are later; new ones follow. */
  async completeList(version: string, signal: AbortSignal | undefined): Promise<void> {
    // All calls for the list end before `onSynced`.
    await this.#waitIfBusy(1);
    if (this.#isClosed || signal?.aborted === true) return;
    this.#listVersion = version;
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
    return this.deliverInList(act);
  }

  /** Delivers that a later list or check of the watch is complete; one of the version of the member's own list, too, which an answer may have contradicted meanwhile. */
  deliverSynced(version: string): Promise<void> | undefined {
    const act: ConsumerCall = (each) => each.onSynced(version);
    return this.isLive && version === this.#listVersion
      ? this.deliverInList(act)
      : this.deliverChange(version, act);
  }

  /** The server's etcd was restored: the versions of the list and of buffered changes cannot be compared any more. */
  handleEtcdRestored(): void {
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
