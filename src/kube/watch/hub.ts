/** Shares watches, one for each distinct spec, among their consumers. */

import { Failures, sleep, type Logger } from "../../lib/index.ts";
import { withoutActiveSpan } from "../../trace/index.ts";
import { WatchMember, waitForAll } from "./consumer.ts";
import type { ConsumerCall, Subscription, WatchConsumer, WatchObserver } from "./consumer.ts";
import { listObjects } from "./list.ts";
import { Reflector, classifyError, computeRetryDelay, toWatchErrorType } from "./reflector.ts";
import type { ReflectorHandler, ReflectorTools } from "./reflector.ts";
import {
  buildDeletedObject,
  describeSpec,
  EARLIEST_VERSION,
  isLater,
  findNewestVersion,
  objectKey,
  toSpecKey,
  versionOf,
} from "./watch-spec.ts";
import type { ObjectVersion, WatchedObject, WatchSpec } from "./watch-spec.ts";

interface HubOptions extends Omit<ReflectorTools, "random"> {
  readonly logger: Logger;
  /** Called with errors that consumers throw. */
  readonly failures?: Failures;
  /** Returns a number in [0, 1); tests replace it. */
  readonly random?: () => number;
}

type HubTools = Required<HubOptions> & { readonly observers: readonly WatchObserver[] };

/** Shares one watch for each distinct spec. Stores only the version of each object; consumers store what they need. */
export class WatchHub {
  readonly #options: HubTools;
  readonly #sharedWatches = new Map<string, SharedWatch>();
  readonly #observers: WatchObserver[] = [];

  constructor(options: HubOptions) {
    const failures = options.failures ?? new Failures(options.logger);
    this.#options = { random: Math.random, ...options, failures, observers: this.#observers };
  }

  /** Reports failures and repeated lists of all watches to `observer` from now on. */
  addObserver(observer: WatchObserver): void {
    this.#observers.push(observer);
  }

