/** Remembers which bindings had their Synchronization. */

import type { Hook, KubernetesBinding } from "../../model/index.ts";
import type { Ports } from "../ports.ts";

/** The id under which a binding's Synchronization is remembered. */
export const syncId = (hook: Hook, binding: Pick<KubernetesBinding, "id">): string =>
  `${hook.id}/${binding.id}`;

/** Ids of bindings that were synchronized: of all global hooks, or of a module's since it became enabled. */
function synchronizedWith(ports: Ports, { module }: Hook): Set<string> | undefined {
  return module === undefined ? ports.state.globalSynchronized : ports.state.module(module)?.synchronized;
}

/** Notes a Synchronization that succeeded in a queue. */
export function noteSynchronized(ports: Ports, hook: Hook, binding: KubernetesBinding): void {
  synchronizedWith(ports, hook)?.add(syncId(hook, binding));
  ports.bindings.unlock(hook, [binding.id]);
}

/** The hook's watches were closed: it needs a new Synchronization. */
export function forgetSynchronized(ports: Ports, hook: Hook): void {
  const done = synchronizedWith(ports, hook);
  for (const binding of hook.config.kubernetes) done?.delete(syncId(hook, binding));
}
