/** Hooks and their bindings, as configured, and the reasons for which a hook runs. */

import type { Json, JsonObject } from "./json.ts";
import { readJson } from "./read-json.ts";

/** Names of the bindings that run at a fixed point of the lifecycle. */
export const LIFECYCLE = [
  "onStartup",
  "beforeAll",
  "afterAll",
  "beforeHelm",
  "afterHelm",
  "beforeDeleteHelm",
  "afterDeleteHelm",
] as const;
export type LifecycleName = (typeof LIFECYCLE)[number];

/** The default queue. */
export const MAIN_QUEUE = "main";

/** The common fields of bindings. `id` is unique within the hook; `name` is what the hook sees as `binding`. */
export interface CommonBinding {
  readonly id: string;
  readonly name: string;
  readonly allowFailure: boolean;
  readonly queue: string;
  readonly group: string | undefined;
  /** Effective list: the binding's own names, then those of its group. */
  readonly includeSnapshotsFrom: readonly string[];
}

export interface LifecycleBinding extends CommonBinding {
  readonly type: "lifecycle";
  readonly name: LifecycleName;
  /** Sort key among the hooks of a module. */
  readonly order: number;
}

export interface ScheduleBinding extends CommonBinding {
  readonly type: "schedule";
  readonly crontab: string;
}

export type WatchEvent = "Added" | "Modified" | "Deleted";

export interface LabelSelector {
  readonly matchLabels?: Readonly<Record<string, string>>;
  readonly matchExpressions?: readonly {
    readonly key: string;
    readonly operator: "In" | "NotIn" | "Exists" | "DoesNotExist";
    readonly values?: readonly string[];
  }[];
}

/** One `kubernetes` (v1) or `onKubernetesEvent` (v0) item, normalised. */
export interface KubernetesBinding extends CommonBinding {
  readonly type: "kubernetes";
  readonly apiVersion: string | undefined;
  readonly kind: string;
  readonly events: readonly WatchEvent[];
  readonly executeOnSynchronization: boolean;
  readonly waitForSynchronization: boolean;
  readonly keepFullObjects: boolean;
  readonly jqFilter: string | undefined;
  /** Object names to match; undefined = all. */
  readonly names: readonly string[] | undefined;
  readonly labelSelector: LabelSelector | undefined;
  /** Field selector in the API's syntax, e.g. `status.phase=Running,metadata.name!=x`. */
  readonly fieldSelector: string | undefined;
  /** Namespaces to match by name; undefined = all (or cluster-scoped). */
  readonly namespaces: readonly string[] | undefined;
  readonly namespaceLabels: LabelSelector | undefined;
}

/** One item of `kubernetesValidating` or `kubernetesMutating`; the fields are those of Kubernetes. */
interface AdmissionFields extends CommonBinding {
  readonly rules: readonly JsonObject[];
  /** Undefined = the operator's default. */
  readonly failurePolicy: "Fail" | "Ignore" | undefined;
  readonly sideEffects: "None" | "NoneOnDryRun";
  readonly timeoutSeconds: number;
  readonly matchConditions: readonly JsonObject[] | undefined;
  readonly labelSelector: LabelSelector | undefined;
  readonly namespaceLabels: LabelSelector | undefined;
}

export interface ValidatingBinding extends AdmissionFields {
  readonly type: "validating";
}

export interface MutatingBinding extends AdmissionFields {
  readonly type: "mutating";
}

export type AdmissionBinding = ValidatingBinding | MutatingBinding;

/** How the paths begin at which custom resources are converted; the name of the CRD follows. */
export const CONVERSION_PATHS = "/conversion/";

/** One step from a version of a custom resource to another: `v1` or `group/v1`, as the hook spells them. */
export interface ConversionRule {
  readonly fromVersion: string;
  readonly toVersion: string;
}

/** One item of `kubernetesCustomResourceConversion`. */
export interface ConversionBinding extends CommonBinding {
  readonly type: "conversion";
  readonly crdName: string;
  readonly conversions: readonly ConversionRule[];
}

