/** Collects the facts from which removals are decided, of the state or of a simulation of it. */

import type { Limit } from "../lib/index.ts";
import type { State, View } from "../state/index.ts";
import { installationId, moduleFacts, type ReleaseFacts } from "./discovery.ts";
import type { RemovalInput } from "./removals.ts";

/** The facts about releases that removals need. */
export interface ObservedFacts extends ReleaseFacts {
  installed(): string[];
  withoutModule(tree: Pick<State["tree"], "modules">): string[];
}

/** The input of `removalsOf`. `at`: monotonic time in ms. */
export function removalInput(
  state: Pick<State, "module" | "values" | "tree">,
  observed: ObservedFacts,
  { view, limit, at }: { readonly view: View; readonly limit: Limit; readonly at: number },
): RemovalInput {
  const modules = state.tree.modules.map((module) => moduleFacts(state, observed, module));
  const enabled = modules.flatMap(({ module, record }) => (record.enabled ? module.name : []));
  return {
    modules,
    orphans: observed.withoutModule(state.tree),
    present: [...observed.installed(), ...enabled],
    config: state.values.config,
    identityOf: (name) => installationId(state, observed, name),
    view,
    limit,
    at,
  };
}
