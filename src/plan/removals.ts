/** Decides what a discovery removes, and why the rest stays (docs/LIFECYCLE.md, "Start-up and reload"). */

import type { Limit } from "../lib/index.ts";
import { camelCase, type Module } from "../model/index.ts";
import { brokenFiles, configIsMissing, problemOf } from "../state/index.ts";
import type { BrakeView, DeletionWindow, Hold, View } from "../state/index.ts";
import { guardKeys, keepsRelease, MAINTENANCE, type ParsedConfig } from "../values/index.ts";
import { brakeOf, explainBrake } from "./brake.ts";
import type { ModuleFacts } from "./discovery.ts";
import { required } from "./graph.ts";

/** What removals are decided from. */
export interface RemovalInput {
  /** All modules, once it is decided about them. */
  readonly modules: readonly ModuleFacts[];
  /** Releases of this operator without a module directory. */
  readonly orphans: readonly string[];
  /** Modules that are installed or on. */
  readonly present: Iterable<string>;
  /** Tells an installed module or release from a later one of the same name. */
  readonly identityOf: (name: string) => string;
  readonly limit: Limit;
  /** The content of the ConfigMap that is in force. */
  readonly config: ParsedConfig | undefined;
  readonly view: View;
  /** Monotonic time in ms. */
  readonly at: number;
}

/** What goes, and what is to be recorded of the rest. */
export interface Removals {
  /** Modules, in reverse order. */
  readonly deletes: readonly string[];
  /** Releases without a module. */
  readonly purges: readonly string[];
  /** Modules under which somebody else's release stays. */
  readonly foreign: readonly string[];
  readonly brake: BrakeView | undefined;
  readonly deletions: DeletionWindow;
  /** Modules that the brake holds. */
  readonly braked: readonly Module[];
  /** Modules, and releases without one, that stay for others, and who requires them. */
  readonly inUse: ReadonlyMap<string, readonly string[]>;
  /** Why something stays. */
  readonly holds: readonly Hold[];
  /** Since when releases have had no module, in ms since the epoch. */
  readonly orphans: ReadonlyMap<string, number>;
  /** A second look, `SECOND_LOOK_MS` later, may purge what this one leaves. */
  readonly looksAgain: boolean;
}

/** A directory must be missing in two looks, this long apart, before its release is purged. */
export const SECOND_LOOK_MS = 3000;

/** Deletes of modules that are off, then purges of releases without a module, except for those that something forbids. */
export function removalsOf(input: RemovalInput): Removals {
  const { view, config } = input;
  const { off, foreign, inUse: kept } = leaving(input.modules);
  const inUse = new Map([...kept, ...usedReleases(input, off)]);
  const orphans = input.orphans.filter(
    (release) => guardOf(config, release) === undefined && !inUse.has(release),
  );
  const mayGo = nothingGoes(view) === undefined;
  const { brake, deletions } = mayGo ? brakeOn(input, off, orphans) : view;
  const isHeld = mayGo && brake?.confirmed === false;
  const deletes = deletesOf(isHeld ? off.filter(({ begun }) => begun) : off, view);
  const purges = purgesOf(orphans, input);
  return {
    deletes: deletes.due,
    purges: isHeld ? [] : purges.due,
    foreign: namesOf(foreign),
    inUse,
    brake,
    deletions,
    braked: isHeld ? off.filter(({ begun }) => !begun).map(({ module }) => module) : [],
    holds: [
      ...input.orphans.flatMap((release) => guardHold(config, release)),
      ...[...inUse].map(([name, users]) =>
        holdOf(kept.has(name) ? "delete" : "purge", [name], requiredBy(users)),
      ),
      ...(isHeld ? [{ of: "delete", text: explainBrake(brake, view) } as const] : []),
      ...deletes.holds,
      ...purges.holds,
    ],
    orphans: purges.since,
    looksAgain: !isHeld && purges.isEarly,
  };
}

function namesOf(modules: readonly ModuleFacts[]): string[] {
  return modules.map(({ module }) => module.name);
}

function brakeOn(
  input: RemovalInput,
  off: readonly ModuleFacts[],
  orphans: readonly string[],
): ReturnType<typeof brakeOf> {
  const counted = input.view.tree.purgeHolds.length > 0 ? [] : orphans;
  return brakeOf({ ...input, off, orphans: counted }, input.view);
}

interface Due {
  readonly due: readonly string[];
  readonly holds: readonly Hold[];
}

/** Why these modules or releases stay. */
export function holdOf(of: Hold["of"], names: readonly string[], why: string): Hold {
  return { of, text: `not ${of}d: ${names.join(", ")}: ${why}` };
}

