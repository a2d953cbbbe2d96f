/** The releases of the modules: the entry point to reconcile, preview, roll back and remove them. */

import type { Discovery } from "../../kube/index.ts";
import { oneLine } from "../../lib/index.ts";
import { retriesOf, type Module, type OnFailure } from "../../model/index.ts";
import { ActingTools, type ModuleAccounts } from "../acting-tools.ts";
import { Ahead, type UpcomingModule } from "../ahead.ts";
import { ForeignReleaseError, UnseenError } from "../binary/helm-errors.ts";
import { Helm, type HelmOptions } from "../binary/helm.ts";
import { capabilitiesOf, ChartReader } from "../chart/chart.ts";
import type { CrdRequest, CrdTools } from "../crds/crd.ts";
import { ensureCrds, previewCrds, type CrdPreview } from "../crds/ensure-crds.ts";
import { examine } from "../decide.ts";
import { withHookWatch, type OnWait } from "../hook-watch.ts";
import { RecordedObjects, restoreObjects } from "../objects/live-objects.ts";
import { manifestDiff } from "../manifest/manifest.ts";
import { crdDiff, liveDiff, previewRelease, renderRelease, type Preview } from "../preview.ts";
import { reconcileRelease } from "../reconcile.ts";
import { renderNow } from "../rendering.ts";
import { GOOD, markable, Proofs } from "../rollback.ts";
import { rollBackByHand, wayBackOf } from "../rollback-by-hand.ts";
import type {
  DiffRequest,
  HelmInput,
  Reconciler,
  ReconcileRequest,
  Release,
  ReleaseOutcome,
} from "../types.ts";
import { claimHookLeftovers } from "../objects/hook-objects.ts";
import { retainInRemoval } from "../objects/retain.ts";
import { LateLabels } from "./late-labels.ts";
import { ensureNamespace } from "./namespace.ts";
import { completeMove } from "./relocate.ts";
import { ObservedReleases, type ObservedOptions } from "./observed-releases.ts";
import type { ReleaseStore } from "./release-store.ts";

export interface ReleasesOptions extends Omit<HelmOptions, "server">, ObservedOptions {
  readonly discovery: Pick<Discovery, "resolve">;
  /** The ServiceAccounts of modules; without it, all act as the operator. */
  readonly accounts?: ModuleAccounts;
  readonly onFailure?: OnFailure;
  /** Whether the directory of a module of this name exists; without it, each release has one. */
  readonly hasModule?: (name: string) => boolean;
  /** As in `Reconciler`; without it, none does. */
  readonly keepsObjects?: (release: string) => boolean;
  /** Unpacks a chart again where its directory was emptied from outside. */
  readonly restoreChart?: (chartDir: string) => Promise<void>;
  readonly crdExtraLabels?: Readonly<Record<string, string>> | undefined;
  /** `--module-namespace-labels`. */
  readonly moduleNamespaceLabels?: Readonly<Record<string, string>> | undefined;
  /** Called when CRDs were applied. */
  readonly onCrds?: () => void;
}

interface ReportedHealth {
  readonly status: string;
  readonly revision: number | undefined;
}

/** Works on the releases of the modules. */
export class Releases {
  readonly helm: Helm;
  readonly observed: ObservedReleases;
  readonly store: ReleaseStore;
  readonly #options: ReleasesOptions;
  readonly #reconciler: Reconciler;
  readonly #acting: ActingTools;
  readonly #lateLabels: LateLabels;
  readonly #proofs: Proofs;
  /** Set while modules of a converge have not run yet. */
  #ahead: Ahead | undefined;
  readonly #capabilities: ReturnType<typeof capabilitiesOf>;

  constructor(options: ReleasesOptions) {
    const { client, clock } = options;
    this.#options = options;
    this.observed = new ObservedReleases(options);
    this.store = this.observed.store;
    this.helm = new Helm({ ...options, server: client.credentialsInfo.server });
    this.#capabilities = capabilitiesOf(client, clock);
    this.#lateLabels = new LateLabels({ ...options, store: this.store });
    this.#reconciler = {
      ...options,
      operator: { client, namespace: options.namespace, namespaceLabels: options.moduleNamespaceLabels },
      onFailure: options.onFailure ?? "retry",
      store: this.store,
      helm: this.helm,
      charts: new ChartReader(clock),
      capabilities: this.#capabilities.digest,
      isOurs: (release) => this.observed.ownershipByLabels(release) === "ours",
      hasModule: options.hasModule ?? (() => true),
      keepsObjects: options.keepsObjects ?? (() => false),
      lateLabels: this.#lateLabels,
      pendingOwners: async (signal) => (await this.#ahead?.pendingOwners(signal)) ?? new Map(),
      actorOf: (module) => this.#acting.actorOf(module),
      render: (reconciliation) => this.#ahead?.render(reconciliation) ?? renderNow(reconciliation),
    };
    this.#acting = new ActingTools(this.#reconciler, options.accounts);
    this.#proofs = new Proofs(clock);
  }

