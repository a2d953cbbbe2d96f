import type { Clock, Logger, Timer } from "../lib/index.ts";
import { oneLine } from "../lib/index.ts";
import { objectKey } from "../kube/index.ts";
import type { Resource, Subscription, WatchHub, WatchedObject } from "../kube/index.ts";

/** An object that a release is made of. */
export interface ReleaseObject {
  readonly apiVersion: string;
  readonly kind: string;
  /** Its namespace; of no account for cluster-wide objects. */
  readonly namespace: string;
  readonly name: string;
}

export interface HealingOptions {
  readonly hub: WatchHub;
  readonly resolve: (kind: string, apiVersion: string) => Promise<Resource | undefined>;
  /** Asks the server itself: a watch may lag behind what was just made. */
  readonly exists: (resource: Resource, object: ReleaseObject) => Promise<boolean>;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Told which objects of a module are gone and due to be brought back, as `namespace/Kind/name`. */
  readonly onAbsent: (module: string, absent: readonly string[]) => void;
}

/** Helm puts this label on everything it makes: other objects of a kind are not watched. */
const MADE_BY_HELM = "app.kubernetes.io/managed-by=Helm";
const FIRST_DELAY_MS = 1000;
const LONGEST_DELAY_MS = 600_000;
/** A kind that discovery does not know (yet) is asked for again this often. */
const ASK_AGAIN_MS = 10_000;
/** Objects of a kind that cannot be watched are asked for one by one, this often. */
const POLL_MS = 60_000;

/** One watch for all release objects of one kind in one namespace. */
interface KindWatch {
  /** Modules with objects of this kind. */
  readonly users: Set<string>;
  readonly present: Set<string>;
  synced: boolean;
  resource: Resource | undefined;
  subscription: Subscription | undefined;
  /** The kind cannot be watched now: what is there has to be asked for. */
  blind: boolean;
  poll: Timer | undefined;
}

/** How often an object was brought back lately: each time in a row takes longer. */
interface Trouble {
  count: number;
  lastAt: number;
}

interface Wanted {
  readonly objects: readonly ReleaseObject[];
  readonly watches: ReadonlySet<string>;
}

/**
 * Watches the metadata of every object that releases contain and tells which are gone (LIFECYCLE-STEPS 15). An object
 * that keeps going is brought back less and less often, from 1 s to 10 min. Objects of a kind that cannot be watched
 * are asked for once a minute instead.
 */
export class Healing {
  readonly #options: HealingOptions;
  readonly #wanted = new Map<string, Wanted>();
  readonly #watches = new Map<string, KindWatch>();
  readonly #troubles = new Map<string, Trouble>();
  #closed = false;

  constructor(options: HealingOptions) {
    this.#options = options;
  }

  /** Sets what the release of a module is made of; an empty list ends its watches. */
  setObjects(module: string, objects: readonly ReleaseObject[]): void {
    const before = this.#wanted.get(module)?.watches ?? new Set();
    const watches = new Set(objects.map(watchKey));
    if (objects.length === 0) this.#wanted.delete(module);
    else this.#wanted.set(module, { objects, watches });
    for (const object of objects) this.#open(object).users.add(module);
    for (const key of before) if (!watches.has(key)) this.#leave(key, module);
    this.#look(module);
  }

  /** Objects watched for a module, as `namespace/Kind/name`. */
  objects(module: string): readonly string[] | undefined {
    return this.#wanted.get(module)?.objects.map(describe);
  }

  close(): void {
    this.#closed = true;
    for (const watch of this.#watches.values()) endWatch(watch);
    this.#watches.clear();
  }

  #open(object: ReleaseObject): KindWatch {
    const key = watchKey(object);
    const open = this.#watches.get(key);
    if (open !== undefined) return open;
    const watch: KindWatch = {
      users: new Set(),
      present: new Set(),
      synced: false,
      resource: undefined,
      subscription: undefined,
      blind: false,
      poll: undefined,
    };
    this.#watches.set(key, watch);
    void this.#subscribe(object, key, watch);
    return watch;
  }

