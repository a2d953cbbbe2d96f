/** What helm does before a module's turn comes: charts are rendered, and the helm of the next installation starts. */

import { availableParallelism } from "node:os";

import { inParallel } from "../../lib/index.ts";
import type { UpgradeCall } from "../binary/helm.ts";
import { examine, type HelmInput, type Reconciler, type Reconciliation } from "../examine.ts";
import { keyIn, type ObjectRef, type Rendered } from "../manifest/manifest.ts";
import { isSame, renderNow } from "../rendering.ts";
import { InstallAhead } from "./install-ahead.ts";

/** A module that a reload is going to run. */
export interface UpcomingModule {
  readonly name: string;
  /** What its release would be made from now. */
  readonly input: () => HelmInput;
  /** No hook of its own changes its values before helm's turn. */
  readonly hasFinalValues: boolean;
}

/** Charts rendered at the same time to find out what they make. */
const LOOKED_AT_ONCE = 2;

/**
 * In a reload of many modules most of the time is helm's. Charts are rendered while others are worked on, and the
 * helm of the next installation starts early. Whoever works on a release asks as if nothing had been done: what was
 * done ahead counts for exactly the inputs it was done with.
 */
export class Ahead {
  readonly #tools: Reconciler;
  readonly #renderings: RenderAhead;
  readonly #installs: InstallAhead;
  /** Modules of the reload whose turn is still to come, and what those make that were asked. */
  #upcoming = new Map<string, UpcomingModule>();
  #made = new Map<string, readonly ObjectRef[]>();

  constructor(tools: Reconciler) {
    this.#tools = tools;
    this.#renderings = new RenderAhead(tools);
    this.#installs = new InstallAhead(tools);
  }

  /** What a reload is going to run, in order; replaces what an earlier one was going to. */
  announce(upcoming: readonly UpcomingModule[], areParallel: boolean): void {
    this.#upcoming = new Map(upcoming.map((each) => [each.name, each]));
    this.#made = new Map();
    // Modules that run side by side keep the processors busy without it.
    const modules = areParallel ? [] : upcoming;
    const isNew = ({ name }: UpcomingModule): boolean => this.#tools.store.get(name) === undefined;
    this.#renderings.plan(modules.filter((each) => each.hasFinalValues && !isNew(each)));
    this.#installs.plan(
      modules.flatMap((next, index) => {
        const after = modules[index - 1]?.name;
        return after !== undefined && next.hasFinalValues && isNew(next) ? [{ ...next, after }] : [];
      }),
    );
  }

  /** A module's turn has come. */
  async turn(module: string): Promise<void> {
    this.#upcoming.delete(module);
    this.#made.delete(module);
    this.#renderings.turn(module);
    await this.#installs.turn(module);
  }

  /** As `renderNow`. */
  async render(reconciliation: Reconciliation): Promise<Rendered> {
    return (await this.#renderings.take(reconciliation)) ?? renderNow(reconciliation);
  }

  /** As `Helm.upgradeInstall`. */
  upgradeInstall(call: UpgradeCall): Promise<void> {
    return this.#installs.upgradeInstall(call);
  }

  /**
   * The module that is going to apply each object, by `keyIn`: a template that moved to another module takes its object
   * along (docs/RUNNING.md, "What outlives a release"). A chart that cannot be rendered applies none, nor does one whose
   * release stays as it is. Asked for only when something is about to be deleted.
   */
  async makers(signal = new AbortController().signal): Promise<ReadonlyMap<string, string>> {
    const makers = new Map<string, string>();
    await inParallel(LOOKED_AT_ONCE, [...this.#upcoming.values()], async (upcoming) => {
      const { name } = upcoming;
      const objects = this.#made.get(name) ?? (await this.#objects(upcoming, signal));
      this.#made.set(name, objects);
      for (const object of objects) makers.set(keyIn(this.#tools.namespace, object), name);
    });
    return makers;
  }

  async #objects({ input }: UpcomingModule, signal: AbortSignal): Promise<readonly ObjectRef[]> {
    try {
      const { reconciliation, decision } = await examine(this.#tools, { ...input(), signal });
      if (decision.act === "nothing") return [];
      const rendered = await renderNow(reconciliation);
      const { release } = reconciliation;
      const isCompared = decision.act === "compare" && release !== undefined;
      return isCompared && (await isSame(this.#tools, release, rendered)) ? [] : rendered.objects;
    } catch {
      signal.throwIfAborted();
      return [];
    }
  }

  stop(): void {
    this.#renderings.stop();
    this.#installs.stop();
  }
}

/** Rendering takes processor time: more at once only makes each slower. */
const RENDERED_AT_ONCE = Math.min(4, availableParallelism());

interface Made extends Rendered {
  readonly inputs: string;
}

/**
 * Renders, a few at a time, the charts of modules whose turn comes later: as soon as the first one has to be rendered,
 * since mostly none has to. A rendering that failed is repeated.
 */
class RenderAhead {
  readonly #tools: Reconciler;
  #due: readonly UpcomingModule[] = [];
  #made = new Map<string, Promise<Made | undefined>>();
  #stop = new AbortController();

  constructor(tools: Reconciler) {
    this.#tools = tools;
  }

  /** Sets what is going to run, in order; what is left of an earlier call is dropped. */
  plan(modules: readonly UpcomingModule[]): void {
    this.stop();
    this.#stop = new AbortController();
    this.#due = modules;
    this.#made = new Map();
  }

  /** A module's turn has come. */
  turn(module: string): void {
    this.#due = this.#due.filter(({ name }) => name !== module);
  }

  /** The rendering of exactly this, once; undefined where there is none. An abort ends all of them. */
  async take({ request, inputs }: Reconciliation): Promise<Rendered | undefined> {
    const { name } = request.module;
    const made = this.#made.get(name);
    this.#made.delete(name);
    this.#start();
    const stop = (): void => this.stop();
    request.signal.addEventListener("abort", stop, { once: true });
    try {
      const rendered = await made;
      return rendered?.inputs === inputs ? rendered : undefined;
    } finally {
      request.signal.removeEventListener("abort", stop);
    }
  }

  stop(): void {
    this.#due = [];
    this.#stop.abort();
  }

  #start(): void {
    const { signal } = this.#stop;
    const jobs = this.#due.map((upcoming) => ({ upcoming, ...Promise.withResolvers<Made | undefined>() }));
    this.#due = [];
    for (const { upcoming, promise } of jobs) this.#made.set(upcoming.name, promise);
    void inParallel(RENDERED_AT_ONCE, jobs, async ({ upcoming, resolve }) =>
      resolve(await this.#render(upcoming, signal).catch(() => undefined)),
    );
  }

  async #render({ input }: UpcomingModule, signal: AbortSignal): Promise<Made | undefined> {
    signal.throwIfAborted();
    const { reconciliation, decision } = await examine(this.#tools, { ...input(), signal });
    // What is looked up may be another thing when its turn comes.
    if (decision.act !== "compare" || reconciliation.chart.reach.lookup) return undefined;
    return { inputs: reconciliation.inputs, ...(await renderNow(reconciliation)) };
  }
}
