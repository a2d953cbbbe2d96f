/** Watches the Secrets and ConfigMaps that hold values (docs/reference/values.md, "Values from Secrets"). */

import { CONFIG_MAPS, get, ignoreNotFound, ObjectStore, SECRETS } from "../kube/index.ts";
import type { ConfigMap, KubeClient, Secret, Subscription, WatchHub } from "../kube/index.ts";
import { oneLine, type Logger } from "../lib/index.ts";
import type { JsonObject } from "../model/index.ts";
import type { State } from "../state/index.ts";
import type { SourceContent, SourceObject } from "../values/index.ts";

interface ValuesSourcesOptions {
  readonly hub: WatchHub;
  readonly logger: Logger;
  readonly state: State;
}

type Data = Readonly<Record<string, Uint8Array>>;

/** The data of an object in one version. */
interface Versioned {
  readonly resourceVersion: string;
  readonly data: Data;
}

interface Followed {
  readonly store: ObjectStore<Versioned>;
  readonly subscription: Subscription;
}

/** Watches each wanted object by name, and records its content. Sources of one object share a watch. */
export class ValuesSources {
  readonly #options: ValuesSourcesOptions;
  readonly #followed = new Map<string, Followed>();
  #wanted: readonly SourceObject[] = [];
  #reported: ReadonlySet<string> = new Set();

  constructor(options: ValuesSourcesOptions) {
    this.#options = options;
    options.state.onChange(() => {
      this.#followWanted();
      this.#reportIssues();
    });
  }

  close(): void {
    for (const { subscription } of this.#followed.values()) subscription.close();
    this.#followed.clear();
  }

  /** Follows exactly the objects that the values name now. */
  #followWanted(): void {
    const { state } = this.#options;
    const { wanted } = state.values.sources;
    if (wanted === this.#wanted) return;
    this.#wanted = wanted;
    const titles = new Set(wanted.map(({ title }) => title));
    for (const [title, { subscription }] of this.#followed) {
      if (titles.has(title)) continue;
      subscription.close();
      this.#followed.delete(title);
      state.inputs.recordSource(title, undefined);
    }
    for (const object of wanted) if (!this.#followed.has(object.title)) this.#follow(object);
  }

  /** Logs each issue of the sources once, as long as it lasts. */
  #reportIssues(): void {
    const { state, logger } = this.#options;
    const { issues } = state.values.sources;
    for (const text of issues) if (!this.#reported.has(text)) logger.warn(text);
    this.#reported = new Set(issues);
  }

  /** Watches one object and records its content, or that it is missing or cannot be read. */
  #follow(object: SourceObject): void {
    const { hub, logger, state } = this.#options;
    const { namespace, name, title } = object;
    const { resource, decode } = resourceAndDecoder(object);
    const store = new ObjectStore<Versioned>({ keep: decode });
    const record = (): void => {
      if (!store.isSynced) return;
      const found = store.get(`${namespace}/${name}`);
      state.inputs.recordSource(title, found ?? MISSING);
    };
    const spec = {
      resource,
      namespace,
      fieldSelector: `metadata.name=${name}`,
    };
    const subscription = store.follow(hub, spec, {
      changed: record,
      synced: record,
      issue: (error) => {
        if (error === undefined) return;
        logger.warn(`${title} with values cannot be watched`, { error: oneLine(error) });
        // The last content stays while the server cannot be reached.
        if (!store.isSynced) state.inputs.recordSource(title, unreadable(error));
      },
    });
    this.#followed.set(title, { store, subscription });
  }
}

const MISSING: SourceContent = { lack: "does not exist" };

function unreadable(error: unknown): SourceContent {
  return { lack: `cannot be read: ${oneLine(error)}` };
}

/** Reads the wanted objects once, for a preview; content that `running` has is taken from there. */
export async function readValuesSources(client: KubeClient, state: State, running?: State): Promise<void> {
  for (const object of state.values.sources.wanted) {
    const known = running?.values.sources.contentOf(object.title);
    state.inputs.recordSource(object.title, known ?? (await readSource(client, object)));
  }
}

async function readSource(client: KubeClient, object: SourceObject): Promise<SourceContent> {
  const { resource, decode } = resourceAndDecoder(object);
  const { namespace, name } = object;
  try {
    const found = await get(client, { resource, namespace, name }).catch(ignoreNotFound);
    return found === undefined ? MISSING : decode(found);
  } catch (error) {
    return unreadable(error);
  }
}

function resourceAndDecoder({ kind }: SourceObject) {
  return kind === "Secret"
    ? { resource: SECRETS, decode: decodeSecret }
    : { resource: CONFIG_MAPS, decode: decodeConfigMap };
}

function decodeSecret(object: JsonObject): Versioned {
  const { metadata, data = {} } = object as unknown as Secret;
  const decoded = Object.entries(data).map(([key, text]) => [key, Buffer.from(text, "base64")] as const);
  return { resourceVersion: metadata.resourceVersion, data: Object.fromEntries(decoded) };
}

function decodeConfigMap(object: JsonObject): Versioned {
  const { metadata, data = {} } = object as unknown as ConfigMap;
  const encoded = Object.entries(data).map(([key, text]) => [key, Buffer.from(text)] as const);
  return { resourceVersion: metadata.resourceVersion, data: Object.fromEntries(encoded) };
}
