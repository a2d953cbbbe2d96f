/** Brings one release to the module's chart and values. */

import { provesBroken } from "../health/index.ts";
import { sleep } from "../lib/index.ts";
import { artifactLabels, decisionOn, labelsOf, planRelease, type ReleasePlan } from "./decide.ts";
import { withHookWatch } from "./hook-watch.ts";
import { restoreObjects } from "./objects/live-objects.ts";
import type { Rendered } from "./manifest/manifest.ts";
import { LABELS, type ReleaseMeta } from "./release/revisions.ts";
import { ChartMovedError, withUpgradeOptions } from "./rendering.ts";
import { countFailure, describeRefusal, hasNoWayBack, markGood, nextOf, rollBack } from "./rollback.ts";
import type { Reconciler, ReconcileRequest, Reconciliation, Refusal, ReleaseOutcome } from "./types.ts";
import { install, recover } from "./upgrade.ts";

type Result = Omit<ReleaseOutcome, "release">;
type Done = Omit<Result, "recovered">;

/** A chart that changes meanwhile is examined again, at most so often and after this time. */
const CHECKS = 10;
const RECHECK_MS = 500;

/**
 * Reconciles a release with as little work as possible: nothing for equal inputs, new labels for an equal manifest,
 * otherwise an upgrade. Missing objects of a release that is not upgraded are restored.
 */
export async function reconcileRelease(tools: Reconciler, request: ReconcileRequest): Promise<Result> {
  for (let check = 1; ; check++) {
    try {
      return await reconcileOnce(tools, request);
    } catch (error) {
      if (!(error instanceof ChartMovedError) || check === CHECKS) throw error;
    }
    await sleep(tools.clock, RECHECK_MS, request.signal);
  }
}

/** One attempt: decides, acts, and restores missing objects if the release itself did not change. */
async function reconcileOnce(tools: Reconciler, request: ReconcileRequest): Promise<Result> {
  const plan = await planRelease(tools, request, tools.render);
  const { reconciliation, decision } = plan;
  const why = "why" in decision ? decision.why : undefined;
  tools.logger.debug("Decided on a release", { release: request.module.name, act: decision.act, why });
  const done = await act(plan);
  const result = withWayBack(reconciliation, { ...done, recovered: decision.act === "recover" });
  const { release } = reconciliation;
  const { absent = [], signal } = request;
  const stays = result.action === "unchanged" || result.action === "labelled";
  if (!stays || absent.length === 0 || release === undefined) return result;
  await restoreObjects(tools, { release, absent, signal });
  return { ...result, action: "restored" };
}

/** Adds to the result that a broken release has no good revision for a rollback. */
function withWayBack({ tools, request, policy }: Reconciliation, result: Result): Result {
  const goesBack = policy !== undefined && provesBroken(request.unhealthy);
  return goesBack && hasNoWayBack(tools.store.revisions(request.module.name))
    ? { ...result, hasNoWayBack: true }
    : result;
}

/** Does what was decided about a release. */
async function act({ reconciliation, decision }: ReleasePlan): Promise<Done> {
  switch (decision.act) {
    case "nothing":
      recordArtifact(reconciliation);
      return { action: "unchanged" };
    case "label":
      return { action: await relabel(reconciliation, decision.release, decision.rendered.checksum) };
    case "install":
    case "upgrade":
      return upgrade(reconciliation, decision.rendered);
    case "recover":
      return recovered({ ...reconciliation, release: await recover(reconciliation) });
    case "stay":
      return { action: "unchanged", refused: await describeRefusal(reconciliation, decision.refusal) };
    case "rollback":
      return goBack(reconciliation, decision.refusal);
  }
}

/** Repeats an interrupted rollback, otherwise upgrades. */
function recovered(reconciliation: Reconciliation): Promise<Done> {
  const decision = decisionOn(reconciliation);
  return decision.act === "rollback" ? goBack(reconciliation, decision.refusal) : upgrade(reconciliation);
}

/** Rolls the release back, and describes why. */
async function goBack(reconciliation: Reconciliation, refusal: Refusal): Promise<Done> {
  await rollBack(reconciliation, refusal);
  return { action: "rolledBack", refused: await describeRefusal(reconciliation, refusal) };
}

/** Updates the labels of a release whose manifest is equal. Changes nothing if all labels are equal too. */
async function relabel(
  reconciliation: Reconciliation,
  release: ReleaseMeta,
  manifest: string,
): Promise<Result["action"]> {
  const labels = labelsOf(reconciliation, manifest, false);
  const isDue = (key: string): boolean => release.labels[key] !== labels[key];
  if (!Object.keys(labels).some(isDue)) return "unchanged";
  const { store, lateLabels } = reconciliation.tools;
  reportAdoption(reconciliation);
  // The owner must be on the server at once. The other labels only save a later rendering, so a converge of many modules
  // does not wait for them.
  if (isDue(LABELS.managedBy)) await store.label(release, labels, reconciliation.request.signal);
  else {
    store.assume(release, labels);
    lateLabels.schedule(release.name);
  }
  return "labelled";
}

/** Notes that the release is made from another artifact now, whose chart is the same: its hooks may differ. */
function recordArtifact({ tools, request, release }: Reconciliation): void {
  const labels = artifactLabels({ request });
  if (release === undefined || Object.entries(labels).every(([key, value]) => release.labels[key] === value))
    return;
  tools.store.assume(release, { ...release.assumed, ...labels });
  tools.lateLabels.schedule(release.name);
}

/** Upgrades a release; `rendered` is the chart's rendering, if there is one already. */
function upgrade(reconciliation: Reconciliation, rendered?: Rendered): Promise<Done> {
  const { release } = reconciliation;
  return withUpgradeOptions(reconciliation, async (options) => {
    reportAdoption(reconciliation);
    await markGood(reconciliation);
    const { historyMax, labels } = nextOf(reconciliation);
    const all = { ...labels, ...labelsOf(reconciliation, rendered?.checksum, release === undefined) };
    try {
      await watched(reconciliation, () =>
        install(reconciliation, { ...options, labels: all, historyMax }, rendered),
      );
    } catch (error) {
      return goBack(reconciliation, await countFailure(reconciliation, error));
    }
    const { store, lateLabels } = reconciliation.tools;
    const { name } = reconciliation.request.module;
    await store.learn(name, (release?.revision ?? 0) + 1);
    store.confirm(name, "upgrade", release);
    if (rendered === undefined) lateLabels.schedule(name);
    return { action: release === undefined || release.status === "uninstalled" ? "installed" : "upgraded" };
  });
}

/** Runs helm and reads the record also after a failure. The read cannot be cancelled, because the next decision depends on it. */
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

/** Logs and counts a release that someone installed with helm and that this operator now takes over. */
function reportAdoption({ origin, tools, request }: Reconciliation): void {
  if (origin !== "manual") return;
  const release = request.module.name;
  tools.logger.warn("Adopting a release that was installed with helm", { release });
  tools.recorder?.adopted(release);
}
