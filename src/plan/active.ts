/** Decides which modules need a closer look when the plan is made: with hundreds of modules, nearly all are at rest. */

import type { Cause } from "../model/index.ts";
import type { ModuleView, View } from "../state/index.ts";

const REQUESTED: Cause = { kind: "requested" };
const FILES: Cause = { kind: "files" };

/** `new`: only its first run is due, which begins in a converge, or when none is under way. */
type Rest = "resting" | "new" | "active";

/** Caches: views are immutable. */
const knownRest = new WeakMap<ModuleView, Rest>();
const knownActive = new WeakMap<View["modules"], Record<"idle" | "converging", readonly ModuleView[]>>();

/**
 * The modules that are at work, wait, or have something due, in the order of the tree. While a converge is under way, new
 * modules are left out: the converge itself begins their first run. The rules of the plan look at no other modules.
 */
export function activeModules({
  modules,
  converge,
}: Pick<View, "modules" | "converge">): readonly ModuleView[] {
  const known = knownActive.get(modules) ?? findActive(modules);
  knownActive.set(modules, known);
  return converge.phase === "idle" ? known.idle : known.converging;
}

/** The modules to look at while no converge runs, and while one runs: then new modules begin in the converge. */
function findActive(modules: View["modules"]): Record<"idle" | "converging", readonly ModuleView[]> {
  const idle = [...modules.values()].filter((module) => restOf(module) !== "resting");
  return { idle, converging: idle.filter((module) => restOf(module) === "active") };
}

/** As `computeRest`, computed once for each view of a module. */
function restOf(module: ModuleView): Rest {
  const known = knownRest.get(module);
  if (known !== undefined) return known;
  const rest = computeRest(module);
  knownRest.set(module, rest);
  return rest;
}

/** Whether the module needs a closer look: it is at work, or something is due. */
function computeRest(module: ModuleView): Rest {
  const { enabled, requestedToken, handled, phase } = module;
  if (!isIdle(module)) return "active";
  if (!enabled) return isRequested(requestedToken, handled.token) ? "active" : "resting";
  if (phase !== "ready") return "new";
  return editDue(module) === undefined && repairDue(module) === undefined ? "resting" : "active";
}

/** Whether nothing of the module is in progress or waits. */
function isIdle({ activity, retry, blockedSince, turn, isStuck, problem, absent }: ModuleView): boolean {
  if (activity !== "none" || retry !== undefined || turn !== undefined || isStuck) return false;
  return blockedSince === undefined && problem === undefined && absent.length === 0;
}

/** Whether a request token is not handled yet. */
export function isRequested(token: string | undefined, handled: string | undefined): boolean {
  return token !== undefined && token !== handled;
}

/** Why a module that has run must run again: a user or a hook changed what its runs use. */
export function editDue(module: ModuleView): Cause | undefined {
  const { requestedToken, handled, sectionDigest, valuesDigest, files, cause } = module;
  if (isRequested(requestedToken, handled.token)) return REQUESTED;
  if (files !== undefined && files !== handled.files) return FILES;
  if (sectionDigest !== handled.section) return cause?.kind === "sources" ? cause : { kind: "section" };
  return valuesDigest === handled.values ? undefined : (cause ?? { kind: "values" });
}

/**
 * Why a module that has run must run again: its release or the objects of it changed. Without a chart, its runs leave the
 * release alone, so none is due.
 */
export function repairDue({
  module,
  suspended,
  goesBack,
  absent,
  releaseMoved,
  release,
}: ModuleView): Cause | undefined {
  if (suspended || module.chart === "none") return undefined;
  if (goesBack) return { kind: "unhealthy" };
  const [object] = absent;
  if (object !== undefined) return { kind: "absent", object };
  return releaseMoved ? { kind: "release", status: release?.status ?? "missing" } : undefined;
}
