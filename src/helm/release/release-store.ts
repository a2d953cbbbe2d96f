/** The release Secrets of a namespace, from one watch. */

import { oneLine, type Logger } from "../../lib/index.ts";
import {
  get,
  getMetadata,
  ignoreNotFound,
  listMetadata,
  mergePatch,
  remove,
  SECRETS,
} from "../../kube/index.ts";
import type { KubeClient, Subscription, WatchHub, WatchedObject, WatchSpec } from "../../kube/index.ts";
import { isJsonObject } from "../../model/index.ts";
import { BrokenRecordError } from "../binary/helm-errors.ts";
import { LABELS, Revisions, metaOf, type ReleaseMeta } from "./revisions.ts";
import { decodeRelease, encodeDescription, encodeFailed, encodeManifest, summarize } from "./record.ts";
import type { ReleaseRecord, ReleaseSummary } from "./record.ts";

export interface ReleaseStoreOptions {
  readonly client: KubeClient;
  readonly hub: Pick<WatchHub, "subscribe">;
  readonly namespace: string;
  readonly logger: Logger;
}

/** The record of the newest revision; all who ask while it is being read share the answer. */
interface Summary {
  readonly uid: string;
  readonly summary: Promise<ReleaseSummary>;
  value: ReleaseSummary | undefined;
}

const TYPE_FIELD = "type=helm.sh/release.v1";

/**
 * The releases of one namespace, from one metadata-only list and watch of helm's Secrets; the content of a Secret
 * is read only when it is needed.
 */
export class ReleaseStore {
  readonly #options: ReleaseStoreOptions;
  readonly #revisions: Revisions;
  readonly #summaries = new Map<string, Summary>();
  readonly #subscription: Subscription;

