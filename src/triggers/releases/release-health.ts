/** Follows how the objects of releases are (docs/STATUS.md, "Health"). */

import { dueAt, healthOf, type Health, type Patient } from "../../health/index.ts";
import { nameOf } from "../../helm/index.ts";
import type { WatchHub } from "../../kube/index.ts";
import type { Clock, Timer } from "../../lib/index.ts";
import type { RevisionHealth } from "../../state/index.ts";
import type { KindWatches } from "./kind-watches.ts";
import { PodWatches } from "./pod-watches.ts";
import { keyOf, titleOf, type ReleaseObject } from "./release-object.ts";

interface ReleaseHealthOptions {
  readonly kinds: KindWatches;
  readonly hub: WatchHub;
  readonly clock: Clock;
  /** Called when the health of a module's release, of that revision, differs from what was told before. */
  readonly onHealth: (module: string, health: RevisionHealth | undefined) => void;
}

/** A revision of a release, and how long its objects may be under way. */
interface AppliedRelease {
  readonly objects: readonly ReleaseObject[];
  readonly revision: number;
  readonly timeoutMs: number;
}

/** A rollout is told this often; whether a release is healthy, and why not, is told at once. */
const TELL_EVERY_MS = 500;
/** A workload that is not Current for this long has its Pods looked at. */
const PODS_AFTER_MS = 1000;

/** The watches may lag behind what helm just did, or have just begun. */
const SETTLE_MS = 1000;

/** What is known of a release. The sets have no more keys than it has objects. */
interface Followed {
  objects: ReadonlyMap<string, ReleaseObject>;
  /** Workloads whose Pods are watched. */
  readonly workloads: Set<string>;
  revision: number | undefined;
  timeoutMs: number;
  /** It follows a revision that was followed. */
  isUpgraded: boolean;
  /** That revision is told to be healthy, or not looked at, no earlier. */
  settlesAt: number;
  told: RevisionHealth | undefined;
  toldAt: number;
  timer: Timer | undefined;
}

/** Judges each release anew when one of its objects, or a Pod of an ailing one, changes; never by polling. */
export class ReleaseHealth {
  readonly #options: ReleaseHealthOptions;
  readonly #pods: PodWatches;
  readonly #followed = new Map<string, Followed>();

  constructor(options: ReleaseHealthOptions) {
    this.#options = options;
    this.#pods = new PodWatches(options.hub);
    options.kinds.listen({
      judged: (module, kind, name) => {
        const release = this.#followed.get(module);
        if (release === undefined) return;
        if (name === undefined || release.objects.has(`${kind}/${name}`)) this.#look(module, release);
      },
    });
  }

  /** Sets the objects of a module's release that count, once their kinds are watched. */
  setObjects(module: string, { objects, revision, timeoutMs }: AppliedRelease): void {
    const release = this.#followed.get(module) ?? newFollowed();
    release.timeoutMs = timeoutMs;
    if (release.revision !== revision) {
      release.settlesAt = this.#options.clock.monotonic() + SETTLE_MS;
      release.isUpgraded = release.revision !== undefined;
    }
    release.revision = revision;
    release.objects = new Map(objects.map((object) => [keyOf(object), object]));
    for (const key of release.workloads) if (!release.objects.has(key)) this.#leave(release, key);
    this.#followed.set(module, release);
    this.#look(module, release);
  }

  /** A module has no release any more, or is off. */
  forget(module: string): void {
    const release = this.#followed.get(module);
    if (release === undefined) return;
    release.timer?.cancel();
    for (const key of release.workloads) this.#leave(release, key);
    this.#followed.delete(module);
    this.#options.onHealth(module, undefined);
  }

  close(): void {
    for (const { timer } of this.#followed.values()) timer?.cancel();
    this.#followed.clear();
    this.#pods.close();
  }

  #look(module: string, release: Followed): void {
    if (this.#followed.get(module) !== release) return;
    release.timer?.cancel();
    const { clock } = this.#options;
    const { timeoutMs } = release;
    const now = clock.monotonic();
    const patients = [...release.objects].map(([key, object]) => this.#patient(key, object));
    const podsAt = this.#followPods(module, release, patients);
    const judged = healthOf(patients, { now, timeoutMs });
    // An object that is new is not there before it is seen, and one without a spec is well by being there.
    const canLag = patients.some(({ finding }) => finding?.generation !== undefined);
    const isEarly =
      now < release.settlesAt &&
      (judged.reason === "NotLookedAt" || (judged.status === "True" && release.isUpgraded && canLag));
    const tellAt = isEarly ? release.settlesAt : this.#tell(module, release, judged);
    const nextAt = Math.min(dueAt(patients, { now, timeoutMs }), podsAt, tellAt);
    if (nextAt < Infinity)
      release.timer = clock.setTimer(Math.max(nextAt - now, 0), () => this.#look(module, release));
  }

  #patient(key: string, object: ReleaseObject): Patient & { readonly key: string } {
    const { kinds } = this.#options;
    const placed = kinds.placed(object);
    const [name, title] = [nameOf(placed), titleOf(placed)];
    const finding = kinds.finding(object);
    return { key, name, title, finding, pod: this.#pods.worst(key, finding?.pods) };
  }

  /** Follows the Pods of workloads that have been ailing for a moment; returns when the next one has. */
  #followPods(
    module: string,
    release: Followed,
    patients: readonly (Patient & { readonly key: string })[],
  ): number {
    const now = this.#options.clock.monotonic();
    let nextAt = Infinity;
    for (const { key, finding } of patients) {
      const namespace = release.objects.get(key)?.namespace;
      if (finding?.pods === undefined || namespace === undefined) this.#leave(release, key);
      else if (finding.since + PODS_AFTER_MS > now) nextAt = Math.min(nextAt, finding.since + PODS_AFTER_MS);
      else {
        release.workloads.add(key);
        const of = { ...finding.pods, namespace };
        this.#pods.follow(key, of, () => this.#look(module, release));
      }
    }
    return nextAt;
  }

  #leave(release: Followed, key: string): void {
    if (release.workloads.delete(key)) this.#pods.leave(key);
  }

  /** Tells what is new; returns when to tell it where that is later. */
  #tell(module: string, release: Followed, judged: Health): number {
    const { clock, onHealth } = this.#options;
    const health = { ...judged, revision: release.revision };
    const { told, toldAt } = release;
    if (told !== undefined && JSON.stringify(told) === JSON.stringify(health)) return Infinity;
    const isSame =
      told?.status === health.status && told.reason === health.reason && told.revision === health.revision;
    const mayTellAt = isSame ? toldAt + TELL_EVERY_MS : 0;
    if (mayTellAt > clock.monotonic()) return mayTellAt;
    release.told = health;
    release.toldAt = clock.monotonic();
    onHealth(module, health);
    return Infinity;
  }
}

function newFollowed(): Followed {
  return {
    objects: new Map(),
    workloads: new Set(),
    revision: undefined,
    timeoutMs: 0,
    isUpgraded: false,
    settlesAt: 0,
    told: undefined,
    toldAt: 0,
    timer: undefined,
  };
}
