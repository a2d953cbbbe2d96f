/** Renders charts ahead of their turn. */

import { availableParallelism } from "node:os";

import { inParallel } from "../../lib/index.ts";
import { examine, type Reconciler, type Reconciliation } from "../examine.ts";
import type { Rendered } from "../manifest/manifest.ts";
import { renderNow } from "../rendering.ts";
import type { UpcomingModule } from "./ahead.ts";

/** Rendering takes processor time: more at once only makes each slower. */
const AT_ONCE = Math.min(4, availableParallelism());

interface Made extends Rendered {
  readonly inputs: string;
}

/**
 * Renders, a few at a time, the charts of modules whose turn comes later: as soon as the first one has to be rendered,
 * since mostly none has to. A rendering that failed is repeated.
 */
export class RenderAhead {
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
    void inParallel(AT_ONCE, jobs, async ({ upcoming, resolve }) =>
      resolve(await this.#render(upcoming, signal).catch(() => undefined)),
    );
  }

  async #render({ input }: UpcomingModule, signal: AbortSignal): Promise<Made | undefined> {
    signal.throwIfAborted();
    const { reconciliation, release, decision } = await examine(this.#tools, { ...input(), signal });
    // What is looked up may be another thing when its turn comes.
    if (decision.act !== "compare" || reconciliation.chart.reach.lookup) return undefined;
    return { inputs: reconciliation.inputs, ...(await renderNow(reconciliation, release)) };
  }
}
