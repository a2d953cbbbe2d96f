/** What modules whose turn is still to come are about to apply (docs/RUNNING.md, "What outlives a release"). */

import { inParallel } from "../../kube/index.ts";
import { keyIn } from "../manifest/manifest.ts";
import type { ObjectRef } from "../manifest/manifest.ts";
import { examine } from "../reconcile.ts";
import type { Reconciler } from "../reconcile.ts";
import type { AheadRequest } from "../ahead/render-ahead.ts";
import { look, withCall } from "../rendering.ts";

/** Charts rendered at the same time. */
const AT_ONCE = 2;

/** A module that runs later in the same reload. */
export interface UpcomingRequest {
  readonly module: AheadRequest["module"];
  readonly values: () => string;
}

/**
 * Modules of a reload whose turn is still to come. A template that moved to one of them takes its object along: asked
 * for only when something is about to be deleted.
 */
export class Upcoming {
  readonly #tools: Reconciler;
  #due = new Map<string, UpcomingRequest>();
  #made = new Map<string, readonly ObjectRef[]>();

  constructor(tools: Reconciler) {
    this.#tools = tools;
  }

  /** What a reload is going to run; replaces what an earlier one had to. */
  announce(requests: readonly UpcomingRequest[]): void {
    this.#due = new Map(requests.map((request) => [request.module.name, request]));
    this.#made = new Map();
  }

  /** A module's turn has come. */
  turn(module: string): void {
    this.#due.delete(module);
    this.#made.delete(module);
  }

  /**
   * The module that is going to apply each object, by its key. A chart that cannot be rendered applies none, nor does
   * one whose release stays as it is.
   */
  async makers(signal = new AbortController().signal): Promise<ReadonlyMap<string, string>> {
    const makers = new Map<string, string>();
    await inParallel(AT_ONCE, [...this.#due.values()], async (request) => {
      const { name } = request.module;
      const objects = this.#made.get(name) ?? (await this.#objects(request, signal));
      this.#made.set(name, objects);
      for (const object of objects) makers.set(keyIn(this.#tools.namespace, object), name);
    });
    return makers;
  }

  async #objects(request: UpcomingRequest, signal: AbortSignal): Promise<readonly ObjectRef[]> {
    try {
      return await this.#charted(request, signal);
    } catch {
      signal.throwIfAborted();
      return [];
    }
  }

  async #charted({ module, values }: UpcomingRequest, signal: AbortSignal): Promise<readonly ObjectRef[]> {
    const { step, release, decision } = await examine(this.#tools, { module, values: values(), signal });
    if (decision.act === "nothing") return [];
    const compared = decision.act === "compare" ? release : undefined;
    const { rendered, same } = await withCall(step, release, (call) => look(step, compared, call));
    return same ? [] : rendered.objects;
  }
}
