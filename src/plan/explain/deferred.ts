/** Head-of-line blocking: which modules wait for a failing one only because all share a queue (docs/reference/lifecycle.md, "A queue for each module"). */

import { listNames } from "../../lib/index.ts";
import type { ModuleView, View } from "../../state/index.ts";

type Modules = ReadonlyMap<string, Pick<ModuleView, "module">>;

const MAX_NAMES = 10;

/** Says which of the modules behind a failing one could run if each module had a queue of its own; undefined if none could. */
export function explainHeadOfLineBlocking(
  failed: string,
  laterModules: readonly string[],
  { moduleQueues, modules }: { readonly moduleQueues: View["moduleQueues"]; readonly modules: Modules },
): string | undefined {
  if (moduleQueues === "own") return undefined;
  const independentModules = laterModules.filter((name) => !requiresTransitively(name, failed, modules));
  if (independentModules.length === 0) return undefined;
  return `${failed} blocks all that runs after it in queue main; with --module-queues=own these would go on: ${listNames(independentModules, MAX_NAMES)}`;
}

/** Says which modules the failed next module of the current converge holds up needlessly; undefined if no module has failed. */
export function explainBlockedConverge(view: View): string | undefined {
  const { remaining } = view.converge;
  const index = remaining.findIndex((name) => view.modules.get(name)?.retry !== undefined);
  const failed = remaining[index];
  return failed && explainHeadOfLineBlocking(failed, remaining.slice(index + 1), view);
}

/** Whether a module requires another one, also transitively. */
function requiresTransitively(name: string, requiredName: string, modules: Modules): boolean {
  const reachable = new Set([name]);
  // A loop over a set also visits elements that are added during the loop.
  for (const each of reachable)
    for (const required of Object.keys(modules.get(each)?.module.requires?.modules ?? {}))
      reachable.add(required);
  return reachable.has(requiredName);
}