/** `settings` of a hook: a token bucket over its runs. */
export interface HookSettings {
  readonly minIntervalMs: number;
  readonly burst: number;
}

/** The kinds of bindings; each has a file in `hooks/bindings/`. */
export type Binding =
  | LifecycleBinding
  | ScheduleBinding
  | KubernetesBinding
  | ValidatingBinding
  | MutatingBinding
  | ConversionBinding;

/** The bindings of a hook, by kind. */
export type Bindings = { readonly [B in Binding as B["type"]]: readonly B[] };

/** What a hook printed for `--config`, validated and normalised. */
export interface HookConfig {
  readonly version: "v0" | "v1";
  readonly bindings: Bindings;
  readonly settings: HookSettings | undefined;
}

/** A hook file on disk, before its configuration is read. */
export interface HookFile {
  /** Name in logs, metrics and statuses: from `hooks/` on when the path has it, else relative to the root. */
  readonly name: string;
  /** Absolute path. */
  readonly path: string;
  /** The hooks root it was found in (value of WORKING_DIR where no working directory is configured). */
  readonly root: string;
  /** Changes when the file's bytes or mode change. */
  readonly signature: string;
}

/** A hook of a batch file: its number, or the readiness probe of the module. */
export type BatchItem = number | "ready";

/**
 * A configured hook. `module` is undefined for global hooks. `id` is unique in the operator. `item` is set for
 * hooks of a batch file, which contains several hooks (docs/reference/hooks.md, "Batch hooks").
 */
export interface Hook extends HookFile {
  readonly id: string;
  readonly module: string | undefined;
  readonly item?: BatchItem | undefined;
  readonly config: HookConfig;
}

/** One item of a snapshot or of a Synchronization: the stored form of an object. */
export interface SnapshotItem {
  readonly object?: JsonObject;
  readonly filterResult?: Json;
  /** `object` as JSON text in UTF-8, if it is stored so: write this text, because each access to `object` parses it. */
  readonly objectText?: Uint8Array;
}

/** An item whose object is stored as text and parsed at each access. */
export class ObjectTextItem implements SnapshotItem {
  declare readonly filterResult?: Json;
  readonly objectText: Uint8Array;

  constructor(bytes: Uint8Array, result: Json | undefined) {
    this.objectText = bytes;
    if (result !== undefined) this.filterResult = result;
  }

  get object(): JsonObject {
    return readJson(Buffer.from(this.objectText).toString("utf8")) as JsonObject;
  }

  toJSON(): JsonObject {
    const { object, filterResult } = this;
    return filterResult === undefined ? { object } : { object, filterResult };
  }
}

export interface ObjectEvent {
  readonly watchEvent: WatchEvent;
  readonly kind: string;
  readonly namespace: string;
  readonly name: string;
  readonly item: SnapshotItem;
}

/** Why a hook runs; each is one element of the binding context file (docs/reference/hooks.md, "Input and output"). */
export type HookTrigger =
  | { readonly type: "lifecycle"; readonly binding: LifecycleBinding }
  | { readonly type: "schedule"; readonly binding: ScheduleBinding }
  | { readonly type: "synchronization"; readonly binding: KubernetesBinding }
  | { readonly type: "event"; readonly binding: KubernetesBinding; readonly event: ObjectEvent }
  | { readonly type: "validating"; readonly binding: ValidatingBinding; readonly request: JsonObject }
  | { readonly type: "mutating"; readonly binding: MutatingBinding; readonly request: JsonObject }
  | {
      readonly type: "conversion";
      readonly binding: ConversionBinding;
      readonly request: JsonObject;
      readonly rule: ConversionRule;
    };

/** Why a hook runs for a review: it answers a request of the API server, outside of the queues. */
export type ReviewTrigger = Extract<HookTrigger, { readonly request: JsonObject }>;
