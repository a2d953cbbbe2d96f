/** Reads the records of releases in helm's Secrets, and writes them where helm cannot. */

import {
  get,
  getMetadata,
  ignoreNotFound,
  listMetadata,
  mergePatch,
  ObjectStore,
  remove,
  SECRETS,
} from "../../kube/index.ts";
import type { KubeClient, Subscription, WatchedObject, WatchHub, WatchSpec } from "../../kube/index.ts";
import { oneLine, type Logger } from "../../lib/index.ts";
import { isJsonObject } from "../../model/index.ts";
import { BrokenRecordError, UnseenError } from "../binary/helm-errors.ts";
import { decodeRelease, encodeChanged, summarize } from "./record.ts";
import type { RecordChange, ReleaseRecord, ReleaseSummary } from "./record.ts";
import { LABELS, metaOf, secretOf, type ReleaseMeta } from "./revisions.ts";

export interface ReleaseStoreOptions {
  readonly client: KubeClient;
  readonly hub: Pick<WatchHub, "subscribe">;
  readonly namespace: string;
  readonly logger: Logger;
}

/** Type of the Secrets of helm. */
const TYPE_FIELD = "type=helm.sh/release.v1";

/** The summary of a revision; concurrent callers share one read. */
interface Summary {
  readonly uid: string;
  readonly summary: Promise<ReleaseSummary>;
  value: ReleaseSummary | undefined;
}

/**
 * The releases of one namespace. Revisions come from one metadata-only list and watch of helm's Secrets, and from answers of
 * the server. The content of a Secret is read only on demand, and written only where helm cannot do it.
 */
export class ReleaseStore {
  readonly #options: ReleaseStoreOptions;
  readonly #store = new ObjectStore<ReleaseMeta>({ keep: metaOf, groupOf: ({ name }) => name });
  readonly #subscription: Subscription;
  readonly #summaries = new Map<string, Summary>();
  readonly #listeners = new Set<(release: string) => void>();

  constructor(options: ReleaseStoreOptions) {
    this.#options = options;
    this.#subscription = this.#store.follow(
      options.hub,
      { ...this.#selection(), metadataOnly: true },
      {
        changed: (now, before) => {
          const meta = now ?? before;
          if (meta !== undefined) this.#report(meta.name);
        },
        issue: (error) => this.#issue(error),
      },
    );
  }

  /** Resolves when the first list is in. */
  get synced(): Promise<void> {
    return this.#subscription.synced;
  }

  /** The newest revision of a release. */
  get(name: string): ReleaseMeta | undefined {
    return this.revisions(name)[0];
  }

  /** All revisions of a release, newest first. */
  revisions(name: string): ReleaseMeta[] {
    return this.#store.group(name).sort((a, b) => b.revision - a.revision);
  }

