/** Looks at a release and decides what is owed. */

import { digest, type Clock, type Logger } from "../lib/index.ts";
import { objectOf, type OnFailure } from "../model/index.ts";
import type { Helm, UpgradeCall } from "./binary/helm.ts";
import type { Capabilities } from "./chart/capabilities.ts";
import { inputsDigest, withValueTemplates, type Chart, type ChartReader } from "./chart/chart.ts";
import { decide, type ReleaseDecision } from "./decide.ts";
import type { Rendered } from "./manifest/manifest.ts";
import { originToWorkOn, type AdoptPolicy, type Origin } from "./ownership/adopt.ts";
import type { LookTools } from "./ownership/outliving.ts";
import {
  refusalOf,
  retriesOf,
  unhealthyRefusal,
  type Refusal,
  type RollbackPolicy,
} from "./rollback/memory.ts";
import { LABELS } from "./release/labels.ts";
import type { ReleaseStore } from "./release/release-store.ts";
import type { ReleaseMeta } from "./release/revisions.ts";
import type { ReconcileRequest } from "./request.ts";

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
  /** Called with a release that somebody made with helm and that a module takes over. */
  readonly adopting: (release: string) => void;
  /** Called with objects that are taken over from other releases. */
  readonly tookOver: (release: string, objects: readonly string[]) => void;
  /** Notes a release whose labels are still to be written. */
  readonly oweLabel: (release: string) => void;
  /** Modules of the reload under way that are about to make objects, by `keyIn`. */
  readonly makers: (signal?: AbortSignal) => Promise<ReadonlyMap<string, string>>;
  /** Renders a chart as helm would install or upgrade now. */
  readonly render: (reconciliation: Reconciliation, release: ReleaseMeta | undefined) => Promise<Rendered>;
  /** As `Helm.upgradeInstall`. */
  readonly upgradeInstall: (call: UpgradeCall) => Promise<void>;
}

/** The work on one release that is under way. */
export interface Reconciliation {
  readonly tools: Reconciler;
  readonly request: ReconcileRequest;
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
): Promise<{ reconciliation: Reconciliation; release: ReleaseMeta | undefined; decision: ReleaseDecision }> {
  const { module } = request;
  const release = tools.store.get(module.name);
  const origin = release === undefined ? undefined : await originToWorkOn(tools, release);
  const chart = withValueTemplates(tools.charts.read(module), request.values);
  const { namespace, helm, capabilities } = tools;
  const values = objectOf(JSON.parse(request.values));
  const inputs = await inputsDigest({
    module,
    namespace,
    chart,
    values,
    helm: helm.identity(),
    capabilities,
  });
  const policy = policyOf(tools, request, chart);
  const reconciliation = { tools, request, chart, inputs, policy, origin };
  return { reconciliation, release, decision: decisionOn(reconciliation, release) };
}

/** What is owed to a release as it is now. */
export function decisionOn(
  reconciliation: Reconciliation,
  release: ReleaseMeta | undefined,
): ReleaseDecision {
  const { tools, chart, inputs, policy } = reconciliation;
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
