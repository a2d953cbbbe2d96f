/** Reads and checks everything before the operator works. */

import { ProblemError } from "../model/index.ts";
import type { Problem } from "../model/index.ts";
import { tellTree } from "../modules/index.ts";
import { startsAsMeant } from "../process/index.ts";
import type { State } from "../state/index.ts";
import { checkSchemas, loadHooks } from "../tasks/index.ts";
import type { Ports } from "../tasks/index.ts";
import type { FollowedConfig } from "../triggers/index.ts";
import type { Base } from "./base.ts";

/**
 * Reads everything that must be valid before anything runs: directories, global hooks, the ConfigMap. Throws
 * ProblemError with every problem found.
 */
export async function loadEverything(base: Base, state: State, ports: Ports): Promise<void> {
  if (!startsAsMeant())
    base.logger.warn("koffi cannot be loaded: hooks start slower and cannot open /dev/stdout or /dev/stderr");
  const tree = await base.readTree();
  tellTree(base.logger, tree);
  const { hooks, problems } = await loadHooks(ports, tree.globalHookFiles, undefined);
  refuse([...tree.problems, ...problems]);
  checkSchemas(ports, tree.globalSchemas);
  state.recordTree(tree);
  state.recordGlobalHooks(hooks);
}

/** Reads files and asks all hooks for their configuration to fill the caches; problems are reported later. */
export async function warmUp(base: Base, ports: Ports): Promise<void> {
  const tree = await base.readTree();
  await loadHooks(ports, tree.globalHookFiles, undefined);
  for (const module of tree.modules) await loadHooks(ports, module.hookFiles, module.name);
}

/** Reads the ConfigMap; invalid content is refused, a missing one is made at a first start only. */
export async function loadConfig(state: State, config: FollowedConfig, ports: Ports): Promise<void> {
  await config.moveOverlay();
  const found = await config.refresh();
  if (!found && ports.releases.anyOurs()) {
    config.missingAtStart();
    return;
  }
  if (!found) await config.createEmpty();
  if (state.view.config.condition === "invalid") refuse(state.view.config.problems);
}

function refuse(problems: readonly Problem[]): void {
  if (problems.length > 0) throw new ProblemError(problems);
}
