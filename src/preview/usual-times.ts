/** How long the waves of a plan usually take, by the last runs of their modules. */

import { pathOf, type KubeClient } from "../kube/index.ts";
import { usual } from "../lib/index.ts";
import type { ModuleQueues } from "../model/index.ts";
import { remembering, type State } from "../state/index.ts";
import { ADDON_MODULES, type IAddonModule } from "../status/index.ts";

/** How many modules run at once. */
export interface Pace {
  readonly moduleQueues: ModuleQueues;
  readonly parallelModules: number;
}

const PATIENCE_MS = 10_000;

/** Takes over what the running operator knows. */
export function lendTimes(from: State, to: State): void {
  for (const { module, run } of from.records())
    to.updateRun(module.name, (own) => remembering(own, run.runSeconds));
}

/** Takes over what AddonModules tell; where they cannot be read, nothing is known. */
export async function readTimes(
  { client, namespace }: { readonly client: KubeClient; readonly namespace: string },
  to: State,
): Promise<void> {
  const asked = { path: pathOf(ADDON_MODULES, { namespace }), timeoutMs: PATIENCE_MS };
  const { items } = await client.json<{ items: IAddonModule[] }>(asked).catch(() => ({ items: [] }));
  for (const { metadata, status: { runSeconds } = {} } of items)
    if (Array.isArray(runSeconds)) to.updateRun(metadata.name, (run) => remembering(run, runSeconds));
}

/** How long the runs of a wave usually take together; null where that is not known of each. */
export function waveSeconds(wave: readonly string[], state: State, pace: Pace): number | null {
  const known = wave.flatMap((name) => usual(state.module(name)?.run.runSeconds ?? []) ?? []);
  if (known.length < wave.length) return null;
  const sum = known.reduce((all, each) => all + each, 0);
  const seconds = pace.moduleQueues === "main" ? sum : Math.max(sum / pace.parallelModules, ...known);
  return Math.round(seconds * 10) / 10;
}
