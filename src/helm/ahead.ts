/** What helm does before a module's turn: it renders charts, and starts for the next installation. */

import { availableParallelism } from "node:os";
import { isDeepStrictEqual } from "node:util";

import { inParallel } from "../lib/index.ts";
import { Scratch } from "../process/index.ts";
import type { UpgradeCall } from "./binary/helm.ts";
import { examine, labelsOf, type HelmInput, type Reconciler, type Reconciliation } from "./decide.ts";
import { keyIn, type ObjectRef } from "./manifest/manifest.ts";
import { isSame, renderNow, stageChart, type Rendered } from "./rendering.ts";

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
/** Rendering takes processor time: more at once only makes each slower. */
const RENDERED_AT_ONCE = Math.min(4, availableParallelism());

interface Made extends Rendered {
  readonly inputs: string;
}

/**
 * In a reload of many modules most of the time is helm's. Charts are rendered while others are worked on, a few at a
 * time, as soon as the first one has to be rendered, since mostly none has to; and the helm of the next installation
 * starts early. Whoever works on a release asks as if nothing had been done: what was done ahead counts for exactly the
 * inputs it was done with, and what failed is repeated.
 */
export class Ahead {
  readonly #tools: Reconciler;
  readonly #installs: InstallAhead;
  /** Modules of the reload whose turn is still to come, and the objects of those that were looked at. */
  readonly #upcoming: Map<string, UpcomingModule>;
  readonly #objects = new Map<string, readonly ObjectRef[]>();
  #unrendered: readonly UpcomingModule[];
  readonly #rendered = new Map<string, Promise<Made | undefined>>();
  readonly #stop = new AbortController();

  /** `upcoming` is what a reload is going to run, in order. */
  constructor(tools: Reconciler, upcoming: readonly UpcomingModule[], areParallel: boolean) {
    this.#tools = tools;
    this.#upcoming = new Map(upcoming.map((each) => [each.name, each]));
    // Modules that run side by side keep the processors busy without it.
    const modules = areParallel ? [] : upcoming;
    const isNew = ({ name }: UpcomingModule): boolean => tools.store.get(name) === undefined;
    this.#unrendered = modules.filter((each) => each.hasFinalValues && !isNew(each));
    const next = modules.flatMap((each, index) => {
      const before = modules[index - 1]?.name;
      return before !== undefined && each.hasFinalValues && isNew(each) ? [[before, each] as const] : [];
    });
    this.#installs = new InstallAhead(tools, new Map(next));
  }

  /** Whether all of them have had their turn. */
  get isOver(): boolean {
    return this.#upcoming.size === 0;
  }

  /** A module's turn has come. */
  async turn(module: string): Promise<void> {
    this.#upcoming.delete(module);
    this.#objects.delete(module);
    this.#unrendered = this.#unrendered.filter(({ name }) => name !== module);
    await this.#installs.turn(module);
  }

  /** As `renderNow`. An abort ends all renderings. */
  async render(reconciliation: Reconciliation): Promise<Rendered> {
    const { request, inputs } = reconciliation;
    const { name } = request.module;
    const ahead = this.#rendered.get(name);
    this.#rendered.delete(name);
    this.#renderAhead();
    const stop = (): void => this.#stopRendering();
    request.signal.addEventListener("abort", stop, { once: true });
    try {
      const made = await ahead;
      if (made?.inputs === inputs) return made;
    } finally {
      request.signal.removeEventListener("abort", stop);
    }
    return renderNow(reconciliation);
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
      const objects = this.#objects.get(name) ?? (await this.#objectsOf(upcoming, signal));
      this.#objects.set(name, objects);
      for (const object of objects) makers.set(keyIn(this.#tools.namespace, object), name);
    });
    return makers;
  }

  stop(): void {
    this.#stopRendering();
    this.#installs.stop();
  }

  #stopRendering(): void {
    this.#unrendered = [];
    this.#stop.abort();
  }

  #renderAhead(): void {
    const { signal } = this.#stop;
    const jobs = this.#unrendered.map((upcoming) => ({
      upcoming,
      ...Promise.withResolvers<Made | undefined>(),
    }));
    this.#unrendered = [];
    for (const { upcoming, promise } of jobs) this.#rendered.set(upcoming.name, promise);
    void inParallel(RENDERED_AT_ONCE, jobs, async ({ upcoming, resolve }) =>
      resolve(await this.#made(upcoming, signal).catch(() => undefined)),
    );
  }

  async #made({ input }: UpcomingModule, signal: AbortSignal): Promise<Made | undefined> {
    signal.throwIfAborted();
    const { reconciliation, decision } = await examine(this.#tools, { ...input(), signal });
    // What is looked up may be another thing when its turn comes.
    if (decision.act !== "compare" || reconciliation.chart.reach.lookup) return undefined;
    return { inputs: reconciliation.inputs, ...(await renderNow(reconciliation)) };
  }

  async #objectsOf({ input }: UpcomingModule, signal: AbortSignal): Promise<readonly ObjectRef[]> {
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
}

