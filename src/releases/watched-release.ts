/**
 * Watches the objects of one release, with three analyzers: self-heal finds missing objects, drift finds fields that others changed, health assesses
 * the objects. An analyzer returns when it is due to check again, or a promise while it waits for the server.
 */

import { resourceName } from "../helm/index.ts";
import { Timers, type Clock } from "../base/index.ts";
import { toReleaseObjectKey, type ReleaseObject, type Analyzer, type ObjectState } from "./object-state.ts";
import type { SelfHeal } from "./self-heal.ts";
import type { KindListener, KindWatches } from "./kind-watches.ts";
import type { ReleaseDrift } from "./release-drift.ts";
import type { ReleaseHealth } from "./release-health.ts";

/** The analyzers of a release, and the events that each of them handles. */
interface Analyzers {
  readonly selfHeal: Analyzer & Pick<SelfHeal, "handleDeleted" | "handleWritten">;
  readonly drift: Analyzer &
    Pick<
      ReleaseDrift,
      "startRevision" | "markChanged" | "handleWritten" | "handleDeleted" | "handleEtcdRestored"
    >;
  readonly health: Analyzer & Pick<ReleaseHealth, "startRevision" | "stopPodWatch">;
}

type AnalyzerName = keyof Analyzers;
/** All analyzers, in the order in which they run. */
const ALL_ANALYZERS: readonly AnalyzerName[] = ["selfHeal", "drift", "health"];

interface WatchedReleaseOptions {
  readonly kinds: KindWatches;
  readonly clock: Clock;
  readonly analyzers: Analyzers;
}

/** A revision of a release, whose objects are watched. */
interface ReleaseRevision {
  readonly objects: readonly ReleaseObject[];
  readonly revision: number;
  readonly countsForHealth: (object: ReleaseObject) => boolean;
  readonly timeoutMs: number;
}

/** Watches the objects of one release, and calls the analyzers after an event and when they are due. */
export class WatchedRelease implements KindListener {
  readonly #options: WatchedReleaseOptions;
  readonly #objects = new Map<string, ObjectState>();
  /** When to run each analyzer again (monotonic ms). */
  readonly #dueAt: Record<AnalyzerName, number> = { selfHeal: Infinity, drift: Infinity, health: Infinity };
  readonly #waitingAnalyzers = new Set<AnalyzerName>();
  #revision: number | undefined;
  #isClosed = false;
  readonly #timers: Timers<"check">;

  constructor(options: WatchedReleaseOptions) {
    this.#options = options;
    this.#timers = new Timers(options.clock);
  }

  get revision(): number | undefined {
    return this.#revision;
  }

  /** Names of the watched objects, as `namespace/Kind/name`. */
  get objectNames(): readonly string[] {
    const { kinds } = this.#options;
    return [...this.#objects.values()].map(({ object }) => resourceName(kinds.toObjectRef(object)));
  }

  /** Watches the objects of this revision from now on. Objects that the last revision had, too, keep their state. */
  watchRevision({ objects, revision, countsForHealth, timeoutMs }: ReleaseRevision): void {
    const { kinds, analyzers } = this.#options;
    const isNewRevision = this.#revision !== revision;
    this.#revision = revision;
    const statesBefore = new Map(this.#objects);
    this.#objects.clear();
    for (const object of objects) {
      const key = toReleaseObjectKey(object);
      const objectState = statesBefore.get(key) ?? newObjectState(key, object);
      objectState.object = object;
      objectState.countsForHealth = countsForHealth(object);
      this.#objects.set(key, objectState);
    }
    for (const [key, objectState] of statesBefore)
      if (!this.#objects.has(key)) analyzers.health.stopPodWatch(objectState);
    kinds.setWatchedObjects(this, objects);
    analyzers.drift.startRevision(this.#objects, isNewRevision);
    analyzers.health.startRevision({ revision, timeoutMs });
    this.#check(ALL_ANALYZERS);
  }

  /** Any object may have been deleted or changed without an event: checks all objects. */
  onEventsLost(): void {
    this.#options.analyzers.drift.markChanged(this.#objects);
    this.#check(["selfHeal", "drift"]);
  }

  /** The watch reported that this object was deleted: checks at once whether it is missing. */
  onDeleted(key: string): void {
    const { selfHeal, drift } = this.#options.analyzers;
    const objectState = this.#objects.get(key);
    if (objectState !== undefined) {
      selfHeal.handleDeleted(objectState);
      drift.handleDeleted(objectState, this.#objects);
    }
    this.#check(["selfHeal"]);
  }

  /** The watch reported a write: the object exists again, or may have drifted. */
  onWritten(key: string): void {
    const { selfHeal, drift } = this.#options.analyzers;
    const objectState = this.#objects.get(key);
    if (objectState === undefined) return;
    if (selfHeal.handleWritten(objectState)) this.#check(["selfHeal"]);
    if (drift.handleWritten(objectState)) this.#check(["drift"]);
  }

  /** The health finding of one object, or (without `key`) of any object, may have changed. */
  onFindingChanged(key?: string): void {
    if (key === undefined || this.#objects.get(key)?.countsForHealth === true) this.#check(["health"]);
  }

  /** The etcd was restored: recorded versions cannot be compared with new ones. */
  onEtcdRestored(): void {
    this.#options.analyzers.drift.handleEtcdRestored(this.#objects);
  }

  /** Ends watches and checks. The analyzers report nothing more. */
  close(): void {
    this.#isClosed = true;
    this.#timers.close();
    this.#options.kinds.setWatchedObjects(this, []);
    for (const objectState of this.#objects.values())
      this.#options.analyzers.health.stopPodWatch(objectState);
    this.#objects.clear();
  }

  /** Runs these analyzers now, and sets the timer for the next check of any analyzer. A late answer of the server may call it after `close`. */
  #check(names: readonly AnalyzerName[]): void {
    for (const name of names) this.#dueAt[name] = this.#isClosed ? Infinity : this.#runAnalyzer(name);
    this.#scheduleNextCheck();
  }

  /** Runs an analyzer; returns when to run it again. An analyzer that waits for the server does not run again before the answer. */
  #runAnalyzer(name: AnalyzerName): number {
    if (this.#waitingAnalyzers.has(name)) return Infinity;
    const result = this.#options.analyzers[name].check(this.#objects, () => this.#check([name]));
    if (typeof result === "number") return result;
    this.#waitingAnalyzers.add(name);
    void result.then(() => {
      this.#waitingAnalyzers.delete(name);
      this.#check([name]);
    });
    return Infinity;
  }

  /** Sets the timer for the analyzer that is due first. Without one, the next event starts a check. */
  #scheduleNextCheck(): void {
    this.#timers.cancel("check");
    const { clock } = this.#options;
    const nextAt = Math.min(...Object.values(this.#dueAt));
    if (nextAt === Infinity) return;
    this.#timers.set("check", Math.max(nextAt - clock.monotonic(), 0), () => {
      const now = clock.monotonic();
      this.#check(ALL_ANALYZERS.filter((name) => this.#dueAt[name] <= now));
    });
  }
}

/** The state of an object that was not assessed yet. */
function newObjectState(key: string, object: ReleaseObject): ObjectState {
  return {
    key,
    object,
    countsForHealth: false,
    hasPodWatch: false,
    absence: undefined,
    drift: undefined,
    isDriftCheckDue: false,
  };
}
