/** Brings one release to the module's chart and values. */

import { oneLine } from "../lib/index.ts";
import type { Clock, Logger } from "../lib/index.ts";
import { isJsonObject } from "../model/index.ts";
import type { JsonObject } from "../model/index.ts";
import type { Capabilities } from "./chart/capabilities.ts";
import type { Chart, ChartReader } from "./chart/chart.ts";
import { originToWorkOn } from "./ownership/adopt.ts";
import type { AdoptPolicy, Origin } from "./ownership/adopt.ts";
import { decide, isUnfinished } from "./decide.ts";
import type { Decision } from "./decide.ts";
import { BrokenRecordError, HelmError } from "./binary/helm-errors.ts";
import type { Helm, UpgradeCall } from "./binary/helm.ts";
import { withHookWatch } from "./binary/hook-watch.ts";
import { inputsDigest, withValueTemplates } from "./chart/inputs.ts";
import { LABELS } from "./release/labels.ts";
import { keepExisting } from "./ownership/keep.ts";
import { endLiveHelms } from "./binary/live-helms.ts";
import type { LookTools } from "./ownership/outliving.ts";
import { look, storedChecksum, withCall } from "./rendering.ts";
import type { Comparison, Rendered } from "./rendering.ts";
import { secretOf } from "./release/release-store.ts";
import type { ReleaseMeta } from "./release/release-store.ts";
import type { ReconcileRequest, ReleaseOutcome } from "./release/releases.ts";
import { restoreObjects } from "./restore.ts";
import type { RestoreTools } from "./restore.ts";
import { spareInUpgrade } from "./ownership/spare.ts";
import { isTaken, takeOver } from "./ownership/take-over.ts";

/** A manifest that was rendered before its turn, and the digest of its inputs. */
export interface PreparedManifest extends Rendered {
  readonly inputs: string;
}

/** A helm that was started and waits for its turn. */
export interface WaitingInstall {
  /** Lets it install, and resolves when it is done. Throws as `Helm.upgradeInstall`. */
  go(): Promise<void>;
}

/** What is needed to work on a release. */
export interface Reconciler extends LookTools, RestoreTools {
  readonly helm: Helm;
  readonly charts: ChartReader;
  readonly capabilities: Capabilities;
  readonly managedBy: string;
  readonly tmpDir: string;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly adopt: AdoptPolicy;
  /** Whether a release is this operator's. */
  readonly isOurs: (release: string) => boolean;
  /** Called with a release that somebody made with helm and that a module takes over. */
  readonly adopting: (release: string) => void;
  /** Called with objects that are taken over from other releases. */
  readonly tookOver: (release: string, objects: readonly string[]) => void;
  /** Notes a release whose labels are still to be written. */
  readonly oweLabel: (release: string) => void;
  /** Modules of the reload under way that are about to make objects, by `keyIn`. */
  readonly makers: (signal?: AbortSignal) => Promise<ReadonlyMap<string, string>>;
  /** What was rendered before its turn, if anything. */
  readonly ahead?: (module: string, signal: AbortSignal) => Promise<PreparedManifest | undefined>;
  /** A helm that was started before its turn and waits to install just this, if there is one. */
  readonly waiting?: (step: Reconciliation) => WaitingInstall | undefined;
}

type Result = Pick<ReleaseOutcome, "action" | "recovered">;

/** The work on one release that is under way. */
export interface Reconciliation {
  readonly tools: Reconciler;
  readonly request: ReconcileRequest;
  readonly chart: Chart;
  readonly inputs: string;
  /** Who made the release that is there. */
  readonly origin: Origin | undefined;
}

/**
 * Compares, and does as little as possible: nothing for equal inputs, new labels for an equal manifest, else an
 * upgrade. Missing objects of a release that is not upgraded are restored.
 */
export async function reconcileRelease(tools: Reconciler, request: ReconcileRequest): Promise<Result> {
  const { step, release, decision } = await examine(tools, request);
  tools.logger.debug("Decided on a release", { release: request.module.name, ...decision });
  const result = await act(step, release, decision);
  const { absent = [], signal } = request;
  const stays = result.action === "unchanged" || result.action === "labelled";
  if (!stays || absent.length === 0 || release === undefined) return result;
  await restoreObjects(tools, { release, absent, signal });
  return { ...result, action: "restored" };
}

