/** Decides what a discovery removes, and what blocks other removals (docs/reference/lifecycle.md, "Start-up and converge"). */

import { camelCase, type Module } from "../model/index.ts";
import { brokenFiles, configIsMissing, problemOf } from "../state/index.ts";
import type { DeletionLimitView, DeletionWindow, Blocker, View } from "../state/index.ts";
import { guardKeys, keepsRelease, MAINTENANCE, type ParsedConfig } from "../values/index.ts";
import { deletionLimitOf, explainDeletionLimit, type Removal } from "./deletion-limit.ts";
import type { ModuleFacts } from "./discovery.ts";
import { required } from "./graph.ts";

/** The facts from which removals are decided. */
export interface RemovalInput extends Omit<Removal, "off"> {
  /** All modules, with the decision whether each is on. */
  readonly modules: readonly ModuleFacts[];
  /** The content of the ConfigMap that is in force. */
  readonly config: ParsedConfig | undefined;
  readonly view: View;
}

/** What is removed, and what blocks other removals. */
export interface Removals {
  /** Modules, in reverse order. */
  readonly deletes: readonly string[];
  /** Releases without a module. */
  readonly purges: readonly string[];
  /** Modules whose release belongs to another owner, which stays. */
  readonly foreign: readonly string[];
  readonly deletionLimit: DeletionLimitView | undefined;
  readonly deletions: DeletionWindow;
  /** Modules that the deletion limit keeps. */
  readonly blocked: readonly Module[];
  /** Modules, and releases without one, that stay because the listed modules require them. */
  readonly inUse: ReadonlyMap<string, readonly string[]>;
  /** Why something stays. */
  readonly blockers: readonly Blocker[];
  /** When each release was first found without a module, by the monotonic clock. */
  readonly orphans: ReadonlyMap<string, number>;
  /** A second check is due after `SECOND_CHECK_MS`, to confirm that modules are missing. */
  readonly checksAgain: boolean;
}

/** A module must be missing in two checks, this long apart, before its release is purged. */
export const SECOND_CHECK_MS = 3000;

/** Decides which modules that are off are deleted, which releases without a module are purged, and what blocks the others. */
export function removalsOf(input: RemovalInput): Removals {
  const { view, config } = input;
  const { off, foreign, inUse: modulesInUse } = modulesToRemove(input.modules);
  const inUse = new Map([...modulesInUse, ...usedReleases(input, off)]);
  const orphans = input.orphans.filter(
    (release) => keepReleaseKey(config, release) === undefined && !inUse.has(release),
  );
  const mayRemove = removalBlocker(view) === undefined;
  const { deletionLimit, deletions } = mayRemove ? checkDeletionLimit(input, off, orphans) : view;
  const isLimited = mayRemove && deletionLimit?.confirmed === false;
  const deletes = dueDeletes(isLimited ? off.filter(({ begun }) => begun) : off, view);
  const purges = duePurges(orphans, input);
  return {
    deletes: deletes.due,
    purges: isLimited ? [] : purges.due,
    foreign: namesOf(foreign),
    inUse,
    deletionLimit,
    deletions,
    blocked: isLimited ? off.filter(({ begun }) => !begun).map(({ module }) => module) : [],
    blockers: [
      ...input.orphans.flatMap((release) => keptReleaseBlocker(config, release)),
      ...[...inUse].map(([name, users]) =>
        blockerOf(modulesInUse.has(name) ? "delete" : "purge", [name], requiredBy(users)),
      ),
      ...(isLimited ? [{ of: "delete", text: explainDeletionLimit(deletionLimit, view) } as const] : []),
      ...deletes.blockers,
      ...purges.blockers,
    ],
    orphans: purges.since,
    checksAgain: !isLimited && purges.isEarly,
  };
}

function namesOf(modules: readonly ModuleFacts[]): string[] {
  return modules.map(({ module }) => module.name);
}

