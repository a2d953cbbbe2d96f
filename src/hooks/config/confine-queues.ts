/**
 * Keeps hooks of a module with an account out of the queues of others: a hook that hangs blocks its queue (docs/guides/tenancy.md,
 * "Metrics and queues of hooks").
 */

import { listBindings } from "../bindings/index.ts";
import { MAIN_QUEUE, ownQueueOf, probeQueue, type Bindings } from "../../base/model/index.ts";
import type { ConfiguredHooks } from "./batch-config.ts";

/** Queues whose names name a module. */
const QUEUE_OF_A_MODULE = /^(?:module|readiness)\//;

/**
 * The hooks of a file with queues of their module alone: `NAME` becomes `module/MODULE/NAME`. `ownQueue` is the queue of the module's runs, which
 * is `main` by default and stands for `main` otherwise. Returns an error for each binding that names the queue of another module.
 */
export function confineQueues(
  { hooks, warnings }: ConfiguredHooks,
  { module, ownQueue }: { readonly module: string; readonly ownQueue: string },
): ConfiguredHooks | { readonly errors: readonly string[] } {
  const modulePrefix = ownQueueOf(module);
  const isOwn = (queue: string): boolean =>
    [ownQueue, modulePrefix, probeQueue(module)].includes(queue) || queue.startsWith(`${modulePrefix}/`);
  const confine = (queue: string): string => {
    if (isOwn(queue)) return queue;
    return queue === MAIN_QUEUE ? ownQueue : `${modulePrefix}/${queue}`;
  };
  const errors = hooks
    .flatMap(({ config }) => listBindings(config))
    .filter(({ queue }) => QUEUE_OF_A_MODULE.test(queue) && !isOwn(queue))
    .map(({ id, queue }) => `${id}.queue is not allowed: "${queue}" is a queue of another module`);
  if (errors.length > 0) return { errors };
  const confineAll = (bindings: Bindings): Bindings =>
    Object.fromEntries(
      Object.entries(bindings).map(([type, list]) => [
        type,
        list.map((binding) => ({ ...binding, queue: confine(binding.queue) })),
      ]),
    ) as unknown as Bindings;
  return {
    hooks: hooks.map((hook) => ({
      ...hook,
      config: { ...hook.config, bindings: confineAll(hook.config.bindings) },
    })),
    warnings,
  };
}
