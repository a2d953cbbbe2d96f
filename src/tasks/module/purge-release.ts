/** Purges releases that have no module directory. */

import { oneLine } from "../../lib/index.ts";
import type { PurgeTask, Task } from "../../model/index.ts";
import { guardOf } from "../../plan/index.ts";
import type { Outcome, RunContext } from "../../queue/index.ts";
import { configIsMissing } from "./delete-module.ts";
import type { Ports } from "../ports.ts";
import { lookAgain } from "../reload/load.ts";

/** A directory must be missing in two looks, this long apart, before its release is purged. */
const SECOND_LOOK_MS = 3000;

/** This operator's releases without a module directory; reports those that are protected. */
export function orphans(ports: Ports): string[] {
  return ports.releases.withoutModule(ports.state.tree).filter((release) => !hold(ports, release));
}

/** Purges that are due, unless something forbids them, or all removals are held. */
export function purges(ports: Ports, candidates: readonly string[], isHeld: boolean): Task[] {
  const { state, clock } = ports;
  const now = clock.now();
  const since = new Map(candidates.map((name) => [name, state.view.orphans.get(name) ?? now]));
  state.record({ orphans: since });
  const due = candidates.filter((name) => now - (since.get(name) ?? now) >= SECOND_LOOK_MS);
  const holds = purgeHolds(ports);
  if (candidates.length > 0 && holds.length > 0) {
    state.addHold(`not purged: ${candidates.join(", ")}: ${holds.join("; ")}`);
    return [];
  }
  if (isHeld) return [];
  if (due.length < candidates.length) lookAgain(ports, SECOND_LOOK_MS);
  return due.map((release) => ({ kind: "purge-release", key: `purge-release/${release}`, release }));
}

/** Reports a release that is protected or suspended; true when it is. */
function hold({ state }: Ports, release: string): boolean {
  const key = guardOf(state.values.config, release);
  if (key === undefined) return false;
  state.addHold(`not purged: ${release}: ${key} is set in the ConfigMap`);
  return true;
}

function purgeHolds(ports: Ports): readonly string[] {
  const { purgeHolds: found } = ports.state.tree;
  return configIsMissing(ports) ? ["the ConfigMap is missing", ...found] : found;
}

/** Purge of a release: it and its records are removed; there are no hooks to run. */
export async function purgeRelease(
  ports: Ports,
  task: PurgeTask,
  context: RunContext,
): Promise<Outcome<Task>> {
  if (configIsMissing(ports)) {
    ports.state.addHold(`not purged: ${task.release}: the ConfigMap is missing`);
    return { kind: "done" };
  }
  // The ConfigMap may have changed while this waited.
  if (hold(ports, task.release)) return { kind: "done" };
  try {
    await ports.releases.uninstall(task.release, context.signal);
    await ports.releases.forget(task.release);
    ports.logger.info("Release purged", { release: task.release });
    return { kind: "done" };
  } catch (error) {
    if (context.signal.aborted) return { kind: "cancelled" };
    ports.logger.error("Purge failed", { release: task.release, error: oneLine(error) });
    return { kind: "retry", message: oneLine(error) };
  }
}
