/**
 * Decides what a discovery removes (docs/reference/lifecycle.md, "Startup and converge"). It *deletes* modules that are off, with
 * their hooks, and *purges* releases of this operator without a module (*orphans*). A removal may be blocked: the result says why. A move of
 * a release to another namespace counts as a removal.
 */

import { MissingItems, type Limit } from "../../base/index.ts";
import { camelCase, type Module } from "../../base/model/index.ts";
import { hasBrokenFiles, hasFailedScript, configIsMissing, problemOf } from "../state/index.ts";
import type {
  DeletionLimitView,
  DeletionWindow,
  ModuleView,
  RemovalBlocker,
  State,
  View,
} from "../state/index.ts";
import { guardKeys, keepsRelease, MAINTENANCE, type ParsedConfig } from "../../values/index.ts";
import { applyDeletionLimit, explainDeletionLimit, type Removal } from "./deletion-limit.ts";
import { listMovingModules, splitMoves, type MovingModule } from "./moves.ts";
import { collectModuleFacts, getInstallationId } from "./discovery.ts";
import type { DiscoveredState, ModuleFacts, ReleaseFacts } from "./discovery.ts";
import { getRequiredModules } from "./requirement-cycles.ts";

/** The facts from which removals are decided. */
export interface RemovalInput extends Omit<Removal, "modulesOff" | "moving"> {
  /** All modules, with the decision whether each is on. */
  readonly modules: readonly ModuleFacts[];
  /** The content of the ConfigMap that is in force. */
  readonly config: ParsedConfig | undefined;
  readonly view: View;
}

/** Collects the input of `decideRemovals`. `at`: monotonic time in ms. */
export function collectRemovalInput(
  state: DiscoveredState,
  releases: ReleaseFacts,
  circumstances: { readonly view: View; readonly limit: Limit; readonly at: number },
): RemovalInput {
  const modules = state.tree.modules.map((module) => collectModuleFacts(state, releases, module));
  const enabled = modules.flatMap(({ module, record }) => (record.enabled ? module.name : []));
  return {
    ...circumstances,
    modules,
    orphans: releases.withoutModule(state.tree),
    presentModules: [...releases.installed(), ...enabled],
    config: state.values.config,
    installationIdOf: (name) => getInstallationId(state, releases, name),
  };
}

/** The decision of a discovery about removals. */
export interface Removals {
  /** Names of modules that are off, in reverse order. */
  readonly modulesToDelete: readonly string[];
  /** Releases without a module. */
  readonly releasesToPurge: readonly string[];
  /** Modules that are off, but whose release belongs to another owner: the release stays. */
  readonly foreignModules: readonly string[];
  readonly deletionLimit: DeletionLimitView | undefined;
  readonly deletions: DeletionWindow;
  /** Modules that the deletion limit keeps. */
  readonly limitedModules: readonly Module[];
  /** The moves that runs may begin: the new namespace, by module. */
  readonly allowedMoves: ReadonlyMap<string, string>;
  /** Modules whose release may not move now. */
  readonly heldMoves: readonly MovingModule[];
  /** Modules, and releases without one, that stay because the listed modules require them. */
  readonly requiredBy: ReadonlyMap<string, readonly string[]>;
  /** Why modules that their `enabled` script switched off stay; undefined if that keeps none. */
  readonly scriptsUndecided: string | undefined;
  /** For users: why modules and releases that are to be removed stay. */
  readonly blockers: readonly RemovalBlocker[];
  /** When each release was first found without a module, by the monotonic clock. */
  readonly orphanedSince: ReadonlyMap<string, number>;
  /** A second check is due after `SECOND_CHECK_MS`, to confirm that modules are missing. */
  readonly needsSecondCheck: boolean;
}

/** A module must be missing in two checks, this long apart, before its release is purged. */
export const SECOND_CHECK_MS = 3000;

