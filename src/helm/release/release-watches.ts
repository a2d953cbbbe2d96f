/** Watches of helm's Secrets: one for each namespace that has releases. */

import { ObjectStore, SECRETS } from "../../kube/index.ts";
import type { KubeClient, Subscription, WatchHub, WatchSpec } from "../../kube/index.ts";
import { oneLine, type Logger } from "../../base/index.ts";
import type { HelmReport } from "../binary/helm.ts";
import { parseReleaseMeta, type ReleaseMeta } from "./revisions.ts";

export interface WatchOptions {
  readonly client: KubeClient;
  readonly hub: Pick<WatchHub, "subscribe">;
  /** The operator's namespace, which is always watched. */
  readonly namespace: string;
  readonly logger: Logger;
  readonly report?: HelmReport | undefined;
}

/** Field selector for the Secrets in which helm stores records. */
const RELEASE_TYPE_SELECTOR = "type=helm.sh/release.v1";

/** The selection of helm's Secrets in a namespace, for lists and watches. `more` extends the label selector and begins with a comma. */
export function selectReleaseSecrets(namespace: string, more = ""): WatchSpec {
  return {
    resource: SECRETS,
    namespace,
    labelSelector: `owner=helm${more}`,
    fieldSelector: RELEASE_TYPE_SELECTOR,
  };
}

interface WatchedNamespace {
  readonly revisions: ObjectStore<ReleaseMeta>;
  readonly subscription: Subscription;
  /** Why the watch does not work now. */
  error: Error | undefined;
  /** Rejected when the watch fails the next time. */
  nextFailure: PromiseWithResolvers<never>;
}

/** The revisions in each watched namespace, from metadata only. */
export class ReleaseWatches {
  readonly #options: WatchOptions;
  readonly #onChange: (meta: ReleaseMeta) => void;
  readonly #watches = new Map<string, WatchedNamespace>();

  /** Watches the operator's namespace at once. Calls `onChange` with each revision that changes in any watched namespace. */
  constructor(options: WatchOptions, onChange: (meta: ReleaseMeta) => void) {
    this.#options = options;
    this.#onChange = onChange;
    this.#startWatching(options.namespace);
  }

  /** The revisions in a namespace; undefined if it is not watched. */
  getRevisions(namespace: string): ObjectStore<ReleaseMeta> | undefined {
    return this.#watches.get(namespace)?.revisions;
  }

  /** Watches a namespace, unless it is watched, and waits for its first list. Throws the error if it cannot be watched. */
  async waitUntilListed(namespace: string): Promise<void> {
    const watched = this.#watches.get(namespace) ?? this.#startWatching(namespace);
    if (watched.revisions.isSynced) return;
    // The watch fails now, and tries again on its own. The caller must not wait for that.
    if (watched.error !== undefined) throw watched.error;
    await Promise.race([watched.subscription.whenSynced, watched.nextFailure.promise]);
  }

  /** Resolves when the first list of the operator's namespace is in. */
  get synced(): Promise<void> {
    return this.#watches.get(this.#options.namespace)?.subscription.whenSynced ?? Promise.resolve();
  }

  /** Ends the watch of a namespace and discards its revisions. */
  stopWatching(namespace: string): void {
    this.#options.report?.ownWatchChanged(`Helm releases in ${namespace}`, undefined);
    this.#watches.get(namespace)?.subscription.close();
    this.#watches.delete(namespace);
  }

  close(): void {
    for (const { subscription } of this.#watches.values()) subscription.close();
    this.#watches.clear();
  }

  /** Watches helm's Secrets in a namespace, which must not be watched yet. */
  #startWatching(namespace: string): WatchedNamespace {
    const revisions = new ObjectStore<ReleaseMeta>({
      toStored: parseReleaseMeta,
      groupOf: ({ name }) => name,
    });
    const subscription = revisions.watch(
      this.#options.hub,
      { ...selectReleaseSecrets(namespace), metadataOnly: true },
      {
        onChange: (current, before) => {
          // A deleted Secret has no current state.
          const meta = current ?? before;
          if (meta !== undefined) this.#onChange(meta);
        },
        onError: (error) => this.#onError(namespace, error),
      },
    );
    const nextFailure = createFailurePromise();
    const watched: WatchedNamespace = { revisions, subscription, error: undefined, nextFailure };
    this.#watches.set(namespace, watched);
    return watched;
  }

  /** Records and logs that a watch fails, or (undefined) that it works again. A failure rejects those who wait for its list. */
  #onError(namespace: string, error: Error | undefined): void {
    const { logger, report } = this.#options;
    const watched = this.#watches.get(namespace);
    report?.ownWatchChanged(`Helm releases in ${namespace}`, error);
    if (watched !== undefined) watched.error = error;
    if (error === undefined) return logger.info("Helm releases are watched again", { namespace });
    logger.warn("Helm releases cannot be watched", { namespace, error: oneLine(error) });
    watched?.nextFailure.reject(error);
    if (watched !== undefined) watched.nextFailure = createFailurePromise();
  }
}

/** A promise to be rejected with the next failure. Its rejection is handled, because often no caller waits for it. */
function createFailurePromise(): PromiseWithResolvers<never> {
  const failure = Promise.withResolvers<never>();
  failure.promise.catch(() => {});
  return failure;
}
