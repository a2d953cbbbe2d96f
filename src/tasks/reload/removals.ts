/** The removals that a discovery leads to. */

import { brake, CONFIRM_DELETE, explainBrake } from "../../plan/index.ts";
import type { Module, Task } from "../../model/index.ts";
import { deleteModuleKey } from "../../model/index.ts";
import { brokenFiles, problemOf } from "../../state/index.ts";
import { configIsMissing } from "../module/delete-module.ts";
import { keepsRelease } from "../../values/index.ts";
import type { Ports } from "../ports.ts";
import { orphans, purges } from "../module/purge-release.ts";

/**
 * Removals of modules that are disabled or gone: deletes in reverse order, then purges, except for those that
 * something forbids.
 */
export function removals(ports: Ports, modules: readonly Module[]): Task[] {
  ports.state.clearHolds();
  const off = deletable(ports, modules);
  const gone = orphans(ports);
  const { purgeHolds } = ports.state.tree;
  const isHeld = !configIsMissing(ports) && isBraked(ports, off, purgeHolds.length > 0 ? [] : gone);
  return [...deletes(ports, off, isHeld), ...purges(ports, gone, isHeld)];
}

/** Disabled modules that have something to be deleted, in reverse order. */
function deletable(ports: Ports, modules: readonly Module[]): Module[] {
  const unreadable = [...ports.state.records()].some(brokenFiles);
  return modules.filter((module) => isDeletable(ports, module, unreadable)).toReversed();
}

function isDeletable(ports: Ports, module: Module, unreadable: boolean): boolean {
  const record = ports.state.module(module.name);
  if (record === undefined || record.enabled || problemOf(record) !== undefined) return false;
  if ((unreadable && record.enabledBy === "script") || keepsRelease(ports.state.values.settings(module)))
    return false;
  const owner = ports.releases.ownership(module.name);
  if (owner === "foreign") {
    ports.recorder.failed(
      module.name,
      "ForeignRelease",
      "a release of this name is not ours; it is left alone",
    );
  }
  return owner === "ours" || record.ranHere;
}

/** A delete that was interrupted, of which only the hooks are left to run. */
function isBegun(ports: Ports, name: string): boolean {
  return ports.releases.get(name)?.status === "uninstalled";
}

/** Whether these are more than one change may remove; if so, the modules among them get that as their problem. */
function isBraked(ports: Ports, off: readonly Module[], gone: readonly string[]): boolean {
  const { state } = ports;
  const taken = off.map(({ name }) => name).filter((name) => !isBegun(ports, name));
  const names = [...taken, ...gone].toSorted();
  const installed = new Set([...ports.releases.installed(), ...state.enabledModules(), ...names]);
  const found = brake(ports.deleteBrake, { names, installed: installed.size }, state.view);
  state.recordBrake(found);
  if (found === undefined || found.confirmed) return false;
  state.addHold(explainBrake(found));
  const message = "the module is switched off, but its removal is held: too many would go at once";
  const remedy = `switch it on again, or set ${CONFIRM_DELETE} as status.holds of the AddonOperator says`;
  for (const { name, dir } of off)
    if (!isBegun(ports, name)) state.recordProblem(name, { file: dir, message, remedy });
  return true;
}

function deletes(ports: Ports, off: readonly Module[], isHeld: boolean): Task[] {
  const due = isHeld ? off.filter(({ name }) => isBegun(ports, name)) : off;
  if (due.length > 0 && configIsMissing(ports)) {
    ports.state.addHold(`not deleted: ${due.map(({ name }) => name).join(", ")}: the ConfigMap is missing`);
    return [];
  }
  return due.map(({ name }) => ({ kind: "delete-module", key: deleteModuleKey(name), module: name }));
}
