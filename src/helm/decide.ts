/**
 * Decides what a run does about a release (docs/reference/modules.md, "The chart"). The *release inputs* are all that a release is made from; its
 * labels have their digest. A *rejection* is the reason not to apply the current inputs, with the rejected and the good revision. Decisions
 * besides helm's verbs: `compare` renders the chart, because only the manifest shows whether the release has to change; `keep` changes
 * nothing but labels that are not up to date; `label` updates the labels only; `recover` marks a release failed that a killed helm left
 * pending, then decides again, and upgrades it or rolls it back; `stay` leaves a rolled back release.
 */

import { provesBroken } from "../kube/health/index.ts";
import { digest } from "../base/index.ts";
import { objectOf, readJson, retriesOf } from "../base/model/index.ts";
import { requireAdoptableRelease } from "./release/adoption.ts";
import { computeInputsDigest, addReachOfValues } from "./chart/chart.ts";
import { differsOnlyByDownApis, isIncomplete } from "./down-apis.ts";
import type { RenderedChart } from "./manifest/manifest.ts";
import { isPending, RELEASE_LABELS, type ReleaseMeta } from "./release/revisions.ts";
import { hasSameManifest, renderChart } from "./rendering.ts";
import {
  findRejectionByUser,
  findRejectionOfFailed,
  findRejectionOfUnhealthy,
} from "./rollback/revision-labels.ts";
import type { Reconciler, ReconcileRequest, Reconciliation, Rejection } from "./types.ts";

export interface ReleasePlan {
  readonly reconciliation: Reconciliation;
  readonly decision: PlannedDecision;
}

/**
 * Examines a release and decides what a run does about it. Where the inputs do not suffice, it renders the chart and compares the
 * manifests. If they are equal, the run only updates the labels, so that the next run need not render. Changes nothing. Throws
 * ForeignReleaseError, HelmError where the chart cannot be rendered, and DownApiError.
 */
export async function planRelease(
  tools: Reconciler,
  request: ReconcileRequest,
  render: Reconciler["render"] = renderChart,
): Promise<ReleasePlan> {
  const reconciliation = await collectFacts(tools, request);
  const decision = decideBeforeRendering(reconciliation);
  if (decision.act !== "compare") return { reconciliation, decision };
  const { release } = reconciliation;
  const rendered = await render(reconciliation);
  const isEqual = release !== undefined && (await hasSameManifest(tools, release, rendered));
  // An upgrade would delete what the chart renders only for an API that is down, and labels would say that a release without it is complete.
  const staysAsItIs = isEqual
    ? await isIncomplete(reconciliation)
    : await differsOnlyByDownApis(reconciliation, rendered);
  if (staysAsItIs) return { reconciliation, decision: { act: "keep" } };
  const why = `${decision.why}; the manifest ${isEqual ? "stays the same" : "changes"}`;
  return {
    reconciliation,
    decision: isEqual ? { act: "label", why, rendered } : { act: "upgrade", why, rendered },
  };
}

/**
 * Reads the facts for a decision about a release: its newest revision, its owner, the chart, and digests. `inputsDigest` covers all
 * inputs; `userInputsDigest` what users change, the chart and their values without changes by hooks. `contentDigest` omits the version
 * of helm, so that a rejected version stays rejected with another helm. Changes nothing in the cluster; may put a chart that is
 * missing back on disk. Throws ForeignReleaseError if the release belongs to another owner.
 */
export async function collectFacts(tools: Reconciler, request: ReconcileRequest): Promise<Reconciliation> {
  const { module } = request;
  const release = tools.store.get(module.name);
  const owner = release === undefined ? undefined : await requireAdoptableRelease(tools, release);
  await tools.restoreChart?.(module.chartDir);
  const chart = addReachOfValues(await tools.charts.read(module), request.values);
  const { namespace } = tools;
  const values = objectOf(readJson(request.values));
  const inputs = { module, namespace, chart, values, capabilities: tools.capabilities.digest };
  const inputsDigest = await computeInputsDigest({ ...inputs, helm: await tools.helm.getVersion() });
  const recordedDigest = release?.labels[RELEASE_LABELS.inputs];
  // Version 0.2 computed it with the helm binary, and with all kinds of the server.
  const formerInputs = {
    ...inputs,
    helm: tools.helm.getBinaryId(),
    capabilities: () => tools.capabilities.digest(),
  };
  const hasFormerDigest =
    recordedDigest !== undefined &&
    recordedDigest !== inputsDigest &&
    recordedDigest === (await computeInputsDigest(formerInputs));
  const userInputsDigest = digest(chart.digest, request.userValuesDigest?.() ?? "");
  const contentDigest = await computeInputsDigest({ ...inputs, helm: "" });
  // Without a policy, failed upgrades are retried and never rolled back.
  const retries = retriesOf(module, tools.onFailure);
  const policy = retries === undefined ? undefined : { retries, userInputsDigest, contentDigest };
  return { tools, request, release, chart, inputsDigest, hasFormerDigest, userInputsDigest, policy, owner };
}

