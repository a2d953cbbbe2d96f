/**
 * Activates and deactivates what triggers hooks: watches, schedules, and the tasks that these have queued. Hooks are
 * activated after loading, and deactivated when they are deleted or changed, or when their module is removed. Synchronization is the first
 * run of a hook for a `kubernetes` binding, with all objects that exist. It runs in the queue of the binding.
 */

import type { Hook, HookTask, HookTrigger, KubernetesBinding } from "../../../base/model/index.ts";
import {
  FirstListError,
  allowsFailure,
  buildHookTask,
  collapseGroups,
  isReviewBinding,
  listBindings,
} from "../../../hooks/bindings/index.ts";
import { orAborted } from "../../../base/index.ts";
import { describeTask, type Task } from "../../../base/model/index.ts";
import type { Failure, RunContext, WaitUntil } from "../../queue/index.ts";
import type { Ports } from "../ports.ts";
import {
  HookFailure,
  executeHook,
  describeHookError,
  forgetSynchronized,
  isSynchronized,
  recordSynchronized,
  syncId,
} from "./execute-hook.ts";

/**
 * Opens the watches of hooks, runs their Synchronization, then starts their schedules. Idempotent. `hooks` are of one
 * module, or all global. Schedules of global hooks start first: a failed Synchronization must not block them.
 */
export async function activateHooks(ports: Ports, hooks: readonly Hook[], run: SyncRun): Promise<void> {
  const startSchedules = (): void => hooks.forEach((hook) => ports.triggers.enable(hook));
  const areGlobalHooks = hooks[0]?.module === undefined;
  if (areGlobalHooks) startSchedules();
  await synchronize(ports, hooks, run);
  if (!areGlobalHooks) startSchedules();
  recordActive(ports, hooks, true);
}

/**
 * Serves the webhooks of hooks, before the `onStartup` hooks run: an earlier process may have registered them, and then the API server refuses what an
 * `onStartup` hook writes while nothing answers. `activateHooks` starts everything else. Opens watches first whose snapshots a webhook passes to its
 * hook, unless the API server may need the webhook to list the objects.
 */
export async function serveWebhooks(ports: Ports, hooks: readonly Hook[]): Promise<void> {
  const reviewing = hooks.filter(({ config }) => listBindings(config).some(isReviewBinding));
  if (reviewing.length === 0) return;
  const needsSnapshots = ({ config }: Hook): boolean =>
    config.bindings.conversion.length === 0 &&
    listBindings(config).some((each) => isReviewBinding(each) && each.includeSnapshotsFrom.length > 0);
  await openSnapshotWatches(ports, reviewing.filter(needsSnapshots));
  for (const hook of reviewing) ports.webhooks?.enable(hook);
  await ports.webhooks?.whenServed();
}

/**
 * Opens the watches of hooks for snapshots only, without events and Synchronization. A `FirstListError` means that the filter of a binding failed on an
 * object of the first list. It is ignored, because it must not block the removal of a module.
 */
export async function openSnapshotWatches(ports: Ports, hooks: readonly Hook[]): Promise<void> {
  for (const hook of hooks) {
    try {
      await ports.watches.enable(hook);
    } catch (error) {
      if (!(error instanceof FirstListError)) throw error;
    }
  }
}

/** Stops watches and schedules of hooks, and removes their queued tasks. `activateHooks` starts them again. */
export function deactivate(ports: Ports, hooks: readonly Hook[]): void {
  for (const hook of hooks) {
    ports.triggers.disable(hook);
    ports.watches.disable(hook);
    ports.queues.remove((task) => task.kind === "hook" && task.hook.id === hook.id);
    forgetSynchronized(ports, hook);
  }
  recordActive(ports, hooks, false);
}

/** Records which hooks of a module are active: its next run activates the others. */
function recordActive(ports: Ports, hooks: readonly Hook[], isActive: boolean): void {
  const module = hooks[0]?.module;
  if (module === undefined) return;
  const ids = hooks.map(({ id }) => id);
  ports.state.recordModule(module, isActive ? "hooksActivated" : "hooksDeactivated", ids);
}

/** The task in which hooks are activated: the start, a converge, or a module run. */
export interface SyncRun extends Pick<RunContext, "queue" | "signal" | "withoutSlot"> {
  readonly onStart?: (hook: Hook) => void;
  /** Called with a description of what is waited for in named queues. */
  readonly onWait?: (what: string) => void;
  /** Wait for tasks in named queues until they succeeded (default), or only until they were tried. */
  readonly waitUntil?: WaitUntil;
  /** Called if one of them failed, or a task before it in its queue; may throw. */
  readonly onFailure?: (failure: HookFailure) => void;
}

/**
 * Opens the watches of the hooks, in name order, and runs their Synchronization. Bindings of the current queue run at once;
 * those of other queues are queued there, and awaited unless `waitForSynchronization: false`.
 */
async function synchronize(ports: Ports, hooks: readonly Hook[], run: SyncRun): Promise<void> {
  const queued: QueuedSync[] = [];
  for (const hook of hooks) {
    await ports.watches.enable(hook);
    // A binding whose objects cannot be listed yet, for example because the CRD is missing, is synchronized once they can.
    const unlistedIds = ports.watches.listUnlistedBindings(hook);
    const listed = hook.config.bindings.kubernetes.filter((binding) => !unlistedIds.includes(binding.id));
    for (const bindings of groupByQueue(listed)) {
      if (bindings.every((binding) => isSynchronized(ports, hook, binding))) continue;
      run.signal.throwIfAborted();
      if (bindings[0]?.queue === run.queue) await runSynchronization(ports, { hook, bindings, run });
      else queued.push(...enqueueSynchronization(ports, { hook, bindings, run }));
    }
  }
  if (queued.length > 0) await waitForQueued(queued, run);
}

