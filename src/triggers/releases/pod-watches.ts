/** Watches the Pods of unhealthy workloads to explain why the current revision is not healthy. */

import {
  controllerOf,
  isCurrentReplicaSet,
  isOfWantedRevision,
  podIssue,
  type NamedIssue,
  type OwnPods,
} from "../../health/index.ts";
import { keepWhole, labelSelectorText, ObjectStore, PODS, REPLICA_SETS } from "../../kube/index.ts";
import type { Resource, Subscription, WatchHub, WholeObject } from "../../kube/index.ts";
import { sameJson } from "../../lib/index.ts";
import { objectOf, asString, type Json, type JsonObject } from "../../model/index.ts";

/** Workloads that are watched at the same time; others wait until one of them is healthy. */
const MOST_WATCHES = 20;
/** Failing Pods that are kept per owner. */
const MOST_PODS = 100;

/** Selects the Pods of a workload. */
interface PodSelection extends OwnPods {
  readonly namespace: string;
}

interface FailingPod {
  readonly resourceVersion: string;
  /** The uid of its controller. */
  readonly owner: string;
  readonly issue: Omit<NamedIssue, "isWanted">;
  readonly labels: JsonObject;
}

interface PodWatch {
  readonly selection: PodSelection;
  readonly changed: () => void;
  subscriptions: Subscription[];
  readonly pods: ObjectStore<FailingPod>;
  /** The metadata of ReplicaSets that the selector finds. */
  readonly replicaSets: ObjectStore<WholeObject>;
}

/**
 * Watches the Pods of up to MOST_WATCHES workloads by label selector and, for a Deployment, its ReplicaSets. Keeps only
 * failing Pods.
 */
export class PodWatches {
  readonly #hub: WatchHub;
  /** By workload, in the order of `follow`. */
  readonly #watches = new Map<string, PodWatch>();
  #open = 0;

  constructor(hub: WatchHub) {
    this.#hub = hub;
  }

  /** Follows the Pods of a workload; calls `changed` when `worstIssue` may return something else. */
  follow(workload: string, of: PodSelection, changed: () => void): void {
    const known = this.#watches.get(workload);
    if (known !== undefined && isSameSelection(known.selection, of)) return;
    this.unfollow(workload);
    const stores = { pods: podStore(), replicaSets: new ObjectStore({ keep: keepWhole }) };
    this.#watches.set(workload, { selection: of, changed, subscriptions: [], ...stores });
    this.#openWaitingWatches();
  }

  /** Ends the watch of a workload, which lets another one begin. */
  unfollow(workload: string): void {
    const watch = this.#watches.get(workload);
    if (watch === undefined) return;
    this.#watches.delete(workload);
    if (watch.subscriptions.length === 0) return;
    for (const subscription of watch.subscriptions) subscription.close();
    this.#open -= 1;
    this.#openWaitingWatches();
  }

  /** The gravest issue of a workload's Pods: Pods of the current revision first, then by rank, then by name. */
  worstIssue(workload: string, of: OwnPods | undefined): NamedIssue | undefined {
    const watch = this.#watches.get(workload);
    if (watch === undefined || of === undefined) return undefined;
    const [worst] = currentOwners(of, watch)
      .flatMap((owner) => watch.pods.group(owner))
      .map(({ issue, labels }) => ({ ...issue, isWanted: isOfWantedRevision(labels, of) }))
      .toSorted(byRelevance);
    return worst;
  }

  close(): void {
    for (const { subscriptions } of this.#watches.values())
      for (const subscription of subscriptions) subscription.close();
    this.#watches.clear();
  }

  /** Opens watches that have no subscription yet, until MOST_WATCHES are open. */
  #openWaitingWatches(): void {
    for (const watch of this.#watches.values()) {
      if (this.#open >= MOST_WATCHES) return;
      if (watch.subscriptions.length > 0) continue;
      this.#open += 1;
      watch.subscriptions = this.#subscribe(watch);
    }
  }

  /** Watches the Pods of the workload and, for a Deployment, its ReplicaSets. */
  #subscribe(watch: PodWatch): Subscription[] {
    const pods = this.#watch(watch, PODS, watch.pods);
    if (watch.selection.replicaSet === undefined) return [pods];
    return [pods, this.#watch(watch, REPLICA_SETS, watch.replicaSets)];
  }

  /** Watches what the selector of the workload finds: whole Pods, or the metadata of ReplicaSets. */
  #watch<T extends { readonly resourceVersion: string }>(
    { selection, changed }: PodWatch,
    resource: Resource,
    store: ObjectStore<T>,
  ): Subscription {
    const labelSelector = labelSelectorText(selection.selector);
    const spec = { resource, namespace: selection.namespace, labelSelector, metadataOnly: resource !== PODS };
    // Before the first list is complete, the worst issue may still be missing.
    const notifyIfSynced = (): void => void (store.isSynced && changed());
    return store.follow(this.#hub, spec, { changed: notifyIfSynced, synced: changed });
  }
}

/** Failing Pods by uid of their owner, limited per owner: Pods of an old ReplicaSet cannot crowd out the new one's. */
function podStore(): ObjectStore<FailingPod> {
  const pods: ObjectStore<FailingPod> = new ObjectStore({
    groupOf: ({ owner }) => owner,
    keep: (pod, before) => {
      const issue = podIssue(pod);
      const owner = controllerOf(pod);
      if (issue === undefined || owner === undefined) return undefined;
      if (before === undefined && pods.group(owner).length >= MOST_PODS) return undefined;
      const { name, labels, resourceVersion = "" } = pod.metadata;
      return { resourceVersion, owner, issue: { ...issue, name }, labels: objectOf(labels) };
    },
  });
  return pods;
}

/** The uids of the workload or its current ReplicaSets, which own the Pods that count. */
function currentOwners(of: OwnPods, { replicaSets }: PodWatch): string[] {
  if (of.replicaSet === undefined) return [of.uid];
  const current = [...replicaSets.values()].filter(({ object }) => isCurrentReplicaSet(object, of));
  return current.map(({ object }) => asString(object.metadata.uid) ?? "");
}

/** Whether a new watch would find the same Pods. */
function isSameSelection(a: PodSelection, b: PodSelection): boolean {
  return a.namespace === b.namespace && sameJson(a.selector as Json, b.selector as Json);
}

/** Sorts Pods of the current revision first, then by rank of the issue, then by name. */
function byRelevance(a: NamedIssue, b: NamedIssue): number {
  return Number(b.isWanted) - Number(a.isWanted) || b.rank - a.rank || (a.name < b.name ? -1 : 1);
}