/** Applies the deletion limit. While missing files block all purges, orphan releases do not count. */
function checkDeletionLimit(
  input: RemovalInput,
  off: readonly ModuleFacts[],
  orphans: readonly string[],
): ReturnType<typeof deletionLimitOf> {
  const counted = input.view.tree.purgeHolds.length > 0 ? [] : orphans;
  return deletionLimitOf({ ...input, off, orphans: counted }, input.view);
}

interface Due {
  readonly due: readonly string[];
  readonly blockers: readonly Blocker[];
}

/** Says why these modules or releases stay. */
export function blockerOf(of: Blocker["of"], names: readonly string[], why: string): Blocker {
  return { of, text: `not ${of}d: ${names.join(", ")}: ${why}` };
}

/** The modules to delete now; none while something blocks all removals. */
function dueDeletes(off: readonly ModuleFacts[], view: View): Due {
  const due = namesOf(off);
  const blockedBecause = removalBlocker(view);
  if (blockedBecause === undefined || due.length === 0) return { due, blockers: [] };
  return { due: [], blockers: [blockerOf("delete", due, blockedBecause)] };
}

interface Purges extends Due {
  readonly since: ReadonlyMap<string, number>;
  /** Some must be confirmed by a second check. */
  readonly isEarly: boolean;
}

/** The releases to purge now. A release is due only when a second check finds no module for it either. */
function duePurges(orphans: readonly string[], { view, at }: RemovalInput): Purges {
  const since = new Map(orphans.map((release) => [release, view.orphans.get(release) ?? at]));
  const blockedBecause = removalBlocker(view);
  const reasons = [...(blockedBecause === undefined ? [] : [blockedBecause]), ...view.tree.purgeHolds];
  if (orphans.length > 0 && reasons.length > 0) {
    return { due: [], blockers: [blockerOf("purge", orphans, reasons.join("; "))], since, isEarly: false };
  }
  const due = orphans.filter((release) => at - (since.get(release) ?? at) >= SECOND_CHECK_MS);
  return { due, blockers: [], since, isEarly: due.length < orphans.length };
}

/** Why nothing at all is deleted or purged now; undefined where nothing prevents it. */
export function removalBlocker(view: Pick<View, "config">): string | undefined {
  if (configIsMissing(view)) return "the ConfigMap is missing";
  return view.config.isFrozen ? `${MAINTENANCE} is set in the ConfigMap` : undefined;
}

/** Why a release without a module stays now; undefined where nothing prevents its purge. The ConfigMap may change while a purge waits. */
export function purgeBlocker(
  view: Pick<View, "config">,
  config: ParsedConfig | undefined,
  release: string,
): Blocker | undefined {
  const blockedBecause = removalBlocker(view);
  return blockedBecause === undefined
    ? keptReleaseBlocker(config, release)[0]
    : blockerOf("purge", [release], blockedBecause);
}

/** The blocker of a release that a key of the ConfigMap protects or suspends; empty if none does. */
function keptReleaseBlocker(config: ParsedConfig | undefined, release: string): Blocker[] {
  const key = keepReleaseKey(config, release);
  return key === undefined ? [] : [blockerOf("purge", [release], `${key} is set in the ConfigMap`)];
}

/** Releases without a module that other modules require, with the names of these modules. */
function usedReleases(
  { orphans, modules }: RemovalInput,
  off: readonly ModuleFacts[],
): (readonly [release: string, users: readonly string[]])[] {
  return orphans
    .map((release) => [release, usersOf(modules, off, release)] as const)
    .filter(([, users]) => users.length > 0);
}

/**
 * Divides the modules that are off. `off` have something to delete, in reverse order, but each after all that require it.
 * `inUse` are still required by others. The release of `foreign` belongs to another owner. If files of any module cannot be
 * read, answers of `enabled` scripts do not count: a script may depend on that module.
 */
