/**
 * Decides which modules may run at all, and which may take their turn in a reload (docs/LIFECYCLE.md, "A queue for each
 * module").
 */

import type { Cause } from "../model/index.ts";
import type { ModuleView, View } from "../state/index.ts";
import { waitOf } from "./requirements.ts";

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

/** A module that the reload has still to run, with the reason for the reload. */
type Open = ModuleView & { readonly turn: NonNullable<ModuleView["turn"]> };

function isOpen(module: ModuleView): module is Open {
  return module.turn !== undefined && mayRun(module);
}

/** Whether first runs of larger numbers wait for it: not while it waits itself, for what it requires or its CRDs. */
function holdsUp(module: ModuleView, view: View): boolean {
  return isOpen(module) && mayBegin(module) && waitOf(module, view) === undefined;
}

/**
 * The modules that may begin their run in the reload under way, and why; pure. Discovery gives each its turn, which is
 * over when the run has ended or has failed once.
 *
 * | the module's turn                                               | it begins             |
 * | --------------------------------------------------------------- | --------------------- |
 * | removals of the reload are under way, and none has failed       | not yet               |
 * | its run is under way                                            | no second time        |
 * | its CRDs are still to be applied                                | not yet               |
 * | it has run before                                               | at once               |
 * | first run, and it requires something                            | at once: what it requires is looked at then |
 * | first run, and the turns of all smaller numbers are over        | at once, side by side |
 * | first run, and one of a smaller number waits for what it requires, or for its CRDs | the same: it holds up nobody |
 * | first run, and another one of a smaller number has its turn     | not yet               |
 */
export function turnsDue(view: View): ReadonlyMap<string, Cause> {
  if (!turnsMayBegin(view)) return new Map();
  const open = [...view.modules.values()].filter(isOpen);
  const number = Math.min(...open.filter((each) => holdsUp(each, view)).map(orderOf));
  const due = open.filter(
    (each) => !each.turn.begun && mayBegin(each) && (isFree(each) || orderOf(each) <= number),
  );
  return new Map(due.map(({ name, turn }) => [name, turn.cause]));
}

function turnsMayBegin({ reload: { phase, heldUp } }: View): boolean {
  return phase === "turns" || (phase === "modules" && heldUp);
}

/** Whether all runs wait for their turns in the reload under way. What holds up the reload holds up no run. */
export function turnsAreAhead({ moduleQueues, reload: { phase, heldUp } }: View): boolean {
  if (moduleQueues === "main" || heldUp) return false;
  return phase === "beforeAll" || phase === "discovery" || phase === "modules";
}

/** Numbers order first runs alone, and only those of modules that do not say what they wait for. */
function isFree({ phase, module }: ModuleView): boolean {
  return phase === "ready" || module.requires !== undefined;
}

/** Its number. */
export function orderOf({ module }: ModuleView): number {
  return module.order;
}

/** Modules whose turn keeps a module from its first run. */
export function turnsBefore({ module }: ModuleView, view: View): string[] {
  const before = [...view.modules.values()].filter(
    (each) => orderOf(each) < module.order && holdsUp(each, view),
  );
  return before.map(({ name }) => name);
}

/** Modules that have neither run in the reload under way nor failed in it. */
export function turnsLeft({ modules }: View): string[] {
  return [...modules.values()].filter(isOpen).map(({ name }) => name);
}
