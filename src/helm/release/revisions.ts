/**
 * The revisions of releases that are known, from a watch and from answers that may overtake it, and the labels on their
 * Secrets (docs/CONTRACT.md, "Labels and annotations").
 */

import { EARLIEST, getMetadata, ignoreNotFound, isLater, listMetadata, SECRETS } from "../../kube/index.ts";
import type { KubeClient, Subscription, WatchedObject, WatchHub, WatchSpec } from "../../kube/index.ts";
import { digest, DIGEST_SCHEME, oneLine, type Logger } from "../../lib/index.ts";
import { objectOf } from "../../model/index.ts";
import { UnseenError } from "../binary/helm-errors.ts";

/** This operator's labels on helm's release Secrets. */
export const LABELS = {
  managedBy: "addon-operator.io/managed-by",
  inputs: "addon-operator.io/inputs",
  manifest: "addon-operator.io/manifest",
  /** `true` on a revision that a failed upgrade goes back to. */
  good: "addon-operator.io/good",
  /** Digest of what people say of a release: its chart, and the values without what hooks change. */
  given: "addon-operator.io/given",
  /** The inputs of a revision without the helm binary: with another one, what was rejected is not tried again. */
  content: "addon-operator.io/content",
  /** How many upgrades in a row have failed with what is given. */
  tries: "addon-operator.io/tries",
  /** On the revision that a person has rolled back: the number of the one that is in force in its place. */
  rolledBackTo: "addon-operator.io/rolled-back-to",
  /** `failed`, `unhealthy` or `by-hand` on a revision that is rolled back: its inputs are not tried again. */
  rejected: "addon-operator.io/rejected",
} as const;

/** Release labels that only the Go operator writes. */
export const GO_LABELS = ["moduleChecksum", "maintenance.deckhouse.io/no-resource-reconciliation"] as const;

/** Key of the release's own values where an older Go operator kept its checksum. */
export const GO_CONFIG_KEY = "_addonOperatorModuleChecksum";

/** Value of the managed-by label of the operator that reads `configMap` in `namespace`. */
export function managedByDigest(namespace: string, configMap: string): string {
  return digest(`${namespace}/${configMap}`);
}

/** True for a digest of the present scheme; others are ignored. */
export function isCurrentScheme(label: string | undefined): label is string {
  return label?.startsWith(`${DIGEST_SCHEME}-`) ?? false;
}

/** One revision of a release, from the labels of its Secret alone. */
export interface ReleaseMeta {
  readonly name: string;
  readonly revision: number;
  readonly status: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly secret: string;
  readonly uid: string;
  readonly resourceVersion: string;
  /** Labels that are still to be written. */
  readonly assumed?: Readonly<Record<string, string>>;
}

export interface ReleaseStoreOptions {
  readonly client: KubeClient;
  readonly hub: Pick<WatchHub, "subscribe">;
  readonly namespace: string;
  readonly logger: Logger;
}

const TYPE_FIELD = "type=helm.sh/release.v1";

/**
 * The revisions of the releases of one namespace: from one metadata-only list and watch of helm's Secrets, and from answers
 * that may overtake it. What is older than what is known never counts, unless the server was put back.
 */
export class Revisions {
  protected readonly options: ReleaseStoreOptions;
  readonly #subscription: Subscription;
  readonly #secrets = new Map<string, ReleaseMeta>();
  /** For each release, the version of the last list made for it alone: older watch events do not count. */
  readonly #floors = new Map<string, string>();
  /** Secrets that were deleted while an answer is awaited, with the version: the answer may still show them. */
  readonly #gone = new Map<string, string>();
  #awaited = 0;
  /** The version of the last full list: an older answer may show what that no longer has. */
  #relisted: { readonly keys: ReadonlySet<string>; readonly version: string } | undefined;
  readonly #listeners = new Set<(release: string) => void>();

