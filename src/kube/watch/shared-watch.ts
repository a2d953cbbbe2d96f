/** One watch that several consumers share. */

import { sleep } from "../../lib/index.ts";
import { withoutActiveSpan } from "../../trace/index.ts";
import type { HubTools } from "./consumer.ts";
import type { Act, Member } from "./member.ts";
import { Reflector, remedyFor, retryDelayFor, watchErrorType } from "./reflector.ts";
import { listObjects } from "./stream.ts";
import { bareObject, describeSpec, EARLIEST, isLater, newestOf, objectKey, versionOf } from "./watch-spec.ts";
import type { Version, WatchedObject, WatchSpec } from "./watch-spec.ts";

/**
 * One watch and its members. It stores only the version of each object, to find changes and deletions after a new
 * list and to deliver no version twice.
 */
export class SharedWatch {
  readonly #spec: WatchSpec;
  readonly #options: HubTools;
  readonly #reflector: Reflector;
  readonly #stop = new AbortController();
  #known = new Map<string, Version>();
  /** Keys of the list in progress, once the first list is complete. */
  #seen = new Set<string>();
  #ready = false;
  #listing = false;
  #joining = false;
  #issue: Error | undefined;
  /** In the order of their ranks. */
  #members: Member[] = [];
  /** Members that receive the first list. */
  readonly #first = new Set<Member>();

