/** The fields of both statuses (docs/STATUS.md, "Every field of the status"). */

import type { EnabledBy, Json } from "../../model/index.ts";
import type { ConfigCondition } from "../../state/index.ts";

/** API version of both kinds. */
export const API_VERSION = "addon-operator.io/v1alpha1";
/** Annotation on either kind that asks for a run now; its value is an opaque token. */
export const REQUESTED_AT = "reconcile.addon-operator.io/requestedAt";

const LONGEST_TOKEN = 256;
const TOKEN = /^[\u0020-\u007e]+$/;

/** Whether a token may be accepted: it appears in statuses, and anyone who may annotate can set it. */
export function isToken(text: string): boolean {
  return text.length <= LONGEST_TOKEN && TOKEN.test(text);
}

/** A condition in the form of metav1.Condition, without the generation it speaks of. */
export interface Condition {
  readonly type: ConditionType;
  readonly status: ConditionStatus;
  readonly reason: string;
  readonly message: string;
  readonly lastTransitionTime: string;
}
export type ConditionType = "Ready" | "Reconciling" | "Stalled" | "Enabled" | "Suspended";
export type ConditionStatus = "True" | "False" | "Unknown";

/** `status.state` of an AddonModule (docs/STATUS.md, "States of a module"). */
export type ModuleState =
  | "Pending"
  | "Running"
  | "Ready"
  | "Retrying"
  | "Invalid"
  | "Disabled"
  | "Deleting"
  | "Suspended";

/** `spec` of an AddonModule. */
export interface ModuleSpec {
  readonly enabled: boolean;
  readonly order: number;
  readonly configDigest: string;
}

/** `status.lastRun`; times in RFC 3339. */
export interface LastRunStatus {
  readonly trigger: string;
  readonly startedAt: string;
  readonly finishedAt?: string;
  readonly durationSeconds?: number;
  readonly result?: "Succeeded" | "Failed";
  readonly step: string;
  readonly hook?: string;
  readonly message?: string;
  readonly attempts: number;
}

/** `status.release`; times in RFC 3339. */
export interface ReleaseStatus {
  readonly name: string;
  readonly revision: number;
  readonly status: string;
  readonly chartVersion?: string;
  readonly manifestChecksum?: string;
  readonly lastDeployed?: string;
}

/** `status` of an AddonModule without `observedGeneration`, which the writer adds to it and to each condition. */
export interface ModuleStatus {
  readonly state: ModuleState;
  readonly enabledBy: EnabledBy;
  readonly enabledReason?: string;
  readonly valuesDigest: string;
  readonly values?: Json;
  readonly valuesTruncated?: boolean;
  readonly lastRun?: LastRunStatus;
  readonly release?: ReleaseStatus;
  readonly absent?: readonly string[];
  readonly failures: number;
  readonly nextRetryAt?: string;
  readonly lastHandledReconcileAt?: string;
  readonly conditions: readonly Condition[];
}

/** `status.state` of the AddonOperator. */
export type OperatorState = "Pending" | "Running" | "Ready" | "Retrying" | "Invalid";

/** `status.modules` of the AddonOperator: how many modules are in which state. */
export interface ModuleCounts {
  readonly summary: string;
  readonly total: number;
  readonly enabled: number;
  readonly ready: number;
  readonly progressing: number;
  readonly retrying: number;
  readonly invalid: number;
  readonly disabled: number;
  readonly suspended: number;
}

/** `status.converge` of the AddonOperator; times in RFC 3339. */
export interface ConvergeStatus {
  readonly phase: string;
  readonly cause?: string;
  readonly startedAt?: string;
  readonly finishedAt?: string;
  readonly progress?: string;
  readonly remaining?: number;
}

/** `status` of the AddonOperator without `observedGeneration`. */
export interface OperatorStatus {
  readonly state: OperatorState;
  readonly modules: ModuleCounts;
  readonly converge: ConvergeStatus;
  readonly observedConfig: {
    readonly resourceVersion?: string;
    readonly digest: string;
    readonly condition: ConfigCondition;
    readonly unknownKeys?: readonly string[];
  };
  readonly holds?: readonly string[];
  readonly missingRights?: readonly string[];
  readonly lastHandledReconcileAt?: string;
  readonly conditions: readonly Condition[];
}

/** A status as it is on the server: with the generation it speaks of. */
export type Stamped<S extends { readonly conditions: readonly Condition[] }> = Omit<S, "conditions"> & {
  readonly observedGeneration: number;
  readonly conditions: readonly (Condition & { readonly observedGeneration?: number })[];
};
