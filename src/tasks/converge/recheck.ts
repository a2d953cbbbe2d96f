/** Checks right before a removal, with the newest files, flags and ConfigMap, whether it is still due. */

import { canonicalJson } from "../../lib/index.ts";
import type { Module, Tree } from "../../model/index.ts";
import { hasGlobalConfigChanged, decideEnablement, SECOND_CHECK_MS } from "../../plan/index.ts";
import { runModuleScript } from "./discover.ts";
import { factsOf, scheduleConverge } from "../files/load.ts";
import type { Ports } from "../ports.ts";

/**
 * Whether the release of this name, with or without a module, must still be removed: a removal deletes data, and may run long after
 * the discovery that decided it. If not, another converge decides, because edits have superseded the discovery. Throws if the newest
 * facts cannot be read, for example if a script fails.
 */
export async function isRemovalStillDue(ports: Ports, name: string, signal: AbortSignal): Promise<boolean> {
  const { state, config, logger } = ports;
  await config.refresh();
  signal.throwIfAborted();
  if (hasGlobalConfigChanged(state.view)) return false;
  const tree = await ports.readTree(state.tree);
  if (removalInputs(tree) !== removalInputs(state.tree)) {
    logger.info("Files changed before a removal; another discovery decides", { module: name });
    state.record("filesChanged", "all");
    return false;
  }
  const module = state.tree.modules.find((each) => each.name === name);
  if (module === undefined || !(await isEnabledNow(ports, module, signal))) return true;
  logger.info("A module was switched on before its removal; another discovery decides", { module: name });
  scheduleConverge(ports, SECOND_CHECK_MS);
  return false;
}

/** The facts of files on which removals depend, as one text that can be compared. */
function removalInputs({ modules, purgeBlockers }: Tree): string {
  const facts = modules.map(({ name, own, common, enabledScript, problem, missing, requires, origin }) => [
    name,
    own.enabled ?? null,
    common.enabled ?? null,
    enabledScript ?? null,
    problem?.message ?? null,
    missing === undefined,
    Object.keys(requires?.modules ?? {}),
    origin?.removed ?? false,
  ]);
  return canonicalJson([facts, [...purgeBlockers]]);
}

/** Whether the module is on with the newest facts. Runs its `enabled` script if that decides. */
async function isEnabledNow(ports: Ports, module: Module, signal: AbortSignal): Promise<boolean> {
  const facts = factsOf(ports, module);
  const decision = decideEnablement(facts);
  if (decision !== "run-script") return decision.enabled;
  const { modules } = ports.state.tree;
  const before = modules.slice(0, modules.indexOf(module)).map(({ name }) => name);
  const enabled = before.filter((name) => ports.state.module(name)?.enabled === true);
  const decided = decideEnablement(facts, await runModuleScript(ports, module, { enabled, signal }));
  return decided !== "run-script" && decided.enabled;
}