  constructor(spec: WatchSpec, options: HubTools) {
    this.#spec = spec;
    this.#options = options;
    this.#reflector = new Reflector(spec, options, {
      listing: () => this.#begin(),
      listed: (object) => (this.#ready ? this.#compare(object) : this.#record(object)),
      completed: (version) => (this.#ready ? this.#sweep(version) : this.#complete(version)),
      applied: (object) => this.#applied(object),
      deleted: (object) => this.#deleted(object),
      newest: () => newestOf(this.#members.map((member) => member.newest())),
      putBack: () => this.#putBack(),
      failed: (error) => options.observer.failed(watchErrorType(error)),
      issue: (error) => this.#report(error),
    });
    // Members that subscribe in the same microtask share the first list.
    withoutActiveSpan(() => queueMicrotask(() => void this.#reflector.run()));
  }

  /** The watch failed and is tried again. */
  get isBroken(): boolean {
    return this.#issue !== undefined;
  }

  add(member: Member): void {
    const rank = member.consumer.rank ?? "";
    const at = this.#members.findIndex((other) => (other.consumer.rank ?? "") > rank);
    this.#members = this.#members.toSpliced(at < 0 ? this.#members.length : at, 0, member);
    if (this.#issue !== undefined) member.issue(this.#issue);
    if (!this.#ready && !this.#listing) this.#first.add(member);
    else this.#startJoining();
  }

  /** True when that was the last member. */
  remove(member: Member): boolean {
    member.close();
    this.#first.delete(member);
    this.#members = this.#members.filter((other) => other !== member);
    return this.#members.length === 0;
  }

  close(): void {
    this.#stop.abort();
    this.#reflector.close();
    for (const member of this.#members) member.close();
  }

  #begin(): void {
    this.#seen = new Set();
    this.#listing = true;
    if (this.#ready) return this.#options.observer.relisted(this.#spec);
    this.#known.clear();
    // Members that subscribed during a failed list receive this one.
    for (const member of this.#members) this.#first.add(member);
    for (const member of this.#inOrder(this.#first)) member.begin();
  }

  /** Keeps the known objects, but delivers each object of the next list. */
  #putBack(): void {
    this.#options.logger.warn(
      "The API server was put back to an earlier state; its objects are listed again",
      {
        watch: describeSpec(this.#spec),
      },
    );
    for (const [key, { uid }] of this.#known) this.#known.set(key, { uid, resourceVersion: EARLIEST });
    for (const member of this.#members) member.putBack();
  }

  #record(object: WatchedObject): Promise<void> | void {
    this.#known.set(objectKey(object), versionOf(object));
    return all(this.#inOrder(this.#first).map((member) => member.listed(object)));
  }

  async #complete(version: string): Promise<void> {
    this.#ready = true;
    this.#listing = false;
    const members = this.#inOrder(this.#first);
    this.#first.clear();
    await Promise.all(members.map((member) => member.complete(version)));
    this.#startJoining();
  }

  #compare(object: WatchedObject): Promise<void> | void {
    const key = objectKey(object);
    this.#seen.add(key);
    const known = this.#known.get(key);
    const { uid, resourceVersion } = versionOf(object);
    if (known === undefined || known.uid === uid) return this.#applied(object);
    // Deleted and created again unseen: two events, not one.
    return all([this.#vanished(key, known.uid, resourceVersion), this.#applied(object)]);
  }

  async #sweep(version: string): Promise<void> {
    this.#listing = false;
    for (const [key, { uid }] of this.#known)
      if (!this.#seen.has(key)) await this.#vanished(key, uid, version);
    const seen = this.#seen;
    void this.#send(version, (each) => each.relisted?.(seen, version));
    this.#seen = new Set();
  }

  #vanished(key: string, uid: string, version: string): Promise<void> | undefined {
    this.#known.delete(key);
    const object = bareObject(this.#spec, key, { uid, resourceVersion: version });
    return this.#send(version, (each) => each.deleted(object, false));
  }

  #applied(object: WatchedObject): Promise<void> | undefined {
    const key = objectKey(object);
    const known = this.#known.get(key);
    const now = versionOf(object);
    if (known !== undefined && known.uid === now.uid && !isLater(now.resourceVersion, known.resourceVersion))
      return undefined;
    this.#known.set(key, now);
    return this.#send(now.resourceVersion, (each) => each.applied(object));
  }

  #deleted(object: WatchedObject): Promise<void> | undefined {
    if (!this.#known.delete(objectKey(object))) return undefined;
    return this.#send(versionOf(object).resourceVersion, (each) => each.deleted(object, true));
  }

  #send(version: string, act: Act): Promise<void> | undefined {
    return all(this.#members.map((member) => member.deliver(version, act)));
  }

  #report(error: Error | undefined): void {
    const watch = describeSpec(this.#spec);
    if (error !== undefined && error.message !== this.#issue?.message)
      this.#options.logger.debug("A watch does not work", { watch, error: error.message });
    this.#issue = error;
    for (const member of this.#members) member.issue(error);
  }

  #inOrder(members: ReadonlySet<Member>): Member[] {
    return this.#members.filter((member) => members.has(member));
  }

  #startJoining(): void {
    if (this.#joining || !this.#ready || !this.#members.some((member) => !member.live)) return;
    this.#joining = true;
    // Members that subscribe in the same microtask share the list.
    queueMicrotask(() => void this.#join());
  }

  // Late members get their own list; changes are buffered meanwhile, and dropped if the list contains them.
  async #join(): Promise<void> {
    for (let failures = 0; !this.#stop.signal.aborted;) {
      const joiners = new Set(this.#members.filter((member) => !member.live));
      if (joiners.size === 0) break;
      try {
        await this.#listFor(joiners, failures > 1);
        failures = 0;
      } catch (error) {
        if (this.#stop.signal.aborted) break;
        failures += 1;
        const remedy = remedyFor(error);
        if (remedy.kind !== "expired" && error instanceof Error)
          for (const member of joiners) member.issue(error);
        const delay = retryDelayFor(remedy, failures, this.#options.random());
        await sleep(this.#options.clock, delay, this.#stop.signal);
      }
    }
    this.#joining = false;
  }

  async #listFor(joiners: ReadonlySet<Member>, unpaged: boolean): Promise<void> {
    const options = { ...this.#options, unpaged, signal: this.#stop.signal };
    for (const member of this.#inOrder(joiners)) member.begin();
    const version = await listObjects(this.#spec, options, (object) =>
      all(this.#inOrder(joiners).map((member) => member.listed(object))),
    );
    await Promise.all(this.#inOrder(joiners).map((member) => member.complete(version)));
    if (this.#issue === undefined) for (const member of joiners) member.issue(undefined);
  }
}

// Back-pressure: undefined when no member returned a promise.
function all(waits: readonly (Promise<void> | undefined)[]): Promise<void> | undefined {
  const some = waits.filter((wait) => wait !== undefined);
  return some.length === 0 ? undefined : Promise.all(some).then(() => {});
}
