/**
 * What a start of the operator would do with each module and with each release that has no module (an *orphan*). A disabled module's
 * release is deleted, an orphan's is purged.
 */

import { ForeignReleaseError, UnusableChartError, type Releases } from "../../helm/index.ts";
import { oneLine } from "../../base/index.ts";
import { describeProblem, type Json, type Tree } from "../../base/model/index.ts";
import { findRetainKey, describeMove, describeRequiredBy } from "../../engine/plan/index.ts";
import type { ModuleFacts, Removals } from "../../engine/plan/index.ts";
import { problemOf, type State } from "../../engine/state/index.ts";
import { buildHelmInput, createSourceRedactor, getHelmSkipReason } from "../../values/index.ts";
import { describeOrigin, toDisplayedOrigin } from "../../report/index.ts";

/** The outcome of a start for one module, or for a release without a module. */
export type PreviewOutcome =
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

interface Facts {
  readonly releases: Releases;
  readonly state: State;
  readonly tree: Tree;
}

export type ModuleOutcome = readonly [name: string, outcome: PreviewOutcome, reason: string];

/**
 * Previews the outcome of a start for a module: by its problems, whether it is enabled, and what helm would do. `removals` are
 * those of a start. For a disabled module that others require, use `buildRequiredOutcome`.
 */
export async function previewModule(
  sources: Facts,
  facts: ModuleFacts,
  removals: Pick<Removals, "modulesToDelete" | "scriptsUndecided">,
): Promise<ModuleOutcome> {
  const { module, record } = facts;
  const { name } = module;
  const problem = problemOf(record);
  if (problem !== undefined)
    return [name, problem.retriedAs === undefined ? "invalid" : "retrying", describeProblem(problem)];
  if (!record.enabled) return buildDisabledOutcome(facts, removals);
  const [missingSource] = sources.state.view.modules.get(name)?.missingValues ?? [];
  if (missingSource !== undefined) return [name, "waiting", `its values are in ${missingSource}`];
  const reasonWithoutHelm = getHelmSkipReason(sources.state.values, module);
  if (reasonWithoutHelm === undefined) return previewModuleRelease(sources, facts);
  if (reasonWithoutHelm === "suspended") return [name, "suspended", "helm does not run for it"];
  return [name, "hooksOnly", "it has no chart"];
}

/** The outcome for a disabled module that is not deleted yet, because the enabled modules `users` still require it. */
export function buildRequiredOutcome({ module }: ModuleFacts, users: readonly string[]): ModuleOutcome {
  return [module.name, "unchanged", `disabled, but ${describeRequiredBy(users)}`];
}

/** The outcome for a disabled module: its release is deleted, or why it is not. */
function buildDisabledOutcome(
  { module, record, settings, owner }: ModuleFacts,
  { modulesToDelete, scriptsUndecided }: Pick<Removals, "modulesToDelete" | "scriptsUndecided">,
): ModuleOutcome {
  const { enabledBy, enabledReason = "no reason given" } = record;
  const by = enabledBy === "script" ? `its enabled script: ${enabledReason}` : enabledBy;
  const why = `disabled by ${by}`;
  if (modulesToDelete.includes(module.name)) return [module.name, "delete", why];
  const hasRelease = owner === "ours";
  if (!hasRelease) return [module.name, "disabled", why];
  if (settings.suspended) return [module.name, "suspended", why];
  return [module.name, "unchanged", scriptsUndecided === undefined ? why : `${why}, but ${scriptsUndecided}`];
}

/**
 * Previews the outcomes for releases whose module directory is missing. `purges` are those that a start removes. A release is
 * listed as unchanged if enabled modules require it (`requiredBy`) or the ConfigMap protects it; other orphans are not listed.
 */
export function previewOrphans(
  { releases, state, tree }: Facts,
  purges: readonly string[],
  requiredBy: Removals["requiredBy"],
): ModuleOutcome[] {
  return releases.observed.withoutModule(tree).flatMap((release): ModuleOutcome[] => {
    if (purges.includes(release)) return [[release, "purge", "there is no such module"]];
    const users = requiredBy.get(release);
    if (users !== undefined)
      return [[release, "unchanged", `there is no such module, but ${describeRequiredBy(users)}`]];
    const key = findRetainKey(state.values.config, release);
    if (key === undefined) return [];
    return [[release, "unchanged", `there is no such module, but ${key} is set in the ConfigMap`]];
  });
}

/** Previews what helm would do with the release of an enabled module, or reports why that is unknown. */
async function previewModuleRelease(
  { releases, state }: Facts,
  { module, move }: ModuleFacts,
): Promise<ModuleOutcome> {
  const { signal } = new AbortController();
  try {
    const { action, why } = await releases.preview({ ...buildHelmInput(state.values, module), signal });
    return [module.name, action, move === undefined ? why : `the release moves ${describeMove(move)}`];
  } catch (error) {
    // A helm failure may depend on the cluster, so the operator retries; another owner's release and a broken chart require action.
    const isFinal = error instanceof ForeignReleaseError || error instanceof UnusableChartError;
    const hide = createSourceRedactor(state.values, module.valuesKey);
    return [module.name, isFinal ? "invalid" : "retrying", hide(oneLine(error))];
  }
}

/**
 * Describes which modules come from ModuleSources, and which newer content waits, for example for an approval, as the member
 * `sources` of a plan. Without such modules, the plan has no such member.
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
