/** What is asked of a release, whose it is, and what is owed to it now (docs/MODULES.md, "The chart"). */

import { provesBroken, type HealthVerdict } from "../health/index.ts";
import { digest, oneLine, type Clock, type Logger } from "../lib/index.ts";
import { objectOf, type Json, type JsonObject, type Module, type OnFailure } from "../model/index.ts";
import { ForeignReleaseError } from "./binary/helm-errors.ts";
import type { Helm, HelmRecorder, UpgradeCall } from "./binary/helm.ts";
import { inputsDigest, withValueTemplates } from "./chart/chart.ts";
import type { Capabilities, Chart, ChartReader } from "./chart/chart.ts";
import type { LookTools } from "./live-objects.ts";
import type { OnWait } from "./reconcile.ts";
import type { ReleaseStore } from "./release/release-store.ts";
import type { LateLabels } from "./release/releases.ts";
import { GO_LABELS, isCurrentScheme, isUnfinished, LABELS, type ReleaseMeta } from "./release/revisions.ts";
import type { Rendered } from "./rendering.ts";
import { policyOf, refusalOf, unhealthyRefusal, type Refusal, type RollbackPolicy } from "./rollback.ts";
import { refusalByHand } from "./rollback-by-hand.ts";

/** What people and statuses see of a release. `lastDeployed` in ms since the epoch. */
export interface Release {
  readonly name: string;
  readonly revision: number;
  readonly status: string;
  readonly chartVersion: string | undefined;
  readonly manifestChecksum: string | undefined;
  readonly lastDeployed: number | undefined;
}

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
  > &
    Partial<Pick<Module, "crdFiles">>;
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
  /** Token of the existing objects that a person allows to be taken over. */
  readonly confirmedTakeover?: string | undefined;
  /** Where health counts: the release is not healthy yet, or in time; then it is rejected, unless it was good before. */
  readonly ailing?: Pick<HealthVerdict, "status" | "message" | "isOutage" | "isFailing"> | undefined;
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
  /** Unpacks a chart again where its directory was emptied from outside. */
  readonly restoreChart?: ((chartDir: string) => Promise<void>) | undefined;
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
  /** Digest of what people say of the release: its chart, and the values without what hooks change. */
  readonly given: string;
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
  await tools.restoreChart?.(module.chartDir);
  const chart = withValueTemplates(tools.charts.read(module), request.values);
  const { namespace, capabilities } = tools;
  const values = objectOf(JSON.parse(request.values));
  const made = { module, namespace, chart, values, capabilities };
  const inputs = await inputsDigest({ ...made, helm: tools.helm.identity() });
  const given = digest(chart.digest, request.given?.() ?? "");
  const content = await inputsDigest({ ...made, helm: "" });
  const policy = policyOf(tools, module, { given, content });
  const reconciliation = { tools, request, release, chart, inputs, given, policy, origin };
  return { reconciliation, decision: decisionOn(reconciliation) };
}

/** What is owed to a release as it is now. */
export function decisionOn(reconciliation: Reconciliation): ReleaseDecision {
  const { tools, release, chart, inputs } = reconciliation;
  const { managedBy } = tools;
  const refusal = refused(reconciliation);
  return decide({ release, inputs, managedBy, lookup: chart.reach.lookup, refusal });
}

function refused({ tools, request, inputs, given, policy }: Reconciliation): Refusal | undefined {
  const { module, isAsked = false, ailing } = request;
  const revisions = tools.store.revisions(module.name);
  if (isAsked) return undefined;
  const byHand = refusalByHand(revisions, given);
  if (byHand !== undefined || policy === undefined) return byHand;
  return (
    refusalOf(revisions, inputs, policy) ??
    (provesBroken(ailing) ? unhealthyRefusal(revisions, inputs) : undefined)
  );
}

/** What a run has to do about a release. */
export type ReleaseDecision =
  | { readonly act: "nothing" }
  /** Straight to `helm upgrade --install`. */
  | { readonly act: "install" | "upgrade"; readonly why: string }
  /** Mark the record failed, then upgrade. */
  | { readonly act: "recover"; readonly why: string }
  /** Render first; an equal manifest is only labelled. */
  | { readonly act: "compare"; readonly why: string }
  /** Go back to the good revision, or stay there where that is done. */
  | { readonly act: "rollback" | "stay"; readonly why: string; readonly refusal: Refusal };