  async #subscribe(object: ReleaseObject, key: string, watch: KindWatch): Promise<void> {
    const { hub, resolve, clock } = this.#options;
    const resource = await resolve(object.kind, object.apiVersion).catch(() => undefined);
    if (this.#closed || this.#watches.get(key) !== watch) return;
    if (resource === undefined) {
      clock.setTimer(ASK_AGAIN_MS, () => this.#subscribe(object, key, watch));
      return;
    }
    watch.resource = resource;
    if (!resource.verbs.includes("watch")) return this.#goBlind(key, watch);
    const namespace = resource.namespaced ? object.namespace : undefined;
    const seen = (each: WatchedObject): void => void watch.present.add(objectKey(each));
    watch.subscription = hub.subscribe(
      { resource, namespace, labelSelector: MADE_BY_HELM, metadataOnly: true },
      {
        begin: () => watch.present.clear(),
        object: seen,
        synced: () => {
          watch.synced = true;
          watch.blind = false;
          this.#lookAll(key);
        },
        applied: seen,
        deleted: (each) => {
          watch.present.delete(objectKey(each));
          this.#lookAll(key);
        },
        trouble: (error) => {
          if (error === undefined) watch.blind = false;
          else this.#goBlind(key, watch, error);
        },
      },
    );
  }

  #goBlind(key: string, watch: KindWatch, error?: Error): void {
    const kind = watch.resource?.kind;
    if (error !== undefined)
      this.#options.logger.warn("Release objects cannot be watched", { kind, error: oneLine(error) });
    watch.blind = true;
    if (watch.poll === undefined) this.#pollLater(key, watch);
  }

  #pollLater(key: string, watch: KindWatch): void {
    watch.poll = this.#options.clock.setTimer(POLL_MS, () => {
      watch.poll = undefined;
      if (!watch.blind || this.#watches.get(key) !== watch) return;
      this.#lookAll(key);
      this.#pollLater(key, watch);
    });
  }

  /** A module has no object of that kind any more. */
  #leave(key: string, module: string): void {
    const watch = this.#watches.get(key);
    watch?.users.delete(module);
    if (watch === undefined || watch.users.size > 0) return;
    endWatch(watch);
    this.#watches.delete(key);
  }

  #lookAll(key: string): void {
    for (const module of this.#watches.get(key)?.users ?? []) this.#look(module);
  }

  /** Tells what is gone and due, once the server has said so too; what is not due yet is looked at again then. */
  #look(module: string): void {
    const gone = (this.#wanted.get(module)?.objects ?? []).filter((object) => this.#isGone(object));
    if (gone.length > 0) void this.#confirm(module, gone);
  }

  async #confirm(module: string, gone: readonly ReleaseObject[]): Promise<void> {
    const answers = await Promise.all(gone.map((object) => this.#isThere(object)));
    const absent = gone.filter((object, index) => answers[index] === false && this.#isWanted(module, object));
    const due = absent.filter((object) => this.#isDue(module, object));
    if (due.length > 0 && !this.#closed) this.#options.onAbsent(module, due.map(describe));
  }

  /** Undefined when the server does not say. */
  async #isThere(object: ReleaseObject): Promise<boolean | undefined> {
    const resource = this.#watches.get(watchKey(object))?.resource;
    if (resource === undefined) return undefined;
    return this.#options.exists(resource, object).catch(() => undefined);
  }

  #isWanted(module: string, object: ReleaseObject): boolean {
    return this.#wanted.get(module)?.objects.includes(object) === true;
  }

  /** Gone for all we know; the server is asked before anything follows. */
  #isGone(object: ReleaseObject): boolean {
    const watch = this.#watches.get(watchKey(object));
    if (watch?.blind === true) return true;
    if (watch?.synced !== true) return false;
    return !watch.present.has(
      `${watch.resource?.namespaced === true ? object.namespace : ""}/${object.name}`,
    );
  }

  #isDue(module: string, object: ReleaseObject): boolean {
    const { clock } = this.#options;
    const now = clock.now();
    const key = `${watchKey(object)}/${object.name}`;
    const trouble = this.#troubles.get(key) ?? { count: 0, lastAt: -Infinity };
    const delay =
      trouble.count === 0 ? 0 : Math.min(FIRST_DELAY_MS * 2 ** (trouble.count - 1), LONGEST_DELAY_MS);
    const calm = now - trouble.lastAt > 2 * LONGEST_DELAY_MS;
    if (!calm && now < trouble.lastAt + delay) {
      clock.setTimer(trouble.lastAt + delay - now, () => this.#look(module));
      return false;
    }
    this.#troubles.set(key, { count: calm ? 1 : trouble.count + 1, lastAt: now });
    return true;
  }
}

function endWatch(watch: KindWatch): void {
  watch.subscription?.close();
  watch.poll?.cancel();
}

function watchKey({ apiVersion, kind, namespace }: ReleaseObject): string {
  return `${apiVersion}/${kind}/${namespace}`;
}

function describe({ namespace, kind, name }: ReleaseObject): string {
  return `${namespace}/${kind}/${name}`;
}
