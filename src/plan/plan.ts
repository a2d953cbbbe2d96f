/** Makes tasks of what is owed, from one view of the state (docs/LIFECYCLE.md, "What leads to what"). */

import { placeOf, runModuleKey } from "../model/index.ts";
import type { Cause, Task } from "../model/index.ts";
import type { ModuleView, View } from "../state/index.ts";
import { configOvertaken, owed } from "./owed.ts";

/** Key of the reload task: there is at most one. */
export const RELOAD_KEY = "converge";

/** A task to offer to `main`. */
export interface Offer {
  readonly task: Task;
  readonly place: "front" | "back";
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

/** Start-up: its first tasks. */
const BOOT: Offer = { task: { kind: "boot", key: "boot" }, place: "back" };

const NOTHING: Plan = { offers: [], restart: undefined, hurry: [] };

/**
 * View in, tasks out; pure. Tasks have keys, so planning twice does no harm: what waits or runs already is not
 * taken again.
 */
export function plan(view: View): Plan {
  // A start waits for a ConfigMap that is missing.
  if (view.boot === "waiting" && view.config.condition === "ok") return { ...NOTHING, offers: [BOOT] };
  if (view.boot !== "converging" && view.boot !== "running") return NOTHING;
  const { restart, reload, runs } = owed(view);
  if (restart !== undefined) return { ...NOTHING, restart };
  const offers = runs.map(([module, cause]) => runModule(module, cause));
  return {
    offers: reload === undefined ? offers : besides(reload, offers),
    restart: undefined,
    hurry: hurried(view),
  };
}

/** An edit of globals or flags concerns every run, since its module may be disabled now. */
function hurried(view: View): string[] {
  if (configOvertaken(view)) return [...view.modules.keys()];
  return [...view.modules.values()].filter(isOutdated).map(({ name }) => name);
}

/** A run that goes on or is to be tried again began with configuration that is not in force any more. */
function isOutdated({ enabled, activity, retry, attempted, sectionDigest }: ModuleView): boolean {
  const isAtWork = activity !== "none" || retry !== undefined;
  return enabled && isAtWork && attempted !== undefined && attempted.section !== sectionDigest;
}

/**
 * Leaves module runs to the coming reload: all of them when the ConfigMap asks for it (the same edit may disable
 * modules), otherwise those that can wait.
 */
function besides(reload: Cause, runs: readonly Offer[]): Offer[] {
  if (placeOf(reload) === "front") return [reloadTask(reload)];
  return [...runs.filter((run) => run.place === "front"), reloadTask(reload)];
}

/** The reload task. */
export function reloadTask(cause: Cause): Offer {
  return { task: { kind: "converge", key: RELOAD_KEY, cause }, place: placeOf(cause) };
}

/** The task of a module run; folds into one that waits. */
function runModule(module: string, cause: Cause): Offer {
  const task: Task = { kind: "run-module", key: runModuleKey(module), module, cause };
  return { task, place: placeOf(cause) };
}
