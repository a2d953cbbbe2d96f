/**
 * Repairs modules: applies their CRDs (docs/reference/modules.md, "The chart"), and restores missing objects of a release while the run of its
 * module waits behind a failure (docs/reference/lifecycle.md, "Queues").
 */

import { listNames, mapInParallel, oneLine } from "../../../base/index.ts";
import { ProblemError, describeProblem } from "../../../base/model/index.ts";
import type { EnsureCrdsTask, Problem, Task, RestoreTask } from "../../../base/model/index.ts";
import type { Outcome, RunContext } from "../../queue/index.ts";
import { buildCrdRequest } from "../../state/index.ts";
import type { Ports } from "../ports.ts";
import { RestoreError } from "../../../helm/index.ts";
import { canRestoreWithoutRun } from "../../plan/index.ts";
import { logProblem } from "../files/load.ts";

/** The CRDs of how many modules are applied at once, to leave the API server time for other requests. */
const MAX_MODULES_AT_ONCE = 4;

/**
 * Creates and upgrades the CRDs of all modules that are about to run, before the first run. A broken or refused file makes its module Invalid and does not
 * stop the others; any other failure is retried. While all modules are suspended, does nothing: the next converge applies the CRDs.
 */
export async function ensureModuleCrds(ports: Ports, task: EnsureCrdsTask): Promise<Outcome<Task>> {
  if (ports.state.view.config.isFrozen) return { kind: "done" };
  try {
    await mapInParallel(MAX_MODULES_AT_ONCE, task.modules, (name) => ensureCrdsOfModule(ports, name));
    return { kind: "done" };
  } catch (error) {
    ports.logger.error("CRDs of modules could not be applied", { error: oneLine(error) });
    return { kind: "retry", message: oneLine(error) };
  }
}

/**
 * Applies the CRDs of one module, and records the progress, which the status displays. A problem that a user must solve makes the module
 * Invalid and is returned; other errors are thrown. A user can confirm a change of CRDs that loses data: the confirmation is for one time.
 */
export async function ensureCrdsOfModule(ports: Ports, name: string): Promise<Problem | undefined> {
  try {
    const record = ports.state.module(name);
    if (record === undefined) return undefined;
    const { module, crdsAppliedFor } = record; // Another object after a file of the module has changed.
    // A cleaner of the temp directory may have removed the unpacked files of a chart archive.
    await ports.restoreChart(module.chartDir);
    const request = buildCrdRequest(ports.state.values, record);
    await ports.releases.ensureCrds(request, {
      onProgress(progress) {
        ports.logger.info("Work on CRDs continues", { module: name, progress });
        ports.state.recordModule(name, "crdWorkProgressed", progress);
      },
      onDropped: (dropped) => {
        // Logs once for each content of the module, not at each converge.
        if (module !== crdsAppliedFor) logDroppedFields(ports, name, dropped);
      },
    });
    ports.state.recordModule(name, "crdsApplied", module);
    ports.state.recordModule(name, "confirmationEnded", "confirmedCrds", request.confirmed);
    return undefined;
  } catch (error) {
    const [problem, ...more] = error instanceof ProblemError ? error.problems : [];
    if (problem === undefined) throw error;
    const hint = more.length === 0 ? "" : `; ${more.length} more in the log`;
    ports.state.recordModule(name, "problemFound", { ...problem, message: problem.message + hint });
    ports.report.crdRefused(name, describeProblem(problem));
    for (const each of [problem, ...more]) logProblem(ports, name, each);
    return problem;
  } finally {
    if (ports.state.module(name)?.crdWork !== undefined)
      ports.state.recordModule(name, "crdWorkProgressed", undefined);
  }
}

/** Number of fields or files that one log line names. */
const MAX_NAMES = 10;

/** Logs dropped fields of all files of a module in one line. */
function logDroppedFields(
  { logger }: Ports,
  module: string,
  dropped: ReadonlyMap<string, readonly string[]>,
): void {
  const fields = [...new Set([...dropped.values()].flat())].sort();
  logger.info("CRDs have unknown fields, which are not applied", {
    module,
    fields: listNames(fields, MAX_NAMES),
    files: listNames([...dropped.keys()], MAX_NAMES),
  });
}

/** Applies missing objects again as the release record has them. Runs no hook: a run of the module is due, but it waits behind a failure. */
export async function restoreModule(
  ports: Ports,
  { module: name }: RestoreTask,
  { signal }: RunContext,
): Promise<Outcome<Task>> {
  const { state, releases, report, logger } = ports;
  const module = state.view.modules.get(name);
  // Since the restore was queued, the module has changed, or a run has begun that restores the objects.
  if (module === undefined || !canRestoreWithoutRun(module)) return { kind: "done" };
  const { missingObjects } = module;
  const recordRestored = (stillMissing: readonly string[]): void =>
    state.recordModule(name, "objectsRestored", { objects: missingObjects, stillMissing });
  try {
    const outcome = await releases.restoreObjects(name, missingObjects, signal);
    recordRestored([]);
    report.moduleReleased(name, outcome);
    const objects = missingObjects.length;
    logger.info("Objects were restored before the due run", { module: name, objects });
    return { kind: "done" };
  } catch (error) {
    if (error instanceof RestoreError) recordRestored(error.missingObjects);
    if (signal.aborted) return { kind: "cancelled" };
    logger.error("Objects could not be restored", { module: name, error: oneLine(error) });
    return { kind: "retry", message: oneLine(error) };
  }
}
