/** Selects the modules that the plan must check: of hundreds of modules, nearly all are idle at any moment. */

import type { Cause } from "../model/index.ts";
import { deriveFromModules, type ModuleView, type View } from "../state/index.ts";

export const REQUESTED_CAUSE: Cause = { kind: "requested" };
export const FILES_CAUSE: Cause = { kind: "files" };

/** How much the plan has to check of a module. `new`: only its first run is due, which a converge starts; without a converge, the plan starts it. */
type Activity = "idle" | "new" | "active";

/** Caches by the map of views, which is immutable. */
const cachedActiveModules = new WeakMap<
  View["modules"],
  Record<"idle" | "converging", readonly ModuleView[]>
>();

/**
 * The modules that run, wait, or have a task due, in the order of the tree. While a converge is under way, new
 * modules are left out: the converge itself begins their first run. The rules of the plan check no other modules.
 */
export function activeModules(view: Pick<View, "modules" | "converge">): readonly ModuleView[] {
  const { modules, converge } = view;
  const known = cachedActiveModules.get(modules) ?? findActiveModules(modules);
  cachedActiveModules.set(modules, known);
  return converge.phase === "idle" ? known.idle : known.converging;
}

/** Computes both lists of `activeModules`: for the time without a converge, and for a converge, which starts new modules itself. */
function findActiveModules(modules: View["modules"]): Record<"idle" | "converging", readonly ModuleView[]> {
  const notIdle: ActiveModule[] = [];
  // Runs after each change of any module: a loop takes a tenth of the time of `filter`.
  for (const each of deriveFromModules(modules, toActiveModule)) if (each !== undefined) notIdle.push(each);
  return {
    idle: notIdle.map(({ view }) => view),
    converging: notIdle.filter(({ activity }) => activity === "active").map(({ view }) => view),
  };
}

/** A module that is not idle. */
interface ActiveModule {
  readonly view: ModuleView;
  readonly activity: Activity;
}

/** The module with its activity; undefined if it is idle. */
function toActiveModule(view: ModuleView): ActiveModule | undefined {
  const activity = getActivity(view);
  return activity === "idle" ? undefined : { view, activity };
}

/** Classifies a module: whether the plan must check it, because it runs, waits, or has a task due. */
function getActivity(module: ModuleView): Activity {
  const { enabled, requestedToken, handled, phase } = module;
  if (!isIdle(module)) return "active";
  if (!enabled) return isRequested(requestedToken, handled.token) ? "active" : "idle";
  if (phase !== "ready") return "new";
  return findEditCause(module) === undefined && findRepairCause(module) === undefined ? "idle" : "active";
}

/** Whether nothing of the module is in progress or waits. */
function isIdle({
  activity,
  retry,
  blockedSince,
  scheduledRun,
  isStuck,
  problem,
  missingObjects,
}: ModuleView): boolean {
  if (activity !== "none" || retry !== undefined || scheduledRun !== undefined || isStuck) return false;
  return blockedSince === undefined && problem === undefined && missingObjects.length === 0;
}

/** Whether a request token is not handled yet. */
export function isRequested(token: string | undefined, handled: string | undefined): boolean {
  return token !== undefined && token !== handled;
}

/** Why a module that has run must run again: a user or a hook changed what its runs use. */
export function findEditCause(module: ModuleView): Cause | undefined {
  const { requestedToken, handled, sectionDigest, valuesDigest, files, cause } = module;
  if (isRequested(requestedToken, handled.token)) return REQUESTED_CAUSE;
  if (files !== undefined && files !== handled.files) return FILES_CAUSE;
  if (sectionDigest !== handled.section) return cause?.kind === "sources" ? cause : { kind: "section" };
  return valuesDigest === handled.values ? undefined : (cause ?? { kind: "values" });
}

/**
 * Why a module that has run must run again: its release or the objects of it changed. Without a chart, its runs leave the
 * release alone, so none is due.
 */
export function findRepairCause({
  module,
  suspended,
  nextRunRollsBack,
  missingObjects,
  isReleaseChangedByHand,
  release,
}: ModuleView): Cause | undefined {
  if (suspended || module.chart === "none") return undefined;
  if (nextRunRollsBack) return { kind: "unhealthy" };
  const [object] = missingObjects;
  if (object !== undefined) return { kind: "absent", object };
  return isReleaseChangedByHand ? { kind: "release", status: release?.status ?? "missing" } : undefined;
}
