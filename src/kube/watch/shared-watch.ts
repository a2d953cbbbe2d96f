/** One watch that several consumers share. */

import { sleep } from "../../lib/index.ts";
import { withoutActiveSpan } from "../../trace/index.ts";
import type { HubTools } from "./consumer.ts";
import type { ConsumerCall, WatchMember } from "./member.ts";
import { Reflector, classifyError, computeRetryDelay, toWatchErrorType } from "./reflector.ts";
import { listObjects } from "./stream.ts";
import {
  buildDeletedObject,
  describeSpec,
  EARLIEST_VERSION,
  isLater,
  findNewestVersion,
  objectKey,
  versionOf,
} from "./watch-spec.ts";
import type { ObjectVersion, WatchedObject, WatchSpec } from "./watch-spec.ts";

/**
 * One watch and its members. It stores only the version of each object, to find changes and deletions after a new
 * list and to deliver no version twice.
 */
export class SharedWatch {
  readonly #spec: WatchSpec;
  readonly #options: HubTools;
  readonly #reflector: Reflector;
  readonly #abortController = new AbortController();
  /** The last delivered version of each object. */
  #knownVersions = new Map<string, ObjectVersion>();
  /** Keys of the objects that a repeated list contains, while the list is in progress. */
  #listedKeys = new Set<string>();
  #isFirstListDone = false;
  #isListing = false;
  /** `#joinLateMembers` runs or is scheduled. */
  #isJoining = false;
  #lastError: Error | undefined;
  /** All consumers, in the order of their ranks. */
  #members: WatchMember[] = [];
  /** Members that receive the first list; later members get lists of their own. */
  readonly #firstListMembers = new Set<WatchMember>();

  constructor(spec: WatchSpec, options: HubTools) {
    this.#spec = spec;
    this.#options = options;
    this.#reflector = new Reflector(spec, options, {
      onListStart: () => this.#startList(),
      onListed: (object) =>
        this.#isFirstListDone ? this.#compareRelisted(object) : this.#recordFirstListed(object),
      onListComplete: (version) =>
        this.#isFirstListDone ? this.#completeRelist(version) : this.#completeFirstList(version),
      onApplied: (object) => this.#handleApplied(object),
      onDeleted: (object) => this.#handleDeleted(object),
      getNewestVersion: () => findNewestVersion(this.#members.map((member) => member.getNewestVersion())),
      onEtcdRestored: () => this.#handleEtcdRestored(),
      onFailure: (error) => options.observer.onFailure(toWatchErrorType(error)),
      onError: (error) => this.#reportError(error),
    });
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
    if (!this.#isFirstListDone && !this.#isListing) this.#firstListMembers.add(member);
    else this.#scheduleJoin();
  }

  /** Removes a consumer; true if it was the last one. */
  remove(member: WatchMember): boolean {
    member.close();
    this.#firstListMembers.delete(member);
    this.#members = this.#members.filter((other) => other !== member);
    return this.#members.length === 0;
  }

  close(): void {
    this.#abortController.abort();
    this.#reflector.close();
    for (const member of this.#members) member.close();
  }

  /** A list begins: the first one, that one again after a failure, or a repeated list that finds missed changes. */
  #startList(): void {
    this.#listedKeys = new Set();
    this.#isListing = true;
    if (this.#isFirstListDone) {
      this.#options.observer.onRelist(this.#spec);
      return;
    }
    this.#knownVersions.clear();
    // Members that subscribed during a failed list receive this one.
    for (const member of this.#members) this.#firstListMembers.add(member);
    for (const member of this.#inRankOrder(this.#firstListMembers)) member.startList();
  }

  /** The server's etcd was restored: keeps the known objects, but the next list delivers each of them again. */
  #handleEtcdRestored(): void {
    const message = "The API server was put back to an earlier state; its objects are listed again";
    this.#options.logger.warn(message, { watch: describeSpec(this.#spec) });
    for (const [key, { uid }] of this.#knownVersions)
      this.#knownVersions.set(key, { uid, resourceVersion: EARLIEST_VERSION });
    for (const member of this.#members) member.handleEtcdRestored();
  }

  /** Delivers one object of the first list. */
  #recordFirstListed(object: WatchedObject): Promise<void> | void {
    this.#knownVersions.set(objectKey(object), versionOf(object));
    return waitForAll(
      this.#inRankOrder(this.#firstListMembers).map((member) => member.deliverListed(object)),
    );
  }

  /** The first list is complete: changes are delivered from now on, and late members get their lists. */
  async #completeFirstList(version: string): Promise<void> {
    this.#isFirstListDone = true;
    this.#isListing = false;
    const members = this.#inRankOrder(this.#firstListMembers);
    this.#firstListMembers.clear();
    await Promise.all(members.map((member) => member.completeList(version)));
    this.#scheduleJoin();
  }

  /** Delivers one object of a repeated list if it differs from the known version. */
  #compareRelisted(object: WatchedObject): Promise<void> | void {
    const key = objectKey(object);
    this.#listedKeys.add(key);
    const known = this.#knownVersions.get(key);
    const { uid, resourceVersion } = versionOf(object);
    if (known === undefined || known.uid === uid) return this.#handleApplied(object);
    // The object was deleted and created again unseen: the members get both events.
    return waitForAll([
      this.#deliverMissedDeletion(key, known.uid, resourceVersion),
      this.#handleApplied(object),
    ]);
  }

