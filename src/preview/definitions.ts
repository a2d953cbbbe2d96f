/** What a start would do to the CRDs of modules (docs/DEBUG.md, "plan"). */

import type { Releases } from "../helm/index.ts";
import { oneLine } from "../lib/index.ts";
import { problemOf, crdRequest, type State } from "../state/index.ts";

/** Where it is learned from; what would be refused is recorded as the module's problem. */
interface Look {
  readonly state: State;
  readonly releases: Pick<Releases, "previewCrds">;
}

/** What would be created and changed, in words, by module. */
export async function definitionsOf({ state, releases }: Look): Promise<Record<string, string>> {
  const told: Record<string, string> = {};
  for (const record of state.records()) {
    const { module, enabled } = record;
    if (!enabled || module.crdFiles.length === 0 || problemOf(record) !== undefined) continue;
    try {
      const { changes, problem } = await releases.previewCrds(crdRequest(state.values, record));
      if (problem !== undefined) state.recordProblem(module.name, problem);
      else if (changes.length > 0) told[module.name] = changes.map(inWords).join(", ");
    } catch (error) {
      told[module.name] = `cannot be compared: ${oneLine(error)}`;
    }
  }
  return told;
}

function inWords({ name, before }: { readonly name: string; readonly before: unknown }): string {
  return `${before === undefined ? "creates" : "changes"} ${name}`;
}
