import type { Clock, Logger } from "../lib/index.ts";
import { oneLine, toError } from "../lib/index.ts";
import type { KubeClient } from "./client.ts";
import { ResourceWatch } from "./watch.ts";
import type { WatchObserver } from "./watch.ts";
import { listForWatch } from "./watch-list.ts";
import { apiVersionOf } from "./resources.ts";
import { describeSpec, isLater, objectKey, specKey, versionOf } from "./watch-spec.ts";
import type { Version, WatchSpec, WatchedObject } from "./watch-spec.ts";

/**
 * Who wants to know. `begin`, `object`… and `synced` come once, with what is there; after that only differences,
 * in order, also over a new list. A returned promise holds the watch up until it is settled.
 */
export interface WatchConsumer {
  begin?(): void;
  object(object: WatchedObject): Promise<void> | void;
  synced(): Promise<void> | void;
  applied(object: WatchedObject): Promise<void> | void;
  /** The last known object, or only its coordinates where a new list found it missing. */
  deleted(object: WatchedObject): Promise<void> | void;
  /** The watch fails and is tried again; undefined = it works again. */
  trouble?(error: Error | undefined): void;
}

/** A consumer's hold on a watch; the last one to close ends it. */
export interface Subscription {
  readonly synced: Promise<void>;
  close(): void;
}

export interface HubOptions {
  readonly client: Pick<KubeClient, "stream">;
  readonly clock: Clock;
  readonly logger: Logger;
  /** In [0, 1). */
  readonly random?: () => number;
}

/** One watch for all who want the same (resource, namespace, selectors). It keeps versions, never objects. */
export class WatchHub {
  readonly #options: HubOptions;
  readonly #watches = new Map<string, SharedWatch>();

  constructor(options: HubOptions) {
    this.#options = options;
  }

