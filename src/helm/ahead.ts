/** Prefetches renderings of charts while other modules run. */

import { availableParallelism } from "node:os";

import { mapInParallel } from "../lib/index.ts";
import { decisionOn, examine, planRelease } from "./decide.ts";
import { keyIn, type Rendered } from "./manifest/manifest.ts";
import { renderNow } from "./rendering.ts";
import type { HelmInput, Reconciler, Reconciliation } from "./types.ts";

/** A module that a converge is going to run. */
export interface UpcomingModule {
  readonly name: string;
  /** What its release would be made from now. */
  readonly input: () => HelmInput;
  /** None of its hooks changes its values before helm runs. */
  readonly hasFinalValues: boolean;
}

/** Charts that are rendered in parallel to find out which objects they contain. */
const CHECKED_AT_ONCE = 2;
/** Prefetched charts in parallel. Rendering is CPU-bound: a higher limit only slows each down. */
const RENDERED_AT_ONCE = Math.min(4, availableParallelism());

/** Tools for all modules, and those of one module, which may act as an account of its own. */
interface AheadTools extends Pick<Reconciler, "store"> {
  readonly toolsOf: (module: HelmInput["module"]) => Reconciler;
}

interface RenderedChart extends Rendered {
  readonly inputs: string;
}

/**
 * A converge of many modules spends most of its time in helm, so charts are rendered while other modules run, a few at a
 * time. It begins when the first chart has to be rendered, because mostly none has to. A rendering is used only for exactly
 * its inputs; a failed one is repeated.
 */
export class Ahead {
  readonly #tools: AheadTools;
  /** Modules of the converge that have not run yet, with the keys of their objects where these are known. */
  readonly #upcoming: Map<string, UpcomingModule>;
  readonly #objects = new Map<string, readonly string[]>();
  #unrendered: readonly UpcomingModule[];
  readonly #rendered = new Map<string, Promise<RenderedChart | undefined>>();
  readonly #stop = new AbortController();

  /** `upcoming` are the modules that a converge is going to run, in order. */
  constructor(tools: AheadTools, upcoming: readonly UpcomingModule[], areParallel: boolean) {
    this.#tools = tools;
    this.#upcoming = new Map(upcoming.map((each) => [each.name, each]));
    // Modules that run in parallel use all processors without prefetching.
    this.#unrendered = areParallel
      ? []
      : upcoming.filter(({ name, hasFinalValues }) => hasFinalValues && tools.store.get(name) !== undefined);
  }

  /** Whether all modules have started. */
  get isOver(): boolean {
    return this.#upcoming.size === 0;
  }

  /** Records that a module starts. */
  turn(module: string): void {
    this.#upcoming.delete(module);
    this.#objects.delete(module);
    this.#unrendered = this.#unrendered.filter(({ name }) => name !== module);
  }

  /** As `renderNow`. An abort ends all renderings. */
  async render(reconciliation: Reconciliation): Promise<Rendered> {
    const { request, inputs } = reconciliation;
    const { name } = request.module;
    const ahead = this.#rendered.get(name);
    this.#rendered.delete(name);
    this.#renderAhead();
    const stop = (): void => this.stop();
    request.signal.addEventListener("abort", stop, { once: true });
    try {
      const made = await ahead;
      if (made?.inputs === inputs) return made;
    } finally {
      request.signal.removeEventListener("abort", stop);
    }
    return renderNow(reconciliation);
  }

  /**
   * The module that is going to apply each object, by `keyIn`: if a template moves to another module, its object moves too
   * (docs/guides/running.md, "What outlives a release"). Charts that cannot be rendered, or whose release stays as it is,
   * apply nothing. Call it only before deletions, because it renders charts.
   */
  async pendingOwners(signal = new AbortController().signal): Promise<ReadonlyMap<string, string>> {
    const pendingOwners = new Map<string, string>();
    await mapInParallel(CHECKED_AT_ONCE, [...this.#upcoming.values()], async (upcoming) => {
      const { name } = upcoming;
      const objects = this.#objects.get(name) ?? (await this.#objectsOf(upcoming, signal));
      this.#objects.set(name, objects);
      for (const key of objects) pendingOwners.set(key, name);
    });
    return pendingOwners;
  }

  /** Ends all renderings. */
  stop(): void {
    this.#unrendered = [];
    this.#stop.abort();
  }

  /** Starts to render the charts of all modules that have not run yet. Only the first call has an effect. */
  #renderAhead(): void {
    const { signal } = this.#stop;
    const jobs = this.#unrendered.map((upcoming) => ({
      upcoming,
      ...Promise.withResolvers<RenderedChart | undefined>(),
    }));
    this.#unrendered = [];
    for (const { upcoming, promise } of jobs) this.#rendered.set(upcoming.name, promise);
    void mapInParallel(RENDERED_AT_ONCE, jobs, async ({ upcoming, resolve }) =>
      resolve(await this.#prefetch(upcoming, signal).catch(() => undefined)),
    );
  }

  /** A rendering for later use; undefined if the module needs none, or it may differ when the module runs. */
  async #prefetch({ input }: UpcomingModule, signal: AbortSignal): Promise<RenderedChart | undefined> {
    signal.throwIfAborted();
    const request = { ...input(), signal };
    const reconciliation = await examine(this.#tools.toolsOf(request.module), request);
    const { tools, release, chart } = reconciliation;
    // The result of `lookup`, or of a release that is not in its namespace yet, may differ when the module runs.
    const mayDiffer = chart.reach.lookup || release?.namespace !== tools.namespace;
    if (decisionOn(reconciliation).act !== "compare" || mayDiffer) return undefined;
    return { inputs: reconciliation.inputs, ...(await renderNow(reconciliation)) };
  }

  /** The keys of the objects that a module is going to apply. Empty if it leaves its release as it is, or its chart cannot be rendered. */
  async #objectsOf({ input }: UpcomingModule, signal: AbortSignal): Promise<readonly string[]> {
    try {
      const request = { ...input(), signal };
      const tools = this.#tools.toolsOf(request.module);
      const { reconciliation, decision } = await planRelease(tools, request);
      if (decision.act === "nothing" || decision.act === "label") return [];
      const known = "rendered" in decision ? decision.rendered : undefined;
      const { objects } = known ?? (await renderNow(reconciliation));
      return objects.map((object) => keyIn(tools.namespace, object));
    } catch {
      signal.throwIfAborted();
      return [];
    }
  }
}
