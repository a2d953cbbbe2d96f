/** The AddonModules, the AddonOperator and the ModuleSources on the server: reads, writes and watches them, and caches their newest version. */

import { helmMetadata } from "../../helm/index.ts";
import {
  MANAGED_BY_OPERATOR,
  ObjectStore,
  type KubeClient,
  type NamedMeta,
  type OwnerReference,
  type Target,
  type WatchedObject,
  type WatchHub,
  create,
  get,
  ignoreNotFound,
  isAlreadyExists,
  jsonPatch,
  mergePatch,
  pathOf,
  remove,
  splitKey,
} from "../../kube/index.ts";
import { AddonModule } from "../models/addon-module.ts";
import { AddonOperator } from "../models/addon-operator.ts";
import {
  ADDON_MODULES,
  ADDON_OPERATORS,
  API_VERSION,
  MODULE_SOURCES,
  type AddonObject,
} from "../models/kinds.ts";
import { findAnnotationsToRemove, buildWantedStatus } from "./mirrored.ts";
import type { ObjectId, MirroredObject, OwnerMarks, WriteStep } from "./mirrored.ts";
import { toStoredAddonObject, updateStoredObject, type StoredAddonObject } from "./stored-object.ts";

/** The helm release of the operator's own chart, which can then take over an AddonOperator that was created here. */
export interface HelmRelease {
  readonly name: string;
  readonly namespace: string;
}

/** Where the objects are and which operator they belong to. */
export interface StatusApi {
  readonly client: KubeClient;
  readonly namespace: string;
  /** Name of the AddonOperator: the ConfigMap's. */
  readonly operatorName: string;
  readonly helmRelease?: HelmRelease | undefined;
  readonly signal: AbortSignal;
}

const RESOURCES = {
  AddonModule: ADDON_MODULES,
  AddonOperator: ADDON_OPERATORS,
  ModuleSource: MODULE_SOURCES,
};
/** The kinds that the operator creates. The AddonOperator first: modules carry a reference to it. */
const OWN_KINDS = ["AddonOperator", "AddonModule"] as const;
/** Limit of one read or write of one object. */
const CALL_TIMEOUT_MS = 10_000;
const LIST_TIMEOUT_MS = 30_000;

/** The AddonModules and ModuleSources of the namespace, and the AddonOperator of this operator. Reads and writes throw API errors. */
export class OwnObjects {
  readonly #api: StatusApi;
  readonly #stores: Readonly<Record<ObjectId["kind"], ObjectStore<StoredAddonObject>>>;
  /** Whether the first list of each watch is complete or has failed; pending until then. */
  readonly #firstLists = new Map<ObjectId["kind"], Promise<boolean>>();
  readonly #callOptions: { readonly signal: AbortSignal; readonly timeoutMs: number };

