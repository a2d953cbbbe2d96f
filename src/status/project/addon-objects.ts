/** The forms of AddonModule and AddonOperator. */

import { type ModelData, Model, type TypeMeta } from "@kubernetes-models/base";

import type { Resource } from "../../kube/index.ts";
import { API_VERSION } from "./status-fields.ts";
import type { ModuleSpec, ModuleStatus, OperatorStatus, Stamped } from "./status-fields.ts";

/** The part of object metadata that the operator reads or writes. */
export interface ObjectMeta {
  readonly name: string;
  readonly namespace?: string;
  readonly uid?: string;
  readonly generation?: number;
  readonly resourceVersion?: string;
  readonly deletionTimestamp?: string;
  readonly labels?: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
  readonly ownerReferences?: readonly OwnerReference[];
}

/** The object with which this one is deleted. */
export interface OwnerReference {
  readonly apiVersion: string;
  readonly kind: string;
  readonly name: string;
  readonly uid: string;
  readonly controller?: boolean;
  readonly blockOwnerDeletion?: boolean;
}

const common = {
  group: "addon-operator.io",
  version: "v1alpha1",
  namespaced: true,
  verbs: ["create", "delete", "get", "list", "patch", "update", "watch"],
};
/** The resource of AddonModules, known without discovery. */
export const ADDON_MODULES: Resource = { ...common, plural: "addonmodules", kind: "AddonModule" };
/** The resource of the AddonOperator, known without discovery. */
export const ADDON_OPERATORS: Resource = { ...common, plural: "addonoperators", kind: "AddonOperator" };

/** An AddonModule as data. */
export interface IAddonModule extends TypeMeta {
  readonly apiVersion: typeof API_VERSION;
  readonly kind: "AddonModule";
  readonly metadata: ObjectMeta;
  readonly spec?: ModuleSpec;
  readonly status?: Stamped<ModuleStatus>;
}

/** One module directory as a Kubernetes object (crds/addonmodules.yaml). */
export class AddonModule extends Model<IAddonModule> implements IAddonModule {
  readonly apiVersion: typeof API_VERSION = API_VERSION;
  readonly kind = "AddonModule" as const;
  readonly metadata!: ObjectMeta;
  readonly spec?: ModuleSpec;
  readonly status?: Stamped<ModuleStatus>;

  constructor(data: ModelData<IAddonModule>) {
    super();
    this.setDefinedProps(data);
  }
}

/** An AddonOperator as data. */
export interface IAddonOperator extends TypeMeta {
  readonly apiVersion: typeof API_VERSION;
  readonly kind: "AddonOperator";
  readonly metadata: ObjectMeta;
  readonly spec?: { readonly configDigest?: string };
  readonly status?: Stamped<OperatorStatus>;
}

/** The summary of all modules as a Kubernetes object (crds/addonoperators.yaml). */
export class AddonOperator extends Model<IAddonOperator> implements IAddonOperator {
  readonly apiVersion: typeof API_VERSION = API_VERSION;
  readonly kind = "AddonOperator" as const;
  readonly metadata!: ObjectMeta;
  readonly spec?: { readonly configDigest?: string };
  readonly status?: Stamped<OperatorStatus>;

  constructor(data: ModelData<IAddonOperator>) {
    super();
    this.setDefinedProps(data);
  }
}

/** Either kind. */
export type AddonObject = IAddonModule | IAddonOperator;
