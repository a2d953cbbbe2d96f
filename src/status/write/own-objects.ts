/** Cache of the operator's own objects, filled from watches and answers. */

import { ObjectStore, splitKey, type WatchedObject, type WatchHub } from "../../kube/index.ts";
import type { AddonObject } from "../models/kinds.ts";
import { liveAfter, type ObjectId, type StoredObject } from "./mirrored.ts";
import { listStatusObjects, RESOURCES, type StatusClient } from "./objects.ts";

/** The AddonOperator first: modules carry a reference to it. */
const KINDS = ["AddonOperator", "AddonModule"] as const;

/** The AddonModules of the namespace, and the AddonOperator of this operator. */
export class OwnObjects {
  readonly #api: StatusClient;
  readonly #stores: Readonly<Record<ObjectId["kind"], ObjectStore<StoredObject>>>;

  constructor(api: StatusClient) {
    this.#api = api;
    const keep = (object: WatchedObject, before: StoredObject | undefined): StoredObject | undefined => {
      const isForeign = object.kind === "AddonOperator" && object.metadata.name !== api.operatorName;
      return isForeign ? undefined : liveAfter(before, object as unknown as AddonObject);
    };
    this.#stores = {
      AddonOperator: new ObjectStore({ toStored: keep }),
      AddonModule: new ObjectStore({ toStored: keep }),
    };
  }

  get(id: ObjectId): StoredObject | undefined {
    return this.#stores[id.kind].get(this.#keyOf(id));
  }

  /** All cached objects, the AddonOperator first. */
  all(): [id: ObjectId, object: StoredObject][] {
    return KINDS.flatMap((kind) => this.#entriesOf(kind));
  }

  /** Reads all of them. Throws API errors: a missing CRD has status 404. */
  async load(): Promise<void> {
    for (const kind of KINDS) await this.#stores[kind].fetchList(() => listStatusObjects(this.#api, kind));
  }

  /** Sends a request about an object, records the answer and returns it. */
  request(id: ObjectId, request: () => Promise<StoredObject | undefined>): Promise<StoredObject | undefined> {
    return this.#stores[id.kind].fetchObject(this.#keyOf(id), request);
  }

  /** Watches the objects and calls `changed` for each event. Returns a function that ends the watches. */
  follow(
    hub: Pick<WatchHub, "subscribe">,
    changed: (id: ObjectId, now: StoredObject | undefined) => void,
  ): () => void {
    const { namespace } = this.#api;
    const subscriptions = KINDS.map((kind) =>
      this.#stores[kind].watch(
        hub,
        { resource: RESOURCES[kind], namespace },
        {
          onChange: (now, _, key) => changed({ kind, name: splitKey(key).name }, now),
          onEtcdRestored: () => this.#entriesOf(kind).forEach(([id, object]) => changed(id, object)),
        },
      ),
    );
    return () => {
      for (const subscription of subscriptions) subscription.close();
    };
  }

  #entriesOf(kind: ObjectId["kind"]): [ObjectId, StoredObject][] {
    return [...this.#stores[kind].entries()].map(([key, object]) => [
      { kind, name: splitKey(key).name },
      object,
    ]);
  }

  #keyOf({ name }: ObjectId): string {
    return `${this.#api.namespace}/${name}`;
  }
}