/** Decides which modules that are off are deleted, which releases without a module are purged, and what blocks the others. */
export function decideRemovals(input: RemovalInput): Removals {
  const { view, config } = input;
  const { modulesOff, foreignModules, requiredBy, scriptsUndecided } = classifyDisabledModules(input.modules);
  // Modules and releases that other modules require, with the names of those modules.
  const inUse = new Map([...requiredBy, ...findRequiredReleases(input, modulesOff)]);
  const orphans = input.orphans.filter(
    (release) => findRetainKey(config, release) === undefined && !inUse.has(release),
  );
  // While nothing at all may be removed, the record of the limit stays as it is.
  const blockedBecause = explainRemovalBlocker(view);
  const mayRemove = blockedBecause === undefined;
  const moving = listMovingModules(input.modules);
  const { deletionLimit, deletions } = mayRemove
    ? checkDeletionLimit(input, { modulesOff, orphans, moving })
    : view;
  const isHeld = mayRemove && deletionLimit?.confirmed === false;
  const isLimited = isHeld && deletionLimit.isExceeded;
  // The limit does not stop a removal that has begun: only its last hooks are left.
  const begun = modulesOff.filter(({ isRemovalBegun }) => isRemovalBegun);
  const notBegun = modulesOff.filter(({ isRemovalBegun }) => !isRemovalBegun);
  const deletes = selectModulesToDelete(isLimited ? begun : modulesOff, view);
  const purges = selectReleasesToPurge(orphans, input);
  return {
    modulesToDelete: deletes.names,
    releasesToPurge: isLimited ? [] : purges.names,
    foreignModules: toNames(foreignModules),
    requiredBy: inUse,
    scriptsUndecided,
    deletionLimit,
    deletions,
    ...splitMoves(moving, deletionLimit, blockedBecause),
    limitedModules: isLimited ? notBegun.map(({ module }) => module) : [],
    blockers: [
      ...input.orphans.flatMap((release) => listRetainBlockers(config, release)),
      ...[...inUse].map(([name, users]) =>
        buildRemovalBlocker(requiredBy.has(name) ? "delete" : "purge", [name], describeRequiredBy(users)),
      ),
      ...(isHeld ? [{ action: "delete", text: explainDeletionLimit(deletionLimit, view) } as const] : []),
      ...listMoveBlockers(moving, blockedBecause),
      ...deletes.blockers,
      ...purges.blockers,
    ],
    orphanedSince: purges.orphanedSince,
    needsSecondCheck: !isLimited && purges.needsSecondCheck,
  };
}

/** Names of the modules, in the same order. */
function toNames(modules: readonly ModuleFacts[]): string[] {
  return modules.map(({ module }) => module.name);
}

/** Applies the deletion limit. While missing files block all purges, orphan releases do not count. */
function checkDeletionLimit(input: RemovalInput, due: Pick<Removal, "modulesOff" | "orphans" | "moving">) {
  const orphans = input.view.tree.purgeBlockers.length > 0 ? [] : due.orphans;
  return applyDeletionLimit({ ...input, ...due, orphans }, input.view);
}

/** The blocker of all moves while nothing at all may be removed; an empty list otherwise. */
function listMoveBlockers(
  moving: readonly MovingModule[],
  blockedBecause: string | undefined,
): RemovalBlocker[] {
  if (blockedBecause === undefined || moving.length === 0) return [];
  return [buildRemovalBlocker("move", toNames(moving), blockedBecause)];
}

/** A blocker with a sentence for users, e.g. *not purged: a, b: the ConfigMap is missing*. */
export function buildRemovalBlocker(
  action: RemovalBlocker["action"],
  names: readonly string[],
  reason: string,
): RemovalBlocker {
  return { action, text: `not ${action}d: ${names.join(", ")}: ${reason}` };
}

/** The names of the modules that are off, to delete now. While something blocks all removals, no names, and a blocker that says why. */
function selectModulesToDelete(modulesOff: readonly ModuleFacts[], view: View) {
  const names = toNames(modulesOff);
  const blockedBecause = explainRemovalBlocker(view);
  if (blockedBecause === undefined || names.length === 0) return { names, blockers: [] };
  return { names: [], blockers: [buildRemovalBlocker("delete", names, blockedBecause)] };
}

/**
 * The releases without a module that may be purged now, or a blocker that says why none is. Files may be missing only for a moment:
 * a release is purged by a second discovery (`needsSecondCheck`) that finds no module SECOND_CHECK_MS after the first one.
 */
