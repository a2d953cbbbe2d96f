/** What is known of the releases of a namespace, and whose they are (docs/RUNNING.md, "Taking over"). */

import { oneLine, type Logger } from "../../lib/index.ts";
import type { Tree } from "../../model/index.ts";
import { ForeignReleaseError } from "../binary/helm-errors.ts";
import type { Reconciler } from "../examine.ts";
import type { ObjectRef } from "../manifest/manifest.ts";
import { ReleaseStore, type ReleaseStoreOptions } from "./release-store.ts";
import { LABELS, GO_LABELS, isCurrentScheme, type ReleaseMeta } from "./revisions.ts";

/** What people and statuses see of a release. `lastDeployed` in ms since the epoch. */
export interface Release {
  readonly name: string;
  readonly revision: number;
  readonly status: string;
  readonly chartVersion: string | undefined;
  readonly manifestChecksum: string | undefined;
  readonly lastDeployed: number | undefined;
}

export type Ownership = "ours" | "foreign" | "none";

export interface ObservedOptions extends ReleaseStoreOptions {
  /** Digest that marks this operator's releases (`managedByDigest`). */
  readonly managedBy: string;
  readonly purge: PurgePolicy;
  readonly adopt: AdoptPolicy;
  /** Releases that no module may have, and that are never deleted or purged. */
  readonly reserved?: readonly string[];
  /** The release that made the operator's ConfigMap: reserved too, unless it is a module's. */
  readonly ownRelease?: () => string | undefined;
  readonly logger: Logger;
}

/** The releases of a namespace as helm's Secrets show them. */
export class ObservedReleases {
  readonly store: ReleaseStore;
  readonly #options: ObservedOptions;
  /** Releases without labels that an older Go operator marked in their values. */
  readonly #goMarked = new Set<string>();

  constructor(options: ObservedOptions) {
    this.#options = options;
    this.store = new ReleaseStore(options);
  }

