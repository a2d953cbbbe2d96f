/** What a start would do, for the sub-command `plan` (docs/DEBUG.md, "plan"). */

import { ForeignReleaseError, type Releases } from "../helm/index.ts";
import { runEnabledScript, type RunSettings } from "../hooks/index.ts";
import { serverVersion, type KubeClient, type WatchHub } from "../kube/index.ts";
import { oneLine, type Clock, type KnownSecrets, type Limit, type Logger } from "../lib/index.ts";
import { describeProblem, GLOBAL, type Json, type Module, type Overlay, type Tree } from "../model/index.ts";
import {
  decideAll,
  explainBrake,
  identityOf,
  guardOf,
  explainHeldBack,
  isWanted,
  mayRun,
  moduleFacts,
  removalsOf,
  requiredBy,
  wavesOf,
} from "../plan/index.ts";
import type { ModuleFacts, Removals, ScriptAnswer } from "../plan/index.ts";
import { crdRequest, explainInvalid, problemOf, State, type InvalidConfig } from "../state/index.ts";
import { checkSchemas, noteServerVersion, scriptOf } from "../tasks/index.ts";
import { AcceptedConfig, FollowedConfig, overlayInForce } from "../triggers/index.ts";
import { helmInput, withoutHelm } from "../values/index.ts";
import { lendTimes, readTimes, waveSeconds, type Pace } from "./usual-times.ts";

/** What would happen to one module, or to a release without one. */
type Fate =
  | "install"
  | "upgrade"
  | "delete"
  | "purge"
  | "unchanged"
  | "hooksOnly"
  | "suspended"
  | "invalid"
  | "retrying"
  | "disabled";

/** What a start reads. */
interface Base {
  readonly settings: {
    readonly configMap: string;
    readonly deleteBrake: Limit;
    readonly chartEnabledModules: boolean;
    readonly invalidConfig: InvalidConfig;
  } & Pace;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly secrets: KnownSecrets;
  readonly client: KubeClient;
  readonly hub: WatchHub;
  readonly namespace: string;
  readonly overlay: Overlay | undefined;
  readonly runs: RunSettings;
  readonly readTree: () => Promise<Tree>;
}

/** Where the information about a start comes from. */
interface Look {
  readonly base: Base;
  readonly releases: Releases;
  /** A state of its own: the running operator's is not touched. */
  readonly state: State;
  readonly tree: Tree;
  readonly configFound: boolean;
}

const ALWAYS: readonly Fate[] = ["install", "upgrade", "delete", "purge"];

/**
 * What a start would do, from directories, ConfigMap and releases as they are now; runs `enabled` scripts but no
 * hooks, and changes nothing. `running` provides what hooks have patched so far, which a start would learn from
 * them anew.
 */
export async function previewStart(base: Base, releases: Releases, running?: State): Promise<Json> {
  const { state, tree, configFound } = await record(base, running);
  const look = { base, releases, state, tree, configFound };
  const refusals = refusalsOf(look);
  if (refusals.length > 0) return base.secrets.redactDeep({ refuses: refusals });
  const all = await discover(look);
  const { signal } = new AbortController();
  await noteServerVersion({ state, serverVersion: (asked) => serverVersion(base.client, asked) }, signal);
  const crds = await definitionsOf(look);
  const { deletes, purges, inUse, held } = removalsIn(look, all, running);
  const fates: Verdict[] = [];
  for (const facts of all) {
    const users = inUse.get(facts.module.name);
    fates.push(users === undefined ? await fateOf(look, facts, deletes) : keptFate(facts, users));
  }
  const groups: Record<string, Json> = Object.fromEntries(ALWAYS.map((fate) => [fate, {}]));
  for (const [name, fate, why] of [...fates, ...orphanFates(look, purges, inUse)])
    groups[fate] = { ...(groups[fate] as object), [name]: why };
  return base.secrets.redactDeep({
    ...groups,
    ...(Object.keys(crds).length > 0 && { crds }),
    ...orderOf(look),
    notes: [...held, ...notesOf(look, running), ...heldBackIn(look, fates, running)],
  });
}

/** The order of the runs, with their usual times; modules that wait for what does not come are named apart. */
function orderOf({ base, state }: Look): Record<string, Json> {
  const { waves, waits } = wavesOf(state.view);
  const times = waves.map((wave) => waveSeconds(wave, state, base.settings));
  return {
    waves: waves.map((wave) => [...wave]),
    ...(times.some((each) => each !== null) && { waveSeconds: times }),
    ...(waits.size > 0 && { waits: Object.fromEntries(waits) }),
  };
}

