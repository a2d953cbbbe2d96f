/** Watches the Pods of unhealthy workloads, for what they say about the revision that is wanted. */

import {
  controllerOf,
  isCurrentReplicaSet,
  isOfWantedRevision,
  podTrouble,
  type NamedTrouble,
  type OwnPods,
} from "../../health/index.ts";
import { labelSelectorText, PODS, REPLICA_SETS } from "../../kube/index.ts";
import type { Resource, Subscription, WatchedObject, WatchHub } from "../../kube/index.ts";
import { sameJson } from "../../lib/index.ts";
import { objectOf, textOf, type Json, type JsonObject } from "../../model/index.ts";

/** Workloads followed at the same time; further ones wait until one of these is healthy. */
const MOST_WATCHES = 20;
/** Pods of one owner whose trouble is kept. */
const MOST_PODS = 100;

/** Which Pods are a workload's own. */
interface PodsOf extends OwnPods {
  readonly namespace: string;
}

/** What is wrong with a Pod, and its labels. */
interface SeenPod {
  readonly trouble: Omit<NamedTrouble, "isWanted">;
  readonly labels: JsonObject;
}

interface PodWatch {
  readonly of: PodsOf;
  readonly changed: () => void;
  subscriptions: Subscription[];
  /** By the uid of their owner, then by name: many Pods of an old ReplicaSet crowd out none of the new one. */
  readonly pods: Map<string, Map<string, SeenPod>>;
  /** ReplicaSets that the selector finds, by name: their metadata. */
  readonly replicaSets: Map<string, WatchedObject>;
}

/**
 * Narrow watches for each workload that is followed, twenty at most: its Pods and, of a Deployment, its ReplicaSets. What is
 * kept of a Pod is its trouble and whose it is.
 */
export class PodWatches {
  readonly #hub: WatchHub;
  /** By workload, in the order in which they came. */
  readonly #watches = new Map<string, PodWatch>();
  #open = 0;

  constructor(hub: WatchHub) {
    this.#hub = hub;
  }

  /** Follows the Pods of a workload; `changed` is called when the most telling trouble may differ. */
  follow(workload: string, of: PodsOf, changed: () => void): void {
    const known = this.#watches.get(workload);
    if (known !== undefined && isSameSelection(known.of, of)) return;
    this.leave(workload);
    this.#watches.set(workload, { of, changed, subscriptions: [], pods: new Map(), replicaSets: new Map() });
    this.#fill();
  }

  leave(workload: string): void {
    const watch = this.#watches.get(workload);
    if (watch === undefined) return;
    this.#watches.delete(workload);
    if (watch.subscriptions.length === 0) return;
    for (const subscription of watch.subscriptions) subscription.close();
    this.#open -= 1;
    this.#fill();
  }

  /** The Pod of a workload that tells the most, one of the wanted revision first; of several, the first by name. */
  worst(workload: string, of: OwnPods | undefined): NamedTrouble | undefined {
    const watch = this.#watches.get(workload);
    if (watch === undefined || of === undefined) return undefined;
    const [worst] = ownersOf(of, watch)
      .flatMap((owner) => [...(watch.pods.get(owner)?.values() ?? [])])
      .map(({ trouble, labels }) => ({ ...trouble, isWanted: isOfWantedRevision(labels, of) }))
      .toSorted(byWeight);
    return worst;
  }

  close(): void {
    for (const { subscriptions } of this.#watches.values())
      for (const subscription of subscriptions) subscription.close();
    this.#watches.clear();
  }

  #fill(): void {
    for (const watch of this.#watches.values()) {
      if (this.#open >= MOST_WATCHES) return;
      if (watch.subscriptions.length > 0) continue;
      this.#open += 1;
      watch.subscriptions = this.#subscribe(watch);
    }
  }

  #subscribe(watch: PodWatch): Subscription[] {
    const { pods, replicaSets } = watch;
    const subscriptions = [
      this.#watch(watch, PODS, {
        clear: () => pods.clear(),
        see: (pod) => seePod(pods, pod),
        forget: (pod) => forgetPod(pods, pod),
      }),
    ];
    if (watch.of.replicaSet === undefined) return subscriptions;
    const seeSets = this.#watch(watch, REPLICA_SETS, {
      clear: () => replicaSets.clear(),
      see: (set) => void replicaSets.set(set.metadata.name, set),
      forget: ({ metadata: { name } }) => void replicaSets.delete(name),
    });
    return [...subscriptions, seeSets];
  }

  #watch({ of, changed }: PodWatch, resource: Resource, { clear, see, forget }: Kept): Subscription {
    const labelSelector = labelSelectorText(of.selector);
    const metadataOnly = resource !== PODS;
    return this.#hub.subscribe(
      { resource, namespace: of.namespace, labelSelector, metadataOnly },
      {
        begin: clear,
        object: see,
        synced: changed,
        applied: (object) => {
          see(object);
          changed();
        },
        deleted: (object) => {
          forget(object);
          changed();
        },
      },
    );
  }
}

/** What is kept of the objects of one watch. */
interface Kept {
  readonly clear: () => void;
  readonly see: (object: WatchedObject) => void;
  readonly forget: (object: WatchedObject) => void;
}

function seePod(pods: PodWatch["pods"], pod: WatchedObject): void {
  const trouble = podTrouble(pod);
  const owner = controllerOf(pod);
  if (trouble === undefined || owner === undefined) return forgetPod(pods, pod);
  const { name, labels } = pod.metadata;
  const known = pods.get(owner) ?? new Map<string, SeenPod>();
  pods.set(owner, known);
  if (known.has(name) || known.size < MOST_PODS)
    known.set(name, { trouble: { ...trouble, name }, labels: objectOf(labels) });
}

function forgetPod(pods: PodWatch["pods"], pod: WatchedObject): void {
  const owner = controllerOf(pod) ?? "";
  const known = pods.get(owner);
  known?.delete(pod.metadata.name);
  if (known?.size === 0) pods.delete(owner);
}

/** The uids of which one is the controller of each Pod that counts. */
function ownersOf(of: OwnPods, { replicaSets }: PodWatch): string[] {
  if (of.replicaSet === undefined) return [of.uid];
  const current = [...replicaSets.values()].filter((set) => isCurrentReplicaSet(set, of));
  return current.map(({ metadata: { uid } }) => textOf(uid) ?? "");
}

function isSameSelection(a: PodsOf, b: PodsOf): boolean {
  return a.namespace === b.namespace && sameJson(a.selector as Json, b.selector as Json);
}

function byWeight(a: NamedTrouble, b: NamedTrouble): number {
  return Number(b.isWanted) - Number(a.isWanted) || b.rank - a.rank || (a.name < b.name ? -1 : 1);
}
