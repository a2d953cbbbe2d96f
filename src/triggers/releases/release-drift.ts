/** Finds out what others change of what helm set (docs/RUNNING.md, "Drift"). */

import PQueue from "p-queue";

import type { Drift, DriftedObject, Hands } from "../../drift/index.ts";
import { nameOf, type Inspection, type RecordedObjects } from "../../helm/index.ts";
import { ApiError, isConflict } from "../../kube/index.ts";
import { oneLine, sameJson, TokenBucket, type Clock, type Logger } from "../../lib/index.ts";
import type { DriftIgnore, Json } from "../../model/index.ts";
import {
  driftIn,
  driftedObject,
  earliest,
  forgetVersions,
  endFights,
  isChanged,
  newFollowed,
  newKnown,
  noteLook,
  noteRepair,
} from "./drift-notes.ts";
import type { FollowedDrift, Known } from "./drift-notes.ts";
import type { KindWatches } from "./kind-watches.ts";
import { keyOf, type ReleaseObject } from "./release-object.ts";

/** What is to be done about a release that others change. */
export interface DriftPolicy {
  /** `off`: nobody looks. */
  readonly mode: "off" | "warn" | "repair";
  readonly ignore: readonly DriftIgnore[];
}

interface ReleaseDriftOptions {
  readonly kinds: KindWatches;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly policyOf: (module: string) => DriftPolicy;
  /** What the release's record says of its objects: one request. */
  readonly recorded: (module: string, signal: AbortSignal) => Promise<RecordedObjects | undefined>;
  /** False while a module runs or its objects are not known yet: `setObjects` follows. */
  readonly mayLook: (module: string) => boolean;
  /** Called with what differs now, when that has changed. */
  readonly onDrift: (module: string, drift: Drift) => void;
  /** Called with an object that was found changed; `repaired`: it was put back. */
  readonly onFound: (module: string, object: DriftedObject, repaired: boolean) => void;
}

/** Looks per second over time and at once, all releases together; each is two requests. */
const LOOKS = { qps: 20, burst: 100 };
/** Looks at the same time: one for each release, and no more than this. */
const AT_ONCE = 4;
/**
 * Watches whose the fields of releases' objects are. Where that changes without helm, the object is compared with what a
 * dry run of helm's apply makes of it: one object of a release at a time, at a limited rate. While nothing changes, nothing
 * is asked.
 */
export class ReleaseDrift {
  readonly #options: ReleaseDriftOptions;
  readonly #followed = new Map<string, FollowedDrift>();
  readonly #queue = new PQueue({ concurrency: AT_ONCE });
  readonly #bucket: TokenBucket;
  readonly #abort = new AbortController();

  constructor(options: ReleaseDriftOptions) {
    this.#options = options;
    this.#bucket = new TokenBucket(LOOKS, options.clock);
    options.kinds.listen({
      missing: (module, gone) => {
        const release = this.#followed.get(module);
        if (gone === undefined) this.#lookAtAll(module);
        else if (release?.known.delete(`${gone.kind}/${gone.name}`) === true) this.#tell(module, release);
      },
      written: (module, kind, name) => this.#written(module, `${kind}/${name}`),
      putBack: (module) => forgetVersions(this.#followed.get(module)),
    });
  }

  /**
   * Sets the objects of a module's release, once their kinds are watched, and looks at those that are not as they were
   * left. With `isNew`, helm has made a revision since the last time: what it wrote is no drift.
   */
  setObjects(module: string, objects: readonly ReleaseObject[], isNew: boolean): void {
    const release = this.#followed.get(module) ?? newFollowed();
    const { mode, ignore } = this.#options.policyOf(module);
    release.objects = new Map(objects.map((object) => [keyOf(object), object]));
    if (!sameJson(release.ignore as unknown as Json, ignore as unknown as Json) || mode === "off")
      release.known.clear();
    release.ignore = ignore;
    release.record = undefined;
    for (const key of release.known.keys()) if (!release.objects.has(key)) release.known.delete(key);
    if (objects.length === 0 || mode === "off") return this.#forget(module, release);
    this.#followed.set(module, release);
    if (isNew) this.#renew(release);
    this.#lookAtAll(module);
  }

  close(): void {
    this.#abort.abort();
    this.#queue.clear();
    for (const { timer } of this.#followed.values()) timer?.cancel();
    this.#followed.clear();
  }

  #forget(module: string, release: FollowedDrift): void {
    release.timer?.cancel();
    release.due.clear();
    if (this.#followed.delete(module)) this.#tell(module, release);
  }

  /** helm has written: of objects that nobody else touched nothing has to be asked. */
  #renew(release: FollowedDrift): void {
    release.due.clear();
    for (const [key, known] of release.known) {
      const object = release.objects.get(key);
      const now = object && this.#options.kinds.hands(object);
      if (now !== undefined && !known.isAlert && now.others === known.hands.others) known.hands = now;
    }
  }

  #lookAtAll(module: string): void {
    const release = this.#followed.get(module);
    if (release === undefined) return;
    for (const [key, object] of release.objects) {
      const isDrifted = (release.known.get(key)?.fields.length ?? 0) > 0;
      if (isDrifted || this.#isOwed(release, key, object)) release.due.add(key);
    }
    this.#look(module, release);
  }

  #written(module: string, key: string): void {
    const release = this.#followed.get(module);
    const object = release?.objects.get(key);
    if (release === undefined || object === undefined || !this.#isOwed(release, key, object)) return;
    release.due.add(key);
    this.#look(module, release);
  }

  /** Whether an object has to be looked at. */
  #isOwed(release: FollowedDrift, key: string, object: ReleaseObject): boolean {
    const now = this.#options.kinds.hands(object);
    if (now === undefined) return false;
    const known = release.known.get(key);
    if (known !== undefined) return isChanged(known, now);
    // Nobody but helm has ever written to it.
    if (now.others === "") release.known.set(key, newKnown(now));
    return now.others !== "";
  }

