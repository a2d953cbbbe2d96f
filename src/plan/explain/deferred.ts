/** Head-of-line blocking: which modules wait for a failing one only because all share a queue (docs/reference/lifecycle.md, "A queue for each module"). */

import { listNames } from "../../lib/index.ts";
import type { ModuleView, View } from "../../state/index.ts";

type Modules = ReadonlyMap<string, Pick<ModuleView, "module">>;

const MOST_NAMED = 10;

/** Says which of the modules behind a failing one would run in queues of their own; undefined where none would. */
export function explainDeferred(
  failed: string,
  behind: readonly string[],
  { moduleQueues, modules }: { readonly moduleQueues: View["moduleQueues"]; readonly modules: Modules },
): string | undefined {
  if (moduleQueues === "own") return undefined;
  const free = behind.filter((name) => !requiresTransitively(name, failed, modules));
  if (free.length === 0) return undefined;
  return `${failed} blocks all that runs after it in queue main; with --module-queues=own these would go on: ${listNames(free, MOST_NAMED)}`;
}

/** `explainDeferred` for the current converge, if its next module has failed; otherwise undefined. */
export function deferredWork(view: View): string | undefined {
  const { remaining } = view.converge;
  const failed = remaining.find((name) => view.modules.get(name)?.retry !== undefined);
  return failed === undefined
    ? undefined
    : explainDeferred(failed, remaining.slice(remaining.indexOf(failed) + 1), view);
}

/** Whether a module requires another one, also transitively. */
function requiresTransitively(name: string, on: string, modules: Modules): boolean {
  const found = new Set([name]);
  // A loop over a set also visits elements that are added during the loop.
  for (const each of found)
    for (const required of Object.keys(modules.get(each)?.module.requires?.modules ?? {}))
      found.add(required);
  return found.has(on);
}
