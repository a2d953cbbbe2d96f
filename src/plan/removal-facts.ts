/** Collects the facts from which removals are decided, of the state or of a simulation of it. */

import type { Limit } from "../lib/index.ts";
import type { State, View } from "../state/index.ts";
import { getInstallationId, collectModuleFacts, type ReleaseFacts } from "./discovery.ts";
import type { RemovalInput } from "./removals.ts";

/** The facts about releases from which removals are decided. */
export interface ObservedFacts extends ReleaseFacts {
  installed(): string[];
  withoutModule(tree: Pick<State["tree"], "modules">): string[];
}

/** Collects the input of `decideRemovals` from the state or a simulation of it. `at`: monotonic time in ms. */
export function collectRemovalInput(
  state: Pick<State, "module" | "values" | "tree">,
  observed: ObservedFacts,
  { view, limit, at }: { readonly view: View; readonly limit: Limit; readonly at: number },
): RemovalInput {
  const modules = state.tree.modules.map((module) => collectModuleFacts(state, observed, module));
  const enabled = modules.flatMap(({ module, record }) => (record.enabled ? module.name : []));
  return {
    modules,
    orphans: observed.withoutModule(state.tree),
    presentModules: [...observed.installed(), ...enabled],
    config: state.values.config,
    installationIdOf: (name) => getInstallationId(state, observed, name),
    view,
    limit,
    at,
  };
}
