/** The task that creates and upgrades CRDs of modules. */

import { oneLine } from "../../lib/index.ts";
import type { EnsureCrdsTask, Task } from "../../model/index.ts";
import { describeProblem, ProblemError } from "../../model/index.ts";
import type { Outcome } from "../../queue/index.ts";
import { crdRequest } from "../../state/index.ts";
import type { Ports } from "../ports.ts";

/**
 * Creates and upgrades the CRDs of all modules that are about to run, before the first of them runs. A file that is
 * broken or refused makes its module Invalid, and the others go on; after any other failure the task is tried
 * again.
 */
export async function ensureCrds(ports: Ports, task: EnsureCrdsTask): Promise<Outcome<Task>> {
  try {
    await Promise.all(task.modules.map((name) => ensureOf(ports, name)));
    return { kind: "done" };
  } catch (error) {
    ports.logger.error("CRDs of modules could not be applied", { error: oneLine(error) });
    return { kind: "retry", message: oneLine(error) };
  }
}

async function ensureOf(ports: Ports, name: string): Promise<void> {
  try {
    const record = ports.state.module(name);
    if (record === undefined) return;
    const { module } = record;
    await ports.releases.ensureCrds(crdRequest(ports.state.values, record), (progress) => {
      ports.logger.info("Work on CRDs goes on", { module: name, progress });
      ports.state.update(name, (under) => void (under.crdWork = progress));
    });
    ports.state.update(name, (applied) => void (applied.withCrds = module));
  } catch (error) {
    const problem = error instanceof ProblemError ? error.problems[0] : undefined;
    if (problem === undefined) throw error;
    ports.state.recordProblem(name, problem);
    ports.recorder.crdRefused(name, describeProblem(problem));
    ports.logger.error("Module is invalid", { module: name, ...problem });
  } finally {
    if (ports.state.module(name)?.crdWork !== undefined)
      ports.state.update(name, (done) => void (done.crdWork = undefined));
  }
}