const NO_LIMIT: Limit = { count: undefined, percent: undefined };

/** What is removed in the end, and what the brake holds until a person confirms it. */
function removalsIn(
  { base, releases, state, tree }: Look,
  modules: readonly ModuleFacts[],
  running: State | undefined,
): Pick<Removals, "deletes" | "purges" | "inUse"> & { readonly held: readonly string[] } {
  const orphans = releases.withoutModule(tree);
  const { brake, confirmation, deletions } = running?.view ?? state.view;
  const input = {
    modules,
    orphans,
    present: [...releases.installed(), ...state.view.enabledModules],
    config: state.values.config,
    // What has no module now has none at the second look either.
    view: {
      ...state.view,
      brake,
      confirmation,
      deletions,
      orphans: new Map(orphans.map((name) => [name, -Infinity])),
    },
    at: base.clock.monotonic(),
    identityOf: (name: string) => identityOf(running ?? state, releases, name),
  };
  const { brake: found } = removalsOf({ ...input, limit: base.settings.deleteBrake });
  const held = found === undefined || found.confirmed ? [] : [explainBrake(found, input.view)];
  return { ...removalsOf({ ...input, limit: NO_LIMIT }), held };
}

async function record(
  base: Base,
  running: State | undefined,
): Promise<Pick<Look, "state" | "tree" | "configFound">> {
  const state = new State({ clock: base.clock, chartEnabledModules: base.settings.chartEnabledModules });
  const tree = await base.readTree();
  state.recordTree(tree);
  if (running === undefined) await readTimes(base, state);
  else lend(running, state);
  const { configMap: name, invalidConfig } = base.settings;
  state.record({ operator: { name, namespace: base.namespace }, invalidConfig });
  const accepted = new AcceptedConfig({ ...base, name });
  const config = new FollowedConfig({
    ...base,
    overlay: await overlayInForce(base, base.overlay),
    state,
    name,
    accepted: invalidConfig === "last-good" ? { read: () => accepted.read() } : undefined,
    onTrouble: () => {},
  });
  const configFound = await config.refresh();
  if (state.view.config.condition === "invalid") await config.useAccepted();
  config.close();
  return { state, tree, configFound };
}

function lend(from: State, to: State): void {
  lendTimes(from, to);
  for (const key of [GLOBAL, ...to.tree.modules.map((module) => module.valuesKey)])
    to.recordPatches(key, from.values.patches(key));
  for (const { module, enabled, enabledBy, confirmedCrds } of from.records()) {
    if (enabledBy === "hook") to.recordHookFlag(module.valuesKey, enabled);
    to.update(module.name, (record) => void (record.confirmedCrds = confirmedCrds));
  }
}

/** What would make a start fail. */
function refusalsOf({ tree, state }: Look): string[] {
  const { config } = state.view;
  const isRefused = config.condition === "invalid" && !config.isInForce;
  const why = isRefused ? [...config.problems.map(describeProblem), explainInvalid(state.view)] : [];
  return [...tree.problems.map(describeProblem), ...why];
}

function notesOf({ state, tree, configFound, releases }: Look, running: State | undefined): string[] {
  const notes = tree.purgeHolds.map((hold) => `nothing is purged: ${hold}`);
  const { config } = state.view;
  if (config.condition === "invalid")
    notes.push(
      `the ConfigMap is invalid, and what was accepted last counts: ${config.problems.map(describeProblem).join("; ")}`,
    );
  if (!configFound && releases.anyOurs())
    notes.push("the ConfigMap is missing while releases of ours exist: a start waits until it is back");
  if (running === undefined)
    notes.push("no operator runs: what hooks patch is not known, so more may be enabled or changed");
  return notes;
}

/** Modules that fail, or are going to, where the order of the runs makes others wait for them. */
function heldBackIn(
  { base, state }: Look,
  fates: readonly Verdict[],
  running: State | undefined,
): readonly string[] {
  const { modules } = state.view;
  const order = [...modules.values()].filter(mayRun).map(({ name }) => name);
  const retrying = new Set(fates.flatMap(([name, fate]) => (fate === "retrying" ? name : [])));
  const fails = (name: string): boolean =>
    retrying.has(name) || running?.view.modules.get(name)?.retry !== undefined;
  const failed = order.find(fails);
  if (failed === undefined) return [];
  const { moduleQueues } = base.settings;
  const behind = order.slice(order.indexOf(failed) + 1);
  const text = explainHeldBack(failed, behind, { moduleQueues, modules });
  return text === undefined ? [] : [text];
}

