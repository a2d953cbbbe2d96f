/** What a start would do with each module and with each release that has no module. */

import { ForeignReleaseError, type Releases } from "../helm/index.ts";
import { oneLine } from "../lib/index.ts";
import { describeProblem, type Module, type Tree } from "../model/index.ts";
import { findRetainKey, describeRequiredBy, type ModuleFacts, type Removals } from "../plan/index.ts";
import { problemOf, type State } from "../state/index.ts";
import { helmInput, createSecretHider, withoutHelm } from "../values/index.ts";

/** What would happen to one module, or to a release without one. */
export type Outcome =
  | "install"
  | "upgrade"
  | "delete"
  | "purge"
  | "unchanged"
  | "hooksOnly"
  | "suspended"
  | "waiting"
  | "invalid"
  | "retrying"
  | "disabled";

/** The state from which a start decides. */
interface Facts {
  readonly releases: Releases;
  readonly state: State;
  readonly tree: Tree;
}

export type ModuleOutcome = readonly [name: string, outcome: Outcome, reason: string];

/** What would happen to a module that no other module still requires. `deletes`: the modules whose releases are deleted. */
export async function moduleOutcome(
  from: Facts,
  facts: ModuleFacts,
  deletes: readonly string[],
): Promise<ModuleOutcome> {
  const { module, record } = facts;
  const { name } = module;
  const problem = problemOf(record);
  if (problem !== undefined) return [name, "invalid", describeProblem(problem)];
  if (!record.enabled) return disabledOutcome(facts, deletes.includes(name));
  const [missing] = from.state.view.modules.get(name)?.missingValues ?? [];
  if (missing !== undefined) return [name, "waiting", `its values are in ${missing}`];
  const reasonWithoutHelm = withoutHelm(from.state.values, module);
  if (reasonWithoutHelm === undefined) return releaseOutcome(from, module);
  return reasonWithoutHelm === "suspended"
    ? [name, "suspended", "helm does not run for it"]
    : [name, "hooksOnly", "it has no chart"];
}

/** What would happen to a disabled module that `users` still require. */
export function requiredOutcome({ module }: ModuleFacts, users: readonly string[]): ModuleOutcome {
  return [module.name, "unchanged", `switched off, but ${describeRequiredBy(users)}`];
}

/** What would happen to a disabled module. `isRemoved`: its release is deleted. */
function disabledOutcome(
  { module, record, settings, owner }: ModuleFacts,
  isRemoved: boolean,
): ModuleOutcome {
  const { enabledBy: by, enabledReason = "no reason given" } = record;
  const why =
    by === "script" ? `switched off by its enabled script: ${enabledReason}` : `switched off by ${by}`;
  if (isRemoved) return [module.name, "delete", why];
  if (owner !== "ours") return [module.name, "disabled", why];
  if (settings.suspended) return [module.name, "suspended", why];
  return [module.name, "unchanged", `${why}, but not all files of modules can be read`];
}

/** What would happen to releases whose module directory is missing. `purges`: the releases that are removed. */
export function orphanOutcomes(
  { releases, state, tree }: Facts,
  purges: readonly string[],
  inUse: Removals["requiredBy"],
): ModuleOutcome[] {
  return releases.observed.withoutModule(tree).flatMap((release): ModuleOutcome[] => {
    if (purges.includes(release)) return [[release, "purge", "there is no such module"]];
    const users = inUse.get(release);
    if (users !== undefined)
      return [[release, "unchanged", `there is no such module, but ${describeRequiredBy(users)}`]];
    const key = findRetainKey(state.values.config, release);
    if (key === undefined) return [];
    return [[release, "unchanged", `there is no such module, but ${key} is set in the ConfigMap`]];
  });
}

/** What helm would do with the release of an enabled module, or why that is unknown. */
async function releaseOutcome({ releases, state }: Facts, module: Module): Promise<ModuleOutcome> {
  const { signal } = new AbortController();
  try {
    const { action, why } = await releases.preview({ ...helmInput(state.values, module), signal });
    return [module.name, action, why];
  } catch (error) {
    // A helm failure may depend on the cluster, so the operator retries; another owner's release needs a person.
    const hide = createSecretHider(state.values, module.valuesKey);
    return [module.name, error instanceof ForeignReleaseError ? "invalid" : "retrying", hide(oneLine(error))];
  }
}