/** A helm that waits longer than this is ended: the module before it takes its time. */
const LONGEST_MS = 20_000;

/** A helm that was started and waits. */
interface Waiting {
  readonly release: string;
  /** Those of the release that it is going to make: they tell all that it is made from. */
  readonly labels: UpgradeCall["labels"];
  readonly signal: AbortSignal;
  /** Lets it install. Throws as `Helm.upgradeInstall`. */
  go(): Promise<void>;
  end(): void;
}

/**
 * A first installation is mostly helm's own start and its search for a release: the helm of the next module does
 * both while the one before is at work, then waits. It installs only what it was started for, only when its turn
 * has come, and nothing at all when its operator is gone (`UpgradeCall.gate`).
 */
class InstallAhead {
  readonly #tools: Reconciler;
  /** What a reload is going to install, by the module before. */
  readonly #requests: Map<string, UpcomingModule>;
  #next: { readonly module: string; readonly helm: Promise<Waiting | undefined> } | undefined;
  #now: Waiting | undefined;
  readonly #abort = new AbortController();

  constructor(tools: Reconciler, requests: Map<string, UpcomingModule>) {
    this.#tools = tools;
    this.#requests = requests;
  }

  /** A module's turn has come: from now on its helm may be used, and the one of the next module starts. */
  async turn(module: string): Promise<void> {
    this.#now?.end();
    const before = this.#next;
    const helm = await before?.helm;
    this.#now = before?.module === module ? helm : undefined;
    if (this.#now === undefined) helm?.end();
    const next = this.#requests.get(module);
    this.#requests.delete(module);
    this.#next = next && { module: next.name, helm: this.#start(next) };
  }

  /** As `Helm.upgradeInstall`: by the helm that waits to do exactly this, or by a new one. */
  async upgradeInstall(call: UpgradeCall): Promise<void> {
    const waiting = this.#now;
    this.#now = undefined;
    if (waiting === undefined || !isFor(waiting, call)) {
      waiting?.end();
      return this.#tools.helm.upgradeInstall(call);
    }
    call.signal.addEventListener("abort", () => waiting.end(), { once: true });
    await waiting.go();
  }

  /** Ends the helm that waits. */
  stop(): void {
    this.#requests.clear();
    this.#abort.abort();
  }

  async #start({ input }: UpcomingModule): Promise<Waiting | undefined> {
    const abort = new AbortController();
    const signal = AbortSignal.any([abort.signal, this.#abort.signal]);
    try {
      const { reconciliation, decision } = await examine(this.#tools, { ...input(), signal });
      const { release, chart } = reconciliation;
      const isPlain = release === undefined && !chart.needsStage;
      if (decision.act !== "install" || !isPlain) return undefined;
      return await this.#launch(reconciliation, abort);
    } catch {
      // When its turn comes, the error shows.
      return undefined;
    }
  }

  async #launch(reconciliation: Reconciliation, abort: AbortController): Promise<Waiting> {
    const { helm, tmpDir, clock } = this.#tools;
    const { request, chart } = reconciliation;
    const { module, values, signal } = request;
    const scratch = await Scratch.open(tmpDir, `helm-${module.name}`);
    const chartDir = await stageChart({ module, chart }, scratch).catch(async (error: unknown) => {
      await scratch.dispose();
      throw error;
    });
    const labels = labelsOf(reconciliation, undefined, true);
    const gate = Promise.withResolvers<string>();
    const timer = clock.setTimer(LONGEST_MS, () => abort.abort());
    const install = async (): Promise<void> => {
      try {
        await helm.upgradeInstall({
          release: module.name,
          terms: module.helm,
          chartDir,
          valuesFile: scratch.path("values.json"),
          signal,
          labels,
          applyMethod: undefined,
          gate: gate.promise,
        });
      } finally {
        timer.cancel();
        await scratch.dispose();
      }
    };
    const installed = install();
    installed.catch(() => {});
    return {
      release: module.name,
      labels,
      signal,
      end: () => abort.abort(),
      go: async () => {
        timer.cancel();
        await scratch.write("values.json", values);
        gate.resolve("{}");
        await installed;
      },
    };
  }
}

function isFor({ release, labels, signal }: Waiting, call: UpgradeCall): boolean {
  const isSame = call.release === release && isDeepStrictEqual(call.labels, labels);
  return isSame && !signal.aborted;
}