  /**
   * Reconciles a module's release, with as few runs of helm as possible. Throws ForeignReleaseError,
   * HelmError, ProblemError (helm is missing), ApiError, ConnectionError.
   */
  async reconcile(request: ReconcileRequest): Promise<ReleaseOutcome> {
    this.#lateLabels.touch();
    this.#ahead?.turn(request.module.name);
    const { clock, recorder } = this.#options;
    const { name } = request.module;
    const from = clock.monotonic();
    try {
      const result = await reconcileRelease(await this.#acting.forRun(request), request);
      return { ...result, release: this.observed.get(name) };
    } finally {
      recorder?.reconciled(name, (clock.monotonic() - from) / 1000);
      if (this.#ahead?.isOver === true) this.#endAhead();
    }
  }

  /**
   * Rolls back to an earlier revision at the request of a user, and stays there while chart and values stay the same.
   * `wanted` is the number of the revision, by default that of the previous one. Throws as `reconcile`, and NoWayBackError.
   */
  async rollBack(request: ReconcileRequest, wanted: number | undefined): Promise<Release | undefined> {
    this.#ahead?.turn(request.module.name);
    await this.flushLabels();
    const reconciliation = await examine(await this.#acting.forRun(request), request);
    await rollBackByHand(reconciliation, wanted);
    return this.observed.get(request.module.name);
  }

  /** The number of the revision that `rollBack` would go back to. Throws NoWayBackError. */
  wayBack(name: string, wanted: number | undefined): number {
    return wayBackOf(this.store.revisions(name), wanted).revision;
  }

  /** Restores missing objects of a release from its record. Throws RestoreError, ApiError, ConnectionError. */
  async restore(name: string, absent: readonly string[], signal: AbortSignal): Promise<ReleaseOutcome> {
    const release = this.store.get(name);
    if (release !== undefined) await restoreObjects(this.#acting.known(name), { release, absent, signal });
    return { action: "restored", release: this.observed.get(name), recovered: false };
  }

  /** Stops prefetching, because the converge is over or another one begins. */
  #endAhead(): void {
    this.#ahead?.stop();
    this.#ahead = undefined;
  }

  /**
   * Announces the modules that a converge is going to run, in order: their charts may be prefetched, and objects whose
   * template moved to one of them are retained. Discards the cached capabilities of the server. Never throws.
   */
  announce(modules: readonly UpcomingModule[], areParallel = false): void {
    this.#capabilities.forget();
    this.#endAhead();
    const tools = { ...this.#reconciler, toolsOf: this.#acting.of };
    if (modules.length > 0) this.#ahead = new Ahead(tools, modules, areParallel);
  }

  /** The objects in a release's record, read in one request; undefined without a release. Throws as `summary`. */
  async recorded(name: string, signal: AbortSignal): Promise<RecordedObjects | undefined> {
    const meta = this.store.get(name);
    if (meta === undefined || meta.status === "uninstalled") return undefined;
    const { manifest } = await this.store.record(meta, signal);
    return new RecordedObjects(this.#acting.known(name), name, manifest);
  }

  /** Records the health of a module: a revision that stays healthy for a minute becomes the target of rollbacks. */
  recordHealth(module: HelmInput["module"], health: ReportedHealth | undefined): void {
    this.#proofs.check(module.name, health?.status === "True", () => void this.markHealthy(module, health));
  }

  /** Marks a healthy revision as the target of rollbacks at once. Never throws. */
  async markHealthy(module: HelmInput["module"], health: ReportedHealth | undefined): Promise<void> {
    const { logger, onFailure = "retry" } = this.#options;
    const meta = markable(this.store.revisions(module.name));
    if (health?.status !== "True" || meta?.revision !== health.revision) return;
    if (meta === undefined || this.observed.ownershipByLabels(module.name) !== "ours") return;
    if (retriesOf(module, onFailure) === undefined) return;
    try {
      await this.store.label(meta, { ...meta.assumed, ...GOOD });
    } catch (error) {
      // The next upgrade marks it, if it is healthy then.
      logger.debug("A healthy release was not marked", { release: module.name, error: oneLine(error) });
    }
  }

  /** Writes deferred labels now; resolves when they are written. */
  flushLabels(): Promise<void> {
    return this.#lateLabels.flush();
  }

  /** What `reconcile` would do now; changes nothing. Throws as `reconcile`. */
  preview(request: ReconcileRequest): Promise<Preview> {
    return previewRelease(this.#acting.of(request.module), request);
  }

  /**
   * Manifest and helm hooks as `reconcile` would render them now; with `diff`, how they differ from those in the
   * release's newest record. Throws as `reconcile`.
   */
  async show(request: ReconcileRequest, diff: boolean): Promise<string> {
    if (request.module.chart === "none") return "";
    const rendered = await renderRelease(this.#acting.of(request.module), request);
    if (!diff) return `${rendered.map((part) => part.trim()).join("\n---\n")}\n`;
    const difference = manifestDiff(await this.observed.stored(request.module.name), rendered);
    return difference === "" ? "No diff found\n" : difference;
  }

  /** What `reconcile` would change in the cluster now, as a diff; "" for nothing. Throws as `reconcile`. */
  async diff(request: DiffRequest): Promise<string> {
    const crds = await crdDiff(this.#crdTools(request.crds), request);
    if (request.module.chart === "none") return crds;
    return `${crds}${await liveDiff(this.#acting.of(request.module), request)}`;
  }

  /** Runs `helm uninstall --keep-history`, unless the release is deleted or uninstalled already. */
  async uninstall(
    { name, helm }: Pick<Module, "name" | "helm">,
    signal: AbortSignal,
    onWait?: OnWait,
  ): Promise<void> {
    const meta = await this.store.refresh(name, signal);
    if (meta === undefined || meta.status === "uninstalled") return;
    if (!this.observed.mayUninstall(meta)) throw new ForeignReleaseError(name, "another owner");
    await this.helm.endLeftOver(signal, name);
    const location = this.store.location(name);
    if (location !== undefined)
      await completeMove(this.#acting.known(name), { release: name, signal }, location);
    const tools = this.#acting.known(name);
    await retainInRemoval(tools, { name, helm }, signal);
    try {
      const { clock } = this.#options;
      const watched = { store: this.store, clock, release: name, signal, onWait };
      await withHookWatch(watched, () => tools.helm.uninstall({ release: name, terms: helm, signal }));
    } finally {
      await this.store.refresh(name);
    }
    const left = this.store.get(name);
    if (left !== undefined && left.status !== "uninstalled")
      throw new UnseenError(name, "uninstall", this.#options.client.credentialsInfo.server);
  }

  /** Removes the release's records, never objects; annotates the remaining objects of its hooks. Throws ApiError, ConnectionError. */
  async forget(name: string): Promise<void> {
    await claimHookLeftovers(this.#acting.known(name), name);
    await this.store.forget(name);
    await this.store.setLocation(name, undefined);
  }

  /** Creates the namespace of a module if it has one of its own and that is missing. Throws as `ensureNamespace`. */
  async prepareNamespace({ name, namespace }: HelmInput["module"], signal: AbortSignal): Promise<void> {
    if (namespace === undefined || namespace === this.#options.namespace) return;
    if (this.store.revisionsIn(namespace, name).length > 0) return;
    await ensureNamespace(this.#reconciler, namespace, signal);
  }

  /** What `ensureCrds` would do; changes nothing. Throws ApiError, ConnectionError. */
  previewCrds(request: CrdRequest): Promise<CrdPreview> {
    return previewCrds(request, this.#crdTools(request));
  }

  /** Creates and updates CRDs from files, and calls `listeners` with what it finds and does. Throws as `ensureCrds`. */
  async ensureCrds(
    request: CrdRequest,
    listeners: Pick<CrdTools, "report" | "onDropped"> = {},
  ): Promise<void> {
    try {
      await ensureCrds(request.files, { ...this.#crdTools(request), ...request, ...listeners });
    } catch (error) {
      throw this.#acting.crdFailure(request, error);
    } finally {
      // Some may be applied although others are refused.
      this.#capabilities.forget();
      this.#options.onCrds?.();
    }
  }

  #crdTools({ release = "" }: CrdRequest): Pick<CrdTools, "client" | "clock" | "labels" | "namespace"> {
    const { clock, crdExtraLabels: labels, namespace } = this.#options;
    return { client: this.#acting.known(release).client, clock, labels, namespace };
  }

  close(): void {
    this.#endAhead();
    this.#proofs.close();
    this.#lateLabels.close();
    this.store.close();
  }
}