/**
 * Decides about a release by its labels and the digest of its inputs, without rendering the chart. The result is `compare`
 * where only the rendered manifest shows whether the release has to change.
 */
export function decideBeforeRendering(reconciliation: Reconciliation): ReleaseDecision {
  const { tools, release, chart, inputsDigest, hasFormerDigest } = reconciliation;
  const { managedBy } = tools;
  const rejection = findRejection(reconciliation);
  // What differs between two renderings with random results says nothing about the objects that templates look up.
  const usesOnlyLookup = chart.reach.lookup && !chart.reach.random;
  return decide({ release, inputsDigest, hasFormerDigest, managedBy, usesOnlyLookup, rejection });
}

/**
 * The reason not to apply the current inputs: a user has rolled them back, an upgrade with them has failed, or their objects
 * are unhealthy. Returns undefined if the inputs may be applied, or if a user requests this run.
 */
function findRejection(reconciliation: Reconciliation): Rejection | undefined {
  const { tools, request, inputsDigest, userInputsDigest, policy } = reconciliation;
  const { module, isRequested = false, unhealthy } = request;
  if (isRequested) return undefined;
  const revisions = tools.store.revisions(module.name);
  const byUser = findRejectionByUser(revisions, userInputsDigest);
  // Without a policy, the operator itself rejects nothing.
  if (byUser !== undefined || policy === undefined) return byUser;
  const ofFailed = findRejectionOfFailed(revisions, inputsDigest, policy);
  if (ofFailed !== undefined) return ofFailed;
  return provesBroken(unhealthy) ? findRejectionOfUnhealthy(revisions, inputsDigest) : undefined;
}

/** What a run does about a release, after the chart has been rendered where that was necessary. */
type PlannedDecision =
  | Exclude<ReleaseDecision, { readonly act: "compare" }>
  | {
      readonly act: "label";
      readonly why: string;
      readonly rendered: RenderedChart;
    };

/** What a run does about a release, where `compare` means that the rendered manifest decides. */
export type ReleaseDecision =
  | { readonly act: "keep" }
  | { readonly act: "install" | "upgrade"; readonly why: string; readonly rendered?: RenderedChart }
  | { readonly act: "recover"; readonly why: string }
  | { readonly act: "compare"; readonly why: string }
  | { readonly act: "rollback" | "stay"; readonly why: string; readonly rejection: Rejection };

export interface DecisionInput {
  readonly release: Pick<ReleaseMeta, "status" | "labels"> | undefined;
  readonly inputsDigest: string;
  /** The release has the digest of the same inputs as version 0.2 computed it. */
  readonly hasFormerDigest?: boolean;
  readonly managedBy: string;
  /** Templates use `lookup`, and no functions with random results. */
  readonly usesOnlyLookup: boolean;
  /** Why these inputs are not applied. */
  readonly rejection?: Rejection | undefined;
}

/**
 * Decides what a run does about a release that this operator owns or may adopt; the first rule that applies counts. Each decision but
 * `keep` has its reason for the log. `computeInputsDigest` lists the inputs.
 */
export function decide(input: DecisionInput): ReleaseDecision {
  const { release, inputsDigest, hasFormerDigest = false, managedBy } = input;
  if (release === undefined) return { act: "install", why: "there is no release" };
  const { status, labels } = release;
  if (status === "uninstalled") return { act: "install", why: "the release was uninstalled" };
  if (isPending(release)) return { act: "recover", why: `the release is ${status}` };
  const { rejection } = input;
  if (rejection !== undefined)
    return {
      act: rejection.isRolledBack ? "stay" : "rollback",
      why: "these inputs were rejected",
      rejection,
    };
  if (status !== "deployed") return { act: "upgrade", why: `the release is ${status}` };
  if (labels[RELEASE_LABELS.managedBy] !== managedBy)
    return { act: "compare", why: "the release has no labels of ours" };
  if (labels[RELEASE_LABELS.inputs] !== inputsDigest && !hasFormerDigest)
    return { act: "compare", why: "inputs changed" };
  // The digest of the inputs does not cover the objects that templates look up.
  return input.usesOnlyLookup ? { act: "compare", why: "templates use lookup" } : { act: "keep" };
}