type Verdict = readonly [name: string, fate: Fate, why: string];

/** Decides about all modules as a start would, and records it. */
async function discover(look: Look): Promise<ModuleFacts[]> {
  const { base, releases, state, tree } = look;
  const factsOf = (module: Module): ModuleFacts => moduleFacts(state, releases, module);
  for (const module of tree.modules) {
    const problem = isWanted(factsOf(module)) ? checkSchemas(base, module.schemas) : undefined;
    state.update(module.name, (record) => void (record.loadProblem = problem));
  }
  const decisions = await decideAll(tree.modules, {
    look: (module) => Promise.resolve(factsOf(module)),
    ask: (module, enabled) => askScript(look, module, enabled),
  });
  for (const [{ name }, decision] of decisions) state.recordDecision(name, decision);
  return tree.modules.map(factsOf);
}

async function fateOf(look: Look, facts: ModuleFacts, deletes: readonly string[]): Promise<Verdict> {
  const { module, record } = facts;
  const { name } = module;
  const problem = problemOf(record);
  if (problem !== undefined) return [name, "invalid", describeProblem(problem)];
  if (!record.enabled) return offFate(facts, deletes.includes(name));
  const without = withoutHelm(look.state.values, module);
  if (without === undefined) return releaseFate(look, module);
  return without === "suspended"
    ? [name, "suspended", "helm is left alone"]
    : [name, "hooksOnly", "it has no chart"];
}

function keptFate({ module }: ModuleFacts, users: readonly string[]): Verdict {
  return [module.name, "unchanged", `switched off, but ${requiredBy(users)}`];
}

function offFate({ module, record, settings, owner }: ModuleFacts, isRemoved: boolean): Verdict {
  const { enabledBy: by, enabledReason = "no reason given" } = record;
  const why =
    by === "script" ? `switched off by its enabled script: ${enabledReason}` : `switched off by ${by}`;
  if (isRemoved) return [module.name, "delete", why];
  if (owner !== "ours") return [module.name, "disabled", why];
  if (settings.suspended) return [module.name, "suspended", why];
  return [module.name, "unchanged", `${why}, but files of a module cannot be read`];
}

function orphanFates(
  { releases, state, tree }: Look,
  purges: readonly string[],
  inUse: Removals["inUse"],
): Verdict[] {
  return releases.withoutModule(tree).flatMap((release): Verdict[] => {
    if (purges.includes(release)) return [[release, "purge", "there is no such module"]];
    const users = inUse.get(release);
    if (users !== undefined)
      return [[release, "unchanged", `there is no such module, but ${requiredBy(users)}`]];
    const key = guardOf(state.values.config, release);
    if (key === undefined) return [];
    return [[release, "unchanged", `there is no such module, but ${key} is set in the ConfigMap`]];
  });
}

/** A script that fails would hold up a start; here the others are looked at all the same. */
async function askScript(
  { base, state }: Look,
  module: Module,
  enabled: readonly string[],
): Promise<ScriptAnswer> {
  const script = scriptOf(state.values, module, enabled);
  const answer = await runEnabledScript({ ...script, settings: base.runs, logger: base.logger });
  if (!("failure" in answer)) return answer;
  const message = `its enabled script failed: ${answer.failure}`;
  return { enabled: false, problem: { file: script.path, message } };
}

async function releaseFate({ releases, state }: Look, module: Module): Promise<Verdict> {
  const { signal } = new AbortController();
  try {
    const { action, why } = await releases.preview({ ...helmInput(state.values, module), signal });
    return [module.name, action, why];
  } catch (error) {
    // What helm refuses is tried again, as it may depend on the cluster; a release of others needs a person.
    return [module.name, error instanceof ForeignReleaseError ? "invalid" : "retrying", oneLine(error)];
  }
}

/** Of CRDs what would be created and changed, in words, by module; what would be refused is recorded as its problem. */
async function definitionsOf({ state, releases }: Look): Promise<Record<string, string>> {
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
