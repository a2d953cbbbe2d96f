/** Checks right before a removal, by the newest files, flags and ConfigMap, whether it is still due. */

import { canonicalJson } from "../lib/index.ts";
import type { Module, Tree } from "../model/index.ts";
import { configOvertaken, decide, SECOND_LOOK_MS } from "../plan/index.ts";
import { askScript } from "./discover.ts";
import { factsOf, lookAgain } from "./load.ts";
import type { Ports } from "./run-task.ts";

/**
 * Whether the release of this name, with or without a module, still has to go. If not, a new converge decides: an earlier
 * discovery is superseded by what was edited since. Throws where the newest facts cannot be read, as when a script fails.
 */
export async function isStillDue(ports: Ports, name: string, signal: AbortSignal): Promise<boolean> {
  const { state, config, logger } = ports;
  await config.refresh();
  signal.throwIfAborted();
  if (configOvertaken(state.view)) return false;
  const tree = await ports.readTree(state.tree);
  if (decisiveOf(tree) !== decisiveOf(state.tree)) {
    logger.info("Files changed before a removal; all modules are decided on again", { module: name });
    state.recordFiles("all");
    return false;
  }
  const module = state.tree.modules.find((each) => each.name === name);
  if (module === undefined || !(await isOnNow(ports, module, signal))) return true;
  logger.info("A module was switched on before its removal; all modules are decided on again", {
    module: name,
  });
  lookAgain(ports, SECOND_LOOK_MS);
  return false;
}

/** All that removals depend on of files. */
function decisiveOf({ modules, purgeHolds }: Tree): string {
  const told = modules.map(({ name, own, common, enabledScript, problem, gone, requires }) => [
    name,
    own.enabled ?? null,
    common.enabled ?? null,
    enabledScript ?? null,
    problem?.message ?? null,
    gone === undefined,
    Object.keys(requires?.modules ?? {}),
  ]);
  return canonicalJson([told, [...purgeHolds]]);
}

async function isOnNow(ports: Ports, module: Module, signal: AbortSignal): Promise<boolean> {
  const facts = factsOf(ports, module);
  const decision = decide(facts);
  if (decision !== "ask") return decision.enabled;
  const { modules } = ports.state.tree;
  const before = modules.slice(0, modules.indexOf(module)).map(({ name }) => name);
  const enabled = before.filter((name) => ports.state.module(name)?.enabled === true);
  const decided = decide(facts, await askScript(ports, module, { enabled, signal }));
  return decided !== "ask" && decided.enabled;
}
