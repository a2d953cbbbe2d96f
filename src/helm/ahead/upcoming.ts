/** What modules whose turn is still to come are about to apply (docs/RUNNING.md, "What outlives a release"). */

import { inParallel } from "../../lib/index.ts";
import { examine, type Reconciler } from "../examine.ts";
import { keyIn, type ObjectRef } from "../manifest/manifest.ts";
import { isSame, renderNow } from "../rendering.ts";
import type { UpcomingModule } from "./ahead.ts";

/** Charts rendered at the same time. */
const AT_ONCE = 2;

/**
 * Modules of a reload whose turn is still to come. A template that moved to one of them takes its object along: asked
 * for only when something is about to be deleted.
 */
export class Upcoming {
  readonly #tools: Reconciler;
  #due = new Map<string, UpcomingModule>();
  #made = new Map<string, readonly ObjectRef[]>();

  constructor(tools: Reconciler) {
    this.#tools = tools;
  }

  /** What a reload is going to run; replaces what an earlier one had to. */
  announce(modules: readonly UpcomingModule[]): void {
    this.#due = new Map(modules.map((upcoming) => [upcoming.name, upcoming]));
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
    await inParallel(AT_ONCE, [...this.#due.values()], async (upcoming) => {
      const { name } = upcoming;
      const objects = this.#made.get(name) ?? (await this.#objects(upcoming, signal));
      this.#made.set(name, objects);
      for (const object of objects) makers.set(keyIn(this.#tools.namespace, object), name);
    });
    return makers;
  }

  async #objects(upcoming: UpcomingModule, signal: AbortSignal): Promise<readonly ObjectRef[]> {
    try {
      return await this.#charted(upcoming, signal);
    } catch {
      signal.throwIfAborted();
      return [];
    }
  }

  async #charted({ input }: UpcomingModule, signal: AbortSignal): Promise<readonly ObjectRef[]> {
    const { reconciliation, release, decision } = await examine(this.#tools, { ...input(), signal });
    if (decision.act === "nothing") return [];
    const rendered = await renderNow(reconciliation, release);
    const isCompared = decision.act === "compare" && release !== undefined;
    return isCompared && (await isSame(this.#tools, release, rendered)) ? [] : rendered.objects;
  }
}
