/** Starts the watches of hooks and runs their Synchronization (docs/HOOKS.md, "Kubernetes events"). */

import { hookTask } from "../../bindings/index.ts";
import { orAborted } from "../../lib/index.ts";
import type { Hook, HookTask, HookTrigger, KubernetesBinding } from "../../model/index.ts";
import type { WaitUntil } from "../../queue/index.ts";
import type { Ports } from "../ports.ts";
import { executeHook, failureText } from "./execute-hook.ts";

export interface SyncRun {
  readonly queue: string;
  readonly signal: AbortSignal;
  readonly onStart?: (hook: Hook) => void;
  /** How long to wait for those in named queues: until they succeeded (default), or were tried. */
  readonly waitUntil?: WaitUntil;
}

/**
 * Opens the watches of the hooks, in name order, and runs their Synchronization. Bindings of the queue at work run
 * here; those of other queues are offered to these, and waited for unless `waitForSynchronization: false`.
 */
export async function synchronize(ports: Ports, hooks: readonly Hook[], run: SyncRun): Promise<void> {
  const elsewhere: Promise<void>[] = [];
  for (const hook of hooks) {
    await ports.watches.enable(hook);
    const waiting = ports.watches.waiting(hook);
    const listed = hook.config.bindings.kubernetes.filter((binding) => !waiting.includes(binding.id));
    for (const step of stepsOf(listed)) {
      if (step.every((binding) => isSynchronized(ports, hook, binding))) continue;
      run.signal.throwIfAborted();
      const first = step[0];
      if (first === undefined) continue;
      if (first.queue === run.queue) await synchronizeHere(ports, { hook, step, run });
      else elsewhere.push(...synchronizeThere(ports, { hook, step, run }));
    }
  }
  // A run in a named queue that fails for ever must not keep a module from being disabled or configured.
  await orAborted(Promise.all(elsewhere), run.signal);
}

/** Bindings of one group and queue are synchronized in one run; every other one alone. */
function stepsOf(bindings: readonly KubernetesBinding[]): KubernetesBinding[][] {
  const steps: KubernetesBinding[][] = [];
  for (const binding of bindings) {
    const last = steps.at(-1)?.[0];
    const joins =
      binding.group !== undefined && last?.group === binding.group && last.queue === binding.queue;
    if (joins) steps.at(-1)?.push(binding);
    else steps.push([binding]);
  }
  return steps;
}

interface Synchronization {
  readonly hook: Hook;
  readonly step: readonly KubernetesBinding[];
  readonly run: SyncRun;
}

async function synchronizeHere(ports: Ports, { hook, step, run }: Synchronization): Promise<void> {
  const last = wanted(hook, step).at(-1);
  if (last !== undefined) {
    run.onStart?.(hook);
    const triggers = [{ type: "synchronization", binding: last }] as const;
    try {
      await executeHook(ports, { hook, triggers, queue: run.queue, signal: run.signal });
    } catch (error) {
      if (run.signal.aborted || !last.allowFailure) throw error;
      ports.logger.warn("Hook failed, which is allowed", {
        hook: hook.name,
        module: hook.module,
        binding: last.name,
        error: failureText(error),
      });
    }
  }
  noteSynchronized(ports, hook, step);
}

/** Bindings that the hook wants to be run for; version 0 knows no Synchronization. */
function wanted(hook: Hook, step: readonly KubernetesBinding[]): KubernetesBinding[] {
  return hook.config.version === "v0" ? [] : step.filter((binding) => binding.executeOnSynchronization);
}

function synchronizeThere(ports: Ports, { hook, step, run }: Synchronization): Promise<void>[] {
  const waits: Promise<void>[] = [];
  for (const binding of step) {
    if (wanted(hook, [binding]).length === 0) {
      noteSynchronized(ports, hook, [binding]);
      continue;
    }
    const task = synchronizationTask(ports, hook, binding);
    ports.queues.offer(binding.queue, task);
    if (binding.waitForSynchronization) waits.push(ports.queues.over(task.key, run.waitUntil ?? "left"));
  }
  return waits;
}

/** Folds into one that waits or runs, but not into a run that saw former watches of the hook. */
function synchronizationTask(
  ports: Ports,
  hook: Hook,
  binding: KubernetesBinding,
): HookTask & { readonly key: string } {
  const trigger: HookTrigger = { type: "synchronization", binding };
  return {
    ...hookTask(hook, trigger),
    key: `sync/${syncId(hook, binding)}/${ports.watches.generation(hook)}`,
  };
}

const syncId = (hook: Hook, binding: KubernetesBinding): string => `${hook.id}/${binding.id}`;

/** Ids of bindings that were synchronized: of all global hooks, or of a module's since it became enabled. */
function synchronizedWith(ports: Ports, { module }: Hook): Set<string> | undefined {
  return module === undefined ? ports.state.globalSynchronized : ports.state.module(module)?.synchronized;
}

/** A retried first run, or a reload, does not repeat what succeeded before. */
function isSynchronized(ports: Ports, hook: Hook, binding: KubernetesBinding): boolean {
  return synchronizedWith(ports, hook)?.has(syncId(hook, binding)) === true;
}

/** Notes Synchronizations that succeeded: the hook has seen the objects, later events may follow. */
export function noteSynchronized(ports: Ports, hook: Hook, bindings: readonly KubernetesBinding[]): void {
  const done = synchronizedWith(ports, hook);
  for (const binding of bindings) done?.add(syncId(hook, binding));
  ports.watches.unlock(
    hook,
    bindings.map(({ id }) => id),
  );
}

/** The hook's watches were closed: it needs a new Synchronization. */
export function forgetSynchronized(ports: Ports, hook: Hook): void {
  const done = synchronizedWith(ports, hook);
  for (const binding of hook.config.bindings.kubernetes) done?.delete(syncId(hook, binding));
}
