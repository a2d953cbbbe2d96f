/** Removals go against the graph: a module stays while another one is there that requires it (docs/MODULES.md, "What a module requires"). */

import type { Module } from "../model/index.ts";
import type { View } from "../state/index.ts";
import type { ModuleFacts } from "./discovery.ts";
import { required } from "./requirement-graph.ts";

/** Of the modules that are off, what goes and what stays. */
export interface Going {
  /** Before each module, those that require it. */
  readonly off: readonly ModuleFacts[];
  /** Modules that stay, and who requires them. */
  readonly inUse: ReadonlyMap<string, readonly string[]>;
}

/** Modules that require a name, and are on, or are there and do not go. */
export function usersOf(all: readonly ModuleFacts[], off: readonly ModuleFacts[], name: string): string[] {
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
export function withoutUsed(all: readonly ModuleFacts[], off: readonly ModuleFacts[]): Going {
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
