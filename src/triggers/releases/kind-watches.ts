/** Watches the kinds of objects that releases contain. */

import type { CelTest, Clock, Logger, Timer } from "../../lib/index.ts";
import type { Json, JsonObject } from "../../model/index.ts";
import { oneLine, sameJson } from "../../lib/index.ts";
import { handsOf, type Hands } from "../../drift/index.ts";
import { findingOf, hasStatus, NOT_FOUND, unwatched, type Finding } from "../../health/index.ts";
import { objectKey } from "../../kube/index.ts";
import type { Resource, Subscription, WatchHub, WatchedObject } from "../../kube/index.ts";
import type { ObjectRef } from "../../helm/index.ts";
import { kindKey, type ReleaseObject } from "./release-object.ts";

export interface KindWatchesOptions {
  readonly hub: WatchHub;
  readonly resolve: (kind: string, apiVersion: string) => Promise<Resource | undefined>;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** Follows what is found of the objects of releases. `kind` is their `kindKey`. */
export interface KindListener {
  /** Something of a module may be gone; with `name`, which object of that kind was just deleted. */
  missing?(module: string, gone?: { readonly kind: string; readonly name: string }): void;
  /** The finding of an object has changed; without `name`, those of all objects of that kind may have. */
  judged?(module: string, kind: string, name?: string): void;
  /** Something was written to an object. */
  written?(module: string, kind: string, name: string): void;
  /** The server was put back to an earlier state: versions of objects seen so far are no measure any more. */
  putBack?(module: string): void;
}

/** What is kept of an object that is there. */
interface Seen {
  readonly finding: Finding;
  readonly hands: Hands;
}

/** Helm puts this label on everything it makes: other objects of a kind are not watched. */
const MADE_BY_HELM = "app.kubernetes.io/managed-by=Helm";
/** A kind that the server does not know (yet) is looked for again, less and less often. */
const ASK_AGAIN_MS = 10_000;
const ASK_LATEST_MS = 600_000;

/** One watch for all release objects of one kind in one namespace. */
interface KindWatch {
  readonly key: string;
  readonly check: CelTest | undefined;
  /** Modules with objects of this kind. */
  readonly users: Set<string>;
  readonly present: Map<string, Seen>;
  /** Of objects that the watch does not have, although the server does. */
  readonly asked: Map<string, Finding>;
  synced: boolean;
  resource: Resource | undefined;
  subscription: Subscription | undefined;
  /** Since when the kind cannot be watched, by the monotonic clock. */
  blindSince: number | undefined;
  /** Why it cannot be watched. */
  trouble: string | undefined;
  /** Runs until the kind is looked for again. */
  timer: Timer | undefined;
}

/** What a watch says about an object that it does not have. */
export interface Missing {
  readonly resource: Resource;
  /** Since when the kind cannot be watched, so that nothing is known of the object. */
  readonly blindSince: number | undefined;
}

/**
 * Watches what helm made, once for each kind and namespace: whole objects where their status says something, else their
 * metadata. Only the finding of each is kept, and whose its fields are.
 */
export class KindWatches {
  readonly #options: KindWatchesOptions;
  readonly #listeners: KindListener[] = [];
  readonly #watches = new Map<string, KindWatch>();

  constructor(options: KindWatchesOptions) {
    this.#options = options;
  }

  listen(listener: KindListener): void {
    this.#listeners.push(listener);
  }

  /** Watches the kind of an object for a module. */
  join(object: ReleaseObject, module: string): void {
    const key = kindKey(object);
    const open = this.#watches.get(key) ?? this.#open(object, key);
    open.users.add(module);
  }

  /** A module has no object of that kind any more. */
  leave(key: string, module: string): void {
    const watch = this.#watches.get(key);
    watch?.users.delete(module);
    if (watch === undefined || watch.users.size > 0) return;
    endWatch(watch);
    this.#watches.delete(key);
  }

  /** What was found of an object; undefined while nothing was. What was found stays while the server cannot be reached. */
  finding(object: ReleaseObject): Finding | undefined {
    const watch = this.#watches.get(kindKey(object));
    if (watch === undefined) return undefined;
    const found = seenOf(watch, object)?.finding ?? watch.asked.get(keyIn(watch, object));
    if (found !== undefined) return found;
    if (watch.trouble !== undefined) return unwatched(watch.trouble);
    return watch.synced ? NOT_FOUND : undefined;
  }

  /** Whose the fields of an object are; undefined while it is not seen. */
  hands(object: ReleaseObject): Hands | undefined {
    const watch = this.#watches.get(kindKey(object));
    return watch && seenOf(watch, object)?.hands;
  }

  /** Whether the whole object is needed to judge it. */
  needsWhole(object: ReleaseObject): boolean {
    return object.check !== undefined || hasStatus(object.apiVersion, object.kind);
  }

