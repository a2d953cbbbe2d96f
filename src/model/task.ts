/** Tasks: the units of work that wait in queues, and why they are owed (docs/LIFECYCLE.md, "Queues"). */

import { LIFECYCLE, MAIN_QUEUE } from "./binding.ts";
import type { Binding, Hook, HookTrigger, LifecycleName } from "./binding.ts";

/**
 * From this number on, tasks of one hook are a flood: a longer queue is searched for tasks that can be folded although
 * they are no neighbours, and of more that run together a hook sees one context of each group.
 */
export const FLOOD = 100;

/** Parts of a reload carry this mark: a change of the ConfigMap may replace those that wait. */
type TaskGroup = "boot" | "reload";

interface Common {
  readonly key?: string;
  readonly batch?: string;
  readonly alone?: boolean;
  readonly peer?: string;
  readonly slot?: "usual" | "urgent";
  readonly foldsInto?: "waiting";
  readonly group?: TaskGroup;
}

/** Start-up: global onStartup hooks, bindings, Synchronization, then the first reload. */
interface BootTask extends Common {
  readonly kind: "boot";
}

/** Reload of all modules: stays at the head of its queue while its steps run in front of it. */
export interface ReloadTask extends Common {
  /** As people see it, in `task_type` and in traces. */
  readonly kind: "converge";
  readonly cause: Cause;
}

/** One reason for one hook to run; reasons of one hook that follow each other run together. */
export interface HookTask extends Common {
  readonly kind: "hook";
  readonly hook: Hook;
  readonly trigger: HookTrigger;
}

/** A run of one module: hooks, helm, hooks. */
export interface RunModuleTask extends Common {
  readonly kind: "run-module";
  readonly module: string;
  readonly cause: Cause;
}

/** Puts missing objects of a release back, beside the run that is owed for them. */
export interface RestoreTask extends Common {
  readonly kind: "restore-objects";
  readonly module: string;
}

/** Reads the files of modules again that have changed, so that runs of these follow, or a reload. */
interface ReadModulesTask extends Common {
  readonly kind: "read-modules";
}

/** The removal of a module that is disabled: hooks, uninstall, hooks. */
export interface DeleteModuleTask extends Common {
  readonly kind: "delete-module";
  readonly module: string;
}

/** Removal of a release that has no module directory. */
export interface PurgeTask extends Common {
  readonly kind: "purge-release";
  readonly release: string;
}

/** Creates and upgrades the CRDs of the modules that are about to run. */
export interface EnsureCrdsTask extends Common {
  readonly kind: "ensure-crds";
  readonly modules: readonly string[];
}

export type Task =
  | BootTask
  | ReloadTask
  | HookTask
  | RunModuleTask
  | RestoreTask
  | ReadModulesTask
  | DeleteModuleTask
  | PurgeTask
  | EnsureCrdsTask;

export const runModuleKey = (module: string): string => `run-module/${module}`;
export const deleteModuleKey = (module: string): string => `delete-module/${module}`;

/** The module a task works for, if any. */
export function moduleOf(task: Task): string | undefined {
  switch (task.kind) {
    case "hook":
      return task.hook.module;
    case "run-module":
    case "restore-objects":
    case "delete-module":
      return task.module;
    case "boot":
    case "converge":
    case "read-modules":
    case "ensure-crds":
    case "purge-release":
      return undefined;
  }
}

/** A task in one line, e.g. `run-module ingress: ConfigMap section changed`. */
export function describeTask(task: Task): string {
  switch (task.kind) {
    case "boot":
      return "start-up";
    case "converge":
      return `reload all modules: ${describeCause(task.cause)}`;
    case "hook":
      return `hook ${inModule(task.hook)}: ${task.trigger.binding.name}`;
    case "run-module":
      return `run-module ${task.module}: ${describeCause(task.cause)}`;
    case "read-modules":
      return "read changed modules again";
    case "restore-objects":
    case "delete-module":
      return `${task.kind} ${task.module}`;
    case "purge-release":
      return `purge-release ${task.release}`;
    case "ensure-crds":
      return `ensure-crds of ${task.modules.join(", ")}`;
  }
}

function inModule({ module, name }: Hook): string {
  return module === undefined ? name : `${module}/${name}`;
}

/** What made a run or a reload due. */
export type Cause =
  | { readonly kind: keyof typeof WORDS }
  /** A hook changed values: of the life cycle, or for an event of its binding. */
  | { readonly kind: "hook"; readonly by: LifecycleName | Exclude<Binding["type"], "lifecycle"> }
  | { readonly kind: "absent"; readonly object: string }
  | { readonly kind: "release"; readonly status: string };

const WORDS = {
  "start-up": "start-up",
  requested: "requested",
  confirmed: "a removal was confirmed",
  /** Globals or flags. */
  config: "ConfigMap changed",
  section: "ConfigMap section changed",
  "own-config": "hook changed the ConfigMap",
  globals: "global values changed",
  values: "module values changed",
  files: "files changed",
  "second-look": "second look at what was missing",
  "first-run": "first run",
  /** Of a run that waited for it. */
  required: "what it requires is there",
  unhealthy: "release is not healthy",
  disabled: "disabled",
} as const;

/** A cause in words. */
export function describeCause(cause: Cause): string {
  if (cause.kind === "hook") {
    const isEvent = !LIFECYCLE.some((name) => name === cause.by);
    return `${cause.by} ${isEvent ? "hook" : "hooks"} changed values`;
  }
  if (cause.kind === "absent") return `absent ${cause.object}`;
  if (cause.kind === "release") return `release is ${cause.status}`;
  return WORDS[cause.kind];
}

/** All modules in `main`, or each in a queue of its own. */
export type ModuleQueues = "main" | "own";

/** The queue in which a module runs, with its hooks that name none; that of global hooks where there is no module. */
export function queueOf(queues: ModuleQueues, module: string | undefined): string {
  return queues === "own" && module !== undefined ? `module/${module}` : MAIN_QUEUE;
}

/** The queue of a module's readiness probe (docs/HOOKS.md, "Batch hooks"). */
export function probeQueue(module: string): string {
  return `readiness/${module}`;
}
