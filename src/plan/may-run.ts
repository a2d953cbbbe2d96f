/** Which modules may run at all. */

import type { ModuleView } from "../state/index.ts";

/**
 * Whether a module may run: it is on, needs no person, and its files are there. While some are missing, a second read
 * decides whether it runs without them or is gone.
 */
export function mayRun({
  enabled,
  problem,
  module,
}: Pick<ModuleView, "enabled" | "problem" | "module">): boolean {
  return enabled && problem === undefined && module.gone === undefined;
}

/** Whether its next run may begin, if there is one: not before the CRDs of its files, which a reload sees to. */
export function mayBegin(module: ModuleView): boolean {
  return mayRun(module) && !module.awaitsCrds;
}
