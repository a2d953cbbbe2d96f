/** Decides whether a module has to run, and why (docs/LIFECYCLE.md, "What leads to what"). */

import type { Cause } from "../model/index.ts";
import type { ModuleView, View } from "../state/index.ts";
import { isModuleAsked } from "./reload.ts";

type Rule = (module: ModuleView, view: View) => Cause | undefined;

/** In the order in which they are told to people: the first rule that applies gives the reason. */
const RULES: readonly Rule[] = [
  requested,
  configMoved,
  valuesMoved,
  objectsAbsent,
  releaseMoved,
  firstRunOwed,
];

/** Why a module run is owed now (rules 10, 12, 14, 15 and 16 of docs/LIFECYCLE.md); undefined when none is. */
export function runOwed(module: ModuleView, view: View): Cause | undefined {
  if (!module.enabled || module.problem !== undefined) return undefined;
  // Files of the module are missing: a second read decides whether it runs without them or is gone.
  if (module.module.vanished !== undefined) return undefined;
  for (const rule of RULES) {
    const cause = rule(module, view);
    if (cause !== undefined) return cause;
  }
  return undefined;
}

function requested(module: ModuleView): Cause | undefined {
  return isModuleAsked(module) && module.phase === "ready"
    ? { text: "requested", place: "front" }
    : undefined;
}

function configMoved(module: ModuleView): Cause | undefined {
  if (module.phase !== "ready" || module.sectionDigest === module.handled.section) return undefined;
  return { text: "ConfigMap section changed", place: "front" };
}

function valuesMoved(module: ModuleView): Cause | undefined {
  if (module.phase !== "ready" || module.valuesDigest === module.handled.values) return undefined;
  return module.cause ?? { text: "module values changed", place: "back" };
}

function objectsAbsent(module: ModuleView): Cause | undefined {
  if (module.phase !== "ready" || module.absent.length === 0 || module.suspended) return undefined;
  return { text: `absent ${module.absent[0]}`, place: "back" };
}

function releaseMoved(module: ModuleView): Cause | undefined {
  if (!module.releaseMoved || module.suspended) return undefined;
  return { text: `release is ${module.release?.status ?? "gone"}`, place: "back" };
}

/** A first run that was interrupted. During a reload, the reload sees to it. */
function firstRunOwed(module: ModuleView, view: View): Cause | undefined {
  if (module.phase === "ready" || view.converge.phase !== "idle") return undefined;
  return { text: "first run", place: "back" };
}
