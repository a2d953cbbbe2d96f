/** Which modules come from ModuleSources, and which newer content of them waits. */

import type { Json } from "../model/index.ts";
import { describeOrigin, toDisplayedOrigin } from "../plan/index.ts";
import type { State } from "../state/index.ts";

/**
 * Describes which modules come from ModuleSources and which newer content waits, as the member `sources` of a plan. Without such
 * modules, the plan has no such member.
 */
export function describeModuleOrigins(state: State, running: State | undefined): { readonly sources?: Json } {
  const sources: Record<string, Json> = {};
  for (const module of state.view.modules.values()) {
    const update = running?.view.modules.get(module.name)?.update;
    const sentences = describeOrigin(toDisplayedOrigin({ module: module.module, update }));
    if (sentences.length > 0) sources[module.name] = sentences.join("; ");
  }
  return Object.keys(sources).length === 0 ? {} : { sources };
}
