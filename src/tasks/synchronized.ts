/** Remembers which bindings had their Synchronization. */

import type { Hook, KubernetesBinding } from "../model/index.ts";
import type { Hands } from "./hands.ts";

/** The id under which a binding's Synchronization is remembered. */
export const syncId = (hook: Hook, binding: Pick<KubernetesBinding, "id">): string =>
  `${hook.id}/${binding.id}`;

/** Ids of bindings that were synchronized: of all global hooks, or of a module's since it became enabled. */
function synchronizedWith(hands: Hands, { module }: Hook): Set<string> | undefined {
  return module === undefined ? hands.state.globalSynchronized : hands.state.module(module)?.synchronized;
}

/** Notes a Synchronization that succeeded in a queue. */
export function noteSynchronized(hands: Hands, hook: Hook, binding: KubernetesBinding): void {
  synchronizedWith(hands, hook)?.add(syncId(hook, binding));
  hands.bindings.unlock(hook, [binding.id]);
}

/** The hook's watches were closed: it needs a new Synchronization. */
export function forgetSynchronized(hands: Hands, hook: Hook): void {
  const done = synchronizedWith(hands, hook);
  for (const binding of hook.config.kubernetes) done?.delete(syncId(hook, binding));
}
