/** One watch that several consumers share. */

import { sleep } from "../../lib/index.ts";
import { outside } from "../../trace/index.ts";
import type { HubTools, Change, Member } from "./hub.ts";
import { apiVersionOf } from "../resources.ts";
import { remedyFor, retryDelayFor, watchErrorType, Reflector } from "./reflector.ts";
import { listObjects } from "./stream.ts";
import type { Version, WatchedObject, WatchSpec } from "./watch-spec.ts";
import { describeSpec, isLater, objectKey, splitKey, versionOf } from "./watch-spec.ts";

/**
 * One watch and its members. It stores only the version of each object: enough to tell after a new list what
 * changed and what is gone, and never to deliver the same version twice.
 */
export class SharedWatch {
  readonly #spec: WatchSpec;
  readonly #options: HubTools;
  readonly #reflector: Reflector;
  readonly #stop = new AbortController();
  #known = new Map<string, Version>();
  /** Keys of the list under way, once the first list is complete. */
  #seen = new Set<string>();
  #ready = false;
  #listing = false;
  #joining = false;
  #trouble: Error | undefined;
  /** In the order of their ranks. */
  #members: Member[] = [];
  /** Members that the first list goes to. */
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
      failed: (error) => options.observer.failed(watchErrorType(error)),
      trouble: (error) => this.#tell(error),
    });
    // Members that subscribe in the same turn share the first list.
    outside(() => queueMicrotask(() => void this.#reflector.run()));
  }

  /** It failed, and is tried again. */
  get isBroken(): boolean {
    return this.#trouble !== undefined;
  }

  add(member: Member): void {
    const rank = member.consumer.rank ?? "";
    const at = this.#members.findIndex((other) => (other.consumer.rank ?? "") > rank);
    this.#members = this.#members.toSpliced(at < 0 ? this.#members.length : at, 0, member);
    if (this.#trouble !== undefined) member.trouble(this.#trouble);
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
    // Members that came during a list that failed are part of this one.
    for (const member of this.#members) this.#first.add(member);
    for (const member of this.#inOrder(this.#first)) member.begin();
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
    if (known !== undefined && known.uid !== versionOf(object).uid) {
      // Deleted and created again unseen: two events, not one.
      const { resourceVersion } = versionOf(object);
      return all([this.#vanished(key, known.uid, resourceVersion), this.#applied(object)]);
    }
    return this.#applied(object);
  }

  async #sweep(version: string): Promise<void> {
    this.#listing = false;
    for (const [key, { uid }] of this.#known)
      if (!this.#seen.has(key)) await this.#vanished(key, uid, version);
    for (const member of this.#members) member.relisted(this.#seen, version);
    this.#seen = new Set();
  }

  /** Only its absence from a list shows the deletion: nothing more is known of the object. */
  #vanished(key: string, uid: string, version: string): Promise<void> | undefined {
    this.#known.delete(key);
    const { resource } = this.#spec;
    const { namespace, name } = splitKey(key);
    const space = namespace === "" ? {} : { namespace };
    const metadata = { name, ...space, uid, resourceVersion: version };
    const object = { apiVersion: apiVersionOf(resource), kind: resource.kind, metadata };
    return this.#send({ type: "deleted", object, complete: false, version });
  }

  #applied(object: WatchedObject): Promise<void> | undefined {
    const key = objectKey(object);
    const known = this.#known.get(key);
    const now = versionOf(object);
    if (known !== undefined && known.uid === now.uid && !isLater(now.resourceVersion, known.resourceVersion))
      return undefined;
    this.#known.set(key, now);
    return this.#send({ type: "applied", object, complete: true, version: now.resourceVersion });
  }

  #deleted(object: WatchedObject): Promise<void> | undefined {
    if (!this.#known.delete(objectKey(object))) return undefined;
    const version = versionOf(object).resourceVersion;
    return this.#send({ type: "deleted", object, complete: true, version });
  }

  #send(change: Change): Promise<void> | undefined {
    return all(this.#members.map((member) => member.change(change)));
  }

  #tell(error: Error | undefined): void {
    const { logger } = this.#options;
    if (error !== undefined && error.message !== this.#trouble?.message) {
      logger.debug("A watch does not work", { watch: describeSpec(this.#spec), error: error.message });
    }
    this.#trouble = error;
    for (const member of this.#members) member.trouble(error);
  }

  #inOrder(members: ReadonlySet<Member>): Member[] {
    return this.#members.filter((member) => members.has(member));
  }

  #startJoining(): void {
    if (this.#joining || !this.#ready || !this.#members.some((member) => !member.live)) return;
    this.#joining = true;
    // Members that come in the same turn share the list.
    queueMicrotask(() => void this.#join());
  }

  // Late members get a list of their own; changes are held meanwhile, and those that the list contains are dropped.
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
        if (remedyFor(error).kind !== "expired" && error instanceof Error) this.#tellAll(joiners, error);
        const delay = retryDelayFor(remedyFor(error), failures, this.#options.random());
        await sleep(this.#options.clock, delay, this.#stop.signal);
      }
    }
    this.#joining = false;
  }

  async #listFor(joiners: ReadonlySet<Member>, unpaged: boolean): Promise<void> {
    const { client, clock } = this.#options;
    const options = { client, clock, unpaged, signal: this.#stop.signal };
    for (const member of this.#inOrder(joiners)) member.begin();
    const version = await listObjects(this.#spec, options, (object) =>
      all(this.#inOrder(joiners).map((member) => member.listed(object))),
    );
    await Promise.all(this.#inOrder(joiners).map((member) => member.complete(version)));
    if (this.#trouble === undefined) this.#tellAll(joiners, undefined);
  }

  #tellAll(members: ReadonlySet<Member>, error: Error | undefined): void {
    for (const member of members) member.trouble(error);
  }
}

// Back-pressure: undefined when no member asks to wait.
function all(waits: readonly (Promise<void> | undefined)[]): Promise<void> | undefined {
  const some = waits.filter((wait) => wait !== undefined);
  return some.length === 0 ? undefined : Promise.all(some).then(() => {});
}
