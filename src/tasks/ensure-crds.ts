/** The task that creates and upgrades CRDs of modules. */

import { oneLine } from "../lib/index.ts";
import type { EnsureCrdsTask, Task } from "../model/index.ts";
import { ProblemError } from "../model/index.ts";
import type { Outcome } from "../queue/index.ts";
import type { Hands } from "./hands.ts";

/**
 * Creates and upgrades the CRDs of all modules that are about to run, before the first of them runs. A file that is
 * broken or refused makes its module Invalid, and the others go on; after any other failure the task is tried
 * again.
 */
export async function ensureCrds(hands: Hands, task: EnsureCrdsTask): Promise<Outcome<Task>> {
  try {
    await Promise.all(task.modules.map((name) => ensureOf(hands, name)));
    return { kind: "done" };
  } catch (error) {
    hands.logger.error("CRDs of modules could not be applied", { error: oneLine(error) });
    return { kind: "retry", message: oneLine(error) };
  }
}

async function ensureOf(hands: Hands, name: string): Promise<void> {
  try {
    await hands.releases.ensureCrds(hands.state.module(name)?.module.crdFiles ?? []);
  } catch (error) {
    const problem = error instanceof ProblemError ? error.problems[0] : undefined;
    if (problem === undefined) throw error;
    hands.state.recordProblem(name, problem);
    hands.logger.error("Module is invalid", { module: name, ...problem });
  }
}
