/** The releases of the modules: reconciled, removed, looked at. */

import type { Discovery, KubeClient } from "../../kube/index.ts";
import { oneLine } from "../../lib/index.ts";
import type { Module, Tree } from "../../model/index.ts";
import { mayAdopt, originOf } from "../ownership/adopt.ts";
import type { AdoptPolicy, Origin } from "../ownership/adopt.ts";
import { Capabilities } from "../chart/capabilities.ts";
import { ChartReader } from "../chart/chart.ts";
import { ensureCrds } from "../crds.ts";
import { ForeignReleaseError } from "../binary/helm-errors.ts";
import { Helm } from "../binary/helm.ts";
import type { HelmOptions } from "../binary/helm.ts";
import { withHookWatch } from "../binary/hook-watch.ts";
import type { OnWait } from "../binary/hook-watch.ts";
import { LABELS } from "./labels.ts";
import { Ahead } from "../ahead/ahead.ts";
import type { UpcomingModule } from "../ahead/ahead.ts";
import type { Reconciler } from "../examine.ts";
import { LateLabels } from "./late-labels.ts";
import { endAllHelms, endLiveHelms } from "../binary/live-helms.ts";
import type { ObjectRef } from "../manifest/manifest.ts";
import { manifestDiff } from "../manifest/manifest-diff.ts";
import { previewRelease, renderRelease } from "../preview.ts";
import type { Preview } from "../preview.ts";
import { purgeList } from "./purge-list.ts";
import type { PurgePolicy } from "./purge-list.ts";
import { writeLabels, reconcileRelease } from "../reconcile.ts";
import { spareInRemoval } from "../ownership/spare.ts";
import { ReleaseStore } from "./release-store.ts";
import type { Watching } from "./release-store.ts";
import type { ReleaseMeta } from "./revisions.ts";

/** What people and statuses see of a release. `lastDeployed` in ms since the epoch. */
export interface Release {
  readonly name: string;
  readonly revision: number;
  readonly status: string;
  readonly chartVersion: string | undefined;
  readonly manifestChecksum: string | undefined;
  readonly lastDeployed: number | undefined;
}

export type Ownership = "ours" | "foreign" | "absent";

/** The outcome of a helm step. */
export interface ReleaseOutcome {
  /** `restored`: the release was right, and missing objects were put back. */
  readonly action: "unchanged" | "labelled" | "restored" | "installed" | "upgraded";
  readonly release: Release | undefined;
  /** A release that a dead helm had left unfinished was recovered first. */
  readonly recovered: boolean;
}

/** What a module's release is made from. */
export interface HelmInput {
  readonly module: Pick<Module, "name" | "valuesKey" | "chartDir" | "chart">;
  /** JSON with `global` and the module's section. */
  readonly values: string;
}

export interface ReconcileRequest extends HelmInput {
  /** Missing objects of the release, as `nameOf` names them, with their namespaces. */
  readonly absent?: readonly string[];
  readonly signal: AbortSignal;
  /** Called with the chart's hook that a long run of helm waits for, and with undefined when it is over. */
  readonly onWait?: OnWait;
}

export interface ReleasesOptions extends HelmOptions {
  readonly client: KubeClient;
  readonly discovery: Pick<Discovery, "resolve">;
  readonly hub: Watching;
  readonly purge: PurgePolicy;
  readonly adopt: AdoptPolicy;
  /** Releases that no module may have, and that are never deleted or purged. */
  readonly reserved?: readonly string[];
  /** The release that made the operator's ConfigMap: reserved too, unless it is a module's. */
  readonly ownRelease?: () => string | undefined;
  /** Called when CRDs were applied. */
  readonly onCrds?: () => void;
}

/** The releases of the modules: brought to their values, removed, looked at. */
export class Releases {
  readonly store: ReleaseStore;
  readonly helm: Helm;
  readonly #options: ReleasesOptions;
  readonly #reconciler: Reconciler;
  /** Releases without labels that an older Go operator marked in their values. */
  readonly #goMarked = new Set<string>();
  readonly #lateLabels: LateLabels;
  readonly #ahead: Ahead;

