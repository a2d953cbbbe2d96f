/** Watches of helm's Secrets: one for each namespace that has releases. */

import { ObjectStore, SECRETS } from "../../kube/index.ts";
import type { KubeClient, Subscription, WatchHub, WatchSpec } from "../../kube/index.ts";
import { oneLine, type Logger } from "../../lib/index.ts";
import { metaOf, type ReleaseMeta } from "./revisions.ts";

export interface WatchOptions {
  readonly client: KubeClient;
  readonly hub: Pick<WatchHub, "subscribe">;
  /** The operator's namespace, which is always watched. */
  readonly namespace: string;
  readonly logger: Logger;
}

/** Type of the Secrets of helm. */
const TYPE_FIELD = "type=helm.sh/release.v1";

/** What selects helm's Secrets in a namespace. */
export function releaseSecrets(namespace: string, more = ""): WatchSpec {
  return { resource: SECRETS, namespace, labelSelector: `owner=helm${more}`, fieldSelector: TYPE_FIELD };
}

interface Watched {
  readonly present: ObjectStore<ReleaseMeta>;
  readonly subscription: Subscription;
  /** Why it does not work now. */
  issue: Error | undefined;
  /** Rejected when it fails next. */
  failed: PromiseWithResolvers<never>;
}

/** The revisions in each watched namespace, from metadata only. */
export class ReleaseWatches {
  readonly #options: WatchOptions;
  readonly #onChange: (meta: ReleaseMeta) => void;
  readonly #watched = new Map<string, Watched>();

  constructor(options: WatchOptions, onChange: (meta: ReleaseMeta) => void) {
    this.#options = options;
    this.#onChange = onChange;
    this.#open(options.namespace);
  }

  /** The revisions in a namespace; undefined if it is not watched. */
  in(namespace: string): ObjectStore<ReleaseMeta> | undefined {
    return this.#watched.get(namespace)?.present;
  }

  /** Resolves when the first list of a namespace is in. Watches it, if it was not watched. Throws why it cannot be watched. */
  async known(namespace: string): Promise<void> {
    const watched = this.#watched.get(namespace) ?? this.#open(namespace);
    if (watched.present.isSynced) return;
    if (watched.issue !== undefined) throw watched.issue;
    await Promise.race([watched.subscription.whenSynced, watched.failed.promise]);
  }

  /** Resolves when the first list of the operator's namespace is in. */
  get synced(): Promise<void> {
    return this.#watched.get(this.#options.namespace)?.subscription.whenSynced ?? Promise.resolve();
  }

  /** Ends the watch of a namespace. */
  end(namespace: string): void {
    this.#watched.get(namespace)?.subscription.close();
    this.#watched.delete(namespace);
  }

  close(): void {
    for (const { subscription } of this.#watched.values()) subscription.close();
    this.#watched.clear();
  }

  #open(namespace: string): Watched {
    const present = new ObjectStore<ReleaseMeta>({ toStored: metaOf, groupOf: ({ name }) => name });
    const subscription = present.watch(
      this.#options.hub,
      { ...releaseSecrets(namespace), metadataOnly: true },
      {
        onChange: (now, before) => {
          const meta = now ?? before;
          if (meta !== undefined) this.#onChange(meta);
        },
        onError: (error) => this.#issue(namespace, error),
      },
    );
    const watched: Watched = { present, subscription, issue: undefined, failed: nextFailure() };
    this.#watched.set(namespace, watched);
    return watched;
  }

  #issue(namespace: string, error: Error | undefined): void {
    const { logger } = this.#options;
    const watched = this.#watched.get(namespace);
    if (watched !== undefined) watched.issue = error;
    if (error === undefined) return logger.info("Helm releases are watched again", { namespace });
    logger.warn("Helm releases cannot be watched", { namespace, error: oneLine(error) });
    watched?.failed.reject(error);
    if (watched !== undefined) watched.failed = nextFailure();
  }
}

function nextFailure(): PromiseWithResolvers<never> {
  const failure = Promise.withResolvers<never>();
  failure.promise.catch(() => {});
  return failure;
}
