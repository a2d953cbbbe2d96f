/**
 * Prefetches renderings of charts while other modules run. A *converge* brings all modules into their desired state, one after another
 * unless they may run in parallel; the *run* of a module contains its helm step, whose facts are a *reconciliation*.
 */

import { availableParallelism } from "node:os";

import { mapInParallel } from "../base/index.ts";
import { isMissingAnswer } from "./binary/helm-messages.ts";
import { decideBeforeRendering, collectFacts, planRelease } from "./decide.ts";
import { DownApiError } from "./down-apis.ts";
import { namespacedKey, type RenderedChart } from "./manifest/manifest.ts";
import { renderChart } from "./rendering.ts";
import type { HelmInput, Reconciler, Reconciliation } from "./types.ts";

export interface UpcomingModule {
  readonly name: string;
  /** Reads from what the release would be made now; hooks may change that later. */
  readonly readInput: () => HelmInput;
  /** None of its hooks changes its values before helm runs. */
  readonly hasFinalValues: boolean;
}

/** Charts that are rendered in parallel to find out which objects they contain. */
const MAX_PARALLEL_CHECKS = 2;
/** Prefetched charts in parallel. Rendering is CPU-bound: a higher limit only slows each down. */
const MAX_PARALLEL_RENDERINGS = Math.min(4, availableParallelism());

/** Tools for all modules, and those of one module, which may act as an account of its own. */
interface PrefetchTools extends Pick<Reconciler, "store"> {
  readonly toolsOf: (module: HelmInput["module"]) => Reconciler;
}

interface PrefetchedChart extends RenderedChart {
  readonly inputsDigest: string;
}

/**
 * Renders the charts of modules before their runs, while other modules run, because a converge of many modules spends most of its
 * time in helm. Begins when the first chart has to be rendered, because usually no chart has to. A rendering is used only for
 * exactly its inputs; a failed one is repeated.
 */
export class ChartPrefetcher {
  readonly #tools: PrefetchTools;
  /** Modules of the converge that have not run yet, with the keys of their objects where these are known. */
  readonly #upcoming: Map<string, UpcomingModule>;
  readonly #objectKeys = new Map<string, readonly string[]>();
  #candidates: readonly UpcomingModule[];
  readonly #prefetchedCharts = new Map<string, Promise<PrefetchedChart | undefined>>();
  readonly #abortController = new AbortController();

  /**
   * `upcoming` are the modules that a converge is going to run, in order. Without `hasFinalValues`, hooks of a module may change its values
   * before helm runs, so its chart is not prefetched.
   */
  constructor(tools: PrefetchTools, upcoming: readonly UpcomingModule[], areParallel: boolean) {
    this.#tools = tools;
    this.#upcoming = new Map(upcoming.map((each) => [each.name, each]));
    // Modules that run in parallel use all processors without prefetching. A first installation is not rendered before helm installs it.
    this.#candidates = areParallel
      ? []
      : upcoming.filter(({ name, hasFinalValues }) => hasFinalValues && tools.store.get(name) !== undefined);
  }

  /** Whether all modules of the converge have started, so that nothing is left to prefetch. */
  get hasAllStarted(): boolean {
    return this.#upcoming.size === 0;
  }

  /** Records that the run of a module starts: its chart is not prefetched any more. */
  markStarted(module: string): void {
    this.#upcoming.delete(module);
    this.#objectKeys.delete(module);
    this.#candidates = this.#candidates.filter(({ name }) => name !== module);
  }

  /**
   * As `renderChart`, but uses the prefetched rendering if it has the same inputs. The first call starts the renderings for the modules
   * that run later. An abort of the request ends them all, so that this call need not wait for its own.
   */
  async render(reconciliation: Reconciliation): Promise<RenderedChart> {
    const { request, inputsDigest } = reconciliation;
    const { name } = request.module;
    const prefetching = this.#prefetchedCharts.get(name);
    this.#prefetchedCharts.delete(name);
    this.#startPrefetching();
    const stop = (): void => this.stop();
    request.signal.addEventListener("abort", stop, { once: true });
    try {
      const prefetched = await prefetching;
      if (prefetched?.inputsDigest === inputsDigest) return prefetched;
    } finally {
      request.signal.removeEventListener("abort", stop);
    }
    return renderChart(reconciliation);
  }

