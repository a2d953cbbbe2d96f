import { oneLine } from "../lib/index.ts";
import type { Logger } from "../lib/index.ts";
import { CONFIG_MAPS, create, get, isLater, isNotFound, mergePatch } from "../kube/index.ts";
import type { KubeClient, Subscription, WatchHub } from "../kube/index.ts";
import type { JsonObject } from "../model/index.ts";

/** What we read of a ConfigMap object. */
export interface ConfigObject {
  readonly metadata: { readonly resourceVersion: string; readonly uid?: string };
  readonly data?: Readonly<Record<string, string>>;
}

/** The server follows who owns which key only in an object of which somebody owned something from the start. */
const CREATED_BY_US = { "app.kubernetes.io/created-by": "addon-operator" };

/** Where the ConfigMaps are. */
export interface ConfigHome {
  readonly client: KubeClient;
  readonly hub: WatchHub;
  readonly logger: Logger;
  readonly namespace: string;
}

/** ConfigMaps as objects of the API: read, created, written key by key, followed. Errors: ApiError, ConnectionError. */
export class ConfigObjects {
  readonly #home: ConfigHome;
  /** What a watch tells of older versions than we have read or written ourselves is an echo of the past. */
  readonly #newest = new Map<string, ConfigObject>();

  constructor(home: ConfigHome) {
    this.#home = home;
  }

  /** Reads a ConfigMap anew (quorum read); undefined = there is none. */
  async read(name: string): Promise<ConfigObject | undefined> {
    const { client, namespace } = this.#home;
    try {
      const target = { resource: CONFIG_MAPS, namespace, name };
      return this.#remember(name, await get<ConfigObject & JsonObject>(client, target));
    } catch (error) {
      if (isNotFound(error)) return undefined;
      throw error;
    }
  }

  async create(name: string, data?: Readonly<Record<string, string>>): Promise<ConfigObject> {
    const { client, namespace } = this.#home;
    const metadata = { name, namespace, labels: CREATED_BY_US };
    const body = { apiVersion: "v1", kind: "ConfigMap", metadata, data };
    const target = { resource: CONFIG_MAPS, namespace };
    return this.#remember(name, await create<ConfigObject & JsonObject>(client, target, { body }));
  }

  /** Writes exactly one key (null removes it) of the version that was read; a conflict when it has moved. */
  async writeKey(
    name: string,
    read: ConfigObject,
    data: Record<string, string | null>,
  ): Promise<ConfigObject> {
    const { client, namespace } = this.#home;
    const target = { resource: CONFIG_MAPS, namespace, name };
    const body = { metadata: { resourceVersion: read.metadata.resourceVersion }, data };
    return this.#remember(name, await mergePatch<ConfigObject & JsonObject>(client, target, { body }));
  }

  /** Calls back with each new version, and with undefined when there is none (any more). */
  follow(name: string, see: (object: ConfigObject | undefined) => void): Subscription {
    const { hub, namespace, logger } = this.#home;
    const seen = (object: JsonObject): void => {
      const config = object as unknown as ConfigObject;
      if (!this.#isPast(name, config)) see(config);
    };
    let listed = false;
    return hub.subscribe(
      { resource: CONFIG_MAPS, namespace, fieldSelector: `metadata.name=${name}` },
      {
        begin: () => void (listed = false),
        object: (object) => {
          listed = true;
          seen(object);
        },
        synced: () => {
          if (!listed) see(undefined);
        },
        applied: seen,
        deleted: () => see(undefined),
        trouble: (error) => {
          if (error !== undefined)
            logger.warn("ConfigMap cannot be watched", { configMap: name, error: oneLine(error) });
        },
      },
    );
  }

  #remember(name: string, object: ConfigObject): ConfigObject {
    this.#newest.set(name, object);
    return object;
  }

  #isPast(name: string, { metadata }: ConfigObject): boolean {
    const newest = this.#newest.get(name)?.metadata;
    if (newest === undefined || newest.uid !== metadata.uid) return false;
    return isLater(newest.resourceVersion, metadata.resourceVersion);
  }
}
