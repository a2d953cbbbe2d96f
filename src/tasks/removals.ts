/** The removals that a discovery leads to. */

import { brake, CONFIRM_DELETE, explainBrake } from "../plan/index.ts";
import type { Module, Task } from "../model/index.ts";
import { deleteModuleKey } from "../model/index.ts";
import { brokenFiles, problemOf } from "../state/index.ts";
import { configIsMissing } from "./delete-module.ts";
import type { Hands } from "./hands.ts";
import { orphans, purges } from "./purge.ts";

/**
 * Removals of modules that are disabled or gone: deletes in reverse order, then purges, except for those that
 * something forbids.
 */
export function removals(hands: Hands, modules: readonly Module[]): Task[] {
  hands.state.clearHolds();
  const off = deletable(hands, modules);
  const gone = orphans(hands);
  const { purgeHolds } = hands.state.tree;
  const isHeld = !configIsMissing(hands) && isBraked(hands, off, purgeHolds.length > 0 ? [] : gone);
  return [...deletes(hands, off, isHeld), ...purges(hands, gone, isHeld)];
}

/** Disabled modules that have something to be deleted, in reverse order. */
function deletable(hands: Hands, modules: readonly Module[]): Module[] {
  const unreadable = [...hands.state.records()].some(brokenFiles);
  return modules.filter((module) => isDeletable(hands, module, unreadable)).toReversed();
}

function isDeletable(hands: Hands, module: Module, unreadable: boolean): boolean {
  const record = hands.state.module(module.name);
  if (record === undefined || record.enabled || problemOf(record) !== undefined) return false;
  if ((unreadable && record.enabledBy === "script") || isGuarded(hands, module)) return false;
  const owner = hands.releases.ownership(module.name);
  if (owner === "foreign") {
    hands.witness.failed(
      module.name,
      "ForeignRelease",
      "a release of this name is not ours; it is left alone",
    );
  }
  return owner === "ours" || record.ranHere;
}

/** Protected and suspended modules are never deleted. */
function isGuarded(hands: Hands, { valuesKey }: Module): boolean {
  const { values } = hands.state;
  return values.isProtected(valuesKey) || values.isSuspended(valuesKey);
}

/** A delete that was interrupted, of which only the hooks are left to run. */
function isBegun(hands: Hands, name: string): boolean {
  return hands.releases.get(name)?.status === "uninstalled";
}

/** Whether these are more than one change may remove; if so, the modules among them get that as their problem. */
function isBraked(hands: Hands, off: readonly Module[], gone: readonly string[]): boolean {
  const { state } = hands;
  const taken = off.map(({ name }) => name).filter((name) => !isBegun(hands, name));
  const names = [...taken, ...gone].toSorted();
  const installed = new Set([...hands.releases.installed(), ...state.enabledModules(), ...names]);
  const found = brake(hands.deleteBrake, { names, installed: installed.size }, state.view);
  state.recordBrake(found);
  if (found === undefined || found.confirmed) return false;
  state.addHold(explainBrake(found));
  const message = "the module is switched off, but its removal is held: too many would go at once";
  const remedy = `switch it on again, or set ${CONFIRM_DELETE} as status.holds of the AddonOperator says`;
  for (const { name, dir } of off)
    if (!isBegun(hands, name)) state.recordProblem(name, { file: dir, message, remedy });
  return true;
}

function deletes(hands: Hands, off: readonly Module[], isHeld: boolean): Task[] {
  const due = isHeld ? off.filter(({ name }) => isBegun(hands, name)) : off;
  if (due.length > 0 && configIsMissing(hands)) {
    hands.state.addHold(`not deleted: ${due.map(({ name }) => name).join(", ")}: the ConfigMap is missing`);
    return [];
  }
  return due.map(({ name }) => ({ kind: "delete-module", key: deleteModuleKey(name), module: name }));
}
