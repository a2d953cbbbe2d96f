/** Finds objects of releases that are gone (docs/LIFECYCLE.md, "What leads to what"). */

import { nameOf } from "../../helm/index.ts";
import type { Resource } from "../../kube/index.ts";
import { Backoff, inParallel, TokenBucket, type Clock, type Timer } from "../../lib/index.ts";
import type { KindWatches } from "./kind-watches.ts";
import { keyOf, kindKey, type ReleaseObject } from "./release-object.ts";

interface HealingOptions {
  /** Asks the server itself: a watch may not show yet what was just created. */
  readonly exists: (resource: Resource, object: ReleaseObject) => Promise<boolean>;
  readonly clock: Clock;
  readonly kinds: KindWatches;
  /**
   * False while a module runs or its objects are not known yet: `setObjects` follows, and nothing is reported
   * before.
   */
  readonly mayReport: (module: string) => boolean;
  /** Called with the objects of a module that are missing and due to be restored. */
  readonly onAbsent: (module: string, absent: readonly AbsentObject[]) => void;
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
  /** Not to be asked for again before that time. */
  readonly spared: Map<string, number>;
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
    });
  }

  /** Sets the objects of a module's release, and looks at them; an empty list ends its watches. */
  setObjects(module: string, objects: readonly ReleaseObject[]): void {
    const release = this.#followed.get(module) ?? newFollowed();
    const { kinds } = release;
    release.objects = new Map(objects.map((object) => [keyOf(object), object]));
    release.kinds = new Set(objects.map(kindKey));
    for (const known of [release.backoffs, release.spared, release.seen])
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
    if (due.length > 0) void this.#ask(module, release, due);
    else if (suspects.length > 0) {
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
          at: Math.max(dueAt(release, key), (blindSince ?? -Infinity) + POLL_MS),
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
    for (const { object } of there) release.seen.add(keyOf(object));
    const polled = [...there, ...unknown, ...absent.filter(({ unwatched }) => unwatched)];
    for (const { object } of polled) release.spared.set(keyOf(object), now + POLL_MS);
    // What an upgrade has removed from the release meanwhile is not missing.
    const missed = absent.filter(({ object }) => release.objects.has(keyOf(object)));
    if (missed.length === 0) return;
    noteBackoffs(release, missed, now);
    const told = missed.map(({ object }) => ({
      name: nameOf(this.#kinds.placed(object)),
      existed: release.seen.has(keyOf(object)),
    }));
    this.#options.onAbsent(module, told);
  }
}

function newFollowed(): Followed {
  return {
    backoff: new Backoff(LONGEST_RELEASE_MS),
    objects: new Map(),
    kinds: new Set(),
    backoffs: new Map(),
    spared: new Map(),
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
}

function dueAt(release: Followed, key: string): number {
  const own = release.backoffs.get(key)?.dueAt ?? -Infinity;
  return Math.max(own, release.spared.get(key) ?? -Infinity, release.backoff.dueAt);
}

/** A release is slowed down only by objects that keep disappearing. */
function noteBackoffs(release: Followed, absent: readonly Suspect[], now: number): void {
  const backoffs = absent.map(({ object }) => {
    const key = keyOf(object);
    const backoff = release.backoffs.get(key) ?? new Backoff(LONGEST_MS);
    release.backoffs.set(key, backoff);
    return backoff;
  });
  if (backoffs.some((backoff) => backoff.isRepeated(now))) release.backoff.note(now);
  for (const backoff of backoffs) backoff.note(now);
}

/** Reads per second over time and at once, all releases together. */
const READS = { qps: 20, burst: 100 };
const AT_ONCE = 4;
/**
 * When the server agrees with the watch about this many objects of a release, the watch is believed for the others.
 */
const MOST_ASKED = 20;

/** An object that may be gone. */
interface Suspect {
  readonly object: ReleaseObject;
  readonly resource: Resource;
  /** Its kind cannot be watched: only an answer of the server shows whether it exists. */
  readonly unwatched: boolean;
}

/** The result of an inquiry; objects in no list are still to be asked for. */
interface Answers {
  readonly absent: readonly Suspect[];
  readonly there: readonly Suspect[];
  /** The server does not answer. */
  readonly unknown: readonly Suspect[];
}

/** Asks the server for objects that may be gone: one release after the other, a few at a time, at a limited rate. */
class ExistenceCheck {
  readonly #exists: HealingOptions["exists"];
  readonly #bucket: TokenBucket;
  readonly #abort = new AbortController();
  #turn: Promise<unknown> = Promise.resolve();

  constructor({ exists, clock }: HealingOptions) {
    this.#exists = exists;
    this.#bucket = new TokenBucket(READS, clock);
  }

  /** Never fails. */
  ask(suspects: readonly Suspect[]): Promise<Answers> {
    const answers = this.#turn.then(() => this.#ask(suspects));
    this.#turn = answers;
    return answers;
  }

  close(): void {
    this.#abort.abort();
  }

  async #ask(suspects: readonly Suspect[]): Promise<Answers> {
    const asked = suspects.slice(0, MOST_ASKED);
    // A server that does not answer for one object will not for the next of its kind.
    const silent = new Set<Resource>();
    const answers = await inParallel(AT_ONCE, asked, (suspect) => this.#isThere(suspect, silent));
    const absent = asked.filter((_, index) => answers[index] === false);
    const rest = absent.length === asked.length ? suspects.slice(MOST_ASKED) : [];
    return {
      absent: [...absent, ...rest.filter((suspect) => !suspect.unwatched)],
      there: asked.filter((_, index) => answers[index] === true),
      unknown: suspects.filter(
        (suspect, index) => silent.has(suspect.resource) && answers[index] === undefined,
      ),
    };
  }

  /** Undefined when the server does not answer. */
  async #isThere({ resource, object }: Suspect, silent: Set<Resource>): Promise<boolean | undefined> {
    await this.#bucket.take(this.#abort.signal);
    if (this.#abort.signal.aborted || silent.has(resource)) return undefined;
    try {
      return await this.#exists(resource, object);
    } catch {
      silent.add(resource);
      return undefined;
    }
  }
}