function selectReleasesToPurge(orphans: readonly string[], { view, at }: RemovalInput) {
  const missing = new MissingItems(at, SECOND_CHECK_MS, view.orphans);
  const names = orphans.filter((release) => missing.confirm(release));
  const orphanedSince = missing.since;
  const blockedBecause = explainRemovalBlocker(view);
  // Directories or files that cannot be read: a module of the release may be in them.
  const { purgeBlockers } = view.tree;
  const reasons = blockedBecause === undefined ? purgeBlockers : [blockedBecause, ...purgeBlockers];
  if (orphans.length > 0 && reasons.length > 0) {
    const blockers = [buildRemovalBlocker("purge", orphans, reasons.join("; "))];
    return { names: [], blockers, orphanedSince, needsSecondCheck: false };
  }
  return { names, blockers: [], orphanedSince, needsSecondCheck: missing.nextCheckAt !== undefined };
}

/** Why the operator deletes and purges nothing at all now; undefined if removals are allowed. */
export function explainRemovalBlocker(view: Pick<View, "config">): string | undefined {
  if (configIsMissing(view)) return "the ConfigMap is missing";
  return view.config.isFrozen ? `${MAINTENANCE} is set in the ConfigMap` : undefined;
}

/** Why a release without a module must stay; undefined if it may be purged. Called right before the purge: the ConfigMap may have changed after discovery. */
export function findPurgeBlocker(
  view: Pick<View, "config">,
  config: ParsedConfig | undefined,
  release: string,
): RemovalBlocker | undefined {
  const blockedBecause = explainRemovalBlocker(view);
  return blockedBecause === undefined
    ? listRetainBlockers(config, release)[0]
    : buildRemovalBlocker("purge", [release], blockedBecause);
}

/** Whether a run may begin a move now: the last discovery allowed it, and the ConfigMap has not forbidden it since. */
export function mayMoveNow(
  state: Pick<State, "view" | "values" | "module">,
  { release, to }: { readonly release: string; readonly to: string },
): boolean {
  const { view, values } = state;
  const record = state.module(release);
  if (record === undefined || values.settings(record.module).protected) return false;
  return view.allowedMoves.get(release) === to && explainRemovalBlocker(view) === undefined;
}

/** The blocker of a release that a key of the ConfigMap protects or suspends; an empty list if no key does. */
function listRetainBlockers(config: ParsedConfig | undefined, release: string): RemovalBlocker[] {
  const key = findRetainKey(config, release);
  return key === undefined ? [] : [buildRemovalBlocker("purge", [release], `${key} is set in the ConfigMap`)];
}

/** Releases without a module that modules still require, each with the names of those modules. */
function findRequiredReleases(
  { orphans, modules }: RemovalInput,
  modulesOff: readonly ModuleFacts[],
): (readonly [release: string, users: readonly string[]])[] {
  return orphans
    .map((release) => [release, findDependents(modules, modulesOff, release)] as const)
    .filter(([, users]) => users.length > 0);
}

/**
 * Divides the modules that are off into three groups: modules to delete (`modulesOff`), modules that stay because others
 * require them (`requiredBy`), and modules whose release belongs to another owner (`foreignModules`). Modules that their `enabled`
 * script switched off may stay (`scriptsUndecided`).
 */
export function classifyDisabledModules(all: readonly ModuleFacts[]) {
  const scriptsUndecided = explainUndecidedScripts(all);
  const removable = all.filter(({ record, settings }) => {
    // A problem needs a user first. `keepsRelease`: the ConfigMap protects or suspends the module.
    if (record.enabled || problemOf(record) !== undefined || keepsRelease(settings)) return false;
    return scriptsUndecided === undefined || record.enabledBy !== "script";
  });
  // In reverse order of installation. A module whose hooks have run needs its delete hooks even without a release.
  const installed = removable
    .filter(({ owner, record }) => owner === "ours" || record.hasRunInProcess)
    .toReversed();
  return {
    ...separateRequiredModules(all, installed),
    foreignModules: removable.filter(({ owner }) => owner === "foreign"),
    scriptsUndecided,
  };
}

/**
 * Why the answers of `enabled` scripts remove nothing: files of a module cannot be read, or its own script failed, and the other scripts may
 * depend on whether that module is on. Undefined if all modules are decided.
 */
function explainUndecidedScripts(all: readonly ModuleFacts[]): string | undefined {
  if (all.some(({ record }) => hasBrokenFiles(record))) return "not all files of modules can be read";
  const failed = all.find(({ record }) => hasFailedScript(record));
  return failed && `the enabled script of ${failed.module.name} failed`;
}

