/** Views of kubernetes bindings for metrics and debug commands. */

import type { Json, JsonObject } from "../../model/index.ts";
import type { Operations } from "./monitor/monitor-outbox.ts";
import type { Monitor } from "./monitor/monitor.ts";

/** Why a binding cannot work: a missing kind, missing rights, a server that does not answer. */
export interface BindingTrouble {
  readonly hook: string;
  /** undefined for a global hook. */
  readonly module: string | undefined;
  readonly binding: string;
  readonly message: string;
}

/** How many objects a binding has in its snapshot. */
export interface BindingCount {
  readonly hook: string;
  readonly module: string | undefined;
  readonly binding: string;
  readonly queue: string;
  readonly objects: number;
}

/** One binding in the dump of the debug commands. */
export interface BindingDump {
  readonly snapshot: readonly JsonObject[];
  readonly operations: {
    readonly sinceStart: Operations & { readonly count: number };
    readonly sinceLastExecution: Operations & { readonly count: number };
  };
}

export function countOf({ hook, binding, size }: Monitor): BindingCount {
  return { hook: hook.name, module: hook.module, binding: binding.name, queue: binding.queue, objects: size };
}

export function dumpOf(monitor: Monitor): BindingDump {
  return {
    snapshot: monitor.peek().map(({ object, filterResult }) => plain(object, filterResult)),
    operations: {
      sinceStart: counted(monitor.outbox.sinceStart),
      sinceLastExecution: counted(monitor.outbox.sinceLastExecution),
    },
  };
}

function plain(object: JsonObject | undefined, filterResult: Json | undefined): JsonObject {
  return {
    ...(object === undefined ? {} : { object }),
    ...(filterResult === undefined ? {} : { filterResult }),
  };
}

// The total is the first line, as in the Go operator.
function counted(operations: Operations): Operations & { count: number } {
  const { added, modified, deleted, cleaned } = operations;
  return { count: added + modified + deleted + cleaned, ...operations };
}