async function act(
  step: Reconciliation,
  release: ReleaseMeta | undefined,
  decision: Decision,
): Promise<Result> {
  switch (decision.act) {
    case "nothing":
      return { action: "unchanged", recovered: false };
    case "install":
    case "upgrade":
      return { action: await upgrade(step, release), recovered: false };
    case "recover":
      return { action: await upgrade(step, await recover(step)), recovered: true };
    case "compare":
      return { action: await compare(step, release), recovered: false };
  }
}

/** Looks at a release and decides; changes nothing. Throws ForeignReleaseError. */
export async function examine(
  tools: Reconciler,
  request: ReconcileRequest,
): Promise<{ step: Reconciliation; release: ReleaseMeta | undefined; decision: Decision }> {
  const { module } = request;
  const release = tools.store.get(module.name);
  const origin = release === undefined ? undefined : await originToWorkOn(tools, release);
  const chart = withValueTemplates(tools.charts.read(module), request.values);
  const inputs = await digestInputs(tools, request, chart);
  const { managedBy } = tools;
  const decision = decide({ release, inputs, managedBy, lookup: chart.reach.lookup });
  return { step: { tools, request, chart, inputs, origin }, release, decision };
}

function digestInputs(tools: Reconciler, request: ReconcileRequest, chart: Chart): Promise<string> {
  const { namespace, helm, capabilities } = tools;
  return inputsDigest({
    module: request.module,
    namespace,
    chart,
    values: parseValues(request.values),
    helm: helm.identity(),
    capabilities: () => capabilities.digest(),
  });
}

function parseValues(text: string): JsonObject {
  const values: unknown = JSON.parse(text);
  return isJsonObject(values) ? values : {};
}

/** Ends what an earlier operator process left running, then marks the record failed, so that helm can go on. */
async function recover({ tools, request }: Reconciliation): Promise<ReleaseMeta | undefined> {
  const { store, managedBy, clock, logger } = tools;
  const { module, signal } = request;
  await endLiveHelms(`${managedBy}/${module.name}`, clock, signal);
  const release = await store.refresh(module.name, signal);
  if (release === undefined || !isUnfinished(release.status)) return release;
  logger.warn("Recovering an unfinished release", { release: module.name, status: release.status });
  await store.markFailed(release, `${release.status} was interrupted`, signal);
  return store.get(module.name);
}

async function compare(step: Reconciliation, release: ReleaseMeta | undefined): Promise<Result["action"]> {
  if (release === undefined) return upgrade(step, release);
  const ahead = await renderedAhead(step, release);
  if (ahead?.same === true) return relabel(step, release, ahead.rendered.checksum);
  return withCall(step, release, async (call) => {
    const { rendered, same } = ahead ?? (await look(step, release, call));
    if (same) return relabel(step, release, rendered.checksum);
    return perform(step, release, upgrading(step, call, rendered));
  });
}

/** What was rendered before its turn, from exactly these inputs. */
async function renderedAhead(step: Reconciliation, release: ReleaseMeta): Promise<Comparison | undefined> {
  const { tools, request, inputs } = step;
  const made = await tools.ahead?.(request.module.name, request.signal);
  if (made?.inputs !== inputs) return undefined;
  const stored = await storedChecksum(step, release);
  return stored === undefined ? undefined : { rendered: made, same: made.checksum === stored };
}

async function relabel(
  step: Reconciliation,
  release: ReleaseMeta,
  manifest: string,
): Promise<Result["action"]> {
  const labels = labelsOf(step, manifest, false);
  const isOwed = (key: string): boolean => release.labels[key] !== labels[key];
  if (!Object.keys(labels).some(isOwed)) return "unchanged";
  const { store, oweLabel } = step.tools;
  tellAdoption(step);
  // Whose release it is must be on the server; the other labels only save a later rendering, and a reload of many
  // modules does not wait for them.
  if (isOwed(LABELS.managedBy)) await store.label(release, labels, step.request.signal);
  else {
    store.assume(release, labels);
    oweLabel(release.name);
  }
  return "labelled";
}

async function upgrade(step: Reconciliation, release: ReleaseMeta | undefined): Promise<Result["action"]> {
  const waiting = release === undefined ? step.tools.waiting?.(step) : undefined;
  if (waiting !== undefined)
    return perform(step, release, {
      helm: (labels) => goOrTakeOver(step, waiting, labels),
      manifest: undefined,
    });
  return withCall(step, release, (call) => perform(step, release, upgrading(step, call, undefined)));
}