/** A Synchronization in a named queue. */
interface QueuedSync {
  readonly hook: Hook;
  readonly queue: string;
  readonly key: string;
  /** Resolves when the task has ended, with its failure or that of a task before it in the queue. */
  readonly settled: Promise<Failure<Task> | undefined>;
}

/**
 * Waits until the queued Synchronizations have ended; reports the first failure to `run.onFailure`. The run gives its slot of parallel runs
 * to others meanwhile.
 */
async function waitForQueued(all: readonly QueuedSync[], run: SyncRun): Promise<void> {
  const [first, ...others] = all;
  const andOthers = others.length === 0 ? "" : ` and ${others.length} more`;
  run.onWait?.(`the Synchronization of ${first?.hook.name ?? ""} in queue ${first?.queue ?? ""}${andOthers}`);
  // Abortable: a hanging run in a named queue must not keep the module from being disabled or configured.
  const failures = await run.withoutSlot(() =>
    orAborted(Promise.all(all.map(({ settled }) => settled)), run.signal),
  );
  for (const [index, queuedSync] of all.entries()) {
    const failure = failures[index];
    if (failure !== undefined) return run.onFailure?.(toHookFailure(queuedSync, failure));
  }
}

/** Describes why a queued Synchronization did not succeed: it failed itself, or a task before it in the queue did. */
function toHookFailure({ hook, queue, key }: QueuedSync, { task, message }: Failure<Task>): HookFailure {
  if (task.key === key)
    return new HookFailure(hook, `its Synchronization in queue ${queue} failed: ${message}`);
  const reason = `waits in queue ${queue} for ${describeTask(task)}, which failed: ${message}`;
  return new HookFailure(hook, `its Synchronization ${reason}`);
}

/** Groups adjacent bindings of one queue: one run synchronizes each group. */
function groupByQueue(bindings: readonly KubernetesBinding[]): KubernetesBinding[][] {
  const groups: KubernetesBinding[][] = [];
  for (const binding of bindings) {
    const lastGroup = groups.at(-1);
    if (lastGroup?.[0]?.queue === binding.queue) lastGroup.push(binding);
    else groups.push([binding]);
  }
  return groups;
}

/** Bindings of one queue whose first list is complete, and the task that synchronizes them. */
interface Synchronization {
  readonly hook: Hook;
  readonly bindings: readonly KubernetesBinding[];
  readonly run: SyncRun;
}

/**
 * Runs the Synchronization of these bindings now, in one hook run. Throws if it fails, unless the bindings allow that. Bindings for which the hook need
 * not run count as synchronized at once.
 */
async function runSynchronization(ports: Ports, { hook, bindings, run }: Synchronization): Promise<void> {
  const triggers = bindingsToRun(ports, hook, bindings).map(
    (binding) => ({ type: "synchronization", binding }) as const,
  );
  const [first, ...others] = collapseGroups(triggers);
  if (first !== undefined) {
    run.onStart?.(hook);
    try {
      await executeHook(ports, { ...run, hook, triggers: [first, ...others] });
    } catch (error) {
      if (run.signal.aborted || !allowsFailure(triggers)) throw error;
      ports.logger.warn("Hook failed, which is allowed", {
        hook: hook.name,
        module: hook.module,
        binding: first.binding.name,
        error: describeHookError(error),
      });
    }
  }
  recordSynchronized(ports, hook, bindings);
}

/** Bindings that need a Synchronization run. Hooks of configVersion v0 have no Synchronization. */
function bindingsToRun(
  ports: Ports,
  hook: Hook,
  bindings: readonly KubernetesBinding[],
): KubernetesBinding[] {
  if (hook.config.version === "v0") return [];
  return bindings.filter(
    (binding) => binding.executeOnSynchronization && !isSynchronized(ports, hook, binding),
  );
}

/**
 * Queues one Synchronization task for each binding; returns those that the caller must wait for (`waitForSynchronization`): until success, or until
 * the first try (`run.waitUntil`). A binding whose hook does not run on Synchronization (`executeHookOnSynchronization: false`) is synchronized at once.
 */
function enqueueSynchronization(ports: Ports, { hook, bindings, run }: Synchronization): QueuedSync[] {
  const awaited: QueuedSync[] = [];
  for (const binding of bindings) {
    if (bindingsToRun(ports, hook, [binding]).length === 0) {
      recordSynchronized(ports, hook, [binding]);
      continue;
    }
    const task = synchronizationTask(ports, hook, binding);
    const { queue } = binding;
    ports.queues.offer(queue, task);
    if (!binding.waitForSynchronization) continue;
    const settled = ports.queues.whenSettled(task.key, run.waitUntil ?? "ended");
    awaited.push({ hook, queue, key: task.key, settled });
  }
  return awaited;
}

/** The key prevents a second such task in the queue, but not beside one of an earlier generation: of watches that have been closed since. */
function synchronizationTask(
  ports: Ports,
  hook: Hook,
  binding: KubernetesBinding,
): HookTask & { readonly key: string } {
  const trigger: HookTrigger = { type: "synchronization", binding };
  return {
    ...buildHookTask(hook, trigger),
    key: `sync/${syncId(hook, binding)}/${ports.watches.watchGeneration(hook)}`,
  };
}
