import type { Tree } from "../model/index.ts";
import { LABELS } from "./labels.ts";
import type { ReleaseMeta } from "./release-store.ts";

export type PurgePolicy = "owned" | "all" | "off";

/** What a purge is decided on. */
export interface PurgeInput {
  readonly releases: readonly Pick<ReleaseMeta, "name" | "labels">[];
  readonly tree: Pick<Tree, "modules" | "purgeHolds">;
  readonly policy: PurgePolicy;
  readonly managedBy: string;
  /** `HELM_IGNORE_RELEASE`, the operator's own release, protected and suspended modules. */
  readonly never: ReadonlySet<string>;
}

/**
 * Releases that have no module directory (LIFECYCLE-STEPS 7, README "Purge"); none while anything about the directories
 * is unclear. Names are in order.
 */
export function purgeList(input: PurgeInput): string[] {
  const { policy, tree, managedBy, never } = input;
  if (policy === "off" || tree.purgeHolds.length > 0) return [];
  const present = new Set(tree.modules.map((module) => module.name));
  return input.releases
    .filter((release) => policy === "all" || release.labels[LABELS.managedBy] === managedBy)
    .map((release) => release.name)
    .filter((name) => !present.has(name) && !never.has(name))
    .sort();
}

/** How far apart two reads must be that both miss a module. */
export const PURGE_CONFIRM_MS = 2000;

/** Lets a candidate through when two reads some seconds apart found it without a directory. */
export class PurgeWatch {
  readonly #firstSeen = new Map<string, { readonly at: number; readonly tree: unknown }>();

  /** `due` may be purged; `recheckAt` is when another read would let the others through. */
  confirm(
    candidates: readonly string[],
    tree: unknown,
    now: number,
  ): { readonly due: readonly string[]; readonly recheckAt: number | undefined } {
    for (const name of this.#firstSeen.keys()) if (!candidates.includes(name)) this.#firstSeen.delete(name);
    for (const name of candidates)
      if (!this.#firstSeen.has(name)) this.#firstSeen.set(name, { at: now, tree });
    const seen = (name: string) => this.#firstSeen.get(name) ?? { at: now, tree };
    const isDue = (name: string) => seen(name).tree !== tree && now - seen(name).at >= PURGE_CONFIRM_MS;
    const waiting = candidates.filter((name) => !isDue(name)).map((name) => seen(name).at + PURGE_CONFIRM_MS);
    const recheckAt = waiting.length === 0 ? undefined : Math.max(now, Math.min(...waiting));
    return { due: candidates.filter(isDue), recheckAt };
  }
}
