/**
 * The life of a hook's sources, which make it run: watches, schedules, and what these have put into queues. They
 * are activated after a hook was loaded, and deactivated when it is gone, was changed, or its module was removed.
 */

import type { Hook } from "../../model/index.ts";
import type { Ports } from "../ports.ts";
import { forgetSynchronized, synchronize } from "./synchronize.ts";
import type { SyncRun } from "./synchronize.ts";

/**
 * Opens the watches of hooks, runs their Synchronization, then starts their schedules. Twice is harmless. Schedules
 * of global hooks begin at once (all are of one module, or global): one that cannot be synchronized does not keep the others from theirs.
 */
export async function activate(ports: Ports, hooks: readonly Hook[], run: SyncRun): Promise<void> {
  const start = (): void => hooks.forEach((hook) => ports.sources.enable(hook));
  const areGlobal = hooks[0]?.module === undefined;
  if (areGlobal) start();
  await synchronize(ports, hooks, run);
  if (!areGlobal) start();
  note(ports, hooks, true);
}

/** Opens the watches of hooks for their snapshots alone: no events, no Synchronization. */
export async function openSnapshots(ports: Ports, hooks: readonly Hook[]): Promise<void> {
  for (const hook of hooks) await ports.watches.enable(hook);
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
