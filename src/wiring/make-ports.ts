/** Connects the ports of tasks to the rooms behind them. */

import { HookLoader, runEnabledScript, runHook } from "../hooks/index.ts";
import { applyObjects } from "../tasks/index.ts";
import type { Ports } from "../tasks/index.ts";
import type { Base } from "./base.ts";

/** Rooms that are ports as they are. */
type Direct = "state" | "queues" | "watches" | "sources" | "releases" | "config" | "recorder" | "hookMetrics";

/** Builds everything that a task may use. */
export function makePorts(base: Base, rooms: Pick<Ports, Direct>): Ports {
  const { clock, logger, settings, runs, readTree, filters, env } = base;
  const { patchClient: client, discovery } = base;
  const { workingDir } = settings;
  const loader = new HookLoader({ env, workingDir, checkFilter: (filter) => filters.compile(filter) });
  return {
    ...rooms,
    clock,
    logger,
    retryMinMs: settings.retryMinMs,
    deleteBrake: settings.deleteBrake,
    runHook: (run) => runHook({ ...run, settings: runs, logger }),
    applyObjects: (operations) => applyObjects({ client, discovery, filters, clock }, operations),
    runScript: (script) => runEnabledScript({ ...script, settings: runs, logger }),
    loadHook: (file, module) => loader.load(file, module),
    readTree,
  };
}
