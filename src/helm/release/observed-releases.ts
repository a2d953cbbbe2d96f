/**
 * The releases of the operator's modules, and which of them this operator owns, by their labels. Releases of an older Go operator have no
 * labels but a mark in their record, the Secret of a revision. *Reserved* names are those that no module may have.
 */

import { mapInParallel, oneLine, type Logger } from "../../base/index.ts";
import type { Module, Tree } from "../../base/model/index.ts";
import { mayAdopt, determineReleaseOwner, type AdoptPolicy, type ReleaseOwner } from "./adoption.ts";
import { resourceName, type ObjectRef } from "../manifest/manifest.ts";
import { MAX_PARALLEL_REQUESTS } from "../objects/live-objects.ts";
import type { Release } from "../types.ts";
import type { ReleaseSummary } from "./record.ts";
import { ReleaseStore, type ReleaseStoreOptions } from "./release-store.ts";
import { isInstalled, readArtifactDigest, RELEASE_LABELS, type ReleaseMeta } from "./revisions.ts";

/**
 * The move of a release to the namespace that its module names. It creates the objects of the release again and deletes the old ones, so it
 * counts as a removal (docs/guides/tenancy.md, "Move a release").
 */
export interface ReleaseMove {
  readonly from: string;
  readonly to: string;
  /** Objects whose data the move deletes; undefined = unknown, because the record of the release cannot be read. */
  readonly dataObjects: readonly string[] | undefined;
}

/** Whose release it is: this operator's, another owner's, or there is none. */
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

/** The releases as helm's Secrets show them. */
export class ObservedReleases {
  readonly store: ReleaseStore;
  readonly #options: ObservedOptions;
  /** Releases without labels that an older Go operator marked in their values. */
  readonly #markedByGoOperator = new Set<string>();

  constructor(options: ObservedOptions) {
    this.#options = options;
    this.store = new ReleaseStore(options);
  }

