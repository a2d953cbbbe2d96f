/**
 * Assesses the health of a release's objects (docs/reference/status.md, "Health"). A finding is the assessed health of one object. The health of the
 * release is a condition (`True`, `False`, `Unknown`) with reason and message.
 */

import {
  applyVolumeBinding,
  CLASS_UNKNOWN,
  findReassessTime,
  summarizeHealth,
} from "../kube/health/index.ts";
import type { AssessedObject } from "../kube/health/index.ts";
import { resourceName } from "../helm/index.ts";
import type { Clock } from "../base/index.ts";
import type { RevisionHealth } from "../engine/state/index.ts";
import { titleOf, type Analyzer, type ObjectState, type ObjectStates } from "./object-state.ts";
import type { KindWatches } from "./kind-watches.ts";
import type { PodWatches } from "./pod-watches.ts";
import type { StorageClasses } from "./storage-classes.ts";

interface ReleaseHealthOptions {
  readonly kinds: KindWatches;
  readonly pods: PodWatches;
  readonly classes: Pick<StorageClasses, "find">;
  readonly clock: Clock;
  /** Called when the health of the revision has changed. */
  readonly onHealth: (health: RevisionHealth) => void;
}

/** A revision of a release, and how long its objects may be in progress. */
interface HealthRevision {
  readonly revision: number;
  readonly timeoutMs: number;
}

/** Progress of a rollout is reported this often; a changed status or reason is reported at once. */
const MIN_REPORT_INTERVAL_MS = 500;
/** After a workload is not Current for this long, its Pods are watched. */
const WATCH_PODS_AFTER_MS = 1000;

/** A StorageClass that cannot be read is read again after this time. */
const CLASS_RETRY_MS = 60_000;

/** Watches may lag behind helm by this time. */
const SETTLE_MS = 1000;

/** An object, with its health finding and the worst issue of its Pods. */
interface HealthTarget extends AssessedObject {
  readonly objectState: ObjectState;
}

/** Computes the health of a release when one of its objects, or a Pod of an unhealthy one, changes. Does not poll. */
export class ReleaseHealth implements Analyzer {
  readonly #options: ReleaseHealthOptions;
  #revision: HealthRevision | undefined;
  /** An earlier revision was watched before this one. */
  #isUpgraded = false;
  /** Before this time the watches may lag: `NotLookedAt` (an object has no finding yet) is not reported, and `True` not after an upgrade. */
  #settlesAt = 0;
  #reportedHealth: RevisionHealth | undefined;
  #reportedAt = 0;

  constructor(options: ReleaseHealthOptions) {
    this.#options = options;
  }

  /** Assesses this revision from now on. After an upgrade, good health is not reported until the watches had time to catch up. */
  startRevision(next: HealthRevision): void {
    if (this.#revision?.revision !== next.revision) {
      this.#settlesAt = this.#options.clock.monotonic() + SETTLE_MS;
      this.#isUpgraded = this.#revision !== undefined;
    }
    this.#revision = next;
  }

  /**
   * Assesses the health of all objects that count, and reports changed health, right after a new revision only if it cannot be stale. Returns when
   * to check again. Changes of Pods call `recheck`.
   */
  check(objects: ObjectStates, recheck: () => void): number {
    if (this.#revision === undefined) return Infinity;
    const { revision, timeoutMs } = this.#revision;
    const now = this.#options.clock.monotonic();
    const targets: HealthTarget[] = [];
    for (const objectState of objects.values()) {
      if (objectState.countsForHealth) targets.push(this.#toTarget(objectState, recheck));
      else this.stopPodWatch(objectState);
    }
    const nextPodWatchAt = this.#updatePodWatches(targets, recheck);
    const condition = summarizeHealth(targets, { now, timeoutMs });
    // Right after an upgrade the watch may still have the healthy objects of the revision before. Only objects with a generation can
    // be stale: new objects are missing until the watch has them, and objects without a spec are healthy once they exist.
    const canLag = targets.some(({ finding }) => finding?.generation !== undefined);
    const mayBeStale = condition.status === "True" && this.#isUpgraded && canLag;
    const isEarly = now < this.#settlesAt && (condition.reason === "NotLookedAt" || mayBeStale);
    const reportAt = isEarly ? this.#settlesAt : this.#reportIfChanged({ ...condition, revision });
    const hasUnknownClass = targets.some(({ finding }) => finding?.reason === CLASS_UNKNOWN);
    const nextClassAt = hasUnknownClass ? now + CLASS_RETRY_MS : Infinity;
    return Math.min(findReassessTime(targets, { now, timeoutMs }), nextPodWatchAt, nextClassAt, reportAt);
  }

  /** Ends the watch of the object's Pods: the object left the release, is healthy, or does not count for health. */
  stopPodWatch(objectState: ObjectState): void {
    if (objectState.hasPodWatch) this.#options.pods.unwatchPods(objectState.key);
    objectState.hasPodWatch = false;
  }

  /** Collects what the health of one object depends on: its finding, and the worst issue of its Pods. `recheck`: it may change by an answer. */
  #toTarget(objectState: ObjectState, recheck: () => void): HealthTarget {
    const { kinds, pods, classes } = this.#options;
    const ref = kinds.toObjectRef(objectState.object);
    const ownFinding = kinds.getFinding(objectState.object);
    const unusedClass = ownFinding?.unusedClass;
    const binding = unusedClass === undefined ? undefined : classes.find(unusedClass, recheck);
    const finding = ownFinding && applyVolumeBinding(ownFinding, binding);
    const pod = pods.findWorstIssue(objectState.key, finding?.pods);
    return { objectState, name: resourceName(ref), title: titleOf(ref), finding, pod };
  }

  /**
   * Watches the Pods of workloads that have been unhealthy for WATCH_PODS_AFTER_MS: short rollouts need no explanation. Returns when the next
   * workload has been unhealthy for so long; Infinity = none.
   */
  #updatePodWatches(targets: readonly HealthTarget[], recheck: () => void): number {
    const { clock, pods } = this.#options;
    const now = clock.monotonic();
    let nextAt = Infinity;
    for (const { objectState, finding } of targets) {
      // The object is healthy, or no workload.
      if (finding?.pods === undefined) {
        this.stopPodWatch(objectState);
        continue;
      }
      const watchAt = finding.since + WATCH_PODS_AFTER_MS;
      if (watchAt > now) {
        nextAt = Math.min(nextAt, watchAt);
        continue;
      }
      objectState.hasPodWatch = true;
      const { namespace } = objectState.object;
      pods.watchPods(objectState.key, { ...finding.pods, namespace }, recheck);
    }
    return nextAt;
  }

  /**
   * Reports changed health, progress of a rollout (only the message differs) at most every MIN_REPORT_INTERVAL_MS: each report is a
   * write of the status. Returns when to report the health if that is later, else Infinity.
   */
  #reportIfChanged(health: RevisionHealth): number {
    const { clock, onHealth } = this.#options;
    const reported = this.#reportedHealth;
    if (reported !== undefined && JSON.stringify(reported) === JSON.stringify(health)) return Infinity;
    const isOnlyProgress =
      reported?.status === health.status &&
      reported.reason === health.reason &&
      reported.revision === health.revision;
    const mayReportAt = isOnlyProgress ? this.#reportedAt + MIN_REPORT_INTERVAL_MS : 0;
    if (mayReportAt > clock.monotonic()) return mayReportAt;
    this.#reportedHealth = health;
    this.#reportedAt = clock.monotonic();
    onHealth(health);
    return Infinity;
  }
}
