/** The type and class of AddonOperator, generated from crds/addonoperators.yaml by scripts/generate-models.mjs. */

import { Model, type ModelData } from "@kubernetes-models/base";

import type { NamedMeta } from "../../kube/index.ts";

/** As data; its fields are explained in the CRD. */
export interface IAddonOperator {
  readonly apiVersion: "addon-operator.io/v1alpha1";
  readonly kind: "AddonOperator";
  readonly metadata: NamedMeta;
  readonly spec?: {
    readonly configDigest?: string;
  };
  readonly status?: {
    readonly observedGeneration?: number;
    readonly state?: "Pending" | "Running" | "Ready" | "Unhealthy" | "Retrying" | "Invalid";
    readonly modules?: {
      readonly summary?: string;
      readonly total?: number;
      readonly enabled?: number;
      readonly ready?: number;
      readonly progressing?: number;
      readonly retrying?: number;
      readonly unhealthy?: number;
      readonly invalid?: number;
      readonly disabled?: number;
      readonly suspended?: number;
      readonly blocked?: number;
    };
    readonly converge?: {
      readonly phase?: "starting" | "idle" | "beforeAll" | "discovery" | "crds" | "modules" | "afterAll";
      readonly cause?: string;
      readonly startedAt?: string;
      readonly finishedAt?: string;
      readonly progress?: string;
      readonly remaining?: number;
      readonly waitingSeconds?: number;
    };
    readonly observedConfig?: {
      readonly resourceVersion?: string;
      readonly digest?: string;
      readonly condition?: "ok" | "invalid" | "missing";
      readonly unknownKeys?: readonly string[];
    };
    readonly holds?: readonly string[];
    readonly missingRights?: readonly string[];
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
export class AddonOperator extends Model<IAddonOperator> implements IAddonOperator {
  readonly apiVersion = "addon-operator.io/v1alpha1";
  readonly kind = "AddonOperator";
  readonly metadata!: IAddonOperator["metadata"];
  readonly spec?: NonNullable<IAddonOperator["spec"]>;
  readonly status?: NonNullable<IAddonOperator["status"]>;

  constructor(data: ModelData<IAddonOperator>) {
    super();
    this.setDefinedProps(data);
  }
}