  /** The newest revision of every release, by name. */
  all(): ReleaseMeta[] {
    return [...this.#store.groups()].sort().flatMap((name) => this.get(name) ?? []);
  }

  /** Calls `listener` with a release's name after each change; returns a function that ends this. */
  onChange(listener: (release: string) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  close(): void {
    this.#subscription.close();
    this.#listeners.clear();
  }

  /** Reads a release from the server now, to know the result of helm before the watch reports it. */
  async refresh(name: string, signal?: AbortSignal): Promise<ReleaseMeta | undefined> {
    const selection = this.#selection(`,name=${name}`);
    await this.#store.list(
      () => listMetadata(this.#options.client, selection, { ...selection, signal }),
      name,
    );
    this.#report(name);
    return this.get(name);
  }

  /**
   * Reads the revision that helm has just deployed by its name, because a list would wait up to 100 ms for the server's
   * cache. If it is not that revision in status `deployed`, calls `refresh`.
   */
  async learn(name: string, revision: number): Promise<ReleaseMeta | undefined> {
    const { client, namespace } = this.#options;
    const target = { resource: SECRETS, namespace, name: secretOf(name, revision) };
    const read = (): Promise<WatchedObject | undefined> =>
      getMetadata<WatchedObject>(client, target).catch(ignoreNotFound);
    const found = await this.#answered(target.name, read);
    if (found?.status !== "deployed") return this.refresh(name);
    this.#report(name);
    return this.get(name);
  }

  /**
   * After a success of helm, checks that it used the same API server: the newest revision must differ from `before`. Throws
   * UnseenError.
   */
  confirm(name: string, verb: string, before: ReleaseMeta | undefined): void {
    const now = this.get(name);
    if (now !== undefined && now.uid !== before?.uid) return;
    throw new UnseenError(name, verb, this.#options.client.origin.server);
  }

  /** Treats labels as written, although they are written later. Ignores a revision that was deleted or replaced meanwhile. */
  assume({ name, secret, uid }: ReleaseMeta, assumed: Readonly<Record<string, string>>): void {
    const known = this.#store.get(this.#keyOf(secret));
    if (known?.uid !== uid) return;
    this.#store.assume(this.#keyOf(secret), { labels: { ...known.labels, ...assumed }, assumed });
    this.#report(name);
  }

  /** The summary of a revision's record; the last one of each release is cached. Throws ApiError, or BrokenRecordError. */
  async summary(meta: ReleaseMeta): Promise<ReleaseSummary> {
    const known = this.#summaries.get(meta.name);
    if (known?.uid === meta.uid) return known.summary;
    const read: Summary = { uid: meta.uid, summary: this.record(meta).then(summarize), value: undefined };
    this.#summaries.set(meta.name, read);
    try {
      read.value = await read.summary;
      return read.value;
    } catch (error) {
      if (this.#summaries.get(meta.name) === read) this.#summaries.delete(meta.name);
      throw error;
    }
  }

  /** The record of a revision as it is now: one request. Throws as `summary`. */
  async record(meta: ReleaseMeta, signal?: AbortSignal): Promise<ReleaseRecord> {
    return orBrokenRecord(meta, decodeRelease(await this.#data(meta, signal)));
  }

  /** Manifest and helm hooks as a revision's record has them. Throws as `summary`. */
  async manifests(meta: ReleaseMeta, signal?: AbortSignal): Promise<string[]> {
    const { manifest, hooks } = await this.record(meta, signal);
    return [manifest, ...hooks.map((hook) => hook.manifest)];
  }

  /** As `summary`, if it is known already. */
  knownSummary(meta: ReleaseMeta): ReleaseSummary | undefined {
    const known = this.#summaries.get(meta.name);
    return known?.uid === meta.uid ? known.value : undefined;
  }

  /** Sets labels of a revision's Secret, and removes those that are null; helm's own stay. */
  async label(
    meta: ReleaseMeta,
    labels: Readonly<Record<string, string | null>>,
    signal?: AbortSignal,
  ): Promise<void> {
    await this.#patch(meta, { metadata: { labels } }, signal);
    this.#report(meta.name);
  }

  /** Marks a revision failed, label and record, as helm would have done. */
  async markFailed(meta: ReleaseMeta, description: string, signal?: AbortSignal): Promise<void> {
    const info = { status: "failed", description };
    await this.#rewrite(meta, { change: { info }, labels: { status: info.status }, signal });
  }

  /** Rejects a revision: sets labels of its Secret, and says why in its record. */
  async reject(
    meta: ReleaseMeta,
    { labels, why }: { readonly labels: Readonly<Record<string, string>>; readonly why: string },
    signal?: AbortSignal,
  ): Promise<void> {
    await this.#rewrite(meta, { change: { info: { description: why } }, labels, signal });
  }

  /** Replaces the manifest in the record of a revision; labels that describe the old one are removed. */
  async replaceManifest(meta: ReleaseMeta, manifest: string, signal?: AbortSignal): Promise<void> {
    const labels = { [LABELS.inputs]: null, [LABELS.manifest]: null };
    await this.#rewrite(meta, { change: { manifest }, labels, signal });
  }

  /** Rewrites a record with optimistic concurrency: fails where it changed since it was read. */
  async #rewrite(
    meta: ReleaseMeta,
    to: {
      readonly change: RecordChange;
      readonly labels: Readonly<Record<string, string | null>>;
      readonly signal: AbortSignal | undefined;
    },
  ): Promise<void> {
    const { change, labels, signal } = to;
    const release = await orBrokenRecord(meta, encodeChanged(await this.#data(meta, signal), change));
    const metadata = { resourceVersion: meta.resourceVersion, labels };
    try {
      await this.#patch(meta, { metadata, data: { release } }, signal);
    } finally {
      // Also after a lost answer, because the server may have the new record.
      this.#summaries.delete(meta.name);
    }
    this.#report(meta.name);
  }

  /** Patches the Secret of a revision, and records the answer. */
  async #patch(meta: ReleaseMeta, body: object, signal: AbortSignal | undefined): Promise<void> {
    const { client, namespace } = this.#options;
    const target = { resource: SECRETS, namespace, name: meta.secret };
    await this.#answered(meta.secret, () => mergePatch<WatchedObject>(client, target, { body, signal }));
  }

  /** Deletes all records of a release, never its objects. */
  async forget(name: string, signal?: AbortSignal): Promise<void> {
    const { client, namespace } = this.#options;
    await this.refresh(name, signal);
    // Oldest first, so that the newest shows the state of the release until the end.
    for (const meta of this.revisions(name).reverse()) {
      const target = { resource: SECRETS, namespace, name: meta.secret };
      await remove(client, target, { signal, preconditions: { uid: meta.uid } }).catch(ignoreNotFound);
    }
    this.#summaries.delete(name);
    await this.refresh(name, signal);
  }

  /** The encoded record in the Secret of a revision. Throws BrokenRecordError if there is none. */
  async #data(meta: ReleaseMeta, signal?: AbortSignal): Promise<string> {
    const { client, namespace } = this.#options;
    const secret = await get(client, { resource: SECRETS, namespace, name: meta.secret }, { signal });
    const data = isJsonObject(secret["data"]) ? secret["data"]["release"] : undefined;
    if (typeof data !== "string") throw new BrokenRecordError(meta.secret, "it contains no release");
    return data;
  }

  /** Reports that something about a release has changed. */
  #report(release: string): void {
    for (const listener of this.#listeners) listener(release);
  }

  /** Records the server's answer about a Secret, without notifying listeners. */
  #answered(
    secret: string,
    request: () => Promise<WatchedObject | undefined>,
  ): Promise<ReleaseMeta | undefined> {
    return this.#store.ask(this.#keyOf(secret), async () => {
      const answer = await request();
      return answer && metaOf(answer);
    });
  }

  #keyOf(secret: string): string {
    return `${this.#options.namespace}/${secret}`;
  }

  #selection(more = ""): WatchSpec {
    const { namespace } = this.#options;
    return { resource: SECRETS, namespace, labelSelector: `owner=helm${more}`, fieldSelector: TYPE_FIELD };
  }

  #issue(error: Error | undefined): void {
    const { logger } = this.#options;
    if (error === undefined) logger.info("Helm releases are watched again");
    else logger.warn("Helm releases cannot be watched", { error: oneLine(error) });
  }
}

/** The result of decoding a record. An invalid record becomes a BrokenRecordError that names the Secret. */
async function orBrokenRecord<T>(meta: ReleaseMeta, read: Promise<T>): Promise<T> {
  try {
    return await read;
  } catch (error) {
    throw error instanceof SyntaxError ? new BrokenRecordError(meta.secret, error.message) : error;
  }
}
