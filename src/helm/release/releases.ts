/** The releases of the modules: reconciled, removed, shown, and labelled when helm has nothing to do. */

import type { Discovery } from "../../kube/index.ts";
import { oneLine, Quiet } from "../../lib/index.ts";
import { retriesOf, type Module, type OnFailure } from "../../model/index.ts";
import { Ahead, type UpcomingModule } from "../ahead.ts";
import { ForeignReleaseError, UnseenError } from "../binary/helm-errors.ts";
import { Helm, type HelmOptions } from "../binary/helm.ts";
import { capabilitiesOf, ChartReader } from "../chart/chart.ts";
import type { CrdTools } from "../crds/crd.ts";
import { ensureCrds, previewCrds, type CrdPreview } from "../crds/ensure-crds.ts";
import { examine } from "../decide.ts";
import type {
  CrdRequest,
  DiffRequest,
  HelmInput,
  Reconciler,
  ReconcileRequest,
  Release,
  ReleaseOutcome,
} from "../decide.ts";
import { RecordedObjects, restoreObjects } from "../live-objects.ts";
import { manifestDiff } from "../manifest/manifest.ts";
import { crdDiff, liveDiff, previewRelease, renderRelease, type Preview } from "../preview.ts";
import { reconcileRelease, withHookWatch, type OnWait } from "../reconcile.ts";
import { renderNow } from "../rendering.ts";
import { GOOD, markable, Proofs } from "../rollback.ts";
import { rollBackByHand, wayBackOf } from "../rollback-by-hand.ts";
import { spareInRemoval } from "../upgrade.ts";
import { ObservedReleases, type ObservedOptions } from "./observed-releases.ts";
import { LABELS } from "./revisions.ts";

export interface ReleasesOptions extends Omit<HelmOptions, "server">, ObservedOptions {
  readonly discovery: Pick<Discovery, "resolve">;
  /** `--on-failure`. */
  readonly onFailure?: OnFailure;
  /** Unpacks a chart again where its directory was emptied from outside. */
  readonly restoreChart?: (chartDir: string) => Promise<void>;
  /** Called when CRDs were applied. */
  readonly onCrds?: () => void;
}

/** What is told of the health of a revision. */
interface ToldHealth {
  readonly status: string;
  readonly revision: number | undefined;
}

/** The releases of the modules: brought to their values, removed, shown. */
export class Releases extends ObservedReleases {
  readonly helm: Helm;
  readonly #options: ReleasesOptions;
  readonly #reconciler: Reconciler;
  readonly #lateLabels: LateLabels;
  readonly #proofs: Proofs;
  /** While a reload has modules that are still to have their turn. */
  #ahead: Ahead | undefined;
  readonly #capabilities: ReturnType<typeof capabilitiesOf>;

