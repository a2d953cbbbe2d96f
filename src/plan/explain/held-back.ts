/** Which modules wait for one that fails only because all run in one queue (docs/LIFECYCLE.md, "A queue for each module"). */

import type { ModuleView, View } from "../../state/index.ts";

type Modules = ReadonlyMap<string, Pick<ModuleView, "module">>;

const MOST_NAMED = 10;

/** Says which of the modules behind a failing one would go on in queues of their own; undefined where none would. */
export function explainHeldBack(
  failed: string,
  behind: readonly string[],
  { moduleQueues, modules }: { readonly moduleQueues: View["moduleQueues"]; readonly modules: Modules },
): string | undefined {
  if (moduleQueues === "own") return undefined;
  const free = behind.filter((name) => !needs(name, failed, modules));
  if (free.length === 0) return undefined;
  const more = free.length > MOST_NAMED ? ` and ${free.length - MOST_NAMED} more` : "";
  const named = free.slice(0, MOST_NAMED).join(", ");
  return `${failed} holds up all that runs after it in queue main; with --module-queues=own these would go on: ${named}${more}`;
}

/** The same of the converge under way, whose next module has failed. */
export function heldBack(view: View): string | undefined {
  const { remaining } = view.reload;
  const failed = remaining.find((name) => view.modules.get(name)?.retry !== undefined);
  return failed === undefined
    ? undefined
    : explainHeldBack(failed, remaining.slice(remaining.indexOf(failed) + 1), view);
}

/** Whether a module requires another one, be it through others. */
function needs(name: string, on: string, modules: Modules): boolean {
  const found = new Set([name]);
  // What is added meanwhile is looked at, too.
  for (const each of found)
    for (const required of Object.keys(modules.get(each)?.module.requires?.modules ?? {}))
      found.add(required);
  return found.has(on);
}
