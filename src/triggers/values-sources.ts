/**
 * Watches the Secrets and ConfigMaps to which configured values refer (docs/reference/values.md, "Values from Secrets"). The state computes
 * which objects it needs, by title (`Secret ops/db`), and gets the content of each: its data, or why there is none.
 */

import { CONFIG_MAPS, get, ignoreNotFound, ObjectStore, SECRETS } from "../kube/index.ts";
import type { ConfigMap, KubeClient, Subscription, WatchHub } from "../kube/index.ts";
import { oneLine, type Logger } from "../lib/index.ts";
import type { JsonObject } from "../model/index.ts";
import type { State } from "../state/index.ts";
import type { SourceContent, SourceObject } from "../values/index.ts";

interface ValuesSourcesOptions {
  readonly hub: WatchHub;
  readonly logger: Logger;
  readonly state: State;
}

/** The decoded data of an object in one version. */
interface VersionedData {
  readonly resourceVersion: string;
  readonly data: Readonly<Record<string, Uint8Array>>;
}

/** Watches each Secret and ConfigMap that the values refer to, by name, and records its content. References to one object share a watch. */
export class ValuesSources {
  readonly #options: ValuesSourcesOptions;
  /** The watches by title of the object. */
  readonly #watches = new Map<string, Subscription>();
  #watchedObjects: readonly SourceObject[] = [];
  #loggedIssues: ReadonlySet<string> = new Set();

  constructor(options: ValuesSourcesOptions) {
    this.#options = options;
    options.state.onChange(() => {
      this.#updateWatches();
      this.#logNewIssues();
    });
  }

  close(): void {
    for (const subscription of this.#watches.values()) subscription.close();
    this.#watches.clear();
  }

  /** Opens and closes watches, so that exactly the objects that the values refer to are watched. */
  #updateWatches(): void {
    const { state } = this.#options;
    const { neededObjects } = state.values.sources;
    // The state replaces the list when it changes.
    if (neededObjects === this.#watchedObjects) return;
    this.#watchedObjects = neededObjects;
    const neededTitles = new Set(neededObjects.map(({ title }) => title));
    for (const [title, subscription] of this.#watches) {
      if (neededTitles.has(title)) continue;
      subscription.close();
      this.#watches.delete(title);
      // The state forgets the content.
      state.inputs.recordSource(title, undefined);
    }
    for (const object of neededObjects) if (!this.#watches.has(object.title)) this.#startWatch(object);
  }

  /** Logs each issue when it begins. An issue is an object that was lost or became unusable, while its last good content stays in force. */
  #logNewIssues(): void {
    const { state, logger } = this.#options;
    const { issues } = state.values.sources;
    for (const text of issues) if (!this.#loggedIssues.has(text)) logger.warn(text);
    this.#loggedIssues = new Set(issues);
  }

  /** Watches one object and records its content, or that it is missing or cannot be read. */
  #startWatch(object: SourceObject): void {
    const { hub, logger, state } = this.#options;
    const { namespace, name, title } = object;
    const { resource, decode } = selectResourceAndDecoder(object);
    const store = new ObjectStore<VersionedData>({ toStored: decode });
    const recordContent = (): void => {
      // Before the first list is complete, a missing object may only be late.
      if (!store.isSynced) return;
      const content = store.get(`${namespace}/${name}`) ?? MISSING;
      state.inputs.recordSource(title, content);
    };
    const spec = { resource, namespace, fieldSelector: `metadata.name=${name}` };
    const subscription = store.watch(hub, spec, {
      onChange: recordContent,
      onSynced: recordContent,
      onError: (error) => {
        if (error === undefined) return;
        logger.warn(`${title} with values cannot be watched`, { error: oneLine(error) });
        // The last content stays while the server cannot be reached.
        if (!store.isSynced) state.inputs.recordSource(title, toUnreadableContent(error));
      },
    });
    this.#watches.set(title, subscription);
  }
}

const MISSING: SourceContent = { lack: "does not exist" };

/** The content that is recorded for an object that cannot be read. */
function toUnreadableContent(error: unknown): SourceContent {
  return { lack: `cannot be read: ${oneLine(error)}` };
}

/**
 * Reads the objects that the values refer to once and records them in the state of a preview, which watches nothing. Copies what the state of
 * the running operator knows.
 */
export async function readValuesSources(
  client: KubeClient,
  previewState: State,
  runningState?: State,
): Promise<void> {
  for (const object of previewState.values.sources.neededObjects) {
    const known = runningState?.values.sources.findContent(object.title);
    previewState.inputs.recordSource(object.title, known ?? (await requestSource(client, object)));
  }
}

/** Reads one object from the server. Never fails: an error becomes part of the content. */
async function requestSource(client: KubeClient, object: SourceObject): Promise<SourceContent> {
  const { resource, decode } = selectResourceAndDecoder(object);
  const { namespace, name } = object;
  try {
    const liveObject = await get(client, { resource, namespace, name }).catch(ignoreNotFound);
    return liveObject === undefined ? MISSING : decode(liveObject);
  } catch (error) {
    return toUnreadableContent(error);
  }
}

/** Selects the resource of an object and the decoder of its data: base64 in Secrets, text in ConfigMaps. */
function selectResourceAndDecoder({ kind }: SourceObject) {
  const [resource, encoding] =
    kind === "Secret" ? [SECRETS, "base64" as const] : [CONFIG_MAPS, "utf8" as const];
  const decode = (object: JsonObject): VersionedData => {
    const { metadata, data = {} } = object as unknown as ConfigMap;
    const entries = Object.entries(data).map(([key, text]) => [key, Buffer.from(text, encoding)] as const);
    return { resourceVersion: metadata.resourceVersion, data: Object.fromEntries(entries) };
  };
  return { resource, decode };
}
