/**
 * The releases of the modules: the entry point to reconcile, preview, roll back and remove them. `ModuleTools` gives each module its own
 * tools, whose requests run under the module's ServiceAccount. The records of a release are helm's Secrets, one for each revision.
 */

import type { Discovery, KindFinder } from "../kube/index.ts";
import type { Module, OnFailure } from "../base/model/index.ts";
import { ModuleTools, type ModuleAccounts } from "./module-tools.ts";
import { ChartPrefetcher, type UpcomingModule } from "./chart-prefetcher.ts";
import { ForeignReleaseError, UnreadObjectsError, UnseenError } from "./binary/helm-errors.ts";
import { Helm, type HelmOptions, type ReleaseOptions } from "./binary/helm.ts";
import { cacheCapabilities } from "./chart/capabilities.ts";
import { ChartReader } from "./chart/chart.ts";
import type { CrdRequest, CrdTools } from "./crds/crd.ts";
import { ensureCrds, previewCrds, type CrdPreview } from "./crds/ensure-crds.ts";
import { collectFacts } from "./decide.ts";
import { withHookWatch } from "./hook-watch.ts";
import { RecordedObjects } from "./objects/recorded-objects.ts";
import { restoreObjects } from "./objects/restore-objects.ts";
import { diffManifests } from "./manifest/difference.ts";
import { diffCrds, diffRelease, previewRelease, type Preview } from "./preview.ts";
import { reconcileRelease } from "./reconcile.ts";
import { renderChart, renderManifests } from "./rendering.ts";
import { GoodRevisions } from "./rollback/good-revisions.ts";
import { rollBackByHand, findRollbackTarget } from "./rollback/rollback.ts";
import type {
  DiffRequest,
  HelmInput,
  OnWait,
  Reconciler,
  ReconcileRequest,
  Release,
  ReleaseOutcome,
} from "./types.ts";
import { FormerObjectsWatch, handleFormerObjects } from "./objects/former-objects.ts";
import { claimRemainingHookObjects } from "./objects/hook-objects.ts";
import { retainBeforeRemoval } from "./objects/retain.ts";
import { DeferredLabels } from "./release/deferred-labels.ts";
import { oneLine } from "../base/index.ts";
import { ensureNamespace, completeMove } from "./release/relocate.ts";
import { findWriteRefusal } from "./release/record.ts";
import { isInstalled } from "./release/revisions.ts";
import { ObservedReleases, type ObservedOptions } from "./release/observed-releases.ts";
import type { ReleaseStore } from "./release/release-store.ts";

export interface ReleasesOptions extends Omit<HelmOptions, "server">, ObservedOptions {
  readonly discovery: Pick<Discovery, "resolve" | "invalidate" | "readVersions">;
  /** The ServiceAccounts of modules; without it, all act as the operator. */
  readonly accounts?: ModuleAccounts;
  readonly onFailure?: OnFailure;
  /** Whether the directory of a module of this name exists; without it, each release has one. */
  readonly hasModule?: (name: string) => boolean;
  /** As in `Reconciler`; without it, none does. */
  readonly keepsObjects?: (release: string) => boolean;
  /** As in `Reconciler`; without it, all may. */
  readonly mayMove?: (release: string, to: string) => boolean;
  /** Unpacks a chart again where its directory was emptied from outside. */
  readonly restoreChart?: (chartDir: string) => Promise<void>;
  readonly crdExtraLabels?: Readonly<Record<string, string>> | undefined;
  /** `--module-namespace-labels`. */
  readonly moduleNamespaceLabels?: Readonly<Record<string, string>> | undefined;
  /** Searches for missing kinds again when CRDs were applied. */
  readonly kinds?: Pick<KindFinder, "recheckKinds">;
}

/** Works on the releases of the modules. */
export class Releases {
  readonly helm: Helm;
  readonly observed: ObservedReleases;
  readonly store: ReleaseStore;
  readonly goodRevisions: GoodRevisions;
  readonly #options: ReleasesOptions;
  readonly #reconciler: Reconciler;
  readonly #moduleTools: ModuleTools;
  readonly #deferredLabels: DeferredLabels;
  /** Set while modules of a converge have not run yet. */
  #prefetcher: ChartPrefetcher | undefined;
  readonly #capabilities: ReturnType<typeof cacheCapabilities>;
  readonly #formerObjects: FormerObjectsWatch;
  /** The names of the CRDs that were applied last from `crds/` of each module. */
  readonly #crdsByModule = new Map<string, readonly string[]>();

