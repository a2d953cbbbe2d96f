/** Types of the work on releases: requests, tools, and the state of one reconciliation. */

import type { HealthCondition } from "../kube/health/index.ts";
import type { Discovery, KubeClient } from "../kube/index.ts";
import type { Clock, Logger } from "../base/index.ts";
import type { Json, JsonObject, Module, OnFailure } from "../base/model/index.ts";
import type { AdoptPolicy, ReleaseOwner } from "./release/adoption.ts";
import type { Helm, HelmReport } from "./binary/helm.ts";
import type { Capabilities } from "./chart/capabilities.ts";
import type { Chart, ChartReader } from "./chart/chart.ts";
import type { CrdRequest } from "./crds/crd.ts";
import type { ObjectRef, RenderedChart } from "./manifest/manifest.ts";
import type { DeferredLabels } from "./release/deferred-labels.ts";
import type { ReleaseStore } from "./release/release-store.ts";
import type { ReleaseMeta } from "./release/revisions.ts";

/** A release as statuses report it. `lastDeployed` in ms since the epoch. */
export interface Release {
  readonly name: string;
  readonly namespace: string;
  readonly revision: number;
  readonly status: string;
  readonly chartVersion: string | undefined;
  readonly manifestChecksum: string | undefined;
  readonly lastDeployed: number | undefined;
}

export interface ReleaseOutcome {
  /** `restored`: the release was up to date, and missing objects were restored. */
  readonly action: "unchanged" | "labelled" | "restored" | "installed" | "upgraded" | "rolledBack";
  /** Why these inputs are rejected, and which revision is installed instead; undefined where they are applied. */
  readonly rollbackReason?: string | undefined;
  /** The release should be rolled back, but no revision is labelled good. */
  readonly lacksRollbackTarget?: boolean;
  readonly release: Release | undefined;
  /** The release was pending, because a helm was killed, and was recovered first. */
  readonly wasRecovered: boolean;
}

export interface HelmInput {
  readonly module: Pick<
    Module,
    "name" | "valuesKey" | "chartDir" | "chart" | "helm" | "onFailure" | "retries"
  > &
    Partial<Pick<Module, "crdFiles" | "serviceAccountName" | "namespace" | "origin">>;
  /** JSON with `global` and the module's section. */
  readonly values: string;
  /** Computes the digest of the values without changes by hooks. */
  readonly userValuesDigest?: () => string;
}

/** A hook of a chart that helm waits for. */
export interface HelmHook {
  /** E.g. `Job/migrate (pre-upgrade)`. */
  readonly name: string;
  /** In ms since the epoch. */
  readonly since: number;
}

/** Called with the hook that helm waits for, and with undefined when it is over. */
export type OnWait = (hook: HelmHook | undefined) => void;

export interface ReconcileRequest extends HelmInput {
  /** Missing objects of the release, as `resourceName` names them, with their namespaces. */
  readonly missingObjects?: readonly string[];
  /** A user requests the run, so that rejected inputs are tried again. */
  readonly isRequested?: boolean;
  /** Token of the existing objects whose adoption a user has confirmed. */
  readonly confirmedTakeover?: string | undefined;
  /** The condition of a release that is not healthy; with status False it is rejected, unless it was good before. */
  readonly unhealthy?: Pick<HealthCondition, "status" | "message" | "isOutage" | "isFailing"> | undefined;
  readonly signal: AbortSignal;
  /** Called with the chart's hook that a long run of helm waits for, and with undefined when it is over. */
  readonly onWait?: OnWait;
}

export interface DiffRequest extends ReconcileRequest {
  readonly crds: CrdRequest;
  readonly redact: (object: JsonObject) => Json;
}

export interface ReleaseCheckTools {
  readonly client: KubeClient;
  readonly discovery: Pick<Discovery, "resolve">;
  /** Namespace of the release, and of its objects without one. */
  readonly namespace: string;
}

