/**
 * Reads, creates, writes and watches the ConfigMap and its overlay: the operator's own ConfigMap or Secret for configuration that hooks write.
 * Callers see both as text by key.
 */

import { oneLine, type Logger } from "../../lib/index.ts";
import {
  CONFIG_MAPS,
  ObjectStore,
  SECRETS,
  create,
  get,
  ignoreNotFound,
  isLater,
  mergePatch,
} from "../../kube/index.ts";
import type { ConfigMap, KubeClient, Resource, Subscription, WatchHub } from "../../kube/index.ts";
import type { JsonObject, Overlay } from "../../model/index.ts";

/** A ConfigMap, or the overlay Secret with decoded `data`. */
export interface ConfigObject {
  readonly resourceVersion: string;
  readonly annotations?: Readonly<Record<string, string>> | undefined;
  readonly data?: Readonly<Record<string, string>> | undefined;
}

/** Label of what the operator creates. It must be set at the creation: an object created without a field of its own gets no `managedFields` of single keys. */
export const CREATED_BY_OPERATOR = { "app.kubernetes.io/created-by": "addon-operator" };

/** Where the ConfigMap and its overlay are, and tools to read and watch them. */
export interface ConfigLocation {
  readonly client: KubeClient;
  readonly hub: WatchHub;
  readonly logger: Logger;
  readonly namespace: string;
  /** Undefined = hooks write into the ConfigMap itself. Its name differs from the ConfigMap's. */
  readonly overlay: Overlay | undefined;
}

interface CachedObject {
  readonly resource: Resource;
  readonly store: ObjectStore<ConfigObject>;
  /** The last content before the object was deleted. */
  lastDeleted: ConfigObject | undefined;
  /** Called when the watch delivers another version, or when an event or an answer shows that the object is deleted. */
  onChange: () => void;
}

/** Access to the ConfigMap and its overlay by name, with a cache. Errors: ApiError, ConnectionError. */
export class ConfigObjects {
  readonly #location: ConfigLocation;
  readonly #cache = new Map<string, CachedObject>();

  constructor(location: ConfigLocation) {
    this.#location = location;
  }

  /** Returns the latest version that was read, written or watched; undefined = the object does not exist. */
  getLatest(name: string): ConfigObject | undefined {
    return this.#getOrCreateEntry(name).store.get(this.#toStoreKey(name));
  }

  /** Returns the latest version like `getLatest`; after a deletion, the last content before it. */
  getLastKnown(name: string): ConfigObject | undefined {
    return this.getLatest(name) ?? this.#getOrCreateEntry(name).lastDeleted;
  }

