/** What a start would do, for the sub-command `plan` (docs/DEBUG.md, "plan"). */

import type { Settings } from "../config.ts";
import { ForeignReleaseError } from "../helm/index.ts";
import type { Releases } from "../helm/index.ts";
import { runEnabledScript } from "../hooks/index.ts";
import type { RunSettings } from "../hooks/index.ts";
import type { KubeClient, WatchHub } from "../kube/index.ts";
import { oneLine } from "../lib/index.ts";
import type { Clock, KnownSecrets, Logger } from "../lib/index.ts";
import { GLOBAL, ProblemError, describeProblem } from "../model/index.ts";
import type { Json, Module, Overlay, Tree } from "../model/index.ts";
import { brake, explainBrake } from "../plan/index.ts";
import { State, invalidValues } from "../state/index.ts";
import { guardOf, helmInput, moduleConfigFile, moduleValuesFile } from "../tasks/index.ts";
import { ConfigMapSource, overlayInForce } from "../triggers/index.ts";
import { compileSchemas } from "../values/index.ts";

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
  | "disabled";

/** What a start reads. */
interface Base {
  readonly settings: Settings;
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
  const fates = await fatesOf(look);
  const held = heldBack(look, fates, running);
  const groups: Record<string, Json> = Object.fromEntries(ALWAYS.map((fate) => [fate, {}]));
  for (const [name, fate, why] of fates) groups[fate] = { ...(groups[fate] as object), [name]: why };
  return base.secrets.redactDeep({ ...groups, notes: [...held, ...notesOf(look, running)] });
}

/** Whether these removals are more than one change may make. */
function heldBack({ base, releases, state }: Look, fates: readonly Verdict[], running?: State): string[] {
  const of = (...wanted: readonly Fate[]): string[] =>
    fates.filter(([, fate]) => wanted.includes(fate)).map(([name]) => name);
  const names = of("delete", "purge");
  const installed = new Set([...releases.installed(), ...of("install", "upgrade", "unchanged", "hooksOnly")]);
  const asked = { brake: running?.view.brake, confirmation: running?.view.confirmation };
  const found = brake(
    base.settings.deleteBrake,
    { names, installed: installed.size },
    { ...state.view, ...asked },
  );
  return found === undefined || found.confirmed ? [] : [explainBrake(found)];
}

async function record(
  base: Base,
  running: State | undefined,
): Promise<Pick<Look, "state" | "tree" | "configFound">> {
  const { clock, client, hub, logger, namespace, overlay, settings } = base;
  const state = new State({ clock, onChange: () => {} });
  const tree = await base.readTree();
  state.recordTree(tree);
  if (running !== undefined) lend(running, state);
  const home = { client, hub, logger, namespace, overlay };
  const source = new ConfigMapSource({
    ...home,
    overlay: await overlayInForce(home, home.overlay),
    state,
    clock,
    name: settings.configMap,
    onTrouble: () => {},
  });
  const configFound = await source.refresh();
  source.close();
  return { state, tree, configFound };
}

function lend(from: State, to: State): void {
  for (const key of [GLOBAL, ...to.tree.modules.map((module) => module.valuesKey)])
    to.values.addPatches(key, from.values.patches(key));
  for (const { module, enabled, enabledBy } of from.records())
    if (enabledBy === "hook") to.values.setHookFlag(module.valuesKey, enabled);
}

/** What would make a start fail. */
function refusalsOf({ tree, state }: Look): string[] {
  const { config } = state.view;
  const problems = config.condition === "invalid" ? config.problems : [];
  return [...tree.problems, ...problems].map(describeProblem);
}

function notesOf({ tree, configFound, releases }: Look, running: State | undefined): string[] {
  const notes = tree.purgeHolds.map((hold) => `nothing is purged: ${hold}`);
  if (!configFound && releases.anyOurs())
    notes.push("the ConfigMap is missing while releases of ours exist: a start waits until it is back");
  if (running === undefined)
    notes.push("no operator runs: what hooks patch is not known, so more may be enabled or changed");
  return notes;
}

type Verdict = readonly [name: string, fate: Fate, why: string];

async function fatesOf(look: Look): Promise<Verdict[]> {
  const verdicts: Verdict[] = [];
  const enabled: string[] = [];
  for (const module of look.tree.modules) {
    const verdict = await fateOf(look, module, enabled);
    if (!["disabled", "delete", "invalid"].includes(verdict[1])) enabled.push(module.name);
    verdicts.push(verdict);
  }
  const { releases, state, tree } = look;
  if (tree.purgeHolds.length > 0) return verdicts;
  const orphans = releases.withoutModule(tree);
  return [...verdicts, ...orphans.map((name) => purgeFate(state, name))];
}

function purgeFate(state: State, release: string): Verdict {
  const key = guardOf(state.values.config, release);
  if (key === undefined) return [release, "purge", "there is no such module"];
  return [release, "unchanged", `there is no such module, but ${key} is set in the ConfigMap`];
}

async function fateOf(look: Look, module: Module, enabled: readonly string[]): Promise<Verdict> {
  const broken = brokenness(look, module);
  if (broken !== undefined) return [module.name, "invalid", broken];
  const { values } = look.state;
  const flag = values.flag(module);
  if (!flag.enabled) return switchedOff(look, module, `switched off by ${flag.by}`);
  const script = await askScript(look, module, enabled);
  if (script !== undefined) return script;
  if (values.settings(module).suspended) return [module.name, "suspended", "helm is left alone"];
  if (module.chart === "none") return [module.name, "hooksOnly", "it has no chart"];
  if (look.releases.isReserved(module.name))
    return [module.name, "invalid", "its release would overwrite one that is never touched"];
  return releaseFate(look, module);
}

function brokenness({ state }: Look, module: Module): string | undefined {
  if (module.problem !== undefined) return describeProblem(module.problem);
  try {
    compileSchemas(module.schemas);
  } catch (error) {
    if (error instanceof ProblemError) return error.message;
    throw error;
  }
  if (!state.values.flag(module).enabled) return undefined;
  return invalidValues(state.values, module)?.message;
}

function switchedOff({ releases, state }: Look, module: Module, why: string): Verdict {
  if (releases.ownership(module.name) !== "ours") return [module.name, "disabled", why];
  const settings = state.values.settings(module);
  if (settings.protected) return [module.name, "invalid", "the module is protected but switched off"];
  if (settings.suspended) return [module.name, "suspended", why];
  return [module.name, "delete", why];
}

async function askScript(
  look: Look,
  module: Module,
  enabled: readonly string[],
): Promise<Verdict | undefined> {
  if (module.enabledScript === undefined) return undefined;
  const { base, state } = look;
  const answer = await runEnabledScript({
    module: module.name,
    path: module.enabledScript,
    values: moduleValuesFile(state.values, module, enabled),
    configValues: moduleConfigFile(state.values, module),
    settings: base.runs,
    logger: base.logger,
  });
  if ("failure" in answer) return [module.name, "invalid", `its enabled script failed: ${answer.failure}`];
  if (answer.enabled) return undefined;
  return switchedOff(
    look,
    module,
    `switched off by its enabled script: ${answer.reason ?? "no reason given"}`,
  );
}

async function releaseFate({ releases, state }: Look, module: Module): Promise<Verdict> {
  const { signal } = new AbortController();
  try {
    const { action, why } = await releases.preview({ ...helmInput(state.values, module), signal });
    return [module.name, action === "label" ? "unchanged" : action, why];
  } catch (error) {
    if (error instanceof ForeignReleaseError) return [module.name, "invalid", error.message];
    return [module.name, "invalid", oneLine(error)];
  }
}
