/** Tells whether a hook is still the one on disk. */

import type { Hook } from "../../model/index.ts";
import type { Ports } from "../ports.ts";

/** Whether a hook is still the one on disk: neither gone nor changed since the last reload. */
export function isCurrent({ state }: Ports, { id, module, signature }: Hook): boolean {
  const hooks = module === undefined ? state.globalHooks : (state.module(module)?.hooks ?? []);
  return hooks.some((each) => each.id === id && each.signature === signature);
}