  /** What the server answered when it was asked for an object; undefined where it is not there. */
  answered(object: ReleaseObject, found: JsonObject | undefined): void {
    const watch = this.#watches.get(kindKey(object));
    if (watch === undefined) return;
    const key = keyIn(watch, object);
    const before = watch.asked.get(key);
    if (found === undefined) watch.asked.delete(key);
    else
      watch.asked.set(key, findingOf(found, { ...moment(this.#options.clock), before, check: watch.check }));
    this.#judged(watch, object.name);
  }

  /** The object with the namespace that it has: none where its kind is cluster-wide. */
  placed(object: ReleaseObject): ObjectRef {
    const isClusterWide = this.#watches.get(kindKey(object))?.resource?.namespaced === false;
    return isClusterWide ? { ...object, namespace: undefined } : object;
  }

  /** Undefined for objects that exist, and while nothing can be said. */
  missing(object: ReleaseObject): Missing | undefined {
    const watch = this.#watches.get(kindKey(object));
    if (watch?.resource === undefined) return undefined;
    const { resource, blindSince, synced } = watch;
    if (blindSince === undefined && (!synced || seenOf(watch, object) !== undefined)) return undefined;
    return { resource, blindSince };
  }

  close(): void {
    for (const watch of this.#watches.values()) endWatch(watch);
    this.#watches.clear();
  }

  #open(object: ReleaseObject, key: string): KindWatch {
    const watch: KindWatch = {
      key,
      check: object.check?.test,
      users: new Set(),
      present: new Map(),
      asked: new Map(),
      synced: false,
      resource: undefined,
      subscription: undefined,
      blindSince: undefined,
      trouble: undefined,
      timer: undefined,
    };
    this.#watches.set(key, watch);
    void this.#find(object, watch, ASK_AGAIN_MS);
    return watch;
  }

  async #find(object: ReleaseObject, watch: KindWatch, againMs: number): Promise<void> {
    const { resolve, clock } = this.#options;
    const resource = await resolve(object.kind, object.apiVersion).catch(() => undefined);
    if (this.#watches.get(watch.key) !== watch) return;
    if (resource === undefined) {
      this.#note(watch, "the server does not know its kind");
      const nextMs = Math.min(2 * againMs, ASK_LATEST_MS);
      watch.timer = clock.setTimer(againMs, () => void this.#find(object, watch, nextMs));
      return;
    }
    watch.resource = resource;
    watch.trouble = undefined;
    if (resource.verbs.includes("watch")) this.#subscribe(object, watch, resource);
    else this.#goBlind(watch);
  }

  #subscribe(object: ReleaseObject, watch: KindWatch, resource: Resource): void {
    const namespace = resource.namespaced ? object.namespace : undefined;
    const metadataOnly = !this.needsWhole(object);
    watch.subscription = this.#options.hub.subscribe(
      { resource, namespace, labelSelector: MADE_BY_HELM, metadataOnly, keepManagedFields: true },
      {
        begin: () => watch.present.clear(),
        object: (each) => void this.#see(watch, each),
        synced: () => {
          watch.synced = true;
          this.#works(watch);
          this.#tell(watch);
        },
        applied: (each) => {
          if (this.#see(watch, each)) this.#judged(watch, each.metadata.name);
          for (const listener of this.#listeners)
            for (const module of watch.users) listener.written?.(module, watch.key, each.metadata.name);
        },
        deleted: (each) => {
          watch.present.delete(objectKey(each));
          watch.asked.delete(objectKey(each));
          this.#tell(watch, each.metadata.name);
        },
        putBack: () => {
          for (const listener of this.#listeners)
            for (const module of watch.users) listener.putBack?.(module);
        },
        trouble: (error) => {
          if (error === undefined) this.#works(watch);
          else this.#goBlind(watch, error);
        },
      },
    );
  }

  /** Keeps what is found of an object; true where that is new. */
  #see(watch: KindWatch, object: WatchedObject): boolean {
    const key = objectKey(object);
    const before = watch.present.get(key);
    const look = { ...moment(this.#options.clock), before: before?.finding, check: watch.check };
    const finding = findingOf(object, look);
    watch.present.set(key, { finding, hands: handsOf(object) });
    watch.asked.delete(key);
    return before === undefined || !isSame(before.finding, finding);
  }

  #works(watch: KindWatch): void {
    watch.blindSince = undefined;
    this.#note(watch, undefined);
  }

  #goBlind(watch: KindWatch, error?: Error): void {
    const { logger, clock } = this.#options;
    const why = error === undefined ? "the server does not offer it" : oneLine(error);
    if (error !== undefined)
      logger.warn("Release objects cannot be watched", { kind: watch.resource?.kind, error: why });
    watch.blindSince ??= clock.monotonic();
    this.#note(watch, why);
    this.#tell(watch);
  }

  #note(watch: KindWatch, trouble: string | undefined): void {
    if (watch.trouble === trouble) return;
    watch.trouble = trouble;
    this.#judged(watch);
  }

  #tell(watch: KindWatch, name?: string): void {
    const gone = name === undefined ? undefined : { kind: watch.key, name };
    for (const listener of this.#listeners)
      for (const module of watch.users) listener.missing?.(module, gone);
    this.#judged(watch, name);
  }

  #judged(watch: KindWatch, name?: string): void {
    for (const listener of this.#listeners)
      for (const module of watch.users) listener.judged?.(module, watch.key, name);
  }
}

function seenOf(watch: KindWatch, object: ReleaseObject): Seen | undefined {
  return watch.present.get(keyIn(watch, object));
}

/** As `objectKey` has it. */
function keyIn({ resource }: KindWatch, { namespace, name }: ReleaseObject): string {
  return `${resource?.namespaced === false ? "" : namespace}/${name}`;
}

function isSame(before: Finding, now: Finding): boolean {
  return TOLD.every((key) => before[key] === now[key]) && sameJson(asJson(before.pods), asJson(now.pods));
}

function asJson(pods: Finding["pods"]): Json {
  return (pods ?? null) as unknown as Json;
}

/** What the health of a release is made from; the rest moves with it. */
const TOLD = ["status", "reason", "message", "generation", "isLost"] as const;

function moment(clock: Clock): { readonly now: number; readonly wall: number } {
  return { now: clock.monotonic(), wall: clock.now() };
}

function endWatch(watch: KindWatch): void {
  watch.subscription?.close();
  watch.timer?.cancel();
}