  /** Resolves when all releases and their owners are known. Reads the records of releases without labels for the Go operator's mark. */
  async waitUntilReady(): Promise<void> {
    await this.store.waitUntilReady();
    // Without labels, a release counts as made by a user with helm (`manual`) until its mark is found.
    const withoutLabels = this.store.newestRevisions().filter((meta) => this.#ownerOf(meta) === "manual");
    for (const meta of withoutLabels)
      if ((await this.#tryReadSummary(meta))?.hasGoOperatorMark === true)
        this.#markedByGoOperator.add(meta.name);
  }

  /** A release as AddonModules report it. Sends no request, so facts of a record that was not read yet are undefined. */
  get(name: string): Release | undefined {
    const meta = this.store.get(name);
    if (meta === undefined) return undefined;
    const summary = this.store.getCachedSummary(meta);
    return {
      name,
      namespace: meta.namespace,
      revision: meta.revision,
      status: meta.status,
      chartVersion: summary?.chartVersion,
      manifestChecksum: meta.labels[RELEASE_LABELS.manifest] ?? summary?.checksum,
      lastDeployed: summary?.lastDeployed,
    };
  }

  /** Identifies the present installation by its newest revision. A reinstallation under the same name has another identity. */
  identity(name: string): string | undefined {
    return this.store.get(name)?.uid;
  }

  /** Digest of the registry artifact from which the installed chart comes; undefined if it comes from a directory. */
  getArtifactDigest(name: string): string | undefined {
    const meta = this.store.get(name);
    return meta?.status === "deployed" ? readArtifactDigest(meta) : undefined;
  }

  /** Whether no module may have a release of this name: it is the operator's own, or `HELM_IGNORE_RELEASE` names it. */
  isReserved(name: string): boolean {
    return this.#reservedNames().has(name);
  }

  /** Whose release this is, for modules. A reserved name counts as having no release, so that its release is never deleted. */
  ownership(name: string): Ownership {
    return this.isReserved(name) ? "none" : this.getOwnershipByLabels(name);
  }

  /** Whose release this is by its labels, whether or not its name is reserved. */
  getOwnershipByLabels(name: string): Ownership {
    const meta = this.store.get(name);
    if (meta === undefined) return "none";
    return this.#isOurs(meta) ? "ours" : "foreign";
  }

  /** Names of the releases of modules that are not uninstalled, without reserved names: those are no modules' releases. */
  installed(): string[] {
    const reserved = this.#reservedNames();
    return this.store
      .newestRevisions()
      .filter((meta) => isInstalled(meta) && !reserved.has(meta.name) && this.#isOurs(meta))
      .map((meta) => meta.name);
  }

  /** Names of the releases that have no module in the tree, and that `--purge` therefore deletes. */
  withoutModule({ modules }: Pick<Tree, "modules">): string[] {
    const { purge: policy, managedBy } = this.#options;
    return listOrphans({
      releases: this.store.newestRevisions(),
      modules,
      policy,
      managedBy,
      excluded: this.#reservedNames(),
    });
  }

  /** Whether there is any release of this operator. */
  hasOwnReleases(): boolean {
    return this.store.newestRevisions().some((meta) => this.#isOurs(meta));
  }

  /**
   * The move of the release that the next run of a module would begin; undefined if there is none. A move that was interrupted does not
   * count: it is completed or reversed, and no upgrade has deleted anything yet. Call `readMovingReleases` first to know the data.
   */
  findMove({ name, namespace }: Pick<Module, "name" | "namespace">): ReleaseMove | undefined {
    const meta = this.store.get(name);
    if (!isInstalled(meta)) return undefined;
    const stored = this.store.getLocation(name);
    const present = stored ?? { namespace: this.#options.namespace };
    const to = namespace ?? this.#options.namespace;
    if (to === present.namespace || to === present.from) return undefined;
    // In the operator's namespace, a release of this name may be another owner's.
    if (stored === undefined && this.getOwnershipByLabels(name) !== "ours") return undefined;
    // An object that is in the new namespace already stays, such as after a move whose upgrade failed.
    const isLost = (ref: ObjectRef): boolean => (ref.namespace ?? meta.namespace) !== to;
    const dataObjects = this.store.getCachedSummary(meta)?.dataObjects.filter(isLost).map(resourceName);
    return { from: meta.namespace, to, dataObjects };
  }

  /** Reads the records of the releases that are going to move, so that `findMove` knows their data. Logs a record that cannot be read. */
  async readMovingReleases(modules: readonly Pick<Module, "name" | "namespace">[]): Promise<void> {
    const moving = modules.flatMap((module) =>
      this.findMove(module) === undefined ? [] : (this.store.get(module.name) ?? []),
    );
    await mapInParallel(MAX_PARALLEL_REQUESTS, moving, (meta) => this.#tryReadSummary(meta));
  }

  /** Reads which objects a release should always have, from its record; undefined without an installed release. */
  async readLastingRefs(name: string): Promise<readonly ObjectRef[] | undefined> {
    const meta = this.store.get(name);
    if (!isInstalled(meta)) return undefined;
    return (await this.store.readSummary(meta)).objects;
  }

  /** Whether the operator may uninstall a release. With `--purge=all`, a release that a user made with helm may be, too, but never another operator's. */
  mayUninstall(meta: ReleaseMeta): boolean {
    return this.#isOurs(meta) || (this.#options.purge === "all" && this.#ownerOf(meta) !== "other");
  }

  /**
   * The names that no module may have: a module with the name of the operator's own release would replace or delete the operator. If a
   * module made that release, the operator manages itself, and the name is not reserved.
   */
  #reservedNames(): ReadonlySet<string> {
    const { reserved = [], ownRelease } = this.#options;
    const operatorRelease = ownRelease?.();
    const isReserved = operatorRelease !== undefined && this.getOwnershipByLabels(operatorRelease) !== "ours";
    return new Set(isReserved ? [...reserved, operatorRelease] : reserved);
  }

  /** Who made a release, by its labels and by the mark of an older Go operator. */
  #ownerOf(meta: ReleaseMeta): ReleaseOwner {
    return determineReleaseOwner(meta, this.#options.managedBy, this.#markedByGoOperator.has(meta.name));
  }

  /**
   * Whether a release is this operator's own, or may be taken over from the Go operator, which this one replaces. A release that a user
   * installed is not, even with `--adopt=all`, until a module of its name adopts it.
   */
  #isOurs(meta: ReleaseMeta): boolean {
    const owner = this.#ownerOf(meta);
    return owner !== "manual" && mayAdopt(this.#options.adopt, owner);
  }

  /** Reads the summary of a release; undefined, and logged, if its record cannot be read. */
  async #tryReadSummary(meta: ReleaseMeta): Promise<ReleaseSummary | undefined> {
    try {
      return await this.store.readSummary(meta);
    } catch (error) {
      this.#options.logger.warn("Cannot read a release", { release: meta.name, error: oneLine(error) });
      return undefined;
    }
  }
}

type PurgePolicy = "owned" | "all" | "off";

/** The facts that decide which releases are orphans. */
export interface OrphanFacts {
  readonly releases: readonly Pick<ReleaseMeta, "name" | "labels">[];
  readonly modules: Tree["modules"];
  readonly policy: PurgePolicy;
  readonly managedBy: string;
  /** `HELM_IGNORE_RELEASE` and the operator's own release. */
  readonly excluded: ReadonlySet<string>;
}

/**
 * Lists the releases to purge, sorted by name: those that have no module directory and that the policy covers. `owned` covers releases
 * that this operator has labelled, `all` also those of users and of the Go operator, but never those of another addon-operator.
 */
export function listOrphans(input: OrphanFacts): string[] {
  const { policy, modules, managedBy, excluded } = input;
  if (policy === "off") return [];
  const moduleNames = new Set(modules.map((module) => module.name));
  return input.releases
    .filter((release) =>
      policy === "all"
        ? determineReleaseOwner(release, managedBy, false) !== "other"
        : release.labels[RELEASE_LABELS.managedBy] === managedBy,
    )
    .map((release) => release.name)
    .filter((name) => !moduleNames.has(name) && !excluded.has(name))
    .sort();
}
