/** Installs or upgrades a release with helm, and repairs its records (helm's Secrets, one for each revision) after known errors of helm. */

import { UnusableChartError } from "./chart/chart.ts";
import { findOwnCrd } from "./crds/read-crds.ts";
import { BrokenRecordError, HelmError } from "./binary/helm-errors.ts";
import type { UpgradeOptions } from "./binary/helm.ts";
import { parseDocuments, listHookObjects, listObjectRefs, type RenderedChart } from "./manifest/manifest.ts";
import { adoptExistingObjects, isExistingObjectError } from "./objects/ownership.ts";
import { claimRemainingHookObjects, refuseHookReplacements, type HookRun } from "./objects/hook-objects.ts";
import { retainBeforeUpgrade } from "./objects/retain.ts";
import {
  findComparedRevisions,
  isPendingStatus,
  RELEASE_LABELS,
  releaseSecretName,
  type ReleaseMeta,
} from "./release/revisions.ts";
import { renderManifestsFromCopy } from "./rendering.ts";
import type { Reconciliation } from "./types.ts";

/** How often records are repaired in one run. A killed helm may change its record more than once after its end was requested. */
const MAX_REPAIRS = 3;

/**
 * Installs or upgrades a release with helm. Before that, protects objects that helm must neither delete nor replace. Repairs the
 * release's records after known errors of helm, and tries again. `rendered` is the chart's rendering, if there is one already.
 */
export async function installOrUpgrade(
  reconciliation: Reconciliation,
  options: UpgradeOptions,
  rendered: RenderedChart | undefined,
): Promise<void> {
  const { tools, request } = reconciliation;
  const rendering = rendered ?? (await findReusableRendering(reconciliation));
  const { objects, hooks } = rendering ?? (await renderContent(reconciliation, options));
  const problem = findOwnCrd([...objects, ...hooks.map(({ ref }) => ref)], request.module.chartDir);
  if (problem !== undefined) throw new UnusableChartError(problem);
  // Without a rendering, it checks all recorded objects, because helm may delete any of them.
  await retainBeforeUpgrade(tools, options.release, { rendered: rendering?.objects, signal: request.signal });
  for (let repairs = 0; ; repairs += 1) {
    await refuseHookReplacements(tools, request, { verb: getHookVerb(reconciliation), hooks });
    try {
      return await upgradeAndAdopt(reconciliation, options);
    } catch (error) {
      if (repairs === MAX_REPAIRS || !(error instanceof HelmError)) throw error;
      const isRepaired = await repairRecords(reconciliation, error.result.stderr);
      if (!isRepaired) throw error;
    }
  }
}

/**
 * Renders the chart to find its hooks and CRDs, which need checks before helm runs. Rendering takes time, so a chart whose
 * files mention neither (its *reach*) is not rendered, and the result is empty.
 */
async function renderContent(
  reconciliation: Reconciliation,
  options: UpgradeOptions,
): Promise<Pick<RenderedChart, "objects" | "hooks">> {
  const { hooks, crds } = reconciliation.chart.reach;
  if (!hooks && !crds) return { objects: [], hooks: [] };
  const documents = (await renderManifestsFromCopy(reconciliation, options)).flatMap(parseDocuments);
  return { objects: listObjectRefs(documents), hooks: listHookObjects(documents) };
}

/** Whether helm is going to run the hooks of an installation or of an upgrade. As helm does, decides by the newest revision. */
function getHookVerb({ tools, request }: Reconciliation): HookRun["verb"] {
  const status = tools.store.get(request.module.name)?.status ?? "uninstalled";
  return status === "uninstalled" ? "install" : "upgrade";
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

/** Part of helm's message, because helm has no exit codes: no revision was ever deployed, so helm cannot upgrade. */
const NOTHING_DEPLOYED = "has no deployed releases";
/** Parts of helm's message for a pending record. The last request of a killed helm may make a record pending late. */
const OPERATION_PENDING = ["another operation ", " is in progress"];
/** Parts of helm's messages for a Secret that exists but that helm does not recognize as a record. */
const UNRECOGNIZED_RECORD = ["release: already exists", "no revision for release"];

/**
 * Runs helm without `--take-ownership`, which would silently overwrite objects of others. If helm refuses existing objects, annotates
 * those that the release may adopt, and runs helm again. Throws as `adoptExistingObjects` and `Helm.upgradeInstall`.
 */
async function upgradeAndAdopt(reconciliation: Reconciliation, options: UpgradeOptions): Promise<void> {
  const { helm, store } = reconciliation.tools;
  try {
    await helm.upgradeInstall(options);
  } catch (error) {
    if (!isExistingObjectError(error)) throw error;
    // helm accepts existing objects that are in the last deployed revision.
    const deployed = findComparedRevisions(store.revisions(options.release)).at(-1);
    const recorded = deployed === undefined ? [] : (await store.readSummary(deployed)).objects;
    await adoptExistingObjects(reconciliation, options, { recorded, refusal: error });
    await helm.upgradeInstall(options);
  }
}

/**
 * Repairs the records of a release after an error that helm's message identifies. Returns whether a repair was made, so that
 * helm can run again. Throws BrokenRecordError where a user has to repair a Secret.
 */
async function repairRecords(reconciliation: Reconciliation, stderr: string): Promise<boolean> {
  const { tools, request } = reconciliation;
  const { store, logger } = tools;
  const { module, signal } = request;
  if (OPERATION_PENDING.every((part) => stderr.includes(part))) {
    await recoverPendingRelease(reconciliation);
    return true;
  }
  if (UNRECOGNIZED_RECORD.some((text) => stderr.includes(text)))
    throw await buildUnrecognizedRecordError(reconciliation);
  if (!stderr.includes(NOTHING_DEPLOYED)) return false;
  // helm upgrades no release whose revisions all failed; without records it installs the release.
  logger.warn("helm refuses the record of a failed release; removing it", { release: module.name });
  await claimRemainingHookObjects(tools, module.name);
  await store.deleteRecords(module.name, signal);
  return true;
}

/**
 * Builds the error for a Secret that exists but that helm does not recognize as a record, because its labels are missing or
 * wrong. The Secret has the name of the next revision, unless the newest record is unreadable, which throws BrokenRecordError.
 */
async function buildUnrecognizedRecordError({ tools, request }: Reconciliation): Promise<Error> {
  const { name } = request.module;
  const newest = await tools.store.refresh(name, request.signal);
  if (newest !== undefined) await tools.store.readRecord(newest, request.signal);
  const secret = releaseSecretName(name, (newest?.revision ?? 0) + 1);
  return new BrokenRecordError(secret, "it blocks helm, because it lacks helm's labels or has wrong ones");
}

/**
 * Recovers a release that a killed helm left pending: ends orphaned helm processes, then marks the pending revision failed,
 * because helm refuses to work on a pending release. Returns the newest revision after that.
 */
export async function recoverPendingRelease({
  tools,
  request,
}: Reconciliation): Promise<ReleaseMeta | undefined> {
  const { helm, store, logger } = tools;
  const { module, signal } = request;
  await helm.endOrphanedProcesses(signal, module.name);
  const release = await store.refresh(module.name, signal);
  if (release === undefined || !isPendingStatus(release.status)) return release;
  logger.warn("Recovering an unfinished release", { release: module.name, status: release.status });
  await store.markFailed(release, `${release.status} was interrupted`, signal);
  return store.get(module.name);
}