  constructor(options: ReleasesOptions) {
    const { client, clock } = options;
    this.#options = options;
    this.store = new ReleaseStore(options);
    this.helm = new Helm(options);
    this.#reconciler = {
      ...options,
      store: this.store,
      helm: this.helm,
      charts: new ChartReader(clock),
      capabilities: new Capabilities(client, clock),
      isOurs: (release) => this.#ownership(release) === "ours",
      adopting: (release) => this.#adopting(release),
      tookOver: (release, objects) => options.recorder?.tookOver(release, objects),
      oweLabel: (release) => this.#lateLabels.owe(release),
      makers: (signal) => this.#ahead.makers(signal),
      render: (reconciliation, release) => this.#ahead.render(reconciliation, release),
      upgradeInstall: (call) => this.#ahead.upgradeInstall(call),
    };
    this.#ahead = new Ahead(this.#reconciler);
    this.#lateLabels = new LateLabels(clock, (release) => writeLabels(this.#reconciler, release));
  }

  /** Resolves when all releases are known, those of an older Go operator included. */
  async ready(signal?: AbortSignal): Promise<void> {
    await this.store.synced;
    const unmarked = this.store.all().filter((meta) => this.#origin(meta) === "hand");
    for (const meta of unmarked) await this.#lookForGoMark(meta, signal);
  }

  /**
   * Ends helm processes that an earlier operator process left, before anything is decided; only for the holder of
   * the lease.
   */
  async endStrays(signal?: AbortSignal): Promise<void> {
    await endAllHelms(this.#options.managedBy, this.#options.clock, signal);
  }

  /**
   * Brings a module's release to its values, with as little work for helm as possible. Throws ForeignReleaseError,
   * HelmError, ProblemError (helm is missing), ApiError, ConnectionError.
   */
  async reconcile(request: ReconcileRequest): Promise<ReleaseOutcome> {
    this.#lateLabels.touch();
    await this.#ahead.turn(request.module.name);
    const { clock, recorder } = this.#options;
    const { name } = request.module;
    const from = clock.monotonic();
    try {
      const { action, recovered } = await reconcileRelease(this.#reconciler, request);
      return { action, recovered, release: this.get(name) };
    } finally {
      recorder?.reconciled(name, (clock.monotonic() - from) / 1000);
    }
  }

  /**
   * What a reload is going to run, in order: helm may begin before their turn, and an object whose template moved to
   * one of them stays. Never throws.
   */
  announce(modules: readonly UpcomingModule[]): void {
    this.#ahead.announce(modules);
  }

  /** Writes the labels that nobody waits for now; resolves when that is done. */
  settled(): Promise<void> {
    return this.#lateLabels.flush();
  }

  /** What `reconcile` would do now; changes nothing. Throws as `reconcile`. */
  preview(request: ReconcileRequest): Promise<Preview> {
    return previewRelease(this.#reconciler, request);
  }

  /** Manifest and helm hooks as `reconcile` would render them now. Throws as `reconcile`. */
  render(request: ReconcileRequest): Promise<readonly string[]> {
    return renderRelease(this.#reconciler, request);
  }

  /** The same as one text, or how it differs from what the release's newest record has. */
  async show(request: ReconcileRequest, diff: boolean): Promise<string> {
    if (request.module.chart === "none") return "";
    const rendered = await this.render(request);
    if (!diff) return `${rendered.map((part) => part.trim()).join("\n---\n")}\n`;
    const difference = manifestDiff(await this.stored(request.module.name), rendered);
    return difference === "" ? "No diff found\n" : difference;
  }

  /** Manifest and helm hooks as the release's newest record has them; empty when there is none. */
  async stored(name: string, signal?: AbortSignal): Promise<readonly string[]> {
    const meta = this.store.get(name);
    return meta === undefined ? [] : this.store.manifests(meta, signal);
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
    return this.isReserved(name) ? "absent" : this.#ownership(name);
  }

  #ownership(name: string): Ownership {
    const meta = this.store.get(name);
    if (meta === undefined) return "absent";
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
    const never = this.#reserved();
    return purgeList({
      releases: this.store.all(),
      tree: { modules, purgeHolds: [] },
      policy,
      managedBy,
      never,
    });
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

  /** `helm uninstall --keep-history`; nothing for a release that is gone or uninstalled already. */
  async uninstall(name: string, signal: AbortSignal, onWait?: OnWait): Promise<void> {
    const meta = await this.store.refresh(name, signal);
    if (meta === undefined || meta.status === "uninstalled") return;
    const { managedBy, clock, purge } = this.#options;
    // With `--purge=all` releases made by hand go too, but never those of another operator.
    const mayGo = this.#isOurs(meta) || (purge === "all" && this.#origin(meta) !== "other");
    if (!mayGo) throw new ForeignReleaseError(name, "somebody else");
    await endLiveHelms(`${managedBy}/${name}`, clock, signal);
    await spareInRemoval(this.#reconciler, name, signal);
    try {
      const watched = { store: this.store, clock, release: name, signal, onWait };
      await withHookWatch(watched, () => this.helm.uninstall(name, signal));
    } finally {
      await this.store.refresh(name);
    }
  }

  /** Removes the release's records, never objects. */
  forget(name: string, signal?: AbortSignal): Promise<void> {
    return this.store.forget(name, signal);
  }

  /** Creates and updates CRDs from files. Throws as `ensureCrds`. */
  async ensureCrds(files: readonly string[], signal?: AbortSignal): Promise<void> {
    const { client, clock } = this.#options;
    await ensureCrds(files, { client, clock, signal });
    this.#options.onCrds?.();
  }

  close(): void {
    this.#ahead.stop();
    this.#lateLabels.close();
    this.store.close();
  }

  #reserved(): ReadonlySet<string> {
    const { reserved = [], ownRelease } = this.#options;
    const own = ownRelease?.();
    return new Set(own === undefined || this.#ownership(own) === "ours" ? reserved : [...reserved, own]);
  }

  #origin(meta: ReleaseMeta): Origin {
    return originOf(meta, this.#options.managedBy, this.#goMarked.has(meta.name));
  }

  /** This operator's own, or the Go operator's, which this one replaces. */
  #isOurs(meta: ReleaseMeta): boolean {
    const origin = this.#origin(meta);
    return origin !== "hand" && mayAdopt(this.#options.adopt, origin);
  }

  #adopting(release: string): void {
    this.#options.logger.warn("A release that somebody made with helm is taken over", { release });
    this.#options.recorder?.adopted(release);
  }

  async #lookForGoMark(meta: ReleaseMeta, signal?: AbortSignal): Promise<void> {
    try {
      if ((await this.store.summary(meta)).goMark) this.#goMarked.add(meta.name);
    } catch (error) {
      signal?.throwIfAborted();
      this.#options.logger.warn("Cannot read a release", { release: meta.name, error: oneLine(error) });
    }
  }
}
