/** Renders charts ahead of their turn. */

import { availableParallelism } from "node:os";

import { inParallel } from "../../kube/index.ts";
import { LABELS } from "../release/labels.ts";
import { examine } from "../reconcile.ts";
import type { PreparedManifest, Reconciler } from "../reconcile.ts";
import type { ReconcileRequest } from "../release/releases.ts";
import { look, withCall } from "../rendering.ts";

/** Rendering takes processor time: more at once only makes each slower. */
const AT_ONCE = Math.min(4, availableParallelism());

export type AheadRequest = Pick<ReconcileRequest, "module" | "values">;

/**
 * Renders, a few at a time, the charts of modules whose turn comes later: in a reload of many modules most of the
 * time is helm's. The result counts only for the inputs it was made from; a rendering that failed is repeated.
 */
export class RenderAhead {
  readonly #tools: Reconciler;
  #made = new Map<string, Promise<PreparedManifest | undefined>>();
  #stop = new AbortController();

  constructor(tools: Reconciler) {
    this.#tools = tools;
  }

  /** Begins with these, in this order; what is left of an earlier call is dropped. */
  start(requests: readonly AheadRequest[]): void {
    this.stop();
    this.#stop = new AbortController();
    const { signal } = this.#stop;
    const jobs = requests.map((request) => ({
      request,
      ...Promise.withResolvers<PreparedManifest | undefined>(),
    }));
    this.#made = new Map(jobs.map(({ request, promise }) => [request.module.name, promise]));
    void inParallel(AT_ONCE, jobs, async ({ request, resolve }) =>
      resolve(await this.#render({ ...request, signal }).catch(() => undefined)),
    );
  }

  /** The rendering of a module, once; undefined where there is none. An abort ends all of them. */
  async take(module: string, signal: AbortSignal): Promise<PreparedManifest | undefined> {
    const made = this.#made.get(module);
    this.#made.delete(module);
    const stop = (): void => this.stop();
    signal.addEventListener("abort", stop, { once: true });
    try {
      return await made;
    } finally {
      signal.removeEventListener("abort", stop);
    }
  }

  stop(): void {
    this.#stop.abort();
  }

  async #render(request: ReconcileRequest): Promise<PreparedManifest | undefined> {
    request.signal.throwIfAborted();
    const { step, release, decision } = await examine(this.#tools, request);
    if (decision.act !== "compare" || step.chart.reach.lookup || release === undefined) return undefined;
    // Without this operator's labels a checksum is not enough to compare.
    if (release.labels[LABELS.managedBy] === undefined) return undefined;
    const { rendered } = await withCall(step, release, (call) => look(step, undefined, call));
    return { inputs: step.inputs, ...rendered };
  }
}