  subscribe(spec: WatchSpec, consumer: WatchConsumer): Subscription {
    const key = specKey(spec);
    let watch = this.#watches.get(key);
    if (watch === undefined) {
      watch = new SharedWatch(spec, this.#options);
      this.#watches.set(key, watch);
    }
    const shared = watch;
    const member = shared.join(consumer);
    return {
      synced: member.synced.promise,
      close: () => {
        if (shared.leave(member)) this.#watches.delete(key);
      },
    };
  }

  /** Number of watches that are open. */
  get size(): number {
    return this.#watches.size;
  }

  close(): void {
    for (const watch of this.#watches.values()) watch.close();
    this.#watches.clear();
  }
}

type Change = { readonly kind: "applied" | "deleted"; readonly object: WatchedObject };

interface Member {
  readonly consumer: WatchConsumer;
  readonly synced: PromiseWithResolvers<void>;
  readonly gone: AbortController;
  /** Changes that wait for the member's own list; undefined once it follows. */
  waiting: Change[] | undefined;
}

const LIST_SILENCE_MS = 60_000;

class SharedWatch implements WatchObserver {
  readonly #spec: WatchSpec;
  readonly #options: HubOptions;
  readonly #members = new Set<Member>();
  readonly #watch: ResourceWatch;
  #versions = new Map<string, Version>();
  #listing: Map<string, Version> | undefined;
  #state: "idle" | "first" | "live" = "idle";

  constructor(spec: WatchSpec, options: HubOptions) {
    this.#spec = spec;
    this.#options = options;
    const tools = { client: options.client, clock: options.clock, random: options.random ?? Math.random };
    this.#watch = new ResourceWatch(spec, tools, this);
  }

  join(consumer: WatchConsumer): Member {
    const late = this.#state !== "idle";
    const member: Member = {
      consumer,
      synced: Promise.withResolvers<void>(),
      gone: new AbortController(),
      waiting: late ? [] : undefined,
    };
    this.#members.add(member);
    if (late) void this.#catchUp(member);
    else if (this.#members.size === 1) queueMicrotask(() => void this.#watch.run());
    return member;
  }

  /** True when nobody is left. */
  leave(member: Member): boolean {
    member.gone.abort();
    this.#members.delete(member);
    if (this.#members.size > 0) return false;
    this.close();
    return true;
  }

  close(): void {
    this.#watch.close();
  }

  listing(): void {
    this.#listing = new Map();
    if (this.#state === "live") return;
    this.#state = "first";
    for (const { consumer, waiting } of this.#members) if (waiting === undefined) consumer.begin?.();
  }

  async listed(object: WatchedObject): Promise<void> {
    const key = objectKey(object);
    const version = versionOf(object);
    this.#listing?.set(key, version);
    if (this.#state !== "live") {
      for (const { consumer, waiting } of this.#members)
        if (waiting === undefined) await consumer.object(object);
    } else if (isNews(this.#versions.get(key), version)) {
      this.#versions.set(key, version);
      await this.#tell({ kind: "applied", object });
    }
  }

  async completed(): Promise<void> {
    const listed = this.#listing ?? new Map<string, Version>();
    const before = this.#versions;
    this.#versions = listed;
    if (this.#state === "live") return this.#tellVanished(before, listed);
    this.#state = "live";
    for (const { consumer, waiting, synced } of this.#members) {
      if (waiting !== undefined) continue;
      await consumer.synced();
      synced.resolve();
    }
  }

  async applied(object: WatchedObject): Promise<void> {
    const key = objectKey(object);
    const version = versionOf(object);
    if (!isNews(this.#versions.get(key), version)) return;
    this.#versions.set(key, version);
    await this.#tell({ kind: "applied", object });
  }

  async deleted(object: WatchedObject): Promise<void> {
    if (!this.#versions.delete(objectKey(object))) return;
    await this.#tell({ kind: "deleted", object });
  }

  trouble(error: Error | undefined): void {
    if (error !== undefined) {
      this.#options.logger.warn("Watch fails", { watch: describeSpec(this.#spec), error: oneLine(error) });
    }
    for (const { consumer } of this.#members) consumer.trouble?.(error);
  }

  async #tell(change: Change): Promise<void> {
    for (const { consumer, waiting } of this.#members) {
      if (waiting !== undefined) waiting.push(change);
      else await consumer[change.kind](change.object);
    }
  }

  async #tellVanished(
    before: ReadonlyMap<string, Version>,
    now: ReadonlyMap<string, Version>,
  ): Promise<void> {
    for (const [key, { uid }] of before) {
      if (now.has(key)) continue;
      const [namespace = "", name = ""] = key.split("/");
      const metadata = { name, uid, ...(namespace === "" ? {} : { namespace }) };
      const { kind } = this.#spec.resource;
      await this.#tell({
        kind: "deleted",
        object: { apiVersion: apiVersionOf(this.#spec.resource), kind, metadata },
      });
    }
  }

  /** A late joiner lists for itself; what changed after that list follows, then it is like the others. */
  async #catchUp(member: Member): Promise<void> {
    const { consumer, gone } = member;
    const options = { ...this.#options, signal: gone.signal, silenceMs: LIST_SILENCE_MS };
    while (!gone.signal.aborted) {
      try {
        consumer.begin?.();
        const listed = await listForWatch(this.#spec, options, (object) => consumer.object(object));
        await consumer.synced();
        member.synced.resolve();
        await this.#replay(member, listed);
        return;
      } catch (error) {
        if (gone.signal.aborted) return;
        consumer.trouble?.(toError(error));
        await new Promise<void>((resolve) => {
          this.#options.clock.setTimer(1000, resolve);
        });
      }
    }
  }

  async #replay(member: Member, listed: string): Promise<void> {
    for (let change = member.waiting?.shift(); change !== undefined; change = member.waiting?.shift()) {
      const version = versionOf(change.object).resourceVersion;
      // A deletion found by a new list has no version of its own; telling it twice does no harm.
      if (version === "" || isLater(version, listed)) await member.consumer[change.kind](change.object);
    }
    member.waiting = undefined;
  }
}

function isNews(known: Version | undefined, seen: Version): boolean {
  return (
    known === undefined || known.uid !== seen.uid || isLater(seen.resourceVersion, known.resourceVersion)
  );
}
