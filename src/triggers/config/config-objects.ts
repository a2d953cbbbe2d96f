/** ConfigMaps and the overlay Secret as objects of the API. */

import { oneLine, type Logger } from "../../lib/index.ts";
import { CONFIG_MAPS, EARLIEST, SECRETS, create, get, isLater, isNotFound } from "../../kube/index.ts";
import { mergePatch } from "../../kube/index.ts";
import type { KubeClient, Resource, Subscription, WatchHub } from "../../kube/index.ts";
import type { JsonObject, Overlay } from "../../model/index.ts";

/** What is read of a ConfigMap, or of the overlay Secret, whose `data` is decoded. */
export interface ConfigObject {
  readonly metadata: {
    readonly resourceVersion: string;
    readonly uid?: string;
    readonly annotations?: Readonly<Record<string, string>>;
  };
  readonly data?: Readonly<Record<string, string>>;
}

/** The server tracks the ownership of single keys only if the object was created with an owned field. */
export const CREATED_BY_US = { "app.kubernetes.io/created-by": "addon-operator" };

/** Where the ConfigMaps are. */
export interface ConfigLocation {
  readonly client: KubeClient;
  readonly hub: WatchHub;
  readonly logger: Logger;
  readonly namespace: string;
  /** Undefined = hooks write into the ConfigMap itself. Never has the ConfigMap's name. */
  readonly overlay: Overlay | undefined;
}

/** The last that is known of a ConfigMap. */
interface Latest {
  /** The latest version seen, also of one that is gone. */
  readonly version: string;
  readonly object: ConfigObject | undefined;
  /** The latest that was there, also when it is gone. */
  readonly last: ConfigObject | undefined;
}

/**
 * ConfigMaps as objects of the API: read, created, written key by key, watched. Answers and watch events overtake
 * each other, so the known version only moves forward, unless the server was put back: an older one is ignored. Errors: ApiError, ConnectionError.
 */
export class ConfigObjects {
  readonly #location: ConfigLocation;
  readonly #latest = new Map<string, Latest>();
  /** How often the watch reported a ConfigMap. */
  readonly #told = new Map<string, number>();

  constructor(location: ConfigLocation) {
    this.#location = location;
  }

  /** The latest version that was read, written or watched; undefined = there is none. */
  latest(name: string): ConfigObject | undefined {
    return this.#latest.get(name)?.object;
  }

  /** As `latest`; for one that is gone, its last content. */
  last(name: string): ConfigObject | undefined {
    return this.#latest.get(name)?.last;
  }

