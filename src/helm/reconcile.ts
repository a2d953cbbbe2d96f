/** Brings one release to the module's chart and values. */

import { sleep } from "../lib/index.ts";
import { BrokenRecordError, HelmError } from "./binary/helm-errors.ts";
import type { UpgradeCall } from "./binary/helm.ts";
import { withHookWatch } from "./binary/hook-watch.ts";
import { ChartMovedError, isSame, withCall } from "./rendering.ts";
import { isUnfinished, type ReleaseDecision } from "./decide.ts";
import { decisionOn, examine, labelsOf } from "./examine.ts";
import type { Reconciler, Reconciliation, ReconcileRequest, ReleaseOutcome } from "./examine.ts";
import type { Rendered } from "./manifest/manifest.ts";
import { isTaken, keepExisting, spareInUpgrade, takeOver } from "./ownership.ts";
import { LABELS, type ReleaseMeta } from "./release/revisions.ts";
import { secretOf } from "./release/release-store.ts";
import { restoreObjects } from "./live-objects.ts";
import { hasNoWayBack, type Refusal } from "./rollback/memory.ts";
import { countFailure, describeRefusal, markGood, nextOf, rollBack } from "./rollback/roll-back.ts";

type Result = Omit<ReleaseOutcome, "release">;
type Done = Omit<Result, "recovered">;

/** A chart that is changed just then is looked at again, so often and after this time. */
const LOOKS = 10;
const CALM_MS = 500;

/**
 * Compares, and does as little as possible: nothing for equal inputs, new labels for an equal manifest, else an
 * upgrade. Missing objects of a release that is not upgraded are restored.
 */
export async function reconcileRelease(tools: Reconciler, request: ReconcileRequest): Promise<Result> {
  for (let look = 1; ; look++) {
    try {
      return await reconcileOnce(tools, request);
    } catch (error) {
      if (!(error instanceof ChartMovedError) || look === LOOKS) throw error;
    }
    await sleep(tools.clock, CALM_MS, request.signal);
  }
}

async function reconcileOnce(tools: Reconciler, request: ReconcileRequest): Promise<Result> {
  const { reconciliation, decision } = await examine(tools, request);
  tools.logger.debug("Decided on a release", { release: request.module.name, ...decision });
  const done = await act(reconciliation, decision);
  const result = withWayBack(reconciliation, { ...done, recovered: decision.act === "recover" });
  const { release } = reconciliation;
  const { absent = [], signal } = request;
  const stays = result.action === "unchanged" || result.action === "labelled";
  if (!stays || absent.length === 0 || release === undefined) return result;
  await restoreObjects(tools, { release, absent, signal });
  return { ...result, action: "restored" };
}

/** Tells of a release that is not healthy in time, and would go back. */
function withWayBack({ tools, request, policy }: Reconciliation, result: Result): Result {
  const isRejected = policy !== undefined && request.ailing?.status === "False";
  return isRejected && hasNoWayBack(tools.store.revisions(request.module.name))
    ? { ...result, hasNoWayBack: true }
    : result;
}

async function act(reconciliation: Reconciliation, decision: ReleaseDecision): Promise<Done> {
  switch (decision.act) {
    case "nothing":
      return { action: "unchanged" };
    case "install":
    case "upgrade":
      return upgrade(reconciliation);
    case "recover":
      return recovered({ ...reconciliation, release: await recover(reconciliation) });
    case "compare":
      return compare(reconciliation);
    case "stay":
      return { action: "unchanged", refused: await describeRefusal(reconciliation, decision.refusal) };
    case "rollback":
      return goBack(reconciliation, decision.refusal);
  }
}

/** A rollback that was interrupted is done anew. */
function recovered(reconciliation: Reconciliation): Promise<Done> {
  const decision = decisionOn(reconciliation);
  return decision.act === "rollback" ? goBack(reconciliation, decision.refusal) : upgrade(reconciliation);
}

async function goBack(reconciliation: Reconciliation, refusal: Refusal): Promise<Done> {
  await rollBack(reconciliation, refusal);
  return { action: "rolledBack", refused: await describeRefusal(reconciliation, refusal) };
}

/** Ends what an earlier operator process left running, then marks the record failed, so that helm can go on. */
async function recover({ tools, request }: Reconciliation): Promise<ReleaseMeta | undefined> {
  const { helm, store, logger } = tools;
  const { module, signal } = request;
  await helm.endLeftOver(signal, module.name);
  const release = await store.refresh(module.name, signal);
  if (release === undefined || !isUnfinished(release.status)) return release;
  logger.warn("Recovering an unfinished release", { release: module.name, status: release.status });
  await store.markFailed(release, `${release.status} was interrupted`, signal);
  return store.get(module.name);
}

async function compare(reconciliation: Reconciliation): Promise<Done> {
  const { release, tools } = reconciliation;
  if (release === undefined) return upgrade(reconciliation);
  const rendered = await tools.render(reconciliation);
  if (await isSame(tools, release, rendered))
    return { action: await relabel(reconciliation, release, rendered.checksum) };
  return upgrade(reconciliation, rendered);
}

