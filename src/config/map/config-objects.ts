/**
 * The objects with the configuration: the ConfigMap and its overlay, the operator's own ConfigMap or Secret for configuration that hooks write, which
 * callers see as text by key; and the Secret with the content that was accepted last (docs/guides/running.md, "An invalid ConfigMap").
 */

import { promisify } from "node:util";
import { gunzip, gzip } from "node:zlib";

import { canonicalJson, digest, oneLine, type Clock } from "../../base/index.ts";
import { CONFIG_MAPS, MANAGED_BY_OPERATOR, ObjectStore, SECRETS, toNamedSpec } from "../../kube/index.ts";
import { create, get, ignoreNotFound, isNotFound, mergePatch } from "../../kube/index.ts";
import type { ConfigMap, KubeAccess, Resource, Secret } from "../../kube/index.ts";
import type { Subscription, Target, WatchHub } from "../../kube/index.ts";
import { isJsonObject, objectOf, type JsonObject, type Overlay } from "../../base/model/index.ts";
import { Loop } from "../../runtime/index.ts";
import type { TriggerReport } from "../report.ts";

/** Data of an object, by key. */
type Texts<T extends string | null = string> = Readonly<Record<string, T>>;

/** A ConfigMap, or the overlay Secret with decoded `data`. */
export interface ConfigObject {
  readonly resourceVersion: string;
  readonly annotations?: Texts | undefined;
  readonly data?: Texts | undefined;
  /** Keys of `binaryData`, which the operator does not read. */
  readonly binaryKeys?: readonly string[] | undefined;
}

/** Label of what the operator creates. It must be set at the creation: an object created without a field of its own gets no `managedFields` of single keys. */
export const CREATED_BY_OPERATOR = { "app.kubernetes.io/created-by": "addon-operator" };

/** Where the ConfigMap and its overlay are, and tools to read and watch them. */
export interface ConfigLocation extends Omit<KubeAccess, "clock"> {
  readonly hub: WatchHub;
  /** Undefined = hooks write into the ConfigMap itself. Its name differs from the ConfigMap's. */
  readonly overlay: Overlay | undefined;
  readonly report?: Pick<TriggerReport, "ownWatchChanged"> | undefined;
}

interface CachedObject {
  readonly resource: Resource;
  readonly store: ObjectStore<ConfigObject>;
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
    return this.#getOrCreateEntry(name).store.get(this.#keyOf(name));
  }

  /** Returns the latest version like `getLatest`; after a deletion, the last content before it. */
  getLastKnown(name: string): ConfigObject | undefined {
    return this.#getOrCreateEntry(name).store.getLastKnown(this.#keyOf(name));
  }

  #keyOf(name: string): string {
    return `${this.#location.namespace}/${name}`;
  }

  /** Reads an object from the server (quorum read); undefined = it does not exist. */
  read(name: string): Promise<ConfigObject | undefined> {
    const { client, namespace } = this.#location;
    return this.#requestAndCache(name, (resource) =>
      get(client, { resource, namespace, name }).then(createDecoder(resource), ignoreNotFound),
    );
  }

  /** Creates an object with this data. Throws if it exists by now. */
  create(name: string, data?: Texts): Promise<ConfigObject> {
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

  /** Watches an object; calls `onChange` when it was changed or deleted. */
  watch(name: string, onChange: () => void): Subscription {
    const { hub, namespace, logger, report } = this.#location;
    const cachedObject = this.#getOrCreateEntry(name);
    const { resource, store } = cachedObject;
    cachedObject.onChange = onChange;
    return store.watch(hub, toNamedSpec(resource, { namespace, name }), {
      onChange,
      onError: (error) => {
        report?.ownWatchChanged(`${resource.kind} ${name}`, error);
        if (error !== undefined)
          logger.warn(`${resource.kind} cannot be watched`, { name, error: oneLine(error) });
      },
    });
  }

  /** The cache of the object with this name; created on first use. */
  #getOrCreateEntry(name: string): CachedObject {
    const { overlay } = this.#location;
    const existing = this.#cache.get(name);
    if (existing !== undefined) return existing;
    const resource = overlay?.kind === "Secret" && overlay.name === name ? SECRETS : CONFIG_MAPS;
    const store = new ObjectStore<ConfigObject>({ toStored: createDecoder(resource), keepsDeleted: true });
    const cachedObject: CachedObject = { resource, store, onChange: () => {} };
    this.#cache.set(name, cachedObject);
    return cachedObject;
  }

  /**
   * Sends a request for an object and puts the answer into the cache. If the answer shows that the object was deleted, calls
   * `onChange`: the watch reports the deletion only later.
   */
  async #requestAndCache<A extends ConfigObject | undefined>(
    name: string,
    request: (resource: Resource) => Promise<A>,
  ): Promise<A> {
    const cachedObject = this.#getOrCreateEntry(name);
    const before = this.getLatest(name);
    const answer = await cachedObject.store.fetchObject(this.#keyOf(name), () =>
      request(cachedObject.resource),
    );
    if (before !== undefined && this.getLatest(name) === undefined) cachedObject.onChange();
    return answer;
  }
}

