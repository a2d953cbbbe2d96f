/** What logs and debug commands display of a binding. */

import type { JsonObject } from "../../model/index.ts";
import type { Monitor, Operations } from "./monitor.ts";

/** The names of hook, module and binding, for logs and issues. */
export function bindingLogFields({ hook, binding }: Monitor): {
  hook: string;
  module: string | undefined;
  binding: string;
} {
  return { hook: hook.name, module: hook.module, binding: binding.name };
}

/** Snapshot and counters of a binding for the debug commands. */
export function dumpBinding(monitor: Monitor) {
  const { sinceStart, sinceLastExecution } = monitor.outbox;
  return {
    snapshot: monitor.items.map(({ object, filterResult }): JsonObject => {
      return { ...(object && { object }), ...(filterResult !== undefined && { filterResult }) };
    }),
    operations: { sinceStart: addTotal(sinceStart), sinceLastExecution: addTotal(sinceLastExecution) },
  };
}

/** Adds the total, as the first member as in the Go operator. */
function addTotal(operations: Operations): Operations & { count: number } {
  const { added, modified, deleted, cleaned } = operations;
  return { count: added + modified + deleted + cleaned, ...operations };
}