/** The key in the ConfigMap that protects or suspends a release without a module; undefined if there is none. */
export function findRetainKey(config: ParsedConfig | undefined, release: string): string | undefined {
  return guardKeys(camelCase(release)).find((key) => config?.guards.has(key));
}

/** Whether a release must keep its objects even if another release contains them, too: it is protected or suspended, or its removal is blocked. */
export function mustKeepObjects(
  { deletionLimit }: Pick<View, "deletionLimit">,
  config: ParsedConfig | undefined,
  release: string,
): boolean {
  const isBlocked = deletionLimit?.confirmed === false && deletionLimit.modules.includes(release);
  return isBlocked || findRetainKey(config, release) !== undefined;
}

/** Names of the modules that require module `name` and are on or stay installed, so that `name` must stay, too. `removable`: modules that do not stay. */
function findDependents(
  all: readonly ModuleFacts[],
  removable: readonly ModuleFacts[],
  name: string,
): string[] {
  const isRetained = (facts: ModuleFacts): boolean =>
    facts.record.enabled || (hasInstallation(facts) && !removable.includes(facts));
  return all.filter((facts) => requires(facts, name) && isRetained(facts)).map(({ module }) => module.name);
}

/** Whether the module may have something in the cluster: a release of this operator, or effects of hooks that ran. */
function hasInstallation({ owner, record }: ModuleFacts): boolean {
  return owner === "ours" || record.hasRunInProcess;
}

function requires({ module }: { readonly module: Module }, name: string): boolean {
  return module.name !== name && getRequiredModules(module).includes(name);
}

/**
 * Splits the modules that are off (`off`). Modules that others still require stay (`requiredBy`: the names of those others, by
 * module), and with them what they require themselves. The rest is removed (`modulesOff`), dependents first.
 */
function separateRequiredModules(all: readonly ModuleFacts[], off: readonly ModuleFacts[]) {
  const inUse = new Map<string, readonly string[]>();
  // A module that stays may require others: repeat until no more stay.
  let removable = [...off];
  let countBefore: number;
  do {
    countBefore = inUse.size;
    for (const { module, isRemovalBegun } of removable) {
      // The objects of a module whose removal has begun are deleted already, so nobody uses them.
      const users = isRemovalBegun ? [] : findDependents(all, removable, module.name);
      if (users.length > 0) inUse.set(module.name, users);
    }
    removable = removable.filter(({ module }) => !inUse.has(module.name));
  } while (inUse.size > countBefore);
  return { modulesOff: sortDependentsFirst(removable), requiredBy: inUse };
}

/** Sorts modules so that each comes after all modules that require it, which may need it for their own removal; otherwise the order stays. */
function sortDependentsFirst(modules: readonly ModuleFacts[]): ModuleFacts[] {
  const sorted = new Set<ModuleFacts>();
  const visited = new Set<ModuleFacts>();
  const addAfterDependents = (facts: ModuleFacts): void => {
    if (visited.has(facts)) return;
    visited.add(facts);
    for (const each of modules) if (requires(each, facts.module.name)) addAfterDependents(each);
    sorted.add(facts);
  };
  modules.forEach(addAfterDependents);
  return [...sorted];
}

/** Says which modules require a module that is off, e.g. *a, b require it*; undefined if none does. */
export function describeDependents(name: string, { modules }: View): string | undefined {
  const dependents = [...modules.values()].filter(
    (each) => requires(each, name) && (each.enabled || each.release !== undefined),
  );
  return dependents.length === 0 ? undefined : describeRequiredBy(dependents.map((each) => each.name));
}

/**
 * Names of the installed modules that require this one and whose own removal is not pending. Discovery decides that they go before it:
 * if they are still there, their removal has turned out not to be due.
 */
export function findStayingDependents(name: string, { modules, pendingRemovals }: View): string[] {
  const isInstalled = ({ enabled, release, hasRunInProcess }: ModuleView): boolean =>
    enabled || release !== undefined || hasRunInProcess;
  const dependents = [...modules.values()].filter((each) => requires(each, name) && isInstalled(each));
  return dependents.map((each) => each.name).filter((each) => !pendingRemovals.includes(each));
}

/** The sentence about modules that require another one, e.g. *a, b require it*. */
export function describeRequiredBy(dependents: readonly string[]): string {
  return `${dependents.join(", ")} ${dependents.length === 1 ? "requires" : "require"} it`;
}
