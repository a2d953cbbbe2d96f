/** The objects of one release, with analyzers of their health, drift and absence. */

import { resourceName } from "../../helm/index.ts";
import type { Clock, Timer } from "../../lib/index.ts";
import type { Analyzer, FollowedObject } from "./followed-object.ts";
import type { Healing } from "./healing.ts";
import type { KindListener, KindWatches } from "./kind-watches.ts";
import type { ReleaseDrift } from "./release-drift.ts";
import type { ReleaseHealth } from "./release-health.ts";
import { releaseObjectKey, type ReleaseObject } from "./release-object.ts";

interface Analyzers {
  readonly healing: Analyzer & Pick<Healing, "deleted" | "written">;
  readonly drift: Analyzer & Pick<ReleaseDrift, "begin" | "markChanged" | "written" | "deleted" | "putBack">;
  readonly health: Analyzer & Pick<ReleaseHealth, "begin" | "forget">;
}

type AnalyzerName = keyof Analyzers;
/** In the order in which they run. */
const ALL_ANALYZERS: readonly AnalyzerName[] = ["healing", "drift", "health"];

interface FollowedReleaseOptions {
  readonly kinds: KindWatches;
  readonly clock: Clock;
  readonly analyzers: Analyzers;
}

interface FollowedRevision {
  readonly objects: readonly ReleaseObject[];
  readonly revision: number;
  /** Whether the health of an object counts. */
  readonly counts: (object: ReleaseObject) => boolean;
  /** How long objects may be in progress. */
  readonly timeoutMs: number;
}

/** Watches the objects of one release, and calls the analyzers after an event and when they are due. */
export class FollowedRelease implements KindListener {
  readonly #options: FollowedReleaseOptions;
  readonly #objects = new Map<string, FollowedObject>();
  /** When to check again. */
  readonly #dueAt: Record<AnalyzerName, number> = { healing: Infinity, drift: Infinity, health: Infinity };
  /** Analyzers that wait for the server. */
  readonly #waiting = new Set<AnalyzerName>();
  #revision: number | undefined;
  #isClosed = false;
  #timer: Timer | undefined;

  constructor(options: FollowedReleaseOptions) {
    this.#options = options;
  }

  /** The revision whose objects are followed. */
  get revision(): number | undefined {
    return this.#revision;
  }

  /** The objects, as `namespace/Kind/name`. */
  get objects(): readonly string[] {
    const { kinds } = this.#options;
    return [...this.#objects.values()].map(({ object }) => resourceName(kinds.objectRefOf(object)));
  }

  /** Follows the objects of that revision from now on. */
  follow({ objects, revision, counts, timeoutMs }: FollowedRevision): void {
    const { kinds, analyzers } = this.#options;
    const isNew = this.#revision !== revision;
    this.#revision = revision;
    const before = new Map(this.#objects);
    this.#objects.clear();
    for (const object of objects) {
      const key = releaseObjectKey(object);
      const followed = before.get(key) ?? newFollowed(key, object);
      this.#objects.set(key, Object.assign(followed, { object, counts: counts(object) }));
    }
    for (const [key, followed] of before) if (!this.#objects.has(key)) analyzers.health.forget(followed);
    kinds.follow(this, objects);
    analyzers.drift.begin(this.#objects, isNew);
    analyzers.health.begin({ revision, timeoutMs });
    this.#check(ALL_ANALYZERS);
  }

  /** Any object may be missing or changed without an event: all are checked. */
  missing(): void {
    this.#options.analyzers.drift.markChanged(this.#objects);
    this.#check(["healing", "drift"]);
  }

  /** The watch reported that this object was deleted: it is checked for absence at once. */
  deleted(key: string): void {
    const { healing, drift } = this.#options.analyzers;
    const followed = this.#objects.get(key);
    if (followed !== undefined) {
      healing.deleted(followed);
      drift.deleted(followed, this.#objects);
    }
    this.#check(["healing"]);
  }

  /** The watch reported a write: the object exists again, or may have drifted. */
  written(key: string): void {
    const { healing, drift } = this.#options.analyzers;
    const followed = this.#objects.get(key);
    if (followed === undefined) return;
    if (healing.written(followed)) this.#check(["healing"]);
    if (drift.written(followed)) this.#check(["drift"]);
  }

  assessed(key?: string): void {
    if (key === undefined || this.#objects.get(key)?.counts === true) this.#check(["health"]);
  }

  putBack(): void {
    this.#options.analyzers.drift.putBack(this.#objects);
  }

  /** Stops everything, without a last report. */
  close(): void {
    this.#isClosed = true;
    this.#timer?.cancel();
    this.#options.kinds.follow(this, []);
    for (const followed of this.#objects.values()) this.#options.analyzers.health.forget(followed);
    this.#objects.clear();
  }

  /** Runs these analyzers now, and sets the timer for the next check of any. */
  #check(names: readonly AnalyzerName[]): void {
    for (const name of names) this.#dueAt[name] = this.#isClosed ? Infinity : this.#runAnalyzer(name);
    this.#scheduleNextCheck();
  }

  /** Runs an analyzer; returns when to run it again. While it waits for the server, it does not run again. */
  #runAnalyzer(name: AnalyzerName): number {
    if (this.#waiting.has(name)) return Infinity;
    const result = this.#options.analyzers[name].check(this.#objects, () => this.#check([name]));
    if (typeof result === "number") return result;
    this.#waiting.add(name);
    void result.then(() => {
      this.#waiting.delete(name);
      this.#check([name]);
    });
    return Infinity;
  }

  /** Sets the timer for the analyzer that is due first. Without one, the next event starts a check. */
  #scheduleNextCheck(): void {
    this.#timer?.cancel();
    const { clock } = this.#options;
    const at = Math.min(...Object.values(this.#dueAt));
    if (at === Infinity) return;
    this.#timer = clock.setTimer(Math.max(at - clock.monotonic(), 0), () => {
      const now = clock.monotonic();
      this.#check(ALL_ANALYZERS.filter((name) => this.#dueAt[name] <= now));
    });
  }
}

function newFollowed(key: string, object: ReleaseObject): FollowedObject {
  const unknown = { absence: undefined, drift: undefined, isDriftDue: false };
  return { key, object, counts: false, watchesPods: false, ...unknown };
}