/** On behalf of whom the requests of a module are sent, and the namespace of its release. */
export interface ModuleIdentity {
  readonly client: KubeClient;
  readonly namespace: string;
  /** Requests run under a ServiceAccount of the module, by impersonation; otherwise under the operator's own account. */
  readonly hasServiceAccount: boolean;
}

/** What belongs to the operator itself, whichever account acts for a module. */
interface OperatorTools {
  readonly client: KubeClient;
  /** Namespace of AddonModules, and of releases of modules that name none. */
  readonly namespace: string;
  /** Labels of namespaces that are created for modules (`--module-namespace-labels`). */
  readonly namespaceLabels: Readonly<Record<string, string>> | undefined;
}

export interface Reconciler extends ReleaseCheckTools {
  readonly discovery: Pick<Discovery, "resolve" | "invalidate" | "readVersions">;
  readonly operator: OperatorTools;
  readonly store: ReleaseStore;
  readonly helm: Helm;
  readonly charts: ChartReader;
  readonly capabilities: Capabilities;
  readonly managedBy: string;
  readonly tmpDir: string;
  /** Unpacks a chart archive again where something else has emptied its directory. */
  readonly restoreChart?: ((chartDir: string) => Promise<void>) | undefined;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly adopt: AdoptPolicy;
  readonly onFailure: OnFailure;
  readonly historyMax: number;
  readonly isOurs: (release: string) => boolean;
  /** Whether the directory of a module of this name exists; true until a second check confirms that it is missing. */
  readonly hasModule: (name: string) => boolean;
  /** Whether other releases must not adopt objects of this one: it is protected or suspended, or its removal is blocked. */
  readonly keepsObjects: (release: string) => boolean;
  /** Whether the last discovery allowed a release to move to a namespace. */
  readonly mayMove: (release: string, to: string) => boolean;
  readonly report?: HelmReport | undefined;
  readonly deferredLabels: DeferredLabels;
  /** Finds the module of the current converge that is about to apply each object, by `namespacedKey`. */
  readonly findPendingOwners: (signal?: AbortSignal) => Promise<ReadonlyMap<string, string>>;
  /** Finds the module from whose `crds/` the operator has applied the CRD of this name. */
  readonly findCrdModule: (crd: string) => string | undefined;
  /** Reports those former objects of a release that finalizers keep, until they are deleted. `tools` act for the module. */
  readonly watchFormerObjects: (
    release: string,
    objects: readonly ObjectRef[],
    tools: ReleaseCheckTools,
  ) => void;
  /** On behalf of whom the requests of a module are sent. The module must have been read before. */
  readonly getIdentity: (module: string) => ModuleIdentity;
  /** Renders a chart as helm would install or upgrade now. */
  readonly render: (reconciliation: Reconciliation) => Promise<RenderedChart>;
}

export interface Reconciliation {
  readonly tools: Reconciler;
  readonly request: ReconcileRequest;
  readonly release: ReleaseMeta | undefined;
  readonly chart: Chart;
  readonly inputsDigest: string;
  /** The release has the digest of the same inputs as version 0.2 computed it, with the helm binary instead of its version. */
  readonly hasFormerDigest: boolean;
  /** Digest of the chart and of the values without changes by hooks. */
  readonly userInputsDigest: string;
  /** Undefined where failed upgrades are only retried. */
  readonly policy: RollbackPolicy | undefined;
  readonly owner: ReleaseOwner | undefined;
}

/** When the upgrades of a module are rolled back. */
export interface RollbackPolicy {
  /** How often an upgrade may fail. */
  readonly retries: number;
  /** Digest of the chart and of the values without changes by hooks. */
  readonly userInputsDigest: string;
  readonly contentDigest: string;
}

/** The revision of a rejected upgrade, and the good one that is installed instead. */
export interface Rejection {
  readonly rejectedRevision: ReleaseMeta;
  readonly goodRevision: ReleaseMeta;
  /** The release has been rolled back to the good revision already. */
  readonly isRolledBack: boolean;
}
