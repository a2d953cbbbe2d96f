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
import type { WatchedObject } from "../../kube/index.ts";
import { UnseenError } from "../binary/helm-errors.ts";
import { ReleaseLocations, type ReleaseLocation } from "./release-locations.ts";
import { decodeRelease, encodeChanged, summarize } from "./record.ts";
import type { RecordChange, ReleaseRecord, ReleaseSummary } from "./record.ts";
import { encodedIn, keyOf, orBrokenRecord, secretRef, type SecretTarget } from "./record-secret.ts";
import { ReleaseWatches, releaseSecrets, type WatchOptions } from "./release-watches.ts";
import { LABELS, metaOf, secretOf, type ReleaseMeta } from "./revisions.ts";

export interface ReleaseStoreOptions extends WatchOptions {
  /** Name of the Secret that lists the releases in other namespaces; without it, they are forgotten with this process. */
  readonly locationsSecret?: string;
}

/** The summary of a revision; concurrent callers share one read. */
interface Summary {
  readonly uid: string;
  readonly summary: Promise<ReleaseSummary>;
  value: ReleaseSummary | undefined;
}

/**
 * The releases of the operator. Revisions come from metadata-only lists and watches of helm's Secrets, and from answers of
 * the server. The content of a Secret is read only on demand, and written only where helm cannot do it.
 */
export class ReleaseStore {
  readonly #options: ReleaseStoreOptions;
  readonly #watches: ReleaseWatches;
  readonly #locations: ReleaseLocations;
  readonly #summaries = new Map<string, Summary>();
  readonly #listeners = new Set<(release: string) => void>();

