/**
 * Brings one release to the module's chart and values. The record of a release is the Secret of its newest revision; its labels have
 * digests, by which a later run recognizes that nothing has changed.
 */

import { provesBroken } from "../health/index.ts";
import { sleep } from "../lib/index.ts";
import {
  buildArtifactLabels,
  decideBeforeRendering,
  buildRevisionLabels,
  planRelease,
  type ReleasePlan,
} from "./decide.ts";
import { withHookWatch } from "./hook-watch.ts";
import { restoreObjects } from "./objects/restore-objects.ts";
import type { RenderedChart } from "./manifest/manifest.ts";
import { RELEASE_LABELS, type ReleaseMeta } from "./release/revisions.ts";
import { ChartChangedError, withUpgradeOptions } from "./rendering.ts";
import { lacksRollbackTarget } from "./rollback/revision-labels.ts";
import {
  countFailure,
  describeRefusal,
  markInstalledRevisionGood,
  getNextUpgradeOptions,
  rollBack,
} from "./rollback/rollback.ts";
import type { Reconciler, ReconcileRequest, Reconciliation, Refusal, ReleaseOutcome } from "./types.ts";
import { installOrUpgrade, recoverPendingRelease } from "./upgrade.ts";

type ReconcileResult = Omit<ReleaseOutcome, "release">;
type ActionResult = Omit<ReconcileResult, "wasRecovered">;

/** While files of a chart are being written, a run decides again: at most this often, each time after this pause. */
const MAX_DECISIONS = 10;
const CHART_CHANGE_PAUSE_MS = 500;

/**
 * Reconciles a release with as little work as possible: nothing for equal inputs, new labels for an equal manifest, otherwise an
 * upgrade. Missing objects of a release that is not upgraded are restored. Starts again if files of the chart change meanwhile.
 */
export async function reconcileRelease(
  tools: Reconciler,
  request: ReconcileRequest,
): Promise<ReconcileResult> {
  for (let decisions = 1; ; decisions++) {
    try {
      return await reconcileOnce(tools, request);
    } catch (error) {
      if (!(error instanceof ChartChangedError) || decisions === MAX_DECISIONS) throw error;
    }
    await sleep(tools.clock, CHART_CHANGE_PAUSE_MS, request.signal);
  }
}

/** One attempt: decides, acts, and restores missing objects if the release itself did not change. */
async function reconcileOnce(tools: Reconciler, request: ReconcileRequest): Promise<ReconcileResult> {
  const plan = await planRelease(tools, request, tools.render);
  const { reconciliation, decision } = plan;
  const why = "why" in decision ? decision.why : undefined;
  tools.logger.debug("Decided on a release", { release: request.module.name, act: decision.act, why });
  const wasRecovered = decision.act === "recover";
  const result = addMissingRollbackTarget(reconciliation, { ...(await carryOut(plan)), wasRecovered });
  const { release } = reconciliation;
  const { missingObjects = [], signal } = request;
  // An upgrade creates missing objects itself.
  const ranNoHelm = result.action === "unchanged" || result.action === "labelled";
  if (!ranNoHelm || missingObjects.length === 0 || release === undefined) return result;
  await restoreObjects(tools, { release, missingObjects, signal });
  return { ...result, action: "restored" };
}

/** Adds to the result that an unhealthy release should be rolled back but has no good revision, so that the status reports it. */
function addMissingRollbackTarget(
  { tools, request, policy }: Reconciliation,
  result: ReconcileResult,
): ReconcileResult {
  const shouldRollBack = policy !== undefined && provesBroken(request.unhealthy);
  return shouldRollBack && lacksRollbackTarget(tools.store.revisions(request.module.name))
    ? { ...result, lacksRollbackTarget: true }
    : result;
}

/** Carries out the decision about a release: does nothing, updates labels, upgrades, recovers or rolls back. */
async function carryOut({ reconciliation, decision }: ReleasePlan): Promise<ActionResult> {
  switch (decision.act) {
    case "nothing":
      recordArtifact(reconciliation);
      return { action: "unchanged" };
    case "label":
      return { action: await updateLabels(reconciliation, decision.release, decision.rendered.checksum) };
    case "install":
    case "upgrade":
      return upgrade(reconciliation, decision.rendered);
    case "recover":
      return continueAfterRecovery({
        ...reconciliation,
        release: await recoverPendingRelease(reconciliation),
      });
    case "stay":
      return { action: "unchanged", refusal: await describeRefusal(reconciliation, decision.refusal) };
    case "rollback":
      return rollBackAndDescribe(reconciliation, decision.refusal);
  }
}