/** The helm that waited was not allowed to take over objects of others. */
async function goOrTakeOver(
  step: Reconciliation,
  waiting: WaitingInstall,
  labels: UpgradeCall["labels"],
): Promise<void> {
  try {
    await waiting.go();
  } catch (error) {
    if (!isTaken(error)) throw error;
    await withCall(step, undefined, (call) => takeOver(step, call, { error, labels }));
  }
}

function upgrading(step: Reconciliation, call: UpgradeCall, rendered: Rendered | undefined): Performance {
  const helm = async (labels: UpgradeCall["labels"]): Promise<void> => {
    const { tools, request } = step;
    await keepExisting(step, call, rendered?.objects);
    const made = rendered?.objects ?? (await madeBefore(step));
    await spareInUpgrade(tools, call.release, { made, signal: request.signal });
    await upgradeOrMend(step, call, labels);
  };
  return { helm, manifest: rendered?.checksum };
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

interface Performance {
  readonly helm: (labels: UpgradeCall["labels"]) => Promise<void>;
  /** Checksum of what was rendered; undefined when nothing was. */
  readonly manifest: string | undefined;
}

async function perform(
  step: Reconciliation,
  release: ReleaseMeta | undefined,
  { helm, manifest }: Performance,
): Promise<Result["action"]> {
  const { store, clock } = step.tools;
  const { module, signal, onWait } = step.request;
  const { name } = module;
  tellAdoption(step);
  // The record is read also after a failure. Cannot be cancelled, since what follows depends on it.
  try {
    const labels = labelsOf(step, manifest, release === undefined);
    await withHookWatch({ store, clock, release: name, signal, onWait }, () => helm(labels));
  } catch (error) {
    await store.refresh(name);
    throw error;
  }
  await store.learn(name, (release?.revision ?? 0) + 1);
  if (manifest === undefined) step.tools.oweLabel(name);
  return release === undefined || release.status === "uninstalled" ? "installed" : "upgraded";
}

function tellAdoption({ origin, tools, request }: Reconciliation): void {
  if (origin === "hand") tools.adopting(request.module.name);
}

/**
 * Writes the label that was assumed, or the checksum of a new manifest: nothing waits for it, and nothing is lost
 * without it. Never fails.
 */
export async function writeLabels({ store, logger }: Reconciler, name: string): Promise<void> {
  try {
    const now = store.get(name);
    if (now === undefined) return;
    await store.label(now, now.assumed ?? { [LABELS.manifest]: (await store.summary(now)).checksum });
  } catch (error) {
    logger.debug("Labels were not written", { release: name, error: oneLine(error) });
  }
}

/** helm has no codes for these: no revision was ever deployed, so it cannot upgrade in place. */
const REFUSED = "has no deployed releases";
/** The record is unfinished after all: what a helm sent just before its end may arrive after it. */
const BUSY = ["another operation ", " is in progress"];
/** The Secret of a revision is there, but helm does not take it for one. */
const UNSEEN = ["release: already exists", "no revision for release"];

async function upgradeOrMend(
  step: Reconciliation,
  call: UpgradeCall,
  labels: UpgradeCall["labels"],
): Promise<void> {
  const { helm } = step.tools;
  try {
    await helm.upgradeInstall({ ...call, labels });
  } catch (error) {
    if (isTaken(error)) return takeOver(step, call, { error, labels });
    if (!(error instanceof HelmError) || !(await mend(step, error.result.stderr))) throw error;
    await helm.upgradeInstall({ ...call, labels, takeOwnership: true });
  }
}

/** True when helm's complaint about the records of a release was put right. */
async function mend(step: Reconciliation, complaint: string): Promise<boolean> {
  const { store, logger } = step.tools;
  const { module, signal } = step.request;
  if (BUSY.every((part) => complaint.includes(part))) {
    await recover(step);
    return true;
  }
  if (UNSEEN.some((words) => complaint.includes(words))) throw await unseen(step);
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

/** `null` removes the manifest label of the last revision; a new release has none. */
export function labelsOf(
  step: Reconciliation,
  manifest: string | undefined,
  isFirst: boolean,
): Record<string, string> {
  const { inputs, tools } = step;
  const known = manifest ?? (isFirst ? undefined : "null");
  const label = known === undefined ? {} : { [LABELS.manifest]: known };
  return { [LABELS.managedBy]: tools.managedBy, [LABELS.inputs]: inputs, ...label };
}
