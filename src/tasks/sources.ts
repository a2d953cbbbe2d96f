/**
 * The life of a hook's sources, which make it run: watches, schedules, and what these have put into queues. They
 * are activated after a hook was loaded, and deactivated when it is gone, was changed, or its module was removed.
 */

import type { Hook, HookTask, HookTrigger, KubernetesBinding } from "../model/index.ts";
import { FirstListError, allowsFailure, collapseGroups, hookTask } from "../bindings/index.ts";
import { orAborted } from "../lib/index.ts";
import { describeTask, type Task } from "../model/index.ts";
import type { Failure, RunContext, WaitUntil } from "../queue/index.ts";
import type { Ports } from "./run-task.ts";
import {
  HookFailure,
  executeHook,
  failureText,
  forgetSynchronized,
  isSynchronized,
  noteSynchronized,
  syncId,
} from "./execute-hook.ts";

/**
 * Opens the watches of hooks, runs their Synchronization, then starts their schedules. Twice is harmless. Schedules
 * of global hooks begin at once (all are of one module, or global): one that cannot be synchronized does not keep the
 * others from theirs.
 */
export async function activate(ports: Ports, hooks: readonly Hook[], run: SyncRun): Promise<void> {
  const start = (): void => hooks.forEach((hook) => ports.sources.enable(hook));
  const areGlobal = hooks[0]?.module === undefined;
  if (areGlobal) start();
  await synchronize(ports, hooks, run);
  if (!areGlobal) start();
  note(ports, hooks, true);
}

/**
 * Opens the watches of hooks for their snapshots alone: no events, no Synchronization. An object that a filter fails for
 * is left out: it must not keep a module from being removed.
 */
export async function openSnapshots(ports: Ports, hooks: readonly Hook[]): Promise<void> {
  for (const hook of hooks) {
    try {
      await ports.watches.enable(hook);
    } catch (error) {
      if (!(error instanceof FirstListError)) throw error;
    }
  }
}

/** Stops the schedules of hooks; their snapshots stay, for those that still run while their module is removed. */
export function silence(ports: Ports, hooks: readonly Hook[]): void {
  for (const hook of hooks) ports.sources.disable(hook);
}

/** Stops everything that makes hooks run, and what waits of it; if they come back, they are activated anew. */
export function deactivate(ports: Ports, hooks: readonly Hook[]): void {
  for (const hook of hooks) {
    ports.sources.disable(hook);
    ports.watches.disable(hook);
    ports.queues.remove((task) => task.kind === "hook" && task.hook.id === hook.id);
    forgetSynchronized(ports, hook);
  }
  note(ports, hooks, false);
}

/** A module knows its active hooks: its next run activates the others. */
function note(ports: Ports, hooks: readonly Hook[], isActive: boolean): void {
  const module = hooks[0]?.module;
  if (module === undefined) return;
  ports.state.update(module, ({ active }) => {
    for (const { id } of hooks) active[isActive ? "add" : "delete"](id);
  });
}

export interface SyncRun extends Pick<RunContext, "queue" | "signal" | "withoutSlot"> {
  readonly onStart?: (hook: Hook) => void;
  /** Called with what is waited for in named queues, in words. */
  readonly onWait?: (what: string) => void;
  /** How long to wait for those in named queues: until they succeeded (default), or were tried. */
  readonly waitUntil?: WaitUntil;
  /** Called where one of them failed, or what it waits behind; may throw. */
  readonly onFailure?: (failure: HookFailure) => void;
}

/**
 * Opens the watches of the hooks, in name order, and runs their Synchronization. Bindings of the queue at work run
 * here; those of other queues are offered to these, and waited for unless `waitForSynchronization: false`.
 */
async function synchronize(ports: Ports, hooks: readonly Hook[], run: SyncRun): Promise<void> {
  const elsewhere: Elsewhere[] = [];
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
  if (elsewhere.length > 0) await waitElsewhere(elsewhere, run);
}

/** A Synchronization in a named queue. */
interface Elsewhere {
  readonly hook: Hook;
  readonly queue: string;
  readonly key: string;
  readonly over: Promise<Failure<Task> | undefined>;
}

async function waitElsewhere(all: readonly Elsewhere[], run: SyncRun): Promise<void> {
  const [first, ...more] = all;
  const rest = more.length === 0 ? "" : ` and ${more.length} more`;
  run.onWait?.(`the Synchronization of ${first?.hook.name ?? ""} in queue ${first?.queue ?? ""}${rest}`);
  // A run in a named queue that hangs must not keep a module from being disabled or configured.
  const failures = await run.withoutSlot(() =>
    orAborted(Promise.all(all.map(async (each) => ({ ...each, failure: await each.over }))), run.signal),
  );
  const [failed] = failures.flatMap(({ failure, ...each }) =>
    failure === undefined ? [] : [failureOf(each, failure)],
  );
  if (failed !== undefined) run.onFailure?.(failed);
}

function failureOf({ hook, queue, key }: Elsewhere, { task, message }: Failure<Task>): HookFailure {
  const own = `its Synchronization in queue ${queue} failed: ${message}`;
  const other = `its Synchronization waits in queue ${queue} for ${describeTask(task)}, which failed: ${message}`;
  return new HookFailure(hook, task.key === key ? own : other);
}

/** Bindings of one queue that follow each other are synchronized in one run. */
function stepsOf(bindings: readonly KubernetesBinding[]): KubernetesBinding[][] {
  const steps: KubernetesBinding[][] = [];
  for (const binding of bindings) {
    if (steps.at(-1)?.[0]?.queue === binding.queue) steps.at(-1)?.push(binding);
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
  const triggers = wanted(ports, hook, step).map(
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
        error: failureText(error),
      });
    }
  }
  noteSynchronized(ports, hook, step);
}

/** Bindings that the hook is still to be run for; version 0 knows no Synchronization. */
function wanted(ports: Ports, hook: Hook, step: readonly KubernetesBinding[]): KubernetesBinding[] {
  if (hook.config.version === "v0") return [];
  return step.filter((binding) => binding.executeOnSynchronization && !isSynchronized(ports, hook, binding));
}

function synchronizeThere(ports: Ports, { hook, step, run }: Synchronization): Elsewhere[] {
  const waits: Elsewhere[] = [];
  for (const binding of step) {
    if (wanted(ports, hook, [binding]).length === 0) {
      noteSynchronized(ports, hook, [binding]);
      continue;
    }
    const task = synchronizationTask(ports, hook, binding);
    const { queue } = binding;
    ports.queues.offer(queue, task);
    if (!binding.waitForSynchronization) continue;
    waits.push({ hook, queue, key: task.key, over: ports.queues.over(task.key, run.waitUntil ?? "left") });
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