  /**
   * Delivers the existing objects and then every change to the consumer. Opens a watch, or joins the one of an equal
   * spec: then a separate list delivers the existing objects.
   */
  subscribe(spec: WatchSpec, consumer: WatchConsumer): Subscription {
    const key = toSpecKey(spec);
    const sharedWatch = this.#sharedWatches.get(key) ?? new SharedWatch(spec, this.#options);
    this.#sharedWatches.set(key, sharedWatch);
    const member = new WatchMember(consumer, this.#options.failures);
    sharedWatch.add(member);
    const close = (): void => {
      const wasLast = sharedWatch.remove(member);
      if (!wasLast) return;
      sharedWatch.close();
      // A second call may find a newer watch under the key.
      if (this.#sharedWatches.get(key) === sharedWatch) this.#sharedWatches.delete(key);
    };
    return { whenSynced: member.whenSynced.promise, close };
  }

  /** Counts the watches that work, and the ones that fail and are retried. */
  countWatches(): { readonly open: number; readonly broken: number } {
    const broken = [...this.#sharedWatches.values()].filter(({ isFailing }) => isFailing).length;
    return { open: this.#sharedWatches.size - broken, broken };
  }

  close(): void {
    for (const shared of this.#sharedWatches.values()) shared.close();
    this.#sharedWatches.clear();
  }
}

/**
 * One watch and its members. It stores only the version of each object, to find changes and deletions after a new
 * list and to deliver no version twice. Members that subscribe after the first list has begun are late: a separate list is read for them.
 */
class SharedWatch implements ReflectorHandler {
  readonly #spec: WatchSpec;
  readonly #options: HubTools;
  readonly #reflector: Reflector;
  readonly #abortController = new AbortController();
  /** The last delivered version of each object. */
  readonly #knownVersions = new Map<string, ObjectVersion>();
  /** Keys of the objects that a repeated list contains, while the list is in progress. */
  #listedKeys = new Set<string>();
  #isFirstListDone = false;
  /** `#joinLateMembers` runs or is scheduled. */
  #isJoining = false;
  #lastError: Error | undefined;
  /** All consumers, in the order of their ranks. The array is replaced, not changed. */
  #members: readonly WatchMember[] = [];
  /** Members that receive the first list; members that subscribe after its begin get lists of their own. */
  #firstListMembers: readonly WatchMember[] = [];

  constructor(spec: WatchSpec, options: HubTools) {
    this.#spec = spec;
    this.#options = options;
    this.#reflector = new Reflector(spec, options, this);
    // Members that subscribe in the same microtask share the first list.
    withoutActiveSpan(() => queueMicrotask(() => void this.#reflector.run()));
  }

  /** The watch fails and is retried. */
  get isFailing(): boolean {
    return this.#lastError !== undefined;
  }

  /** Adds a consumer behind those of its rank. It receives the first list, or a list of its own if that has begun. */
  add(member: WatchMember): void {
    const rank = member.consumer.rank ?? "";
    const index = this.#members.findIndex((other) => (other.consumer.rank ?? "") > rank);
    this.#members = this.#members.toSpliced(index < 0 ? this.#members.length : index, 0, member);
    if (this.#lastError !== undefined) member.reportError(this.#lastError);
    this.#scheduleJoin();
  }

  /** Removes a consumer; true if it was the last one. */
  remove(member: WatchMember): boolean {
    member.close();
    this.#members = this.#members.filter((other) => other !== member);
    return this.#members.length === 0;
  }

  close(): void {
    this.#abortController.abort();
    this.#reflector.close();
    for (const member of this.#members) member.close();
  }

  /** A list begins: the first one, that one again after a failure, or a repeated list that finds missed changes. */
  onListStart(): void {
    this.#listedKeys = new Set();
    if (this.#isFirstListDone) {
      this.#notifyObservers((observer) => observer.onRelist(this.#spec));
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
      return waitForAll(this.#firstListMembers.map((member) => member.deliverListed(object)));
    }
    this.#listedKeys.add(key);
    const knownVersion = this.#knownVersions.get(key);
    if (knownVersion === undefined || knownVersion.uid === uid) return this.onApplied(object);
    // The object was deleted and created again unseen: the members get both events.
    const deletion = this.#deliverMissedDeletion(key, knownVersion.uid, resourceVersion);
    return waitForAll([deletion, this.onApplied(object)]);
  }

  /** The list is complete. Known objects that a repeated list lacks were deleted unseen. */
  async onListComplete(version: string): Promise<void> {
    if (!this.#isFirstListDone) return this.#completeFirstList(version);
    for (const [key, { uid }] of this.#knownVersions)
      if (!this.#listedKeys.has(key)) await this.#deliverMissedDeletion(key, uid, version);
    const listedKeys = this.#listedKeys;
    this.#listedKeys = new Set();
    // For consumers that know objects from other sources than this watch.
    void this.#deliverToAll(version, (consumer) => consumer.onRelisted?.(listedKeys, version));
  }

  /** Changes are delivered from now on, and late members get their lists. */
  async #completeFirstList(version: string): Promise<void> {
    await Promise.all(this.#firstListMembers.map((member) => member.completeList(version)));
    // Not before the await: a member that subscribes meanwhile starts `#joinLateMembers`, which would list for these members, too.
    this.#isFirstListDone = true;
    this.#firstListMembers = [];
    this.#scheduleJoin();
  }

  /** Delivers a deletion that only a repeated list shows; `version` is that of the list. */
  #deliverMissedDeletion(key: string, uid: string, version: string): Promise<void> | undefined {
    this.#knownVersions.delete(key);
    const object = buildDeletedObject(this.#spec, key, { uid, resourceVersion: version });
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
    const wasKnown = this.#knownVersions.delete(objectKey(object));
    if (!wasKnown) return undefined;
    const { resourceVersion } = versionOf(object);
    return this.#deliverToAll(resourceVersion, (consumer) => consumer.onDeleted(object, true));
  }

  #deliverToAll(version: string, act: ConsumerCall): Promise<void> | undefined {
    return waitForAll(this.#members.map((member) => member.deliverChange(version, act)));
  }

  getNewestVersion(): string {
    return findNewestVersion(this.#members.map(({ consumer }) => consumer.getNewestVersion?.() ?? ""));
  }

  /** The server's etcd was restored: keeps the known objects, but the next list delivers each of them again. */
  onEtcdRestored(): void {
    const message = "The API server was put back to an earlier state; its objects are listed again";
    this.#options.logger.warn(message, { watch: describeSpec(this.#spec) });
    for (const [key, { uid }] of this.#knownVersions)
      this.#knownVersions.set(key, { uid, resourceVersion: EARLIEST_VERSION });
    for (const member of this.#members) member.handleEtcdRestored();
  }

  onFailure(error: unknown): void {
    this.#notifyObservers((observer) => observer.onFailure(toWatchErrorType(error)));
  }

  /** Reports to all members that the watch fails, or (undefined) that it works again. */
  onError(error: Error | undefined): void {
    const watch = describeSpec(this.#spec);
    if (error !== undefined && error.message !== this.#lastError?.message)
      this.#options.logger.debug("A watch does not work", { watch, error: error.message });
    this.#lastError = error;
    for (const member of this.#members) member.reportError(error);
  }

  /** Calls all observers. An error of theirs must not end the watch. */
  #notifyObservers(notify: (observer: WatchObserver) => void): void {
    const { failures, observers } = this.#options;
    failures.callAndReport("watch", () => observers.forEach(notify));
  }

  /** Starts the list of late members, if there are any and none is in progress. */
  #scheduleJoin(): void {
    const hasLateMember = this.#members.some((member) => !member.isLive);
    if (this.#isJoining || !this.#isFirstListDone || !hasLateMember) return;
    this.#isJoining = true;
    // Members that subscribe in the same microtask share the list.
    queueMicrotask(() => void this.#joinLateMembers());
  }

  /** Lists the objects for members that came after the first list had begun, until none is left. Retries a failed list. */
  async #joinLateMembers(): Promise<void> {
    const { signal } = this.#abortController;
    for (let failures = 0; !signal.aborted;) {
      const joiners = this.#members.filter((member) => !member.isLive);
      if (joiners.length === 0) break;
      try {
        await this.#listForMembers(joiners, failures > 1);
        failures = 0;
      } catch (error) {
        if (signal.aborted) break;
        failures += 1;
        const remedy = classifyError(error);
        // A list that expires before its last page is no error: it is repeated.
        if (remedy.kind !== "expired" && error instanceof Error)
          for (const member of joiners) member.reportError(error);
        const delay = computeRetryDelay(remedy, failures, this.#options.random());
        await sleep(this.#options.clock, delay, signal);
      }
    }
    this.#isJoining = false;
  }

  /** Delivers one list to these members. `unpaged`: lists of several pages have expired before they were complete. */
  async #listForMembers(joiners: readonly WatchMember[], unpaged: boolean): Promise<void> {
    const options = { ...this.#options, unpaged, signal: this.#abortController.signal };
    for (const member of joiners) member.startList();
    const version = await listObjects(this.#spec, options, (object) =>
      waitForAll(joiners.map((member) => member.deliverListed(object))),
    );
    await Promise.all(joiners.map((member) => member.completeList(version)));
    // Clears errors of earlier tries, unless the watch itself fails.
    if (this.#lastError === undefined) for (const member of joiners) member.reportError(undefined);
  }
}
