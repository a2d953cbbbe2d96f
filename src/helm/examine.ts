/** What is asked of a release, and what is owed to it now. */

import type { HealthVerdict } from "../health/index.ts";
import { digest, type Clock, type Logger } from "../lib/index.ts";
import { objectOf, type Json, type JsonObject, type Module, type OnFailure } from "../model/index.ts";
import type { Helm, HelmRecorder, UpgradeCall } from "./binary/helm.ts";
import type { OnWait } from "./binary/hook-watch.ts";
import { inputsDigest, withValueTemplates } from "./chart/chart.ts";
import type { Capabilities, Chart, ChartReader } from "./chart/chart.ts";
import { decide, type ReleaseDecision } from "./decide.ts";
import type { Rendered } from "./manifest/manifest.ts";
import type { LookTools } from "./live-objects.ts";
import { originToWorkOn, type AdoptPolicy, type Origin, type Release } from "./release/observed-releases.ts";
import type { LateLabels } from "./release/releases.ts";
import type { ReleaseStore } from "./release/release-store.ts";
import { LABELS, type ReleaseMeta } from "./release/revisions.ts";
import { refusalOf, retriesOf, unhealthyRefusal } from "./rollback/memory.ts";
import type { Refusal, RollbackPolicy } from "./rollback/memory.ts";

/** The outcome of a helm step. */
export interface ReleaseOutcome {
  /** `restored`: the release was right, and missing objects were put back. */
  readonly action: "unchanged" | "labelled" | "restored" | "installed" | "upgraded" | "rolledBack";
  /** Why these inputs are not in force, and what is; undefined where they are. */
  readonly refused?: string | undefined;
  /** It is to be rejected, but nothing good is there to go back to. */
  readonly hasNoWayBack?: boolean;
  readonly release: Release | undefined;
  /** A release that a dead helm had left unfinished was recovered first. */
  readonly recovered: boolean;
}

/** What a module's release is made from. */
export interface HelmInput {
  readonly module: Pick<
    Module,
    "name" | "valuesKey" | "chartDir" | "chart" | "helm" | "onFailure" | "retries"
  >;
  /** JSON with `global` and the module's section. */
  readonly values: string;
  /** Digest of what people say of them: without what hooks change. */
  readonly given?: () => string;
}

export interface ReconcileRequest extends HelmInput {
  /** Missing objects of the release, as `nameOf` names them, with their namespaces. */
  readonly absent?: readonly string[];
  /** A person asks for the run: what was rejected is tried again. */
  readonly isAsked?: boolean;
  /** Where health counts: the release is not healthy yet, or in time; then it is rejected, unless it was good before. */
  readonly ailing?: Pick<HealthVerdict, "status" | "message"> | undefined;
  readonly signal: AbortSignal;
  /** Called with the chart's hook that a long run of helm waits for, and with undefined when it is over. */
  readonly onWait?: OnWait;
}

/** The CRDs of a module. */
export interface CrdRequest {
  /** Those of sub-charts that are on among them. */
  readonly files: readonly string[];
  /** The breaking change that a person has confirmed, by its token. */
  readonly confirmed?: string | undefined;
}

/** What a difference is made of. */
export interface DiffRequest extends ReconcileRequest {
  readonly crds: CrdRequest;
  /** What of an object is shown. */
  readonly shown: (object: JsonObject) => Json;
}

/** What is needed to work on a release. */
export interface Reconciler extends LookTools {
  readonly store: ReleaseStore;
  readonly helm: Helm;
  readonly charts: ChartReader;
  readonly capabilities: Capabilities;
  readonly managedBy: string;
  readonly tmpDir: string;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly adopt: AdoptPolicy;
  /** `--on-failure`. */
  readonly onFailure: OnFailure;
  /** `--helm-history-max`. */
  readonly historyMax: number;
  /** Whether a release is this operator's. */
  readonly isOurs: (release: string) => boolean;
  readonly recorder?: HelmRecorder | undefined;
  readonly lateLabels: LateLabels;
  /** Modules of the reload under way that are about to make objects, by `keyIn`. */
  readonly makers: (signal?: AbortSignal) => Promise<ReadonlyMap<string, string>>;
  /** Renders a chart as helm would install or upgrade now. */
  readonly render: (reconciliation: Reconciliation) => Promise<Rendered>;
  /** As `Helm.upgradeInstall`. */
  readonly upgradeInstall: (call: UpgradeCall) => Promise<void>;
}

/** The work on one release that is under way. */
export interface Reconciliation {
  readonly tools: Reconciler;
  readonly request: ReconcileRequest;
  readonly release: ReleaseMeta | undefined;
  readonly chart: Chart;
  readonly inputs: string;
  /** Undefined where an upgrade that fails is only tried again. */
  readonly policy: RollbackPolicy | undefined;
  /** Who made the release that is there. */
  readonly origin: Origin | undefined;
}

/** Looks at a release and decides; changes nothing. Throws ForeignReleaseError. */
export async function examine(
  tools: Reconciler,
  request: ReconcileRequest,
): Promise<{ readonly reconciliation: Reconciliation; readonly decision: ReleaseDecision }> {
  const { module } = request;
  const release = tools.store.get(module.name);
  const origin = release === undefined ? undefined : await originToWorkOn(tools, release);
  const chart = withValueTemplates(tools.charts.read(module), request.values);
  const { namespace, capabilities } = tools;
  const values = objectOf(JSON.parse(request.values));
  const helm = tools.helm.identity();
  const inputs = await inputsDigest({ module, namespace, chart, values, helm, capabilities });
  const policy = policyOf(tools, request, chart);
  const reconciliation = { tools, request, release, chart, inputs, policy, origin };
  return { reconciliation, decision: decisionOn(reconciliation) };
}

/** What is owed to a release as it is now. */
export function decisionOn(reconciliation: Reconciliation): ReleaseDecision {
  const { tools, release, chart, inputs, policy } = reconciliation;
  const { managedBy } = tools;
  const refusal = policy && refused(reconciliation, policy);
  return decide({ release, inputs, managedBy, lookup: chart.reach.lookup, refusal });
}

function refused({ tools, request, inputs }: Reconciliation, policy: RollbackPolicy): Refusal | undefined {
  const { module, isAsked = false, ailing } = request;
  const revisions = tools.store.revisions(module.name);
  if (isAsked) return undefined;
  return (
    refusalOf(revisions, inputs, policy) ??
    (ailing?.status === "False" ? unhealthyRefusal(revisions, inputs) : undefined)
  );
}

function policyOf(
  { onFailure }: Reconciler,
  { module, given }: ReconcileRequest,
  chart: Chart,
): RollbackPolicy | undefined {
  const retries = retriesOf(module, onFailure);
  return retries === undefined ? undefined : { retries, given: digest(chart.digest, given?.() ?? "") };
}

/** `null` removes the manifest label of the last revision; a new release has none. */
export function labelsOf(
  reconciliation: Reconciliation,
  manifest: string | undefined,
  isFirst: boolean,
): Record<string, string> {
  const { inputs, tools, policy } = reconciliation;
  const known = manifest ?? (isFirst ? undefined : "null");
  const label = known === undefined ? {} : { [LABELS.manifest]: known };
  const given = policy === undefined ? {} : { [LABELS.given]: policy.given };
  return { [LABELS.managedBy]: tools.managedBy, [LABELS.inputs]: inputs, ...label, ...given };
}