  /**
   * Finds the module that is going to apply each object, by `namespacedKey`: if a template moves to another module, its object moves too
   * (docs/guides/running.md, "Objects that stay after a removal"). Charts that cannot be rendered, or whose release stays as it is,
   * apply nothing. Call it only before deletions, because it renders charts.
   */
  async findPendingOwners(signal = new AbortController().signal): Promise<ReadonlyMap<string, string>> {
    const pendingOwners = new Map<string, string>();
    await mapInParallel(MAX_PARALLEL_CHECKS, [...this.#upcoming.values()], async (upcoming) => {
      const { name } = upcoming;
      const objects = this.#objectKeys.get(name) ?? (await this.#findObjectKeys(upcoming, signal));
      this.#objectKeys.set(name, objects);
      for (const key of objects) pendingOwners.set(key, name);
    });
    return pendingOwners;
  }

  /** Ends all renderings and starts no more. */
  stop(): void {
    this.#candidates = [];
    this.#abortController.abort();
  }

  /** Starts to render the charts of all candidates, a few at a time. Only the first call has an effect. */
  #startPrefetching(): void {
    const { signal } = this.#abortController;
    // `render` can wait for a chart whose rendering has not begun yet.
    const jobs = this.#candidates.map((upcoming) => ({
      upcoming,
      ...Promise.withResolvers<PrefetchedChart | undefined>(),
    }));
    this.#candidates = [];
    for (const { upcoming, promise } of jobs) this.#prefetchedCharts.set(upcoming.name, promise);
    void mapInParallel(MAX_PARALLEL_RENDERINGS, jobs, async ({ upcoming, resolve }) =>
      resolve(await this.#prefetch(upcoming, signal).catch(() => undefined)),
    );
  }

  /** Renders a chart for later use. Undefined if the run of its module needs no rendering, or if the rendering may differ by then. */
  async #prefetch({ readInput }: UpcomingModule, signal: AbortSignal): Promise<PrefetchedChart | undefined> {
    signal.throwIfAborted();
    const request = { ...readInput(), signal };
    const reconciliation = await collectFacts(this.#tools.toolsOf(request.module), request);
    const { tools, release, chart } = reconciliation;
    // `lookup` reads live objects, and the run of a module first moves its release where that is in another namespace.
    const mayDiffer = chart.reach.lookup || release?.namespace !== tools.namespace;
    const needsRendering = decideBeforeRendering(reconciliation).act === "compare";
    if (!needsRendering || mayDiffer) return undefined;
    return { inputsDigest: reconciliation.inputsDigest, ...(await renderChart(reconciliation)) };
  }

  /**
   * Renders the chart of a module to find the keys of the objects that its run is going to apply. Empty if the run leaves the release
   * as it is, or if the chart cannot be rendered. Throws if only an answer is missing: an object must not be deleted because of that.
   */
  async #findObjectKeys({ readInput }: UpcomingModule, signal: AbortSignal): Promise<readonly string[]> {
    try {
      const request = { ...readInput(), signal };
      const tools = this.#tools.toolsOf(request.module);
      const { reconciliation, decision } = await planRelease(tools, request);
      const staysAsItIs = decision.act === "keep" || decision.act === "label";
      if (staysAsItIs) return [];
      const rendered = "rendered" in decision ? decision.rendered : undefined;
      const { objects } = rendered ?? (await renderChart(reconciliation));
      return objects.map((object) => namespacedKey(tools.namespace, object));
    } catch (error) {
      signal.throwIfAborted();
      if (error instanceof DownApiError || isMissingAnswer(error)) throw error;
      return [];
    }
  }
}