  /** Reads nothing yet. An AddonOperator of another name in the namespace belongs to another operator, so the cache omits it. */
  constructor(api: StatusApi) {
    this.#api = api;
    this.#callOptions = { signal: api.signal, timeoutMs: CALL_TIMEOUT_MS };
    const toStored = (
      object: WatchedObject,
      before: StoredAddonObject | undefined,
    ): StoredAddonObject | undefined => {
      const isOtherOperator = object.kind === "AddonOperator" && object.metadata.name !== api.operatorName;
      return isOtherOperator ? undefined : updateStoredObject(before, object as unknown as AddonObject);
    };
    this.#stores = {
      AddonOperator: new ObjectStore({ toStored }),
      AddonModule: new ObjectStore({ toStored }),
      ModuleSource: new ObjectStore({ toStored }),
    };
  }

  /** The cached object; undefined if there is none on the server. */
  get(id: ObjectId): StoredAddonObject | undefined {
    return this.#stores[id.kind].get(this.#storeKey(id));
  }

  /**
   * Returns all objects of the kinds that the operator creates, once the first lists of their watches are complete. Lists the objects of a kind itself if
   * it is not watched, or its watch fails. Throws an ApiError 404 if a CRD is missing.
   */
  async loadObjects(): Promise<[id: ObjectId, object: StoredAddonObject][]> {
    for (const kind of OWN_KINDS) {
      const isListed = await this.#firstLists.get(kind);
      if (isListed !== true) await this.#listObjects(kind);
    }
    return OWN_KINDS.flatMap((kind) =>
      [...this.#stores[kind].entries()].map(([key, object]): [ObjectId, StoredAddonObject] => [
        { kind, name: splitKey(key).name },
        object,
      ]),
    );
  }

  /** Lists the objects of a kind into the cache. */
  #listObjects(kind: ObjectId["kind"]): Promise<void> {
    const { client, namespace, signal } = this.#api;
    const path = pathOf(RESOURCES[kind], { namespace });
    return this.#stores[kind].fetchList(async () => {
      const request = { path, signal, timeoutMs: LIST_TIMEOUT_MS };
      const list = await client.json<{ items: WatchedObject[]; metadata?: NamedMeta }>(request);
      // The server leaves out the kind of the items of a list.
      const items = list.items.map((item) => ({ ...item, kind }));
      return { items, resourceVersion: list.metadata?.resourceVersion ?? "" };
    });
  }

  /**
   * Watches the objects of these kinds, and calls `onChange` for each changed or deleted (`undefined`) object. Returns a function that ends the watches.
   */
  watchObjects(
    hub: Pick<WatchHub, "subscribe">,
    onChange: (id: ObjectId, now: StoredAddonObject | undefined) => void,
    kinds: readonly ObjectId["kind"][] = OWN_KINDS,
  ): () => void {
    const { namespace } = this.#api;
    const subscriptions = kinds.map((kind) => {
      const { promise, resolve } = Promise.withResolvers<boolean>();
      this.#firstLists.set(kind, promise);
      return this.#stores[kind].watch(
        hub,
        { resource: RESOURCES[kind], namespace },
        {
          onChange: (now, _, key) => onChange({ kind, name: splitKey(key).name }, now),
          onSynced: () => resolve(true),
          onError: () => resolve(false),
        },
      );
    });
    return () => {
      for (const subscription of subscriptions) subscription.close();
    };
  }

  /** Reads the object from the server into the cache. */
  async readObject(id: ObjectId): Promise<void> {
    await this.#recordAnswer(id, () => this.#getObject(id));
  }

  /** Executes one step for an object, and records the answer in the cache. */
  async writeObject(mirrored: MirroredObject, step: WriteStep, marks: OwnerMarks): Promise<void> {
    await this.#recordAnswer(mirrored.id, () => this.#executeStep(mirrored, step, marks));
  }

  /** Sends a request about an object, and stores the object of the answer in the cache; undefined = it does not exist. */
  #recordAnswer(id: ObjectId, request: () => Promise<StoredAddonObject | undefined>): Promise<unknown> {
    return this.#stores[id.kind].fetchObject(this.#storeKey(id), request);
  }

  async #getObject(id: ObjectId): Promise<StoredAddonObject | undefined> {
    const answer = get<AddonObject>(this.#api.client, this.#targetOf(id), this.#callOptions);
    const object = await answer.catch(ignoreNotFound);
    return object === undefined ? undefined : toStoredAddonObject(object);
  }

  /** Creates or removes an object, or writes its status or its metadata and spec. Returns the object afterwards; undefined = deleted. */
  async #executeStep(
    mirrored: MirroredObject,
    step: WriteStep,
    marks: OwnerMarks,
  ): Promise<StoredAddonObject | undefined> {
    const { liveObject } = mirrored;
    if (step === "create" || liveObject === undefined) return this.#createObject(mirrored, marks);
    if (step === "status") return this.#replaceStatus(mirrored, liveObject);
    if (step === "patch") return this.#patchObject(mirrored, liveObject, marks);
    const { uid, resourceVersion } = liveObject;
    const options = { ...this.#callOptions, preconditions: { uid, resourceVersion } };
    await remove(this.#api.client, this.#targetOf(mirrored.id), options);
    return undefined;
  }

  /** Writes metadata and spec. The resourceVersion makes the call fail if the object has changed: another operator may have labelled it as its own. */
  async #patchObject(
    mirrored: MirroredObject,
    liveObject: StoredAddonObject,
    marks: OwnerMarks,
  ): Promise<StoredAddonObject> {
    const { resourceVersion, otherOwners } = liveObject;
    const metadata = { resourceVersion, ...this.#buildOwnerMetadata(marks, otherOwners) };
    const namesToRemove = findAnnotationsToRemove(liveObject, mirrored);
    // In a merge patch, null removes a member.
    const annotations = Object.fromEntries(namesToRemove.map((name) => [name, null]));
    const body = {
      metadata: namesToRemove.length === 0 ? metadata : { ...metadata, annotations },
      spec: mirrored.wantedSpec,
    };
    const options = { ...this.#callOptions, body };
    return toStoredAddonObject(
      await mergePatch<AddonObject>(this.#api.client, this.#targetOf(mirrored.id), options),
    );
  }

  /**
   * Replaces the status. The resourceVersion makes the call fail if the object has changed. The result has the status as it was sent,
   * although the server drops fields that an older CRD does not know: otherwise the operator would write these again and again.
   */
  async #replaceStatus(mirrored: MirroredObject, liveObject: StoredAddonObject): Promise<StoredAddonObject> {
    const status = buildWantedStatus(mirrored, liveObject);
    // A JSON patch: a merge patch cannot set a value to null. Server-side apply fails on a field that the CRD does not know, and keeps
    // fields that others have added.
    const body = [
      { op: "replace", path: "/metadata/resourceVersion", value: liveObject.resourceVersion },
      { op: "add", path: "/status", value: status },
    ];
    const target: Target = { ...this.#targetOf(mirrored.id), subresource: "status" };
    const options = { ...this.#callOptions, body };
    return {
      ...toStoredAddonObject(await jsonPatch<AddonObject>(this.#api.client, target, options)),
      status,
    };
  }

  /** Creates the object; if it exists already (it may be of another operator), reads it instead. */
  async #createObject(mirrored: MirroredObject, marks: OwnerMarks): Promise<StoredAddonObject | undefined> {
    const { client, namespace } = this.#api;
    const { kind } = mirrored.id;
    const body = kind === "AddonModule" ? this.#buildNewModule(mirrored, marks) : this.#buildNewOperator();
    const collection = { resource: RESOURCES[kind], namespace };
    try {
      const options = { ...this.#callOptions, body: body.toJSON() };
      return toStoredAddonObject(await create<AddonObject>(client, collection, options));
    } catch (error) {
      if (isAlreadyExists(error)) return this.#getObject(mirrored.id);
      throw error;
    }
  }

  /** The AddonModule to create. It has no status, because a create ignores the status, which is a subresource. */
  #buildNewModule({ id: { name }, wantedSpec: spec }: MirroredObject, marks: OwnerMarks): AddonModule {
    const metadata = { name, namespace: this.#api.namespace, ...this.#buildOwnerMetadata(marks) };
    return new AddonModule({ metadata, ...(spec === undefined ? {} : { spec }) });
  }

  /** The AddonOperator to create, with the labels and annotations of the operator's helm release, so that helm can adopt it. */
  #buildNewOperator(): AddonOperator {
    const { operatorName: name, namespace, helmRelease: release } = this.#api;
    const marks: Pick<NamedMeta, "labels" | "annotations"> =
      release === undefined ? { labels: MANAGED_BY_OPERATOR } : helmMetadata(release.name, release.namespace);
    return new AddonOperator({ metadata: { name, namespace, ...marks }, spec: {} });
  }

  /** Labels and owner references of an AddonModule. `others`: references to owners that others have set, which stay. The uid of the AddonOperator may be unknown. */
  #buildOwnerMetadata(
    { labels, ownerUid }: OwnerMarks,
    others: readonly OwnerReference[] = [],
  ): Pick<NamedMeta, "labels" | "ownerReferences"> {
    if (ownerUid === undefined) return { labels };
    const owner: OwnerReference = {
      apiVersion: API_VERSION,
      kind: "AddonOperator",
      name: this.#api.operatorName,
      uid: ownerUid,
      // An object can have one controller only.
      controller: !others.some(({ controller }) => controller === true),
      blockOwnerDeletion: false,
    };
    return { labels, ownerReferences: [...others, owner] };
  }

  #targetOf({ kind, name }: ObjectId): Target {
    return { resource: RESOURCES[kind], namespace: this.#api.namespace, name };
  }

  #storeKey({ name }: ObjectId): string {
    return `${this.#api.namespace}/${name}`;
  }
}
