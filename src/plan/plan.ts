/** Decides which tasks are owed, from one view of the state (docs/LIFECYCLE.md, "What leads to what"). */

import { runModuleKey } from "../model/index.ts";
import type { Cause, Task } from "../model/index.ts";
import type { ModuleView, View } from "../state/index.ts";
import { configOvertaken, reloadOwed, restartOwed } from "./reload.ts";
import { runOwed } from "./run-owed.ts";

/** Key of the reload task: there is at most one. */
export const CONVERGE_KEY = "converge";

/** A task to offer to `main`. */
export interface Offer {
  readonly task: Task;
  readonly place: Cause["place"];
}

/** What follows from a view. */
export interface Plan {
  readonly offers: readonly Offer[];
  /** The reload under way is out of date: its waiting steps are dropped and a new reload is put in front. */
  readonly restart: Cause | undefined;
  /**
   * Modules whose configuration changed since their run began: their back-off ends, and so does a long step of the
   * run.
   */
  readonly hurry: readonly string[];
}

const NOTHING: Plan = { offers: [], restart: undefined, hurry: [] };

/**
 * View in, tasks out; pure. Tasks have keys, so planning twice does no harm: what waits or runs already is not
 * taken again.
 */
export function plan(view: View): Plan {
  if (view.boot !== "converging" && view.boot !== "running") return NOTHING;
  const restart = restartOwed(view);
  if (restart !== undefined) return { ...NOTHING, restart };
  const reload = view.converge.phase === "idle" ? reloadOwed(view) : undefined;
  const { runs, outdated } = lookAtModules(view);
  return {
    offers: reload === undefined ? runs : besides(reload, runs),
    restart: undefined,
    // An edit of globals or flags concerns every run, since its module may be disabled now.
    hurry: configOvertaken(view) ? [...view.modules.keys()] : outdated,
  };
}

function lookAtModules(view: View): { runs: Offer[]; outdated: string[] } {
  const runs: Offer[] = [];
  const outdated: string[] = [];
  for (const module of view.modules.values()) {
    const { offer, isOutdated } = planOf(module, view);
    if (offer !== undefined) runs.push(offer);
    if (isOutdated) outdated.push(module.name);
  }
  return { runs, outdated };
}

/**
 * Leaves module runs to the coming reload: all of them when the ConfigMap asks for it (the same edit may disable
 * modules), otherwise those that can wait.
 */
function besides(reload: Cause, runs: readonly Offer[]): Offer[] {
  if (reload.place === "front") return [converge(reload)];
  return [...runs.filter((run) => run.place === "front"), converge(reload)];
}

/** The reload task. */
export function converge(cause: Cause): Offer {
  return { task: { kind: "converge", key: CONVERGE_KEY, cause: cause.text }, place: cause.place };
}

/** What follows from one module; kept with the module's view, which is mostly the same as at the last look. */
interface ModulePlan {
  readonly idle: boolean;
  readonly offer: Offer | undefined;
  readonly isOutdated: boolean;
}

const PLANS = new WeakMap<ModuleView, ModulePlan>();

function planOf(module: ModuleView, view: View): ModulePlan {
  const idle = view.converge.phase === "idle";
  const before = PLANS.get(module);
  if (before?.idle === idle) return before;
  const now = { idle, offer: offerRun(module, view), isOutdated: outdatedAttempt(module) };
  PLANS.set(module, now);
  return now;
}

function offerRun(module: ModuleView, view: View): Offer | undefined {
  const cause = runOwed(module, view);
  if (cause === undefined) return undefined;
  return { task: runModuleTask(module.name, cause.text), place: cause.place };
}

/** The task of a module run; folds into one that waits. */
function runModuleTask(module: string, cause: string): Task {
  return { kind: "run-module", key: runModuleKey(module), module, cause };
}

/** A run that goes on or is to be tried again began with configuration that is not in force any more. */
function outdatedAttempt(module: ModuleView): boolean {
  const { enabled, activity, retry, attempted, sectionDigest } = module;
  const isAtWork = activity !== "none" || retry !== undefined;
  return enabled && isAtWork && attempted !== undefined && attempted.section !== sectionDigest;
}