/** Everything that the decision depends on. */
export interface DecisionInput {
  readonly release: Pick<ReleaseMeta, "status" | "labels"> | undefined;
  /** Digest of the inputs as they are now. */
  readonly inputs: string;
  readonly managedBy: string;
  /** Templates look things up in the cluster. */
  readonly lookup: boolean;
  /** These inputs are not to be tried. */
  readonly refusal?: Refusal | undefined;
}

/**
 * Whether a run calls helm: the first row that applies.
 *
 * | module and release                                             | what follows                                      |
 * | -------------------------------------------------------------- | ------------------------------------------------- |
 * | the module is suspended, or has no chart (`withoutHelm`)       | nothing                                           |
 * | the release is somebody else's (`originToWorkOn`)              | the run fails, and a person is needed             |
 * | there is no release, or it was uninstalled                     | helm upgrade --install                            |
 * | pending, or being uninstalled: a helm died at it               | marked as failed, then as one that failed         |
 * | the inputs were rejected, and the release did not go back yet  | helm rollback                                     |
 * | the same, and it did                                           | it stays; absent objects are put back             |
 * | not deployed: failed, superseded …                             | helm upgrade                                      |
 * | no label of this operator; inputs changed; templates look things up | rendered; helm upgrade if the manifest differs, else labels, and absent objects are put back |
 * | the same inputs, objects are absent                            | put back without helm (`restoreObjects`)          |
 * | the same inputs                                                | nothing                                           |
 *
 * *Inputs* are the files of the chart, the section, what its templates can reach of `global`, name and namespace, the helm
 * binary, and what the server offers where templates ask for it (`inputsDigest`).
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
  return input.lookup ? { act: "compare", why: "templates look things up" } : { act: "nothing" };
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
  const memory = policy && { [LABELS.given]: policy.given, [LABELS.content]: policy.content };
  return { [LABELS.managedBy]: tools.managedBy, [LABELS.inputs]: inputs, ...label, ...memory };
}

/** Which releases of others a module takes over (`--adopt`). */
export type AdoptPolicy = "all" | "go" | "none";

/** Who made a release: this operator, another one of its kind, the Go operator, or somebody with helm. */
export type Origin = "ours" | "other" | "go" | "hand";

/** The origin by a release's labels; `goMark` = an older Go operator has marked its values. */
export function originOf(
  { labels }: Pick<ReleaseMeta, "labels">,
  managedBy: string,
  goMark: boolean,
): Origin {
  const label = labels[LABELS.managedBy];
  if (label === managedBy) return "ours";
  if (isCurrentScheme(label)) return "other";
  // A label of another scheme version does not show which operator wrote it.
  if (label !== undefined) return "ours";
  return goMark || GO_LABELS.some((name) => name in labels) ? "go" : "hand";
}

/** Whether a module may take over a release of this origin. */
export function mayAdopt(policy: AdoptPolicy, origin: Origin): boolean {
  if (origin === "ours") return true;
  if (origin === "other" || policy === "none") return false;
  return origin === "go" || policy === "all";
}

/** Who made the release that a module is about to work on. Throws ForeignReleaseError where it must be left alone. */
async function originToWorkOn(
  tools: Pick<Reconciler, "store" | "managedBy" | "adopt">,
  release: ReleaseMeta,
): Promise<Origin> {
  const { store, managedBy, adopt } = tools;
  let origin = originOf(release, managedBy, false);
  if (origin === "hand" && (await hasGoMark(store, release))) origin = "go";
  if (mayAdopt(adopt, origin)) return origin;
  throw new ForeignReleaseError(
    release.name,
    OWNERS[origin] + (origin === "other" ? "" : ` (--adopt=${adopt})`),
  );
}

const OWNERS: Readonly<Record<Origin, string>> = {
  ours: "this addon-operator",
  other: "another addon-operator",
  go: "the Go operator",
  hand: "whoever made it with helm",
};

/** A record that cannot be read is left to helm, which says what is wrong. */
function hasGoMark(store: ReleaseStore, release: ReleaseMeta): Promise<boolean> {
  return store.summary(release).then(
    ({ goMark }) => goMark,
    (error: unknown) => {
      if (error instanceof SyntaxError) return false;
      throw new Error(`cannot tell who made release "${release.name}": ${oneLine(error)}`, { cause: error });
    },
  );
}
