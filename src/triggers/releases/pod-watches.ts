/** Watches the Pods of workloads that are not as they should be, to tell why. */

import { podTrouble } from "../../health/index.ts";
import type { NamedTrouble } from "../../health/index.ts";
import { labelSelectorText, PODS } from "../../kube/index.ts";
import type { Subscription, WatchedObject, WatchHub } from "../../kube/index.ts";
import { objectOf, textOf, type LabelSelector } from "../../model/index.ts";

/** Watches at the same time; further workloads wait until one of these is well. */
const MOST_WATCHES = 20;
/** Pods of one workload whose trouble is kept. */
const MOST_PODS = 100;

/** Which Pods are a workload's own. */
export interface PodsOf {
  readonly namespace: string;
  readonly selector: LabelSelector;
}

interface PodWatch {
  readonly of: PodsOf;
  readonly changed: () => void;
  subscription: Subscription | undefined;
  readonly troubles: Map<string, NamedTrouble>;
}

/** One narrow watch for each workload that is followed, twenty at most. What is kept of a Pod is its trouble. */
export class PodWatches {
  readonly #hub: WatchHub;
  /** By workload, in the order in which they came. */
  readonly #watches = new Map<string, PodWatch>();
  #open = 0;

  constructor(hub: WatchHub) {
    this.#hub = hub;
  }

  /** Follows the Pods of a workload that is not followed yet; `changed` is called when the most telling trouble may differ. */
  follow(workload: string, of: PodsOf, changed: () => void): void {
    if (this.#watches.has(workload)) return;
    this.#watches.set(workload, { of, changed, subscription: undefined, troubles: new Map() });
    this.#fill();
  }

  leave(workload: string): void {
    const watch = this.#watches.get(workload);
    if (watch === undefined) return;
    this.#watches.delete(workload);
    if (watch.subscription === undefined) return;
    watch.subscription.close();
    this.#open -= 1;
    this.#fill();
  }

  /** The Pod of a workload that tells the most; of several, the first by name. */
  worst(workload: string): NamedTrouble | undefined {
    const troubles = [...(this.#watches.get(workload)?.troubles.values() ?? [])];
    return troubles.toSorted((a, b) => b.rank - a.rank || (a.name < b.name ? -1 : 1))[0];
  }

  close(): void {
    for (const { subscription } of this.#watches.values()) subscription?.close();
    this.#watches.clear();
  }

  #fill(): void {
    for (const watch of this.#watches.values()) {
      if (this.#open >= MOST_WATCHES) return;
      if (watch.subscription !== undefined) continue;
      this.#open += 1;
      watch.subscription = this.#subscribe(watch);
    }
  }

  #subscribe({ of, changed, troubles }: PodWatch): Subscription {
    const see = ({ metadata: { name, labels }, ...pod }: WatchedObject): void => {
      const trouble = podTrouble(pod);
      if (trouble === undefined) troubles.delete(name);
      else if (troubles.has(name) || troubles.size < MOST_PODS) {
        const revision = textOf(objectOf(labels)["controller-revision-hash"]);
        troubles.set(name, { ...trouble, name, revision });
      }
    };
    const labelSelector = labelSelectorText(of.selector);
    return this.#hub.subscribe(
      { resource: PODS, namespace: of.namespace, labelSelector },
      {
        begin: () => troubles.clear(),
        object: see,
        synced: changed,
        applied: (pod) => {
          see(pod);
          changed();
        },
        deleted: ({ metadata: { name } }) => {
          troubles.delete(name);
          changed();
        },
      },
    );
  }
}
