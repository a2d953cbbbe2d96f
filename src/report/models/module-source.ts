/** The type of ModuleSource, generated from crds/modulesources.yaml by scripts/generate-models.mjs. */

import type { NamedMeta } from "../../kube/index.ts";
import type { Json } from "../../base/model/index.ts";

/** As data; its fields are explained in the CRD. */
export interface IModuleSource {
  readonly apiVersion: "addon-operator.io/v1alpha1";
  readonly kind: "ModuleSource";
  readonly metadata: NamedMeta;
  readonly spec?: {
    readonly registry?: string;
    readonly charts?: string;
    readonly unsigned?: boolean;
    readonly mirrors?: readonly string[];
    readonly secret?: string;
    readonly ca?: string;
    readonly plainHttp?: boolean;
    readonly interval?: string;
    readonly suspend?: boolean;
    readonly verify?: {
      readonly keys?: readonly string[];
    };
    readonly modules?: {
      [key: string]: {
        readonly version?: string;
        readonly tag?: string;
        readonly digest?: string;
        readonly chart?: string;
        readonly module?: { readonly [key: string]: Json };
        readonly order?: number;
        readonly enabled?: boolean;
      };
    };
    readonly update?: {
      readonly approval?: "auto" | "patch" | "manual";
      readonly windows?: ReadonlyArray<{
        readonly cron: string;
        readonly for: string;
      }>;
      readonly parallel?: number;
      readonly after?: string;
    };
  };
  readonly status?: {
    readonly observedGeneration?: number;
    readonly summary?: string;
    readonly waiting?: number;
    readonly lastCheck?: string;
    readonly nextCheck?: string;
    readonly lastHandledReconcileAt?: string;
    readonly modules?: ReadonlyArray<{
      readonly name: string;
      readonly version?: string;
      readonly digest?: string;
      readonly verifiedBy?: string;
      readonly error?: string;
      readonly check?: {
        readonly reason: "NotVerified" | "Blocked" | "Withdrawn" | "CheckFailed" | "Overridden";
        readonly message?: string;
      };
      readonly rejected?: readonly string[];
      readonly next?: {
        readonly version: string;
        readonly digest: string;
        readonly since: string;
        readonly until?: string;
        readonly held: string;
      };
    }>;
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