async function relabel(
  reconciliation: Reconciliation,
  release: ReleaseMeta,
  manifest: string,
): Promise<Result["action"]> {
  const labels = labelsOf(reconciliation, manifest, false);
  const isOwed = (key: string): boolean => release.labels[key] !== labels[key];
  if (!Object.keys(labels).some(isOwed)) return "unchanged";
  const { store, lateLabels } = reconciliation.tools;
  tellAdoption(reconciliation);
  // Whose release it is must be on the server; the other labels only save a later rendering, and a reload of many
  // modules does not wait for them.
  if (isOwed(LABELS.managedBy)) await store.label(release, labels, reconciliation.request.signal);
  else {
    store.assume(release, labels);
    lateLabels.owe(release.name);
  }
  return "labelled";
}

/** `rendered` is what the chart makes, where it was rendered already. */
function upgrade(reconciliation: Reconciliation, rendered?: Rendered): Promise<Done> {
  const { release } = reconciliation;
  return withCall(reconciliation, async (call) => {
    tellAdoption(reconciliation);
    await markGood(reconciliation);
    const { historyMax, labels } = nextOf(reconciliation);
    const all = { ...labels, ...labelsOf(reconciliation, rendered?.checksum, release === undefined) };
    try {
      await watched(reconciliation, () =>
        install(reconciliation, { ...call, labels: all, historyMax }, rendered),
      );
    } catch (error) {
      return goBack(reconciliation, await countFailure(reconciliation, error));
    }
    const { store, lateLabels } = reconciliation.tools;
    const { name } = reconciliation.request.module;
    await store.learn(name, (release?.revision ?? 0) + 1);
    if (rendered === undefined) lateLabels.owe(name);
    return { action: release === undefined || release.status === "uninstalled" ? "installed" : "upgraded" };
  });
}

/** After a failure too the record is read. That cannot be cancelled, since what follows depends on it. */
async function watched({ tools, request }: Reconciliation, work: () => Promise<void>): Promise<void> {
  const { store, clock } = tools;
  const { module, signal, onWait } = request;
  try {
    await withHookWatch({ store, clock, release: module.name, signal, onWait }, work);
  } catch (error) {
    await store.refresh(module.name);
    throw error;
  }
}

async function install(
  reconciliation: Reconciliation,
  call: UpgradeCall,
  rendered: Rendered | undefined,
): Promise<void> {
  const { tools, request } = reconciliation;
  await keepExisting(reconciliation, call, rendered?.objects);
  const made = rendered?.objects ?? (await madeBefore(reconciliation));
  await spareInUpgrade(tools, call.release, { made, signal: request.signal });
  await upgradeOrMend(reconciliation, call);
}

/** Another try with equal inputs renders the same, unless templates use `lookup`. */
async function madeBefore({
  tools,
  request,
  chart,
  inputs,
}: Reconciliation): Promise<Rendered["objects"] | undefined> {
  const release = tools.store.get(request.module.name);
  if (release?.labels[LABELS.inputs] !== inputs || chart.reach.lookup) return undefined;
  return (await tools.store.summary(release)).objects;
}

function tellAdoption({ origin, tools, request }: Reconciliation): void {
  if (origin !== "hand") return;
  const release = request.module.name;
  tools.logger.warn("A release that somebody made with helm is taken over", { release });
  tools.recorder?.adopted(release);
}

/** helm has no codes for these: no revision was ever deployed, so it cannot upgrade in place. */
const REFUSED = "has no deployed releases";
/** The record is unfinished after all: what a helm sent just before its end may arrive after it. */
const BUSY = ["another operation ", " is in progress"];
/** The Secret of a revision is there, but helm does not take it for one. */
const UNSEEN = ["release: already exists", "no revision for release"];

async function upgradeOrMend(reconciliation: Reconciliation, call: UpgradeCall): Promise<void> {
  const { upgradeInstall } = reconciliation.tools;
  try {
    await upgradeInstall(call);
  } catch (error) {
    if (isTaken(error)) return takeOver(reconciliation, call, error);
    if (!(error instanceof HelmError) || !(await mend(reconciliation, error.result.stderr))) throw error;
    await upgradeInstall({ ...call, takeOwnership: true });
  }
}

/** True when helm's complaint about the records of a release was put right. */
async function mend(reconciliation: Reconciliation, complaint: string): Promise<boolean> {
  const { store, logger } = reconciliation.tools;
  const { module, signal } = reconciliation.request;
  if (BUSY.every((part) => complaint.includes(part))) {
    await recover(reconciliation);
    return true;
  }
  if (UNSEEN.some((words) => complaint.includes(words))) throw await unseen(reconciliation);
  if (!complaint.includes(REFUSED)) return false;
  logger.warn("helm refuses the record of a failed release; removing it", { release: module.name });
  await store.forget(module.name, signal);
  return true;
}

/** Which Secret helm does not take for a revision. Throws BrokenRecordError where it is one that cannot be read. */
async function unseen({ tools, request }: Reconciliation): Promise<Error> {
  const { name } = request.module;
  const newest = await tools.store.refresh(name, request.signal);
  if (newest !== undefined) await tools.store.record(newest, request.signal);
  const secret = secretOf(name, (newest?.revision ?? 0) + 1);
  return new BrokenRecordError(secret, "it is in helm's way, without helm's labels or with wrong ones");
}
