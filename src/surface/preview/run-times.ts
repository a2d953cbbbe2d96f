/** How long the waves of a plan usually take, computed from the last runs of their modules. The modules of one wave may run in parallel. */

import { pathOf, type KubeClient } from "../../kube/index.ts";
import { medianOf } from "../../base/index.ts";
import type { State } from "../../engine/state/index.ts";
import { ADDON_MODULES, type IAddonModule } from "../../report/index.ts";

const TIMEOUT_MS = 10_000;

/** Copies the run times of modules from the state of the running operator to that of the preview. */
export function copyRunTimes(from: State, to: State): void {
  for (const { module, run } of from.records())
    to.recordModule(module.name, "runSecondsRestored", run.runSeconds);
}

/**
 * Reads the last run times of modules from the status of the AddonModules, where no operator is running. If the AddonModules cannot
 * be read, the plan lacks durations.
 */
export async function loadRunTimes(
  { client, namespace }: { readonly client: KubeClient; readonly namespace: string },
  to: State,
): Promise<void> {
  const requested = { path: pathOf(ADDON_MODULES, { namespace }), timeoutMs: TIMEOUT_MS };
  const { items } = await client.json<{ items: IAddonModule[] }>(requested).catch(() => ({ items: [] }));
  for (const { metadata, status: { runSeconds } = {} } of items)
    if (Array.isArray(runSeconds)) to.recordModule(metadata.name, "runSecondsRestored", runSeconds);
}

/**
 * Estimates how long a wave takes, in seconds, from the usual run times of its modules, if `slots` modules run at the same time. Null
 * unless the run times of all modules are known.
 */
export function estimateWaveSeconds(wave: readonly string[], state: State, slots: number): number | null {
  const medians = wave.flatMap((name) => medianOf(state.module(name)?.run.runSeconds ?? []) ?? []);
  if (medians.length < wave.length) return null;
  const sum = medians.reduce((total, seconds) => total + seconds, 0);
  // A wave takes at least as long as its longest module.
  const seconds = Math.max(sum / slots, ...medians);
  return Math.round(seconds * 10) / 10;
}
