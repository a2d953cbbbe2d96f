/** Watches the kinds of objects that releases contain. */

import type { Clock, Logger, Timer } from "../../lib/index.ts";
import { oneLine } from "../../lib/index.ts";
import { objectKey } from "../../kube/index.ts";
import type { Resource, Subscription, WatchHub, WatchedObject } from "../../kube/index.ts";

/** An object that a release is made of. */
export interface ReleaseObject {
  readonly apiVersion: string;
  readonly kind: string;
  /** Its namespace; ignored for cluster-wide objects. */
  readonly namespace: string;
  readonly name: string;
}

/** An object that may be gone. */
export interface Suspect {
  readonly object: ReleaseObject;
  readonly resource: Resource;
  /** Its kind cannot be watched: only an answer of the server shows whether it exists. */
  readonly unwatched: boolean;
}

/** What the objects of one watch have in common. */
export function kindKey({ apiVersion, kind, namespace }: ReleaseObject): string {
  return `${apiVersion}/${kind}/${namespace}`;
}

export function keyOf(object: ReleaseObject): string {
  return `${kindKey(object)}/${object.name}`;
}

export interface KindWatchesOptions {
  readonly hub: WatchHub;
  readonly resolve: (kind: string, apiVersion: string) => Promise<Resource | undefined>;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** Called when something of a module may be gone; with `name`, which object of that kind was just deleted. */
export type KindNews = (module: string, gone?: { readonly kind: string; readonly name: string }) => void;

/** Helm puts this label on everything it makes: other objects of a kind are not watched. */
const MADE_BY_HELM = "app.kubernetes.io/managed-by=Helm";
/** A kind that the server does not know (yet) is looked for again, less and less often. */
const ASK_AGAIN_MS = 10_000;
const ASK_LATEST_MS = 600_000;

/** One watch for all release objects of one kind in one namespace. */
interface KindWatch {
  readonly key: string;
  /** Modules with objects of this kind. */
  readonly users: Set<string>;
  readonly present: Set<string>;
  synced: boolean;
  resource: Resource | undefined;
  subscription: Subscription | undefined;
  /** Since when the kind cannot be watched. */
  blindSince: number | undefined;
  /** Runs until the kind is looked for again. */
  timer: Timer | undefined;
}

/** What a watch says about an object that it does not have. */
export interface Missing {
  readonly resource: Resource;
  /** Since when the kind cannot be watched, so that nothing is known of the object. */
  readonly blindSince: number | undefined;
}

/** Watches the metadata of what helm made, once for each kind and namespace. */
export class KindWatches {
  readonly #options: KindWatchesOptions;
  readonly #news: KindNews;
  readonly #watches = new Map<string, KindWatch>();

  constructor(options: KindWatchesOptions, news: KindNews) {
    this.#options = options;
    this.#news = news;
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

  resourceOf(object: ReleaseObject): Resource | undefined {
    return this.#watches.get(kindKey(object))?.resource;
  }

  /** Undefined for objects that exist, and while nothing can be said. */
  missing(object: ReleaseObject): Missing | undefined {
    const watch = this.#watches.get(kindKey(object));
    if (watch?.resource === undefined) return undefined;
    const { resource, blindSince, synced, present } = watch;
    if (blindSince === undefined) {
      const namespace = resource.namespaced ? object.namespace : "";
      if (!synced || present.has(`${namespace}/${object.name}`)) return undefined;
    }
    return { resource, blindSince };
  }

  close(): void {
    for (const watch of this.#watches.values()) endWatch(watch);
    this.#watches.clear();
  }

  #open(object: ReleaseObject, key: string): KindWatch {
    const watch: KindWatch = {
      key,
      users: new Set(),
      present: new Set(),
      synced: false,
      resource: undefined,
      subscription: undefined,
      blindSince: undefined,
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
      const nextMs = Math.min(2 * againMs, ASK_LATEST_MS);
      watch.timer = clock.setTimer(againMs, () => void this.#find(object, watch, nextMs));
      return;
    }
    watch.resource = resource;
    if (resource.verbs.includes("watch")) this.#subscribe(object, watch, resource);
    else this.#goBlind(watch);
  }

  #subscribe(object: ReleaseObject, watch: KindWatch, resource: Resource): void {
    const namespace = resource.namespaced ? object.namespace : undefined;
    const seen = (each: WatchedObject): void => void watch.present.add(objectKey(each));
    watch.subscription = this.#options.hub.subscribe(
      { resource, namespace, labelSelector: MADE_BY_HELM, metadataOnly: true },
      {
        begin: () => watch.present.clear(),
        object: seen,
        synced: () => {
          watch.synced = true;
          watch.blindSince = undefined;
          this.#tell(watch);
        },
        applied: seen,
        deleted: (each) => {
          watch.present.delete(objectKey(each));
          this.#tell(watch, each.metadata.name);
        },
        trouble: (error) => {
          if (error === undefined) watch.blindSince = undefined;
          else this.#goBlind(watch, error);
        },
      },
    );
  }

  #goBlind(watch: KindWatch, error?: Error): void {
    const { logger, clock } = this.#options;
    if (error !== undefined)
      logger.warn("Release objects cannot be watched", { kind: watch.resource?.kind, error: oneLine(error) });
    watch.blindSince ??= clock.now();
    this.#tell(watch);
  }

  #tell(watch: KindWatch, name?: string): void {
    const gone = name === undefined ? undefined : { kind: watch.key, name };
    for (const module of watch.users) this.#news(module, gone);
  }
}

function endWatch(watch: KindWatch): void {
  watch.subscription?.close();
  watch.timer?.cancel();
}