  /** Reads a ConfigMap anew (quorum read); undefined = there is none. */
  async read(name: string): Promise<ConfigObject | undefined> {
    const { client, namespace } = this.#location;
    const told = this.#told.get(name);
    try {
      const target = { resource: this.#resource(name), namespace, name };
      return this.#remember(name, this.#decoded(name, await get(client, target)));
    } catch (error) {
      if (!isNotFound(error)) throw error;
      // Where the watch has reported something meanwhile, that counts.
      if (told === this.#told.get(name)) this.#forget(name, undefined);
      return undefined;
    }
  }

  async create(name: string, data?: Readonly<Record<string, string>>): Promise<ConfigObject> {
    const { client, namespace } = this.#location;
    const metadata = { name, namespace, labels: CREATED_BY_US };
    const resource = this.#resource(name);
    const body = { apiVersion: "v1", kind: resource.kind, metadata, data: this.#encoded(name, data) };
    return this.#remember(name, this.#decoded(name, await create(client, { resource, namespace }, { body })));
  }

  /** Writes exactly one key (null removes it) of the version that was read; a conflict when it has moved. */
  async writeKey(
    name: string,
    read: ConfigObject,
    data: Record<string, string | null>,
  ): Promise<ConfigObject> {
    const { client, namespace } = this.#location;
    const target = { resource: this.#resource(name), namespace, name };
    const { resourceVersion } = read.metadata;
    const body = { metadata: { resourceVersion }, data: this.#encoded(name, data) };
    return this.#remember(name, this.#decoded(name, await mergePatch(client, target, { body })));
  }

  /** Calls back when there is another `latest`, or none. */
  follow(name: string, changed: () => void): Subscription {
    const { hub, namespace, logger } = this.#location;
    const tell = (act: () => void): void => {
      this.#told.set(name, (this.#told.get(name) ?? 0) + 1);
      const before = this.#latest.get(name);
      act();
      if (this.#latest.get(name) !== before) changed();
    };
    const seen = (object: JsonObject): void => tell(() => this.#remember(name, this.#decoded(name, object)));
    let listed = false;
    return hub.subscribe(
      { resource: this.#resource(name), namespace, fieldSelector: `metadata.name=${name}` },
      {
        begin: () => void (listed = false),
        object: (object) => {
          listed = true;
          seen(object);
        },
        synced: () => {
          if (!listed) tell(() => this.#forget(name, undefined));
        },
        applied: seen,
        relisted: (keys, version) => {
          if (keys.size === 0) tell(() => this.#forget(name, version));
        },
        putBack: () => {
          const latest = this.#latest.get(name);
          if (latest !== undefined) this.#latest.set(name, { ...latest, version: EARLIEST });
        },
        deleted: ({ metadata }) => tell(() => this.#forget(name, metadata.resourceVersion)),
        trouble: (error) => {
          if (error !== undefined)
            logger.warn(`${this.#resource(name).kind} cannot be watched`, { name, error: oneLine(error) });
        },
      },
    );
  }

  #isSecret(name: string): boolean {
    const { overlay } = this.#location;
    return overlay?.kind === "Secret" && overlay.name === name;
  }

  #resource(name: string): Resource {
    return this.#isSecret(name) ? SECRETS : CONFIG_MAPS;
  }

  #encoded(name: string, data: Data | undefined): Data | undefined {
    return data !== undefined && this.#isSecret(name) ? encoded(data) : data;
  }

  #decoded(name: string, object: JsonObject): ConfigObject {
    const config = object as unknown as ConfigObject;
    if (config.data === undefined || !this.#isSecret(name)) return config;
    const { metadata, data } = config;
    return { metadata, data: mapTexts(data, (text) => Buffer.from(text, "base64").toString("utf8")) };
  }

  #remember(name: string, object: ConfigObject): ConfigObject {
    const version = object.metadata.resourceVersion;
    if (!this.#isPast(name, version)) this.#latest.set(name, { version, object, last: object });
    else this.#missed(name, object);
    return object;
  }

  /** An answer that was overtaken by the news of the deletion: it holds the last content. */
  #missed(name: string, object: ConfigObject): void {
    const latest = this.#latest.get(name);
    if (latest === undefined || latest.object !== undefined) return;
    const isLast =
      latest.last === undefined ||
      isLater(object.metadata.resourceVersion, latest.last.metadata.resourceVersion);
    if (isLast) this.#latest.set(name, { ...latest, last: object });
  }

  /** It is gone since `version`, where that is known. */
  #forget(name: string, version: string | undefined): void {
    if (version !== undefined && this.#isPast(name, version)) return;
    this.#latest.set(name, {
      version: version ?? this.#latest.get(name)?.version ?? "",
      object: undefined,
      last: this.#latest.get(name)?.last,
    });
  }

  #isPast(name: string, version: string): boolean {
    const latest = this.#latest.get(name);
    return latest !== undefined && isLater(latest.version, version);
  }
}

type Data = Readonly<Record<string, string | null>>;

/** Data as a Secret has it: base64; null, which removes a key, stays. */
export function encoded<T extends string | null>(data: Readonly<Record<string, T>>): Record<string, T> {
  return mapTexts(data, (text) => Buffer.from(text, "utf8").toString("base64"));
}

function mapTexts<T extends string | null>(
  data: Readonly<Record<string, T>>,
  change: (text: string) => string,
): Record<string, T> {
  const entries = Object.entries(data).map(([key, text]) => [key, text === null ? text : change(text)]);
  return Object.fromEntries(entries) as Record<string, T>;
}
