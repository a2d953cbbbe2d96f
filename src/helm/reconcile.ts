/**
 * Brings one release to the module's chart and values. The record of a release is the Secret of its newest revision; its labels have
 * digests, by which a later run recognizes that nothing has changed.
 */

import { provesBroken } from "../kube/health/index.ts";
import { sleep } from "../base/index.ts";
import { reportAdoption } from "./release/adoption.ts";
import { HelmError } from "./binary/helm-errors.ts";
import { helmSays } from "./binary/helm-messages.ts";
import type { UpgradeOptions } from "./binary/helm.ts";
import { UnusableChartError } from "./chart/chart.ts";
import { findOwnCrd } from "./crds/read-crds.ts";
import { createSubChartCrds } from "./crds/sub-chart-crds.ts";
import { decideBeforeRendering, planRelease, type ReleasePlan } from "./decide.ts";
import { markIncompleteRevision, requireNoEffectOfDownApis } from "./down-apis.ts";
import { withHookWatch } from "./hook-watch.ts";
import { listContent, parseDocuments } from "./manifest/manifest.ts";
import type { ManifestContent, ObjectRef, RenderedChart } from "./manifest/manifest.ts";
import { explainFailure } from "./objects/explain-failure.ts";
import { refuseHookReplacements, type HookRun } from "./objects/hook-objects.ts";
import { adoptExistingObjects } from "./objects/takeover.ts";
import { restoreObjects } from "./objects/restore-objects.ts";
import { handleFormerObjects } from "./objects/former-objects.ts";
import { retainBeforeUpgrade } from "./objects/retain.ts";
import { findComparedRevisions, isInstalled, RELEASE_LABELS } from "./release/revisions.ts";
import { ChartChangedError, renderManifestsFromCopy, withUpgradeOptions } from "./rendering.ts";
import { recoverPendingRelease, repairRecords } from "./repair-records.ts";
import { lacksRollbackTarget } from "./rollback/revision-labels.ts";
import {
  countFailure,
  describeRejection,
  markInstalledRevisionGood,
  getNextUpgradeOptions,
  rollBack,
} from "./rollback/rollback.ts";
import type { Reconciler, ReconcileRequest, Reconciliation, Rejection, ReleaseOutcome } from "./types.ts";
import { buildRevisionLabels, buildUnchangedLabels, updateLabels } from "./update-labels.ts";

type ReconcileResult = Omit<ReleaseOutcome, "release">;
type ActionResult = Omit<ReconcileResult, "wasRecovered">;

/** While files of a chart are being written, a run decides again: at most this often, each time after this pause. */
const MAX_DECISIONS = 10;
const CHART_CHANGE_PAUSE_MS = 500;
/** How often records are repaired in one run. A killed helm may change its record more than once after its end was requested. */
const MAX_REPAIRS = 3;

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

/** Carries out the decision about a release: keeps it, updates labels, upgrades, recovers or rolls back. */
async function carryOut({ reconciliation, decision }: ReleasePlan): Promise<ActionResult> {
  switch (decision.act) {
    case "keep":
      await updateLabels(reconciliation, buildUnchangedLabels(reconciliation));
      return { action: "unchanged" };
    case "label": {
      const labels = buildRevisionLabels(reconciliation, decision.rendered.checksum, false);
      return { action: await updateLabels(reconciliation, labels) };
    }
    case "install":
    case "upgrade":
      return upgrade(reconciliation, decision.rendered);
    case "recover":
      return continueAfterRecovery({
        ...reconciliation,
        release: await recoverPendingRelease(reconciliation),
      });
    case "stay":
      return {
        action: "unchanged",
        rollbackReason: await describeRejection(reconciliation, decision.rejection),
      };
    case "rollback":
      return rollBackAndDescribe(reconciliation, decision.rejection);
  }
}

/** Continues after a pending revision was marked failed: rolls back if that is due, such as after an interrupted rollback; else upgrades. */
function continueAfterRecovery(reconciliation: Reconciliation): Promise<ActionResult> {
  const decision = decideBeforeRendering(reconciliation);
  return decision.act === "rollback"
    ? rollBackAndDescribe(reconciliation, decision.rejection)
    : upgrade(reconciliation);
}

/** Rolls the release back to its good revision, and adds to the result why the current inputs are not applied. */
async function rollBackAndDescribe(
  reconciliation: Reconciliation,
  rejection: Rejection,
): Promise<ActionResult> {
  await rollBack(reconciliation, rejection);
  return { action: "rolledBack", rollbackReason: await describeRejection(reconciliation, rejection) };
}

/**
 * Installs or upgrades a release. Counts a failure: when the allowed number of failures is reached, rolls the release back. `rendered`
 * is the chart's rendering, if there is one already; without it, `DeferredLabels` computes the manifest label later.
 */