  /** Reads an object from the server (quorum read); undefined = it does not exist. */
  read(name: string): Promise<ConfigObject | undefined> {
    const { client, namespace } = this.#location;
    return this.#requestAndCache(name, (resource) =>
      get(client, { resource, namespace, name }).then(createDecoder(resource), ignoreNotFound),
    );
  }

  /** Creates an object with this data. Throws if it exists by now. */
  create(name: string, data?: Readonly<Record<string, string>>): Promise<ConfigObject> {
    const { client, namespace } = this.#location;
    const metadata = { name, namespace, labels: CREATED_BY_OPERATOR };
    return this.#requestAndCache(name, (resource) => {
      const { kind } = resource;
      const body = { apiVersion: "v1", kind, metadata, data: data && encodeData(resource, data) };
      return create(client, { resource, namespace }, { body }).then(createDecoder(resource));
    });
  }

  /** Writes exactly the one key that `data` has (null removes it). Throws a conflict if the object has another version by now. */
  writeKey(
    name: string,
    { resourceVersion }: ConfigObject,
    data: Record<string, string | null>,
  ): Promise<ConfigObject> {
    const { client, namespace } = this.#location;
    return this.#requestAndCache(name, (resource) => {
      const body = { metadata: { resourceVersion }, data: encodeData(resource, data) };
      return mergePatch(client, { resource, namespace, name }, { body }).then(createDecoder(resource));
    });
  }

  /** Watches an object; calls `onChange` when it was changed or deleted, and remembers the last content of a deleted object. */
  watch(name: string, onChange: () => void): Subscription {
    const { hub, namespace, logger } = this.#location;
    const cachedObject = this.#getOrCreateEntry(name);
    const { resource, store } = cachedObject;
    cachedObject.onChange = onChange;
    return store.watch(
      hub,
      { resource, namespace, fieldSelector: `metadata.name=${name}` },
      {
        onChange: (now, before) => {
          if (now === undefined && before !== undefined) cachedObject.lastDeleted = before;
          onChange();
        },
        onError: (error) => {
          if (error !== undefined)
            logger.warn(`${resource.kind} cannot be watched`, { name, error: oneLine(error) });
        },
      },
    );
  }

  /** The cache of the object with this name; created on first use. */
  #getOrCreateEntry(name: string): CachedObject {
    const { overlay } = this.#location;
    const existing = this.#cache.get(name);
    if (existing !== undefined) return existing;
    const resource = overlay?.kind === "Secret" && overlay.name === name ? SECRETS : CONFIG_MAPS;
    const store = new ObjectStore<ConfigObject>({ toStored: createDecoder(resource) });
    const cachedObject: CachedObject = { resource, store, lastDeleted: undefined, onChange: () => {} };
    this.#cache.set(name, cachedObject);
    return cachedObject;
  }

  #toStoreKey(name: string): string {
    return `${this.#location.namespace}/${name}`;
  }

  /**
   * Sends a request for an object and puts the answer into the cache. If the answer shows that the object was deleted, remembers
   * the last content and calls `onChange`: the watch reports the deletion only later.
   */
  async #requestAndCache<A extends ConfigObject | undefined>(
    name: string,
    request: (resource: Resource) => Promise<A>,
  ): Promise<A> {
    const cachedObject = this.#getOrCreateEntry(name);
    const before = this.getLatest(name);
    const answer = await cachedObject.store.fetchObject(this.#toStoreKey(name), () =>
      request(cachedObject.resource),
    );
    if (this.getLatest(name) !== undefined) return answer;
    // The answer is a 404, or older than a deletion that the watch has reported.
    cachedObject.lastDeleted = selectLater(cachedObject.lastDeleted, answer ?? before);
    if (before !== undefined) cachedObject.onChange();
    return answer;
  }
}

/** Returns the later of two versions: an answer that arrives after the watch reported the deletion may contain the last content. */
function selectLater(a: ConfigObject | undefined, b: ConfigObject | undefined): ConfigObject | undefined {
  if (a === undefined || b === undefined) return a ?? b;
  return isLater(b.resourceVersion, a.resourceVersion) ? b : a;
}

/** Creates a function that decodes objects of this kind: the data of Secrets is base64, that of ConfigMaps text. */
function createDecoder(resource: Resource): (object: JsonObject) => ConfigObject {
  return (object) => {
    const { metadata, data } = object as unknown as ConfigMap;
    const { resourceVersion, annotations } = metadata;
    if (resource !== SECRETS || data === undefined) return { resourceVersion, annotations, data };
    const texts = mapStrings(data, (text) => Buffer.from(text, "base64").toString("utf8"));
    return { resourceVersion, annotations, data: texts };
  };
}

/** Encodes data for an object of this kind: base64 for Secrets. */
function encodeData<T extends string | null>(
  resource: Resource,
  data: Readonly<Record<string, T>>,
): Readonly<Record<string, T>> {
  return resource === SECRETS ? toBase64Data(data) : data;
}

/** Encodes data for a Secret. Null, which removes a key, stays null. */
export function toBase64Data<T extends string | null>(data: Readonly<Record<string, T>>): Record<string, T> {
  return mapStrings(data, (text) => Buffer.from(text, "utf8").toString("base64"));
}

/** Changes each text; null, which removes a key, stays null. */
function mapStrings<T extends string | null>(
  data: Readonly<Record<string, T>>,
  change: (text: string) => string,
): Record<string, T> {
  const entries = Object.entries(data).map(([key, text]) => [key, text === null ? text : change(text)]);
  return Object.fromEntries(entries) as Record<string, T>;
}