/** Continues after a pending revision was marked failed: rolls back if that is due, such as after an interrupted rollback; else upgrades. */
function continueAfterRecovery(reconciliation: Reconciliation): Promise<ActionResult> {
  const decision = decideBeforeRendering(reconciliation);
  return decision.act === "rollback"
    ? rollBackAndDescribe(reconciliation, decision.refusal)
    : upgrade(reconciliation);
}

/** Rolls the release back to its good revision, and adds to the result why the current inputs are not applied. */
async function rollBackAndDescribe(reconciliation: Reconciliation, refusal: Refusal): Promise<ActionResult> {
  await rollBack(reconciliation, refusal);
  return { action: "rolledBack", refusal: await describeRefusal(reconciliation, refusal) };
}

/** Updates the labels of a release whose manifest, with this checksum, is equal. Changes nothing if all labels are equal too. */
async function updateLabels(
  reconciliation: Reconciliation,
  release: ReleaseMeta,
  manifestChecksum: string,
): Promise<ReconcileResult["action"]> {
  const labels = buildRevisionLabels(reconciliation, manifestChecksum, false);
  const differs = (key: string): boolean => release.labels[key] !== labels[key];
  if (!Object.keys(labels).some(differs)) return "unchanged";
  const { store, deferredLabels } = reconciliation.tools;
  reportAdoption(reconciliation);
  // The owner must be on the server at once. The other labels only save a later rendering, so a converge of many modules
  // does not wait for them.
  if (differs(RELEASE_LABELS.managedBy))
    await store.setLabels(release, labels, reconciliation.request.signal);
  else {
    store.deferLabels(release, labels);
    deferredLabels.schedule(release.name);
  }
  return "labelled";
}

/**
 * Labels the release with the artifact of a registry that its module comes from now. A new artifact may contain the same chart and
 * other hooks of the module, so that no upgrade writes the label.
 */
function recordArtifact({ tools, request, release }: Reconciliation): void {
  const labels = buildArtifactLabels({ request });
  if (release === undefined) return;
  const isLabelled = Object.entries(labels).every(([key, value]) => release.labels[key] === value);
  if (isLabelled) return;
  // Together with labels that are not written yet.
  tools.store.deferLabels(release, { ...release.deferredLabels, ...labels });
  tools.deferredLabels.schedule(release.name);
}

/**
 * Installs or upgrades a release. Counts a failure: when the allowed number of failures is reached, rolls the release back. `rendered`
 * is the chart's rendering, if there is one already; without it, `DeferredLabels` computes the manifest label later.
 */
function upgrade(reconciliation: Reconciliation, rendered?: RenderedChart): Promise<ActionResult> {
  const { release } = reconciliation;
  return withUpgradeOptions(reconciliation, async (options) => {
    reportAdoption(reconciliation);
    await markInstalledRevisionGood(reconciliation);
    const { historyMax, labels } = getNextUpgradeOptions(reconciliation);
    const allLabels = {
      ...labels,
      ...buildRevisionLabels(reconciliation, rendered?.checksum, release === undefined),
    };
    try {
      await runWithHookWatch(reconciliation, () =>
        installOrUpgrade(reconciliation, { ...options, labels: allLabels, historyMax }, rendered),
      );
    } catch (error) {
      // `countFailure` throws the error unless the release has to be rolled back now.
      return rollBackAndDescribe(reconciliation, await countFailure(reconciliation, error));
    }
    const { store, deferredLabels } = reconciliation.tools;
    const { name } = reconciliation.request.module;
    // Before the watch reports it, and to notice a helm binary that worked with another cluster.
    await store.readDeployedRevision(name, (release?.revision ?? 0) + 1);
    store.requireNewRevision(name, "upgrade", release);
    if (rendered === undefined) deferredLabels.schedule(name);
    return { action: release === undefined || release.status === "uninstalled" ? "installed" : "upgraded" };
  });
}

/**
 * Runs `work`, a call of helm, and reports for which hook of the chart helm waits. After a failure, reads the release again,
 * which an abort does not cancel, because the next decision depends on the record that helm left.
 */
async function runWithHookWatch(
  { tools, request }: Reconciliation,
  work: () => Promise<void>,
): Promise<void> {
  const { store, clock } = tools;
  const { module, signal, onWait } = request;
  try {
    await withHookWatch({ store, clock, release: module.name, signal, onWait }, work);
  } catch (error) {
    await store.refresh(module.name);
    throw error;
  }
}

/** Logs and counts the adoption of a release that a user installed with helm. Does nothing for any other release. */
function reportAdoption({ owner, tools, request }: Reconciliation): void {
  if (owner !== "manual") return;
  const release = request.module.name;
  tools.logger.warn("Adopting a release that was installed with helm", { release });
  tools.recorder?.adopted(release);
}
