/**
 * Watches the Pods of unhealthy workloads to explain why the current revision is not healthy. An issue is the reason why a Pod fails; issues have
 * ranks. `OwnPods` finds which Pods belong to a workload, and which of them to the current (wanted) revision.
 */

import {
  controllerUidOf,
  isCurrentReplicaSet,
  isOfWantedRevision,
  findPodIssue,
  type NamedIssue,
  type OwnPods,
} from "../kube/health/index.ts";
import { toStoredObject, formatLabelSelector, ObjectStore, PODS, REPLICA_SETS } from "../kube/index.ts";
import type { Resource, Subscription, WatchHub, StoredObject } from "../kube/index.ts";
import { sameJson } from "../base/index.ts";
import { objectOf, asString, type Json, type JsonObject } from "../base/model/index.ts";

/** Number of workloads that are watched at the same time; others wait until one of them is healthy. If a node pool fails, hundreds are unhealthy at once. */
const MAX_WATCHES = 20;
/** Number of failing Pods that are stored per owner: enough to find the worst issue, and a bound on the memory. */
const MAX_PODS_PER_OWNER = 100;

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

/** The watch of one workload; without subscriptions while it waits until fewer watches are open. */
interface PodWatch {
  readonly selection: PodSelection;
  readonly onChange: () => void;
  subscriptions: Subscription[];
  readonly pods: ObjectStore<FailingPod>;
  /** The metadata of ReplicaSets that the selector finds. */
  readonly replicaSets: ObjectStore<StoredObject>;
}

/** Watches the Pods of up to MAX_WATCHES workloads by label selector and, for a Deployment, its ReplicaSets. Keeps only failing Pods. */
export class PodWatches {
  readonly #hub: WatchHub;
  /** The watches by workload, in the order of `watchPods`. */
  readonly #watches = new Map<string, PodWatch>();
  #openCount = 0;

  constructor(hub: WatchHub) {
    this.#hub = hub;
  }

  /** Watches the Pods of a workload; calls `onChange` when `findWorstIssue` may return something else. */
  watchPods(workload: string, selection: PodSelection, onChange: () => void): void {
    const existing = this.#watches.get(workload);
    if (existing !== undefined && isSameSelection(existing.selection, selection)) return;
    this.unwatchPods(workload);
    const stores = { pods: createPodStore(), replicaSets: new ObjectStore({ toStored: toStoredObject }) };
    this.#watches.set(workload, { selection, onChange, subscriptions: [], ...stores });
    this.#openWaitingWatches();
  }

  /** Ends the watch of a workload, so that a waiting one can begin. */
  unwatchPods(workload: string): void {
    const watch = this.#watches.get(workload);
    if (watch === undefined) return;
    this.#watches.delete(workload);
    const isWaiting = watch.subscriptions.length === 0;
    if (isWaiting) return;
    for (const subscription of watch.subscriptions) subscription.close();
    this.#openCount -= 1;
    this.#openWaitingWatches();
  }

  /** Finds the worst issue of a workload's Pods: Pods of the current revision first, then by rank, then by name. */
  findWorstIssue(workload: string, ownPods: OwnPods | undefined): NamedIssue | undefined {
    const watch = this.#watches.get(workload);
    if (watch === undefined || ownPods === undefined) return undefined;
    const [worst] = findCurrentOwners(ownPods, watch)
      .flatMap((owner) => watch.pods.groupObjects(owner))
      .map(({ issue, labels }) => ({ ...issue, isWanted: isOfWantedRevision(labels, ownPods) }))
      .toSorted(compareRelevance);
    return worst;
  }

  close(): void {
    for (const { subscriptions } of this.#watches.values())
      for (const subscription of subscriptions) subscription.close();
    this.#watches.clear();
  }

  /** Opens watches that have no subscription yet, until MAX_WATCHES are open. */
  #openWaitingWatches(): void {
    for (const watch of this.#watches.values()) {
      if (this.#openCount >= MAX_WATCHES) return;
      const isOpen = watch.subscriptions.length > 0;
      if (isOpen) continue;
      this.#openCount += 1;
      watch.subscriptions = this.#subscribe(watch);
    }
  }

  /** Watches the Pods of the workload and, for a Deployment, its ReplicaSets. */
  #subscribe(watch: PodWatch): Subscription[] {
    const pods = this.#watchResource(watch, PODS, watch.pods);
    if (watch.selection.replicaSet === undefined) return [pods];
    return [pods, this.#watchResource(watch, REPLICA_SETS, watch.replicaSets)];
  }

  /** Watches the objects that the selector of the workload finds: whole Pods, or the metadata of ReplicaSets. */
  #watchResource<T extends { readonly resourceVersion: string }>(
    { selection, onChange }: PodWatch,
    resource: Resource,
    store: ObjectStore<T>,
  ): Subscription {
    const labelSelector = formatLabelSelector(selection.selector);
    const spec = { resource, namespace: selection.namespace, labelSelector, metadataOnly: resource !== PODS };
    // Before the first list is complete, the worst issue may still be missing.
    const notifyIfSynced = (): void => {
      if (store.isSynced) onChange();
    };
    return store.watch(this.#hub, spec, { onChange: notifyIfSynced, onSynced: onChange });
  }
}

/** Creates a store of failing Pods by uid of their owner, limited per owner: Pods of an old ReplicaSet cannot crowd out Pods of the new one. */
function createPodStore(): ObjectStore<FailingPod> {
  const pods: ObjectStore<FailingPod> = new ObjectStore({
    groupOf: ({ owner }) => owner,
    toStored: (pod, before) => {
      const issue = findPodIssue(pod);
      const owner = controllerUidOf(pod);
      if (issue === undefined || owner === undefined) return undefined;
      const isNew = before === undefined;
      if (isNew && pods.groupObjects(owner).length >= MAX_PODS_PER_OWNER) return undefined;
      const { name, labels, resourceVersion = "" } = pod.metadata;
      return { resourceVersion, owner, issue: { ...issue, name }, labels: objectOf(labels) };
    },
  });
  return pods;
}

/** Finds the uids of the owners whose Pods count: the workload, or its current ReplicaSets. Pods of older ReplicaSets say nothing about the current revision. */
function findCurrentOwners(ownPods: OwnPods, { replicaSets }: PodWatch): string[] {
  if (ownPods.replicaSet === undefined) return [ownPods.uid];
  const current = [...replicaSets.values()].filter(({ object }) => isCurrentReplicaSet(object, ownPods));
  return current.map(({ object }) => asString(object.metadata.uid) ?? "");
}

/** Whether a new watch would find the same Pods. */
function isSameSelection(a: PodSelection, b: PodSelection): boolean {
  return a.namespace === b.namespace && sameJson(a.selector as Json, b.selector as Json);
}

/** Sorts Pods of the current revision first, then by rank of the issue, then by name. */
function compareRelevance(a: NamedIssue, b: NamedIssue): number {
  return Number(b.isWanted) - Number(a.isWanted) || b.rank - a.rank || (a.name < b.name ? -1 : 1);
}
