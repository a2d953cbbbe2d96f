/** Tasks: the units of work that wait in queues, and why they are due (docs/reference/lifecycle.md, "Queues"). */

import { LIFECYCLE } from "./binding.ts";
import type { Hook, HookTrigger, LifecycleBinding, LifecycleName, ReviewTrigger } from "./binding.ts";
import type { Span } from "./span.ts";

/** From this number on, tasks of one hook are a flood: also those that are not neighbours are folded, and each group becomes one context. */
export const FLOOD = 100;

/** Annotation of an AddonModule that requests a run now, or of the AddonOperator for a converge; its value is an opaque token. */
export const REQUESTED_AT = "reconcile.addon-operator.io/requestedAt";

/** Marks the parts of a converge: a change of the ConfigMap may replace queued ones. */
type TaskGroup = "boot" | "converge";

/** How queues treat a task. */
export interface QueueTask {
  /** Deduplication: a second task with the same key is dropped while the first waits or runs. */
  readonly key?: string;
  /** A second task is accepted while the first runs, because that run may miss the change. */
  readonly foldsInto?: "waiting";
  /** Consecutive tasks of one batch run together. */
  readonly batch?: string;
  /** Runs by itself in spite of its batch, and keeps its place among the tasks of the batch. */
  readonly alone?: boolean;
  /** Consecutive tasks of one batch with the same peer run together, even if one of them is `alone`. */
  readonly peer?: string;
  /** Runs only while one of the slots that all queues share is free; an urgent task may use one more. */
  readonly slot?: "usual" | "urgent";
  /** What led to the task, as a span of its trace; without it, the span in which the task is queued. */
  readonly origin?: Span;
}

interface Common extends QueueTask {
  readonly group?: TaskGroup;
}

/** Start-up: global onStartup hooks, bindings, Synchronization, then the first converge. */
interface BootTask extends Common {
  readonly kind: "boot";
}

/** A converge: stays at the head of its queue while its steps run in front of it. */
export interface ConvergeTask extends Common {
  /** The kind in `task_type` and in traces. */
  readonly kind: "converge";
  readonly cause: Cause;
}

/** One trigger of one hook; consecutive triggers of one hook run together. */
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

/** Restores missing objects of a release, in addition to the run that is due for them. */
export interface RestoreTask extends Common {
  readonly kind: "restore-objects";
  readonly module: string;
}

/** Reads changed files of modules again; runs of these modules or a converge follow. */
interface ReadModulesTask extends Common {
  readonly kind: "read-modules";
}

/** Another try of an `enabled` script that failed; a converge follows when it answers. */
export interface EnabledScriptTask extends Common {
  readonly kind: "enabled-script";
  readonly module: string;
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

/** The tasks that work for one module, except its hooks. */
export type ModuleTask = RunModuleTask | RestoreTask | EnabledScriptTask | DeleteModuleTask;

export type Task =
  | BootTask
  | ConvergeTask
  | HookTask
  | ReadModulesTask
  | PurgeTask
  | EnsureCrdsTask
  | ModuleTask;

/** Deduplication keys of tasks; see `QueueTask.key`. */
export const runModuleKey = (module: string): string => `run-module/${module}`;
export const deleteModuleKey = (module: string): string => `delete-module/${module}`;

/** The module a task works for, if any. */
export function moduleOf(task: Task): string | undefined {
  if (task.kind === "hook") return task.hook.module;
  return "module" in task ? task.module : undefined;
}

/** A task in one line, e.g. `run-module ingress: ConfigMap section changed`. */
export function describeTask(task: Task): string {
  if ("module" in task) return describeModuleTask(task);
  switch (task.kind) {
    case "boot":
      return "start-up";
    case "converge":
      return `converge of all modules: ${describeCause(task.cause)}`;
    case "hook":
      return `hook ${qualifiedHookName(task.hook)}: ${task.trigger.binding.name}`;
    case "read-modules":
      return "read changed modules again";
    case "purge-release":
      return `purge-release ${task.release}`;
    case "ensure-crds":
      return `ensure-crds of ${task.modules.join(", ")}`;
  }
}

/** A task of one module in one line. */
function describeModuleTask(task: ModuleTask): string {
  const text = `${task.kind} ${task.module}`;
  return task.kind === "run-module" ? `${text}: ${describeCause(task.cause)}` : text;
}

/** The name of a hook for messages, after the name of its module if it has one. */
export function qualifiedHookName({ module, name }: Hook): string {
  return module === undefined ? name : `${module}/${name}`;
}

/** The bindings for which queues run hooks, without those of the lifecycle. */
type EventBinding = Exclude<HookTrigger["binding"], LifecycleBinding | ReviewTrigger["binding"]>;

/** The cause of a run or a converge. */
export type Cause =
  | { readonly kind: keyof typeof CAUSE_TEXTS }
  /** A hook changed values: a lifecycle hook, or a hook for an event of its binding of another kind. */
  | { readonly kind: "hook"; readonly by: LifecycleName | EventBinding["type"] }
  /** An object of the release is missing. Users read `absent`, as in metrics and statuses. */
  | { readonly kind: "missing"; readonly object: string }
  | { readonly kind: "release"; readonly status: string };

const CAUSE_TEXTS = {
  "start-up": "start-up",
  requested: "requested",
  confirmed: "a removal was confirmed",
  /** Globals, flags, or what keeps releases: protection and maintenance. */
  config: "ConfigMap changed",
  section: "ConfigMap section changed",
  sources: "values in a Secret or ConfigMap changed",
  "own-config": "hook changed the ConfigMap",
  globals: "global values changed",
  values: "module values changed",
  files: "files changed",
  "second-check": "second check of what was missing",
  "first-run": "first run",
  /** Of a run that waited for it. */
  required: "what it requires is there",
  unhealthy: "release is not healthy",
  disabled: "disabled",
} as const;

/** The cause of a run or a converge in words, for logs and statuses. */
export function describeCause(cause: Cause): string {
  if (cause.kind === "hook") {
    // All hooks of a lifecycle binding run together; an event runs one.
    const isLifecycle = LIFECYCLE.some((name) => name === cause.by);
    return `${cause.by} ${isLifecycle ? "hooks" : "hook"} changed values`;
  }
  if (cause.kind === "missing") return `absent ${cause.object}`;
  if (cause.kind === "release") return `release is ${cause.status}`;
  return CAUSE_TEXTS[cause.kind];
}

/** The queue of a module's readiness probe (docs/reference/hooks.md, "Batch hooks"). */
export function probeQueue(module: string): string {
  return `readiness/${module}`;
}