  /** A repeated list is complete: known objects that it lacks were deleted unseen. */
  async #completeRelist(version: string): Promise<void> {
    this.#isListing = false;
    for (const [key, { uid }] of this.#knownVersions)
      if (!this.#listedKeys.has(key)) await this.#deliverMissedDeletion(key, uid, version);
    const listedKeys = this.#listedKeys;
    this.#listedKeys = new Set();
    void this.#deliverToAll(version, (consumer) => consumer.onRelisted?.(listedKeys, version));
  }

  /** Delivers a deletion that only a repeated list shows; `version` is that of the list. */
  #deliverMissedDeletion(key: string, uid: string, version: string): Promise<void> | undefined {
    this.#knownVersions.delete(key);
    const object = buildDeletedObject(this.#spec, key, { uid, resourceVersion: version });
    return this.#deliverToAll(version, (consumer) => consumer.onDeleted(object, false));
  }

  /** Delivers a new or changed object, unless this version or a later one was delivered before. */
  #handleApplied(object: WatchedObject): Promise<void> | undefined {
    const key = objectKey(object);
    const known = this.#knownVersions.get(key);
    const now = versionOf(object);
    if (known !== undefined && known.uid === now.uid && !isLater(now.resourceVersion, known.resourceVersion))
      return undefined;
    this.#knownVersions.set(key, now);
    return this.#deliverToAll(now.resourceVersion, (consumer) => consumer.onApplied(object));
  }

  /** Delivers a deletion that the watch reported, unless the object is unknown. */
  #handleDeleted(object: WatchedObject): Promise<void> | undefined {
    const wasKnown = this.#knownVersions.delete(objectKey(object));
    if (!wasKnown) return undefined;
    const { resourceVersion } = versionOf(object);
    return this.#deliverToAll(resourceVersion, (consumer) => consumer.onDeleted(object, true));
  }

  #deliverToAll(version: string, act: ConsumerCall): Promise<void> | undefined {
    return waitForAll(this.#members.map((member) => member.deliverChange(version, act)));
  }

  /** Reports to all members that the watch fails, or (undefined) that it works again. */
  #reportError(error: Error | undefined): void {
    const watch = describeSpec(this.#spec);
    if (error !== undefined && error.message !== this.#lastError?.message)
      this.#options.logger.debug("A watch does not work", { watch, error: error.message });
    this.#lastError = error;
    for (const member of this.#members) member.reportError(error);
  }

  /** Sorts members by rank; drops members that were removed meanwhile. */
  #inRankOrder(members: ReadonlySet<WatchMember>): WatchMember[] {
    return this.#members.filter((member) => members.has(member));
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
    for (let failures = 0; !this.#abortController.signal.aborted;) {
      const joiners = new Set(this.#members.filter((member) => !member.isLive));
      if (joiners.size === 0) break;
      try {
        await this.#listForMembers(joiners, failures > 1);
        failures = 0;
      } catch (error) {
        if (this.#abortController.signal.aborted) break;
        failures += 1;
        const remedy = classifyError(error);
        if (remedy.kind !== "expired" && error instanceof Error)
          for (const member of joiners) member.reportError(error);
        const delay = computeRetryDelay(remedy, failures, this.#options.random());
        await sleep(this.#options.clock, delay, this.#abortController.signal);
      }
    }
    this.#isJoining = false;
  }

  /** Delivers one list to these members. `unpaged`: lists of several pages have expired before they were complete. */
  async #listForMembers(joiners: ReadonlySet<WatchMember>, unpaged: boolean): Promise<void> {
    const options = { ...this.#options, unpaged, signal: this.#abortController.signal };
    for (const member of this.#inRankOrder(joiners)) member.startList();
    const version = await listObjects(this.#spec, options, (object) =>
      waitForAll(this.#inRankOrder(joiners).map((member) => member.deliverListed(object))),
    );
    await Promise.all(this.#inRankOrder(joiners).map((member) => member.completeList(version)));
    // Clears errors of earlier tries, unless the watch itself fails.
    if (this.#lastError === undefined) for (const member of joiners) member.reportError(undefined);
  }
}

/** Joins the promises of several members for back-pressure; undefined when no member is busy. */
function waitForAll(promises: readonly (Promise<void> | undefined)[]): Promise<void> | undefined {
  const pending = promises.filter((promise) => promise !== undefined);
  return pending.length === 0 ? undefined : Promise.all(pending).then(() => {});
}