async function upgrade(reconciliation: Reconciliation, rendered?: RenderedChart): Promise<ActionResult> {
  const { release } = reconciliation;
  // The decision about a rendered chart has checked that.
  if (rendered === undefined) await requireNoEffectOfDownApis(reconciliation);
  return withUpgradeOptions(reconciliation, async (options) => {
    reportAdoption(reconciliation.owner, reconciliation.request.module.name, reconciliation.tools);
    await markInstalledRevisionGood(reconciliation);
    const { historyMax, labels } = getNextUpgradeOptions(reconciliation);
    const allLabels = {
      ...labels,
      ...buildRevisionLabels(reconciliation, rendered?.checksum, release === undefined),
    };
    const { tools, chart } = reconciliation;
    const { module, signal: abort, onWait } = reconciliation.request;
    const { name } = module;
    const circumstances = { mayHaveHooks: chart.reach.hooks, mayEnd: module.helm?.wait !== true };
    const run = { release: name, signal: abort, onWait, ...circumstances };
    let recorded: readonly ObjectRef[];
    try {
      recorded = await withHookWatch(tools, run, (signal) =>
        installOrUpgrade(reconciliation, { ...options, labels: allLabels, historyMax, signal }, rendered),
      );
    } catch (error) {
      // `countFailure` throws the error unless the release has to be rolled back now.
      return rollBackAndDescribe(reconciliation, await countFailure(reconciliation, error));
    }
    const { store, deferredLabels } = tools;
    // Before the watch reports it, and to notice a helm binary that worked with another cluster.
    await store.readDeployedRevision(name, (release?.revision ?? 0) + 1);
    store.requireNewRevision(name, "upgrade", release);
    await handleFormerObjects(tools, name, { recorded, signal: abort });
    if (rendered === undefined) deferredLabels.schedule(name);
    await markIncompleteRevision(reconciliation);
    return { action: isInstalled(release) ? "upgraded" : "installed" };
  });
}

/**
 * Installs or upgrades a release with helm. Before that, protects objects that helm must neither delete nor replace. Repairs the
 * release's records after known errors of helm, and tries again. `rendered` is the chart's rendering, if there is one already. Returns the
 * recorded objects that helm may have deleted.
 */
async function installOrUpgrade(
  reconciliation: Reconciliation,
  options: UpgradeOptions,
  rendered: RenderedChart | undefined,
): Promise<ObjectRef[]> {
  const { tools, request } = reconciliation;
  const rendering = rendered ?? (await findReusableRendering(reconciliation));
  let content: Promise<ManifestContent> | undefined;
  /** What the chart renders, at most rendered once. */
  const readContent = (): Promise<ManifestContent> =>
    (content ??=
      rendered === undefined
        ? renderManifestsFromCopy(reconciliation, options).then((texts) =>
            listContent(texts.flatMap(parseDocuments)),
          )
        : Promise.resolve(rendered));
  // Rendering takes time, so a chart whose files mention neither hooks nor CRDs (its *reach*) is not rendered to find these.
  const { reach } = reconciliation.chart;
  const mayHaveAny = reach.hooks || reach.crds;
  const { objects, hooks } = rendering ?? (mayHaveAny ? await readContent() : { objects: [], hooks: [] });
  const problem = findOwnCrd([...objects, ...hooks.map(({ ref }) => ref)], request.module.chartDir);
  if (problem !== undefined) throw new UnusableChartError(problem);
  // Without a rendering, it checks all recorded objects, because helm may delete any of them.
  const next = { rendered: rendering?.objects, signal: request.signal };
  const recorded = await retainBeforeUpgrade(tools, options.release, next);
  for (let repairs = 0; ; repairs += 1) {
    const verb = await prepareHelmRun(reconciliation, options, hooks);
    try {
      await upgradeAndAdopt(reconciliation, options, readContent);
      return recorded;
    } catch (error) {
      if (repairs === MAX_REPAIRS || !(error instanceof HelmError)) throw error;
      const listWanted = async () => (rendering ?? (await readContent())).objects;
      const isRepaired = await repairRecords(reconciliation, error, listWanted);
      if (isRepaired) continue;
      throw await explainFailure(tools, error, { run: { verb, hooks }, listWanted, signal: request.signal });
    }
  }
}

/**
 * Does what must precede a run of helm: refuses hooks that would replace objects of others, and creates CRDs of sub-charts. Returns the
 * verb whose hooks helm is going to run.
 */
async function prepareHelmRun(
  reconciliation: Reconciliation,
  options: UpgradeOptions,
  hooks: HookRun["hooks"],
): Promise<HookRun["verb"]> {
  const { tools, request } = reconciliation;
  // As helm does, decides by the newest revision.
  const verb = isInstalled(tools.store.get(request.module.name)) ? "upgrade" : "install";
  await refuseHookReplacements(tools, request, { verb, hooks });
  if (verb === "install") await createSubChartCrds(reconciliation, options);
  return verb;
}

/**
 * The rendering of the last revision, read from its record, which saves a retry with equal inputs from rendering again.
 * Undefined if the inputs differ, or if templates use `lookup`, whose result may have changed.
 */
async function findReusableRendering({
  tools,
  request,
  chart,
  inputsDigest,
}: Reconciliation): Promise<RenderedChart | undefined> {
  const release = tools.store.get(request.module.name);
  if (release?.labels[RELEASE_LABELS.inputs] !== inputsDigest || chart.reach.lookup) return undefined;
  return tools.store.readSummary(release);
}

/**
 * Runs helm without `--take-ownership`, which would silently overwrite objects of others. If helm refuses existing objects, annotates
 * those that the release may adopt, and runs helm again. Throws as `adoptExistingObjects` and `Helm.upgradeInstall`.
 */
async function upgradeAndAdopt(
  reconciliation: Reconciliation,
  options: UpgradeOptions,
  readContent: () => Promise<ManifestContent>,
): Promise<void> {
  const { helm, store } = reconciliation.tools;
  try {
    await helm.upgradeInstall(options);
  } catch (error) {
    if (!(error instanceof HelmError) || !helmSays(error, "existingObject")) throw error;
    // helm accepts existing objects that are in the last deployed revision.
    const deployed = findComparedRevisions(store.revisions(options.release)).at(-1);
    const recorded = deployed === undefined ? [] : (await store.readSummary(deployed)).objects;
    await adoptExistingObjects(reconciliation, await readContent(), { recorded, refusal: error });
    await helm.upgradeInstall(options);
  }
}
