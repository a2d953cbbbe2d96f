/** Says why a module has its state, from AddonModules: the answer of `module why`, of `kubectl addon why` and of the page. */

import { describeOrigin } from "../explain/origin.ts";
import { findCondition, type ModuleObject } from "./overview.ts";
import type { Projection } from "./projector.ts";

/** Reads the objects of modules by name, and what the memory of the operator knows besides. */
interface ModuleReader {
  readonly object: (name: string) => ModuleObject | undefined;
  readonly momentaryReasons?: (name: string) => readonly string[];
}

/** The sentences about a module of a running operator; none if there is no such module. */
export function explainProjected({ modules, explanation }: Projection, name: string): string[] {
  return explainModule(name, {
    object: (each) => modules.get(each),
    momentaryReasons: (each) => explanation.module(each)?.momentaryReasons ?? [],
  });
}

/** Sentences about whether a module is on, why it does not run or is not Ready, what it waits for, and where it comes from. */
export function explainModule(name: string, reader: ModuleReader): string[] {
  const object = reader.object(name);
  if (object === undefined) return [];
  const reasons = [...listReasons(name, object, reader), ...describeAwaitedModules(name, reader)];
  const isIdle = reasons.length === 0 && object.status?.state === "Ready";
  const sentences = isIdle ? ["nothing is due: the last run used the current state"] : reasons;
  return [describeDecision(object), ...sentences, ...describeOrigin(object.status?.source)];
}

/** The module for which a module waits, or that it has lost after its run; undefined if it waits for none. */
export function findAwaitedModule({ status = {} }: ModuleObject): string | undefined {
  const awaited = status.waitsFor ?? status.requires?.find(({ met }) => !met)?.name;
  // Unlike modules, objects have names with a slash.
  return awaited?.includes("/") === true ? undefined : awaited;
}

/** Says why the modules for which a module waits are not ready: follows the chain down to the root cause, one sentence for each module. */
function describeAwaitedModules(name: string, reader: ModuleReader): string[] {
  const sentences = new Map<string, string>();
  let awaited = findAwaitedModule(reader.object(name) ?? {});
  // Modules may wait for each other in a circle.
  while (awaited !== undefined && awaited !== name && !sentences.has(awaited)) {
    const object = reader.object(awaited);
    if (object === undefined) break;
    const isOn = object.spec?.enabled === true;
    const reasons = isOn ? listReasons(awaited, object, reader) : [describeDecision(object)];
    // Nothing is wrong with the awaited module itself. E.g. its version does not match the required range, which the waiting module reports.
    if (reasons.length === 0) break;
    sentences.set(awaited, `${awaited}: ${reasons.join("; ")}`);
    awaited = findAwaitedModule(object);
  }
  return [...sentences.values()];
}

/** Whether and why a module is on. */
function describeDecision({ status }: ModuleObject): string {
  return findCondition(status?.conditions, "Enabled").message;
}

function listReasons(name: string, { status }: ModuleObject, { momentaryReasons }: ModuleReader): string[] {
  return [...(status?.reasons ?? []), ...(momentaryReasons?.(name) ?? [])];
}
