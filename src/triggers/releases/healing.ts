/** Finds objects of releases that are gone (docs/LIFECYCLE.md, "What leads to what"). */

import { nameOf } from "../../helm/index.ts";
import { Backoff, type Timer } from "../../lib/index.ts";
import { ExistenceCheck, type Answers, type ExistenceOptions, type Suspect } from "./existence-check.ts";
import type { KindWatches } from "./kind-watches.ts";
import { keyOf, kindKey, type ReleaseObject } from "./release-object.ts";

interface HealingOptions extends ExistenceOptions {
  readonly kinds: KindWatches;
  /**
   * False while a module runs or its objects are not known yet: `setObjects` follows, and nothing is reported
   * before.
   */
  readonly mayReport: (module: string) => boolean;
  /** Called with the objects of a module that are missing and due to be restored. */
  readonly onAbsent: (module: string, absent: readonly AbsentObject[]) => void;
  /** Called with all objects of a module that are missing and wait out a back-off, when these have changed. */
  readonly onDeferred: (module: string, deferred: readonly AbsentObject[]) => void;
}

export interface AbsentObject {
  /** `namespace/Kind/name`, without a namespace for cluster-wide objects. */
  readonly name: string;
  /** It is known to have existed. */
  readonly existed: boolean;
}

const LONGEST_MS = 600_000;
/** However many objects come and go, the release waits no longer than this. */
const LONGEST_RELEASE_MS = 30_000;
/** Objects that cannot be watched, or exist after all, are asked for this often. */
const POLL_MS = 60_000;

/** What is known of a release's objects. The maps have no more keys than the release has objects. */
interface Followed {
  readonly backoff: Backoff;
  objects: ReadonlyMap<string, ReleaseObject>;
  kinds: ReadonlySet<string>;
  readonly backoffs: Map<string, Backoff>;
  /** While the server does not answer, it is asked less and less often. */
  readonly silence: Backoff;
  /** Not to be asked for again before that time. */
  readonly spared: Map<string, number>;
  /** Objects that the server does not have: reported, or to be reported when their back-off ends. */
  readonly missing: Map<string, "reported" | "deferred">;
  /** The deferred objects that `onDeferred` was last called with. */
  deferred: readonly string[];
  /** Objects that are known to have been there. */
  readonly seen: Set<string>;
  isAsking: boolean;
  timer: Timer | undefined;
}

/**
 * Watches the metadata of every object that releases contain and reports which are gone. All objects of a release
 * are looked at together; an object that keeps disappearing is restored less and less often, from 1 s to 10 min.
 * Objects of a kind that cannot be watched are asked for once a minute.
 */
export class Healing {
  readonly #options: HealingOptions;
  readonly #kinds: KindWatches;
  readonly #existence: ExistenceCheck;
  readonly #followed = new Map<string, Followed>();