  /** Resolves when all releases are known, those of an older Go operator included. */
  async ready(): Promise<void> {
    await this.store.synced;
    const unmarked = this.store.all().filter((meta) => this.#origin(meta) === "hand");
    for (const meta of unmarked) await this.#lookForGoMark(meta);
  }

  /** Manifest and helm hooks as the release's newest record has them; empty when there is none. */
  async stored(name: string): Promise<readonly string[]> {
    const meta = this.store.get(name);
    return meta === undefined ? [] : this.store.manifests(meta);
  }

  /** What is known of a release now; answered from memory. */
  get(name: string): Release | undefined {
    const meta = this.store.get(name);
    if (meta === undefined) return undefined;
    const summary = this.store.knownSummary(meta);
    return {
      name,
      revision: meta.revision,
      status: meta.status,
      chartVersion: summary?.chartVersion,
      manifestChecksum: meta.labels[LABELS.manifest] ?? summary?.checksum,
      lastDeployed: summary?.lastDeployed,
    };
  }

  /** Whether no module may have a release of this name: it is the operator's own, or one to be left alone. */
  isReserved(name: string): boolean {
    return this.#reserved().has(name);
  }

  /** Whether this operator may delete a release of this name. */
  ownership(name: string): Ownership {
    return this.isReserved(name) ? "none" : this.owner(name);
  }

  /** The same for releases that are never deleted, too. */
  owner(name: string): Ownership {
    const meta = this.store.get(name);
    if (meta === undefined) return "none";
    return this.#isOurs(meta) ? "ours" : "foreign";
  }

  /** Names of this operator's releases that are not uninstalled. */
  installed(): string[] {
    const reserved = this.#reserved();
    const isInstalled = (meta: ReleaseMeta) => meta.status !== "uninstalled" && this.#isOurs(meta);
    return this.store
      .all()
      .filter((meta) => isInstalled(meta) && !reserved.has(meta.name))
      .map((meta) => meta.name);
  }

  /** Releases that have no module in the tree, by the purge policy alone. */
  withoutModule({ modules }: Pick<Tree, "modules">): string[] {
    const { purge: policy, managedBy } = this.#options;
    return purgeList({ releases: this.store.all(), modules, policy, managedBy, never: this.#reserved() });
  }

  /** Whether there is any release of this operator. */
  anyOurs(): boolean {
    return this.store.all().some((meta) => this.#isOurs(meta));
  }

  /** The objects that a release should always have; undefined when there is no release. */
  async objects(name: string): Promise<readonly ObjectRef[] | undefined> {
    const meta = this.store.get(name);
    if (meta === undefined || meta.status === "uninstalled") return undefined;
    return (await this.store.summary(meta)).objects;
  }

  /** Whether a release may be uninstalled: with `--purge=all` those made by hand too, but never another operator's. */
  mayUninstall(meta: ReleaseMeta): boolean {
    return this.#isOurs(meta) || (this.#options.purge === "all" && this.#origin(meta) !== "other");
  }

  #reserved(): ReadonlySet<string> {
    const { reserved = [], ownRelease } = this.#options;
    const own = ownRelease?.();
    return new Set(own === undefined || this.owner(own) === "ours" ? reserved : [...reserved, own]);
  }

  #origin(meta: ReleaseMeta): Origin {
    return originOf(meta, this.#options.managedBy, this.#goMarked.has(meta.name));
  }

  /** This operator's own, or the Go operator's, which this one replaces. */
  #isOurs(meta: ReleaseMeta): boolean {
    const origin = this.#origin(meta);
    return origin !== "hand" && mayAdopt(this.#options.adopt, origin);
  }

  async #lookForGoMark(meta: ReleaseMeta): Promise<void> {
    try {
      if ((await this.store.summary(meta)).goMark) this.#goMarked.add(meta.name);
    } catch (error) {
      this.#options.logger.warn("Cannot read a release", { release: meta.name, error: oneLine(error) });
    }
  }
}

/** Which releases of others a module takes over (`--adopt`). */
export type AdoptPolicy = "all" | "go" | "none";

/** Who made a release: this operator, another one of its kind, the Go operator, or somebody with helm. */
export type Origin = "ours" | "other" | "go" | "hand";

/** The origin by a release's labels; `goMark` = an older Go operator has marked its values. */
export function originOf(
  { labels }: Pick<ReleaseMeta, "labels">,
  managedBy: string,
  goMark: boolean,
): Origin {
  const label = labels[LABELS.managedBy];
  if (label === managedBy) return "ours";
  if (isCurrentScheme(label)) return "other";
  // A label of another scheme version does not show which operator wrote it.
  if (label !== undefined) return "ours";
  return goMark || GO_LABELS.some((name) => name in labels) ? "go" : "hand";
}

/** Whether a module may take over a release of this origin. */
export function mayAdopt(policy: AdoptPolicy, origin: Origin): boolean {
  if (origin === "ours") return true;
  if (origin === "other" || policy === "none") return false;
  return origin === "go" || policy === "all";
}

/** Who made the release that a module is about to work on. Throws ForeignReleaseError where it must be left alone. */
export async function originToWorkOn(
  tools: Pick<Reconciler, "store" | "managedBy" | "adopt">,
  release: ReleaseMeta,
): Promise<Origin> {
  const { store, managedBy, adopt } = tools;
  let origin = originOf(release, managedBy, false);
  if (origin === "hand" && (await hasGoMark(store, release))) origin = "go";
  if (mayAdopt(adopt, origin)) return origin;
  throw new ForeignReleaseError(
    release.name,
    OWNERS[origin] + (origin === "other" ? "" : ` (--adopt=${adopt})`),
  );
}

const OWNERS: Readonly<Record<Origin, string>> = {
  ours: "this addon-operator",
  other: "another addon-operator",
  go: "the Go operator",
  hand: "whoever made it with helm",
};

/** A record that cannot be read is left to helm, which says what is wrong. */
function hasGoMark(store: ReleaseStore, release: ReleaseMeta): Promise<boolean> {
  return store.summary(release).then(
    ({ goMark }) => goMark,
    (error: unknown) => {
      if (error instanceof SyntaxError) return false;
      throw new Error(`cannot tell who made release "${release.name}": ${oneLine(error)}`, { cause: error });
    },
  );
}

type PurgePolicy = "owned" | "all" | "off";

/** What a purge is decided on. */
export interface PurgeInput {
  readonly releases: readonly Pick<ReleaseMeta, "name" | "labels">[];
  readonly modules: Tree["modules"];
  readonly policy: PurgePolicy;
  readonly managedBy: string;
  /** `HELM_IGNORE_RELEASE` and the operator's own release. */
  readonly never: ReadonlySet<string>;
}

/** Releases that have no module directory, sorted by name. */
export function purgeList(input: PurgeInput): string[] {
  const { policy, modules, managedBy, never } = input;
  if (policy === "off") return [];
  const present = new Set(modules.map((module) => module.name));
  return input.releases
    .filter((release) =>
      policy === "all"
        ? originOf(release, managedBy, false) !== "other"
        : release.labels[LABELS.managedBy] === managedBy,
    )
    .map((release) => release.name)
    .filter((name) => !present.has(name) && !never.has(name))
    .sort();
}