/** Creates a function that decodes objects of this kind: the data of Secrets is base64, that of ConfigMaps text. */
function createDecoder(resource: Resource): (object: JsonObject) => ConfigObject {
  return (object) => {
    const { metadata, data, binaryData } = object as unknown as ConfigMap;
    const { resourceVersion, annotations } = metadata;
    const binaryKeys = binaryData && Object.keys(binaryData).sort();
    if (resource !== SECRETS || data === undefined) return { resourceVersion, annotations, data, binaryKeys };
    const texts = mapStrings(data, (text) => Buffer.from(text, "base64").toString("utf8"));
    return { resourceVersion, annotations, data: texts };
  };
}

/** Encodes data for an object of this kind: base64 for Secrets. */
const encodeData = <T extends string | null>(resource: Resource, data: Texts<T>) =>
  resource === SECRETS ? toBase64Data(data) : data;

/** Encodes data for a Secret. Null, which removes a key, stays null. */
export function toBase64Data<T extends string | null>(data: Texts<T>): Record<string, T> {
  return mapStrings(data, (text) => Buffer.from(text, "utf8").toString("base64"));
}

/** Changes each text; null, which removes a key, stays null. */
function mapStrings<T extends string | null>(data: Texts<T>, change: (text: string) => string) {
  const entries = Object.entries(data).map(([key, text]) => [key, text === null ? text : change(text)]);
  return Object.fromEntries(entries) as Record<string, T>;
}

/** Data of the ConfigMap and its overlay that were valid together. */
export interface AcceptedContent {
  readonly data: Texts;
  readonly overlay: Texts | undefined;
}

type AcceptedConfigOptions = Pick<ConfigLocation, "client" | "logger" | "namespace"> & {
  readonly clock: Clock;
  /** Name of the ConfigMap. */
  readonly name: string;
};

const CONTENT_KEY = "content.json.gz";
const RETRY_MS = 10_000;
/** Limit against a Secret that expands to endless content; a ConfigMap and its overlay contain at most 1 MiB each. */
const MAX_DECODED_BYTES = 16 * 1024 * 1024;

/**
 * The content that was accepted last, with which an operator that starts with an invalid ConfigMap can continue. It may contain passwords: it is
 * stored in a Secret, and no message quotes it.
 */
export class AcceptedConfig {
  readonly #options: AcceptedConfigOptions;
  readonly #secret: Target;
  /** The content that was accepted last. */
  #accepted: AcceptedContent | undefined;
  #writtenDigest: string | undefined;
  readonly #loop: Loop;

  constructor(options: AcceptedConfigOptions) {
    this.#options = options;
    const { namespace, name } = options;
    this.#secret = { resource: SECRETS, namespace, name: `addon-operator-${name}-accepted` };
    this.#loop = new Loop({
      clock: options.clock,
      run: () => this.#writeAccepted(),
      retry: RETRY_MS,
      onError: (error) => {
        const message =
          "The accepted content of the ConfigMap cannot be saved in its Secret; the write is retried";
        options.logger.warn(message, { secret: this.#secret.name, error: oneLine(error) });
      },
    });
  }

  /** Reads the stored content; undefined if nothing is stored. Throws ApiError, ConnectionError, and Error if the stored content cannot be decoded. */
  async read(): Promise<AcceptedContent | undefined> {
    const secret = await get<Secret>(this.#options.client, this.#secret).catch(ignoreNotFound);
    if (secret === undefined) return undefined;
    try {
      const compressed = Buffer.from(secret.data?.[CONTENT_KEY] ?? "", "base64");
      const text = await promisify(gunzip)(compressed, { maxOutputLength: MAX_DECODED_BYTES });
      const content: unknown = JSON.parse(text.toString());
      if (isAcceptedContent(content)) return content;
    } catch {
      // The cause could quote the content.
    }
    throw new Error(`Secret ${this.#secret.name}: its ${CONTENT_KEY} cannot be read; delete the Secret`);
  }

  /** Writes accepted content in the background and retries until it is written. Only the leader may call it. */
  save(content: AcceptedContent): void {
    this.#accepted = content;
    this.#loop.trigger();
  }

  /** Drops content that is not written yet. */
  close(): void {
    this.#loop.close();
  }

  /** Writes the newest content unless it is stored already. */
  async #writeAccepted(): Promise<void> {
    if (this.#accepted === undefined) return;
    const { data, overlay } = this.#accepted;
    // Sorted keys: equal content has an equal digest.
    const text = canonicalJson({ data: { ...data }, ...(overlay && { overlay: { ...overlay } }) });
    const contentDigest = digest(text);
    if (contentDigest === this.#writtenDigest) return;
    await this.#writeSecret((await promisify(gzip)(text)).toString("base64"));
    this.#writtenDigest = contentDigest;
  }

  /** Patches the Secret; creates it if it does not exist. */
  async #writeSecret(compressed: string): Promise<void> {
    const { client } = this.#options;
    const { name, namespace } = this.#secret;
    const data = { [CONTENT_KEY]: compressed };
    try {
      await mergePatch(client, this.#secret, { body: { data } });
    } catch (error) {
      if (!isNotFound(error)) throw error;
      const metadata = { name, namespace, labels: MANAGED_BY_OPERATOR };
      const body = { apiVersion: "v1", kind: "Secret", metadata, data };
      await create(client, { resource: SECRETS, namespace }, { body });
    }
  }
}

function isAcceptedContent(value: unknown): value is AcceptedContent {
  const { data, overlay } = objectOf(value);
  return isStringMap(data) && (overlay === undefined || isStringMap(overlay));
}

const isStringMap = (value: unknown): boolean =>
  isJsonObject(value) && Object.values(value).every((text) => typeof text === "string");
