/** Follows the health of a release's objects (docs/reference/status.md, "Health"). */

import { reassessAt, healthOf, type AssessedObject } from "../../health/index.ts";
import { resourceName } from "../../helm/index.ts";
import type { Clock } from "../../lib/index.ts";
import type { RevisionHealth } from "../../state/index.ts";
import type { Analyzer, FollowedObject, FollowedObjects } from "./followed-object.ts";
import type { KindWatches } from "./kind-watches.ts";
import type { PodWatches } from "./pod-watches.ts";
import { titleOf } from "./release-object.ts";

interface ReleaseHealthOptions {
  readonly kinds: KindWatches;
  readonly pods: PodWatches;
  readonly clock: Clock;
  /** Called when the health of the revision has changed. */
  readonly onHealth: (health: RevisionHealth) => void;
}

/** A revision of a release, and how long its objects may be in progress. */
interface AppliedRelease {
  readonly revision: number;
  readonly timeoutMs: number;
}

/** Progress of a rollout is reported this often; a changed status or reason is reported at once. */
const REPORT_EVERY_MS = 500;
/** After a workload is not Current for this long, its Pods are watched. */
const PODS_AFTER_MS = 1000;

/** Watches may lag behind helm by this long. */
const SETTLE_MS = 1000;

/** An object, and what its health is made from. */
interface FollowedTarget extends AssessedObject {
  readonly followed: FollowedObject;
}

/** Computes the health of a release when one of its objects, or a Pod of an unhealthy one, changes. Does not poll. */
export class ReleaseHealth implements Analyzer {
  readonly #options: ReleaseHealthOptions;
  #applied: AppliedRelease | undefined;
  /** An earlier revision was followed before this one. */
  #isUpgraded = false;
  /** Before this time the watches may lag, so `True` or `NotLookedAt` is not reported. */
  #settlesAt = 0;
  #reported: RevisionHealth | undefined;
  #reportedAt = 0;

  constructor(options: ReleaseHealthOptions) {
    this.#options = options;
  }

  /** The objects of this revision are followed from now on. */
  begin(applied: AppliedRelease): void {
    if (this.#applied?.revision !== applied.revision) {
      this.#settlesAt = this.#options.clock.monotonic() + SETTLE_MS;
      this.#isUpgraded = this.#applied !== undefined;
    }
    this.#applied = applied;
  }

  /** Assesses the health of all objects that count, and reports it; returns when to check again. */
  check(objects: FollowedObjects, recheck: () => void): number {
    if (this.#applied === undefined) return Infinity;
    const { revision, timeoutMs } = this.#applied;
    const now = this.#options.clock.monotonic();
    for (const followed of objects.values()) if (!followed.counts) this.forget(followed);
    const targets = [...objects.values()].filter(({ counts }) => counts).map((each) => this.#target(each));
    const podsAt = this.#followPods(targets, recheck);
    const condition = healthOf(targets, { now, timeoutMs });
    // Only objects with a generation can be stale: new objects are missing until the watch has them, and objects
    // without a spec are healthy once they exist.
    const canLag = targets.some(({ finding }) => finding?.generation !== undefined);
    const isEarly =
      now < this.#settlesAt &&
      (condition.reason === "NotLookedAt" || (condition.status === "True" && this.#isUpgraded && canLag));
    const reportAt = isEarly ? this.#settlesAt : this.#report({ ...condition, revision });
    return Math.min(reassessAt(targets, { now, timeoutMs }), podsAt, reportAt);
  }

  /** The object is followed no more, or its health does not count. */
  forget(followed: FollowedObject): void {
    if (followed.watchesPods) this.#options.pods.unfollow(followed.key);
    followed.watchesPods = false;
  }

  /** What the health of one object is made from: its finding, and the gravest issue of its Pods. */
  #target(followed: FollowedObject): FollowedTarget {
    const { kinds, pods } = this.#options;
    const ref = kinds.objectRefOf(followed.object);
    const finding = kinds.finding(followed.object);
    const pod = pods.worstIssue(followed.key, finding?.pods);
    return { followed, name: resourceName(ref), title: titleOf(ref), finding, pod };
  }

  /** Follows the Pods of workloads that have been unhealthy for a moment; returns when the next one has. */
  #followPods(targets: readonly FollowedTarget[], recheck: () => void): number {
    const { clock, pods } = this.#options;
    const now = clock.monotonic();
    let nextAt = Infinity;
    for (const { followed, finding } of targets) {
      const { namespace } = followed.object;
      if (finding?.pods === undefined) this.forget(followed);
      else if (finding.since + PODS_AFTER_MS > now) nextAt = Math.min(nextAt, finding.since + PODS_AFTER_MS);
      else {
        followed.watchesPods = true;
        pods.follow(followed.key, { ...finding.pods, namespace }, recheck);
      }
    }
    return nextAt;
  }

  /** Reports changed health; returns when to report it if that is later, else Infinity. */
  #report(health: RevisionHealth): number {
    const { clock, onHealth } = this.#options;
    const reported = this.#reported;
    if (reported !== undefined && JSON.stringify(reported) === JSON.stringify(health)) return Infinity;
    const isOnlyProgress =
      reported?.status === health.status &&
      reported.reason === health.reason &&
      reported.revision === health.revision;
    const mayReportAt = isOnlyProgress ? this.#reportedAt + REPORT_EVERY_MS : 0;
    if (mayReportAt > clock.monotonic()) return mayReportAt;
    this.#reported = health;
    this.#reportedAt = clock.monotonic();
    onHealth(health);
    return Infinity;
  }
}