  /** Builds the tools under the operator's own account (`#reconciler`), from which `ModuleTools` derives those of each module. */
  constructor(options: ReleasesOptions) {
    const { client, clock } = options;
    this.#options = options;
    this.observed = new ObservedReleases(options);
    this.store = this.observed.store;
    this.helm = new Helm({ ...options, server: client.credentialsInfo.server });
    this.#capabilities = cacheCapabilities(options);
    this.#deferredLabels = new DeferredLabels({ ...options, store: this.store });
    this.#formerObjects = new FormerObjectsWatch({
      clock,
      onChange: (release, objects) => options.report?.leftoversChanged(release, objects),
    });
    this.#reconciler = {
      ...options,
      operator: { client, namespace: options.namespace, namespaceLabels: options.moduleNamespaceLabels },
      onFailure: options.onFailure ?? "retry",
      store: this.store,
      helm: this.helm,
      charts: new ChartReader(clock),
      capabilities: this.#capabilities.capabilities,
      isOurs: (release) => this.observed.getOwnershipByLabels(release) === "ours",
      hasModule: options.hasModule ?? (() => true),
      keepsObjects: options.keepsObjects ?? (() => false),
      mayMove: options.mayMove ?? (() => true),
      deferredLabels: this.#deferredLabels,
      findPendingOwners: async (signal) => (await this.#prefetcher?.findPendingOwners(signal)) ?? new Map(),
      findCrdModule: (crd) => this.#findCrdModule(crd),
      watchFormerObjects: (...args) => this.#formerObjects.add(...args),
      getIdentity: (module) => this.#moduleTools.getIdentity(module),
      render: (reconciliation) => this.#prefetcher?.render(reconciliation) ?? renderChart(reconciliation),
    };
    this.#moduleTools = new ModuleTools(this.#reconciler, options.accounts);
    this.goodRevisions = new GoodRevisions({ ...options, observed: this.observed });
  }

  /**
   * Reconciles a module's release, with as few runs of helm as possible. Throws ForeignReleaseError,
   * HelmError, ProblemError (helm is missing), ApiError, ConnectionError.
   */
  async reconcile(request: ReconcileRequest): Promise<ReleaseOutcome> {
    // Deferred labels must not slow down the work on releases.
    this.#deferredLabels.postpone();
    this.#prefetcher?.markStarted(request.module.name);
    const { clock, report } = this.#options;
    const { name } = request.module;
    const startedAt = clock.monotonic();
    try {
      const tools = await this.#moduleTools.forRun(request);
      const result = await reconcileRelease(tools, request);
      return { ...result, release: this.observed.get(name) };
    } finally {
      report?.reconciled(name, (clock.monotonic() - startedAt) / 1000);
      if (this.#prefetcher?.hasAllStarted === true) this.#stopPrefetching();
    }
  }

  /**
   * Rolls back to an earlier revision at the request of a user, and stays there while chart and values stay the same.
   * `wanted` is the number of the revision, by default that of the previous one. Calls `onRecorded` as soon as the release records the request,
   * which `reconcile` then carries out, too. Throws as `reconcile` and `findRollbackTarget`.
   */
  async rollBack(
    request: ReconcileRequest,
    wanted: number | undefined,
    onRecorded: () => void = () => {},
  ): Promise<Release | undefined> {
    this.#prefetcher?.markStarted(request.module.name);
    // Deferred labels are written to the newest revision, and the rollback creates another one.
    await this.flushLabels();
    const reconciliation = await collectFacts(await this.#moduleTools.forRun(request), request);
    await rollBackByHand(reconciliation, wanted, onRecorded);
    return this.observed.get(request.module.name);
  }

  /** The number of the revision to which `rollBack` would roll back. Throws an Error if there is none. */
  findRollbackTarget(name: string, wanted: number | undefined): number {
    return findRollbackTarget(this.store.revisions(name), wanted).revision;
  }

  /** Restores missing objects of a release from its record. Throws RestoreError, ApiError, ConnectionError. */
  async restoreObjects(
    name: string,
    missingObjects: readonly string[],
    signal: AbortSignal,
  ): Promise<ReleaseOutcome> {
    const release = this.store.get(name);
    if (release !== undefined)
      await restoreObjects(this.#moduleTools.forRelease(name), { release, missingObjects, signal });
    return { action: "restored", release: this.observed.get(name), wasRecovered: false };
  }

  /** Stops prefetching charts, because the converge is over or another one begins. */
  #stopPrefetching(): void {
    this.#prefetcher?.stop();
    this.#prefetcher = undefined;
  }

  /**
   * Announces the modules that a converge is going to run, in order. Until they have started, their charts may be prefetched, and
   * a deletion keeps an object that one of them is going to apply (`findPendingOwners`). With `areParallel`, nothing is
   * prefetched: the runs use all processors. Discards the cached capabilities of the server. Never throws.
   */
  announceModules(modules: readonly UpcomingModule[], areParallel = false): void {
    this.#capabilities.forget();
    this.#stopPrefetching();
    const tools = { ...this.#reconciler, toolsOf: this.#moduleTools.forModule };
    if (modules.length > 0) this.#prefetcher = new ChartPrefetcher(tools, modules, areParallel);
  }

  /** Reads the objects in a release's record, to compare them with the live ones; undefined without an installed release. Throws as `readSummary`. */
  async readRecordedObjects(name: string, signal: AbortSignal): Promise<RecordedObjects | undefined> {
    const meta = this.store.get(name);
    if (!isInstalled(meta)) return undefined;
    const { manifest } = await this.store.readRecord(meta, signal);
    return new RecordedObjects(this.#moduleTools.forRelease(name), name, manifest);
  }

  /** Writes deferred labels now; resolves when they are written. */
  flushLabels(): Promise<void> {
    return this.#deferredLabels.flush();
  }

  /** Decides what `reconcile` would do now; changes nothing. Throws as `reconcile`. */
  preview(request: ReconcileRequest): Promise<Preview> {
    return previewRelease(this.#moduleTools.forModule(request.module), request);
  }

  /**
   * Renders manifest and helm hooks as text, as `reconcile` would now. With `diff`, returns how they differ from those in the
   * release's newest record. Throws as `reconcile`.
   */
  async renderManifests(request: ReconcileRequest, diff: boolean): Promise<string> {
    if (request.module.chart === "none") return "";
    const tools = this.#moduleTools.forModule(request.module);
    const rendered = await renderManifests(await collectFacts(tools, request));
    if (!diff) return `${rendered.map((part) => part.trim()).join("\n---\n")}\n`;
    const newest = this.store.get(request.module.name);
    const stored = newest === undefined ? [] : await this.store.readManifests(newest);
    const difference = diffManifests(stored, rendered);
    return difference === "" ? "No diff found\n" : difference;
  }

  /** The changes that `reconcile` would make in the cluster now, as a diff; "" for none. Throws as `reconcile`. */
  async diff(request: DiffRequest): Promise<string> {
    const crds = await diffCrds(this.#createCrdTools(request.crds), request);
    if (request.module.chart === "none") return crds;
    return `${crds}${await diffRelease(this.#moduleTools.forModule(request.module), request)}`;
  }

  /**
   * Uninstalls a release with `helm uninstall --keep-history`, after objects that must stay are protected. Does nothing if the release
   * is deleted or uninstalled already. Throws ForeignReleaseError, UnseenError, HelmError, and as `retainBeforeRemoval`.
   */
  async uninstall(
    { name, helm }: Pick<Module, "name" | "helm">,
    signal: AbortSignal,
    onWait?: OnWait,
  ): Promise<void> {
    const meta = await this.store.refresh(name, signal);
    if (!isInstalled(meta)) return;
    if (!this.observed.mayUninstall(meta)) throw new ForeignReleaseError(name, "another owner");
    await this.helm.endOrphanedProcesses(signal, name);
    const location = this.store.getLocation(name);
    // helm finds a release in one namespace only. Does nothing unless a move was interrupted.
    if (location !== undefined)
      await completeMove(this.#moduleTools.forRelease(name), { release: name, signal }, location);
    const tools = this.#moduleTools.forRelease(name);
    const recorded = await retainBeforeRemoval(tools, { name, helm }, signal);
    const run = { release: name, signal, onWait, mayHaveHooks: true, mayEnd: false };
    await withHookWatch(tools, run, (end) =>
      this.#runUninstall(tools, { release: name, overrides: helm, signal: end }),
    );
    const left = await this.store.refresh(name);
    if (isInstalled(left)) {
      const { server } = this.#options.client.credentialsInfo;
      throw new UnseenError(name, "uninstall", server, await findWriteRefusal(tools.client, left));
    }
    await handleFormerObjects(tools, name, { recorded, signal });
  }

  /** Runs helm, and marks a release failed whose objects helm left: the next run would skip an uninstalled release. */
  async #runUninstall({ helm }: Reconciler, options: ReleaseOptions): Promise<void> {
    try {
      await helm.uninstall(options);
    } catch (error) {
      const left =
        error instanceof UnreadObjectsError ? await this.store.refresh(options.release) : undefined;
      if (left !== undefined) await this.store.markFailed(left, oneLine(error));
      throw error;
    }
  }

  /**
   * Deletes the records and the stored location of a release, but never its objects. Marks the remaining objects of its hooks, so
   * that a later release of this name may replace them. Throws ApiError, ConnectionError.
   */
  async forgetRelease(name: string): Promise<void> {
    await claimRemainingHookObjects(this.#moduleTools.forRelease(name), name);
    await this.store.deleteRecords(name);
    await this.store.setLocation(name, undefined);
  }

  /** Creates the namespace of a module if it has one of its own and that is missing. Throws as `ensureNamespace`. */
  async prepareNamespace({ name, namespace }: HelmInput["module"], signal: AbortSignal): Promise<void> {
    if (namespace === undefined || namespace === this.#options.namespace) return;
    // The namespace of an installed release exists: no request is necessary.
    if (this.store.revisionsIn(namespace, name).length > 0) return;
    await ensureNamespace(this.#reconciler, namespace, signal);
  }

  /** Finds out what `ensureCrds` would do; changes nothing. Throws ApiError, ConnectionError. */
  previewCrds(request: CrdRequest): Promise<CrdPreview> {
    return previewCrds(request, this.#createCrdTools(request));
  }

  /** Creates and updates CRDs from files, and calls `listeners` with what it finds and does. Throws as `ensureCrds`. */
  async ensureCrds(
    request: CrdRequest,
    listeners: Pick<CrdTools, "onProgress" | "onDropped"> = {},
  ): Promise<void> {
    try {
      const tools = { ...this.#createCrdTools(request), ...request, ...listeners };
      const applied = await ensureCrds(request.files, tools);
      if (request.release !== undefined) this.#crdsByModule.set(request.release, applied);
    } catch (error) {
      throw this.#moduleTools.toCrdError(request, error);
    } finally {
      // Some may be applied although others are refused.
      this.#capabilities.forget();
      this.#options.kinds?.recheckKinds();
    }
  }

  /** As in `Reconciler`. */
  #findCrdModule(crd: string): string | undefined {
    const { hasModule } = this.#reconciler;
    return this.#crdsByModule
      .entries()
      .find(([module, crds]) => crds.includes(crd) && hasModule(module))?.[0];
  }

  /** The tools for work on the CRDs of a module, with the client that acts for the module. */
  #createCrdTools({ release = "" }: CrdRequest): Pick<CrdTools, "client" | "clock" | "labels" | "namespace"> {
    const { clock, crdExtraLabels: labels, namespace } = this.#options;
    return { client: this.#moduleTools.forRelease(release).client, clock, labels, namespace };
  }

  /** Stops prefetching, timers and watches. */
  close(): void {
    this.#stopPrefetching();
    this.#formerObjects.close();
    this.goodRevisions.close();
    this.#deferredLabels.close();
    this.store.close();
  }
}