  constructor(options: ReleasesOptions) {
    super(options);
    const { client, clock } = options;
    this.#options = options;
    this.helm = new Helm({ ...options, server: client.origin.server });
    this.#capabilities = capabilitiesOf(client, clock);
    this.#lateLabels = new LateLabels({ ...options, store: this.store });
    this.#reconciler = {
      ...options,
      onFailure: options.onFailure ?? "retry",
      store: this.store,
      helm: this.helm,
      charts: new ChartReader(clock),
      capabilities: this.#capabilities.digest,
      isOurs: (release) => this.owner(release) === "ours",
      lateLabels: this.#lateLabels,
      makers: async (signal) => (await this.#ahead?.makers(signal)) ?? new Map(),
      render: (reconciliation) => this.#ahead?.render(reconciliation) ?? renderNow(reconciliation),
      upgradeInstall: (call) => (this.#ahead ?? this.helm).upgradeInstall(call),
    };
    this.#proofs = new Proofs(clock);
  }

  /**
   * Brings a module's release to its values, with as little work for helm as possible. Throws ForeignReleaseError,
   * HelmError, ProblemError (helm is missing), ApiError, ConnectionError.
   */
  async reconcile(request: ReconcileRequest): Promise<ReleaseOutcome> {
    this.#lateLabels.touch();
    await this.#ahead?.turn(request.module.name);
    const { clock, recorder } = this.#options;
    const { name } = request.module;
    const from = clock.monotonic();
    try {
      const result = await reconcileRelease(this.#reconciler, request);
      return { ...result, release: this.get(name) };
    } finally {
      recorder?.reconciled(name, (clock.monotonic() - from) / 1000);
      if (this.#ahead?.isOver === true) this.#endAhead();
    }
  }

  /**
   * Goes back to an earlier revision, because a person asks for it, and holds it while chart and values stay as they
   * are; `wanted` is its number, else it is the last that was in force before. Throws as `reconcile`, and NoWayBackError.
   */
  async rollBack(request: ReconcileRequest, wanted: number | undefined): Promise<Release | undefined> {
    await this.#ahead?.turn(request.module.name);
    await this.flushLabels();
    const { reconciliation } = await examine(this.#reconciler, request);
    await rollBackByHand(reconciliation, wanted);
    return this.get(request.module.name);
  }

  /** The number of the revision that `rollBack` would go back to. Throws NoWayBackError. */
  wayBack(name: string, wanted: number | undefined): number {
    return wayBackOf(this.store.revisions(name), wanted).revision;
  }

  /** Puts objects of a release back as its record has them. Throws RestoreError, ApiError, ConnectionError. */
  async restore(name: string, absent: readonly string[], signal: AbortSignal): Promise<ReleaseOutcome> {
    const release = this.store.get(name);
    if (release !== undefined) await restoreObjects(this.#reconciler, { release, absent, signal });
    return { action: "restored", release: this.get(name), recovered: false };
  }

  #endAhead(): void {
    this.#ahead?.stop();
    this.#ahead = undefined;
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

  /** Identifies the newest revision of a release: what is installed again under its name has another one. */
  identity(name: string): string | undefined {
    return this.store.get(name)?.uid;
  }

  /**
   * What a reload is going to run, in order: helm may begin before their turn, and an object whose template moved to
   * one of them stays. What the server serves is asked anew. Never throws.
   */
  announce(modules: readonly UpcomingModule[], areParallel = false): void {
    this.#capabilities.forget();
    this.#endAhead();
    if (modules.length > 0) this.#ahead = new Ahead(this.#reconciler, modules, areParallel);
  }

  /** What a release's record says of its objects: one request; undefined where there is no release. Throws as `summary`. */
  async recorded(name: string, signal: AbortSignal): Promise<RecordedObjects | undefined> {
    const meta = this.store.get(name);
    if (meta === undefined || meta.status === "uninstalled") return undefined;
    const { manifest } = await this.store.record(meta, signal);
    return new RecordedObjects(this.#reconciler, name, manifest);
  }

  /** A revision that stays healthy for a minute is one that a failed upgrade goes back to. */
  noteHealth(module: HelmInput["module"], health: ToldHealth | undefined): void {
    this.#proofs.look(module.name, health?.status === "True", () => void this.markHealthy(module, health));
  }

  /** The same without waiting. Never throws. */
  async markHealthy(module: HelmInput["module"], health: ToldHealth | undefined): Promise<void> {
    const { logger, onFailure = "retry" } = this.#options;
    const meta = markable(this.store.revisions(module.name));
    if (health?.status !== "True" || meta?.revision !== health.revision) return;
    if (meta === undefined || this.owner(module.name) !== "ours") return;
    if (retriesOf(module, onFailure) === undefined) return;
    try {
      await this.store.label(meta, { ...meta.assumed, ...GOOD });
    } catch (error) {
      // The next upgrade marks it, if it is healthy then.
      logger.debug("A healthy release was not marked", { release: module.name, error: oneLine(error) });
    }
  }

  /** Writes the labels that nobody waits for now; resolves when that is done. */
  flushLabels(): Promise<void> {
    return this.#lateLabels.flush();
  }

  /** What `reconcile` would do now; changes nothing. Throws as `reconcile`. */
  preview(request: ReconcileRequest): Promise<Preview> {
    return previewRelease(this.#reconciler, request);
  }

  /**
   * Manifest and helm hooks as `reconcile` would render them now; with `diff`, how they differ from those in the
   * release's newest record. Throws as `reconcile`.
   */
  async show(request: ReconcileRequest, diff: boolean): Promise<string> {
    if (request.module.chart === "none") return "";
    const rendered = await renderRelease(this.#reconciler, request);
    if (!diff) return `${rendered.map((part) => part.trim()).join("\n---\n")}\n`;
    const difference = manifestDiff(await this.stored(request.module.name), rendered);
    return difference === "" ? "No diff found\n" : difference;
  }

  /** How the cluster differs from what `reconcile` would make of it now; "" for nothing. Throws as `reconcile`. */
  async diff(request: DiffRequest): Promise<string> {
    const crds = await crdDiff(this.#reconciler, request);
    return request.module.chart === "none" ? crds : `${crds}${await liveDiff(this.#reconciler, request)}`;
  }

  /** `helm uninstall --keep-history`; nothing for a release that is gone or uninstalled already. */
  async uninstall(
    { name, helm }: Pick<Module, "name" | "helm">,
    signal: AbortSignal,
    onWait?: OnWait,
  ): Promise<void> {
    const meta = await this.store.refresh(name, signal);
    if (meta === undefined || meta.status === "uninstalled") return;
    if (!this.mayUninstall(meta)) throw new ForeignReleaseError(name, "somebody else");
    await this.helm.endLeftOver(signal, name);
    await spareInRemoval(this.#reconciler, name, signal);
    try {
      const { clock } = this.#options;
      const watched = { store: this.store, clock, release: name, signal, onWait };
      await withHookWatch(watched, () => this.helm.uninstall({ release: name, terms: helm, signal }));
    } finally {
      await this.store.refresh(name);
    }
    const left = this.store.get(name);
    if (left !== undefined && left.status !== "uninstalled")
      throw new UnseenError(name, "uninstall", this.#options.client.origin.server);
  }

  /** Removes the release's records, never objects. */
  forget(name: string): Promise<void> {
    return this.store.forget(name);
  }

  /** What `ensureCrds` would do; changes nothing. Throws ApiError, ConnectionError. */
  previewCrds(request: CrdRequest): Promise<CrdPreview> {
    const { client, clock } = this.#options;
    return previewCrds(request, { client, clock });
  }

  /** Creates and updates CRDs from files, and calls `listeners` with what it finds and does. Throws as `ensureCrds`. */
  async ensureCrds(
    { files, confirmed }: CrdRequest,
    listeners: Pick<CrdTools, "tell" | "onDropped"> = {},
  ): Promise<void> {
    const { client, clock } = this.#options;
    try {
      await ensureCrds(files, { client, clock, confirmed, ...listeners });
    } finally {
      // Some may be in force although others are refused.
      this.#capabilities.forget();
      this.#options.onCrds?.();
    }
  }

  close(): void {
    this.#endAhead();
    this.#proofs.close();
    this.#lateLabels.close();
    this.store.close();
  }
}

/** After this long without work on a release, nobody waits for helm any more. */
const QUIET_MS = 1000;

/**
 * Labels that only save a later rendering: written one by one when no release was worked on for a second, so that a
 * first installation of many modules does not wait for them.
 */
export class LateLabels {
  readonly #tools: Pick<Reconciler, "clock" | "store" | "logger">;
  readonly #due = new Set<string>();
  readonly #quiet: Quiet;
  #writing = Promise.resolve();

  constructor(tools: Pick<Reconciler, "clock" | "store" | "logger">) {
    this.#tools = tools;
    this.#quiet = new Quiet(tools.clock, QUIET_MS, () => void this.flush());
  }

  /** A release that lacks its label. */
  owe(release: string): void {
    this.#due.add(release);
    this.touch();
  }

  /** Notes work on a release: the quiet time begins anew. */
  touch(): void {
    if (this.#due.size > 0) this.#quiet.touch();
  }

  /** Writes what is due now; resolves when that is done. */
  flush(): Promise<void> {
    this.#quiet.close();
    this.#writing = this.#writing.then(() => this.#writeAll());
    return this.#writing;
  }

  /** Writes nothing more: a release without its label only takes longer to compare. */
  close(): void {
    this.#quiet.close();
    this.#due.clear();
  }

  async #writeAll(): Promise<void> {
    for (const release of this.#due) {
      this.#due.delete(release);
      await this.#write(release);
    }
  }

  /** The label that was assumed, or the checksum of a new manifest: nothing is lost without it. */
  async #write(release: string): Promise<void> {
    const { store, logger } = this.#tools;
    try {
      const now = store.get(release);
      if (now === undefined) return;
      await store.label(now, now.assumed ?? { [LABELS.manifest]: (await store.summary(now)).checksum });
    } catch (error) {
      logger.debug("Labels were not written", { release, error: oneLine(error) });
    }
  }
}