  constructor(options: ReleaseStoreOptions) {
    this.#options = options;
    const revisions = new Revisions(options.namespace);
    this.#revisions = revisions;
    this.#subscription = options.hub.subscribe(
      { ...this.#selection(), metadataOnly: true },
      {
        begin: () => revisions.clear(),
        object: (object) => revisions.applied(object),
        synced: () => {},
        applied: (object) => revisions.applied(object),
        deleted: (object) => revisions.deleted(object),
        relisted: (keys, version) => revisions.relisted(keys, version),
        trouble: (error) => this.#trouble(error),
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
    return this.#revisions.of(name);
  }

  /** The newest revision of every release, by name. */
  all(): ReleaseMeta[] {
    return this.#revisions.newest();
  }

  /** Calls `listener` with a release's name after each change; returns a function that ends this. */
  onChange(listener: (release: string) => void): () => void {
    return this.#revisions.onChange(listener);
  }

  /** Reads a release from the server now, so that what helm just did is known at once. */
  refresh(name: string, signal?: AbortSignal): Promise<ReleaseMeta | undefined> {
    return this.#revisions.asking(() => this.#list(name, signal));
  }

  async #list(name: string, signal: AbortSignal | undefined): Promise<ReleaseMeta | undefined> {
    const selection = this.#selection(`,name=${name}`);
    const list = await listMetadata(this.#options.client, selection, { ...selection, signal });
    this.#revisions.listed(name, list.items, list.resourceVersion);
    return this.get(name);
  }

  /**
   * Reads the revision that helm has just deployed: one object by its name, since a list would wait up to 100 ms
   * for the server's cache. If it is anything but that revision, deployed, `refresh` finds out.
   */
  learn(name: string, revision: number): Promise<ReleaseMeta | undefined> {
    return this.#revisions.asking(() => this.#read(name, revision));
  }

  async #read(name: string, revision: number): Promise<ReleaseMeta | undefined> {
    const { client, namespace } = this.#options;
    const target = { resource: SECRETS, namespace, name: secretOf(name, revision) };
    const found = await getMetadata<WatchedObject>(client, target).catch(ignoreNotFound);
    if (found === undefined || metaOf(found)?.status !== "deployed") return this.refresh(name);
    this.#revisions.answered(found);
    this.#revisions.tell(name);
    return this.get(name);
  }

  /** What the record of a revision says; the newest one's is kept. Throws ApiError, or BrokenRecordError. */
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
    return readable(meta, decodeRelease(await this.#data(meta, signal)));
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

  /** Goes on as if the server had these labels, which `label` will write. An event of the Secret ends this. */
  assume(meta: ReleaseMeta, assumed: Readonly<Record<string, string>>): void {
    this.#revisions.assume(meta, assumed);
  }

  /** Sets labels of a revision's Secret, and removes those that are null; helm's own stay. */
  async label(
    meta: ReleaseMeta,
    labels: Readonly<Record<string, string | null>>,
    signal?: AbortSignal,
  ): Promise<void> {
    await this.#patch(meta, { metadata: { labels } }, signal);
    this.#revisions.tell(meta.name);
  }

  /** Marks a revision failed, label and record, as helm would have done. */
  async markFailed(meta: ReleaseMeta, description: string, signal?: AbortSignal): Promise<void> {
    const encode = (data: string): Promise<string> => encodeFailed(data, description);
    await this.#rewrite(meta, { encode, labels: { status: "failed" }, signal });
  }

  /** Rejects a revision: sets labels of its Secret, and says why in its record. */
  async reject(
    meta: ReleaseMeta,
    { labels, why }: { readonly labels: Readonly<Record<string, string>>; readonly why: string },
    signal?: AbortSignal,
  ): Promise<void> {
    await this.#rewrite(meta, { encode: (data) => encodeDescription(data, why), labels, signal });
  }

  /** Replaces the manifest in the record of a revision; labels that describe the old one are removed. */
  async replaceManifest(meta: ReleaseMeta, manifest: string, signal?: AbortSignal): Promise<void> {
    const encode = (data: string): Promise<string> => encodeManifest(data, manifest);
    const labels = { [LABELS.inputs]: null, [LABELS.manifest]: null };
    await this.#rewrite(meta, { encode, labels, signal });
  }

  /** Fails when the record has changed since it was read. */
  async #rewrite(
    meta: ReleaseMeta,
    to: {
      readonly encode: (data: string) => Promise<string>;
      readonly labels: Readonly<Record<string, string | null>>;
      readonly signal: AbortSignal | undefined;
    },
  ): Promise<void> {
    const { encode, labels, signal } = to;
    const release = await readable(meta, encode(await this.#data(meta, signal)));
    const metadata = { resourceVersion: meta.resourceVersion, labels };
    try {
      await this.#patch(meta, { metadata, data: { release } }, signal);
    } finally {
      // Also where the answer was lost: the server may have the new one.
      this.#summaries.delete(meta.name);
    }
    this.#revisions.tell(meta.name);
  }

  async #patch(meta: ReleaseMeta, body: object, signal: AbortSignal | undefined): Promise<void> {
    const { client, namespace } = this.#options;
    const target = { resource: SECRETS, namespace, name: meta.secret };
    await this.#revisions.asking(async () =>
      this.#revisions.answered(await mergePatch<WatchedObject>(client, target, { body, signal })),
    );
  }

  /** Deletes all records of a release, never its objects. */
  async forget(name: string, signal?: AbortSignal): Promise<void> {
    const { client, namespace } = this.#options;
    await this.refresh(name, signal);
    // Oldest first: as long as one is left, the newest shows the state of the release.
    for (const meta of this.revisions(name).reverse()) {
      const target = { resource: SECRETS, namespace, name: meta.secret };
      await remove(client, target, { signal, preconditions: { uid: meta.uid } }).catch(ignoreNotFound);
    }
    this.#summaries.delete(name);
    await this.refresh(name, signal);
  }

  close(): void {
    this.#subscription.close();
    this.#revisions.close();
  }

  #selection(more = ""): WatchSpec {
    const { namespace } = this.#options;
    return { resource: SECRETS, namespace, labelSelector: `owner=helm${more}`, fieldSelector: TYPE_FIELD };
  }

  async #data(meta: ReleaseMeta, signal?: AbortSignal): Promise<string> {
    const { client, namespace } = this.#options;
    const secret = await get(client, { resource: SECRETS, namespace, name: meta.secret }, { signal });
    const data = isJsonObject(secret["data"]) ? secret["data"]["release"] : undefined;
    if (typeof data !== "string") throw new BrokenRecordError(meta.secret, "it holds no release");
    return data;
  }

  #trouble(error: Error | undefined): void {
    const { logger } = this.#options;
    if (error === undefined) logger.info("Helm releases are watched again");
    else logger.warn("Helm releases cannot be watched", { error: oneLine(error) });
  }
}

/** The Secret that helm puts a revision into. */
export function secretOf(release: string, revision: number): string {
  return `sh.helm.release.v1.${release}.v${revision}`;
}

async function readable<T>(meta: ReleaseMeta, read: Promise<T>): Promise<T> {
  try {
    return await read;
  } catch (error) {
    throw error instanceof SyntaxError ? new BrokenRecordError(meta.secret, error.message) : error;
  }
}