  constructor(options: ReleaseStoreOptions) {
    this.options = options;
    this.#subscription = options.hub.subscribe(
      { ...this.#selection(), metadataOnly: true },
      {
        begin: () => this.#secrets.clear(),
        object: (object) => this.#applied(object),
        synced: () => {},
        applied: (object) => this.#applied(object),
        deleted: (object) => this.#deleted(object),
        relisted: (keys, version) => this.#onRelisted(keys, version),
        putBack: () => this.#putBack(),
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
    return [...this.#secrets.values()]
      .filter((meta) => meta.name === name)
      .sort((a, b) => b.revision - a.revision);
  }

  /** The newest revision of every release, by name. */
  all(): ReleaseMeta[] {
    const newest = new Map<string, ReleaseMeta>();
    for (const meta of this.#secrets.values()) {
      if ((newest.get(meta.name)?.revision ?? -1) < meta.revision) newest.set(meta.name, meta);
    }
    return [...newest.values()].sort((a, b) => (a.name < b.name ? -1 : 1));
  }

  /** Calls `listener` with a release's name after each change; returns a function that ends this. */
  onChange(listener: (release: string) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Tells that something about a release has changed. */
  protected tell(release: string): void {
    for (const listener of this.#listeners) listener(release);
  }

  close(): void {
    this.#subscription.close();
    this.#listeners.clear();
  }

  /** Reads a release from the server now, so that what helm just did is known at once. */
  refresh(name: string, signal?: AbortSignal): Promise<ReleaseMeta | undefined> {
    return this.asking(() => this.#list(name, signal));
  }

  async #list(name: string, signal: AbortSignal | undefined): Promise<ReleaseMeta | undefined> {
    const selection = this.#selection(`,name=${name}`);
    const list = await listMetadata(this.options.client, selection, { ...selection, signal });
    this.#listed(name, list.items, list.resourceVersion);
    return this.get(name);
  }

  /**
   * Reads the revision that helm has just deployed: one object by its name, since a list would wait up to 100 ms
   * for the server's cache. If it is anything but that revision, deployed, `refresh` finds out.
   */
  learn(name: string, revision: number): Promise<ReleaseMeta | undefined> {
    return this.asking(() => this.#read(name, revision));
  }

  /**
   * Checks that helm, which reports success, worked with this API server: what is known of the release by now is
   * another revision than `before`. Throws UnseenError.
   */
  confirm(name: string, verb: string, before: ReleaseMeta | undefined): void {
    const now = this.get(name);
    if (now !== undefined && now.uid !== before?.uid) return;
    throw new UnseenError(name, verb, this.options.client.origin.server);
  }

  async #read(name: string, revision: number): Promise<ReleaseMeta | undefined> {
    const { client, namespace } = this.options;
    const target = { resource: SECRETS, namespace, name: secretOf(name, revision) };
    const found = await getMetadata<WatchedObject>(client, target).catch(ignoreNotFound);
    if (found === undefined || metaOf(found)?.status !== "deployed") return this.refresh(name);
    this.answered(found);
    this.tell(name);
    return this.get(name);
  }

  /** What is deleted while `work` waits for answers of the server counts, also where an answer still shows it. */
  protected async asking<T>(work: () => Promise<T>): Promise<T> {
    this.#awaited += 1;
    try {
      return await work();
    } finally {
      this.#awaited -= 1;
      if (this.#awaited === 0) this.#gone.clear();
    }
  }

  /** The watch has told of a Secret. */
  #applied(object: WatchedObject): void {
    const name = metaOf(object)?.name;
    const floor = name === undefined ? undefined : this.#floors.get(name);
    if (floor !== undefined && !isLater(object.metadata.resourceVersion ?? "", floor)) return;
    this.answered(object);
    if (name !== undefined) this.tell(name);
  }

  /** The watch has told that a Secret is deleted. */
  #deleted({ metadata: { name: secret, uid, resourceVersion = "" } }: WatchedObject): void {
    this.#note(secret, resourceVersion);
    const known = this.#secrets.get(secret);
    if (known === undefined || known.uid !== uid) return;
    this.#secrets.delete(secret);
    this.tell(known.name);
  }

  #putBack(): void {
    this.#floors.clear();
    this.#gone.clear();
    this.#relisted = undefined;
    for (const [secret, meta] of this.#secrets)
      this.#secrets.set(secret, { ...meta, resourceVersion: EARLIEST });
  }

  /** Everything was listed anew: objects that only an answer showed may have gone unseen. */
  #onRelisted(keys: ReadonlySet<string>, version: string): void {
    this.#relisted = { keys, version };
    for (const meta of this.#secrets.values())
      if (!keys.has(`${this.options.namespace}/${meta.secret}`) && this.#missing(meta, version))
        this.tell(meta.name);
  }

  /** A list of one release alone was answered. */
  #listed(name: string, found: readonly WatchedObject[], version: string): void {
    this.#floors.set(name, version);
    const secrets = new Set(found.map((object) => object.metadata.name));
    for (const meta of this.revisions(name)) if (!secrets.has(meta.secret)) this.#missing(meta, version);
    for (const object of found) this.answered(object);
    this.tell(name);
  }

  /** The server has answered with a Secret. Nobody is told yet. */
  protected answered(object: WatchedObject): void {
    const meta = metaOf(object);
    if (meta === undefined) return;
    const known = this.#secrets.get(meta.secret);
    if (known !== undefined && isLater(known.resourceVersion, meta.resourceVersion)) return;
    if (this.#isGone(meta)) return;
    this.#secrets.set(meta.secret, meta);
  }

  /** Goes on as if the server had these labels. */
  assume({ name, secret, uid }: ReleaseMeta, assumed: Readonly<Record<string, string>>): void {
    const known = this.#secrets.get(secret);
    // Since it was looked at it may have gone, or moved on.
    if (known?.uid !== uid) return;
    this.#secrets.set(secret, { ...known, labels: { ...known.labels, ...assumed }, assumed });
    this.tell(name);
  }

  /** A list of that version lacks it: it is gone, unless it is newer. */
  #missing({ secret, resourceVersion }: ReleaseMeta, version: string): boolean {
    if (isLater(resourceVersion, version)) return false;
    this.#note(secret, version);
    return this.#secrets.delete(secret);
  }

  #isGone({ secret, resourceVersion }: ReleaseMeta): boolean {
    const gone = this.#gone.get(secret);
    if (gone !== undefined && isLater(gone, resourceVersion)) return true;
    if (this.#relisted === undefined || isLater(resourceVersion, this.#relisted.version)) return false;
    return !this.#relisted.keys.has(`${this.options.namespace}/${secret}`);
  }

  #selection(more = ""): WatchSpec {
    const { namespace } = this.options;
    return { resource: SECRETS, namespace, labelSelector: `owner=helm${more}`, fieldSelector: TYPE_FIELD };
  }

  #trouble(error: Error | undefined): void {
    const { logger } = this.options;
    if (error === undefined) logger.info("Helm releases are watched again");
    else logger.warn("Helm releases cannot be watched", { error: oneLine(error) });
  }

  #note(secret: string, version: string): void {
    if (this.#awaited > 0) this.#gone.set(secret, version);
  }
}

/** What the labels of a Secret say; undefined where it is none of a release. */
function metaOf(object: WatchedObject): ReleaseMeta | undefined {
  const { name: secret, uid = "", resourceVersion = "", labels: found } = object.metadata;
  const labels = objectOf(found) as Record<string, string>;
  const { name, version, status } = labels;
  if (name === undefined || version === undefined || !/^\d+$/.test(version)) return undefined;
  const revision = Number(version);
  return { name, revision, status: status ?? "unknown", labels, secret, uid, resourceVersion };
}

/** A helm works on a release of this status, or died at it. */
export function isUnfinished(status: string): boolean {
  return status.startsWith("pending-") || status === "uninstalling";
}

/** The Secret that helm puts a revision into. */
export function secretOf(release: string, revision: number): string {
  return `sh.helm.release.v1.${release}.v${revision}`;
}
