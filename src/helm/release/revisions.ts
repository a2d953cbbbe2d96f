/**
 * The revisions of releases that are known, from a watch and from answers that may overtake it, and the labels on their
 * Secrets (docs/CONTRACT.md, "Labels and annotations").
 */

import { isLater, type WatchedObject } from "../../kube/index.ts";
import { digest, DIGEST_SCHEME } from "../../lib/index.ts";
import { objectOf } from "../../model/index.ts";

/** This operator's labels on helm's release Secrets. */
export const LABELS = {
  managedBy: "addon-operator.io/managed-by",
  inputs: "addon-operator.io/inputs",
  manifest: "addon-operator.io/manifest",
  /** `true` on a revision that a failed upgrade goes back to. */
  good: "addon-operator.io/good",
  /** Digest of what people say of a release: its chart, and the values without what hooks change. */
  given: "addon-operator.io/given",
  /** How many upgrades in a row have failed with what is given. */
  tries: "addon-operator.io/tries",
  /** `failed` or `unhealthy` on a revision that is rolled back: its inputs are not tried again. */
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

/** The revisions of the releases of one namespace. What is older than what is known never counts. */
export class Revisions {
  readonly #namespace: string;
  readonly #secrets = new Map<string, ReleaseMeta>();
  /** For each release, the version of the last list made for it alone: older watch events do not count. */
  readonly #floors = new Map<string, string>();
  /** Secrets that were deleted while an answer is awaited, with the version: the answer may still show them. */
  readonly #gone = new Map<string, string>();
  #awaited = 0;
  /** The version of the last full list: an older answer may show what that no longer has. */
  #relisted: { readonly keys: ReadonlySet<string>; readonly version: string } | undefined;
  readonly #listeners = new Set<(release: string) => void>();

  constructor(namespace: string) {
    this.#namespace = namespace;
  }

  /** All revisions of a release, newest first. */
  of(name: string): ReleaseMeta[] {
    return [...this.#secrets.values()]
      .filter((meta) => meta.name === name)
      .sort((a, b) => b.revision - a.revision);
  }

  /** The newest revision of every release, by name. */
  newest(): ReleaseMeta[] {
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
  tell(release: string): void {
    for (const listener of this.#listeners) listener(release);
  }

  /** Calls nobody any more. */
  close(): void {
    this.#listeners.clear();
  }

  /** What is deleted while `work` waits for answers of the server counts, also where an answer still shows it. */
  async asking<T>(work: () => Promise<T>): Promise<T> {
    this.#awaited += 1;
    try {
      return await work();
    } finally {
      this.#awaited -= 1;
      if (this.#awaited === 0) this.#gone.clear();
    }
  }

  /** A list from the beginning is about to come. */
  clear(): void {
    this.#secrets.clear();
  }

  /** The watch has told of a Secret. */
  applied(object: WatchedObject): void {
    const name = metaOf(object)?.name;
    const floor = name === undefined ? undefined : this.#floors.get(name);
    if (floor !== undefined && !isLater(object.metadata.resourceVersion ?? "", floor)) return;
    this.answered(object);
    if (name !== undefined) this.tell(name);
  }

  /** The watch has told that a Secret is deleted. */
  deleted({ metadata: { name: secret, uid, resourceVersion = "" } }: WatchedObject): void {
    this.#note(secret, resourceVersion);
    const known = this.#secrets.get(secret);
    if (known === undefined || known.uid !== uid) return;
    this.#secrets.delete(secret);
    this.tell(known.name);
  }

  /** Everything was listed anew: objects that only an answer showed may have gone unseen. */
  relisted(keys: ReadonlySet<string>, version: string): void {
    this.#relisted = { keys, version };
    for (const meta of this.#secrets.values())
      if (!keys.has(`${this.#namespace}/${meta.secret}`) && this.#missing(meta, version))
        this.tell(meta.name);
  }

  /** A list of one release alone was answered. */
  listed(name: string, found: readonly WatchedObject[], version: string): void {
    this.#floors.set(name, version);
    const secrets = new Set(found.map((object) => object.metadata.name));
    for (const meta of this.of(name)) if (!secrets.has(meta.secret)) this.#missing(meta, version);
    for (const object of found) this.answered(object);
    this.tell(name);
  }

  /** The server has answered with a Secret. Nobody is told yet. */
  answered(object: WatchedObject): void {
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
    return !this.#relisted.keys.has(`${this.#namespace}/${secret}`);
  }

  #note(secret: string, version: string): void {
    if (this.#awaited > 0) this.#gone.set(secret, version);
  }
}

/** What the labels of a Secret say; undefined where it is none of a release. */
export function metaOf(object: WatchedObject): ReleaseMeta | undefined {
  const { name: secret, uid = "", resourceVersion = "", labels: found } = object.metadata;
  const labels = objectOf(found) as Record<string, string>;
  const { name, version, status } = labels;
  if (name === undefined || version === undefined || !/^\d+$/.test(version)) return undefined;
  const revision = Number(version);
  return { name, revision, status: status ?? "unknown", labels, secret, uid, resourceVersion };
}
