/** The type and class of AddonModule, generated from crds/addonmodules.yaml by scripts/generate-models.mjs. */

import { Model, type ModelData } from "@kubernetes-models/base";

import type { NamedMeta } from "../../kube/index.ts";
import type { Json } from "../../base/model/index.ts";

/** As data; its fields are explained in the CRD. */
export interface IAddonModule {
  readonly apiVersion: "addon-operator.io/v1alpha1";
  readonly kind: "AddonModule";
  readonly metadata: NamedMeta;
  readonly spec?: {
    readonly enabled?: boolean;
    readonly order?: number;
    readonly configDigest?: string;
  };
  readonly status?: {
    readonly observedGeneration?: number;
    readonly state?:
      | "Pending"
      | "Running"
      | "Ready"
      | "Progressing"
      | "Unhealthy"
      | "Retrying"
      | "RolledBack"
      | "Invalid"
      | "Disabled"
      | "Deleting"
      | "Suspended";
    readonly enabledBy?: "values" | "module-values" | "hook" | "configmap" | "script" | "source" | "none";
    readonly enabledReason?: string;
    readonly valuesDigest?: string;
    readonly values?: Json;
    readonly valuesTruncated?: boolean;
    readonly lastRun?: {
      readonly trigger?: string;
      readonly startedAt?: string;
      readonly finishedAt?: string;
      readonly durationSeconds?: number;
      readonly result?: "Succeeded" | "Failed";
      readonly step?: string;
      readonly hook?: string;
      readonly message?: string;
      readonly attempts?: number;
    };
    readonly runSeconds?: ReadonlyArray<number>;
    readonly release?: {
      readonly name?: string;
      readonly namespace?: string;
      readonly revision?: number;
      readonly status?: string;
      readonly chartVersion?: string;
      readonly manifestChecksum?: string;
      readonly lastDeployed?: string;
    };
    readonly chartVersion?: string;
    readonly absent?: readonly string[];
    readonly health?: ReadonlyArray<{
      readonly object: string;
      readonly status: "Current" | "InProgress" | "Failed" | "Terminating" | "Unknown";
      readonly reason?: string;
      readonly message?: string;
    }>;
    readonly objects?: {
      readonly total?: number;
      readonly current?: number;
      readonly inProgress?: number;
      readonly failed?: number;
      readonly terminating?: number;
      readonly unknown?: number;
    };
    readonly driftedObjects?: number;
    readonly drift?: ReadonlyArray<{
      readonly object: string;
      readonly field: string;
      readonly manager?: string;
      readonly since?: string;
    }>;
    readonly identity?: {
      readonly serviceAccount: string;
      readonly hooksIsolated: boolean;
      readonly message?: string;
    };
    readonly source?: {
      readonly name: string;
      readonly version?: string;
      readonly digest?: string;
      readonly verifiedBy?: string;
      readonly next?: {
        readonly waitsFor:
          | "approval"
          | "window"
          | "age"
          | "turn"
          | "older"
          | "rejected"
          | "refused"
          | "blocked"
          | "withdrawn"
          | "registry";
        readonly version?: string;
        readonly digest?: string;
        readonly since: string;
        readonly until?: string;
        readonly message: string;
      };
    };
    readonly requires?: ReadonlyArray<{
      readonly of: "kubernetes" | "module" | "object";
      readonly name: string;
      readonly range?: string;
      readonly met: boolean;
      readonly reason?: "DependencyNotReady" | "DependencyDisabled" | "DependencyMissing";
      readonly message?: string;
      readonly since: string;
    }>;
    readonly requiresMet?: string;
    readonly failures?: number;
    readonly failingSince?: string;
    readonly nextRetryAt?: string;
    readonly waitsFor?: string;
    readonly reasons?: readonly string[];
    readonly warnings?: readonly string[];
    readonly lastHandledReconcileAt?: string;
    readonly conditions?: ReadonlyArray<{
      readonly type: string;
      readonly status: "True" | "False" | "Unknown";
      readonly observedGeneration?: number;
      readonly lastTransitionTime: string;
      readonly reason: string;
      readonly message: string;
    }>;
  };
}

/** As an object to be created. */
export class AddonModule extends Model<IAddonModule> implements IAddonModule {
  readonly apiVersion = "addon-operator.io/v1alpha1";
  readonly kind = "AddonModule";
  readonly metadata!: IAddonModule["metadata"];
  readonly spec?: NonNullable<IAddonModule["spec"]>;
  readonly status?: NonNullable<IAddonModule["status"]>;

  constructor(data: ModelData<IAddonModule>) {
    super();
    this.setDefinedProps(data);
  }
}
