/**
 * Watches the Secrets and ConfigMaps to which configured values refer (docs/reference/values.md, "Values from Secrets"). The state computes
 * which objects it needs, by `id`, and gets the content of each: its data, or why there is none. The operator watches with its own
 * permissions, so for a module with an account only objects that the account may get.
 */

import { openWhilePermitted } from "../hooks/bindings/index.ts";
import type { AccountPermissions } from "../hooks/index.ts";
import {
  CONFIG_MAPS,
  get,
  ignoreNotFound,
  MissingPermissionsError,
  ObjectStore,
  SECRETS,
  toNamedSpec,
} from "../kube/index.ts";
import type { ConfigMap, KubeClient, Subscription, WatchHub } from "../kube/index.ts";
import { oneLine, toOwnBytes, type Clock, type Logger } from "../base/index.ts";
import type { JsonObject } from "../base/model/index.ts";
import { WatchedSet } from "../runtime/index.ts";
import type { State } from "../engine/state/index.ts";
import type { SourceContent, SourceObject } from "../values/index.ts";

interface ValuesSourcesOptions {
  readonly hub: WatchHub;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly state: State;
  readonly accountLimitsOf: AccountPermissions;
}

/** The decoded data of an object in one version. */
interface VersionedData {
  readonly resourceVersion: string;
  readonly data: Readonly<Record<string, Uint8Array>>;
}

/** Watches each Secret and ConfigMap that the values refer to, by name, and records its content. References to one object share a watch. */
export class ValuesSources {
  readonly #options: ValuesSourcesOptions;
  /** By `id` of the object. */
  readonly #watches = new WatchedSet((_, object: SourceObject) => this.#startWatch(object));
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
    this.#watches.close();
  }

  /** Opens and closes watches, so that exactly the objects that the values refer to are watched. */
  #updateWatches(): void {
    const { state } = this.#options;
    const { neededObjects } = state.values.sources;
    // The state replaces the list when it changes.
    if (neededObjects === this.#watchedObjects) return;
    const before = this.#watchedObjects;
    this.#watchedObjects = neededObjects;
    this.#watches.watchOnly(new Map(neededObjects.map((object) => [object.id, object])));
    for (const { id } of before) if (!this.#watches.has(id)) state.inputs.recordSource(id, undefined);
  }

  /** Logs each issue when it begins. An issue is an object that was lost or became unusable, while its last good content stays in force. */
  #logNewIssues(): void {
    const { state, logger } = this.#options;
    const { issues } = state.values.sources;
    for (const text of issues) if (!this.#loggedIssues.has(text)) logger.warn(text);
    this.#loggedIssues = new Set(issues);
  }

  /** Watches the object, while the account of the module may get it, until the watch is closed. */
  #startWatch(object: SourceObject): { close(): void } {
    const check = createPermissionCheck(object, this.#options.accountLimitsOf);
    if (check === undefined) return this.#subscribe(object);
    const { state, clock } = this.#options;
    const abortController = new AbortController();
    const { signal } = abortController;
    let subscription: Subscription | undefined;
    const onRefused = (error: Error): void => {
      if (signal.aborted) return;
      const isUnknown = state.values.sources.findContent(object.id) === undefined;
      // The last content stays while the server cannot be reached.
      if (isUnknown || error instanceof MissingPermissionsError)
        state.inputs.recordSource(object.id, toUnreadableContent(error));
    };
    void openWhilePermitted(
      { check, clock, signal },
      {
        open: () => void (subscription = this.#subscribe(object)),
        close: () => subscription?.close(),
        onRefused,
      },
    );
    return {
      close() {
        abortController.abort();
        subscription?.close();
      },
    };
  }

  /** Watches one object and records its content, or that it is missing or cannot be read. */
  #subscribe(object: SourceObject): Subscription {
    const { hub, logger, state } = this.#options;
    const { namespace, name, title, id } = object;
    const { resource, decode } = selectResourceAndDecoder(object);
    const store = new ObjectStore<VersionedData>({ toStored: decode });
    const recordContent = (): void => {
      // Before the first list is complete, a missing object may only be late.
      if (!store.isSynced) return;
      const content = store.get(`${namespace}/${name}`) ?? MISSING;
      state.inputs.recordSource(id, content);
    };
    return store.watch(hub, toNamedSpec(resource, object), {
      onChange: recordContent,
      onSynced: recordContent,
      onError: (error) => {
        if (error === undefined) return;
        logger.warn(`${title} with values cannot be watched`, { error: oneLine(error) });
        // The last content stays while the server cannot be reached.
        if (!store.isSynced) state.inputs.recordSource(id, toUnreadableContent(error));
      },
    });
  }
}

/** A check whether the account of the module that lists the object may get it; undefined if no account counts. */
function createPermissionCheck(
  { kind, namespace, name, askedBy }: SourceObject,
  accountLimitsOf: AccountPermissions,
): (() => Promise<void>) | undefined {
  if (askedBy === undefined) return undefined;
  const { group, plural } = kind === "Secret" ? SECRETS : CONFIG_MAPS;
  const permission = { verb: "get", group, resource: plural, namespace, name };
  return async () => accountLimitsOf(askedBy)?.assertPermitted([permission]);
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
  { client, accountLimitsOf }: { readonly client: KubeClient; readonly accountLimitsOf: AccountPermissions },
  previewState: State,
  runningState?: State,
): Promise<void> {
  for (const object of previewState.values.sources.neededObjects) {
    const known = runningState?.values.sources.findContent(object.id);
    const check = createPermissionCheck(object, accountLimitsOf);
    previewState.inputs.recordSource(object.id, known ?? (await requestSource(client, object, check)));
  }
}

/** Reads one object from the server, if the check allows it. Never fails: an error becomes part of the content. */
async function requestSource(
  client: KubeClient,
  object: SourceObject,
  check: (() => Promise<void>) | undefined,
): Promise<SourceContent> {
  const { resource, decode } = selectResourceAndDecoder(object);
  const { namespace, name } = object;
  try {
    await check?.();
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
    const entries = Object.entries(data).map(([key, text]) => [key, toOwnBytes(text, encoding)] as const);
    return { resourceVersion: metadata.resourceVersion, data: Object.fromEntries(entries) };
  };
  return { resource, decode };
}