export function modulesToRemove(
  all: readonly ModuleFacts[],
): Removable & { readonly foreign: readonly ModuleFacts[] } {
  const unreadable = all.some(({ record }) => brokenFiles(record));
  const free = all.filter(({ record, settings }) => {
    if (record.enabled || problemOf(record) !== undefined || keepsRelease(settings)) return false;
    return !unreadable || record.enabledBy !== "script";
  });
  const off = free.filter(({ owner, record }) => owner === "ours" || record.ranHere).toReversed();
  return {
    ...withoutUsed(all, off),
    foreign: free.filter(({ owner }) => owner === "foreign"),
  };
}

/** The key of the ConfigMap that protects or suspends the release of a module that is deleted. */
export function keepReleaseKey(config: ParsedConfig | undefined, release: string): string | undefined {
  return guardKeys(camelCase(release)).find((key) => config?.guards.has(key));
}

/** Whether other releases must not adopt objects of this one: it is protected or suspended, or its removal is blocked. */
export function keepsObjects(
  { deletionLimit }: Pick<View, "deletionLimit">,
  config: ParsedConfig | undefined,
  release: string,
): boolean {
  const isBlocked = deletionLimit?.confirmed === false && deletionLimit.modules.includes(release);
  return isBlocked || keepReleaseKey(config, release) !== undefined;
}

/** The modules that are off, divided into those to remove and those that stay. */
interface Removable {
  /** Each module comes after those that require it. */
  readonly off: readonly ModuleFacts[];
  /** Modules that stay, with the modules that require them. */
  readonly inUse: ReadonlyMap<string, readonly string[]>;
}

/** Names of the modules because of which `name` must stay: they require it, and are on or stay installed. */
function usersOf(all: readonly ModuleFacts[], off: readonly ModuleFacts[], name: string): string[] {
  const stays = (facts: ModuleFacts): boolean =>
    facts.record.enabled || (isInstalled(facts) && !off.includes(facts));
  return all.filter((facts) => requires(facts, name) && stays(facts)).map(({ module }) => module.name);
}

function isInstalled({ owner, record }: ModuleFacts): boolean {
  return owner === "ours" || record.ranHere;
}

function requires({ module }: { readonly module: Module }, name: string): boolean {
  return module.name !== name && required(module).includes(name);
}

/** Keeps modules of `off` that others still require, and transitively what these require. */
function withoutUsed(all: readonly ModuleFacts[], off: readonly ModuleFacts[]): Removable {
  const inUse = new Map<string, readonly string[]>();
  // A module that stays may require others: repeat until no more stay.
  let going = [...off];
  for (let before = -1; before !== inUse.size;) {
    before = inUse.size;
    for (const { module, begun } of going) {
      const users = begun ? [] : usersOf(all, going, module.name);
      if (users.length > 0) inUse.set(module.name, users);
    }
    going = going.filter(({ module }) => !inUse.has(module.name));
  }
  return { off: usersFirst(going), inUse };
}

/** Sorts modules stably so that each comes after all that require it. */
function usersFirst(going: readonly ModuleFacts[]): ModuleFacts[] {
  const sorted = new Set<ModuleFacts>();
  const open = new Set<ModuleFacts>();
  const add = (facts: ModuleFacts): void => {
    if (open.has(facts)) return;
    open.add(facts);
    for (const each of going) if (requires(each, facts.module.name)) add(each);
    sorted.add(facts);
  };
  going.forEach(add);
  return [...sorted];
}

/** Which modules require a module that is off, in words; undefined where none does. */
export function describeUsers(name: string, { modules }: View): string | undefined {
  const users = [...modules.values()].filter(
    (each) => requires(each, name) && (each.enabled || each.release !== undefined),
  );
  return users.length === 0 ? undefined : requiredBy(users.map((each) => each.name));
}

/** E.g. *a, b require it*. */
export function requiredBy(users: readonly string[]): string {
  return `${users.join(", ")} ${users.length === 1 ? "requires" : "require"} it`;
}
