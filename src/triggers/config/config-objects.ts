/** Reads, creates, writes and watches the ConfigMap and its overlay. */

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

/** The server tracks field managers of single keys only if the object was created with an owned field. */
export const CREATED_BY_US = { "app.kubernetes.io/created-by": "addon-operator" };

export interface ConfigLocation {
  readonly client: KubeClient;
  readonly hub: WatchHub;
  readonly logger: Logger;
  readonly namespace: string;
  /** Undefined = hooks write into the ConfigMap itself. Its name differs from the ConfigMap's. */
  readonly overlay: Overlay | undefined;
}

interface Followed {
  readonly resource: Resource;
  readonly store: ObjectStore<ConfigObject>;
  /** The last content before the object was deleted. */
  lastDeleted: ConfigObject | undefined;
  /** Called when the watch brings another version, or when a watch event or an answer shows that the object is deleted. */
  changed: () => void;
}

/** Access to the ConfigMap and its overlay by name, with a cache. Errors: ApiError, ConnectionError. */
export class ConfigObjects {
  readonly #location: ConfigLocation;
  readonly #followed = new Map<string, Followed>();

  constructor(location: ConfigLocation) {
    this.#location = location;
  }

  /** The latest version that was read, written or watched; undefined = the object does not exist. */
  latest(name: string): ConfigObject | undefined {
    return this.#entry(name).store.get(this.#keyOf(name));
  }

  /** As `latest`; after a deletion, the last content. */
  lastKnown(name: string): ConfigObject | undefined {
    return this.latest(name) ?? this.#entry(name).lastDeleted;
  }

  /** Reads an object from the server (quorum read); undefined = it does not exist. */
  read(name: string): Promise<ConfigObject | undefined> {
    const { client, namespace } = this.#location;
    const { resource } = this.#entry(name);
    return this.#query(name, () =>
      get(client, { resource, namespace, name }).then(decoderOf(resource), ignoreNotFound),
    );
  }

  /** Creates an object with this data. Throws if it exists by now. */
  create(name: string, data?: Readonly<Record<string, string>>): Promise<ConfigObject> {
    const { client, namespace } = this.#location;
    const metadata = { name, namespace, labels: CREATED_BY_US };
    const { resource } = this.#entry(name);
    const body = {
      apiVersion: "v1",
      kind: resource.kind,
      metadata,
      data: data && encodedFor(resource, data),
    };
    return this.#query(name, () =>
      create(client, { resource, namespace }, { body }).then(decoderOf(resource)),
    );
  }

  /** Writes exactly one key (null removes it). Throws a conflict if the object has another version by now. */
  writeKey(
    name: string,
    { resourceVersion }: ConfigObject,
    data: Record<string, string | null>,
  ): Promise<ConfigObject> {
    const { client, namespace } = this.#location;
    const { resource } = this.#entry(name);
    const body = { metadata: { resourceVersion }, data: encodedFor(resource, data) };
    return this.#query(name, () =>
      mergePatch(client, { resource, namespace, name }, { body }).then(decoderOf(resource)),
    );
  }

  /** Watches an object; calls `changed` when it was changed or deleted. */
  follow(name: string, changed: () => void): Subscription {
    const { hub, namespace, logger } = this.#location;
    const followed = this.#entry(name);
    const { resource, store } = followed;
    followed.changed = changed;
    return store.follow(
      hub,
      { resource, namespace, fieldSelector: `metadata.name=${name}` },
      {
        changed: (now, before) => {
          if (now === undefined && before !== undefined) followed.lastDeleted = before;
          changed();
        },
        issue: (error) => {
          if (error !== undefined)
            logger.warn(`${resource.kind} cannot be watched`, { name, error: oneLine(error) });
        },
      },
    );
  }

  /** The cache of the object with this name; created on first use. */
  #entry(name: string): Followed {
    const { overlay } = this.#location;
    const known = this.#followed.get(name);
    if (known !== undefined) return known;
    const resource = overlay?.kind === "Secret" && overlay.name === name ? SECRETS : CONFIG_MAPS;
    const store = new ObjectStore<ConfigObject>({ keep: decoderOf(resource) });
    const followed: Followed = { resource, store, lastDeleted: undefined, changed: () => {} };
    this.#followed.set(name, followed);
    return followed;
  }

  #keyOf(name: string): string {
    return `${this.#location.namespace}/${name}`;
  }

  /** Sends a request about an object and puts the answer into the cache. Reports a deletion that the answer shows. */
  async #query<A extends ConfigObject | undefined>(name: string, request: () => Promise<A>): Promise<A> {
    const followed = this.#entry(name);
    const before = this.latest(name);
    const answer = await followed.store.ask(this.#keyOf(name), request);
    if (this.latest(name) !== undefined) return answer;
    followed.lastDeleted = laterOf(followed.lastDeleted, answer ?? before);
    if (before !== undefined) followed.changed();
    return answer;
  }
}

/** The later version: an answer that arrives after the watch reported the deletion may contain the last content. */
function laterOf(a: ConfigObject | undefined, b: ConfigObject | undefined): ConfigObject | undefined {
  if (a === undefined || b === undefined) return a ?? b;
  return isLater(b.resourceVersion, a.resourceVersion) ? b : a;
}

/** How an object of this kind is read: the data of Secrets is base64, that of ConfigMaps text. */
function decoderOf(resource: Resource): (object: JsonObject) => ConfigObject {
  return (object) => {
    const { metadata, data } = object as unknown as ConfigMap;
    const { resourceVersion, annotations } = metadata;
    if (resource !== SECRETS || data === undefined) return { resourceVersion, annotations, data };
    const texts = mapStrings(data, (text) => Buffer.from(text, "base64").toString("utf8"));
    return { resourceVersion, annotations, data: texts };
  };
}

/** The data as an object of this kind has it: base64 in Secrets. */
function encodedFor<T extends string | null>(
  resource: Resource,
  data: Readonly<Record<string, T>>,
): Readonly<Record<string, T>> {
  return resource === SECRETS ? base64Data(data) : data;
}

/** Data as a Secret has it: base64. Null, which removes a key, stays null. */
export function base64Data<T extends string | null>(data: Readonly<Record<string, T>>): Record<string, T> {
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
