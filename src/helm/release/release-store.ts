/**
 * Reads the records of releases in helm's Secrets, one Secret for each revision, and writes them where helm cannot. `ReleaseMeta` is what
 * the labels of a Secret say about its revision. The *location* of a release is its namespace where that is not the operator's.
 */

import { create, get, getMetadata, ignoreNotFound, isAlreadyExists, listMetadata } from "../../kube/index.ts";
import { mergePatch, remove, replace, SECRETS } from "../../kube/index.ts";
import type { Secret, WatchedObject } from "../../kube/index.ts";
import type { JsonObject } from "../../base/model/index.ts";
import { UnseenError } from "../binary/helm-errors.ts";
import { ReleaseLocations, type ReleaseLocation } from "./release-locations.ts";
import {
  changeEncodedRecord,
  decodeRelease,
  readEncodedRecord,
  secretKey,
  secretRef,
  summarize,
  withSecretInError,
  SummaryCache,
} from "./record.ts";
import type { ManifestChange, RecordChange, ReleaseRecord, ReleaseSummary, SecretTarget } from "./record.ts";
import { ReleaseWatches, selectReleaseSecrets, type WatchOptions } from "./release-watches.ts";
import { RELEASE_LABELS, parseReleaseMeta, releaseSecretName, type ReleaseMeta } from "./revisions.ts";

export interface ReleaseStoreOptions extends WatchOptions {
  /** Name of the Secret that lists the releases in other namespaces; without it, they are forgotten with this process. */
  readonly locationsSecret?: string;
}

/** Labels of a revision whose manifest has changed. */
const NO_DIGESTS = { [RELEASE_LABELS.inputs]: null, [RELEASE_LABELS.manifest]: null };

/** A change of a revision's record and of the labels of its Secret; null removes a label. */
interface RevisionChange {
  readonly change: RecordChange;
  readonly labels: Readonly<Record<string, string | null>>;
  readonly signal: AbortSignal | undefined;
}

