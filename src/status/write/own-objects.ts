/** Cache of the operator's own objects, filled from watches and answers. */

import { ObjectStore, splitKey, type WatchedObject, type WatchHub } from "../../kube/index.ts";
import type { AddonObject } from "../models/kinds.ts";
import { updateStoredObject, type ObjectId, type StoredObject } from "./mirrored.ts";
import { listStatusObjects, RESOURCES, type StatusClient } from "./objects.ts";

/** The AddonOperator first: modules carry a reference to it. */
const KINDS = ["AddonOperator", "AddonModule"] as const;

/** Cache of the AddonModules of the namespace, and of the AddonOperator of this operator. */
export class OwnObjects {
  readonly #api: StatusClient;
  readonly #stores: Readonly<Record<ObjectId["kind"], ObjectStore<StoredObject>>>;

  constructor(api: StatusClient) {
    this.#api = api;
    const toStored = (object: WatchedObject, before: StoredObject | undefined): StoredObject | undefined => {
      const isOtherOperator = object.kind === "AddonOperator" && object.metadata.name !== api.operatorName;
      return isOtherOperator ? undefined : updateStoredObject(before, object as unknown as AddonObject);
    };
    this.#stores = {
      AddonOperator: new ObjectStore({ toStored }),
      AddonModule: new ObjectStore({ toStored }),
    };
  }

  /** The cached object; undefined if there is none on the server. */
  get(id: ObjectId): StoredObject | undefined {
    return this.#stores[id.kind].get(this.#storeKey(id));
  }

  /** All cached objects, the AddonOperator first. */
  listObjects(): [id: ObjectId, object: StoredObject][] {
    return KINDS.flatMap((kind) => this.#listObjectsOfKind(kind));
  }

  /** Reads all objects from the server into the cache. Throws API errors: a missing CRD has status 404. */
  async loadObjects(): Promise<void> {
    for (const kind of KINDS) await this.#stores[kind].fetchList(() => listStatusObjects(this.#api, kind));
  }

  /** Sends a request about an object, stores the answer in the cache and returns it. */
  sendRequest(
    id: ObjectId,
    request: () => Promise<StoredObject | undefined>,
  ): Promise<StoredObject | undefined> {
    return this.#stores[id.kind].fetchObject(this.#storeKey(id), request);
  }

  /**
   * Watches the objects, and calls `onChange` for each changed or deleted object; after a restore of etcd for all, whose content
   * is older than what was written. Returns a function that ends the watches.
   */
  watchObjects(
    hub: Pick<WatchHub, "subscribe">,
    onChange: (id: ObjectId, now: StoredObject | undefined) => void,
  ): () => void {
    const { namespace } = this.#api;
    const subscriptions = KINDS.map((kind) =>
      this.#stores[kind].watch(
        hub,
        { resource: RESOURCES[kind], namespace },
        {
          onChange: (now, _, key) => onChange({ kind, name: splitKey(key).name }, now),
          onEtcdRestored: () => this.#listObjectsOfKind(kind).forEach(([id, object]) => onChange(id, object)),
        },
      ),
    );
    return () => {
      for (const subscription of subscriptions) subscription.close();
    };
  }

  /** The cached objects of one kind. */
  #listObjectsOfKind(kind: ObjectId["kind"]): [ObjectId, StoredObject][] {
    return [...this.#stores[kind].entries()].map(([key, object]) => [
      { kind, name: splitKey(key).name },
      object,
    ]);
  }

  #storeKey({ name }: ObjectId): string {
    return `${this.#api.namespace}/${name}`;
  }
}