function deletesOf(off: readonly ModuleFacts[], view: View): Due {
  const due = namesOf(off);
  const missing = nothingGoes(view);
  if (missing === undefined || due.length === 0) return { due, holds: [] };
  return { due: [], holds: [holdOf("delete", due, missing)] };
}

interface Purges extends Due {
  readonly since: ReadonlyMap<string, number>;
  /** Some were missed for the first time. */
  readonly isEarly: boolean;
}

function purgesOf(orphans: readonly string[], { view, at }: RemovalInput): Purges {
  const since = new Map(orphans.map((release) => [release, view.orphans.get(release) ?? at]));
  const missing = nothingGoes(view);
  const reasons = [...(missing === undefined ? [] : [missing]), ...view.tree.purgeHolds];
  if (orphans.length > 0 && reasons.length > 0) {
    return { due: [], holds: [holdOf("purge", orphans, reasons.join("; "))], since, isEarly: false };
  }
  const due = orphans.filter((release) => at - (since.get(release) ?? at) >= SECOND_LOOK_MS);
  return { due, holds: [], since, isEarly: due.length < orphans.length };
}

/** Why nothing at all is deleted or purged now; undefined when it may be. */
export function nothingGoes(view: Pick<View, "config">): string | undefined {
  if (configIsMissing(view)) return "the ConfigMap is missing";
  return view.config.isFrozen ? `${MAINTENANCE} is set in the ConfigMap` : undefined;
}

/** Why a release without a module stays now; undefined when it may go. The ConfigMap may change while a purge waits. */
export function purgeHold(
  view: Pick<View, "config">,
  config: ParsedConfig | undefined,
  release: string,
): Hold | undefined {
  const missing = nothingGoes(view);
  return missing === undefined ? guardHold(config, release)[0] : holdOf("purge", [release], missing);
}

function guardHold(config: ParsedConfig | undefined, release: string): Hold[] {
  const key = guardOf(config, release);
  return key === undefined ? [] : [holdOf("purge", [release], `${key} is set in the ConfigMap`)];
}

/** Releases without a module that modules require, with those modules. */
function usedReleases(
  { orphans, modules }: RemovalInput,
  off: readonly ModuleFacts[],
): (readonly [release: string, users: readonly string[]])[] {
  return orphans
    .map((release) => [release, usersOf(modules, off, release)] as const)
    .filter(([, users]) => users.length > 0);
}

/**
 * Of all modules, once it is decided about them, those that are `off` and have something to be deleted, in reverse
 * order but each after all that require it, those that stay for others, and those under which somebody else's release
 * stays. What a script says counts only while the files of all
 * modules can be read.
 */
export function leaving(all: readonly ModuleFacts[]): Going & { readonly foreign: readonly ModuleFacts[] } {
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

/** The key of the ConfigMap that protects or suspends the release of a module that is gone. */
export function guardOf(config: ParsedConfig | undefined, release: string): string | undefined {
  return guardKeys(camelCase(release)).find((key) => config?.guards.has(key));
}

/** Of the modules that are off, what goes and what stays. */
interface Going {
  /** Before each module, those that require it. */
  readonly off: readonly ModuleFacts[];
  /** Modules that stay, and who requires them. */
  readonly inUse: ReadonlyMap<string, readonly string[]>;
}

/** Modules that require a name, and are on, or are there and do not go. */
function usersOf(all: readonly ModuleFacts[], off: readonly ModuleFacts[], name: string): string[] {
  const stays = (facts: ModuleFacts): boolean =>
    facts.record.enabled || (isThere(facts) && !off.includes(facts));
  return all.filter((facts) => requires(facts, name) && stays(facts)).map(({ module }) => module.name);
}

function isThere({ owner, record }: ModuleFacts): boolean {
  return owner === "ours" || record.ranHere;
}

function requires({ module }: { readonly module: Module }, name: string): boolean {
  return module.name !== name && required(module).includes(name);
}

/** Takes out of `off` what others still require; what that requires stays in turn. */
function withoutUsed(all: readonly ModuleFacts[], off: readonly ModuleFacts[]): Going {
  const inUse = new Map<string, readonly string[]>();
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

/** The order stays, except that a module comes after all that require it. */
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

/** Why a module that is off stays, in words; undefined when nobody requires it. */
export function keptFor(name: string, { modules }: View): string | undefined {
  const users = [...modules.values()].filter(
    (each) => requires(each, name) && (each.enabled || each.release !== undefined),
  );
  return users.length === 0 ? undefined : requiredBy(users.map((each) => each.name));
}

/** Who requires something, in words. */
export function requiredBy(users: readonly string[]): string {
  return `${users.join(", ")} ${users.length === 1 ? "requires" : "require"} it`;
}