  constructor(options: ReleaseStoreOptions) {
    this.#options = options;
    this.#locations = new ReleaseLocations({ ...options, secret: options.locationsSecret });
    this.#watches = new ReleaseWatches(options, ({ name, namespace }) => {
      const location = this.#locations.get(name);
      const isOther =
        location !== undefined && namespace !== location.namespace && namespace !== location.from;
      if (!isOther) this.#report(name);
    });
  }

  /** Reads which releases are elsewhere. Resolves when the releases are known, or cannot be. Throws ApiError, ConnectionError. */
  async ready(): Promise<void> {
    await Promise.all([this.#watches.synced, this.#locations.read()]);
    // A namespace that cannot be read must not stop the others: the run of its module fails and says why.
    await Promise.allSettled(this.#locations.namespaces().map((namespace) => this.#watches.known(namespace)));
  }

  /** Where a release is, if that is not simply the operator's namespace. */
  location(name: string): ReleaseLocation | undefined {
    return this.#locations.get(name);
  }

  /** The namespace in which a release is now. While it is being moved, this is the old one until its records are deleted. */
  namespaceOf(name: string): string {
    const home: ReleaseLocation = { namespace: this.#options.namespace };
    const { namespace, from } = this.#locations.get(name) ?? home;
    return from !== undefined && this.revisionsIn(from, name).length > 0 ? from : namespace;
  }

  /** Records where a release is from now on; undefined = in the operator's namespace. Throws ApiError, ConnectionError. */
  async setLocation(name: string, to: ReleaseLocation | undefined, signal?: AbortSignal): Promise<void> {
    const { namespace, from } = this.#locations.get(name) ?? {};
    if (!(await this.#locations.set(name, to, signal))) return;
    const inUse = new Set([...this.#locations.namespaces(), this.#options.namespace]);
    for (const left of [namespace, from]) if (left !== undefined && !inUse.has(left)) this.#watches.end(left);
    if (to !== undefined) await this.#watches.known(to.namespace);
    this.#report(name);
  }

  /** Resolves when the releases of a namespace are known. Throws why it cannot be watched. */
  known(namespace: string): Promise<void> {
    return this.#watches.known(namespace);
  }

  /** The newest revision of a release. */
  get(name: string): ReleaseMeta | undefined {
    return this.revisions(name)[0];
  }

  /** All revisions of a release, newest first. */
  revisions(name: string): ReleaseMeta[] {
    return this.revisionsIn(this.namespaceOf(name), name);
  }

  /** The revisions of a release of this name in one namespace, newest first. */
  revisionsIn(namespace: string, name: string): ReleaseMeta[] {
    return (this.#watches.in(namespace)?.groupObjects(name) ?? []).sort((a, b) => b.revision - a.revision);
  }

  /** The newest revision of every release, by name. */
  all(): ReleaseMeta[] {
    const own = this.#watches.in(this.#options.namespace)?.groupNames() ?? [];
    const names = new Set([...own, ...this.#locations.releases()]);
    return [...names].sort().flatMap((name) => this.get(name) ?? []);
  }

  /** Calls `listener` with a release's name after each change; returns a function that ends this. */
  onChange(listener: (release: string) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  close(): void {
    this.#watches.close();
    this.#listeners.clear();
  }

  /** Reads a release from the server now, to know the result of helm before the watch reports it. */
  async refresh(name: string, signal?: AbortSignal): Promise<ReleaseMeta | undefined> {
    await this.refreshIn(this.namespaceOf(name), name, signal);
    return this.get(name);
  }

  /** As `refresh`, for the records in one namespace. */
  async refreshIn(namespace: string, name: string, signal?: AbortSignal): Promise<void> {
    const selection = releaseSecrets(namespace, `,name=${name}`);
    const list = () => listMetadata(this.#options.client, selection, { ...selection, signal });
    await this.#watches.in(namespace)?.fetchList(list, name);
    this.#report(name);
  }

  /**
   * Reads the revision that helm has just deployed by its name, because a list would wait up to 100 ms for the server's
   * cache. If it is not that revision in status `deployed`, calls `refresh`.
   */
  async learn(name: string, revision: number): Promise<ReleaseMeta | undefined> {
    const { client } = this.#options;
    const target = { resource: SECRETS, namespace: this.namespaceOf(name), name: secretOf(name, revision) };
    const read = (): Promise<WatchedObject | undefined> =>
      getMetadata<WatchedObject>(client, target).catch(ignoreNotFound);
    const found = await this.#answered(target, read);
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
    throw new UnseenError(name, verb, this.#options.client.credentialsInfo.server);
  }

  /** Treats labels as written, although they are written later. Ignores a revision that was deleted or replaced meanwhile. */
  assume(meta: ReleaseMeta, assumed: Readonly<Record<string, string>>): void {
    const store = this.#watches.in(meta.namespace);
    const key = keyOf(secretRef(meta));
    const known = store?.get(key);
    if (known?.uid !== meta.uid) return;
    store?.assumeChange(key, { labels: { ...known.labels, ...assumed }, assumed });
    this.#report(meta.name);
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

  /** Marks a revision with labels, from which later runs know that they must not apply its inputs again, and with `why`. */
  async markRejected(
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
    const target = secretRef(meta);
    const patch = () => mergePatch<WatchedObject>(this.#options.client, target, { body, signal });
    await this.#answered(target, patch);
  }

  /** Deletes all records of a release in one namespace, never its objects. */
  async forget(name: string, signal?: AbortSignal, namespace = this.namespaceOf(name)): Promise<void> {
    await this.refreshIn(namespace, name, signal);
    // Oldest first, so that the newest shows the state of the release until the end.
    for (const meta of this.revisionsIn(namespace, name).reverse()) {
      const call = { signal, preconditions: { uid: meta.uid } };
      await remove(this.#options.client, secretRef(meta), call).catch(ignoreNotFound);
    }
    this.#summaries.delete(name);
    await this.refreshIn(namespace, name, signal);
  }

  /** The encoded record in the Secret of a revision. Throws BrokenRecordError if there is none. */
  async #data(meta: ReleaseMeta, signal?: AbortSignal): Promise<string> {
    return encodedIn(meta, await get(this.#options.client, secretRef(meta), { signal }));
  }

  /** Reports that something about a release has changed. */
  #report(release: string): void {
    for (const listener of this.#listeners) listener(release);
  }

  /** Records the server's answer about a Secret, without notifying listeners. */
  #answered(
    target: SecretTarget,
    request: () => Promise<WatchedObject | undefined>,
  ): Promise<ReleaseMeta | undefined> {
    // Without a watch of the namespace, nothing keeps the answer.
    const store = this.#watches.in(target.namespace) ?? new ObjectStore<ReleaseMeta>({ toStored: metaOf });
    return store.fetchObject(keyOf(target), async () => {
      const answer = await request();
      return answer && metaOf(answer);
    });
  }
}
