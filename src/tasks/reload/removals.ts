/** Records the removals that a discovery decides on, and makes tasks of them. */

import { CONFIRM_DELETE, SECOND_LOOK_MS, removalsOf } from "../../plan/index.ts";
import type { Removals } from "../../plan/index.ts";
import { deleteModuleKey } from "../../model/index.ts";
import type { Task } from "../../model/index.ts";
import type { Ports } from "../ports.ts";
import { factsOf, lookAgain } from "./load.ts";

/** The removals of modules that are disabled or gone: deletes in reverse order, then purges. */
export function removals(ports: Ports): Task[] {
  const { state, releases, clock, deleteBrake: limit } = ports;
  const { tree, view, values } = state;
  const found = removalsOf({
    modules: tree.modules.map((module) => factsOf(ports, module)),
    orphans: releases.withoutModule(tree),
    present: [...releases.installed(), ...view.enabledModules],
    limit,
    config: values.config,
    view,
    now: clock.now(),
  });
  record(ports, found);
  if (found.looksAgain) lookAgain(ports, SECOND_LOOK_MS);
  return [
    ...found.deletes.map((module): Task => ({ kind: "delete-module", key: deleteModuleKey(module), module })),
    ...found.purges.map((release): Task => ({
      kind: "purge-release",
      key: `purge-release/${release}`,
      release,
    })),
  ];
}

function record({ state, recorder }: Ports, { holds, brake, orphans, foreign, braked }: Removals): void {
  state.record({ holds, brake, orphans });
  const note = "a release of this name is not ours; it is left alone";
  for (const module of foreign) recorder.failed(module, "ForeignRelease", note);
  const message = "the module is switched off, but its removal is held: too many would go at once";
  const remedy = `switch it on again, or set ${CONFIRM_DELETE} as status.holds of the AddonOperator says`;
  for (const { name, dir } of braked) state.recordProblem(name, { file: dir, message, remedy });
}
