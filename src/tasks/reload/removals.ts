/** The removals that a discovery leads to. */

import { CONFIRM_DELETE, brakeOf, explainBrake, leaving } from "../../plan/index.ts";
import type { ModuleFacts } from "../../plan/index.ts";
import type { Module, Task } from "../../model/index.ts";
import { deleteModuleKey } from "../../model/index.ts";
import { configIsMissing } from "../module/delete-module.ts";
import type { Ports } from "../ports.ts";
import { factsOf } from "./load.ts";
import { orphans, purges } from "../module/purge-release.ts";

/**
 * Removals of modules that are disabled or gone: deletes in reverse order, then purges, except for those that
 * something forbids.
 */
export function removals(ports: Ports, modules: readonly Module[]): Task[] {
  ports.state.record({ holds: [] });
  const { off, foreign } = leaving(modules.map((module) => factsOf(ports, module)));
  const note = "a release of this name is not ours; it is left alone";
  for (const { module } of foreign) ports.recorder.failed(module.name, "ForeignRelease", note);
  const gone = orphans(ports);
  const { purgeHolds } = ports.state.tree;
  const isHeld = !configIsMissing(ports) && isBraked(ports, off, purgeHolds.length > 0 ? [] : gone);
  return [...deletes(ports, off, isHeld), ...purges(ports, gone, isHeld)];
}

/** Whether these are more than one change may remove; if so, the modules among them get that as their problem. */
function isBraked(ports: Ports, off: readonly ModuleFacts[], gone: readonly string[]): boolean {
  const { state, releases, deleteBrake: limit } = ports;
  const present = [...releases.installed(), ...state.enabledModules()];
  const found = brakeOf({ off, orphans: gone, present, limit }, state.view);
  state.record({ brake: found });
  if (found === undefined || found.confirmed) return false;
  state.addHold(explainBrake(found));
  const message = "the module is switched off, but its removal is held: too many would go at once";
  const remedy = `switch it on again, or set ${CONFIRM_DELETE} as status.holds of the AddonOperator says`;
  for (const { module, begun } of off)
    if (!begun) state.recordProblem(module.name, { file: module.dir, message, remedy });
  return true;
}

function deletes(ports: Ports, off: readonly ModuleFacts[], isHeld: boolean): Task[] {
  const due = off.filter(({ begun }) => begun || !isHeld).map(({ module }) => module.name);
  if (due.length > 0 && configIsMissing(ports)) {
    ports.state.addHold(`not deleted: ${due.join(", ")}: the ConfigMap is missing`);
    return [];
  }
  return due.map((module) => ({ kind: "delete-module", key: deleteModuleKey(module), module }));
}
