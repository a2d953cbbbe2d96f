/** Installs or upgrades a release with helm, and repairs its records after known errors of helm. */

import { UnusableChartError } from "./chart/chart.ts";
import { ownCrdIn } from "./crds/read-crds.ts";
import { BrokenRecordError, HelmError } from "./binary/helm-errors.ts";
import type { UpgradeOptions } from "./binary/helm.ts";
import { documentsOf, hookObjects, objectsOf, type Rendered } from "./manifest/manifest.ts";
import { claimExisting, isTaken } from "./objects/ownership.ts";
import { claimHookLeftovers, guardHookObjects, type HookRun } from "./objects/hook-objects.ts";
import { retainInUpgrade } from "./objects/retain.ts";
import { comparedRevisions, isUnfinished, LABELS, secretOf, type ReleaseMeta } from "./release/revisions.ts";
import { manifestsOf } from "./rendering.ts";
import type { Reconciliation } from "./types.ts";

/** How often records are repaired in one run. A killed helm may change its record more than once after its end was requested. */
const MOST_REPAIRS = 3;

/** Retains the objects that must stay, then installs or upgrades with helm. */
export async function install(
  reconciliation: Reconciliation,
  options: UpgradeOptions,
  rendered: Rendered | undefined,
): Promise<void> {
  const { tools, request } = reconciliation;
  const made = rendered ?? (await previousRendering(reconciliation));
  const { objects, hooks } = made ?? (await contentNow(reconciliation, options));
  const problem = ownCrdIn([...objects, ...hooks.map(({ ref }) => ref)], request.module.chartDir);
  if (problem !== undefined) throw new UnusableChartError(problem);
  await retainInUpgrade(tools, options.release, { made: made?.objects, signal: request.signal });
  for (let repairs = 0; ; repairs += 1) {
    try {
      return await upgrade();
    } catch (error) {
      if (repairs === MOST_REPAIRS || !(error instanceof HelmError)) throw error;
      if (!(await repairRecords(reconciliation, error.result.stderr))) throw error;
    }
  }

  async function upgrade(): Promise<void> {
    await guardHookObjects(tools, request, { verb: verbOf(reconciliation), hooks });
    await upgradeOrClaim(reconciliation, options);
  }
}

/** Objects and hooks of the chart. Renders it only if it may have hooks or definitions of kinds, else nothing is listed. */
async function contentNow(
  reconciliation: Reconciliation,
  options: UpgradeOptions,
): Promise<Pick<Rendered, "objects" | "hooks">> {
  const { hooks, crds } = reconciliation.chart.reach;
  if (!hooks && !crds) return { objects: [], hooks: [] };
  const documents = (await manifestsOf(reconciliation, options)).flatMap(documentsOf);
  return { objects: objectsOf(documents), hooks: hookObjects(documents) };
}

/** `install` or `upgrade`, decided by the newest revision as helm does. */
function verbOf({ tools, request }: Reconciliation): HookRun["verb"] {
  const status = tools.store.get(request.module.name)?.status ?? "uninstalled";
  return status === "uninstalled" ? "install" : "upgrade";
}

/** The rendering of the last revision, which a retry with equal inputs may use again; undefined if the inputs differ or `lookup` is used. */
async function previousRendering({
  tools,
  request,
  chart,
  inputs,
}: Reconciliation): Promise<Rendered | undefined> {
  const release = tools.store.get(request.module.name);
  if (release?.labels[LABELS.inputs] !== inputs || chart.reach.lookup) return undefined;
  return tools.store.summary(release);
}

/** Part of helm's message, because helm has no exit codes: no revision was ever deployed, so helm cannot upgrade. */
const NOTHING_DEPLOYED = "has no deployed releases";
/** Parts of helm's message for a pending record. The last request of a killed helm may make a record pending late. */
const OPERATION_PENDING = ["another operation ", " is in progress"];
/** Parts of helm's messages for a Secret that exists but that helm does not recognize as a record. */
const UNRECOGNIZED_RECORD = ["release: already exists", "no revision for release"];

/**
 * Runs helm without `--take-ownership`. Where helm refuses existing objects, claims those that the release may adopt and
 * runs helm again. Throws as `claimExisting` and `Helm.upgradeInstall`.
 */
async function upgradeOrClaim(reconciliation: Reconciliation, options: UpgradeOptions): Promise<void> {
  const { helm, store } = reconciliation.tools;
  try {
    await helm.upgradeInstall(options);
  } catch (error) {
    if (!isTaken(error)) throw error;
    const compared = comparedRevisions(store.revisions(options.release)).at(-1);
    const recorded = compared === undefined ? [] : (await store.summary(compared)).objects;
    await claimExisting(reconciliation, options, { recorded, taken: error });
    await helm.upgradeInstall(options);
  }
}

/** Repairs the records of a release after a known error of helm; returns whether it did. */
async function repairRecords(reconciliation: Reconciliation, stderr: string): Promise<boolean> {
  const { tools, request } = reconciliation;
  const { store, logger } = tools;
  const { module, signal } = request;
  if (OPERATION_PENDING.every((part) => stderr.includes(part))) {
    await recover(reconciliation);
    return true;
  }
  if (UNRECOGNIZED_RECORD.some((text) => stderr.includes(text)))
    throw await unrecognizedRecordError(reconciliation);
  if (!stderr.includes(NOTHING_DEPLOYED)) return false;
  logger.warn("helm refuses the record of a failed release; removing it", { release: module.name });
  await claimHookLeftovers(tools, module.name);
  await store.forget(module.name, signal);
  return true;
}

/** An error that names the Secret that helm does not recognize. Throws BrokenRecordError where it is unreadable. */
async function unrecognizedRecordError({ tools, request }: Reconciliation): Promise<Error> {
  const { name } = request.module;
  const newest = await tools.store.refresh(name, request.signal);
  if (newest !== undefined) await tools.store.record(newest, request.signal);
  const secret = secretOf(name, (newest?.revision ?? 0) + 1);
  return new BrokenRecordError(secret, "it blocks helm, because it lacks helm's labels or has wrong ones");
}

/** Ends orphaned helm processes, then marks the pending revision failed, so that helm accepts it. */
export async function recover({ tools, request }: Reconciliation): Promise<ReleaseMeta | undefined> {
  const { helm, store, logger } = tools;
  const { module, signal } = request;
  await helm.endLeftOver(signal, module.name);
  const release = await store.refresh(module.name, signal);
  if (release === undefined || !isUnfinished(release.status)) return release;
  logger.warn("Recovering an unfinished release", { release: module.name, status: release.status });
  await store.markFailed(release, `${release.status} was interrupted`, signal);
  return store.get(module.name);
}