  constructor(options: HealingOptions) {
    this.#options = options;
    this.#existence = new ExistenceCheck(options);
    this.#kinds = options.kinds;
    this.#kinds.listen({
      missing: (module, gone) => {
        const release = this.#followed.get(module);
        if (gone !== undefined && release !== undefined) note(release, `${gone.kind}/${gone.name}`);
        this.#look(module);
      },
      written: (module, kind, name) => {
        const release = this.#followed.get(module);
        if (release?.missing.delete(`${kind}/${name}`) === true) this.#defer(module, release);
      },
    });
  }

  /** Sets the objects of a module's release, and looks at them; an empty list ends its watches. */
  setObjects(module: string, objects: readonly ReleaseObject[]): void {
    const release = this.#followed.get(module) ?? newFollowed();
    const { kinds } = release;
    release.objects = new Map(objects.map((object) => [keyOf(object), object]));
    release.kinds = new Set(objects.map(kindKey));
    for (const known of [release.backoffs, release.spared, release.missing, release.seen])
      for (const key of known.keys()) if (!release.objects.has(key)) known.delete(key);
    if (objects.length > 0) this.#followed.set(module, release);
    else this.#forget(module, release);
    for (const object of objects) this.#kinds.join(object, module);
    for (const key of kinds) if (!release.kinds.has(key)) this.#kinds.leave(key, module);
    this.#look(module);
  }

  /** Objects watched for a module, as `namespace/Kind/name`. */
  objects(module: string): readonly string[] | undefined {
    const release = this.#followed.get(module);
    return release && [...release.objects.values()].map((object) => nameOf(this.#kinds.placed(object)));
  }

  close(): void {
    for (const [module, release] of this.#followed) this.#forget(module, release);
    this.#existence.close();
  }

  #forget(module: string, release: Followed): void {
    release.timer?.cancel();
    release.missing.clear();
    this.#defer(module, release);
    this.#followed.delete(module);
  }

  /** Asks for what is due now, or waits until something is. */
  #look(module: string): void {
    const release = this.#followed.get(module);
    if (release === undefined || release.isAsking) return;
    release.timer?.cancel();
    if (!this.#options.mayReport(module)) return;
    const now = this.#options.clock.monotonic();
    const suspects = this.#suspects(release);
    const due = suspects.filter(({ at }) => at <= now);
    if (due.length > 0) return void this.#ask(module, release, due);
    this.#defer(module, release);
    if (suspects.length > 0) {
      const nextAt = suspects.reduce((earliest, { at }) => Math.min(earliest, at), Infinity);
      release.timer = this.#options.clock.setTimer(nextAt - now, () => this.#look(module));
    }
  }

  /** The objects that may be gone, and when to ask the server for them. */
  #suspects(release: Followed): (Suspect & { readonly at: number })[] {
    return [...release.objects].flatMap(([key, object]) => {
      const missing = this.#kinds.missing(object);
      if (missing === undefined) return [];
      const { resource, blindSince } = missing;
      const unwatched = blindSince !== undefined;
      return [
        {
          object,
          resource,
          unwatched,
          at: Math.max(askAt(release, key, unwatched), (blindSince ?? -Infinity) + POLL_MS),
        },
      ];
    });
  }

  async #ask(module: string, release: Followed, due: readonly Suspect[]): Promise<void> {
    release.isAsking = true;
    const answers = await this.#existence.ask(due);
    release.isAsking = false;
    const isCurrent = this.#followed.get(module) === release && this.#options.mayReport(module);
    if (isCurrent) this.#take(module, release, answers);
    this.#look(module);
  }

  #take(module: string, release: Followed, { absent, there, unknown }: Answers): void {
    const now = this.#options.clock.monotonic();
    const polled = [...there, ...absent.filter(({ unwatched }) => unwatched)];
    for (const { object } of polled) release.spared.set(keyOf(object), now + POLL_MS);
    for (const { object } of there) {
      release.seen.add(keyOf(object));
      release.missing.delete(keyOf(object));
    }
    if (unknown.length > 0) release.silence.failed(now);
    for (const { object } of unknown) release.spared.set(keyOf(object), release.silence.dueAt);
    // What an upgrade has removed from the release meanwhile is not missing.
    const keys = absent.map(({ object }) => keyOf(object)).filter((key) => release.objects.has(key));
    const due = keys.filter((key) => restoreAt(release, key) <= now);
    for (const key of keys) release.missing.set(key, due.includes(key) ? "reported" : "deferred");
    if (due.length === 0) return;
    noteBackoffs(release, due, now);
    this.#options.onAbsent(module, this.#named(release, due));
  }

  /** Reports which objects are missing and not restored yet. */
  #defer(module: string, release: Followed): void {
    const deferred = [...release.objects].flatMap(([key, object]) =>
      release.missing.get(key) === "deferred" && this.#kinds.missing(object) !== undefined ? [key] : [],
    );
    if (deferred.join() === release.deferred.join()) return;
    release.deferred = deferred;
    this.#options.onDeferred(module, this.#named(release, deferred));
  }

  #named(release: Followed, keys: readonly string[]): AbsentObject[] {
    return keys.flatMap((key) => {
      const object = release.objects.get(key);
      return object === undefined
        ? []
        : [{ name: nameOf(this.#kinds.placed(object)), existed: release.seen.has(key) }];
    });
  }
}

function newFollowed(): Followed {
  return {
    backoff: new Backoff(LONGEST_RELEASE_MS),
    objects: new Map(),
    kinds: new Set(),
    backoffs: new Map(),
    silence: new Backoff(POLL_MS),
    spared: new Map(),
    missing: new Map(),
    deferred: [],
    seen: new Set(),
    isAsking: false,
    timer: undefined,
  };
}

/** An object was deleted: what was known of it before does not count. */
function note(release: Followed, key: string): void {
  if (!release.objects.has(key)) return;
  release.seen.add(key);
  release.spared.delete(key);
  release.missing.delete(key);
}

/** When to ask for an object: what the watch would show is asked for once, and again when it may be restored. */
function askAt(release: Followed, key: string, unwatched: boolean): number {
  const spared = release.spared.get(key) ?? -Infinity;
  return release.missing.has(key) && !unwatched ? Math.max(restoreAt(release, key), spared) : spared;
}

function restoreAt(release: Followed, key: string): number {
  return Math.max(release.backoffs.get(key)?.dueAt ?? -Infinity, release.backoff.dueAt);
}

/** A release is slowed down only by objects that keep disappearing. */
function noteBackoffs(release: Followed, keys: readonly string[], now: number): void {
  const backoffs = keys.map((key) => {
    const backoff = release.backoffs.get(key) ?? new Backoff(LONGEST_MS);
    release.backoffs.set(key, backoff);
    return backoff;
  });
  if (backoffs.some((backoff) => backoff.isRepeated(now))) release.backoff.note(now);
  for (const backoff of backoffs) backoff.note(now);
}