/** The releases of the operator. Revisions come from metadata-only lists and watches of helm's Secrets, and from answers of the server. */
export class ReleaseStore {
  readonly #options: ReleaseStoreOptions;
  readonly #watches: ReleaseWatches;
  readonly #locations: ReleaseLocations;
  readonly #summaries = new SummaryCache((meta) =>
    withSecretInError(meta, this.readRecord(meta).then(summarize)),
  );
  readonly #listeners = new Set<(release: string) => void>();

  constructor(options: ReleaseStoreOptions) {
    this.#options = options;
    this.#locations = new ReleaseLocations({ ...options, secret: options.locationsSecret });
    this.#watches = new ReleaseWatches(options, ({ name, namespace }) => {
      const location = this.#locations.get(name);
      // Users of another namespace may write Secrets that look like records of this release.
      const isForeign =
        location !== undefined && namespace !== location.namespace && namespace !== location.from;
      if (!isForeign) this.#notifyListeners(name);
    });
  }

  /**
   * Reads the stored locations of releases, and waits until the releases of all their namespaces are listed or cannot be. Throws
   * ApiError, ConnectionError.
   */
  async waitUntilReady(): Promise<void> {
    await Promise.all([this.#watches.synced, this.#locations.read()]);
    // A namespace that cannot be read must not stop the others: the run of its module fails and says why.
    await Promise.allSettled(
      this.#locations.namespaces().map((namespace) => this.#watches.waitUntilListed(namespace)),
    );
  }

  /** The stored location of a release; undefined if the release is simply in the operator's namespace. */
  getLocation(name: string): ReleaseLocation | undefined {
    return this.#locations.get(name);
  }

  /** The namespace in which a release is now. While it is being moved, this is the old one until its records are deleted. */
  namespaceOf(name: string): string {
    const { namespace, from } = this.#locations.get(name) ?? { namespace: this.#options.namespace };
    return from !== undefined && this.revisionsIn(from, name).length > 0 ? from : namespace;
  }

  /**
   * Stores where a release is from now on; undefined = in the operator's namespace. Watches the new namespace, and stops watching
   * namespaces without releases. Throws ApiError, ConnectionError.
   */
  async setLocation(name: string, to: ReleaseLocation | undefined, signal?: AbortSignal): Promise<void> {
    const former = this.#locations.get(name);
    const hasChanged = await this.#locations.set(name, to, signal);
    if (!hasChanged) return;
    const usedNamespaces = new Set([...this.#locations.namespaces(), this.#options.namespace]);
    for (const namespace of [former?.namespace, former?.from])
      if (namespace !== undefined && !usedNamespaces.has(namespace)) this.#watches.stopWatching(namespace);
    if (to !== undefined) await this.#watches.waitUntilListed(to.namespace);
    this.#notifyListeners(name);
  }

  /** Stores the locations of releases again if their Secret was deleted; returns whether it was. Throws ApiError, ConnectionError. */
  restoreLocations(): Promise<boolean> {
    return this.#locations.restore();
  }

  /** Starts to watch a namespace and waits until its releases are listed. Throws the error if they cannot be watched. */
  waitUntilListed(namespace: string): Promise<void> {
    return this.#watches.waitUntilListed(namespace);
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
    const revisions = this.#watches.getRevisions(namespace)?.groupObjects(name) ?? [];
    return revisions.sort((a, b) => b.revision - a.revision);
  }

  /** The newest revision of every release, sorted by name. A release in another namespace counts only if it has a stored location. */
  newestRevisions(): ReleaseMeta[] {
    const localNames = this.#watches.getRevisions(this.#options.namespace)?.groupNames() ?? [];
    const names = new Set([...localNames, ...this.#locations.releaseNames()]);
    return [...names].sort().flatMap((name) => this.get(name) ?? []);
  }

  /** Calls `listener` with a release's name after each change. The returned function removes the listener. */
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

  /** Lists the records of a release in one namespace from the server now; the result replaces the known revisions of the release. */
  async refreshIn(namespace: string, name: string, signal?: AbortSignal): Promise<void> {
    const selection = selectReleaseSecrets(namespace, `,name=${name}`);
    const list = () => listMetadata(this.#options.client, selection, { ...selection, signal });
    await this.#watches.getRevisions(namespace)?.fetchList(list, name);
    this.#notifyListeners(name);
  }

  /**
   * Reads the revision that helm has just deployed, unless the watch has reported it already. Reads it by the name of its Secret, because a
   * list would wait up to 100 ms for the server's cache. If the revision is not there with status `deployed`, calls `refresh` instead.
   */
  async readDeployedRevision(name: string, revision: number): Promise<ReleaseMeta | undefined> {
    const known = this.get(name);
    if (known?.revision === revision && known.status === "deployed") return known;
    const secret = { namespace: this.namespaceOf(name), name: releaseSecretName(name, revision) };
    const target = { resource: SECRETS, ...secret };
    const found = await this.#recordAnswer(target, () =>
      getMetadata<WatchedObject>(this.#options.client, target).catch(ignoreNotFound),
    );
    if (found?.status !== "deployed") return this.refresh(name);
    this.#notifyListeners(name);
    return this.get(name);
  }

  /**
   * Call it after a success of helm: throws UnseenError if the newest revision is still `before`. helm then worked with
   * another cluster, for example because `--helm-bin` is a wrapper that sets one.
   */
  requireNewRevision(name: string, verb: string, before: ReleaseMeta | undefined): void {
    const newest = this.get(name);
    if (newest !== undefined && newest.uid !== before?.uid) return;
    throw new UnseenError(name, verb, this.#options.client.credentialsInfo.server);
  }

  /**
   * Adds labels to a revision in memory; `DeferredLabels` writes them to the server later. Ignores a revision that was deleted or
   * replaced meanwhile.
   */
  deferLabels(meta: ReleaseMeta, deferredLabels: Readonly<Record<string, string>>): void {
    const revisions = this.#watches.getRevisions(meta.namespace);
    const key = secretKey(secretRef(meta));
    const known = revisions?.get(key);
    if (known?.uid !== meta.uid) return;
    revisions?.assumeChange(key, { labels: { ...known.labels, ...deferredLabels }, deferredLabels });
    this.#notifyListeners(meta.name);
  }

  /** Summarizes the record of a revision, from memory if it was read before. Throws ApiError, BrokenRecordError. */
  readSummary(meta: ReleaseMeta): Promise<ReleaseSummary> {
    return this.#summaries.read(meta);
  }

  /** Reads the record of a revision from the server now. Throws as `readSummary`. */
  async readRecord(meta: ReleaseMeta, signal?: AbortSignal): Promise<ReleaseRecord> {
    return withSecretInError(meta, decodeRelease(await this.#readEncodedRecord(meta, signal)));
  }

  /** Reads the manifest, followed by the manifests of all helm hooks, from a revision's record. Throws as `readSummary`. */
  async readManifests(meta: ReleaseMeta, signal?: AbortSignal): Promise<string[]> {
    const { manifest, hooks } = await this.readRecord(meta, signal);
    return [manifest, ...hooks.map((hook) => hook.manifest)];
  }

  /** The summary of a revision, if `readSummary` has read it already; sends no request. */
  getCachedSummary(meta: ReleaseMeta): ReleaseSummary | undefined {
    return this.#summaries.get(meta);
  }

  /** Sets labels of a revision's Secret, and removes those that are null. Other labels, such as helm's, stay. */
  async setLabels(
    meta: ReleaseMeta,
    labels: Readonly<Record<string, string | null>>,
    signal?: AbortSignal,
  ): Promise<void> {
    await this.#patchSecret(meta, { metadata: { labels } }, signal);
    this.#notifyListeners(meta.name);
  }

  /** Sets the status of a revision to failed, in its label and its record, as helm does after a failure. */
  async markFailed(meta: ReleaseMeta, description: string, signal?: AbortSignal): Promise<void> {
    const info = { status: "failed", description };
    await this.#rewriteRecord(meta, { change: { info }, labels: { status: info.status }, signal });
  }

  /** Labels a revision as rejected, so that later runs do not apply its inputs again, and stores the reason `why` in its record. */
  async markRejected(
    meta: ReleaseMeta,
    { labels, why }: { readonly labels: Readonly<Record<string, string>>; readonly why: string },
    signal?: AbortSignal,
  ): Promise<void> {
    await this.#rewriteRecord(meta, { change: { info: { description: why } }, labels, signal });
  }

  /** Changes the manifest and the hooks in the record of a revision, and removes the labels that describe the old manifest. */
  async mapManifests(meta: ReleaseMeta, mapManifests: ManifestChange, signal?: AbortSignal): Promise<void> {
    await this.#rewriteRecord(meta, { change: { mapManifests }, labels: NO_DIGESTS, signal });
  }

  /**
   * Copies the record of a revision to another namespace, with changed manifests and without the labels that describe the old ones. Replaces
   * an earlier copy.
   */
  async copyRecord(
    meta: ReleaseMeta,
    change: Pick<Required<RecordChange>, "namespace" | "mapManifests">,
    signal: AbortSignal,
  ): Promise<void> {
    const { client } = this.#options;
    const original = await get<Secret>(client, secretRef(meta), { signal });
    const encoded = readEncodedRecord(meta, original as unknown as JsonObject);
    const release = await withSecretInError(meta, changeEncodedRecord(encoded, change));
    const {
      [RELEASE_LABELS.inputs]: _,
      [RELEASE_LABELS.manifest]: __,
      ...labels
    } = original.metadata.labels ?? {};
    const { namespace } = change;
    const metadata = { name: meta.secret, namespace, labels };
    const body = { apiVersion: "v1", kind: "Secret", type: original.type, metadata, data: { release } };
    await create(client, { resource: SECRETS, namespace }, { body, signal }).catch((error: unknown) => {
      if (!isAlreadyExists(error)) throw error;
      // An interrupted move has copied it; the original may have changed since.
      return replace(client, { ...secretRef(meta), namespace }, { body, signal });
    });
  }

  /** Changes the record and the labels of a revision. Fails if the Secret has changed since `meta` was read. */
  async #rewriteRecord(meta: ReleaseMeta, { change, labels, signal }: RevisionChange): Promise<void> {
    const release = await withSecretInError(
      meta,
      changeEncodedRecord(await this.#readEncodedRecord(meta, signal), change),
    );
    const metadata = { resourceVersion: meta.resourceVersion, labels };
    try {
      await this.#patchSecret(meta, { metadata, data: { release } }, signal);
    } finally {
      // Also after a lost answer, because the server may have the new record.
      this.#summaries.forget(meta.name);
    }
    this.#notifyListeners(meta.name);
  }

  /** Patches the Secret of a revision, and stores the server's answer as the newest state of the revision. */
  async #patchSecret(meta: ReleaseMeta, body: object, signal: AbortSignal | undefined): Promise<void> {
    const target = secretRef(meta);
    const patch = () => mergePatch<WatchedObject>(this.#options.client, target, { body, signal });
    await this.#recordAnswer(target, patch);
  }

  /** Deletes all records of a release in one namespace, by default in its present one. Never deletes its objects. */
  async deleteRecords(name: string, signal?: AbortSignal, namespace = this.namespaceOf(name)): Promise<void> {
    await this.refreshIn(namespace, name, signal);
    // Oldest first, so that the newest shows the state of the release until the end.
    for (const meta of this.revisionsIn(namespace, name).reverse()) {
      const call = { signal, preconditions: { uid: meta.uid } };
      await remove(this.#options.client, secretRef(meta), call);
    }
    this.#summaries.forget(name);
    await this.refreshIn(namespace, name, signal);
  }

  /** Reads the encoded record of a revision from the server. Throws BrokenRecordError if the Secret contains none. */
  async #readEncodedRecord(meta: ReleaseMeta, signal?: AbortSignal): Promise<string> {
    return readEncodedRecord(meta, await get(this.#options.client, secretRef(meta), { signal }));
  }

  #notifyListeners(release: string): void {
    for (const listener of this.#listeners) listener(release);
  }

  /**
   * Sends a request about the Secret of a revision and stores the answer, so that readers see it before the watch reports it. Callers
   * notify the listeners.
   */
  #recordAnswer(
    target: SecretTarget,
    request: () => Promise<WatchedObject | undefined>,
  ): Promise<ReleaseMeta | undefined> {
    const read = async (): Promise<ReleaseMeta | undefined> => {
      const answer = await request();
      return answer && parseReleaseMeta(answer);
    };
    // Nobody reads the revisions of a namespace that is not watched.
    const revisions = this.#watches.getRevisions(target.namespace);
    return revisions === undefined ? read() : revisions.fetchObject(secretKey(target), read);
  }
}