  /** Looks at what is due now, or waits until something is. */
  #look(module: string, release: FollowedDrift): void {
    if (this.#followed.get(module) !== release || release.isLooking) return;
    release.timer?.cancel();
    if (!this.#options.mayLook(module)) return;
    const now = this.#options.clock.monotonic();
    const fightEndsAt = endFights(release, now);
    this.#tell(module, release);
    const next = earliest(release);
    if (next !== undefined && next.at <= now) {
      release.isLooking = true;
      return void this.#queue.add(() => this.#ask(module, release, next.key));
    }
    if (next === undefined) release.record = undefined;
    this.#wait(module, release, Math.min(next?.at ?? Infinity, fightEndsAt) - now);
  }

  #wait(module: string, release: FollowedDrift, ms: number): void {
    if (ms !== Infinity) release.timer = this.#options.clock.setTimer(ms, () => this.#look(module, release));
  }

  /** Never fails. */
  async #ask(module: string, release: FollowedDrift, key: string): Promise<void> {
    const object = release.objects.get(key);
    release.due.delete(key);
    try {
      const found = object && (await this.#inspect(module, release, object));
      if (this.#isCurrent(module, release, key)) await this.#take({ module, release, key }, found);
    } catch (error) {
      if (!this.#abort.signal.aborted) this.#failed({ module, release, key }, error);
    }
    release.isLooking = false;
    if (this.#abort.signal.aborted) return;
    const changed = object !== undefined && this.#isOwed(release, key, object);
    if (changed && release.known.has(key)) release.due.add(key);
    this.#look(module, release);
  }

  async #inspect(
    module: string,
    release: FollowedDrift,
    object: ReleaseObject,
  ): Promise<Inspection | undefined> {
    const { signal } = this.#abort;
    await this.#bucket.take(signal);
    signal.throwIfAborted();
    release.record ??= await this.#options.recorded(module, signal);
    return release.record?.inspect(object, { ignore: release.ignore, signal });
  }

  /** A run that has begun meanwhile may have changed both sides; at its end all is looked at. */
  #isCurrent(module: string, release: FollowedDrift, key: string): boolean {
    return (
      this.#followed.get(module) === release && release.objects.has(key) && this.#options.mayLook(module)
    );
  }

  async #take({ module, release, key }: Place, found: Inspection | undefined): Promise<void> {
    const known = this.#knownOf(release, key, found?.hands);
    if (known === undefined) return;
    const now = this.#options.clock.monotonic();
    const isNews = noteLook(known, found, now);
    const toRepair = known.fields.length > 0 && this.#options.policyOf(module).mode === "repair";
    if (found !== undefined && toRepair && known.repairs.dueAt <= now)
      return this.#repair({ module, release, key }, known, found);
    known.isContested = toRepair;
    if (toRepair) release.due.add(key);
    this.#tell(module, release);
    if (isNews) this.#found({ module, release, key }, known, false);
  }

  /** What is known of an object, now that its fields were seen in these hands, or in those that the watch shows. */
  #knownOf(release: FollowedDrift, key: string, seen?: Hands): Known | undefined {
    const object = release.objects.get(key);
    const hands = seen ?? (object && this.#options.kinds.hands(object));
    if (hands === undefined) return undefined;
    const known = release.known.get(key) ?? newKnown(hands);
    known.hands = hands;
    release.known.set(key, known);
    return known;
  }

  async #repair({ module, release, key }: Place, known: Known, found: Inspection): Promise<void> {
    noteRepair(known, found.fields, this.#options.clock.monotonic());
    known.hands = await found.repair();
    known.fields = [];
    this.#tell(module, release);
    this.#found({ module, release, key }, { ...known, fields: found.fields }, true);
  }

  /** What the server refuses is not asked again before it changes; else the server is asked less and less often. */
  #failed({ module, release, key }: Place, error: unknown): void {
    const { clock, logger, kinds } = this.#options;
    const object = release.objects.get(key);
    const known = this.#knownOf(release, key);
    if (object === undefined || known === undefined) return;
    if (isConflict(error)) {
      // It was written again while it was looked at.
      known.looks.note(clock.monotonic());
      release.due.add(key);
      return;
    }
    known.looks.failed(clock.monotonic());
    const isNews = known.trouble === undefined;
    known.trouble = oneLine(error);
    // What could not be put back has drifted.
    this.#tell(module, release);
    const isRefused = error instanceof ApiError && error.status < 500 && error.status !== 429;
    if (!isRefused) release.due.add(key);
    if (!isNews) return;
    logger.warn("An object cannot be compared with its release", {
      module,
      object: nameOf(kinds.placed(object)),
      error: known.trouble,
    });
  }

  #found({ module, release, key }: Place, known: Known, repaired: boolean): void {
    const object = release.objects.get(key);
    if (object !== undefined)
      this.#options.onFound(module, driftedObject(this.#options.kinds, object, known), repaired);
  }

  #tell(module: string, release: FollowedDrift): void {
    const drift = driftIn(this.#options.kinds, release);
    if (JSON.stringify(drift) === JSON.stringify(release.told)) return;
    release.told = drift;
    this.#options.onDrift(module, drift);
  }
}

/** One object of a release. */
interface Place {
  readonly module: string;
  readonly release: FollowedDrift;
  readonly key: string;
}
