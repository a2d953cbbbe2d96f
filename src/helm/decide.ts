/** Decides what a run does about a release (docs/reference/modules.md, "The chart"). */

import { provesBroken } from "../health/index.ts";
import { digest } from "../lib/index.ts";
import { objectOf } from "../model/index.ts";
import { checkedOrigin } from "./adoption.ts";
import { inputsDigest, withValueTemplates } from "./chart/chart.ts";
import type { Rendered } from "./manifest/manifest.ts";
import { artifactLabel, isUnfinished, LABELS, type ReleaseMeta } from "./release/revisions.ts";
import { isSameRendering, renderNow } from "./rendering.ts";
import { policyOf, rollbackRefusal, unhealthyRefusal } from "./rollback.ts";
import { refusalByHand } from "./rollback-by-hand.ts";
import type { Reconciler, ReconcileRequest, Reconciliation, Refusal } from "./types.ts";

/** The decision about a release, and the facts behind it. */
export interface ReleasePlan {
  readonly reconciliation: Reconciliation;
  readonly decision: PlannedDecision;
}

/**
 * Examines a release and decides what a run does about it. Where the inputs do not suffice, it renders the chart and
 * compares the manifests. Changes nothing. Throws ForeignReleaseError, and HelmError where the chart cannot be rendered.
 */
export async function planRelease(
  tools: Reconciler,
  request: ReconcileRequest,
  render: Reconciler["render"] = renderNow,
): Promise<ReleasePlan> {
  const reconciliation = await examine(tools, request);
  const decision = decisionOn(reconciliation);
  if (decision.act !== "compare") return { reconciliation, decision };
  const { release } = reconciliation;
  const rendered = await render(reconciliation);
  const isEqual = release !== undefined && (await isSameRendering(tools, release, rendered));
  const why = `${decision.why}; the manifest ${isEqual ? "stays the same" : "changes"}`;
  return {
    reconciliation,
    decision: isEqual ? { act: "label", why, release, rendered } : { act: "upgrade", why, rendered },
  };
}

/** Reads the facts for a decision about a release; changes nothing. Throws ForeignReleaseError. */
export async function examine(tools: Reconciler, request: ReconcileRequest): Promise<Reconciliation> {
  const { module } = request;
  const release = tools.store.get(module.name);
  const origin = release === undefined ? undefined : await checkedOrigin(tools, release);
  await tools.restoreChart?.(module.chartDir);
  const chart = withValueTemplates(tools.charts.read(module), request.values);
  const { namespace, capabilities } = tools;
  const values = objectOf(JSON.parse(request.values));
  const made = { module, namespace, chart, values, capabilities };
  const inputs = await inputsDigest({ ...made, helm: tools.helm.identity() });
  const given = digest(chart.digest, request.given?.() ?? "");
  const content = await inputsDigest({ ...made, helm: "" });
  const policy = policyOf(tools, module, { given, content });
  return { tools, request, release, chart, inputs, given, policy, origin };
}

/** The decision about a release, before anything is rendered. */
export function decisionOn(reconciliation: Reconciliation): ReleaseDecision {
  const { tools, release, chart, inputs } = reconciliation;
  const { managedBy } = tools;
  const refusal = refusalOf(reconciliation);
  return decide({ release, inputs, managedBy, lookup: chart.reach.lookup, refusal });
}

/** Why the current inputs are not applied; undefined if they may be, or if a user requests the run. */
function refusalOf({ tools, request, inputs, given, policy }: Reconciliation): Refusal | undefined {
  const { module, isRequested = false, unhealthy } = request;
  const revisions = tools.store.revisions(module.name);
  if (isRequested) return undefined;
  const byHand = refusalByHand(revisions, given);
  if (byHand !== undefined || policy === undefined) return byHand;
  return (
    rollbackRefusal(revisions, inputs, policy) ??
    (provesBroken(unhealthy) ? unhealthyRefusal(revisions, inputs) : undefined)
  );
}

/** What a run does about a release. */
type PlannedDecision =
  | Exclude<ReleaseDecision, { readonly act: "compare" }>
  /** The manifest is equal. */
  | {
      readonly act: "label";
      readonly why: string;
      readonly release: ReleaseMeta;
      readonly rendered: Rendered;
    };

/** What a run does about a release, where `compare` means that the rendered manifest decides. */
export type ReleaseDecision =
  | { readonly act: "nothing" }
  /** Straight to `helm upgrade --install`. */
  | { readonly act: "install" | "upgrade"; readonly why: string; readonly rendered?: Rendered }
  /** Mark the record failed, then upgrade. */
  | { readonly act: "recover"; readonly why: string }
  /** Render first; an equal manifest is only labelled. */
  | { readonly act: "compare"; readonly why: string }
  /** Roll back to the good revision, or stay there after a rollback. */
  | { readonly act: "rollback" | "stay"; readonly why: string; readonly refusal: Refusal };

/** The facts on which the decision depends. */
export interface DecisionInput {
  readonly release: Pick<ReleaseMeta, "status" | "labels"> | undefined;
  /** Digest of the current inputs. */
  readonly inputs: string;
  readonly managedBy: string;
  /** Templates use `lookup`. */
  readonly lookup: boolean;
  /** Why these inputs are not applied. */
  readonly refusal?: Refusal | undefined;
}

/**
 * Decides what a run does about a release with a chart that this operator owns or may adopt; the first rule that applies
 * counts. Inputs are the files of the chart, the section of the module, the globals that its templates can reach, name and
 * namespace, the helm binary, and the capabilities of the server where templates use them (`inputsDigest`).
 */
export function decide(input: DecisionInput): ReleaseDecision {
  const { release, inputs, managedBy } = input;
  if (release === undefined) return { act: "install", why: "there is no release" };
  const { status, labels } = release;
  if (status === "uninstalled") return { act: "install", why: "the release was uninstalled" };
  if (isUnfinished(status)) return { act: "recover", why: `the release is ${status}` };
  const { refusal } = input;
  if (refusal !== undefined)
    return { act: refusal.isOver ? "stay" : "rollback", why: "these inputs were rejected", refusal };
  if (status !== "deployed") return { act: "upgrade", why: `the release is ${status}` };
  if (labels[LABELS.managedBy] !== managedBy)
    return { act: "compare", why: "the release has no labels of ours" };
  if (labels[LABELS.inputs] !== inputs) return { act: "compare", why: "inputs changed" };
  return input.lookup ? { act: "compare", why: "templates use lookup" } : { act: "nothing" };
}

/** The label that names the artifact of a registry from which the module comes; none for other modules. */
export function artifactLabels({ request }: Pick<Reconciliation, "request">): Record<string, string> {
  const digest = request.module.origin?.digest;
  return digest === undefined ? {} : { [LABELS.artifact]: artifactLabel(digest) };
}

/** Labels of the next revision. `null` removes the manifest label, which helm copies from the last revision. */
export function labelsOf(
  reconciliation: Reconciliation,
  manifest: string | undefined,
  isFirst: boolean,
): Record<string, string> {
  const { inputs, tools, policy } = reconciliation;
  const labelValue = manifest ?? (isFirst ? undefined : "null");
  const manifestLabel = labelValue === undefined ? {} : { [LABELS.manifest]: labelValue };
  const policyLabels = policy && { [LABELS.given]: policy.given, [LABELS.content]: policy.content };
  return {
    [LABELS.managedBy]: tools.managedBy,
    [LABELS.inputs]: inputs,
    ...artifactLabels(reconciliation),
    ...manifestLabel,
    ...policyLabels,
  };
}
